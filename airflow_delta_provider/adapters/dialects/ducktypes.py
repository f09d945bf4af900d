"""DuckDB's types as logical types: the cast that loses nothing, and the Arrow array that carries the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.core.types import (
    DATE_MINUS_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
)

INTERVAL_RANGE = "DELTA_INTERVAL_RANGE"
"""What a read fails with where an interval's time of day part has more nanoseconds than 64 bits hold."""
INTERVAL_HOURS_MAX = 2_562_046
_DUCK_DATE_MINUS_INFINITY = -(2**31 - 1)
_DUCK_TIMESTAMP_MINUS_INFINITY = -(2**63 - 1)

_INTEGERS = {
    "tinyint": (8, False, pa.int8()),
    "smallint": (16, False, pa.int16()),
    "integer": (32, False, pa.int32()),
    "bigint": (64, False, pa.int64()),
    "utinyint": (8, True, pa.uint8()),
    "usmallint": (16, True, pa.uint16()),
    "uinteger": (32, True, pa.uint32()),
    "ubigint": (64, True, pa.uint64()),
}
_PLAIN = {
    "boolean": (LogicalType("bool"), pa.bool_()),
    "float": (LogicalType("float32"), pa.float32()),
    "double": (LogicalType("float64"), pa.float64()),
    "varchar": (LogicalType("text"), pa.string()),
    "blob": (LogicalType("bytes"), pa.binary()),
    "date": (LogicalType("date"), pa.date32()),
    "time": (LogicalType("time", digits=6), pa.time64("us")),
    "time_ns": (LogicalType("time", digits=9), pa.time64("ns")),
    "timestamp": (LogicalType("timestamp", digits=6), pa.timestamp("us")),
    "timestamp_s": (LogicalType("timestamp", digits=0), pa.timestamp("s")),
    "timestamp_ms": (LogicalType("timestamp", digits=3), pa.timestamp("ms")),
    "timestamp_ns": (LogicalType("timestamp", digits=9), pa.timestamp("ns")),
    "timestamp with time zone": (LogicalType("timestamp_tz", digits=6), pa.timestamp("us", tz="UTC")),
}
_AS_TEXT = {
    "enum": LogicalType("text"),
    "bit": LogicalType("text"),
    "bignum": LogicalType("decimal"),
}
_WIDE = {"hugeint": False, "uhugeint": True}
_ADVICE = {
    "time with time zone": "Name read_as: {type: text}, or CAST it to TIME in a query.",
    "union": "Read its members apart in a query: union_extract(c, 'member').",
    "variant": "Name read_as: {type: text}, or CAST it to JSON in a query.",
    "geometry": "Read it through ST_AsWKB(c) or ST_AsText(c) in a query.",
}


@dataclass(frozen=True, slots=True)
class Mapped:
    """A DuckDB type as it is read: ``cast`` is the type to cast to first, "" where the value comes as it is."""

    type: LogicalType
    carrier: pa.DataType
    cast: str
    name: str
    """The engine's own name of the type, as written in SQL."""


def mapped(duck: Any, nested: bool = False) -> Mapped | None:
    """Map a type of a relation, or return None where it has no logical type.

    128-bit integers come as text, since DuckDB hands them to Arrow in 38 digits and wraps beyond. An interval inside a
    list is not read, since its range could not be checked.
    """
    kind, name = str(duck.id), str(duck)
    if name == "JSON":
        return Mapped(LogicalType("json_text"), pa.string(), "VARCHAR", name)
    if kind in _PLAIN:
        return Mapped(*_PLAIN[kind], "", name)
    if kind in _INTEGERS:
        bits, unsigned, carrier = _INTEGERS[kind]
        return Mapped(LogicalType("int", bits=bits, unsigned=unsigned), carrier, "", name)
    if kind in _WIDE:
        return Mapped(LogicalType("int", bits=128, unsigned=_WIDE[kind]), pa.decimal256(39, 0), "VARCHAR", name)
    if kind in _AS_TEXT:
        return Mapped(_AS_TEXT[kind], pa.string(), "VARCHAR", name)
    if kind == "uuid":
        return Mapped(LogicalType("uuid"), pa.binary(16), "BLOB", name)
    if kind == "interval" and not nested:
        return Mapped(LogicalType("interval"), pa.month_day_nano_interval(), "", name)
    if kind == "decimal":
        precision, scale = (part[1] for part in duck.children)
        return Mapped(
            LogicalType("decimal", precision=precision, scale=scale), pa.decimal128(precision, scale), "", name
        )
    return _mapped_nested(duck, kind, name)


