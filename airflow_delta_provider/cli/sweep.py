"""``sweep``."""

from __future__ import annotations

import argparse
import os
from typing import Any

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.compare import load_sign
from airflow_delta_provider.core.spec import load_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.engine.sweep import SweepOutcome
from airflow_delta_provider.engine.sweep import sweep as sweep_data_set
from airflow_delta_provider.engine.sweep_whole import coverage

SHOWN = ("read", "new", "changed", "unchanged", "absent", "skipped", "failed", "null_key", "duplicate_key")


def sweep(arguments: argparse.Namespace) -> int:
    """Sweep and publish. Exit: 0 nothing changed, 1 keys are new, changed, absent, or could not be read."""
    spec = load_spec(arguments.spec, sweep=True)
    store = open_store(arguments.store)
    sign = load_sign(arguments.sign) if arguments.sign else None
    progress = output.ProgressBar(spec.name)
    try:
        outcome = sweep_data_set(
            spec,
            store,
            open_side,
            shards=arguments.shards,
            workers=arguments.workers or os.cpu_count() or 1,
            sign=sign,
            progress=progress,
            predecessor=arguments.predecessor,
        )
    finally:
        progress.close()
    if arguments.json:
        output.print_json(sweep_form(outcome))
    else:
        _print_outcome(outcome)
    return 1 if outcome.records or outcome.generation["sweep"]["failed"] else 0


def sweep_form(outcome: SweepOutcome) -> dict[str, Any]:
    """Return what ``sweep --json`` prints."""
    manifest, generation = outcome.manifest, outcome.generation
    return {
        "manifest": outcome.receipt.manifest,
        "categories": {name: part["records"] for name, part in manifest["categories"].items()},
        "population": manifest["population"],
        "summary": outcome.summary,
        "generation": outcome.receipt.generation,
        "sweep": generation["sweep"],
        "number": generation["generation"],
        "predecessor": generation["predecessor"],
        "coverage": {**coverage(generation), "filter": outcome.filter},
        "measures": outcome.sidecar["sweep"],
        "structure": manifest["structure"],
        "pair": {"id": outcome.receipt.pair_id, **manifest["pair"]},
        "log": {"seq": outcome.receipt.seq, "generation_seq": outcome.receipt.generation_seq},
    }


def _print_outcome(outcome: SweepOutcome) -> None:
    manifest, generation = outcome.manifest, outcome.generation
    pair, counts = manifest["pair"], generation["sweep"]
    before = f"after {generation['predecessor'][:12]}" if generation["predecessor"] else "the first of its series"
    print(f"{pair['name']}: {pair['target']}, generation {generation['generation']}, {before}")
    for name in SHOWN:
        if counts[name] or name in SHOWN[:5]:
            print(f"  {name.replace('_', ' '):16}{counts[name]:>14}")
    if outcome.filter is not None:
        print(f"  filter: {outcome.filter}")
    if not coverage(generation)["whole"]:
        print(f"  covers {outcome.range_label} only: keys outside were not looked at")
    if manifest["structure"]["findings"]:
        print(f"  schema findings: {manifest['structure']['findings']}")
    changed = outcome.records
    print(f"verdict   {'nothing changed' if not changed else f'{changed} keys changed'}", end="")
    print(f", {counts['failed']} could not be read" if counts["failed"] else "")
    print(f"manifest  {outcome.receipt.manifest}")
    print(f"generation {outcome.receipt.generation}")
