"""``recur``: differences that were patched and came back, or that persist over several runs."""

from __future__ import annotations

import argparse

from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.show import find_pair
from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import shown
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.engine.recurrence import find_recurring

ROWS_SHOWN = 20


def recur(arguments: argparse.Namespace) -> int:
    """List what recurs in a pair. Exit: 0 nothing, 1 something."""
    store = open_store(arguments.store)
    pair_id = find_pair(store, arguments.pair)
    found = find_recurring(store, pair_id, runs=arguments.runs, persisting=arguments.persisting)
    if arguments.json:
        output.print_json({"pair": {"id": pair_id, **log.read_pair(store, pair_id)}, **found.document()})
        return 1 if found.records else 0
    print(f"{len(found.records)} recurring, {found.came_back} of them patched before; {found.runs} runs looked at")
    for one in found.records[:ROWS_SHOWN]:
        key = ", ".join(shown(part) for part in one.key)
        print(
            f"  {one.category:15} {key}: {one.in_a_row} in a row, {one.runs} runs, patched {one.patched}  {one.id[:16]}"
        )
    if len(found.records) > ROWS_SHOWN:
        print(f"  and {len(found.records) - ROWS_SHOWN} more (--json lists all)")
    return 1 if found.records else 0
