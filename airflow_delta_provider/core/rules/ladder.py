"""The ladder of a column's rules: which values are equal at the end, and because of which rule (docs/format.md, S7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.core import arrays
from airflow_delta_provider.core.equality import equal_mask, schema_type
from airflow_delta_provider.core.rules.convert import date_to_timestamp
from airflow_delta_provider.core.rules.fit import Rule, has_midnight, recorded_length
from airflow_delta_provider.core.rules.pairs import equal_under
from airflow_delta_provider.core.rules.transforms import PAIR_RULES, apply, without_zero_dates
from airflow_delta_provider.core.rules.typed import Typed, UnparsedValue
from airflow_delta_provider.core.types import LogicalType


@dataclass(frozen=True, slots=True)
class Ladder:
    """What the rules of one column make of a run of matched rows.

    Shape: one entry a row. ``equal``: a boolean array without nulls, e_k of S7. ``rule``: a numpy int32 array; for an
    equal row the rule (1 to k) that it counts for, or 0 where it is equal without one; 0 where it is not equal.
    ``recorded_source``, ``recorded_target``: the values in recorded form (S4).
    """

    equal: pa.BooleanArray
    rule: Any
    recorded_source: Typed
    recorded_target: Typed


def recorded(rules: Sequence[Rule], typed: Typed, side: str) -> Typed:
    """Return a column of one side in recorded form. Raises: UnparsedValue."""
    for rule in rules[: recorded_length(rules)]:
        typed = apply(rule, typed, side)
    return _as_recorded(rules, typed)


def evaluate(rules: Sequence[Rule], source: Typed, target: Typed) -> Ladder:
    """Compare matched values of one column under its rules.

    Up to the recorded form every row is taken through the rules: one that reads, or is for one side, can also make equal
    values unequal. The rules after it treat equal values alike, so only rows that are still unequal go on.
    Raises: UnparsedValue with the row and the side.
    """
    count = recorded_length(rules)
    steps = [_equal(source, target)]
    satisfied = np.zeros(len(source), bool)
    for rule in rules[:count]:
        source, target, satisfied = _step(rule, source, target, satisfied)
        steps.append(_equal(source, target) | satisfied)
    rule_of = _least(steps)
    equal = steps[-1].copy()
    rest = np.flatnonzero(~equal)
    if len(rest) and count < len(rules):
        found = _walk(rules[count:], source, target, rest)
        equal[rest] = found > 0
        rule_of[rest] = np.where(found > 0, found + count, 0)
    rule_of[~equal] = 0
    return Ladder(arrays.bool_array(equal), rule_of, _as_recorded(rules, source), _as_recorded(rules, target))


def _walk(rules: Sequence[Rule], source: Typed, target: Typed, rest: Any) -> Any:
    """Return for rows that are unequal before these rules the number of the first that makes them equal, or 0."""
    result = np.zeros(len(rest), np.int32)
    places = np.arange(len(rest))
    source, target = (typed.take(arrays.int64_array(rest)) for typed in (source, target))
    for number, rule in enumerate(rules, 1):
        try:
            source, target, satisfied = _step(rule, source, target, np.zeros(len(places), bool))
        except UnparsedValue as error:
            raise error.moved(int(rest[places[error.row]])) from error
        equal = satisfied if rule["rule"] in PAIR_RULES else _equal(source, target)
        result[places[equal]] = number
        left = np.flatnonzero(~equal)
        if not len(left):
            break
        if len(left) < len(places):
            places = places[left]
            source, target = (typed.take(arrays.int64_array(left)) for typed in (source, target))
    return result


def _step(rule: Rule, source: Typed, target: Typed, satisfied: Any) -> tuple[Typed, Typed, Any]:
    """Apply one rule; return both sides and which rows some rule has made equal for good."""
    schema = schema_type(source.type, target.type)
    if rule["rule"] in PAIR_RULES:
        met = arrays.bool_values(equal_under(rule, source, target, schema)) & _parsed(source, target)
        return source, target, satisfied | met
    return apply(rule, source, "source", schema), apply(rule, target, "target", schema), satisfied


def _equal(source: Typed, target: Typed) -> Any:
    """Return which canonical values are equal; of types that are not comparable, only NULL and NULL are."""
    schema = schema_type(source.type, target.type)
    if schema is None:
        equal = ~(arrays.valid_mask(source.array) | arrays.valid_mask(target.array))
    else:
        equal = arrays.bool_values(equal_mask(source.array, target.array, source.type, target.type, schema))
    return equal & _parsed(source, target)


def _parsed(source: Typed, target: Typed) -> Any:
    """Return where both values could be read; one that could not is different from everything, also from its like."""
    result = np.ones(len(source), bool)
    for typed in (source, target):
        if typed.unparsed is not None:
            result &= ~arrays.valid_mask(typed.unparsed)
    return result


def _least(steps: list[Any]) -> Any:
    """Return for each row the least p from which on all steps are equal; arbitrary where the last is not."""
    result = np.zeros(len(steps[0]), np.int32)
    alive = np.ones(len(steps[0]), bool)
    for number in range(len(steps) - 1, -1, -1):
        alive = alive & steps[number]
        result[alive] = number
    return result


def _as_recorded(rules: Sequence[Rule], typed: Typed) -> Typed:
    """Return values as they are recorded: a date that is compared with a timestamp as one, a zero date as NULL."""
    if any(rule["rule"] == "null_equals" and rule["values"] == "zero_date" for rule in rules):
        typed = without_zero_dates(typed)
    if typed.type.kind == "date" and has_midnight(rules):
        return typed.with_values(LogicalType("timestamp"), date_to_timestamp(typed.array))
    return typed
