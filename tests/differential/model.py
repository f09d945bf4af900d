"""Values of every logical type in plain Python, and what docs/format.md says of them, written a second time.

Shares no code with the package. Values: int, Decimal, float, bool, str, bytes, uuid.UUID; a date is days, a time or a
time stamp nanoseconds (or ``infinity``, ``-infinity``), an interval (months, days, ns), an array a tuple.
"""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

NUMBERS = ("int", "decimal", "float32", "float64")
FLOATS = ("float32", "float64")
CLOCKS = ("time", "timestamp", "timestamp_tz")
KEY_KINDS = ("bool", *NUMBERS, "text", "bytes", "uuid", "date", *CLOCKS)
INFINITIES = ("infinity", "-infinity")
NS = 10**9
DAY_NS = 86_400 * NS
WIDE = Context(prec=5000)


@dataclass(frozen=True)
class Unparsed:
    """A text that a ``read_as`` could not read: different from everything, also from itself."""

    text: str


def schema_kind(source: str, target: str) -> str | None:
    """Return the type of a pair (S2), or None for types of different families; an array's kind is ``array:<item>``."""
    if source == target:
        return source
    if source.startswith("array:") and target.startswith("array:"):
        item = schema_kind(source[6:], target[6:])
        return None if item is None else f"array:{item}"
    if source in NUMBERS and target in NUMBERS:
        return "float64" if source in FLOATS and target in FLOATS else "decimal"
    return None


def number(value: Any) -> Fraction | str:
    """Return a number's exact value; NaN and infinities by name."""
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, Decimal):
        if value.is_finite():
            return Fraction(value)
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    if value != value:
        return "NaN"
    return Fraction(value) if value - value == 0 else "Infinity" if value > 0 else "-Infinity"


def alike(value: Any, kind: str) -> Any:
    """Return a form in which two values of one family are equal exactly when docs/contract.md, 2 says so."""
    if value is None or (isinstance(value, str) and kind not in NUMBERS):
        return value
    if kind.startswith("array:"):
        return tuple(alike(item, kind[6:]) for item in value)
    return number(value) if kind in NUMBERS else value


def same(source: Any, target: Any, source_kind: str, target_kind: str) -> bool:
    """Tell whether two values are equal where no rule speaks; of different families only NULL and NULL are."""
    if isinstance(source, Unparsed) or isinstance(target, Unparsed):
        return False
    if source is None or target is None or schema_kind(source_kind, target_kind) is None:
        return source is None and target is None
    return bool(alike(source, source_kind) == alike(target, target_kind))


def canonical(value: Any, schema: str) -> Any:
    """Return the canonical JSON value (S2) of a value under the schema type."""
    if value is None:
        return None
    if isinstance(value, Unparsed):
        return {"unparsed": value.text}
    if schema.startswith("array:"):
        return [canonical(item, schema[6:]) for item in value]
    if schema in NUMBERS:
        return _number_text(value, schema)
    if schema == "bytes":
        return bytes(value).hex()
    if schema == "date":
        return value if value in INFINITIES else date_text(value)
    if schema == "time":
        return clock_text(value)
    if schema in ("timestamp", "timestamp_tz"):
        return value if value in INFINITIES else stamp_text(value) + ("Z" if schema == "timestamp_tz" else "")
    if schema == "interval":
        return f"P{value[0]}M{value[1]}DT{plain(Fraction(value[2], NS))}S"
    return str(value) if schema == "uuid" else value


def _number_text(value: Any, schema: str) -> str:
    exact = number(value)
    if isinstance(exact, str):
        return exact
    if schema in FLOATS:
        return _shortest(float(exact), schema)
    return plain(exact)


