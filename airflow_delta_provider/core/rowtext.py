"""Canonical JSON text of whole columns, made by Arrow: the same bytes as value by value, where that is certain.

Values of which that is not certain are named and left to `values.canonical_values`; nothing here raises for a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
BYTES = pa.large_binary()
_YEAR_1_DAYS, _YEAR_9999_DAYS = -719_162, 2_932_896
_DAY_S = 86_400
_TEXT = pa.large_string()
_QUOTE = pa.scalar('"', _TEXT)
_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2")


@dataclass(frozen=True, slots=True)
class Texts:
    """Canonical JSON of one column. Shape: ``array`` is large_binary without NULLs; where ``doubtful``, a numpy mask, is
    true, it holds something else, and the value must be looked at alone. None: nowhere.
    """

    array: Any
    doubtful: Any | None


def json_texts(array: Any, carrier: LogicalType, schema: LogicalType, inline_limit: int) -> Texts | None:
    """Return the canonical JSON of each value, or None where all of them must be made one by one.

    ``array`` carries values of ``carrier``; the schema type is the same, or decimal for integers. A value whose JSON is
    longer than ``inline_limit`` bytes is doubtful.
    """
    array = arrays.one_array(array)
    if array.null_count == len(array):
        return Texts(repeated(b"null", len(array)), None)
    if carrier.kind != schema.kind and not (schema.kind == "decimal" and pa.types.is_integer(array.type)):
        return None
    make = _MAKERS.get(schema.kind)
    made = None if make is None else make(array)
    if made is None:
        return None
    texts, tail, doubtful = made
    if tail is not None:
        texts = pc.binary_join_element_wise(_QUOTE, texts, tail, pa.scalar("", _TEXT))
    if texts.null_count:
        texts = pc.fill_null(texts, "null")
    texts = texts.cast(BYTES)
    lengths = arrays.byte_lengths(texts)
    if int(lengths.max()) > inline_limit:
        doubtful = _either(doubtful, lengths > inline_limit)
    return Texts(texts, doubtful if doubtful is not None and doubtful.any() else None)


def repeated(text: bytes, count: int) -> pa.LargeBinaryArray:
    """Return one text many times."""
    return arrays.binary_rows(np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text))))


def json_rows(columns: list[Any], count: int) -> pa.LargeBinaryArray:
    """Return one JSON array a row from the JSON texts of its columns; a NULL in a column leaves it out of the row."""
    if not columns:
        return repeated(b"[]", count)
    inner = pc.binary_join_element_wise(*columns, _scalar(b","), null_handling="skip")
    return pc.binary_join_element_wise(_scalar(b"["), inner, _scalar(b"]"), _scalar(b""))


def _scalar(text: bytes) -> Any:
    return pa.scalar(text, BYTES)


Made = tuple[pa.Array, Any, Any] | None
"""Texts; what comes after each between it and the comma, a closing quote as a rule, None where nothing is quoted; and
which texts are doubtful, a numpy mask or None.
"""


def _either(one: Any | None, other: Any) -> Any:
    return other if one is None else one | other


def _bools(array: Any) -> Made:
    if not pa.types.is_boolean(array.type):
        return None
    return pc.if_else(array, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT)), None, None


def _ints(array: Any) -> Made:
    if pa.types.is_integer(array.type) or (pa.types.is_decimal128(array.type) and array.type.scale == 0):
        return pc.cast(array, _TEXT), _QUOTE, None
    return None


def _decimals(array: Any) -> Made:
    """Return whole numbers and decimals; Arrow writes an exponent for small values of many places."""
    if pa.types.is_integer(array.type):
        return pc.cast(array, _TEXT), _QUOTE, None
    if not pa.types.is_decimal(array.type) or array.type.scale < 0:
        return None
    texts, doubtful = pc.cast(array, _TEXT), None
    if array.type.scale > PLAIN_SCALE_MAX:
        texts = pc.if_else(pc.starts_with(texts, "0E"), pa.scalar("0.", _TEXT), texts)
        doubtful = arrays.bool_values(pc.fill_null(pc.match_substring(texts, "E"), False))
    if array.type.scale:
        texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return texts, _QUOTE, doubtful


def _texts(array: Any) -> Made:
    """Return texts; those in which something must be escaped are doubtful."""
    if not arrays.is_text(array.type):
        return None
    whole = pc.fill_null(array, "") if array.null_count else array
    data = arrays.byte_values(whole)
    if len(data) and int(data.max()) >= 0x80 and not arrays.is_utf8(whole.cast(BYTES)):
        return None
    doubtful = None
    special = (data < 0x20) | (data == 0x22) | (data == 0x5C)
    if special.any():
        ends = np.cumsum(arrays.byte_lengths(whole))
        doubtful = np.zeros(len(array), bool)
        doubtful[np.searchsorted(ends, np.flatnonzero(special), side="right")] = True
    return pc.cast(array, _TEXT), _QUOTE, doubtful


def _floats(array: Any) -> Made:
    if not pa.types.is_float64(array.type):
        return None
    valid = arrays.valid_mask(array)
    size = np.abs(np.where(valid, arrays.float_values(array), 0.0))
    plain = (size == 0) | ((size >= PLAIN_FLOAT_MIN) & (size < PLAIN_FLOAT_MAX))
    return pc.cast(pc.add(array, pa.scalar(0.0)), _TEXT), _QUOTE, ~plain


def _bytes(array: Any) -> Made:
    if not arrays.is_bytes(array.type):
        return None
    whole = pc.fill_null(array, b"") if array.null_count else array
    digits = _HEX[arrays.byte_values(whole)].view(np.uint8)
    texts = arrays.binary_ragged(digits, 2 * arrays.byte_lengths(whole)).cast(_TEXT)
    return _with_nulls(texts, array), _QUOTE, None


def _with_nulls(texts: Any, array: Any) -> Any:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, _TEXT)) if array.null_count else texts


def _within(array: Any, counts: Any, lower: int, upper: int) -> tuple[Any, Any | None]:
    """Return the array with NULL for what is not in [lower, upper], and which values that are."""
    bounds = pc.min_max(counts)
    if lower <= bounds["min"].as_py() and bounds["max"].as_py() <= upper:
        return array, None
    outside = pc.or_(pc.less(counts, lower), pc.greater(counts, upper))
    kept = pc.if_else(outside, pa.scalar(None, array.type), array)
    return kept, arrays.bool_values(pc.fill_null(outside, False))


def _dates(array: Any) -> Made:
    if not pa.types.is_date32(array.type):
        return None
    array, doubtful = _within(array, array.cast(pa.int32()), _YEAR_1_DAYS, _YEAR_9999_DAYS)
    return pc.cast(array, _TEXT), _QUOTE, doubtful


def _stamps(zone: str) -> Callable[[Any], Made]:
    def make(array: Any) -> Made:
        if not pa.types.is_timestamp(array.type):
            return None
        unit = array.type.unit
        per_second = 10**9 // arrays.unit_ns(array.type)
        lower, upper = (days * _DAY_S * per_second for days in (_YEAR_1_DAYS, _YEAR_9999_DAYS + 1))
        counts = array.cast(pa.int64())
        array, doubtful = _within(array, counts, max(lower, 1 - 2**63), min(upper - 1, 2**63 - 2))
        texts = pc.cast(array.cast(pa.timestamp(unit)), _TEXT)
        texts = pc.binary_replace_slice(texts, 10, 11, "T")
        if unit != "s":
            texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
        return texts, pa.scalar(zone + '"', _TEXT), doubtful

    return make


def _uuids(array: Any) -> Made:
    if array.type != pa.binary(16):
        return None
    count = len(array)
    digits = _HEX[arrays.fixed_rows(array, 16)].view(np.uint8).reshape(count, 32)
    chars = np.full((count, 36), ord("-"), np.uint8)
    for place, start, stop in ((0, 0, 8), (9, 8, 12), (14, 12, 16), (19, 16, 20), (24, 20, 32)):
        chars[:, place : place + stop - start] = digits[:, start:stop]
    return _with_nulls(arrays.binary_rows(chars).cast(_TEXT), array), _QUOTE, None


_MAKERS: dict[str, Callable[[Any], Made]] = {
    "bool": _bools,
    "int": _ints,
    "decimal": _decimals,
    "float64": _floats,
    "text": _texts,
    "bytes": _bytes,
    "uuid": _uuids,
    "date": _dates,
    "timestamp": _stamps(""),
    "timestamp_tz": _stamps("Z"),
}
