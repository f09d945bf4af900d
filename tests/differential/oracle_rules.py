"""What each rule of docs/contract.md, 4 means for plain Python values; shares no code with the package."""

from __future__ import annotations

import base64
import unicodedata
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from differential.model import (
    DAY_NS,
    INFINITIES,
    NS,
    NUMBERS,
    WIDE,
    Unparsed,
    canonical,
    canonical_json,
    number,
    single,
)

Rule = tuple[str, dict[str, Any]]
PAIR_RULES = ("tolerance", "numeric_text", "date_as_midnight")
DIGITS_MAX = 2000
"""A number of more digits is none (docs/format.md, ``decimal``)."""
UNITS = {"s": NS, "ms": 10**6, "us": 10**3}
TRUE, FALSE = ("1", "T", "TRUE", "True", "t", "true"), ("0", "F", "FALSE", "False", "f", "false")


class Refused(Exception):
    """The run has to refuse; the argument is the code."""


def side_of(form: dict[str, Any]) -> str:
    """Return which side a rule is for."""
    return str(form.get("side", "both"))


def after(rule: Rule, kind: str, side: str) -> str:
    """Return the kind after one rule."""
    name, form = rule
    if side_of(form) not in ("both", side):
        return kind
    if name == "read_as":
        return str(form["type"])
    return {"round": "decimal", "single_precision": "float32"}.get(name, kind)


def changed(rule: Rule, value: Any, kind: str, side: str, schema: str | None) -> Any:
    """Return one side's value after one rule that treats each side by itself."""
    name, form = rule
    if value is None or isinstance(value, Unparsed) or name in PAIR_RULES or side_of(form) not in ("both", side):
        return value
    if name == "read_as":
        return value if form["type"] == kind else read(value, kind, form)
    if name == "normalize":
        for step in form["steps"]:
            value = STEPS[step](value)
        return value
    if name == "round":
        return rounded(value, int(form["places"]), form.get("mode", "half_even"))
    if name == "single_precision":
        return to_single(value)
    if name == "precision":
        return stepped(value, UNITS[form["unit"]], form.get("mode", "truncate"))
    if name == "null_equals":
        return None if any(equals_listed(value, kind, text, schema) for text in form["values"]) else value
    assert name == "array_order"
    return tuple(sorted(value, key=lambda item: repr(canonical(item, (schema or kind)[6:]))))


def equals_listed(value: Any, kind: str, text: str, schema: str | None) -> bool:
    """Tell whether a value is one that ``null_equals`` lists."""
    if kind not in NUMBERS:
        return bool(canonical(value, kind) == text)
    wanted = schema if schema in NUMBERS else kind
    listed: Any = Decimal(text)
    if wanted in ("float32", "float64"):
        listed = float(text) if wanted == "float64" else single(Fraction(text))
    return number(value) == number(listed)


def rounded(value: Any, places: int, mode: str) -> Decimal:
    """Round in whole numbers; NaN and infinities stay."""
    exact = number(value)
    if isinstance(exact, str):
        return Decimal(exact)
    scaled = abs(exact) * Fraction(10) ** places
    whole, rest = divmod(scaled, 1)
    half = Fraction(1, 2)
    if mode != "down":
        whole += rest > half or (rest == half and (mode == "half_up" or whole % 2 == 1))
    result = (Fraction(whole) if exact >= 0 else -Fraction(whole)) / Fraction(10) ** places
    return WIDE.divide(Decimal(result.numerator), Decimal(result.denominator))


def to_single(value: Any) -> float:
    exact = number(value)
    try:
        return float(exact) if isinstance(exact, str) else single(exact)
    except OverflowError:
        raise Refused("DELTA_VALUE_RANGE") from None


