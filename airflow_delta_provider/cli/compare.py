"""``check`` and ``run``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import RangeCost
from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.files import read_signer
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.spec import Spec, load_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.manners import explained, look_ahead
from airflow_delta_provider.engine.narrow import may_narrow, narrowing_of
from airflow_delta_provider.engine.opened import Opened, open_sides
from airflow_delta_provider.engine.planning import SIDES, plan_ranges
from airflow_delta_provider.engine.profile import profile_lines
from airflow_delta_provider.engine.run import Outcome, reconcile

STRATEGY_FORM = ("strategy", "strategy_asked", "strategy_reason", "buckets", "verdict")


def run(arguments: argparse.Namespace) -> int:
    """Compare and publish. Exit: 0 no discrepancy, 1 discrepancies."""
    spec = load_spec(arguments.spec)
    store = open_store(arguments.store)
    if arguments.sample:
        return _sample(arguments, spec, store)
    sign = load_sign(arguments.sign) if arguments.sign else None
    progress = output.ProgressBar(spec.name)
    try:
        outcome = reconcile(
            spec,
            store,
            open_side,
            shards=arguments.shards,
            workers=arguments.workers,
            sign=sign,
            progress=progress,
            tell=output.print_line,
        )
    finally:
        progress.close()
    if arguments.json:
        output.print_json(outcome_form(outcome))
    else:
        _print_outcome(outcome)
    if arguments.profile:
        print("\n".join(profile_lines(outcome.profile)), file=sys.stderr)
    return 1 if outcome.records else 0


def _sample(arguments: argparse.Namespace, spec: Spec, store: Store) -> int:
    """Compare some shards. Exit: 0 no discrepancy in them, 1 discrepancies."""
    from airflow_delta_provider.engine.sample import sample

    found = sample(spec, store, open_side, count=arguments.sample, shards=arguments.shards, tell=output.print_line)
    forms = [
        {
            "manifest": one.manifest,
            "label": one.label,
            "categories": {name: part["records"] for name, part in one.document["categories"].items()},
            "population": one.document["population"],
        }
        for one in found.looked
    ]
    if arguments.json:
        output.print_json({"sample": forms, "shards": found.shards, "verdict": None})
    else:
        for one, form in zip(found.looked, forms, strict=True):
            rows = form["population"]["source"]["rows"]
            print(
                output.printable(f"{one.label}: {rows} source rows, {one.document['body']['records']} records differ")
            )
            print(f"  sub-manifest  {one.manifest}")
        print(f"{len(forms)} of {found.shards} shards were compared; there is no verdict on the whole")
    return 1 if found.records else 0


def load_sign(path: str) -> Any:
    """Return what signs a manifest with the key that ``--sign`` names. Raises: as ``read_signer``."""
    from airflow_delta_provider.core.signing import envelope_signer

    return envelope_signer(read_signer(path))


def outcome_form(outcome: Outcome) -> dict[str, Any]:
    """Return what ``run --json`` prints."""
    manifest = outcome.manifest
    return {
        "manifest": outcome.receipt.manifest,
        "categories": {name: part["records"] for name, part in manifest["categories"].items()},
        "population": manifest["population"],
        "summary": outcome.summary,
        "structure": manifest["structure"],
        "pair": {"id": outcome.receipt.pair_id, **manifest["pair"]},
        "log": {"seq": outcome.receipt.seq},
        **{name: outcome.sidecar[name] for name in STRATEGY_FORM if name in outcome.sidecar},
        **({"recheck": outcome.sidecar["recheck"]} if "recheck" in outcome.sidecar else {}),
    }


def _print_outcome(outcome: Outcome) -> None:
    manifest, summary = outcome.manifest, outcome.summary
    pair, population = manifest["pair"], manifest["population"]
    print(output.printable(f"{pair['name']}: {pair['source']} -> {pair['target']}"))
    print(f"  {'':16}{'source':>14}{'target':>14}")
    for member in ("rows", "skipped", "null_key", "duplicate_key"):
        counts = [population[name][member] for name in SIDES]
        if member == "rows" or any(counts):
            print(f"  {member.replace('_', ' '):16}{counts[0]:>14}{counts[1]:>14}")
    print(f"  {'unchanged':16}{population['unchanged']:>14}")
    for name, part in manifest["categories"].items():
        print(f"  {name:16}{part['records']:>14}")
    for name, diverged, tolerated in summary["columns"]:
        if diverged or tolerated:
            note = f", {tolerated} equal only by a rule" if tolerated else ""
            print(f"  column {output.printable(name)}: {diverged} diverged{note}")
    if manifest["structure"]["findings"]:
        print(f"  schema findings: {manifest['structure']['findings']}")
    for line in _strategy_lines(outcome.sidecar):
        print(output.printable(line))
    verdict = "equal" if not outcome.records else f"{outcome.records} records differ"
    print(f"verdict   {verdict}{', probabilistic' if 'verdict' in outcome.sidecar else ''}")
    print(f"manifest  {outcome.receipt.manifest}")


def _strategy_lines(sidecar: Mapping[str, Any]) -> Iterator[str]:
    if "strategy_asked" not in sidecar:
        return
    counts = sidecar["buckets"]
    read = f", {counts['read']} of {counts['compared']} buckets read" if counts["compared"] else ""
    yield f"  strategy: {sidecar['strategy']}, asked for {sidecar['strategy_asked']}{read}"
    if "strategy_reason" in sidecar:
        yield f"  strategy: {sidecar['strategy_reason']}"
    if "verdict" in sidecar:
        yield f"  what is equal is only probably so: an error has a chance of {sidecar['verdict']['bound']}"


def check(arguments: argparse.Namespace) -> int:
    """Open both sides and print pairing and plan."""
    spec = load_spec(arguments.spec)
    with open_sides(spec, open_side) as opened:
        ranges = plan_ranges(opened, count=arguments.shards)
        look_ahead(opened, ranges)
        form = _check_form(opened, ranges, [key_range.label(opened.shared.key_types) for key_range in ranges])
        if may_narrow(opened):
            how = narrowing_of(opened)
            form["strategy"] = {"asked": spec.strategy, "reason": how.reason, "taken": how.strategy}
    if arguments.json:
        output.print_json(form)
    else:
        _print_check(form)
    return 0


def _scan_form(opened: Opened, name: str, ranges: list[KeyRange]) -> dict[str, Any] | None:
    """Return what the engine says that the whole read will look at: the sum over shards where an index serves them."""
    found = explained(opened, name, opened.key_range)
    if found is None:
        return None
    times = len(ranges) if opened.range_cost(name) is RangeCost.SCAN else 1
    size = found.payload_bytes
    return {
        "bytes": None if size is None else size * times,
        "rows": found.rows * times,
        "sorted_rows": found.sorted_rows,
    }


def _check_form(opened: Opened, ranges: list[KeyRange], labels: list[str]) -> dict[str, Any]:
    columns = {name: {column.name: column for column in opened.side(name).columns} for name in SIDES}
    pairs = [
        {
            "column": pair.target,
            "source": pair.source,
            "source_type": columns["source"][pair.source].engine_type,
            "target": pair.target,
            "target_type": columns["target"][pair.target].engine_type,
            "compared_as": schema,
            "key": pair in opened.pairing.key,
        }
        for pair, schema in zip(
            (*opened.pairing.key, *opened.pairing.values),
            [form for _, form in (*opened.shared.schema_form["key"], *opened.shared.schema_form["columns"])],
            strict=True,
        )
    ]
    return {
        "pair": opened.shared.context.pair,
        "columns": pairs,
        "excluded": list(opened.pairing.excluded),
        "structure": documents.parse_structure(opened.shared.structure)["findings"],
        "rules": opened.shared.contract_form["rules"],
        "sides": {
            name: {
                "kind": opened.side(name).kind,
                "order": opened.order(name).value,
                "range_cost": opened.range_cost(name).value,
                "rows_estimate": opened.side(name).estimate_rows(),
                "scan": _scan_form(opened, name, ranges),
            }
            for name in SIDES
        },
        "shards": labels,
    }


def _scan_line(scan: Mapping[str, Any]) -> str:
    size = "" if scan["bytes"] is None else f", about {scan['bytes']} bytes"
    sort = f", {scan['sorted_rows']} rows sorted by the engine" if scan["sorted_rows"] else ""
    return f"the engine would scan {scan['rows']} rows{size}{sort}"


def _print_check(form: dict[str, Any]) -> None:
    for line in _check_lines(form):
        print(output.printable(line))


def _check_lines(form: dict[str, Any]) -> Iterator[str]:
    yield f"{form['pair']['name']}: {form['pair']['source']} -> {form['pair']['target']}"
    for pair in form["columns"]:
        mark = "key" if pair["key"] else "   "
        types = f"{pair['source']} ({pair['source_type']}) -> {pair['target']} ({pair['target_type']})"
        yield f"  {mark} {types} as {pair['compared_as']}"
    for name in form["excluded"]:
        yield f"      {name}: excluded"
    for finding in form["structure"]:
        yield f"  schema: {finding['kind']} {finding['column']}: {finding['source_type']} -> {finding['target_type']}"
    for name in SIDES:
        side = form["sides"][name]
        cost = ", one key range costs a scan: spilled once" if side["range_cost"] == "scan" else ""
        yield f"  {name}: {side['kind']}, about {side['rows_estimate']} rows, order {side['order']}{cost}"
        if side["scan"] is not None:
            yield f"  {name}: {_scan_line(side['scan'])}"
    if "strategy" in form:
        how = form["strategy"]
        yield f"  strategy: {how['taken']}, asked for {how['asked']}{': ' + how['reason'] if how['reason'] else ''}"
    yield f"  {len(form['shards'])} shards"
    for label in form["shards"][:20]:
        yield f"    {label}"
