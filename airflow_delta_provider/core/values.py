"""Canonical JSON values of Arrow carriers (docs/format.md, S2): what records show and what digests cover."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays as raw
from airflow_delta_provider.core import decimals, jsonc, times
from airflow_delta_provider.core.errors import ValueLossyError, ValueRangeError, ValueTypeError
from airflow_delta_provider.core.forms import INT_BITS_MAX, canonical_ok
from airflow_delta_provider.core.keys import encode_component
from airflow_delta_provider.core.types import (
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
    carrier_allowed,
)

__all__ = ["canonical_ok", "canonical_values", "inlined", "surely_inlined_chars"]

JSON_CHAR_BYTES_MAX = 6
"""Most bytes that one character of a text takes in JSON: an escaped control character."""

_YEAR_0_DAYS, _YEAR_9999_DAYS = -719_528, 2_932_896
"""Days of the dates that have four digits for the year."""
_WIDENED = {("int", "decimal"), ("float32", "decimal"), ("float64", "decimal"), ("float32", "float64")}


def canonical_values(array: Any, carrier: LogicalType, schema: LogicalType) -> list[Any]:
    """Return the canonical JSON values of a carrier array, one for each row, None for NULL.

    ``carrier`` is the side's own logical type, ``schema`` the type of the column pair: the same one, or one that holds
    the carrier's values exactly (see equality.schema_type).
    Raises: ValueTypeError where the carrier does not hold values of the schema type, ValueRangeError and
    ValueLossyError for a value that the schema type does not hold.
    """
    array = raw.one_array(array)
    if array.null_count == len(array):
        return [None] * len(array)
    if not carrier_allowed(carrier.kind, array.type):
        raise ValueTypeError(f"An Arrow {array.type} does not carry a {carrier.kind}.")
    if carrier.kind != schema.kind and (carrier.kind, schema.kind) not in _WIDENED:
        raise ValueTypeError(f"A {carrier.kind} column holds no {schema.kind} values.")
    if schema.nested:
        return _nested(array, carrier, schema)
    return _SCALARS[schema.kind](array)


def surely_inlined_chars(inline_limit: int) -> int:
    """Return up to how many characters a text has a canonical JSON of at most ``inline_limit`` bytes, whatever they are."""
    return (inline_limit - 2) // JSON_CHAR_BYTES_MAX


def inlined(value: Any, inline_limit: int) -> Any:
    """Return a canonical value, or its length and digest where its canonical JSON is longer than ``inline_limit`` bytes."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= surely_inlined_chars(inline_limit):
        return value
    form = jsonc.dumps(value)
    if len(form) <= inline_limit:
        return value
    return {"bytes": len(form), "sha256": hashlib.sha256(form).hexdigest()}


def _plain_list(array: Any) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _each(array: Any, form: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else form(value) for value in array.to_pylist()]


def _ints(array: Any) -> list[Any]:
    if pa.types.is_integer(array.type):
        return _plain_list(pc.cast(array, pa.large_string()))
    found = _decimals(array)
    for text in found:
        if text is not None and "." in text:
            raise ValueLossyError("A number with a fraction stands in an int column.")
        if text is not None and abs(int(text)) >> INT_BITS_MAX:
            raise ValueRangeError(f"An integer has more than {INT_BITS_MAX} bits.")
    return found


def _decimals(array: Any) -> list[Any]:
    """Return decimals of any carrier that a decimal schema type takes: integers, decimals, text, floats."""
    if pa.types.is_floating(array.type):
        return _each(array, decimals.decimal_of_float)
    if raw.is_text(array.type):
        return _each(array, _checked_decimal)
    if pa.types.is_integer(array.type) or array.type.scale == 0:
        return _plain_list(raw.unscaled_text(array))
    scale = array.type.scale
    return [None if text is None else _scaled(text, scale) for text in raw.unscaled_text(array).to_pylist()]


def _scaled(text: str, scale: int) -> str:
    """Return the canonical text of an unscaled integer divided by ``10**scale``."""
    if scale <= 0:
        return "0" if text == "0" else text + "0" * -scale
    sign = "-" if text[0] == "-" else ""
    digits = text[len(sign) :]
    if len(digits) <= scale:
        digits = digits.zfill(scale + 1)
    fraction = digits[-scale:].rstrip("0")
    return f"{sign}{digits[:-scale]}.{fraction}" if fraction else sign + digits[:-scale]


def _checked_decimal(text: str) -> str:
    if not decimals.is_canonical_decimal(text):
        if len(text) > decimals.DECIMAL_DIGITS_MAX:
            decimals.canonical_decimal(text)  # refuses too many digits by their own code
        raise ValueTypeError("A decimal that is carried as text is not canonical.")
    return text


def _float64s(array: Any) -> list[Any]:
    return _each(array, decimals.float64_text)


def _float32s(array: Any) -> list[Any]:
    """Return float32 texts: Arrow gives the shortest digits that round-trip, only their layout is ours."""
    texts = pc.cast(array, pa.large_string()).to_pylist()
    return [
        None if value is None else _float32_layout(value, text)
        for value, text in zip(array.to_pylist(), texts, strict=True)
    ]


def _float32_layout(value: float, text: str) -> str:
    return decimals.ecmascript_layout(text) if value - value == 0 and value != 0 else decimals.float64_text(value)


def _texts(array: Any) -> list[Any]:
    """Return texts as they are; what is no valid Unicode as the hex of its bytes."""
    if raw.is_text(array.type):
        try:
            return _plain_list(array)
        except UnicodeDecodeError:
            array = array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
    return _each(array, _text)


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"wtf8": value.hex()}


