"""Wall-clock times of a zone as instants, exactly, with what is ambiguous or skipped decided by the rule.

The zone data are those of the host (or of the ``tzdata`` package where the host has none): what a government decided
about a zone is a fact about the data, and two hosts agree about an instant as far as their zone data agree.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.core import arrays
from airflow_delta_provider.core.errors import RuleParameterError
from airflow_delta_provider.core.rules.calendar import timestamp_carrier
from airflow_delta_provider.core.times import DAY_S, NS

FIRST_S = -62_135_510_400
"""0001-01-02T00:00:00, the first wall clock that ``datetime`` reads in every zone; before it no zone changes."""
LAST_S = 253_402_214_400
"""9999-12-31T00:00:00; from there on the calendar of 400 years before is the same, zone rules included."""
CYCLE_S = 146_097 * DAY_S
"""400 years: a whole number of weeks, after which dates, weekdays and so zone rules repeat."""

PROBES_S = (*range(0, DAY_S, 3600), DAY_S - 1)
"""Where a day is asked for changes: no zone ever changed and changed back within one hour."""

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


def localized(array: pa.Array, options: Mapping[str, Any]) -> tuple[pa.Array, pa.Array]:
    """Return wall-clock timestamps of a zone as instants, and which of them are refused there (NULL in the first).

    ``array``: a carrier of timestamp; infinities stay. Most days have one offset, so it is asked for by day.
    """
    if not pa.types.is_timestamp(array.type):
        return _localized_slowly(array, options)
    unit_s = NS // arrays.unit_ns(array.type)
    valid = arrays.valid_mask(array)
    counts = np.where(valid, arrays.typed_values(array, np.int64), 0)
    limit = 2**63 - 2 - 2 * DAY_S * unit_s
    up, down = counts == 2**63 - 1, counts == -(2**63)
    finite = ~(up | down)
    if (np.abs(counts[finite]) > limit).any():
        return _localized_slowly(array, options)
    offsets, refused = _offsets(np.floor_divide(np.where(finite, counts, 0), unit_s), options)
    refused &= valid & finite
    moved = np.where(finite, counts - offsets * unit_s, counts)
    instants = pa.Array.from_buffers(
        pa.timestamp(array.type.unit, "UTC"),
        len(moved),
        [pa.py_buffer(np.packbits(valid & ~refused, bitorder="little")), pa.py_buffer(moved)],
    )
    return instants, arrays.bool_array(refused)


def _offsets(seconds: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the offset at each wall-clock second, and where it is refused."""
    days, places = np.unique(np.floor_divide(seconds, DAY_S), return_inverse=True)
    quiet = [_quiet_offset(options["zone"], day) for day in days.tolist()]
    offsets = np.array([0 if offset is None else offset for offset in quiet], np.int64)[places]
    refused = np.zeros(len(seconds), bool)
    busy = np.flatnonzero(np.array([offset is None for offset in quiet], bool)[places])
    zone = zone_of(options["zone"])
    moments, places = np.unique(seconds[busy], return_inverse=True)
    found = [offset_at(moment, zone, options) for moment in moments.tolist()]
    if found:
        offsets[busy] = np.array([0 if isinstance(offset, str) else offset for offset in found], np.int64)[places]
        refused[busy] = np.array([isinstance(offset, str) for offset in found], bool)[places]
    return offsets, refused


@lru_cache(maxsize=65_536)
def _quiet_offset(name: str, day: int) -> int | None:
    """Return the one offset of a whole day, or None where it changes or some time is ambiguous or skipped."""
    zone = zone_of(name)
    found = {offset_at(day * DAY_S + second, zone, {}) for second in PROBES_S}
    only = found.pop()
    return None if found or isinstance(only, str) else only


def _localized_slowly(array: pa.Array, options: Mapping[str, Any]) -> tuple[pa.Array, pa.Array]:
    resolve = resolver(options)
    moments: list[int | str | None] = []
    refused: list[bool] = []
    for moment in wall_moments(array):
        instant = resolve(moment) if isinstance(moment, int) else moment
        moments.append(instant)
        refused.append(instant is None and moment is not None)
    fine = not pa.types.is_timestamp(array.type) or array.type.unit == "ns"
    return timestamp_carrier(moments, fine=fine, zone="UTC"), pa.array(refused, pa.bool_())


def wall_moments(array: pa.Array) -> list[int | str | None]:
    """Return the nanoseconds of any carrier of timestamps as Python integers; infinities as their names."""
    if pa.types.is_decimal(array.type):
        return [None if text is None else int(text) for text in arrays.unscaled_text(array).to_pylist()]
    unit = arrays.unit_ns(array.type)
    names = {2**63 - 1: "infinity", -(2**63): "-infinity"}
    counts = array.view(pa.int64()).to_pylist()
    return [None if count is None else names.get(count) or count * unit for count in counts]


def _offset_s(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
