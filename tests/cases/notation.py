"""The notation of the handed cases (FORMAT.md): declared types and values, read without losing anything."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NS_PER_S = 1_000_000_000
NS_PER_DAY = 86_400 * NS_PER_S

_KINDS = {
    "int": ("tinyint", "smallint", "integer", "int", "bigint", "hugeint"),
    "decimal": ("numeric", "decimal", "number"),
    "float32": ("real", "float32", "float4"),
    "float64": ("double", "double precision", "float64", "float8"),
    "bool": ("boolean", "bool"),
    "text": ("text", "longtext", "mediumtext", "varchar", "varchar2", "nvarchar", "nvarchar2", "string", "clob"),
    "char": ("char", "nchar", "character"),
    "enum": ("enum",),
    "bit": ("bit",),
    "bytes": ("bytea", "blob", "longblob", "binary", "varbinary", "raw"),
    "uuid": ("uuid", "uniqueidentifier"),
    "date": ("date",),
    "time": ("time",),
    "timestamp": ("timestamp", "datetime", "datetime2"),
    "timestamp_tz": ("timestamptz", "timestamp with time zone"),
    "interval": ("interval",),
    "json": ("json", "jsonb"),
}
KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_TYPE = re.compile(r"(?P<base>[a-z0-9]+(?: precision| with time zone)?)(?:\((?P<arguments>.*)\))?$", re.ASCII)


class UnknownNotation(ValueError):
    """A type or a value that FORMAT.md does not describe."""


@dataclass(frozen=True)
class Declared:
    """One declared column type.

    ``kind`` is a logical type, or ``char``, ``enum``, ``bit``, which are text with a form of their own.
    ``arguments`` are digits, lengths or, for an enum, its labels.
    """

    text: str
    base: str
    kind: str
    arguments: tuple[Any, ...] = ()
    unsigned: bool = False
    not_null: bool = False
    item: Declared | None = None


@dataclass(frozen=True)
class Stored:
    """A value with its storage class in a dynamically typed engine: ``integer``, ``real``, ``text``, ``blob``, ``null``."""

    storage: str
    value: Any


def read_cases(path: Path) -> list[dict[str, Any]]:
    """Read a file of cases, one JSON object a line; integers stay exact."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def declared(text: str) -> Declared:
    """Read a declared type such as ``numeric(10,2)``, ``bigint unsigned``, ``enum('a','b')`` or ``text[]``.

    Raises: UnknownNotation.
    """
    rest = " ".join(text.split())
    if rest.endswith("[]"):
        return Declared(text, "[]", "array", item=declared(rest[:-2]))
    not_null, unsigned = rest.lower().endswith(" not null"), False
    rest = rest[: -len(" not null")] if not_null else rest
    if rest.lower().endswith(" unsigned"):
        rest, unsigned = rest[: -len(" unsigned")], True
    head, bracket, tail = rest.partition("(")
    match = _TYPE.match(head.lower().strip() + bracket + tail)
    if match is None or match["base"] not in KIND_OF:
        raise UnknownNotation(f"declared type {text!r}")
    kind = KIND_OF[match["base"]]
    return Declared(text, match["base"], kind, _arguments(kind, match["arguments"]), unsigned, not_null)


def _arguments(kind: str, text: str | None) -> tuple[Any, ...]:
    if text is None:
        return ()
    if kind == "enum":
        return tuple(label.replace("''", "'") for label in re.findall(r"'((?:[^']|'')*)'", text))
    return tuple(int(part) for part in text.split(","))


def value(form: Any, of: Declared) -> Any:
    """Read one value: None, bool, int, float, str, bytes, list or Stored.

    Decimals, dates and times stay the text that they are. Raises: UnknownNotation.
    """
    if isinstance(form, dict):
        return _object(form, of)
    if isinstance(form, list):
        if of.item is None:
            raise UnknownNotation(f"a list under {of.text}")
        return [value(element, of.item) for element in form]
    if of.kind == "bool" and form is not None and not isinstance(form, bool):
        raise UnknownNotation(f"{form!r} under {of.text}")
    if of.kind in ("float32", "float64") and isinstance(form, int) and not isinstance(form, bool):
        return float(form)
    return form


def _object(form: dict[str, Any], of: Declared) -> Any:
    if len(form) != 1:
        raise UnknownNotation(f"value {form!r}")
    ((name, content),) = form.items()
    if name == "$float":
        return {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"), "-0.0": -0.0}[content]
    if name == "$hex":
        return bytes.fromhex(content)
    if name == "$repeat":
        return content["unit"] * content["times"] + content.get("then", "")
    if name == "$stored":
        storage, inner = content
        return Stored(storage, value(inner, of) if isinstance(inner, dict) else inner)
    raise UnknownNotation(f"value {form!r}")


_TIMESTAMP = re.compile(
    r"(?P<year>\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[ T](?P<clock>\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?"
    r"(?P<offset>Z|[+-]\d\d(?::?\d\d)?)?(?P<before> BC)?$",
    re.ASCII,
)


def clock_ns(text: str) -> int:
    """Return nanoseconds since midnight of ``HH:MM[:SS[.fraction]]``; 24:00:00 is a whole day."""
    match = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", text, re.ASCII)
    if match is None:
        raise UnknownNotation(f"time {text!r}")
    hours, minutes, seconds, fraction = match.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return whole * NS_PER_S + int((fraction or "").ljust(9, "0"))


def instant_ns(text: str) -> int:
    """Return nanoseconds since 1970-01-01 of a date or time stamp, in UTC if it has an offset, else by wall clock.

    Raises: UnknownNotation, for ``infinity`` and all-zero dates too.
    """
    match = _TIMESTAMP.match(text)
    if match is None:
        raise UnknownNotation(f"time stamp {text!r}")
    year = 1 - int(match["year"]) if match["before"] else int(match["year"])
    ns = days_of(year, int(match["month"]), int(match["day"])) * NS_PER_DAY
    ns += clock_ns(match["clock"]) if match["clock"] else 0
    offset = match["offset"]
    if offset and offset != "Z":
        digits = offset[1:].replace(":", "").ljust(4, "0")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        ns -= (minutes if offset[0] == "+" else -minutes) * 60 * NS_PER_S
    return ns


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar; the year is astronomical (0 is 1 BC)."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise UnknownNotation(f"date {year}-{month}-{day}")
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_of(days: int) -> tuple[int, int, int]:
    """Return astronomical year, month and day of a number of days since 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


def fraction_digits(text: str) -> int:
    """Return how many digits of a second a time text needs; trailing zeros need none."""
    match = re.search(r"\.(\d+)", text)
    return len(match[1].rstrip("0")) if match else 0
