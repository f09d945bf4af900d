"""What a run does for the sake of the other users of a side: it reads no faster than it may, waits, and looks before it reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_delta_provider.adapters.load import Explained
from airflow_delta_provider.adapters.side import Order, RangeCost, Side
from airflow_delta_provider.core.errors import SideSortError, SpecValueError, TooDifferentError
from airflow_delta_provider.core.manners import NO_MANNERS, Limits, Manners
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.engine.named import named, server

SIDES = ("source", "target")
SORTED_ROWS_MAX = 5_000_000
"""Rows that an engine may be made to sort without being asked for leave."""
ESTIMATE_FACTOR = 2
"""How far an estimate of rows may be off before a run is ended early by it."""
PAUSE_STEP_S = 5.0
Tell = Callable[[str], None]
"""Takes one line for people."""


def silent(line: str) -> None:
    """Tell nobody."""


def manners_for(spec: Any, name: str) -> Manners:
    """Return what one side of a specification asks."""
    found = spec.manners.get(name, NO_MANNERS)
    return found if isinstance(found, Manners) else NO_MANNERS


def introduce(side: Side, manners: Manners, name: str) -> None:
    """Give a side its statement timeout. Raises: SpecValueError where it has no server to be considerate of."""
    asked = [manners.statement_timeout_s, manners.lag_s, manners.sessions]
    found = server(side)
    if found is None:
        if any(value is not None for value in asked):
            raise SpecValueError(f"{side.kind} has neither statements nor sessions.", where=f"manners.{name}")
        return
    if manners.statement_timeout_s is not None:
        found.limit_statements(manners.statement_timeout_s)


def wait_until_quiet(
    opened: Any,
    *,
    tell: Tell = silent,
    watch: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait while a side's server is busier, or its replica later, than its manners allow; go on by itself.

    Both sides are closed meanwhile, since a snapshot kept open would hold up the replay that is waited for; they open again
    on use. ``watch`` is called now and then, and may end the wait by raising.
    """
    before = ""
    while busy := _busy(opened):
        if not before:
            opened.close()
        if busy != before:
            tell(f"Waiting: {busy}")
        before = busy
        watch()
        sleep(PAUSE_STEP_S)
    if before:
        tell("Going on")


def _busy(opened: Any) -> str:
    for name in SIDES:
        manners, side = manners_for(opened.spec, name), server(opened.side(name))
        if side is None or (manners.lag_s is None and manners.sessions is None):
            continue
        with named(name):
            load = side.load()
        if manners.sessions is not None and load.sessions > manners.sessions:
            return f"{name}: {load.sessions} active sessions, {manners.sessions} allowed"
        if manners.lag_s is not None and load.lag_s > manners.lag_s:
            return f"{name}: replication is {load.lag_s:.0f} s late, {manners.lag_s:.0f} s allowed"
    return ""


def explained(opened: Any, name: str, key_range: KeyRange) -> Explained | None:
    """Return what the engine's planner says of reading one range of a side in key order, None where it says nothing."""
    side = server(opened.side(name))
    if side is None or opened.order(name) is not Order.PROMISED:
        return None
    with named(name):
        return side.explained(opened.request(name, key_range, ordered=True))


def look_ahead(opened: Any, ranges: Sequence[KeyRange]) -> None:
    """Ask the planners what the shards will cost, and refuse a large sort that was not allowed by name.

    Where no index serves a range, every shard scans and sorts, so the whole table counts. Raises: SideSortError.
    """
    for name in SIDES:
        if (
            manners_for(opened.spec, name).sort == "allow"
            or (opened.side(name).estimate_rows() or 0) <= SORTED_ROWS_MAX
        ):
            continue
        scans = opened.range_cost(name) is RangeCost.SCAN
        found = explained(opened, name, opened.key_range if scans else ranges[len(ranges) // 2])
        if found is not None and found.sorted_rows > SORTED_ROWS_MAX:
            raise SideSortError(
                f"{name}: {opened.side(name).where} would be sorted by its engine, about {found.sorted_rows} rows at once.",
                where=f"manners.{name}.sort",
            )


def records_at_most(opened: Any) -> int | None:
    """Return how many records are too many whatever is still to come: None without a limit of share, or an estimate.

    Twice the share of the estimated rows, so that an estimate that is half of the truth ends no run. Ask before a read runs.
    """
    share = opened.spec.limits.max_share
    rows = 0 if share is None else max(opened.side(name).estimate_rows() or 0 for name in SIDES)
    return None if share is None or not rows else int(ESTIMATE_FACTOR * share * rows)


def too_different(limits: Limits, most: int) -> TooDifferentError:
    """Return the refusal of a run that has more records than it can have within its share."""
    return TooDifferentError(
        f"more than {most} records differ, and no more than {float(limits.max_share or 0):.4%} of the rows may.",
        where="limits.max_share",
    )


def check_share(limits: Limits, records: int, population: Mapping[str, Any]) -> None:
    """Refuse a whole verdict in which a larger share of the larger side's rows differs. Raises: TooDifferentError."""
    rows = max(population[name]["rows"] for name in SIDES)
    if limits.max_share is not None and records > limits.max_share * rows:
        raise TooDifferentError(
            f"{records} of {rows} rows differ, more than {float(limits.max_share):.4%}.", where="limits.max_share"
        )


def divided(form: Mapping[str, Any], workers: int) -> dict[str, Any]:
    """Return a specification's form for one of several processes, which share what a second may hold."""
    sides = {
        name: {**asked, "rows_per_second": max(1, asked["rows_per_second"] // workers)}
        for name, asked in (form.get("manners") or {}).items()
        if asked and asked.get("rows_per_second")
    }
    return {**form, "manners": {**form["manners"], **sides}} if sides else dict(form)
