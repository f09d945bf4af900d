"""Rules that need both values: within a tolerance, as numbers in text, a date as its midnight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays, decimals
from airflow_delta_provider.core.rules import parse_numbers, zones
from airflow_delta_provider.core.rules.convert import date_to_timestamp, texts_of
from airflow_delta_provider.core.rules.rounding import EXACT
from airflow_delta_provider.core.rules.typed import Typed
from airflow_delta_provider.core.times import DAY_NS, NS
from airflow_delta_provider.core.types import NUMBERS, LogicalType

Rule = Mapping[str, Any]
FLOAT_MARGIN = 1e-14
"""Above every relative error of the float arithmetic here; what lies closer to the limit is decided exactly."""
DIGITS_MAX = 76
"""Digits of the widest decimal that Arrow has."""
FLOAT_LEAST, FLOAT_MOST = 1e-290, 1e300
"""Where float arithmetic neither underflows nor overflows."""


def equal_under(rule: Rule, source: Typed, target: Typed, schema: LogicalType | None = None) -> pa.BooleanArray:
    """Return for each pair of rows whether this rule makes the values equal, without nulls.

    NULL, NaN and infinities are never equal to anything by ``tolerance`` or ``numeric_text``; whether two values are
    equal anyway is not asked here. ``schema`` is the type of the pair; only its being numbers or times matters.
    """
    valid = arrays.valid_mask(source.array) & arrays.valid_mask(target.array)
    result = np.zeros(len(source), bool)
    rows = np.flatnonzero(valid)
    if len(rows):
        index = arrays.int64_array(rows)
        result[rows] = _PAIRS[rule["rule"]](rule, source.take(index), target.take(index))
    return arrays.bool_array(result)


def _tolerance(rule: Rule, source: Typed, target: Typed) -> Any:
    if source.type.kind not in NUMBERS:
        return _near_times(rule, source, target)
    if pa.types.is_floating(source.array.type) and pa.types.is_floating(target.array.type):
        return _near_floats(rule, source, target)
    near = _near_decimals(rule, source.array, target.array)
    return _near_exactly(rule, source, target) if near is None else near


def _near_exactly(rule: Rule, source: Typed, target: Typed) -> Any:
    near = _within(rule)
    pairs = zip(numbers(source), numbers(target), strict=True)
    return np.fromiter((near(one, other) for one, other in pairs), bool, len(source))


def _near_decimals(rule: Rule, source: pa.Array, target: pa.Array) -> Any | None:
    """Decide ints and decimals in Arrow's exact decimals; None where their digits or the limit's are too many."""
    amounts = [None if rule[name] is None else Decimal(rule[name]) for name in ("abs", "rel")]
    sizes = [_digits(array.type) for array in (source, target)]
    if None in sizes:
        return None
    whole, scale = max(size[0] for size in sizes if size), max(size[1] for size in sizes if size)
    needed = [_amount_digits(amount) for amount in amounts if amount is not None]
    if whole + scale + 2 + max(needed) > DIGITS_MAX:
        return None
    common = pa.decimal256(whole + scale, scale)
    one, other = (_as_decimal(array).cast(common) for array in (source, target))
    gap = pc.abs(pc.subtract(one, other))
    compare = pc.less_equal if rule["bound"] == "inclusive" else pc.less
    result = np.zeros(len(source), bool)
    if amounts[0] is not None:
        result |= arrays.bool_values(compare(gap, _amount(amounts[0])))
    if amounts[1] is not None:
        sizes_of = pc.abs(one), pc.abs(other)
        larger = pc.if_else(pc.greater(*sizes_of), *sizes_of)
        result |= arrays.bool_values(compare(gap, pc.multiply(larger, _amount(amounts[1]))))
    return result


def _digits(arrow: pa.DataType) -> tuple[int, int] | None:
    """Return the digits before and after the point of an int or decimal type; None for any other."""
    if pa.types.is_integer(arrow):
        return 20, 0
    if pa.types.is_decimal(arrow) and arrow.scale >= 0:
        return max(arrow.precision - arrow.scale, 0), arrow.scale
    return None


def _amount_digits(amount: Decimal) -> int:
    return len(format(amount, "f").replace(".", ""))


def _amount(amount: Decimal) -> pa.Scalar:
    scale = max(-int(amount.as_tuple().exponent), 0)
    return pa.scalar(amount, pa.decimal256(max(_amount_digits(amount), scale, 1), scale))


def _as_decimal(array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal128(20, 0)) if pa.types.is_integer(array.type) else array


def _within(rule: Rule) -> Callable[[Decimal | None, Decimal | None], bool]:
    """Return the exact test of one pair of finite numbers; None stands for what is no such number."""
    absolute = None if rule["abs"] is None else Decimal(rule["abs"])
    relative = None if rule["rel"] is None else Decimal(rule["rel"])
    inclusive = rule.get("bound", "inclusive") == "inclusive"

    def near(one: Decimal | None, other: Decimal | None) -> bool:
        if one is None or other is None:
            return False
        gap = EXACT.subtract(one, other).copy_abs()
        limits = [] if absolute is None else [absolute]
        if relative is not None:
            limits.append(EXACT.multiply(relative, max(one.copy_abs(), other.copy_abs())))
        return any(gap < limit or (inclusive and gap == limit) for limit in limits)

    return near


def numbers(typed: Typed) -> list[Decimal | None]:
    """Return numbers as exact decimals; None for NULL, NaN and infinities."""
    array = typed.array
    if pa.types.is_floating(array.type):
        return [Decimal(value) if value is not None and math.isfinite(value) else None for value in array.to_pylist()]
    texts = texts_of(typed).to_pylist()
    return [None if text is None or text in decimals.SPECIALS else Decimal(text) for text in texts]


def _near_floats(rule: Rule, source: Typed, target: Typed) -> Any:
    """Decide floats in float arithmetic where that is safely right, and the others exactly."""
    one = arrays.float_values(source.array).astype(np.float64)
    other = arrays.float_values(target.array).astype(np.float64)
    with np.errstate(all="ignore"):
        gap, larger = np.abs(one - other), np.maximum(np.abs(one), np.abs(other))
        limit = np.zeros(len(gap))
        if rule["abs"] is not None:
            limit = np.maximum(limit, float(rule["abs"]))
        if rule["rel"] is not None:
            limit = np.maximum(limit, float(rule["rel"]) * larger)
        finite = np.isfinite(one) & np.isfinite(other)
        safe = finite & (limit > FLOAT_LEAST) & (limit < FLOAT_MOST) & (larger < FLOAT_MOST)
        inside = safe & (gap < limit * (1 - FLOAT_MARGIN))
        outside = safe & (gap > limit * (1 + FLOAT_MARGIN))
    rest = np.flatnonzero(finite & ~inside & ~outside)
    if len(rest):
        index = arrays.int64_array(rest)
        inside[rest] = _near_exactly(rule, source.take(index), target.take(index))
    return inside


def _near_times(rule: Rule, source: Typed, target: Typed) -> Any:
    exact = EXACT.multiply(Decimal(rule["abs"][2:-1]), NS)
    limit = int(exact)
    whole = exact == limit
    inclusive = rule["bound"] == "inclusive"

    def near(one: Any, other: Any) -> bool:
        if not isinstance(one, int) or not isinstance(other, int):
            return False
        gap = abs(one - other)
        return gap < limit or (gap == limit and (inclusive or not whole))

    pairs = zip(_moments(source), _moments(target), strict=True)
    return np.fromiter((near(one, other) for one, other in pairs), bool, len(source))


def _moments(typed: Typed) -> list[int | str | None]:
    """Return dates, times and timestamps as nanoseconds; infinities as anything but an int."""
    if typed.type.kind == "date":
        up, down = arrays.infinite(typed.array) or ([], [])
        days = typed.array.view(pa.int32()).to_pylist()
        return [None if plus or minus else day * DAY_NS for day, plus, minus in zip(days, up, down, strict=True)]
    return zones.wall_moments(typed.array)


def _numeric_text(rule: Rule, source: Typed, target: Typed) -> Any:
    near = _within(rule)
    pairs = zip(_text_numbers(source), _text_numbers(target), strict=True)
    return np.fromiter((near(one, other) for one, other in pairs), bool, len(source))


def _text_numbers(typed: Typed) -> list[Decimal | None]:
    texts = texts_of(typed).to_pylist()
    plain = [None if text is None else parse_numbers.finite_text(text) for text in texts]
    return [None if text is None else Decimal(text) for text in plain]


def _date_as_midnight(rule: Rule, source: Typed, target: Typed) -> Any:
    moments = []
    for typed in (source, target):
        array = date_to_timestamp(typed.array) if typed.type.kind == "date" else typed.array
        moments.append(zones.wall_moments(array))
    return np.fromiter((one == other for one, other in zip(*moments, strict=True)), bool, len(source))


_PAIRS: dict[str, Callable[[Rule, Typed, Typed], Any]] = {
    "tolerance": _tolerance,
    "numeric_text": _numeric_text,
    "date_as_midnight": _date_as_midnight,
}