def plain(exact: Fraction) -> str:
    """Return a number that has finitely many decimals in plain notation without trailing zeros."""
    quotient = WIDE.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    assert Fraction(quotient) == exact
    text = format(quotient, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _shortest(value: float, schema: str) -> str:
    """Return ECMAScript's Number::toString, in binary32 for ``float32``."""
    if value == 0:
        return "0"
    text = repr(value)
    if schema == "float32":
        text = next(t for t in (f"{value:.{n}g}" for n in range(1, 10)) if _rounds_to(t, value))
    sign, digits, exponent = Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    if 0 < point <= 21:
        shown = shown.ljust(point, "0") if len(shown) <= point else f"{shown[:point]}.{shown[point:]}"
    elif -6 < point <= 0:
        shown = "0." + "0" * -point + shown
    else:
        tail = f".{shown[1:]}" if len(shown) > 1 else ""
        shown = f"{shown[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return ("-" if sign else "") + shown


def _rounds_to(text: str, value: float) -> bool:
    try:
        return single(Fraction(text)) == value
    except OverflowError:
        return False  # few digits of the largest numbers are beyond binary32


def single(exact: Fraction) -> float:
    """Round to binary32, ties to even, in whole numbers; OverflowError beyond its range."""
    if exact == 0:
        return 0.0
    size, power = abs(exact), -149
    while size / Fraction(2) ** power >= 2**24:
        power += 1
    count = size / Fraction(2) ** power
    whole, rest = divmod(count, 1)
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    result = Fraction(whole) * Fraction(2) ** power
    if result >= 2**128:
        raise OverflowError
    return float(-result if exact < 0 else result)


def date_text(days: int) -> str:
    """Write days since 1970-01-01; years outside 0000 to 9999 with a sign and six digits."""
    cycle, of_cycle = divmod(days + 719_468, 146_097)
    of_cycle_years = (of_cycle - of_cycle // 1460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * of_cycle_years + of_cycle_years // 4 - of_cycle_years // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = cycle * 400 + of_cycle_years + (month <= 2)
    written = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    return f"{written}-{month:02d}-{of_year - (153 * shifted + 2) // 5 + 1:02d}"


def clock_text(ns: int) -> str:
    """Write nanoseconds since midnight."""
    seconds, fraction = divmod(ns, NS)
    tail = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{tail}"


def stamp_text(ns: int) -> str:
    """Write nanoseconds since 1970-01-01 as date, T, time."""
    return f"{date_text(ns // DAY_NS)}T{clock_text(ns % DAY_NS)}"


def canonical_json(text: str) -> str:
    """Return canonical JSON (S2, ``json``) of a JSON text."""

    def write(item: Any) -> str:
        if isinstance(item, dict):
            names = sorted(item, key=lambda name: name.encode())
            return "{" + ",".join(f"{write(name)}:{write(item[name])}" for name in names) + "}"
        if isinstance(item, list):
            return "[" + ",".join(map(write, item)) + "]"
        return plain(Fraction(item)) if isinstance(item, Decimal) else json.dumps(item, ensure_ascii=False)

    return write(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def sort_key(values: list[Any], kinds: list[str]) -> bytes:
    """Return key bytes (S3)."""
    return b"".join(_component(value, kind) for value, kind in zip(values, kinds, strict=True))


def _component(value: Any, kind: str) -> bytes:
    if value is None:
        return b"\x00"
    if kind == "bool":
        return b"\x10" + bytes([value])
    if kind in FLOATS:
        return bytes([0x38 if kind == "float64" else 0x3C]) + _float_key(float(value))
    if kind == "decimal":
        return b"\x30" + _decimal_key(number(value))
    if kind == "uuid":
        return b"\x60" + uuid.UUID(str(value)).bytes
    if kind in ("text", "bytes"):
        raw = value.encode() if kind == "text" else value
        return (b"\x78" if kind == "text" else b"\x70") + raw.replace(b"\x00", b"\x00\xff") + b"\x00\x01"
    tag = {"int": 0x20, "date": 0x40, "time": 0x48, "timestamp": 0x50, "timestamp_tz": 0x58}[kind]
    size = (abs(value).bit_length() + 7) // 8
    raw = abs(value).to_bytes(size, "big")
    if value < 0:
        return bytes([tag, 0x20 - size]) + bytes(255 - byte for byte in raw)
    return bytes([tag, 0x20 + size]) + raw


def _float_key(value: float) -> bytes:
    if value != value:
        return b"\xff\xf8\x00\x00\x00\x00\x00\x00"
    raw = struct.pack(">d", value + 0.0)
    return bytes(255 - byte for byte in raw) if raw[0] & 0x80 else bytes([raw[0] | 0x80]) + raw[1:]


def _decimal_key(exact: Fraction | str) -> bytes:
    if isinstance(exact, str):
        return {"-Infinity": b"\x01", "Infinity": b"\x04", "NaN": b"\x05"}[exact]
    if exact == 0:
        return b"\x02\x80"
    whole, _, fraction = plain(abs(exact)).partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) if whole != "0" else -(len(fraction) - len(fraction.lstrip("0")))
    body = (point + 2**31).to_bytes(4, "big") + bytes(int(digit) + 1 for digit in digits.rstrip("0")) + b"\x00"
    return b"\x02\x81" + body if exact > 0 else b"\x02\x7f" + bytes(255 - byte for byte in body)
