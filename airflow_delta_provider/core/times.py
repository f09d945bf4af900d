"""Canonical text of dates, times, time stamps and intervals (docs/format.md, S2), from and to whole numbers.

Days and nanoseconds are Python integers since 1970-01-01 (proleptic Gregorian, astronomical years), so that no
year is out of reach of a date class.
"""

from __future__ import annotations

import re

NS = 10**9
DAY_S = 86_400
DAY_NS = DAY_S * NS
YEAR_DIGITS_MAX = 25
"""Digits of a year; 128 bits of nanoseconds reach 1.1e22 years."""

_DATE = re.compile(rf"([0-9]{{4}}|[+-][0-9]{{6,{YEAR_DIGITS_MAX}}})-([0-9]{{2}})-([0-9]{{2}})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?")
_INTERVAL = re.compile(r"P(-?[0-9]{1,10})M(-?[0-9]{1,10})DT(-?)([0-9]{1,20})(?:\.([0-9]{1,9}))?S")


def date_text(days: int) -> str:
    """Return the canonical date of days since 1970-01-01."""
    if -719_528 <= days <= 2_932_896:
        year, month, day = _civil(days)
        return f"{year:04d}-{month:02d}-{day:02d}"
    year, month, day = _civil(days)
    return f"{'-' if year < 0 else '+'}{abs(year):06d}-{month:02d}-{day:02d}"


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day: eras of 400 years that begin on March 1, so that a leap day ends a year."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, day_of_year - (153 * shifted + 2) // 5 + 1


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 of a date; month and day are not checked."""
    year -= 1 if month <= 2 else 0
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def parse_date(text: str) -> int | None:
    """Return the days of a canonical date, or None for any other text (infinities are no number of days)."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    days = days_of(int(match[1]), int(match[2]), int(match[3])) if "01" <= match[2] <= "12" else None
    return days if days is not None and date_text(days) == text else None


def time_text(ns: int) -> str:
    """Return the canonical time of nanoseconds since midnight, 0 to 24 hours."""
    seconds, fraction = divmod(ns, NS)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text


def parse_time(text: str) -> int | None:
    """Return the nanoseconds since midnight of a canonical time, or None for any other text."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
    ns = seconds * NS + int((match[4] or "").ljust(9, "0"))
    return ns if ns <= DAY_NS and time_text(ns) == text else None


def timestamp_text(ns: int, zoned: bool) -> str:
    """Return the canonical time stamp of nanoseconds since 1970-01-01; ``zoned`` adds the ``Z`` of UTC."""
    days, rest = divmod(ns, DAY_NS)
    return f"{date_text(days)}T{time_text(rest)}{'Z' if zoned else ''}"


def parse_timestamp(text: str, zoned: bool) -> int | None:
    """Return the nanoseconds of a canonical time stamp, or None for any other text."""
    if zoned != text.endswith("Z"):
        return None
    date, mark, time = text.removesuffix("Z").partition("T")
    days, rest = parse_date(date), parse_time(time)
    if not mark or days is None or rest is None or rest == DAY_NS:
        return None
    return days * DAY_NS + rest


def interval_text(months: int, days: int, ns: int) -> str:
    """Return the canonical interval; its three parts keep their own signs."""
    seconds, fraction = divmod(abs(ns), NS)
    text = f"{seconds}.{fraction:09d}".rstrip("0") if fraction else str(seconds)
    return f"P{months}M{days}DT{'-' if ns < 0 else ''}{text}S"


def parse_interval(text: str) -> tuple[int, int, int] | None:
    """Return months, days and nanoseconds of a canonical interval, or None for any other text."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return None
    ns = int(match[4]) * NS + int((match[5] or "").ljust(9, "0"))
    parts = int(match[1]), int(match[2]), -ns if match[3] else ns
    return parts if interval_text(*parts) == text else None
