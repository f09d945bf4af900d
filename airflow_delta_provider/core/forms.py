"""Canonical JSON values of single cells: their check, and the plain Python value behind each (docs/format.md, S2)."""

from __future__ import annotations

import math
import re
from typing import Any

from airflow_delta_provider.core import decimals, times
from airflow_delta_provider.core.errors import ValueTypeError, shown
from airflow_delta_provider.core.types import LogicalType

INT_BITS_MAX = 128
INT_DIGITS_MAX = 39
INFINITIES = ("infinity", "-infinity")

_INT = re.compile(rf"0|-?[1-9][0-9]{{0,{INT_DIGITS_MAX - 1}}}")
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def native(value: Any, kind: str) -> Any:
    """Return the Python value behind a canonical scalar that is not null.

    Shape: bool -> bool; int, date (days), time and time stamps (ns) -> int; decimal -> canonical text; floats -> float;
    text -> str; bytes and uuid -> bytes; interval -> (months, days, ns); infinite dates and time stamps -> math.inf.
    Raises: ValueTypeError where the value is not the canonical form of this kind.
    """
    found = _native(value, kind) if isinstance(value, bool if kind == "bool" else str) else None
    if found is None:
        raise ValueTypeError(f"{shown(value)!r} is no canonical {kind}.")
    return found


def _native(value: Any, kind: str) -> Any:
    """Return the value behind a canonical one, or None; strings only, but for bool."""
    match kind:
        case "int":
            number = int(value) if _INT.fullmatch(value) else None
            return number if number is not None and abs(number) >> INT_BITS_MAX == 0 else None
        case "decimal":
            return value if decimals.is_canonical_decimal(value) else None
        case "float64" | "float32":
            return decimals.parse_float(value, int(kind[-2:]))
        case "text" | "json_text":
            return value if _is_unicode(value) else None
        case "bytes":
            return bytes.fromhex(value) if _HEX.fullmatch(value) else None
        case "uuid":
            return bytes.fromhex(value.replace("-", "")) if _UUID.fullmatch(value) else None
        case "interval":
            return times.parse_interval(value)
        case "bool":
            return value
        case "json":
            return value if _is_canonical_json(value) else None
    return _native_time(value, kind)


def _native_time(value: str, kind: str) -> Any:
    if kind == "time":
        return times.parse_time(value)
    if value in INFINITIES:
        return -math.inf if value.startswith("-") else math.inf
    if kind == "date":
        return times.parse_date(value)
    return times.parse_timestamp(value, kind == "timestamp_tz") if kind in ("timestamp", "timestamp_tz") else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_canonical_json(text: str) -> bool:
    from airflow_delta_provider.core.errors import ValueJsonError, ValueRangeError
    from airflow_delta_provider.core.jsontext import canonical_json

    try:
        return canonical_json(text) == text
    except (ValueJsonError, ValueRangeError):
        return False


def wtf8_ok(value: dict[str, Any]) -> bool:
    """Tell whether an object is ``{"wtf8": hex}`` of bytes that are indeed no valid UTF-8."""
    form = value.get("wtf8")
    if len(value) != 1 or not isinstance(form, str) or not _HEX.fullmatch(form):
        return False
    try:
        bytes.fromhex(form).decode()
    except UnicodeDecodeError:
        return True
    return False


def canonical_ok(value: Any, kind: LogicalType) -> bool:
    """Tell whether a JSON value is the canonical form of a value of this type, or null.

    ``{"wtf8": hex}`` counts as a text; the other escape objects belong to recorded forms and are not canonical values.
    """
    if value is None:
        return True
    if kind.kind == "array" and kind.item:
        item = kind.item
        return isinstance(value, list) and all(canonical_ok(part, item) for part in value)
    if kind.kind == "struct":
        whole = isinstance(value, list) and len(value) == len(kind.fields)
        return whole and all(canonical_ok(part, field[1]) for part, field in zip(value, kind.fields, strict=True))
    if kind.kind == "map":
        return isinstance(value, list) and _map_ok(value, kind)
    if isinstance(value, dict):
        return kind.kind == "text" and wtf8_ok(value)
    return isinstance(value, bool if kind.kind == "bool" else str) and _native(value, kind.kind) is not None


def _map_ok(value: list[Any], kind: LogicalType) -> bool:
    """Tell whether entries are ``[key, value]`` in the order of their key bytes."""
    from airflow_delta_provider.core.keys import encode_component

    if not kind.item or not kind.map_key:
        return False
    before = b""
    for entry in value:
        if not (isinstance(entry, list) and len(entry) == 2 and canonical_ok(entry[1], kind.item)):
            return False
        if not isinstance(entry[0], bool | str) or not canonical_ok(entry[0], kind.map_key):
            return False
        key = encode_component(entry[0], kind.map_key.kind)
        if key < before:
            return False
        before = key
    return True
