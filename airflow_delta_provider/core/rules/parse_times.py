"""Read texts as dates, times of day, timestamps, instants and intervals (ISO 8601, every year, nine fraction digits)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.rules import zones
from airflow_delta_provider.core.rules.calendar import (
    date_carrier,
    days_of_text,
    timestamp_carrier,
)
from airflow_delta_provider.core.rules.distinct import mapped, per_distinct
from airflow_delta_provider.core.times import DAY_NS, NS
from airflow_delta_provider.core.types import LogicalType

_EASY_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_EASY_STAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,%d})?"
_OFFSET = r"(Z|[+-][0-9]{2}:[0-9]{2})"
_INFINITE = re.compile(r"([+-]?)(?:inf|infinity)", re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_STAMP = re.compile(r"([^ T]+)[ T]([0-9:.]+)(?: ?(Z|UTC|[+-][0-9:]+))?( BC)?")
_SHIFT = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_SECONDS = r"([+-]?[0-9]{1,18})(?:\.([0-9]{1,9}))?S"
_INTERVAL = re.compile(
    r"([+-]?)P(?=[+0-9T-])(?:([+-]?[0-9]{1,18})Y)?(?:([+-]?[0-9]{1,18})M)?(?:([+-]?[0-9]{1,18})W)?"
    rf"(?:([+-]?[0-9]{{1,18}})D)?(?:T(?=[+0-9-])(?:([+-]?[0-9]{{1,18}})H)?(?:([+-]?[0-9]{{1,18}})M)?(?:{_SECONDS})?)?"
)


def dates(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read dates: ``YYYY-MM-DD``, a signed astronomical year of four or more digits, ``BC`` behind, or an infinity."""
    if _all_match(values, _EASY_DATE):
        easy = _cast(values, pa.date32())
        if easy is not None:
            return easy
    days, indices = per_distinct(values, _date)
    return date_carrier(days).take(indices)


def times(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read times of day, ``24:00:00`` the greatest, as time64(ns)."""
    return mapped(values, clock_ns, pa.int64()).view(pa.time64("ns"))


def timestamps(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read wall-clock timestamps: a date, ``T`` or one blank, a time; an offset is bad."""
    return _stamps(values, type, r"$", None, _wall_clock)


def instants(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read instants: a timestamp and ``Z``, ``UTC`` or an offset; without one only where ``options`` give a zone.

    A wall-clock time that is ambiguous or skipped in the zone, under ``refuse``, is bad.
    """
    resolver = zones.resolver(options) if options.get("zone") else None
    return _stamps(values, type, _OFFSET + "$", "UTC", lambda text: _instant(text, resolver))


def intervals(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read ISO 8601 durations; a sign in front turns every part, a fraction is allowed in the seconds only."""
    return mapped(values, interval_parts, pa.month_day_nano_interval())


def local_ns(text: str) -> int | None:
    """Return the wall clock in nanoseconds of a timestamp's text without an offset, or None for any other text."""
    stamp = _stamp(text)
    return stamp[0] if stamp is not None and stamp[1] is None else None


def interval_parts(text: str) -> tuple[int, int, int] | None:
    """Return (months, days, nanoseconds) of one duration's text, or None where it is none or too large."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return None
    years, months, weeks, days, hours, minutes = (int(found[place] or 0) for place in range(2, 8))
    whole, fraction = found[8] or "0", int((found[9] or "").ljust(9, "0"))
    time = (hours * 3600 + minutes * 60 + int(whole)) * NS + (-fraction if whole[0] == "-" else fraction)
    turn = -1 if found[1] == "-" else 1
    parts = (turn * (years * 12 + months), turn * (weeks * 7 + days), turn * time)
    fits = -(2**31) <= parts[0] < 2**31 and -(2**31) <= parts[1] < 2**31 and -(2**63) <= parts[2] < 2**63
    return parts if fits else None


def clock_ns(text: str) -> int | None:
    """Return the nanoseconds since midnight of one time of day, or None where it is none."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    whole = (hour * 3600 + minute * 60 + second) * NS + int((found[4] or "").ljust(9, "0"))
    return whole if minute < 60 and second < 60 and whole <= DAY_NS else None


def _infinite(text: str) -> str | None:
    found = _INFINITE.fullmatch(text)
    return None if found is None else "-infinity" if found[1] == "-" else "infinity"


def _date(text: str) -> int | str | None:
    if text.endswith(" BC"):
        return days_of_text(text[:-3], before_christ=True)
    return _infinite(text) or days_of_text(text)


def _stamp(text: str) -> tuple[int, str | None] | None:
    """Return (wall clock in nanoseconds, offset text or None)."""
    found = _STAMP.fullmatch(text)
    if found is None:
        return None
    days, clock = days_of_text(found[1], before_christ=bool(found[4])), clock_ns(found[2])
    return None if days is None or clock is None else (days * DAY_NS + clock, found[3])


def _wall_clock(text: str) -> int | str | None:
    stamp = _stamp(text)
    if stamp is None:
        return _infinite(text)
    return stamp[0] if stamp[1] is None else None


def _instant(text: str, resolver: Any) -> int | str | None:
    stamp = _stamp(text)
    if stamp is None:
        return _infinite(text)
    wall, offset = stamp
    if offset is not None:
        shift = _shift_s(offset)
        return None if shift is None else wall - shift * NS
    return None if resolver is None else resolver(wall)


def _shift_s(offset: str) -> int | None:
    if offset in ("Z", "UTC"):
        return 0
    found = _SHIFT.fullmatch(offset)
    if found is None:
        return None
    hours, minutes, seconds = int(found[2]), int(found[3] or 0), int(found[4] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    shift = hours * 3600 + minutes * 60 + seconds
    return -shift if found[1] == "-" else shift


def _stamps(
    values: pa.Array, type: LogicalType, end: str, zone: str | None, read: Callable[[str], int | str | None]
) -> pa.Array:
    """Read timestamps: by Arrow those of the form that Arrow reads exactly, the others one by one.

    Where Arrow refuses one, or the others need another carrier, all are read one by one.
    """
    fine = (type.digits or 0) > 6
    form = pc.match_substring_regex(values, _EASY_STAMP % (9 if fine else 6) + end)
    easy = _cast(_kept(values, form), pa.timestamp("ns" if fine else "us", zone))
    if easy is not None and pc.all(form).as_py() is not False:
        return easy
    if easy is not None:
        moments, indices = per_distinct(_kept(values, pc.invert(form)), read)
        others = timestamp_carrier(moments, fine=fine, zone=zone)
        if others.type == easy.type:
            return pc.if_else(form, easy, others.take(indices))
    moments, indices = per_distinct(values, read)
    return timestamp_carrier(moments, fine=fine, zone=zone).take(indices)


def _kept(values: pa.Array, keep: pa.Array) -> pa.Array:
    return pc.if_else(keep, values, pa.scalar(None, values.type))


def _all_match(values: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(values, pattern)).as_py() is not False


def _cast(values: pa.Array, arrow: pa.DataType) -> pa.Array | None:
    """Return the cast, or None where Arrow refuses one of the values (the slow reader then says which)."""
    try:
        return values.cast(arrow)
    except pa.ArrowInvalid:
        return None
