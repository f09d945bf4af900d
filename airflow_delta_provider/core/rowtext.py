"""Canonical JSON text of whole columns, made by Arrow: the same bytes as value by value, where that is certain.

What is not certain, or not common, is left to `values.canonical_values`; nothing here raises for a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays
from airflow_delta_provider.core.types import LogicalType

PLAIN_FLOAT_MAX = 1e9
PLAIN_FLOAT_MIN = 1e-5
"""Between these, Arrow and ECMAScript lay out the digits of a float alike: plain, without an exponent."""
PLAIN_SCALE_MAX = 6
"""Places up to which Arrow writes a decimal without an exponent, whatever its value."""
_YEAR_1_DAYS, _YEAR_9999_DAYS = -719_162, 2_932_896
_DAY_S = 86_400
_TEXT = pa.large_string()
_QUOTE = pa.scalar('"', _TEXT)
_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2")


def json_texts(array: Any, carrier: LogicalType, schema: LogicalType, inline_limit: int) -> pa.Array | None:
    """Return the canonical JSON of each value as large_string without NULLs, or None where it must be made one by one.

    ``array`` carries values of ``carrier``; the schema type is the same, or decimal for integers. A value whose JSON may
    be longer than ``inline_limit`` bytes sends the whole column the slow way.
    """
    array = arrays.one_array(array)
    if array.null_count == len(array):
        return pa.array(["null"] * len(array), _TEXT)
    if carrier.kind != schema.kind and not (schema.kind == "decimal" and pa.types.is_integer(array.type)):
        return None
    make = _MAKERS.get(schema.kind)
    made = None if make is None else make(array)
    if made is None:
        return None
    texts, tail = made
    if tail is not None:
        texts = pc.binary_join_element_wise(_QUOTE, texts, tail, pa.scalar("", _TEXT))
    if pc.max(pc.binary_length(texts)).as_py() > inline_limit:
        return None
    return pc.fill_null(texts, "null") if texts.null_count else texts


Made = tuple[pa.Array, Any] | None
"""Texts, and what comes after each between it and the comma: a closing quote as a rule; None where nothing is quoted."""


def _bools(array: Any) -> Made:
    if not pa.types.is_boolean(array.type):
        return None
    return pc.if_else(array, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT)), None


def _ints(array: Any) -> Made:
    if pa.types.is_integer(array.type) or (pa.types.is_decimal128(array.type) and array.type.scale == 0):
        return pc.cast(array, _TEXT), _QUOTE
    return None


def _decimals(array: Any) -> Made:
    """Return whole numbers, and decimals of few places, which Arrow writes without an exponent."""
    if pa.types.is_integer(array.type):
        return pc.cast(array, _TEXT), _QUOTE
    if not pa.types.is_decimal(array.type) or not 0 <= array.type.scale <= PLAIN_SCALE_MAX:
        return None
    texts = pc.cast(array, _TEXT)
    if array.type.scale:
        texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return texts, _QUOTE


def _texts(array: Any) -> Made:
    """Return texts in which nothing must be escaped."""
    if not arrays.is_text(array.type) or not _is_plain(array):
        return None
    return pc.cast(array, _TEXT), _QUOTE


def _is_plain(array: Any) -> bool:
    """Tell whether no byte of a string array is a control, a quote or a backslash, and all is valid UTF-8."""
    data = arrays.byte_values(array)
    if len(data) == 0:
        return True
    special = (data < 0x20) | (data == 0x22) | (data == 0x5C)
    return not special.any() and (int(data.max()) < 0x80 or arrays.is_utf8(array.cast(pa.large_binary())))


def _floats(array: Any) -> Made:
    if not pa.types.is_float64(array.type):
        return None
    valid = arrays.valid_mask(array)
    size = np.abs(np.where(valid, arrays.float_values(array), 0.0))
    if not bool(((size == 0) | ((size >= PLAIN_FLOAT_MIN) & (size < PLAIN_FLOAT_MAX))).all()):
        return None
    return pc.cast(pc.add(array, pa.scalar(0.0)), _TEXT), _QUOTE


def _dates(array: Any) -> Made:
    bounds = pc.min_max(array.cast(pa.int32()))
    if bounds["min"].as_py() < _YEAR_1_DAYS or bounds["max"].as_py() > _YEAR_9999_DAYS:
        return None
    return pc.cast(array, _TEXT), _QUOTE


def _stamps(zone: str) -> Callable[[Any], Made]:
    def make(array: Any) -> Made:
        if not pa.types.is_timestamp(array.type):
            return None
        unit = array.type.unit
        per_second = 10**9 // arrays.unit_ns(array.type)
        bounds = pc.min_max(array.cast(pa.int64()))
        lower, upper = (days * _DAY_S * per_second for days in (_YEAR_1_DAYS, _YEAR_9999_DAYS + 1))
        if bounds["min"].as_py() <= max(lower, -(2**63)) or bounds["max"].as_py() >= min(upper, 2**63 - 1):
            return None
        texts = pc.cast(array.cast(pa.timestamp(unit)), _TEXT)
        texts = pc.binary_replace_slice(texts, 10, 11, "T")
        if unit != "s":
            texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
        return texts, pa.scalar(zone + '"', _TEXT)

    return make


def _uuids(array: Any) -> Made:
    if array.type != pa.binary(16):
        return None
    count = len(array)
    digits = _HEX[arrays.fixed_rows(array, 16)].view(np.uint8).reshape(count, 32)
    chars = np.full((count, 36), ord("-"), np.uint8)
    for place, start, stop in ((0, 0, 8), (9, 8, 12), (14, 12, 16), (19, 16, 20), (24, 20, 32)):
        chars[:, place : place + stop - start] = digits[:, start:stop]
    texts = arrays.binary_rows(chars).cast(_TEXT)
    if array.null_count:
        texts = pc.if_else(array.is_valid(), texts, pa.scalar(None, _TEXT))
    return texts, _QUOTE


_MAKERS: dict[str, Callable[[Any], Made]] = {
    "bool": _bools,
    "int": _ints,
    "decimal": _decimals,
    "float64": _floats,
    "text": _texts,
    "uuid": _uuids,
    "date": _dates,
    "timestamp": _stamps(""),
    "timestamp_tz": _stamps("Z"),
}
