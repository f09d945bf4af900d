"""Key bytes of whole Arrow arrays at once; every row equals what ``keys.encode_key`` gives for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays as raw
from airflow_delta_provider.core.arrays import Wide
from airflow_delta_provider.core.errors import KeyRangeError, KeyTextError, KeyTypeError, ValueTypeError
from airflow_delta_provider.core.keys import END, INTEGERS, NULL, POINT_BIAS, TAGS, encode_component
from airflow_delta_provider.core.types import LogicalType, carrier_allowed

BINARY = pa.large_binary()
_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_SIGN = np.uint64(1 << 63)
_SIZE_BOUNDS = np.array([1 << 8 * size for size in range(8)], np.uint64)
"""The least magnitudes of 1, 2, ... 8 bytes."""
_NAN = np.uint64(0x7FF8_0000_0000_0000)


def encode_keys(
    arrays: Sequence[Any], carrier_types: Sequence[LogicalType], key_types: Sequence[LogicalType]
) -> pa.LargeBinaryArray:
    """Return the key bytes of each row: one array for each key column, as carriers of ``carrier_types``.

    NULL becomes its component ``00``; the result has no nulls.
    Raises: KeyTypeError, KeyRangeError, KeyTextError as keys.encode_key does; ValueTypeError where a carrier cannot
    hold values of the key type.
    """
    parts = [
        encode_column(array, carrier, kind)
        for array, carrier, kind in zip(arrays, carrier_types, key_types, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, raw.binary_scalar(b""))


def encode_column(array: Any, carrier: LogicalType, key_type: LogicalType) -> pa.LargeBinaryArray:
    """Return the component bytes of one key column (see encode_keys)."""
    kind = key_type.kind
    if kind not in TAGS:
        raise KeyTypeError(f"A column of type {kind} cannot be a key.")
    array = raw.one_array(array)
    if array.null_count == len(array):
        return _repeated(NULL, len(array))
    values = array.drop_null() if array.null_count else array
    encoded = _encode_values(values, carrier, kind)
    if not array.null_count:
        return encoded
    places = np.cumsum(raw.valid_mask(array), dtype=np.int64) - 1
    taken = encoded.take(raw.int64_array(np.where(raw.valid_mask(array), places, 0)))
    return pc.if_else(array.is_valid(), taken, raw.binary_scalar(NULL))


def _encode_values(values: Any, carrier: LogicalType, kind: str) -> pa.LargeBinaryArray:
    """Encode an array without nulls."""
    if kind in INTEGERS:
        return _encode_integers(values, carrier, kind)
    if kind in ("text", "bytes"):
        return _encode_strings(values, kind)
    if kind in ("float32", "float64") and carrier.kind in ("float32", kind):
        return _encode_floats(values, kind)
    if kind == "decimal" and carrier.kind in ("int", "decimal") and not raw.is_text(values.type):
        return _encode_decimals(values)
    if kind == "bool" and pa.types.is_boolean(values.type):
        bits = raw.bool_values(values).astype(np.uint8)
        return raw.binary_rows(np.column_stack((np.full(len(bits), TAGS[kind], np.uint8), bits)))
    if kind == "uuid" and values.type == pa.binary(16):
        rows = raw.fixed_rows(values, 16)
        return raw.binary_rows(np.column_stack((np.full(len(rows), TAGS[kind], np.uint8), rows)))
    return _encode_one_by_one(values, carrier, kind)


def _encode_one_by_one(values: Any, carrier: LogicalType, kind: str) -> pa.LargeBinaryArray:
    """Encode through canonical values: floats as decimals, decimals carried as text."""
    from airflow_delta_provider.core.values import canonical_values

    canonical = canonical_values(values, carrier, LogicalType(kind))
    return raw.binary_list([encode_component(value, kind) for value in canonical])


def _encode_strings(values: Any, kind: str) -> pa.LargeBinaryArray:
    if not (raw.is_text(values.type) or raw.is_bytes(values.type)):
        raise ValueTypeError(f"An Arrow {values.type} does not carry a {kind} key.")
    if kind == "text":
        binary = values.cast(BINARY)
        if raw.is_bytes(values.type) and not raw.is_utf8(binary):
            raise KeyTextError("A key text is not valid Unicode.")
    else:
        binary = values.cast(BINARY)
    if raw.holds_zero_byte(binary):
        binary = pc.replace_substring(binary, b"\x00", b"\x00\xff")
    tag = raw.binary_scalar(bytes((TAGS[kind],)))
    return pc.binary_join_element_wise(tag, binary, raw.binary_scalar(END), raw.binary_scalar(b""))


def _encode_floats(values: Any, kind: str) -> pa.LargeBinaryArray:
    doubles = raw.float_values(values).astype(np.float64)
    bits = np.where(np.isnan(doubles), _NAN, (doubles + 0.0).view(np.uint64))
    bits = np.where(bits & _SIGN, bits ^ _ONES, bits ^ _SIGN)
    rows = np.empty((len(bits), 9), np.uint8)
    rows[:, 0] = TAGS[kind]
    rows[:, 1:] = bits.astype(">u8").view(np.uint8).reshape(-1, 8)
    return raw.binary_rows(rows)


def _encode_integers(values: Any, carrier: LogicalType, kind: str) -> pa.LargeBinaryArray:
    if carrier.kind != kind:
        return _encode_one_by_one(values, carrier, kind)
    if not carrier_allowed(kind, values.type):
        raise ValueTypeError(f"An Arrow {values.type} does not carry a {kind} key.")
    raw.refuse_infinities(values, kind)
    small = raw.int64_values(values, kind)
    return encode_int64(small, LogicalType(kind)) if small is not None else encode_wide(raw.wide_values(values), kind)


def encode_int64(values: Any, key_type: LogicalType) -> pa.LargeBinaryArray:
    """Return the key bytes of a numpy int64 array: integers, days, or nanoseconds, as ``order_int64`` gives them."""
    negative = values < 0
    magnitudes = np.abs(values).view(np.uint64)
    return _integer_rows((magnitudes,), negative, key_type.kind)


def encode_wide(values: Wide, kind: str) -> pa.LargeBinaryArray:
    """Return the key bytes of integers of up to 128 bits.

    Raises: KeyRangeError beyond.
    """
    if any(word.any() for word in values.words[2:]):
        raise KeyRangeError(f"A key value of type {kind} has more than 128 bits.")
    return _integer_rows(values.words[:2], values.negative, kind)


def _integer_rows(words: tuple[Any, ...], negative: Any, kind: str) -> pa.LargeBinaryArray:
    """Return tag, length byte and the least number of magnitude bytes; ``words`` are uint64, least significant first."""
    count, width = len(negative), 8 * len(words)
    sizes = np.searchsorted(_SIZE_BOUNDS, words[0], side="right")
    if len(words) == 2:
        sizes = np.where(words[1] > 0, 8 + np.searchsorted(_SIZE_BOUNDS, words[1], side="right"), sizes)
    longest = int(sizes.max()) if count else 0
    flip = np.where(negative, _ONES, np.uint64(0)) if negative.any() else np.uint64(0)
    rows = np.empty((count, 2 + longest), np.uint8)
    rows[:, 0] = TAGS[kind]
    rows[:, 1] = np.where(negative, 0x20 - sizes, 0x20 + sizes)
    payload = [(word ^ flip).astype(">u8").view(np.uint8).reshape(-1, 8) for word in reversed(words)]
    rows[:, 2:] = (np.concatenate(payload, axis=1) if len(payload) > 1 else payload[0])[:, width - longest :]
    if not count or sizes.min() == longest:
        return raw.binary_rows(rows)
    kept = np.empty(rows.shape, bool)
    kept[:, :2] = True
    kept[:, 2:] = np.arange(longest) >= (longest - sizes)[:, None]
    return raw.binary_ragged(rows[kept], sizes + 2)


def _encode_decimals(values: Any) -> pa.LargeBinaryArray:
    """Encode integers and Arrow decimals as decimal keys, over the digits of their unscaled integers."""
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    text = raw.unscaled_text(values)
    stripped = pc.utf8_rtrim(pc.utf8_ltrim(text, "-"), "0")
    negative = raw.bool_values(pc.starts_with(text, "-"))
    lengths = raw.byte_lengths(text) - negative
    kept = raw.byte_lengths(stripped)
    points = (lengths - scale + POINT_BIAS).astype(">u4").view(np.uint8).reshape(-1, 4)
    zero = kept == 0
    width = 8 + (int(kept.max()) if len(kept) else 0)
    rows = np.zeros((len(kept), width), np.uint8)
    rows[:, 0], rows[:, 1] = TAGS["decimal"], 0x02
    rows[:, 2] = np.where(zero, 0x80, np.where(negative, 0x7F, 0x81))
    rows[:, 3:7] = points
    places = np.arange(width - 8) < kept[:, None]
    rows[:, 7:-1][places] = raw.byte_values(stripped) - (0x30 - 1)
    rows[:, 3:] ^= np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
    sizes = np.where(zero, 3, kept + 8)
    return raw.binary_ragged(rows[np.arange(width) < sizes[:, None]], sizes)


def order_int64(
    arrays: Sequence[Any], carrier_types: Sequence[LogicalType], key_types: Sequence[LogicalType]
) -> Any | None:
    """Return int64 values whose order is the key order, for one whole-number key column without NULL, else None.

    Integers as they are, dates as days, times and time stamps as nanoseconds; None where a value does not fit int64.
    Batches of one stream may differ in this: a caller falls back to ``encode_keys``.
    Raises: KeyRangeError for infinite dates.
    """
    if len(arrays) != 1 or key_types[0].kind not in INTEGERS or carrier_types[0].kind != key_types[0].kind:
        return None
    array = raw.one_array(arrays[0])
    if array.null_count:
        return None
    raw.refuse_infinities(array, key_types[0].kind)
    return raw.int64_values(array, key_types[0].kind)


def _repeated(component: bytes, count: int) -> pa.LargeBinaryArray:
    return raw.binary_rows(np.frombuffer(component * count, np.uint8).reshape(count, len(component)))
