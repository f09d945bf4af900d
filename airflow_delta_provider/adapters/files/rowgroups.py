"""Bounds of row groups from Parquet statistics, as key bytes: which groups a key range needs, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.files.schemas import FileColumn
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.types import LogicalType

NULL_KEY = b"\x00"
TEXT_TAG = b"\x78"
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group. ``lower`` and ``upper``: bounds of the first key component, both included, None if unknown.

    They are bounds and no more: text may have been cut by the writer. NULLs count as the component 00.
    """

    file: int
    number: int
    rows: int
    lower: bytes | None
    upper: bytes | None


def statistics_type(column: FileColumn, key_type: LogicalType) -> pa.DataType | None:
    """Return the Arrow type under which a column's statistics can be read as key bounds, or None.

    Never floats: NaN is in no statistics. Never INT96: it has none that can be trusted.
    """
    kind = column.type.kind if column.type else ""
    if kind != key_type.kind and (kind, key_type.kind) != ("int", "decimal"):
        return None
    unit = _UNITS.get(column.leaf.get("timeUnit", ""))
    if kind == "int" and column.type:
        return pa.uint64() if column.type.unsigned else pa.int64()
    if kind == "decimal" and column.type:
        return pa.decimal256(76, column.type.scale or 0)
    if kind == "date":
        return pa.date32()
    if kind == "time" and unit:
        return pa.time64("ns")
    if kind in ("timestamp", "timestamp_tz") and unit:
        return pa.timestamp(unit, "UTC" if kind == "timestamp_tz" else None)
    return {"bool": pa.bool_(), "uuid": pa.binary(16), "text": pa.binary(), "bytes": pa.binary()}.get(kind)


def row_group(
    file: int, number: int, footer: Any, leaf: int | None, readable: pa.DataType | None, key_type: LogicalType | None
) -> RowGroup:
    """Return one row group with its bounds."""
    group = footer.row_group(number)
    plain = RowGroup(file, number, group.num_rows, None, None)
    if leaf is None or readable is None or key_type is None:
        return plain
    chunk = group.column(leaf)
    found = chunk.statistics
    if found is None:
        return plain
    nulls = found.null_count if found.has_null_count else None
    if nulls == group.num_rows:
        return RowGroup(file, number, group.num_rows, NULL_KEY, NULL_KEY)
    if not found.has_min_max:
        return plain
    unit = footer.schema.column(leaf)
    bits = {"INT32": 32, "INT64": 64}.get(unit.physical_type, 0)
    try:
        lower = _component(found.min_raw, readable, key_type, bits, _unit_ns(unit))
        upper = _component(found.max_raw, readable, key_type, bits, _unit_ns(unit))
    except DeltaError:
        return plain
    if lower > upper:
        return plain
    return RowGroup(file, number, group.num_rows, lower if nulls == 0 else NULL_KEY, upper)


def _unit_ns(leaf: Any) -> int:
    note = leaf.logical_type.to_json()
    return next((scale for unit, scale in (("milli", 10**6), ("micro", 10**3)) if unit in note), 1)


def _component(raw: Any, readable: pa.DataType, key_type: LogicalType, bits: int, unit_ns: int) -> bytes:
    from airflow_delta_provider.core.keyvec import encode_keys

    if pa.types.is_binary(readable):
        kind = LogicalType("bytes")
        key = encode_keys([pa.array([raw], pa.binary())], [kind], [kind])[0].as_py()
        return TEXT_TAG + key[1:] if key_type.kind == "text" else bytes(key)
    values = pa.array([_value(raw, readable, bits, unit_ns)], _plain(readable))
    kind = LogicalType("int") if pa.types.is_integer(readable) else key_type
    carried = values.view(readable) if values.type != readable else values
    return bytes(encode_keys([carried], [kind], [key_type])[0].as_py())


def _plain(readable: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(readable):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(readable) or pa.types.is_time64(readable) else readable


def _value(raw: Any, readable: pa.DataType, bits: int, unit_ns: int) -> Any:
    if pa.types.is_decimal(readable):
        whole = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return Decimal((int(whole < 0), tuple(int(digit) for digit in str(abs(whole))), -readable.scale))
    if pa.types.is_unsigned_integer(readable):
        return raw & (2**bits - 1)
    return raw * unit_ns if pa.types.is_time64(readable) else raw


def may_hold(group: RowGroup, lower: bytes | None, upper: bytes | None) -> bool:
    """Tell whether a row group may hold keys of a half-open range.

    Components are prefix-free, so a key whose first component is below the range's lower bound, and no beginning of
    it, lies below the range whatever follows.
    """
    if group.lower is None or group.upper is None:
        return True
    if lower is not None and group.upper < lower and not lower.startswith(group.upper):
        return False
    return upper is None or group.lower < upper


def ascending(groups: list[RowGroup]) -> bool:
    """Tell whether the groups, sorted by lower bound, follow each other; they may share a bound (composite keys)."""
    known = [(group.lower, group.upper) for group in groups]
    if any(lower is None or upper is None for lower, upper in known):
        return False
    pairs = sorted((lower or b"", upper or b"") for lower, upper in known)
    return all(first[1] <= second[0] for first, second in pairwise(pairs))
