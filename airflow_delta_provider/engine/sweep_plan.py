"""Plan the shards of a sweep: where to cut, from a sample of the side and the packs of the predecessor."""

from __future__ import annotations

from airflow_delta_provider.adapters.side import RangeCost
from airflow_delta_provider.core.plan import KeyRange, choose_bounds, shard_count, tile
from airflow_delta_provider.engine.opened import shard_bounds
from airflow_delta_provider.engine.planning import BOUND_SAMPLES, sampled_keys
from airflow_delta_provider.engine.sweep_open import OpenedSweep

WORKER_ROWS_MIN = 200_000
"""Fewest rows for which a second worker pays for its start."""
PACKS_A_SHARD_MIN = 4
"""Packs of the predecessor for each shard from which on shards are cut where packs begin, so that none is read twice."""


def plan_sweep_ranges(opened: OpenedSweep, *, count: int | None = None, workers: int = 1) -> list[KeyRange]:
    """Return half-open key ranges that tile the key range of a sweep, in order.

    ``count`` is how many to aim for. Bounds come from samples of the side and, where it has enough packs, are moved to
    where a pack of the predecessor begins.
    """
    bounds = shard_bounds(opened.spec, opened.typed) if count is None else None
    if bounds is not None:
        return tile(opened.key_range, bounds)
    asked = count if count is not None else opened.spec.shard_count
    if asked is None and opened.range_cost("target") is RangeCost.SCAN:
        asked = 1
    before = [] if opened.predecessor is None else opened.predecessor.rows
    rows = max(opened.target.estimate_rows() or 0, sum(row.records for row in before))
    wanted = shard_count(rows, asked=asked, shard_rows=opened.spec.shard_rows)
    if asked is None and rows >= WORKER_ROWS_MIN * workers:
        wanted = max(wanted, workers)
    if wanted <= 1:
        return [opened.key_range]
    firsts = [row.first for row in before if row.first in opened.key_range]
    sample = sampled_keys(opened, "target", wanted * BOUND_SAMPLES)
    chosen = choose_bounds([(keys, max(rows, 1)) for keys in (sample or firsts,) if keys], wanted)
    if len(firsts) >= wanted * PACKS_A_SHARD_MIN:
        chosen = [max((first for first in firsts if first <= bound), default=firsts[0]) for bound in chosen]
    return tile(opened.key_range, chosen)
