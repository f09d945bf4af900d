"""The type map of Arrow and Parquet: Arrow types to logical types, Arrow arrays to carriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.errors import SideFileError, ValueRangeError
from airflow_delta_provider.core.types import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
)

UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
NS_PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
MS_PER_DAY = 86_400_000
UNTYPED_TEXT = LogicalType("text")
"""The type of a column whose type nobody declared, until it takes that of its partner."""
INTERVAL_TYPE = pa.month_day_nano_interval()
_INTERVAL_PARTS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
_PARQUET_INTERVAL_PARTS = np.dtype([("months", "<u4"), ("days", "<u4"), ("millis", "<u4")])
_STORAGE_KINDS = {"arrow.uuid": "uuid", "arrow.json": "json_text", "arrow.bool8": "bool"}
"""Extension types that have a logical type of their own."""
_FIXED = {
    pa.bool_(): LogicalType("bool"),
    pa.float16(): LogicalType("float32"),
    pa.float32(): LogicalType("float32"),
    pa.float64(): LogicalType("float64"),
    pa.date32(): LogicalType("date"),
    pa.date64(): LogicalType("date"),
    INTERVAL_TYPE: LogicalType("interval"),
}


def logical_type(arrow: pa.DataType) -> LogicalType | None:
    """Return the logical type that an Arrow type stands for, with its bounds, or None where there is none."""
    types = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        name = arrow.extension_name
        return LogicalType(_STORAGE_KINDS[name]) if name in _STORAGE_KINDS else None
    if arrow in _FIXED:
        return _FIXED[arrow]
    if types.is_integer(arrow):
        return LogicalType("int", bits=arrow.bit_width, unsigned=types.is_unsigned_integer(arrow))
    if types.is_decimal(arrow):
        scale = max(arrow.scale, 0)
        return LogicalType("decimal", precision=arrow.precision + max(-arrow.scale, 0), scale=scale)
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return LogicalType("text")
    if types.is_fixed_size_binary(arrow):
        return LogicalType("bytes", length=arrow.byte_width)
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow):
        return LogicalType("bytes")
    if types.is_time(arrow):
        return LogicalType("time", digits=UNIT_DIGITS[arrow.unit])
    if types.is_timestamp(arrow):
        return LogicalType("timestamp_tz" if arrow.tz else "timestamp", digits=UNIT_DIGITS[arrow.unit])
    if types.is_duration(arrow):
        return LogicalType("interval")
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return logical_type(arrow.value_type)
    return _nested_type(arrow)


def _nested_type(arrow: pa.DataType) -> LogicalType | None:
    types = pa.types
    if types.is_map(arrow):
        key, item = logical_type(arrow.key_type), logical_type(arrow.item_type)
        return LogicalType("map", map_key=key, item=item) if key and item else None
    if types.is_struct(arrow):
        parts = [(field.name, logical_type(field.type)) for field in arrow]
        named = tuple((name, part) for name, part in parts if part)
        whole = len(named) == len(parts) == len({name for name, _ in parts})
        return LogicalType("struct", fields=named) if whole else None
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    if any(test(arrow) for test in lists):
        item = logical_type(arrow.value_type)
        return LogicalType("array", item=item) if item else None
    return None


def unified(first: LogicalType, second: LogicalType) -> LogicalType | None:
    """Return the narrowest type that holds the values of both exactly, or None where kinds differ.

    Only widths, scales and fractions of a second may differ, and float32 next to float64.
    """
    if first == second:
        return first
    if {first.kind, second.kind} == {"float32", "float64"}:
        return LogicalType("float64")
    if first.kind != second.kind or first.nested:
        return None
    if first.kind == "int":
        return _wider_int(first, second)
    if first.kind == "decimal":
        scale = max(first.scale or 0, second.scale or 0)
        whole = max((part.precision or 0) - (part.scale or 0) for part in (first, second))
        return LogicalType("decimal", precision=whole + scale, scale=scale)
    if first.digits is not None and second.digits is not None:
        return LogicalType(first.kind, digits=max(first.digits, second.digits))
    return LogicalType(first.kind)


def _wider_int(first: LogicalType, second: LogicalType) -> LogicalType:
    bits, other = first.bits or 128, second.bits or 128
    if first.unsigned == second.unsigned:
        return LogicalType("int", bits=max(bits, other), unsigned=first.unsigned)
    signed, unsigned = (other, bits) if first.unsigned else (bits, other)
    return LogicalType("int", bits=signed if signed > unsigned else 2 * unsigned)


def to_carrier(array: pa.Array, type: LogicalType) -> pa.Array:
    """Return the values of an Arrow array under the carrier of their logical type (``core.types.CARRIERS``).

    Text that is not valid UTF-8 comes as binary; a nanosecond time stamp whose bits mean infinity elsewhere makes the
    batch decimal128(38,0). Nothing is rounded or wrapped.
    Raises: SideFileError (values that break the Arrow format), ValueRangeError (what the carrier cannot hold).
    """
    array = _plain(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), carrier_type(type))
    convert = _CONVERTERS.get(type.kind)
    return convert(array, type) if convert else array


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return array


def carrier_type(type: LogicalType) -> pa.DataType:
    """Return an Arrow type that may carry a logical type (used where a column is all NULL)."""
    if type.kind == "array" and type.item:
        return pa.list_(carrier_type(type.item))
    if type.kind == "map" and type.item and type.map_key:
        return pa.map_(carrier_type(type.map_key), carrier_type(type.item))
    if type.kind == "struct":
        return pa.struct([(name, carrier_type(part)) for name, part in type.fields])
    if type.kind == "timestamp_tz":
        return pa.timestamp("us", "UTC")
    return {
        "bool": pa.bool_(),
        "int": pa.int64(),
        "decimal": pa.decimal128(38, 0),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "bytes": pa.binary(),
        "uuid": pa.binary(16),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "interval": INTERVAL_TYPE,
    }.get(type.kind, pa.string())


def _bool(array: pa.Array, type: LogicalType) -> pa.Array:
    return pc.not_equal(array, pa.scalar(0, pa.int8())) if pa.types.is_int8(array.type) else array


def _decimal(array: pa.Array, type: LogicalType) -> pa.Array:
    arrow = array.type
    precision, scale = arrow.precision + max(-arrow.scale, 0), max(arrow.scale, 0)
    small = precision <= 38 and not pa.types.is_decimal256(arrow)
    wanted = pa.decimal128(precision, scale) if small else pa.decimal256(precision, scale)
    return array if arrow == wanted else array.cast(wanted)


def _float32(array: pa.Array, type: LogicalType) -> pa.Array:
    return array.cast(pa.float32())


def _float64(array: pa.Array, type: LogicalType) -> pa.Array:
    return array.cast(pa.float64())


def _text(array: pa.Array, type: LogicalType) -> pa.Array:
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    raw = array.cast(pa.large_binary() if wide else pa.binary())
    try:
        return raw.cast(pa.large_string() if wide else pa.string())
    except pa.ArrowInvalid:
        return raw


def _json(array: pa.Array, type: LogicalType) -> pa.Array:
    text = _text(array, type)
    if pa.types.is_binary(text.type) or pa.types.is_large_binary(text.type):
        raise SideFileError("A JSON value is not valid UTF-8.")
    return text


def _bytes(array: pa.Array, type: LogicalType) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type) or pa.types.is_string(array.type):
        return array.cast(pa.binary())
    if pa.types.is_binary_view(array.type) or pa.types.is_large_string(array.type):
        return array.cast(pa.large_binary())
    return array


def _date(array: pa.Array, type: LogicalType) -> pa.Array:
    if not pa.types.is_date64(array.type):
        return array
    millis = array.view(pa.int64())
    days = pc.divide(millis, pa.scalar(MS_PER_DAY, pa.int64()))
    if not pc.all(pc.equal(pc.multiply(days, pa.scalar(MS_PER_DAY, pa.int64())), millis), min_count=0).as_py():
        raise SideFileError("A date64 value is no whole day.")
    if not pc.all(pc.and_(pc.less(days, DATE_INFINITY), pc.greater(days, DATE_MINUS_INFINITY)), min_count=0).as_py():
        raise ValueRangeError("A date64 value is beyond the days that 32 bits hold.")
    return days.cast(pa.int32()).view(pa.date32())


def _time(array: pa.Array, type: LogicalType) -> pa.Array:
    return array if pa.types.is_time64(array.type) else array.cast(pa.time64("us"))


def _timestamp(array: pa.Array, type: LogicalType) -> pa.Array:
    unit = array.type.unit
    if unit == "ns":
        bounds = pc.min_max(array.view(pa.int64())).as_py()
        if bounds["min"] == TIMESTAMP_MINUS_INFINITY or bounds["max"] == TIMESTAMP_INFINITY:
            return ns_decimals(array)
    zone = "UTC" if type.kind == "timestamp_tz" else None
    return array.view(pa.timestamp(unit, zone)) if array.type.tz != zone else array


def ns_decimals(array: pa.Array) -> pa.Array:
    """Return time stamps as decimal128(38,0) nanoseconds since 1970-01-01."""
    count = array.view(pa.int64()).cast(pa.decimal128(19, 0))
    return pc.multiply(count, pa.scalar(NS_PER_UNIT[array.type.unit], pa.decimal128(10, 0))).cast(pa.decimal128(38, 0))


def _interval(array: pa.Array, type: LogicalType) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type) and array.type.byte_width == 12:
        return _parquet_intervals(array)
    if not pa.types.is_duration(array.type):
        return array
    parts = np.zeros(len(array), _INTERVAL_PARTS)
    try:
        parts["nanos"] = ints_of(array.cast(pa.duration("ns")).view(pa.int64()))
    except pa.ArrowInvalid as error:
        raise ValueRangeError("A duration is beyond what an interval holds in nanoseconds.") from error
    return _intervals(parts, array)


def _parquet_intervals(array: pa.Array) -> pa.Array:
    """Decode Parquet's INTERVAL: months, days and milliseconds, 32 bits each without sign, little-endian."""
    data = np.frombuffer(pc.fill_null(array, bytes(12)).cast(pa.binary()).buffers()[2] or b"", np.uint8)
    stored = (
        data[: 12 * len(array)].view(_PARQUET_INTERVAL_PARTS) if len(array) else np.zeros(0, _PARQUET_INTERVAL_PARTS)
    )
    if len(stored) and max(int(stored["months"].max()), int(stored["days"].max())) >= 2**31:
        raise ValueRangeError("An interval has more months or days than 31 bits hold.")
    parts = np.zeros(len(array), _INTERVAL_PARTS)
    parts["months"], parts["days"] = stored["months"], stored["days"]
    parts["nanos"] = stored["millis"].astype(np.int64) * 1_000_000
    return _intervals(parts, array)


