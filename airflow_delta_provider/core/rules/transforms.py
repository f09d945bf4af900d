"""Rules that change each side by itself: what a value is turned into before it is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays, jsonc, values
from airflow_delta_provider.core.equality import equal_mask, schema_type
from airflow_delta_provider.core.errors import RuleFitError, ValueRangeError
from airflow_delta_provider.core.rules import parse_numbers, zones
from airflow_delta_provider.core.rules.calendar import UNIT_NS, timestamp_carrier
from airflow_delta_provider.core.rules.convert import read_as, texts_of
from airflow_delta_provider.core.rules.normalize import normalized
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.rules.rounding import rounded
from airflow_delta_provider.core.rules.typed import Typed, refuse_first
from airflow_delta_provider.core.types import DATE_ZERO, NUMBERS, TIMESTAMP_ZERO, LogicalType

Rule = Mapping[str, Any]
PAIR_RULES = ("tolerance", "numeric_text", "date_as_midnight")
"""Rules that need the values of both sides; here they change nothing."""

_ZERO_DATE = r"^0000-00-00([ T]00:00:00(\.0+)?)?$"


def apply(rule: Rule, typed: Typed, side: str, schema: LogicalType | None = None) -> Typed:
    """Return a column of one side after one rule.

    ``side``: ``source`` or ``target``; a rule that is limited to the other side changes nothing, nor does a rule that
    needs both values. ``schema``: the type in which the pair's values are equal, where it is another one than the
    column's own.
    Raises: UnparsedValue for a value that the rule cannot read, RuleFitError for a type that it does not fit.
    """
    if rule["rule"] in PAIR_RULES or rule.get("side", "both") not in ("both", side):
        return typed
    return _TRANSFORMS[rule["rule"]](rule, typed, side, schema or typed.type)


def apply_key_rules(rules: Sequence[Rule], typed: Typed, side: str) -> Typed:
    """Return a key column of one side after its rules. Raises: UnparsedValue."""
    for rule in rules:
        typed = apply(rule, typed, side)
    return typed


def _read_as(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    return read_as(rule, typed, side)


def _normalize(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    return typed.with_values(typed.type, normalized(typed.array, rule["steps"]))


def _round(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    return typed.with_values(LogicalType("decimal"), rounded(typed, int(rule["places"]), rule["mode"]))


def _single_precision(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    """Round numbers to the nearest float32. What is finite and beyond its range is refused: it is no infinity."""
    array, single = typed.array, LogicalType("float32")
    if pa.types.is_float32(array.type):
        return typed
    near = array.cast(pa.float32()) if pa.types.is_float64(array.type) else None
    if near is None:
        near = parse_numbers.floats(texts_of(typed), single, {})
        beyond = pc.and_(pc.is_valid(array), pc.is_null(near))
    else:
        beyond = pc.fill_null(pc.and_not(pc.is_inf(near), pc.is_inf(array)), False)
    refuse_first(beyond, side, lambda row: _shown(typed, row), "is beyond the range of float32", ValueRangeError)
    return typed.with_values(single, near)


def _shown(typed: Typed, row: int) -> str:
    return str(texts_of(Typed(typed.type, typed.array.slice(row, 1)))[0].as_py())


def _precision(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    """Bring times to a unit: ``truncate`` drops the digits behind it, ``half_up`` goes to the nearer, from the middle on."""
    if typed.type.kind == "date":
        return typed
    unit, half_up, array = UNIT_NS[rule["unit"]], rule["mode"] == "half_up", typed.array
    if pa.types.is_decimal(array.type):
        return typed.with_values(typed.type, _precision_slowly(typed, unit, half_up))
    step = unit // arrays.unit_ns(array.type)
    if step <= 1:
        return typed
    valid = arrays.valid_mask(array)
    counts = np.where(valid, arrays.typed_values(array, np.int64), 0)
    infinite = arrays.infinite(array)
    finite = np.ones(len(counts), bool) if infinite is None else ~(infinite[0] | infinite[1])
    if (np.abs(counts[finite]) > 2**63 - 2 - 2 * step).any():
        return typed.with_values(typed.type, _precision_slowly(typed, unit, half_up))
    moved = _stepped(counts, step, half_up)
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(np.where(finite, moved, counts))]
    return typed.with_values(typed.type, pa.Array.from_buffers(array.type, len(counts), buffers))


def _stepped(count: Any, step: int, half_up: bool) -> Any:
    return (count + step // 2 if half_up else count) // step * step


def _precision_slowly(typed: Typed, unit: int, half_up: bool) -> pa.Array:
    moments = [
        _stepped(moment, unit, half_up) if isinstance(moment, int) else moment
        for moment in zones.wall_moments(typed.array)
    ]
    return timestamp_carrier(moments, fine=False, zone="UTC" if typed.type.kind == "timestamp_tz" else None)


def _null_equals(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    """Turn values into NULL, numbers by their value in the pair's type; a value that is none of the type occurs nowhere."""
    hit = np.zeros(len(typed), bool)
    if rule["values"] == "zero_date":
        if typed.type.kind == "text" and arrays.is_text(typed.array.type):
            found = pc.match_substring_regex(typed.array, _ZERO_DATE)
            hit = arrays.bool_values(pc.fill_null(found, False))
            return _nulled(typed, hit)
        return without_zero_dates(typed)
    numeric = typed.type.kind in NUMBERS and schema.kind in NUMBERS
    own = LogicalType(schema.kind if numeric else typed.type.kind)
    common = schema_type(typed.type, own) or own
    for value in rule["values"]:
        constant, _ = parse_text(pa.array([_as_text(value)], pa.string()), own)
        if constant.null_count == 0:
            repeated = constant.take(arrays.int64_array(np.zeros(len(typed))))
            hit |= arrays.bool_values(equal_mask(typed.array, repeated, typed.type, own, common))
    return _nulled(typed, hit)


