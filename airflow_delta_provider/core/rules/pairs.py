"""Rules that need both values: within a tolerance, as numbers in text, a date as its midnight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.core import arrays, decimals
from airflow_delta_provider.core.rules import parse_numbers, zones
from airflow_delta_provider.core.rules.convert import date_to_timestamp, texts_of
from airflow_delta_provider.core.rules.transforms import EXACT
from airflow_delta_provider.core.rules.typed import Typed
from airflow_delta_provider.core.times import DAY_NS, NS
from airflow_delta_provider.core.types import NUMBERS, LogicalType

Rule = Mapping[str, Any]
FLOAT_MARGIN = 1e-14
"""Above every relative error of the float arithmetic here; what lies closer to the limit is decided exactly."""
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
    return _near_exactly(rule, source, target)


def _near_exactly(rule: Rule, source: Typed, target: Typed) -> Any:
    near = _within(rule)
    pairs = zip(numbers(source), numbers(target), strict=True)
    return np.fromiter((near(one, other) for one, other in pairs), bool, len(source))


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