def stepped(value: Any, unit: int, mode: str) -> Any:
    """Bring a time to a unit; what lies before 1970 goes to the earlier one too."""
    if value in INFINITIES:
        return value
    return (value + (unit // 2 if mode == "half_up" else 0)) // unit * unit


STEPS: dict[str, Callable[[str], str]] = {
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "casefold": str.casefold,
    "rstrip_blanks": lambda text: text.rstrip(" "),
    "strip": str.strip,
    "nul_as_blank": lambda text: text.replace("\x00", " "),
}


def read(value: Any, kind: str, form: dict[str, Any]) -> Any:
    """Read a value as another kind; what does not parse is refused, or is ``Unparsed``."""
    wanted = form["type"]
    try:
        return READERS[(kind, wanted)](value, form)
    except (ValueError, ArithmeticError):
        otherwise = str(form.get("otherwise", "refuse")).lower()
        if otherwise == "refuse":
            raise Refused("DELTA_VALUE_JSON" if wanted == "json" else "DELTA_VALUE_TEXT") from None
        shown = value if isinstance(value, str) and kind == "text" else canonical(value, kind)
        if kind == "bool":
            shown = "true" if value else "false"
        return {"true": True, "false": False}.get(otherwise) if otherwise != "different" else Unparsed(shown)


def _float_of(text: str) -> float:
    value = float(text)
    if value - value != 0 and text.lower().lstrip("+-") not in ("nan", "inf", "infinity"):
        raise ValueError
    return value


def _decimal_of(text: str) -> Decimal:
    if "_" in text or text != text.strip():
        raise ValueError
    return Decimal(text)


def _digits(value: Decimal) -> int:
    """Count the digits in plain notation; with a long exponent they are too many to be written, let alone computed."""
    exponent = int(value.as_tuple().exponent)
    return max(len(value.as_tuple().digits), value.adjusted() + 1, -exponent + 1) if value else 1


def _int_of(text: str) -> int:
    if not text.lstrip("+-").isascii() or not text.lstrip("+-").isdigit():
        raise ValueError
    return int(text)


def _bool_of(text: str, form: dict[str, Any]) -> bool:
    true = [str(word) for word in form.get("true_values", TRUE)]
    false = [str(word) for word in form.get("false_values", FALSE)]
    if (text in true) == (text in false):
        raise ValueError
    return text in true


def _whole(value: Any) -> int:
    exact = number(value)
    if isinstance(exact, str) or exact.denominator != 1:
        raise ValueError
    return int(exact)


def _uuid_of(raw: bytes, form: dict[str, Any]) -> uuid.UUID:
    return uuid.UUID(bytes_le=raw) if form.get("layout") == "mixed_endian" else uuid.UUID(bytes=raw)


def _bytes_of(text: str, form: dict[str, Any]) -> bytes:
    if form.get("encoding") != "base64":
        return bytes.fromhex(text)
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode() != text:
        raise ValueError  # its last character has bits that no byte takes
    return found


def _day_of(text: str) -> int:
    if len(text) != 10:
        raise ValueError
    return datetime.strptime(text, "%Y-%m-%d").toordinal() - 719_163


def _instant_in_zone(wall: Any, form: dict[str, Any]) -> Any:
    """Return the instant of a wall clock time; its offset is asked of the zone for both readings of the clock."""
    if wall in INFINITIES:
        return wall
    moment = datetime(1970, 1, 1) + timedelta(seconds=wall // NS)
    first, second = (
        int(moment.replace(tzinfo=ZoneInfo(form["zone"]), fold=fold).utcoffset().total_seconds())  # type: ignore[union-attr]
        for fold in (0, 1)
    )
    chosen = first
    if first > second:
        chosen = {"first": first, "second": second}[form["ambiguous"]]
    elif first < second:
        chosen = {"before": first, "after": second}[form["skipped"]]
    return wall - chosen * NS


def _date_of_stamp(wall: Any) -> Any:
    if wall in INFINITIES:
        return wall
    if wall % DAY_NS:
        raise ValueError
    return wall // DAY_NS


READERS: dict[tuple[str, str], Callable[[Any, dict[str, Any]], Any]] = {
    ("text", "int"): lambda text, form: _int_of(text),
    ("text", "decimal"): lambda text, form: _decimal_of(text),
    ("text", "float64"): lambda text, form: _float_of(text),
    ("text", "bool"): _bool_of,
    ("text", "bytes"): _bytes_of,
    ("text", "uuid"): lambda text, form: _uuid_of(uuid.UUID(text).bytes, form),
    ("text", "date"): lambda text, form: _day_of(text),
    ("text", "json"): lambda text, form: canonical_json(text),
    ("json_text", "json"): lambda text, form: canonical_json(text),
    ("bytes", "uuid"): _uuid_of,
    ("int", "bool"): lambda value, form: _bool_of(str(value), form),
    ("bool", "int"): lambda value, form: int(value),
    ("int", "decimal"): lambda value, form: Decimal(value),
    ("decimal", "int"): lambda value, form: _whole(value),
    ("float64", "int"): lambda value, form: _whole(value),
    ("float64", "decimal"): lambda value, form: Decimal(value),
    ("float32", "decimal"): lambda value, form: Decimal(value),
    ("timestamp", "timestamp_tz"): _instant_in_zone,
    ("timestamp", "date"): lambda wall, form: _date_of_stamp(wall),
    ("date", "timestamp"): lambda day, form: day if day in INFINITIES else day * DAY_NS,
    ("int", "text"): lambda value, form: str(value),
    ("uuid", "text"): lambda value, form: str(value),
}


def met(rule: Rule, source: Any, target: Any, source_kind: str, target_kind: str) -> bool:
    """Tell whether a rule that needs both values makes them equal."""
    name, form = rule
    if source is None or target is None or isinstance(source, Unparsed) or isinstance(target, Unparsed):
        return False
    if name == "date_as_midnight":
        walls = [
            value if kind == "timestamp" or value in INFINITIES else value * DAY_NS
            for value, kind in ((source, source_kind), (target, target_kind))
        ]
        return bool(walls[0] == walls[1])
    if name == "numeric_text":
        try:
            numbers = [_decimal_of(text) for text in (source, target)]
        except (ArithmeticError, ValueError):
            return False
        if any(value.is_finite() and _digits(value) > DIGITS_MAX for value in numbers):
            return False
        return within(form, number(numbers[0]), number(numbers[1]))
    if source_kind in NUMBERS:
        return within(form, number(source), number(target))
    if source in INFINITIES or target in INFINITIES:
        return False
    unit = DAY_NS if source_kind == "date" else 1
    duration = str(form["abs"]).removeprefix("P")
    days = Fraction(duration.removesuffix("D")) if duration.endswith("D") else Fraction(0)
    seconds = days * 86_400 if days else Fraction(duration.removeprefix("T").removesuffix("S"))
    gap = Fraction(abs(source - target) * unit, NS)
    return gap < seconds or (gap == seconds and form.get("bound", "inclusive") == "inclusive")


def within(form: dict[str, Any], one: Fraction | str, other: Fraction | str) -> bool:
    """Tell whether two finite numbers lie within a tolerance."""
    if isinstance(one, str) or isinstance(other, str):
        return False
    limits = [Fraction(form["abs"])] if "abs" in form else []
    limits += [Fraction(form["rel"]) * max(abs(one), abs(other))] if "rel" in form else []
    gap = abs(one - other)
    return any(gap < limit or (gap == limit and form.get("bound", "inclusive") == "inclusive") for limit in limits)