def without_zero_dates(typed: Typed) -> Typed:
    """Return a column with NULL in place of zero dates (``types.DATE_ZERO``, ``types.TIMESTAMP_ZERO``)."""
    arrow = typed.array.type
    if pa.types.is_date32(arrow):
        return _nulled(typed, arrays.typed_values(typed.array, np.int32) == DATE_ZERO)
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        return _nulled(typed, arrays.typed_values(typed.array, np.int64) == TIMESTAMP_ZERO)
    return typed


def _as_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _nulled(typed: Typed, hit: Any) -> Typed:
    if not hit.any():
        return typed
    rows = pc.if_else(arrays.bool_array(hit), pa.scalar(None, pa.int64()), arrays.int64_array(np.arange(len(hit))))
    return typed.with_values(typed.type, typed.array.take(rows))


def _array_order(rule: Rule, typed: Typed, side: str, schema: LogicalType) -> Typed:
    """Sort the elements of each array by their canonical JSON bytes, so that equal multisets are equal arrays."""
    item, common = typed.type.item, schema.item
    if typed.type.kind != "array" or item is None or common is None:
        raise RuleFitError(f"array_order: a {typed.type.text} is no array.")
    valid = arrays.valid_mask(typed.array)
    present = typed.array.drop_null()
    children = present.flatten()
    forms = [jsonc.dumps(value) for value in values.canonical_values(children, item, common)]
    order: list[int] = []
    sizes = arrays.list_lengths(present)
    for length in sizes.tolist():
        order += sorted(range(len(order), len(order) + length), key=forms.__getitem__)
    offsets = arrays.int64_array(np.concatenate([[0], np.cumsum(sizes)]))
    ordered = pa.LargeListArray.from_arrays(offsets, children.take(pa.array(order, pa.int64())))
    rows = pc.if_else(arrays.bool_array(valid), arrays.int64_array(np.cumsum(valid) - 1), pa.scalar(None, pa.int64()))
    return typed.with_values(typed.type, ordered.take(rows))


_TRANSFORMS: dict[str, Callable[[Rule, Typed, str, LogicalType], Typed]] = {
    "read_as": _read_as,
    "normalize": _normalize,
    "round": _round,
    "single_precision": _single_precision,
    "precision": _precision,
    "null_equals": _null_equals,
    "array_order": _array_order,
}
