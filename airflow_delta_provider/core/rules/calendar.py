"""Days, years and carriers of time: the proleptic Gregorian calendar for every year, and Arrow arrays to hold it."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core.times import NS, days_of
from airflow_delta_provider.core.types import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
)

WIDE_NS = pa.decimal128(38, 0)
"""The carrier of nanoseconds that int64 cannot hold."""
WIDE_LIMIT = 10**38

UNIT_NS = {"s": NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
INFINITE = {"infinity": TIMESTAMP_INFINITY, "-infinity": TIMESTAMP_MINUS_INFINITY}

_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DATE = re.compile(r"([+-]?)([0-9]{4,25})-([0-9]{2})-([0-9]{2})")


def days_from_civil(year: int, month: int, day: int) -> int | None:
    """Return days since 1970-01-01 for an astronomical year (0 is 1 BC), or None where there is no such day."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1] + leap:
        return None
    return days_of(year, month, day)


def days_of_text(text: str, *, before_christ: bool = False) -> int | None:
    """Return the days since 1970-01-01 of a date's text, or None where it is none.

    A sign stands before an astronomical year only; ``before_christ`` says that the year counts back from the era.
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year = int(found[2])
    if before_christ:
        if found[1] or year == 0:
            return None
        year = 1 - year
    elif found[1] == "-":
        year = -year
    return days_from_civil(year, int(found[3]), int(found[4]))


def date_carrier(days: list[int | str | None]) -> pa.Array:
    """Return days (or ``infinity``, ``-infinity``) as date32; NULL where a date is beyond its range."""
    infinite = {"infinity": DATE_INFINITY, "-infinity": DATE_MINUS_INFINITY}
    numbers: list[int | None] = []
    for day in days:
        if isinstance(day, str):
            numbers.append(infinite[day])
        else:
            numbers.append(day if day is not None and DATE_MINUS_INFINITY < day < DATE_INFINITY else None)
    return pa.array(numbers, pa.int32()).view(pa.date32())


def timestamp_carrier(moments: list[int | str | None], *, fine: bool, zone: str | None) -> pa.Array:
    """Return nanoseconds since 1970-01-01 (or ``infinity``, ``-infinity``) as a carrier of timestamps.

    It is timestamp(us), or timestamp(ns) for ``fine`` columns and where a value has nanoseconds, or decimal128(38, 0)
    where int64 is too narrow. That one has no infinities: beside such values they become NULL.
    """
    finite = [moment for moment in moments if isinstance(moment, int)]
    for unit in ("ns", "us") if fine else ("us", "ns"):
        step = UNIT_NS[unit]
        if all(moment % step == 0 and _fits(moment // step) for moment in finite):
            numbers = [_scaled(moment, step) for moment in moments]
            return pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone))
    return pa.array(
        [moment if isinstance(moment, int) and abs(moment) < WIDE_LIMIT else None for moment in moments], WIDE_NS
    )


def _fits(count: int) -> bool:
    return TIMESTAMP_MINUS_INFINITY < count < TIMESTAMP_INFINITY


def _scaled(moment: Any, step: int) -> int | None:
    if isinstance(moment, str):
        return INFINITE[moment]
    return None if moment is None else moment // step
