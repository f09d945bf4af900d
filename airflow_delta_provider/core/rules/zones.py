"""Wall-clock times of a zone as instants, exactly, with what is ambiguous or skipped decided by the rule.

The zone data are those of the host (or of the ``tzdata`` package where the host has none): what a government decided
about a zone is a fact about the data, and two hosts agree about an instant as far as their zone data agree.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow_delta_provider.core.errors import RuleParameterError
from airflow_delta_provider.core.times import DAY_S, NS

FIRST_S = -62_135_510_400
"""0001-01-02T00:00:00, the first wall clock that ``datetime`` reads in every zone; before it no zone changes."""
LAST_S = 253_402_214_400
"""9999-12-31T00:00:00; from there on the calendar of 400 years before is the same, zone rules included."""
CYCLE_S = 146_097 * DAY_S
"""400 years: a whole number of weeks, after which dates, weekdays and so zone rules repeat."""

AMBIGUOUS, SKIPPED = "ambiguous", "skipped"
_EPOCH = datetime(1970, 1, 1)


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return a zone by its name. Raises: RuleParameterError where the host does not know it."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise RuleParameterError(f"read_as: {name!r} is no time zone that this host knows.") from error


def offset_at(wall_s: int, zone: zoneinfo.ZoneInfo, options: Mapping[str, Any]) -> int | str:
    """Return the offset from UTC in seconds at a wall-clock second, or ``ambiguous`` or ``skipped`` where that is refused.

    ``options``: ``ambiguous`` (refuse, first, second) and ``skipped`` (refuse, before, after: the offset in force
    before or after the change).
    """
    if wall_s < FIRST_S:
        wall_s = FIRST_S
    elif wall_s >= LAST_S:
        wall_s -= ((wall_s - LAST_S) // CYCLE_S + 1) * CYCLE_S
    wall = _EPOCH + timedelta(seconds=wall_s)
    first = _offset_s(wall.replace(tzinfo=zone, fold=0))
    second = _offset_s(wall.replace(tzinfo=zone, fold=1))
    if first == second:
        return first
    if first > second:
        choice = options.get("ambiguous") or "refuse"
        return AMBIGUOUS if choice == "refuse" else first if choice == "first" else second
    choice = options.get("skipped") or "refuse"
    return SKIPPED if choice == "refuse" else first if choice == "before" else second


def resolver(options: Mapping[str, Any]) -> Callable[[int], int | None]:
    """Return a function from wall clock to instant, both nanoseconds since 1970-01-01; None where it is refused."""
    zone = zone_of(options["zone"])

    def resolve(wall_ns: int) -> int | None:
        offset = offset_at(wall_ns // NS, zone, options)
        return None if isinstance(offset, str) else wall_ns - offset * NS

    return resolve


def _offset_s(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
