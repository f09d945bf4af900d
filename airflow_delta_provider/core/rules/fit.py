"""Which rule fits which type, and what type a column has after its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core.equality import schema_type
from airflow_delta_provider.core.rules.convert import READABLE
from airflow_delta_provider.core.types import KEY_KINDS, NUMBERS, TIMES, LogicalType, from_schema

Rule = Mapping[str, Any]
KEY_RULES = ("read_as", "normalize")
"""The rules that apply to key columns; no other does, not even through ``"*"``."""

CLOCKS = ("time", "timestamp", "timestamp_tz")
_ZERO_DATED = ("text", "date", "timestamp", "timestamp_tz")
_MIDNIGHT = frozenset(("date", "timestamp"))


@dataclass(frozen=True, slots=True)
class EffectiveTypes:
    """Types of a column pair under its rules: in recorded form (docs/format.md, S4), and after every rule."""

    source_recorded: LogicalType
    target_recorded: LogicalType
    source_final: LogicalType
    target_final: LogicalType

    @property
    def schema(self) -> LogicalType | None:
        """The type of the recorded values, for the schema document; None where the sides are not comparable."""
        return schema_type(self.source_recorded, self.target_recorded)


def limited(rule: Rule) -> str:
    """Return the side that a rule is for: ``both``, ``source`` or ``target``."""
    return str(rule.get("side", "both"))


def fits(rule: Rule, type: LogicalType) -> bool:
    """Tell whether a rule fits values of a type, which is the one that the rules before it leave."""
    name, kind = rule["rule"], type.kind
    if name == "tolerance":
        return kind in (TIMES if is_duration(rule["abs"]) else NUMBERS)
    if name == "null_equals":
        return kind in _ZERO_DATED if rule["values"] == "zero_date" else not type.nested
    if name == "read_as":
        wanted = from_schema(rule["type"])
        same = type.schema == wanted.schema
        needs_zone = kind == "timestamp" and wanted.kind == "timestamp_tz" and not rule["zone"]
        return same or (wanted.kind in READABLE.get(kind, ()) and not needs_zone)
    return kind in _FITTING[name]


def fits_pair(rule: Rule, source: LogicalType, target: LogicalType) -> bool:
    """Tell whether a rule fits a column pair: the side that it is limited to, or both."""
    side = limited(rule)
    if rule["rule"] == "date_as_midnight":
        return {source.kind, target.kind} == _MIDNIGHT
    return (side == "target" or fits(rule, source)) and (side == "source" or fits(rule, target))


def fits_key(rule: Rule) -> bool:
    """Tell whether a rule may stand on a key column."""
    if rule["rule"] == "read_as":
        return from_schema(rule["type"]).kind in KEY_KINDS and rule["otherwise"] != "different"
    return rule["rule"] in KEY_RULES


def type_after(rule: Rule, type: LogicalType, side: str) -> LogicalType:
    """Return the type that values of one side have after a rule."""
    if limited(rule) not in ("both", side):
        return type
    if rule["rule"] == "read_as":
        wanted = from_schema(rule["type"])
        return type if type.schema == wanted.schema else wanted
    if rule["rule"] == "round":
        return LogicalType("decimal")
    return LogicalType("float32") if rule["rule"] == "single_precision" else type


def types_after(rules: Sequence[Rule], type: LogicalType, side: str) -> LogicalType:
    """Return the type after all rules."""
    for rule in rules:
        type = type_after(rule, type, side)
    return type


def recorded_length(rules: Sequence[Rule]) -> int:
    """Return how many rules are applied to what is recorded: up to the last that reads or is limited to a side."""
    reading = [place for place, rule in enumerate(rules, 1) if rule["rule"] == "read_as" or limited(rule) != "both"]
    return reading[-1] if reading else 0


def effective_types(rules: Sequence[Rule], source: LogicalType, target: LogicalType) -> EffectiveTypes:
    """Return what types a column pair has under its rules.

    Where ``date_as_midnight`` makes a date and a timestamp comparable, both are recorded as timestamps.
    """
    first = rules[: recorded_length(rules)]
    recorded = [types_after(first, source, "source"), types_after(first, target, "target")]
    if has_midnight(rules):
        recorded = [LogicalType("timestamp") if type.kind == "date" else type for type in recorded]
    return EffectiveTypes(
        recorded[0], recorded[1], types_after(rules, source, "source"), types_after(rules, target, "target")
    )


def has_midnight(rules: Sequence[Rule]) -> bool:
    """Tell whether a date and a timestamp are compared, as one rule allows."""
    return any(rule["rule"] == "date_as_midnight" for rule in rules)


def is_duration(text: str | None) -> bool:
    """Tell whether an amount is a duration (``PT<seconds>S``) and not a number."""
    return text is not None and text.startswith("PT")


def fitting(name: str) -> str:
    """Return what a rule fits, for a message."""
    return _WORDS[name]


_FITTING: dict[str, tuple[str, ...]] = {
    "round": NUMBERS,
    "precision": CLOCKS,
    "single_precision": NUMBERS,
    "normalize": ("text",),
    "numeric_text": ("text",),
    "date_as_midnight": ("date", "timestamp"),
    "array_order": ("array",),
}
_WORDS = {
    "tolerance": "numbers, and with abs as a duration dates, times and timestamps",
    "round": "numbers",
    "precision": "times and timestamps",
    "single_precision": "numbers",
    "read_as": "types that can be read so",
    "normalize": "text",
    "null_equals": "types that all its values belong to",
    "numeric_text": "text",
    "date_as_midnight": "a date paired with a timestamp",
    "array_order": "arrays",
}
