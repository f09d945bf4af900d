"""Bring carrier arrays of one column to one Arrow type: batches of a side may carry the same logical type differently."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.errors import ValueRangeError
from airflow_delta_provider.core.types import TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY, LogicalType
from airflow_delta_provider.core.values import canonical_values

WIDE_INT = pa.decimal256(76, 0)
WIDE_STAMP = pa.decimal128(38, 0)
NS_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INT64_MAX = 2**63 - 1
US_PER = {"s": 10**6, "ms": 10**3, "us": 1}


def unified(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the arrays under one Arrow type that holds every value exactly.

    Raises: ValueRangeError where infinite time stamps meet such that 64 bits cannot hold.
    """
    types = {column.type for column in columns}
    if len(types) <= 1:
        return list(columns)
    target = _common(types)
    if pa.types.is_timestamp(target) and not all(_fits_us(column) for column in columns):
        target = WIDE_STAMP
    return [column if column.type == target else _converted(column, target) for column in columns]


def unified_batches(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return batches of the same columns under one schema."""
    if len({tuple(batch.schema.types) for batch in batches}) <= 1:
        return list(batches)
    names = batches[0].schema.names
    columns = [unified([batch.column(number) for batch in batches]) for number in range(len(names))]
    return [pa.RecordBatch.from_arrays(list(row), names=names) for row in zip(*columns, strict=True)]


def _common(types: set[pa.DataType]) -> pa.DataType:
    if all(_textual(kind) for kind in types):
        return pa.large_binary() if any(_binary(kind) for kind in types) else pa.large_string()
    if any(pa.types.is_timestamp(kind) for kind in types):
        stamps = [kind for kind in types if pa.types.is_timestamp(kind)]
        coarse = len(stamps) == len(types) and all(kind.unit != "ns" for kind in stamps)
        return pa.timestamp("us", tz=stamps[0].tz) if coarse else WIDE_STAMP
    if all(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0) for kind in types):
        return WIDE_INT
    if all(pa.types.is_decimal(kind) or _textual(kind) for kind in types):
        return pa.large_string()
    if all(pa.types.is_time64(kind) for kind in types):
        return pa.time64("ns")
    if all(pa.types.is_list(kind) or pa.types.is_large_list(kind) for kind in types):
        return pa.large_list(_common({kind.value_type for kind in types}))
    first = min(types, key=str)
    raise ValueRangeError(f"a column is carried as {first} and as {max(types, key=str)}.")


def _converted(column: pa.Array, target: pa.DataType) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _stamp(column, target)
    if pa.types.is_decimal(kind) and _textual(target):
        decimal = LogicalType("decimal")
        return pa.array(canonical_values(column, decimal, decimal), target)
    if pa.types.is_integer(kind) and pa.types.is_decimal(target):
        wide = column.cast(pa.decimal128(20, 0))
        return wide.cast(target)
    return column.cast(target)


def _stamp(column: pa.Array, target: pa.DataType) -> pa.Array:
    counts = column.view(pa.int64())
    infinite = pc.or_(pc.equal(counts, TIMESTAMP_INFINITY), pc.equal(counts, TIMESTAMP_MINUS_INFINITY)).fill_null(False)
    if pa.types.is_timestamp(target):
        factor = US_PER[column.type.unit]
        plain = pc.multiply_checked(pc.if_else(infinite, 0, counts), factor)
        return pc.if_else(infinite, counts, plain).view(target)
    if infinite.true_count:
        raise ValueRangeError("infinite time stamps stand beside ones that 64 bits cannot hold.")
    factor = pa.scalar(Decimal(NS_PER[column.type.unit]), pa.decimal128(10, 0))
    return pc.multiply(counts.cast(pa.decimal128(19, 0)), factor).cast(target)


def _fits_us(column: pa.Array) -> bool:
    """Tell whether 64 bits hold all finite time stamps of a column, which is none of nanoseconds, as microseconds."""
    most = INT64_MAX // US_PER[column.type.unit]
    counts = column.view(pa.int64())
    infinite = pc.or_(pc.equal(counts, TIMESTAMP_INFINITY), pc.equal(counts, TIMESTAMP_MINUS_INFINITY))
    far = pc.or_(pc.greater(counts, most), pc.less(counts, -most))
    return not pc.any(pc.and_(far, pc.invert(infinite))).as_py()


def _textual(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or _binary(kind)


def _binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
