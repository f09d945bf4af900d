"""What "equal" means where no rule speaks (docs/contract.md, section 2): by exact value, on whole Arrow arrays."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays as raw
from airflow_delta_provider.core.errors import SideIncomparableError, ValueTypeError
from airflow_delta_provider.core.types import NUMBERS, LogicalType, carrier_allowed
from airflow_delta_provider.core.values import canonical_values

_FIVES_MAX = 27
"""Largest power of five that int64 holds."""
_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_DECIMAL_DIGITS_MAX = 76


def schema_type(source: LogicalType, target: LogicalType) -> LogicalType | None:
    """Return the narrowest type that holds both sides' values exactly, or None for types of different families.

    Numbers: int+decimal, int+float, decimal+float give decimal; float32+float64 give float64. Arrays, maps and structs
    pair part by part, struct fields by name, in the order of the target. Bounds are left out.
    """
    if source.nested or target.nested:
        return _nested_schema_type(source, target) if source.kind == target.kind else None
    if source.kind == target.kind:
        return LogicalType(source.kind)
    if source.kind in NUMBERS and target.kind in NUMBERS:
        floats = source.kind in ("float32", "float64") and target.kind in ("float32", "float64")
        return LogicalType("float64" if floats else "decimal")
    return None


def _nested_schema_type(source: LogicalType, target: LogicalType) -> LogicalType | None:
    if source.kind == "struct":
        own = dict(source.fields)
        if set(own) != {name for name, _ in target.fields}:
            return None
        fields = [(name, schema_type(own[name], part)) for name, part in target.fields]
        known = tuple((name, part) for name, part in fields if part is not None)
        return LogicalType("struct", fields=known) if len(known) == len(fields) else None
    item = schema_type(source.item, target.item) if source.item and target.item else None
    if source.kind == "array":
        return LogicalType("array", item=item) if item else None
    key = schema_type(source.map_key, target.map_key) if source.map_key and target.map_key else None
    return LogicalType("map", map_key=key, item=item) if key and item else None


def same_values(source: Any, target: Any, source_type: LogicalType, target_type: LogicalType) -> bool:
    """Tell whether carriers whose values equal each other as Arrow's do hold equal values.

    Raises: ValueTypeError where a carrier does not hold its type.
    """
    for array, kind in ((source, source_type), (target, target_type)):
        if array.null_count < len(array) and not carrier_allowed(kind.kind, array.type):
            raise ValueTypeError(f"An Arrow {array.type} does not carry a {kind.kind}.")
    return bool(source_type.schema == target_type.schema and source.type == target.type)


def equal_mask(
    source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType
) -> pa.BooleanArray:
    """Return for each pair of rows whether the values are equal; NULL equals NULL only, and the mask has no nulls.

    ``source`` and ``target`` are carriers of one length, ``schema`` is ``schema_type(source_type, target_type)``.
    Raises: ValueTypeError where a carrier does not hold its type, SideIncomparableError for different families.
    """
    source, target = raw.one_array(source), raw.one_array(target)
    if len(source) != len(target):
        raise ValueTypeError(f"{len(source)} values stand against {len(target)}.")
    return raw.bool_array(_mask(source, target, source_type, target_type, schema))


def _mask(source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType) -> Any:
    """Return equality as a numpy boolean array."""
    alike = same_values(source, target, source_type, target_type)
    if schema_type(source_type, target_type) is None:
        raise SideIncomparableError(f"{source_type.text} and {target_type.text} are not comparable.")
    if alike and source.equals(target):
        return np.ones(len(source), bool)
    here, there = raw.valid_mask(source), raw.valid_mask(target)
    both = here & there
    result = here == there
    if not both.any():
        return result
    if both.all():
        return _equal_values(source, target, source_type, target_type, schema)
    if _minds_nulls(source, target, schema):
        chosen = raw.bool_array(both)
        source, target = source.filter(chosen), target.filter(chosen)
        result[both] = _equal_values(source, target, source_type, target_type, schema)
        return result
    return np.where(both, _equal_values(source, target, source_type, target_type, schema), result)


def _minds_nulls(source: Any, target: Any, schema: LogicalType) -> bool:
    """Tell whether the kernel must not see what stands under a NULL; the others run on whole buffers, copying nothing."""
    if schema.kind in ("int", "decimal"):
        return not all(pa.types.is_integer(array.type) or pa.types.is_decimal(array.type) for array in (source, target))
    return schema.nested


def _equal_values(
    source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType
) -> Any:
    """Compare arrays row by row; where a value is NULL on either side the result is arbitrary (see _minds_nulls)."""
    match schema.kind:
        case "decimal" | "int":
            return _equal_numbers(source, target, source_type, target_type, schema)
        case "float64" | "float32":
            return _equal_floats(raw.float_values(source), raw.float_values(target))
        case "text" | "bytes" | "json" | "json_text":
            return _true(source.cast(pa.large_binary()), target.cast(pa.large_binary()))
        case "uuid" | "interval":
            return (raw.fixed_rows(source, 16) == raw.fixed_rows(target, 16)).all(axis=1)
        case "bool":
            return raw.bool_values(source) == raw.bool_values(target)
        case "date":
            return raw.typed_values(source, np.int32) == raw.typed_values(target, np.int32)
        case "time" | "timestamp" | "timestamp_tz":
            return _equal_times(source, target)
        case "struct":
            return _equal_structs(source, target, source_type, target_type, schema)
        case "array":
            return _equal_lists(source, target, source_type, target_type, schema)
    return _equal_canonical(source, target, source_type, target_type, schema)


def _equal_canonical(
    source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType
) -> Any:
    """Compare canonical values: the definition, and the way of what has no kernel."""
    ours, theirs = canonical_values(source, source_type, schema), canonical_values(target, target_type, schema)
    return np.fromiter((one == other for one, other in zip(ours, theirs, strict=True)), bool, len(ours))


def _true(source: Any, target: Any) -> Any:
    return raw.bool_values(pc.equal(source, target))


def _equal_floats(source: Any, target: Any) -> Any:
    source, target = source.astype(np.float64, copy=False), target.astype(np.float64, copy=False)
    return (source == target) | (np.isnan(source) & np.isnan(target))


def _equal_numbers(
    source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType
) -> Any:
    if raw.is_text(source.type) and raw.is_text(target.type):
        return _true(source.cast(pa.large_string()), target.cast(pa.large_string()))
    if raw.is_text(source.type) or raw.is_text(target.type):
        return _equal_canonical(source, target, source_type, target_type, schema)
    if pa.types.is_floating(source.type):
        return _equal_float_and_exact(source, target)
    if pa.types.is_floating(target.type):
        return _equal_float_and_exact(target, source)
    if pa.types.is_integer(source.type) and pa.types.is_integer(target.type):
        return _equal_integers(source, target)
    common = _common_decimal(source.type, target.type)
    if common is None:
        return _equal_canonical(source, target, source_type, target_type, schema)
    try:
        return _true(_as_decimal(source, common), _as_decimal(target, common))
    except pa.ArrowInvalid:
        return _equal_canonical(source, target, source_type, target_type, schema)


def _equal_integers(source: Any, target: Any) -> Any:
    """Compare integers of any widths: signed and unsigned 64 bits have no common Arrow type."""
    if pa.types.is_uint64(source.type) != pa.types.is_uint64(target.type):
        unsigned, signed = (source, target) if pa.types.is_uint64(source.type) else (target, source)
        wide = raw.typed_values(unsigned, np.uint64)
        narrow = signed.cast(pa.int64())
        values = raw.typed_values(narrow, np.int64)
        return (values >= 0) & (values.view(np.uint64) == wide)
    if pa.types.is_uint64(source.type):
        return raw.typed_values(source, np.uint64) == raw.typed_values(target, np.uint64)
    return raw.typed_values(source.cast(pa.int64()), np.int64) == raw.typed_values(target.cast(pa.int64()), np.int64)


def _digits(arrow: pa.DataType) -> tuple[int, int]:
    """Return the digits before and after the point that a number type needs."""
    if pa.types.is_integer(arrow):
        return _INT_DIGITS[arrow.bit_width], 0
    return arrow.precision - arrow.scale, arrow.scale


def _common_decimal(source: pa.DataType, target: pa.DataType) -> pa.DataType | None:
    """Return a decimal type that holds both types exactly, or None."""
    (whole, places), (other_whole, other_places) = _digits(source), _digits(target)
    scale = max(places, other_places, 0)
    precision = max(whole, other_whole, 0) + scale
    if precision <= 38:
        return pa.decimal128(max(precision, 1), scale)
    return pa.decimal256(precision, scale) if precision <= _DECIMAL_DIGITS_MAX else None


def _as_decimal(array: Any, common: pa.DataType) -> Any:
    if pa.types.is_integer(array.type):
        whole = pa.decimal128(_INT_DIGITS[array.type.bit_width], 0)
        array = array.cast(whole)
    if pa.types.is_decimal256(common) and pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal256(array.type.precision, array.type.scale))
    return array.cast(common)


def _equal_float_and_exact(floats: Any, exact: Any) -> Any:
    """Compare floats with integers or decimals u / 10**s.

    f = u / 10**s needs f to be a multiple of 2**-s: with G = f * 2**s a whole number, f * 10**s = G * 5**s, so equality
    is G * 5**s = u. Where u fits int64 this is exact integer arithmetic; the other rows go one by one.
    """
    doubles = raw.float_values(floats).astype(np.float64, copy=False)
    if pa.types.is_floating(exact.type):
        return _equal_floats(doubles, raw.float_values(exact))
    scale = exact.type.scale if pa.types.is_decimal(exact.type) else 0
    wide = raw.wide_values(exact)
    small = ~np.logical_or.reduce([word != 0 for word in wide.words[1:]]) & (wide.words[0] < np.uint64(2**63))
    result = np.zeros(len(doubles), bool)
    if 0 <= scale <= _FIVES_MAX:
        unscaled = np.where(small, wide.words[0], np.uint64(0)).astype(np.int64)
        unscaled = np.where(wide.negative, -unscaled, unscaled)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.ldexp(doubles, scale)
            fits = np.isfinite(scaled) & (np.abs(scaled) < 2.0**63) & (np.trunc(scaled) == scaled)
        units = np.where(fits, scaled, 0.0).astype(np.int64)
        fives = np.int64(5**scale)
        result = fits & small & (unscaled % fives == 0) & (unscaled // fives == units)
    else:
        small = np.zeros(len(doubles), bool)
    rest = np.flatnonzero(~small & np.isfinite(doubles))
    if len(rest):
        numbers = exact.take(raw.int64_array(rest)).to_pylist()
        result[rest] = [Decimal(number) == float(doubles[row]) for row, number in zip(rest, numbers, strict=True)]
    return result


def _equal_times(source: Any, target: Any) -> Any:
    """Compare times or time stamps of any units; the coarser count is never multiplied, so nothing overflows."""
    if pa.types.is_decimal(source.type) or pa.types.is_decimal(target.type):
        return _equal_wide_times(source, target)
    if source.type.unit == target.type.unit:
        return raw.typed_values(source, np.int64) == raw.typed_values(target, np.int64)
    coarse, fine = (source, target) if raw.unit_ns(source.type) > raw.unit_ns(target.type) else (target, source)
    ratio = raw.unit_ns(coarse.type) // raw.unit_ns(fine.type)
    counts, parts = raw.typed_values(coarse, np.int64), raw.typed_values(fine, np.int64)
    equal = (parts % ratio == 0) & (parts // ratio == counts)
    infinite, also = raw.infinite(coarse), raw.infinite(fine)
    if infinite is None or also is None:
        return equal
    finite = ~(infinite[0] | infinite[1] | also[0] | also[1])
    return (equal & finite) | (infinite[0] & also[0]) | (infinite[1] & also[1])


def _equal_wide_times(source: Any, target: Any) -> Any:
    """Compare time stamps of which one is carried as a decimal of nanoseconds, which has no infinities."""
    ours, theirs = (
        raw.whole_decimals(array, "timestamp") if pa.types.is_decimal(array.type) else raw.wide_values(array)
        for array in (source, target)
    )
    equal = ours.negative == theirs.negative
    for word, other in zip(ours.words, theirs.words, strict=True):
        equal &= word == other
    for array in (source, target):
        infinite = raw.infinite(array)
        if infinite is not None:
            equal &= ~(infinite[0] | infinite[1])
    return equal


def _equal_structs(
    source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType
) -> Any:
    ours, theirs = raw.struct_children(source, source_type), raw.struct_children(target, target_type)
    our_types, their_types = dict(source_type.fields), dict(target_type.fields)
    if not set(ours) == set(theirs) == {name for name, _ in schema.fields}:
        raise ValueTypeError("A struct has other fields than its schema type.")
    result = np.ones(len(source), bool)
    for name, part in schema.fields:
        result &= _mask(ours[name], theirs[name], our_types[name], their_types[name], part)
    return result


def _equal_lists(
    source: Any, target: Any, source_type: LogicalType, target_type: LogicalType, schema: LogicalType
) -> Any:
    """Compare lists: first their lengths, then all elements of the lists of one length at once."""
    if not (source_type.item and target_type.item and schema.item):
        raise ValueTypeError("An array has no element type.")
    lengths = raw.list_lengths(source)
    result = lengths == raw.list_lengths(target)
    chosen = raw.bool_array(result)
    items, others = source.filter(chosen).flatten(), target.filter(chosen).flatten()
    equal = _mask(items, others, source_type.item, target_type.item, schema.item)
    rows = np.repeat(np.flatnonzero(result), lengths[result])
    result[rows[~equal]] = False
    return result
