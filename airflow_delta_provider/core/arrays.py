"""Arrow buffers as numpy views and back, without copies through Python objects and without pandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.errors import KeyRangeError, ValueTypeError
from airflow_delta_provider.core.types import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
)

UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INT64_MAX = 2**63 - 1
_LOW = np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class Wide:
    """Whole numbers too wide for 64 bits, as sign and magnitude.

    Shape: ``words`` are numpy uint64 arrays, least significant first, at least two; ``negative`` is boolean, False for 0.
    """

    negative: Any
    words: tuple[Any, ...]


def one_array(array: Any) -> Any:
    """Return a contiguous array: chunks joined."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def is_text(arrow: pa.DataType) -> bool:
    """True for strings."""
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def is_bytes(arrow: pa.DataType) -> bool:
    """True for binary of variable length."""
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def fixed_rows(array: Any, width: int) -> Any:
    """Return the bytes of an array of fixed width as rows; what stands under NULL is arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), width), np.uint8)
    flat = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    return flat.reshape(len(array), width)


def typed_values(array: Any, dtype: Any) -> Any:
    """Return a view of an array of fixed width as numpy values; what stands under NULL is arbitrary."""
    kind = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def float_values(array: Any) -> Any:
    """Return the floats of a float32 or float64 array."""
    return typed_values(array, np.float32 if pa.types.is_float32(array.type) else np.float64)


def _bits(buffer: Any, offset: int, count: int) -> Any:
    packed = np.frombuffer(buffer, np.uint8)
    first = offset // 8
    bits = np.unpackbits(packed[first : (offset + count + 7) // 8], bitorder="little")
    return bits[offset - first * 8 :][:count].astype(bool)


def bool_values(array: Any) -> Any:
    """Return the values of a boolean array; what stands under NULL is arbitrary."""
    array = one_array(array)
    return _bits(array.buffers()[1], array.offset, len(array)) if len(array) else np.zeros(0, bool)


def valid_mask(array: Any) -> Any:
    """Return which values are not NULL."""
    return bool_values(array.is_valid()) if array.null_count else np.ones(len(array), bool)


def bool_array(values: Any, valid: Any | None = None) -> pa.BooleanArray:
    """Return an Arrow array of a numpy boolean array."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(values), [mask, bits])


def int64_array(values: Any) -> pa.Int64Array:
    """Return an Arrow array of a numpy int64 array."""
    whole = np.ascontiguousarray(values, np.int64)
    return pa.Int64Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def binary_rows(rows: Any) -> pa.LargeBinaryArray:
    """Return an Arrow array of byte rows of one width."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return _binary(offsets, np.ascontiguousarray(rows).reshape(-1))


def binary_ragged(flat: Any, sizes: Any) -> pa.LargeBinaryArray:
    """Return an Arrow array of byte strings that stand one after the other in ``flat``."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return _binary(offsets, flat)


def binary_scalar(value: bytes) -> Any:
    """Return a large_binary scalar."""
    return binary_rows(np.frombuffer(value, np.uint8).reshape(1, len(value)))[0]


def binary_list(values: list[bytes]) -> pa.LargeBinaryArray:
    """Return an Arrow array of byte strings."""
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    return binary_ragged(np.frombuffer(b"".join(values), np.uint8), sizes)


def _binary(offsets: Any, flat: Any) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(flat)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def byte_lengths(array: Any) -> Any:
    """Return the bytes of each value of a string or binary array without nulls, as int64."""
    if not len(array):
        return np.zeros(0, np.int64)
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offset_type = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(array.buffers()[1], offset_type, len(array) + 1, array.offset * offset_type.itemsize)
    return np.diff(offsets).astype(np.int64)


