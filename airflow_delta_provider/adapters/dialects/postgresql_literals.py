"""Bounds of key ranges as literals that PostgreSQL's types can hold, moved outward where they can't."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from airflow_delta_provider.adapters.pgcopy.values import EPOCH_DAYS

_INTS = {"smallint": (-(2**15), 2**15 - 1), "integer": (-(2**31), 2**31 - 1), "bigint": (-(2**63), 2**63 - 1)}
_INTS["oid"] = (0, 2**32 - 1)
DAY_MIN = -2_440_588
"""4714-11-24 BC, the first day of a date, in days since 1970-01-01."""
DATE_DAY_MAX = 2_145_031_948 + EPOCH_DAYS
STAMP_DAY_MAX = 106_751_983 + EPOCH_DAYS
"""5874897-12-31 and 294276-12-31."""
US_PER_DAY = 86_400_000_000
Literal = tuple[str, bool]


def literal_of(kind: str, cast: str, value: Any, upward: bool) -> Literal | None:
    """Return the text of a value of a logical kind, and whether it is exact; None where no value of the type bounds it.

    A value beyond the type's range moves inward only where that keeps every row: a lower bound above the type's last
    value becomes that value.
    """
    if kind == "int":
        return _clamped(int(value), *_INTS[cast], upward)
    if kind == "decimal":
        return _decimal(value)
    if kind in ("float32", "float64"):
        return _float(value), True
    if kind == "bool":
        return ("true" if value else "false"), True
    if kind == "bytes":
        return "\\x" + value.hex(), True
    if kind == "text":
        return _text(value, upward)
    if kind == "date":
        found = _within(value, DAY_MIN, DATE_DAY_MAX, upward)
        return (_day_text(found[0]), found[1]) if found else None
    if kind == "time":
        micros, exact = _micros(value, upward)
        return f"{_clock_text(min(micros, US_PER_DAY))}", exact and micros <= US_PER_DAY
    if kind in ("timestamp", "timestamp_tz"):
        return _stamp(value, upward, "+00" if kind == "timestamp_tz" else "")
    return str(value), True


def _within(value: int, least: int, most: int, upward: bool) -> tuple[int, bool] | None:
    if least <= value <= most:
        return value, True
    if value < least:
        return (least, False) if upward else None
    return None if upward else (most, False)


def _clamped(value: int, least: int, most: int, upward: bool) -> Literal | None:
    found = _within(value, least, most, upward)
    return (str(found[0]), found[1]) if found else None


def _decimal(value: Decimal) -> Literal | None:
    if value.is_infinite():
        return None  # servers before 14 have no infinite numeric
    return ("NaN" if value.is_nan() else f"{value:f}"), True


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _text(value: str, upward: bool) -> Literal:
    """U+0000 can't be stored: every text that is comes after the piece before it, and before that piece and U+0001."""
    piece, mark, _ = value.partition("\0")
    return (value, True) if not mark else (piece + ("\x01" if upward else ""), False)


def _micros(nanos: int, upward: bool) -> tuple[int, bool]:
    whole, rest = divmod(nanos, 1000)
    return (whole + 1 if rest and upward else whole), not rest


def _stamp(nanos: int, upward: bool, zone: str) -> Literal | None:
    micros, exact = _micros(nanos, upward)
    found = _within(micros, DAY_MIN * US_PER_DAY, (STAMP_DAY_MAX + 1) * US_PER_DAY - 1, upward)
    if found is None:
        return None
    day, clock = divmod(found[0], US_PER_DAY)
    date, _, era = _day_text(day).partition(" ")
    return f"{date} {_clock_text(clock)}{zone}{' ' + era if era else ''}", exact and found[1]


def _clock_text(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _day_text(day: int) -> str:
    """Write days since 1970-01-01 as a date of the proleptic Gregorian calendar, with BC where the year asks for it."""
    era, of_era = divmod(day + 719_468, 146_097)
    of_era_year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_era_year + of_era_year // 4 - of_era_year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = of_era_year + era * 400 + (month <= 2)
    text = f"{year if year > 0 else 1 - year:04d}-{month:02d}-{of_year - (153 * shifted + 2) // 5 + 1:02d}"
    return text if year > 0 else text + " BC"