def _uuid(value: bytes) -> str:
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _dates(array: Any) -> list[Any]:
    bounds = pc.min_max(array)
    if bounds["min"].value >= _YEAR_0_DAYS and bounds["max"].value <= _YEAR_9999_DAYS:
        return _plain_list(pc.cast(array, pa.large_string()))
    infinite = raw.infinite(array) or ([], [])
    return [
        None if days is None else _infinity(up, down) or times.date_text(days)
        for days, up, down in zip(array.cast(pa.int32()).to_pylist(), *infinite, strict=True)
    ]


def _infinity(up: bool, down: bool) -> str | None:
    return "infinity" if up else "-infinity" if down else None


def _times(array: Any) -> list[Any]:
    unit = raw.unit_ns(array.type)
    return _each(array.cast(pa.int64()), lambda count: _time(count * unit))


def _time(ns: int) -> str:
    if not 0 <= ns <= times.DAY_NS:
        raise ValueRangeError("A time is outside 0 to 24 hours; read it as an interval.")
    return times.time_text(ns)


def _timestamps(array: Any) -> list[Any]:
    return _stamps(array, False)


def _zoned_timestamps(array: Any) -> list[Any]:
    return _stamps(array, True)


def _stamps(array: Any, zoned: bool) -> list[Any]:
    if pa.types.is_decimal(array.type):
        if array.type.scale != 0:
            raise ValueTypeError(f"An Arrow {array.type} does not carry nanoseconds.")
        return _each(raw.unscaled_text(array), lambda count: times.timestamp_text(int(count), zoned))
    counts, unit = array.cast(pa.int64()), raw.unit_ns(array.type)
    bounds, day = pc.min_max(counts), times.DAY_NS // unit
    lower = max(_YEAR_0_DAYS * day, TIMESTAMP_MINUS_INFINITY + 1)
    upper = min((_YEAR_9999_DAYS + 1) * day, TIMESTAMP_INFINITY)
    if bounds["min"].as_py() >= lower and bounds["max"].as_py() < upper:
        return _short_stamps(array, zoned)
    up, down = raw.infinite(array) or ([], [])
    return [
        None if count is None else _infinity(plus, minus) or times.timestamp_text(count * unit, zoned)
        for count, plus, minus in zip(counts.to_pylist(), up, down, strict=True)
    ]


def _short_stamps(array: Any, zoned: bool) -> list[Any]:
    """Return time stamps of the years 0 to 9999, whose text Arrow writes but for the trailing zeros."""
    wall = array.cast(pa.timestamp(array.type.unit))
    text = pc.binary_replace_slice(pc.cast(wall, pa.large_string()), 10, 11, "T")
    if array.type.unit != "s":
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    if zoned:
        return _each(text, lambda wall_text: wall_text + "Z")
    return _plain_list(text)


def _intervals(array: Any) -> list[Any]:
    return _each(array, lambda parts: times.interval_text(parts.months, parts.days, parts.nanoseconds))


_SCALARS: dict[str, Callable[[Any], list[Any]]] = {
    "bool": _plain_list,
    "int": _ints,
    "decimal": _decimals,
    "float64": _float64s,
    "float32": _float32s,
    "text": _texts,
    "bytes": lambda array: _each(array, bytes.hex),
    "uuid": lambda array: _each(array, _uuid),
    "date": _dates,
    "time": _times,
    "timestamp": _timestamps,
    "timestamp_tz": _zoned_timestamps,
    "interval": _intervals,
    "json": _plain_list,
    "json_text": _plain_list,
}


def _nested(array: Any, carrier: LogicalType, schema: LogicalType) -> list[Any]:
    """Return arrays, structs and maps as JSON arrays: children first, as whole Arrow arrays."""
    valid = raw.valid_mask(array)
    if schema.kind == "struct":
        return _structs(array, carrier, schema, valid)
    present = array.drop_null()
    if schema.kind == "array" and carrier.item and schema.item:
        children = canonical_values(present.flatten(), carrier.item, schema.item)
    elif schema.kind == "map" and carrier.item and schema.item and carrier.map_key and schema.map_key:
        entries = raw.map_entries(present)
        names = canonical_values(entries[0], carrier.map_key, schema.map_key)
        items = canonical_values(entries[1], carrier.item, schema.item)
        children = [[name, item] for name, item in zip(names, items, strict=True)]
    else:
        raise ValueTypeError(f"A {schema.kind} has no element type.")
    lists: list[Any] = []
    place = 0
    for length in raw.list_lengths(present).tolist():
        part = children[place : place + length]
        lists.append(_by_key(part, schema.map_key) if schema.kind == "map" and schema.map_key else part)
        place += length
    following = iter(lists)
    return [next(following) if there else None for there in valid]


def _by_key(entries: list[Any], kind: LogicalType) -> list[Any]:
    return sorted(entries, key=lambda entry: encode_component(entry[0], kind.kind))


def _structs(array: Any, carrier: LogicalType, schema: LogicalType, valid: Any) -> list[Any]:
    children, types = raw.struct_children(array, carrier), dict(carrier.fields)
    if set(children) != {name for name, _ in schema.fields}:
        raise ValueTypeError("A struct has other fields than its schema type.")
    columns = [canonical_values(children[name], types[name], part) for name, part in schema.fields]
    rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in valid]
    return [row if there else None for row, there in zip(rows, valid, strict=True)]
