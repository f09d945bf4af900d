"""``read_as``: values of one logical type read as another, exactly or not at all (docs/contract.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays, decimals, values
from airflow_delta_provider.core.errors import RuleFitError, RuleZoneError, ValueJsonError, ValueTextError
from airflow_delta_provider.core.rules import parse_bytes, parse_times, zones
from airflow_delta_provider.core.rules.calendar import date_carrier
from airflow_delta_provider.core.rules.distinct import mapped
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.rules.typed import Typed, UnparsedValue
from airflow_delta_provider.core.times import DAY_NS, DAY_S, NS
from airflow_delta_provider.core.types import SCALARS, LogicalType, from_schema

_FLOATS = ("float32", "float64")
READABLE: dict[str, tuple[str, ...]] = {
    "text": SCALARS,
    "json_text": ("text", "json"),
    "json": ("text", "json_text"),
    "bool": ("int", "text"),
    "int": ("bool", "decimal", *_FLOATS, "text"),
    "decimal": ("bool", "int", *_FLOATS, "text"),
    "float32": ("bool", "int", "decimal", "float64", "text"),
    "float64": ("bool", "int", "decimal", "float32", "text"),
    "bytes": ("bool", "text", "uuid"),
    "uuid": ("bytes", "text"),
    "date": ("timestamp", "text"),
    "time": ("interval", "text"),
    "timestamp": ("date", "text", "timestamp_tz"),
    "timestamp_tz": ("text",),
    "interval": ("text",),
}
"""What each kind of value can be read as, besides itself."""

Converted = tuple[pa.Array, pa.Array]
"""A carrier, NULL where the value is NULL or cannot be read, and a boolean array: which cannot."""


def read_as(rule: Mapping[str, Any], typed: Typed, side: str) -> Typed:
    """Apply one ``read_as`` rule to a side that it is for.

    Raises: UnparsedValue for a value that cannot be read under ``otherwise: refuse``, and for a wall-clock time that
    is ambiguous or skipped in the rule's zone; RuleFitError where no value of this type can be read so.
    """
    wanted = from_schema(rule["type"])
    if typed.type.schema == wanted.schema:
        return typed
    if wanted.kind not in READABLE.get(typed.type.kind, ()):
        raise RuleFitError(f"read_as: a {typed.type.text} cannot be read as {wanted.text}.")
    carrier, bad = _converted(typed, wanted, rule)
    if not pc.any(bad).as_py():
        return Typed(wanted, carrier, typed.unparsed)
    _refuse_zone_trouble(rule, typed, bad, side)
    return _otherwise(rule, typed, Typed(wanted, carrier, typed.unparsed), bad, side)


def _otherwise(rule: Mapping[str, Any], typed: Typed, read: Typed, bad: pa.Array, side: str) -> Typed:
    """Do with the values that cannot be read what the rule says."""
    if rule["otherwise"] in ("true", "false"):
        return Typed(read.type, pc.if_else(bad, rule["otherwise"] == "true", read.array), read.unparsed)
    if rule["otherwise"] == "refuse":
        row = pc.index(bad, True).as_py()
        text = texts_of(Typed(typed.type, typed.array.slice(row, 1)))[0].as_py()
        error = ValueJsonError if read.type.kind == "json" else ValueTextError
        raise UnparsedValue(row, text, f"cannot be read as {read.type.text}", side, error)
    rows = pc.indices_nonzero(bad)
    shown = texts_of(typed.take(rows)).cast(pa.large_string())
    places = pc.subtract(pc.cumulative_sum(bad.cast(pa.int64())), 1)
    unparsed = shown.take(pc.if_else(bad, places, pa.scalar(None, pa.int64())))
    earlier = typed.unparsed
    return Typed(read.type, read.array, unparsed if earlier is None else pc.coalesce(earlier, unparsed))


def _refuse_zone_trouble(rule: Mapping[str, Any], typed: Typed, bad: pa.Array, side: str) -> None:
    """Refuse a wall-clock time that the zone has twice or not at all, whatever the rule says of other values."""
    if not rule.get("zone"):
        return
    zone = zones.zone_of(rule["zone"])
    rows = pc.indices_nonzero(bad)
    texts = texts_of(typed.take(rows)).to_pylist()
    for row, text in zip(rows.to_pylist(), texts, strict=True):
        wall = parse_times.local_ns(text)
        if wall is None:
            continue
        trouble = zones.offset_at(wall // NS, zone, rule)
        if isinstance(trouble, str):
            raise UnparsedValue(row, text, f"is {trouble} in {rule['zone']}", side, RuleZoneError)


def texts_of(typed: Typed) -> pa.Array:
    """Return values of a scalar type as texts: canonical, but text and bytes that are not Unicode with escapes."""
    if typed.type.kind == "text" and arrays.is_bytes(typed.array.type):
        return mapped(typed.array, lambda value: value.decode("utf-8", "backslashreplace"), pa.large_string())
    if typed.type.kind in ("text", "json_text", "json") and arrays.is_text(typed.array.type):
        return typed.array
    if typed.type.kind == "bool":
        return pc.if_else(typed.array, "true", "false")
    canonical = values.canonical_values(typed.array, typed.type, typed.type)
    return pa.array(canonical, pa.string())


def _converted(typed: Typed, wanted: LogicalType, rule: Mapping[str, Any]) -> Converted:
    special = _SPECIAL.get((typed.type.kind, wanted.kind))
    if special is not None:
        return _with_bad(typed.array, special(typed.array, rule))
    if typed.type.kind == "timestamp" and wanted.kind == "timestamp_tz":
        return zones.localized(typed.array, rule)
    if typed.type.kind in _FLOATS and wanted.kind in ("int", "bool"):
        texts = _exact_texts(typed.array, rule)
    elif typed.type.kind == "bytes" and wanted.kind == "bool":
        texts = mapped(typed.array, lambda value: str(value[0]) if len(value) == 1 else None, pa.string())
    elif typed.type.kind in ("text", "bytes") and arrays.is_bytes(typed.array.type):
        texts = mapped(typed.array, _unicode, pa.large_string())
    else:
        texts = texts_of(typed)
    carrier, _ = parse_text(texts, wanted, options=rule)
    return _with_bad(typed.array, carrier)


def _with_bad(before: pa.Array, after: pa.Array) -> Converted:
    return after, pc.and_(pc.is_valid(before), pc.is_null(after))


def _unicode(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _exact_texts(array: pa.Array, rule: Mapping[str, Any]) -> pa.Array:
    return mapped(array, decimals.decimal_of_float, pa.string())


def _int_to_decimal(array: pa.Array, rule: Mapping[str, Any]) -> pa.Array:
    return array.cast(pa.decimal128(20, 0)) if pa.types.is_integer(array.type) else array


def _narrowed(array: pa.Array, rule: Mapping[str, Any]) -> pa.Array:
    """Return float64 as the nearest float32; a finite value beyond its range is bad."""
    near = array.cast(pa.float32())
    beyond = pc.and_not(pc.is_inf(near), pc.is_inf(array))
    return pc.if_else(beyond, pa.scalar(None, pa.float32()), near)


def _bytes_to_uuid(array: pa.Array, rule: Mapping[str, Any]) -> pa.Array:
    return parse_bytes.uuids_from_bytes(array, rule["layout"])


def date_to_timestamp(array: pa.Array, rule: Mapping[str, Any] | None = None) -> pa.Array:
    """Return dates as the midnights that begin them; an infinite date is an infinite timestamp."""
    days = array.view(pa.int32()).cast(pa.int64())
    seconds = pc.multiply(days, DAY_S)
    seconds = pc.if_else(pc.equal(days, 2**31 - 1), 2**63 - 1, seconds)
    return pc.if_else(pc.equal(days, -(2**31)), pa.scalar(-(2**63), pa.int64()), seconds).view(pa.timestamp("s"))


def _timestamp_to_date(array: pa.Array, rule: Mapping[str, Any]) -> pa.Array:
    days: list[int | str | None] = []
    for moment in zones.wall_moments(array):
        whole = isinstance(moment, int) and moment % DAY_NS == 0
        days.append(
            moment // DAY_NS if whole and isinstance(moment, int) else moment if isinstance(moment, str) else None
        )
    return date_carrier(days)


def _time_to_interval(array: pa.Array, rule: Mapping[str, Any]) -> pa.Array:
    counts = np.where(arrays.valid_mask(array), arrays.typed_values(array, np.int64), 0) * arrays.unit_ns(array.type)
    parts = np.zeros((len(array), 2), np.int64)
    parts[:, 1] = counts
    kind = pa.month_day_nano_interval()
    valid = pa.py_buffer(np.packbits(arrays.valid_mask(array), bitorder="little"))
    return pa.Array.from_buffers(kind, len(array), [valid, pa.py_buffer(parts)])


_SPECIAL: dict[tuple[str, str], Callable[[pa.Array, Mapping[str, Any]], pa.Array]] = {
    ("bool", "int"): lambda array, rule: array.cast(pa.int8()),
    ("int", "decimal"): _int_to_decimal,
    ("float32", "decimal"): _exact_texts,
    ("float64", "decimal"): _exact_texts,
    ("float32", "float64"): lambda array, rule: array.cast(pa.float64()),
    ("float64", "float32"): _narrowed,
    ("bytes", "uuid"): _bytes_to_uuid,
    ("uuid", "bytes"): lambda array, rule: array.cast(pa.binary()),
    ("date", "timestamp"): date_to_timestamp,
    ("timestamp", "date"): _timestamp_to_date,
    ("time", "interval"): _time_to_interval,
}
