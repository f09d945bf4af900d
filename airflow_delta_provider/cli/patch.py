"""``patch`` and ``rollback``: make one side what the other is, record it, prove it, and take it back."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from airflow_delta_provider.cli import output
from airflow_delta_provider.core.errors import InputDigestError, InputPolicyError
from airflow_delta_provider.core.ids import is_digest
from airflow_delta_provider.core.patch import PatchRule
from airflow_delta_provider.core.spec import load_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.engine.patching import (
    PatchOptions,
    PatchOutcome,
    PatchPlan,
    apply_patch,
    plan_patch,
    rollback_patch,
)

ROWS_SHOWN = 20


def patch(arguments: argparse.Namespace) -> int:
    """Plan or apply a patch. Exit: 0 done and equal, 1 conflicts, or something still differs."""
    from airflow_delta_provider.cli.compare import load_sign
    from airflow_delta_provider.cli.verify import read_trust

    _demand_digest(arguments.digest, "DIGEST")
    spec, store = load_spec(arguments.spec), open_store(arguments.store)
    options = PatchOptions(
        rule=PatchRule(arguments.rule, arguments.column, arguments.side),
        conflicts=arguments.conflicts,
        allow=frozenset(arguments.allow or ()),
        partial_deletes=arguments.partial_deletes,
        max_share=_share(arguments.max_share),
        max_age_s=arguments.max_age,
        trust=read_trust(arguments.trust),
        batch_rows=arguments.batch,
        pause_s=arguments.pause,
        checkpoint_scope=arguments.checkpoint_scope,
        ledger_detail=arguments.ledger_detail,
        sign=load_sign(arguments.sign) if arguments.sign else None,
        workers=arguments.workers or os.cpu_count() or 1,
    )
    if arguments.dry_run:
        plan = plan_patch(spec, store, arguments.digest, options)
        if arguments.json:
            output.print_json({**plan.document(), "dry_run": True})
        else:
            _print_plan(plan)
        return 1 if plan.outcomes["conflict"] else 0
    return _report(apply_patch(spec, store, arguments.digest, options), arguments.json, "equal")


def rollback(arguments: argparse.Namespace) -> int:
    """Take a patch back. Exit: 0 done and as before, 1 conflicts, or something is not as before."""
    from airflow_delta_provider.cli.compare import load_sign

    _demand_digest(arguments.patch, "PATCH")
    spec, store = load_spec(arguments.spec), open_store(arguments.store)
    options = PatchOptions(
        conflicts=arguments.conflicts,
        allow=frozenset(arguments.allow or ()),
        batch_rows=arguments.batch,
        pause_s=arguments.pause,
        checkpoint_scope=arguments.checkpoint_scope,
        ledger_detail=arguments.ledger_detail,
        sign=load_sign(arguments.sign) if arguments.sign else None,
    )
    return _report(rollback_patch(spec, store, arguments.patch, options), arguments.json, "as before")


def _demand_digest(text: str, where: str) -> None:
    if not is_digest(text):
        raise InputDigestError(f"{text[:80]!r} is not 64 lower-case hex digits.", where=where)


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError) as error:
        raise InputPolicyError(
            f"max_share is a share such as 0.1 or 10%, not {text[:40]!r}.", where="max_share"
        ) from error
    return share


def _report(outcome: PatchOutcome, as_json: bool, proved: str) -> int:
    if as_json:
        output.print_json(outcome.document())
    else:
        _print_outcome(outcome, proved)
    return 0 if outcome.proved and not outcome.outcomes.get("conflict") else 1


def _print_outcome(outcome: PatchOutcome, proved: str) -> None:
    print(f"patch       {outcome.patch_id}")
    print(f"            {_counts(outcome.outcomes)}")
    if not outcome.applied:
        print("            refused: rows were written after the comparison; nothing was changed")
    _print_rows("conflict", outcome.conflicts)
    _print_rows("skipped", outcome.skipped)
    if outcome.checkpoint:
        print(f"checkpoint  {outcome.checkpoint}")
    if outcome.surroundings:
        print(f"around      {outcome.surroundings}")
    if outcome.ledger:
        print(f"ledger      {outcome.ledger}")
        print(f"converged   {outcome.converged} ({proved if outcome.proved else f'{outcome.left_rows} rows are not'})")
        _print_rows("left", outcome.left)


def _print_plan(plan: PatchPlan) -> None:
    print(f"patch       {plan.patch_id}")
    print(f"            {_counts(plan.counts)}; {_counts(plan.outcomes)}")
    _print_rows("left out", plan.excluded)
    for statement in plan.statements:
        print(f"{statement['sql']}")
        print(f"    {json.dumps(statement['parameters'], ensure_ascii=True)}")


def _print_rows(label: str, rows: list[dict[str, Any]]) -> None:
    for row in rows[:ROWS_SHOWN]:
        key = ", ".join("NULL" if part is None else str(part) for part in row["key"])
        print(f"{label:11} {key} {row['reason'] or ''}".rstrip())
        for name, before, wanted in _cells(row):
            print(f"            {name}: {before} -> {wanted}")
    if len(rows) > ROWS_SHOWN:
        print(f"{label:11} and {len(rows) - ROWS_SHOWN} more; --json lists them")


def _cells(row: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield column, value before and wanted value of a listed record that shows its row; "-" where there is no row."""
    for place, name in enumerate(row.get("columns", ())):
        cells = (
            "-" if row[part] is None else json.dumps(row[part][place], ensure_ascii=True)
            for part in ("before", "wanted")
        )
        before, wanted = cells
        yield name, before, wanted


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