def byte_values(array: Any) -> Any:
    """Return all bytes of a string or binary array without nulls, in one run."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offset_buffer, data = array.buffers()
    if not len(array) or data is None:
        return np.zeros(0, np.uint8)
    offset_type = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(offset_buffer, offset_type, len(array) + 1, array.offset * offset_type.itemsize)
    return np.frombuffer(data, np.uint8)[int(offsets[0]) : int(offsets[-1])]


def holds_zero_byte(array: Any) -> bool:
    """True where some byte of a string or binary array is 0."""
    values = byte_values(array)
    return bool(len(values)) and int(values.min()) == 0


def is_utf8(array: Any) -> bool:
    """True where every value of a large_binary array is valid UTF-8."""
    try:
        array.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def unscaled_text(array: Any) -> pa.Array:
    """Return the digits, with sign, of integers or of the unscaled integers of a decimal array."""
    if pa.types.is_decimal(array.type):
        whole = pa.decimal128(38, 0) if pa.types.is_decimal128(array.type) else pa.decimal256(76, 0)
        array = pa.Array.from_buffers(whole, len(array), array.buffers(), array.null_count, array.offset)
    return pc.cast(array, pa.large_string())


def unit_ns(arrow: pa.DataType) -> int:
    """Return how many nanoseconds one unit of a time or timestamp type is; decimal carriers count nanoseconds."""
    return UNIT_NS[arrow.unit] if pa.types.is_timestamp(arrow) or pa.types.is_time(arrow) else 1


def infinite(array: Any) -> tuple[Any, Any] | None:
    """Return which values of a date or timestamp array are plus and minus infinity; None where the type has none."""
    if pa.types.is_date32(array.type):
        days = typed_values(array, np.int32)
        return days == DATE_INFINITY, days == DATE_MINUS_INFINITY
    if pa.types.is_timestamp(array.type):
        counts = typed_values(array, np.int64)
        return counts == TIMESTAMP_INFINITY, counts == TIMESTAMP_MINUS_INFINITY
    return None


def refuse_infinities(array: Any, kind: str) -> None:
    """Refuse infinite dates and time stamps in an array without nulls.

    Raises: KeyRangeError.
    """
    found = infinite(array)
    if found is not None and (found[0].any() or found[1].any()):
        raise KeyRangeError(f"An infinite {kind} cannot be a key.")


def int64_values(array: Any, kind: str) -> Any | None:
    """Return whole numbers, days or nanoseconds of an array without nulls as int64, or None where one does not fit."""
    arrow = array.type
    if pa.types.is_decimal(arrow):
        return _int64_of_wide(whole_decimals(array, kind))
    if pa.types.is_date32(arrow):
        return typed_values(array, np.int32).astype(np.int64)
    if pa.types.is_timestamp(arrow) or pa.types.is_time64(arrow):
        counts, unit = typed_values(array, np.int64), unit_ns(arrow)
        limit = INT64_MAX // unit
        fits = unit == 1 or not len(counts) or (counts.min() >= -limit and counts.max() <= limit)
        return counts * unit if fits else None
    if not pa.types.is_integer(arrow):
        raise ValueTypeError(f"An Arrow {arrow} does not carry a {kind}.")
    values = typed_values(array, f"{'u' if pa.types.is_unsigned_integer(arrow) else 'i'}{arrow.bit_width // 8}")
    if values.dtype == np.uint64 and len(values) and values.max() > INT64_MAX:
        return None
    return values.astype(np.int64, copy=False)


def whole_decimals(array: Any, kind: str) -> Wide:
    """Return the whole numbers of a decimal array of scale 0.

    Raises: ValueTypeError for another scale: such an array does not carry integers.
    """
    if array.type.scale != 0:
        raise ValueTypeError(f"An Arrow {array.type} does not carry a {kind}.")
    return wide_values(array)


def _int64_of_wide(wide: Wide) -> Any | None:
    low = wide.words[0]
    if any(word.any() for word in wide.words[1:]) or (low > np.uint64(INT64_MAX)).any():
        return None
    values = low.astype(np.int64)
    return np.where(wide.negative, -values, values)


def wide_values(array: Any) -> Wide:
    """Return unscaled integers, whole numbers or nanoseconds of an array as sign and magnitude of 128 or 256 bits."""
    arrow = array.type
    if pa.types.is_decimal(arrow):
        count = arrow.byte_width // 8
        matrix = typed_values(array, f"V{arrow.byte_width}").view("<u8").reshape(-1, count)
        return _magnitude([matrix[:, place] for place in range(count)])
    if pa.types.is_uint64(arrow):
        values = typed_values(array, np.uint64)
        return Wide(np.zeros(len(values), bool), (values, np.zeros(len(values), np.uint64)))
    if pa.types.is_timestamp(arrow) or pa.types.is_time64(arrow):
        counts, unit = typed_values(array, np.int64), unit_ns(arrow)
    else:
        small = int64_values(array, "int")
        counts, unit = np.zeros(0, np.int64) if small is None else small, 1
    negative = counts < 0
    magnitudes = np.where(negative, ~counts.view(np.uint64) + np.uint64(1), counts.view(np.uint64))
    return Wide(negative, _times(magnitudes, np.uint64(unit)))


def _magnitude(words: list[Any]) -> Wide:
    """Return sign and magnitude of two's complement words, least significant first."""
    negative = words[-1] >> np.uint64(63) == 1
    carry = negative.astype(np.uint64)
    flip = np.where(negative, np.uint64(0xFFFF_FFFF_FFFF_FFFF), np.uint64(0))
    result = []
    for word in words:
        turned = (word ^ flip) + carry
        carry = ((turned < carry) & negative).astype(np.uint64)
        result.append(turned)
    return Wide(negative, tuple(result))


def _times(values: Any, factor: Any) -> tuple[Any, Any]:
    """Multiply uint64 values by a factor below 2**31, to 128 bits."""
    low, high = (values & _LOW) * factor, (values >> np.uint64(32)) * factor
    total = low + (high << np.uint64(32))
    carry = (total < low).astype(np.uint64)
    return total, (high >> np.uint64(32)) + carry


def list_lengths(array: Any) -> Any:
    """Return the number of elements of each list or map of an array without nulls, as int64."""
    if pa.types.is_map(array.type):
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
        return np.diff(offsets).astype(np.int64)
    return typed_values(pc.cast(pc.list_value_length(array), pa.int64()), np.int64)


def map_entries(array: Any) -> tuple[Any, Any]:
    """Return all keys and all items of a map array without nulls, as two arrays of one length."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return array.keys.slice(first, count), array.items.slice(first, count)


def struct_children(array: Any, kind: LogicalType) -> dict[str, Any]:
    """Return the children of a struct array by field name, NULL where the struct is NULL.

    Raises: ValueTypeError where the array has other fields than its logical type, or one name twice.
    """
    names = [name for name, _ in kind.fields]
    if names != [field.name for field in array.type] or len(set(names)) < len(names):
        raise ValueTypeError(f"An Arrow {array.type} does not carry a {kind.text}.")
    return dict(zip(names, array.flatten(), strict=True))
