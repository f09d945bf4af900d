"""Plan the shards of an opened reconciliation: how many, and where to cut, from samples and statistics of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.side import RangeCost
from airflow_delta_provider.core import rules, stream
from airflow_delta_provider.core.errors import shown
from airflow_delta_provider.core.plan import KeyRange, choose_bounds, shard_count, tile
from airflow_delta_provider.engine.named import decodes_in_threads
from airflow_delta_provider.engine.opened import Opened, shard_bounds

SIDES = ("source", "target")
WORKER_ROWS_MIN = 1_000_000
"""Fewest rows for which a second worker pays for its start: a second of CPU, which compares about so many rows."""
BOUND_SAMPLES = 64
"""Sampled keys wanted for each shard, so that shards come out about equal."""
SAMPLE_ROWS_MAX = 500_000
"""Sampled keys of one side, whatever number of shards was asked for."""


def worth_workers(opened: Opened, cores: int) -> int:
    """Return how many local processes so many cores are worth: half as many where both sides decode in threads."""
    return max(1, cores // 2) if _threaded(opened) else cores


def in_one_piece(opened: Opened) -> bool:
    """Tell whether one local process does better without shards that nobody asked for.

    A bound inside of rows that are stored together makes both shards decode them.
    """
    return _threaded(opened) and "shards" not in opened.spec.form and opened.spec.resume == "run"


def _threaded(opened: Opened) -> bool:
    return all(decodes_in_threads(opened.side(name)) for name in SIDES)


def plan_ranges(opened: Opened, *, count: int | None = None, workers: int = 1) -> list[KeyRange]:
    """Return half-open key ranges that tile the key range of the reconciliation, in order.

    ``count`` is how many to aim for; without it, one for each ``shards.rows`` rows, or one in all where a side can
    only be scanned. Small data sets may give fewer. No table is sorted for it.
    """
    bounds = shard_bounds(opened.spec, opened.typed) if count is None else None
    if bounds is not None:
        return tile(opened.key_range, bounds)
    asked = count if count is not None else opened.spec.shard_count
    rows = {name: opened.side(name).estimate_rows() or 0 for name in SIDES}
    if asked is None and any(opened.range_cost(name) is RangeCost.SCAN for name in SIDES):
        asked = 1
    wanted = shard_count(max(rows.values()), asked=asked, shard_rows=opened.spec.shard_rows)
    if asked is None and max(rows.values()) >= WORKER_ROWS_MIN * workers:
        wanted = max(wanted, workers)
    if wanted <= 1:
        return [opened.key_range]
    sampled = min(wanted * BOUND_SAMPLES, SAMPLE_ROWS_MAX)
    samples = [(sampled_keys(opened, name, sampled), rows[name]) for name in SIDES]
    weights = [(keys, max(count, len(keys))) for keys, count in samples if keys]
    return tile(opened.key_range, choose_bounds(weights, wanted))


def sampled_keys(opened: Opened, name: str, rows: int) -> list[bytes]:
    """Return key bytes of a sample of one side inside the key range; keys with NULL only where NULLs may match."""
    columns = opened.key_columns(name)
    table: pa.Table = opened.side(name).sample(tuple(column.name for column in columns), rows)
    if not table.num_rows:
        return []  # an empty side may not even know the carriers of its columns
    arrays: list[Any] = []
    carriers = []
    for column in columns:
        array = table.column(column.name).combine_chunks()
        typed = rules.Typed(column.carrier, array, None)
        try:
            typed = rules.apply_key_rules(list(column.rules), typed, name)
        except rules.UnparsedValue as error:
            raise error.error(
                f"{name}: key column {shown(column.name)!r} holds {shown(error.text)!r}, which {error.reason}.",
                where=name,
            ) from error
        arrays.append(typed.array)
        carriers.append(typed.type)
    if opened.spec.nulls != "match":
        whole = [all(valid) for valid in zip(*(array.is_valid().to_pylist() for array in arrays), strict=True)]
        mask = pa.array(whole, pa.bool_())
        arrays = [array.filter(mask) for array in arrays]
    keys = stream.key_bytes(arrays, carriers, opened.layout(name, opened.key_range))
    return [key for key in keys.to_pylist() if key in opened.key_range]


def grouped(ranges: Sequence[KeyRange], groups_max: int | None) -> list[list[KeyRange]]:
    """Share neighbouring ranges out to at most so many groups, of sizes that differ by one at most.

    Ranges are cut to about equal work, so groups of as many ranges are too.
    """
    count = len(ranges) if groups_max is None else min(len(ranges), groups_max)
    edges = [len(ranges) * number // count for number in range(count + 1)]
    return [list(ranges[first:last]) for first, last in pairwise(edges)]
