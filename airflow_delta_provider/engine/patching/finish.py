"""After the transaction: the ledger from checkpoint and final state, the proof, and what a person is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_delta_provider.adapters.dialects.statement import Statement, Value
from airflow_delta_provider.adapters.writers.changes import Cell, Change
from airflow_delta_provider.core import checkpoint, ledger
from airflow_delta_provider.core.body import BodyFacts
from airflow_delta_provider.core.documents import Document
from airflow_delta_provider.core.documents.patch import OUTCOMES
from airflow_delta_provider.core.patch import (
    APPLIED,
    CONFLICT,
    CONFLICTED,
    DELETE,
    INSERT,
    NONE,
    SKIPPED,
    UPDATE,
    settled,
)
from airflow_delta_provider.core.patch_texts import applied_lines
from airflow_delta_provider.engine.opened import OpenSide
from airflow_delta_provider.engine.patching.attempt import BEFORE, NEITHER, Result, judge, named_state
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.options import LISTED_MAX, PREVIEW_ROWS, PatchOutcome, PatchPlan
from airflow_delta_provider.engine.patching.prove import Proof, prove
from airflow_delta_provider.engine.patching.rows import TouchedRows
from airflow_delta_provider.engine.patching.spool import ALONE, OPS, Block, Spool

HIDDEN = "***"
_OP_TEXTS = tuple(op.encode() for op in (*OPS, NONE))


@dataclass(slots=True)
class Ending:
    """What is known once the transaction is over. ``ledger``: None where a conflict left the table as it was.

    ``detail``: what of it is shown; ``shown``: by record id, what a listed record shows of its row.
    """

    patch_id: str
    checkpoint: str | None
    ledger: str | None
    outcomes: Mapping[str, int]
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    reasons: dict[int, str | None] = field(default_factory=dict)
    rollback: bool = False
    detail: str = "keys"
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    surroundings: str | None = None


@dataclass(slots=True)
class Draft:
    """A ledger's body in a local file, with the ending that it tells."""

    ending: Ending
    path: Path
    facts: BodyFacts


def draft(patch_id: str, checkpoint_id: str, spool: Spool, result: Result, path: Path) -> Draft:
    """Write a ledger's body; where the transaction was refused, only what stood in the way."""
    outcomes: Counter[str] = Counter()
    ending = Ending(patch_id, checkpoint_id or None, None, {})
    lines = checkpoint.LineFile(path)
    for entry in spool.entries():
        block = entry if isinstance(entry, Block) else None
        alone = {}
        for item in entry.alone.values() if isinstance(entry, Block) else entry:
            state = result.states[item.number]
            if not result.committed and state == BEFORE:
                continue
            op, outcome, reason = settled(item.decision, named_state(state))
            outcomes[outcome] += 1
            _list(ending, item.number, item.listed(reason), outcome, reason)
            alone[item.number] = ledger.ledger_line(item.id, op, outcome, reason, item.sort_key.hex())
        if block is not None and result.committed:
            lines.write(_applied(block, alone))
            outcomes[APPLIED] += len(block.ops) - block.ops.count(ALONE)
        else:
            lines.write(list(alone.values()))
    ending.outcomes = {name: outcomes.get(name, 0) for name in OUTCOMES}
    return Draft(ending, path, lines.close())


def settle(context: Context, drafted: Draft, step: Callable[[str], None]) -> Ending:
    """Publish a ledger."""
    ending = drafted.ending
    step("ledger")
    ending.ledger = ledger.publish_ledger(
        context.store,
        drafted.path,
        drafted.facts,
        ending.checkpoint or "",
        context.manifest_id,
        ending.outcomes,
        ending.patch_id,
    )
    step("ledger entry")
    checkpoint.log_once(context.store, context.pair_id, "ledger", ending.ledger)
    return ending


def _applied(block: Block, alone: Mapping[int, bytes]) -> list[bytes]:
    """Return the ledger lines of a block that was written; ``alone``: those of single records, by number."""
    lines = applied_lines(block.ids, [_OP_TEXTS[op] for op in block.ops], block.sort_keys)
    for number, line in alone.items():
        lines[number - block.number] = line
    return lines