def _mapped_nested(duck: Any, kind: str, name: str) -> Mapped | None:
    if kind in ("list", "array"):
        item = mapped(duck.children[0][1], nested=True)
        if item is None:
            return None
        cast = f"{item.cast or item.name}[]" if item.cast or kind == "array" else ""
        return Mapped(LogicalType("array", item=item.type), pa.list_(item.carrier), cast, name)
    if kind == "map":
        (_, key), (_, value) = duck.children
        parts = [mapped(key, nested=True), mapped(value, nested=True)]
        if parts[0] is None or parts[1] is None:
            return None
        cast = ""
        if parts[0].cast or parts[1].cast:
            cast = f"MAP({parts[0].cast or parts[0].name}, {parts[1].cast or parts[1].name})"
        carrier = pa.map_(parts[0].carrier, parts[1].carrier)
        return Mapped(LogicalType("map", map_key=parts[0].type, item=parts[1].type), carrier, cast, name)
    if kind == "struct":
        return _mapped_struct(duck, name)
    return None


def _mapped_struct(duck: Any, name: str) -> Mapped | None:
    fields: list[tuple[str, Mapped]] = []
    for label, part in duck.children:
        field = mapped(part, nested=True)
        if field is None or not label:
            return None
        fields.append((label, field))
    cast = ""
    if any(field.cast for _, field in fields):
        inner = ", ".join(f"{_quoted(label)} {field.cast or field.name}" for label, field in fields)
        cast = f"STRUCT({inner})"
    carrier = pa.struct([(label, field.carrier) for label, field in fields])
    return Mapped(
        LogicalType("struct", fields=tuple((label, field.type) for label, field in fields)), carrier, cast, name
    )


def _quoted(label: str) -> str:
    return '"' + label.replace('"', '""') + '"'


def advice(duck: Any) -> str:
    """Say what makes a column of an unmapped type readable."""
    return _ADVICE.get(str(duck.id), "Read it as text: read_as: {type: text}.")


def carried(array: pa.Array, carrier: pa.DataType) -> pa.Array:
    """Turn an array as DuckDB gave it into its carrier: wide integers, UUIDs, and the sentinels of minus infinity."""
    if pa.types.is_list(carrier):
        return _carried_list(array, carrier)
    if pa.types.is_struct(carrier):
        parts = [carried(part, carrier.field(at).type) for at, part in enumerate(array.flatten())]
        return pa.StructArray.from_arrays(parts, fields=list(carrier), mask=array.is_null())
    if pa.types.is_map(carrier):
        keys, items = carried(array.keys, carrier.key_type), carried(array.items, carrier.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=carrier, mask=array.is_null())
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type != carrier:
        array = array.cast(carrier)
    if pa.types.is_date32(carrier):
        return _replaced(array, np.dtype(np.int32), _DUCK_DATE_MINUS_INFINITY, DATE_MINUS_INFINITY)
    if pa.types.is_timestamp(carrier):
        return _replaced(array, np.dtype(np.int64), _DUCK_TIMESTAMP_MINUS_INFINITY, TIMESTAMP_MINUS_INFINITY)
    return array


def _carried_list(array: pa.Array, carrier: pa.DataType) -> pa.Array:
    values = carried(array.values, carrier.value_type)
    return pa.ListArray.from_arrays(array.offsets, values, type=carrier, mask=array.is_null())


def _replaced(array: pa.Array, dtype: np.dtype[Any], old: int, new: int) -> pa.Array:
    """Replace one bit pattern of a fixed-width array; the array itself where it does not occur."""
    buffers = array.buffers()
    if buffers[1] is None or not len(array):
        return array
    values = np.frombuffer(buffers[1], dtype)[: array.offset + len(array)]
    if not (values == old).any():
        return array
    changed = values.copy()
    changed[changed == old] = new
    return pa.Array.from_buffers(
        array.type, len(array), [buffers[0], pa.py_buffer(changed.tobytes())], offset=array.offset
    )
