"""Random carrier arrays of every logical kind, for property tests: sliced, with NULLs, garbage under the NULLs, edge values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from airflow_delta_provider.core.types import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
)

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DECIMALS = [
    pa.decimal128(1, 0),
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(18, 18),
    pa.decimal128(20, 3),
    pa.decimal128(38, 10),
    pa.decimal128(38, 38),
    pa.decimal128(10, -2),
    pa.decimal256(10, 2),
    pa.decimal256(76, 30),
    pa.decimal256(76, 0),
]
UNITS = ["s", "ms", "us", "ns"]
DAY_US = 86_400_000_000
_SMALL = st.integers(-12, 12)
_DOUBLES = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 0.1, 0.5, 0.25, 1.0, 3.0, -2.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e21, 1e22, 5e-324]
    ),
    st.floats(),
    st.integers(-50, 50).map(lambda number: number / 8),
)


def _whole(arrow: pa.DataType) -> st.SearchStrategy[int]:
    bits = arrow.bit_width
    lower, upper = (
        (0, 2**bits - 1) if pa.types.is_unsigned_integer(arrow) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    near = st.integers(max(lower, -12), 12)
    return st.one_of(near, st.integers(lower, upper), st.sampled_from([lower, upper]))


def _decimal(arrow: pa.DataType) -> st.SearchStrategy[Decimal]:
    most = 10**arrow.precision - 1
    unscaled = st.one_of(
        st.integers(-min(most, 12), min(most, 12)),
        st.integers(-most, most),
        st.sampled_from([most, -most]),
        _SMALL.map(lambda number: max(-most, min(most, number * 10 ** max(arrow.scale, 0)))),
    )
    return unscaled.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -arrow.scale)))


@st.composite
def _text_number(draw: Any) -> str:
    from airflow_delta_provider.core.decimals import canonical_decimal

    special = draw(st.sampled_from(["NaN", "Infinity", "-Infinity", "", "", "", ""]))
    number = draw(st.one_of(_SMALL, st.integers(-(10**90), 10**90)))
    return special or canonical_decimal(f"{number}e{draw(st.integers(-40, 5))}")


TEXTS = st.text(st.sampled_from("ab\x00é\U0001f600 "), max_size=4)
WIDE_NS = st.one_of(_SMALL, st.integers(-(10**37), 10**37), st.integers(-(2**63), 2**63 - 1))


def scalars(kind: str, finite: bool = False) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Draw an Arrow type that carries the kind, with a strategy of its Python values."""

    def of(types: list[pa.DataType], values: Any) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
        return st.sampled_from(types).map(lambda arrow: (arrow, values(arrow) if callable(values) else values))

    days = st.one_of(_SMALL, st.integers(-(2**31) + 1, 2**31 - 2))
    if not finite:
        days = days | st.sampled_from([DATE_INFINITY, DATE_MINUS_INFINITY])
    match kind:
        case "bool":
            return of([pa.bool_()], st.booleans())
        case "int":
            return of(INTS, _whole) | of([pa.decimal128(38, 0), pa.decimal256(38, 0)], _decimal)
        case "decimal":
            return of(DECIMALS, _decimal) | of([pa.string(), pa.large_string()], _text_number())
        case "float64":
            return of([pa.float64()], _DOUBLES)
        case "float32":
            return of([pa.float32()], st.floats(width=32) | st.integers(-50, 50).map(lambda number: number / 8))
        case "text" if finite:
            return of([pa.string(), pa.large_string()], TEXTS) | of([pa.large_binary()], TEXTS.map(str.encode))
        case "text":
            binary = st.binary(max_size=3) | TEXTS.map(str.encode)
            return of([pa.string(), pa.large_string()], TEXTS) | of([pa.binary(), pa.large_binary()], binary)
        case "bytes":
            return of([pa.binary(), pa.large_binary()], st.binary(max_size=4))
        case "uuid":
            return of([pa.binary(16)], st.binary(min_size=16, max_size=16) | st.just(bytes(16)))
        case "date":
            return of([pa.date32()], days)
        case "time":
            clock = st.one_of(st.integers(0, 12), st.integers(0, DAY_US), st.just(DAY_US))
            return of([pa.time64("us")], clock) | of([pa.time64("ns")], clock.map(lambda count: count * 1000))
        case "timestamp" | "timestamp_tz":
            zone = "UTC" if kind == "timestamp_tz" else None
            counts = st.one_of(_SMALL, _SMALL.map(lambda number: number * 1000), st.integers(-(2**63) + 1, 2**63 - 2))
            if not finite:
                counts = counts | st.sampled_from([TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY])
            wide = WIDE_NS.map(Decimal)
            return of([pa.timestamp(unit, zone) for unit in UNITS], counts) | of([pa.decimal128(38, 0)], wide)
        case "interval":
            part = st.tuples(_SMALL, _SMALL, st.integers(-(2**63), 2**63 - 1) | _SMALL)
            return of([pa.month_day_nano_interval()], part)
        case "json" | "json_text":
            return of([pa.string(), pa.large_string()], st.sampled_from(['{"a":1}', "[]", "1", "null", '"é"']))
    raise ValueError(kind)


def build(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    """Return an array; dates and time stamps come as counts."""
    if pa.types.is_date32(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    if pa.types.is_timestamp(arrow) or pa.types.is_time64(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    if pa.types.is_decimal(arrow) and arrow.scale < 0:
        return _negative_scale(arrow, values)
    return pa.array(values, arrow)


def _negative_scale(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    """Build through the unscaled integers: Arrow's own conversion takes no negative scale."""
    whole = [None if value is None else Decimal(int(value) // 10**-arrow.scale) for value in values]
    plain = pa.array(whole, pa.decimal128(38, 0))
    return pa.Array.from_buffers(arrow, len(plain), plain.buffers(), plain.null_count, plain.offset)


@st.composite
def carriers(draw: Any, kind: str, length: int, *, nulls: bool = True, finite: bool = False) -> pa.Array:
    """Draw an array of ``length`` values of a kind: a slice of a longer one, under whose NULLs values may stand."""
    arrow, values = draw(scalars(kind, finite))
    before = draw(st.integers(0, 3))
    drawn = draw(st.lists(values, min_size=before + length, max_size=before + length))
    array = build(arrow, drawn)
    if nulls and draw(st.booleans()):
        array = _with_nulls(array, draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array))))
    return array.slice(before)


def _with_nulls(array: pa.Array, present: list[bool]) -> pa.Array:
    """Return the array with NULLs that keep the values beneath."""
    mask = pa.array(present, pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(array.type, len(array), [mask, *array.buffers()[1:]])


KINDS = [
    "bool", "int", "decimal", "float64", "float32", "text", "bytes", "uuid", "date", "time", "timestamp", "timestamp_tz",
    "interval", "json", "json_text",
]  # fmt: skip
"""Every scalar kind."""


def kind(name: str) -> LogicalType:
    """Return a scalar logical type."""
    return LogicalType(name)