def finished(context: Context, patch_id: str, checkpoint_id: str, found: tuple[str, Document], spool: Spool) -> Ending:
    """Return the ending of a patch whose ledger is logged already."""
    digest, header = found
    ending = Ending(patch_id, checkpoint_id, digest, dict(header["outcomes"]))
    lines = (line for batch in ledger.ledger_lines(context.store, header) for line in batch)
    for items in spool.batches():
        for item in items:
            line = next(lines)
            _list(ending, item.number, item.listed(line["reason"]), line["outcome"], line["reason"])
    return ending


def _list(ending: Ending, number: int, listed: dict[str, Any], outcome: str, reason: str | None) -> None:
    if reason is not None:
        ending.reasons[number] = reason
    into = {CONFLICTED: ending.conflicts, SKIPPED: ending.skipped}.get(outcome)
    if into is not None and len(into) < LISTED_MAX:
        into.append(listed)


def finish(
    context: Context, open_side: OpenSide, ending: Ending, spool: Spool, step: Callable[[str], None]
) -> PatchOutcome:
    """Prove what the ledger tells, and return the whole outcome."""
    proof: Proof | None = None
    if ending.ledger is not None:
        step("prove")
        reasons = None if ending.rollback else ending.reasons
        proof = prove(context, open_side, ending.patch_id, ending.ledger, spool.planned.bounds, reasons)
    left = [] if proof is None or ending.detail == "counts" else proof.left
    listed = [row | ending.shown.get(row["id"], {}) for row in left]
    conflicts, skipped = ([], []) if ending.detail == "counts" else (ending.conflicts, ending.skipped)
    return PatchOutcome(
        ending.patch_id,
        ending.checkpoint,
        ending.ledger,
        ending.outcomes,
        conflicts,
        skipped,
        None if proof is None else proof.manifest_id,
        listed,
        proof is not None and not proof.left_count,
        0 if proof is None else proof.left_count,
        ending.surroundings,
    )


def preview(context: Context, patch_id: str, rows: TouchedRows, spool: Spool) -> PatchPlan:
    """Return what a patch would do, with the first statements of each kind as they would run."""
    outcomes: Counter[str] = Counter()
    excluded: list[dict[str, Any]] = []
    rows.writer.begin(write=False)
    try:
        states = judge(rows, spool, set(), lock=False)
    finally:
        rows.writer.rollback()
    first: dict[str, list[Change]] = {DELETE: [], UPDATE: [], INSERT: []}
    for items in spool.batches():
        for item in items:
            if item.change is not None and states[item.number] != NEITHER:
                outcomes["planned"] += 1
                if len(first[item.change.op]) < PREVIEW_ROWS:
                    first[item.change.op].append(item.change)
                continue
            outcome = item.decision.outcome or CONFLICTED
            outcomes[outcome] += 1
            if outcome in (CONFLICTED, SKIPPED) and len(excluded) < LISTED_MAX:
                excluded.append(item.listed(item.decision.reason or CONFLICT))
    hidden = {column.own(context.side) for column in context.columns if column.keyed}
    statements = [
        _shown(statement, op, rows.writer.dialect.paramstyle, hidden)
        for op, changes in first.items()
        for statement in (rows.writer.statements(changes) if changes else [])
    ]
    return PatchPlan(
        patch_id,
        context.manifest_id,
        context.rule,
        dict(spool.planned.counts),
        {name: outcomes.get(name, 0) for name in ("planned", *OUTCOMES)},
        excluded,
        statements,
    )


def _shown(statement: Statement, op: str, style: str, hidden: set[str]) -> dict[str, Any]:
    text, _ = statement.render(style)
    values = []
    for part in statement.parts:
        if isinstance(part, Value):
            secret = isinstance(part, Cell) and part.column in hidden
            values.append(HIDDEN if secret else _plain(part.value))
    return {"op": op, "sql": text, "parameters": values}


def _plain(value: Any) -> Any:
    """Return a bound value as JSON shows it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)
