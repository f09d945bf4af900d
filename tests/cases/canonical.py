"""Canonical values of the cases' expected keys, computed here a second time so that the product does not check itself."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from cases.notation import NS_PER_DAY, NS_PER_S, UnknownNotation, civil_of, clock_ns, instant_ns


def canonical(value: Any, kind: str) -> str | bool | None:
    """Return the canonical value (docs/format.md, S2) of one parsed value of the notation under a schema type.

    Raises: UnknownNotation where the value can't be one of that type.
    """
    if value is None:
        return None
    writer = _WRITERS.get(kind)
    if writer is None:
        raise UnknownNotation(f"no key is of type {kind}")
    return writer(value)


def _int(value: Any) -> str:
    if isinstance(value, bool):
        raise UnknownNotation(f"{value!r} as int")
    return str(int(value))


def _decimal(value: Any) -> str:
    number = Decimal(str(value)) if isinstance(value, str | int) else Decimal(value)
    if not number.is_finite():
        return {"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity"}[str(number)]
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _float(value: Any) -> str:
    number = float(value)
    if number == 0:
        return "0"
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    if 0 < point <= 21:
        shown = text.ljust(point, "0") if len(text) <= point else f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        shown = "0." + "0" * -point + text
    else:
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        shown = f"{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return "-" + shown if sign else shown


def _bool(value: Any) -> bool:
    if value in (0, 1):
        return bool(value)
    raise UnknownNotation(f"{value!r} as bool")


def _bytes(value: Any) -> str:
    return bytes(value).hex()


def _uuid(value: Any) -> str:
    return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value))


def date_text(days: int) -> str:
    """Write days since 1970-01-01 as ``YYYY-MM-DD``, with a sign and six digits beyond four."""
    year, month, day = civil_of(days)
    written = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    return f"{written}-{month:02d}-{day:02d}"


def clock_text(ns: int) -> str:
    """Write nanoseconds since midnight as ``HH:MM:SS`` with the fraction it needs."""
    seconds, fraction = divmod(ns, NS_PER_S)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"


def _date(value: Any) -> str:
    return value if value.endswith("infinity") else date_text(instant_ns(value) // NS_PER_DAY)


def _timestamp(value: Any) -> str:
    if value.endswith("infinity"):
        return str(value)
    days, ns = divmod(instant_ns(value), NS_PER_DAY)
    return f"{date_text(days)}T{clock_text(ns)}"


def _timestamp_tz(value: Any) -> str:
    return value if value.endswith("infinity") else _timestamp(value) + "Z"


_WRITERS = {
    "int": _int,
    "decimal": _decimal,
    "float32": _float,
    "float64": _float,
    "bool": _bool,
    "text": str,
    "bytes": _bytes,
    "uuid": _uuid,
    "date": _date,
    "time": lambda value: clock_text(clock_ns(value)),
    "timestamp": _timestamp,
    "timestamp_tz": _timestamp_tz,
}