def _intervals(parts: Any, array: pa.Array) -> pa.Array:
    valid = array.is_valid()
    return pa.Array.from_buffers(INTERVAL_TYPE, len(array), [_aligned(valid).buffers()[1], pa.py_buffer(parts)])


def _aligned(flags: pa.Array) -> pa.Array:
    return flags if flags.offset == 0 else pa.concat_arrays([flags, flags.slice(0, 0)])


def ints_of(array: pa.Array) -> Any:
    """Return an int64 array's values as a numpy view, zero where NULL."""
    if array.null_count:
        array = pc.fill_null(array, 0)
    if not len(array):
        return np.zeros(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]


def _array(array: pa.Array, type: LogicalType) -> pa.Array:
    arrow = array.type
    if not (pa.types.is_list(arrow) or pa.types.is_large_list(arrow)):
        array = array.cast(
            pa.large_list(arrow.value_type) if pa.types.is_large_list_view(arrow) else pa.list_(arrow.value_type)
        )
    item = to_carrier(array.values, type.item or LogicalType("text"))
    wanted = pa.large_list(item.type) if pa.types.is_large_list(array.type) else pa.list_(item.type)
    return _rebuilt(array, wanted, [item])


def _rebuilt(array: pa.Array, wanted: pa.DataType, children: list[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=children)


def _map(array: pa.Array, type: LogicalType) -> pa.Array:
    keys = to_carrier(array.keys, type.map_key or LogicalType("text"))
    items = to_carrier(array.items, type.item or LogicalType("text"))
    wanted = pa.map_(keys.type, items.type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
    return _rebuilt(array, wanted, [entries])


def _struct(array: pa.Array, type: LogicalType) -> pa.Array:
    names = [name for name, _ in type.fields]
    parts = [to_carrier(array.field(name), part) for name, part in type.fields]
    if not parts:
        return array
    return pa.StructArray.from_arrays(parts, names=names, mask=array.is_null())


_CONVERTERS = {
    "bool": _bool,
    "decimal": _decimal,
    "float32": _float32,
    "float64": _float64,
    "text": _text,
    "json": _json,
    "json_text": _json,
    "bytes": _bytes,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamp_tz": _timestamp,
    "interval": _interval,
    "array": _array,
    "map": _map,
    "struct": _struct,
}
