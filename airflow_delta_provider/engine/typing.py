"""From paired columns to typed columns: untyped file columns take a type, rules are normalised, families are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.adapters.side import Admitting, Column, Side
from airflow_delta_provider.core import rules
from airflow_delta_provider.core.equality import schema_type
from airflow_delta_provider.core.errors import (
    KeySensitiveError,
    KeyTypeError,
    SideColumnTypeError,
    SideIncomparableError,
    shown,
)
from airflow_delta_provider.core.pairing import Names, Pair, Pairing
from airflow_delta_provider.core.recorded import ComparedColumn
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.stream import KeyColumn
from airflow_delta_provider.core.types import KEY_KINDS, LogicalType

SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class Typed:
    """Every compared column with its types and rules, and the rules as the contract documents them.

    ``rules``: [[column, [rule, ...]], ...] for columns that have rules, key columns first.
    """

    columns: tuple[ComparedColumn, ...]
    source_key: tuple[KeyColumn, ...]
    target_key: tuple[KeyColumn, ...]
    rules: list[list[Any]]


def resolve_untyped(source: Side, target: Side, pairing: Pairing, spec: Spec, names: Names) -> tuple[Side, Side]:
    """Give each untyped column of a text file the type of its partner (docs/contract.md, 1).

    A column of an unmapped type that a rule reads is asked for as text.
    """
    mine = {column.name: column for column in source.columns}
    other = {column.name: column for column in target.columns}
    reads = _written_reads(spec, names)
    wanted: tuple[dict[str, LogicalType], dict[str, LogicalType]] = ({}, {})
    for pair in (*pairing.key, *pairing.values):
        first, second = mine[pair.source], other[pair.target]
        source_type = _taken_type(first, second, reads.get((pair.target, "source")), reads.get((pair.target, "target")))
        target_type = _taken_type(second, first, reads.get((pair.target, "target")), reads.get((pair.target, "source")))
        if source_type is not None:
            wanted[0][pair.source] = source_type
        if target_type is not None:
            wanted[1][pair.target] = target_type
    return (
        source.resolve(wanted[0]) if wanted[0] else source,
        target.resolve(wanted[1]) if wanted[1] else target,
    )


def admit_values(source: Side, target: Side, pairing: Pairing, typed: Typed) -> None:
    """Let engines deliver values that the first rule of their column takes away: zero dates, and times beyond a day."""
    for name, side in (("source", source), ("target", target)):
        pairs = zip(pairing.values, typed.columns, strict=True)
        found = frozenset(getattr(pair, name) for pair, column in pairs if _takes_away(column.rules, name))
        if found and isinstance(side, Admitting):
            side.admit(found)


def _takes_away(documents: Sequence[Mapping[str, Any]], side: str) -> bool:
    """Tell whether the first rule for a side nulls zero dates or reads lengths of time."""
    first = next((rule for rule in documents if rule.get("side", "both") in ("both", side)), None)
    if first is None:
        return False
    return first.get("values") == "zero_date" or (first["rule"] == "read_as" and first["type"] == "interval")


def _taken_type(
    column: Column, partner: Column, read: LogicalType | None, partner_read: LogicalType | None
) -> LogicalType | None:
    """Return the type as which an untyped or unmapped column is to be read, or None to leave it as it is."""
    if column.type is None and read is not None:
        return LogicalType("text")
    if not column.untyped or read is not None:
        return None
    if partner_read is not None:
        return partner_read
    if partner.untyped:
        return partner.type if partner.forms and not column.forms and partner.type is not None else None
    return _unbounded(partner.type) if partner.type is not None else None


def _unbounded(kind: LogicalType) -> LogicalType:
    return kind if kind.nested else LogicalType(kind.kind)


def _written_reads(spec: Spec, names: Names) -> dict[tuple[str, str], LogicalType]:
    """Return for (documented column, side) the type that a read_as of the specification gives it."""
    reads: dict[tuple[str, str], LogicalType] = {}
    for name, written in spec.rules.items():
        if name == "*" or not isinstance(written, list):
            continue
        column = names.documented(name, f"rules.{name}")
        for rule in written:
            form = rule.get("read_as") if isinstance(rule, Mapping) else None
            if isinstance(form, Mapping) and isinstance(form.get("type"), str):
                for side in SIDES if form.get("side") in (None, "both") else (form["side"],):
                    reads[(column, side)] = LogicalType(form["type"])
    return reads


def type_columns(
    source: Sequence[Column], target: Sequence[Column], pairing: Pairing, spec: Spec, names: Names
) -> Typed:
    """Type every pair.

    Raises: SideColumnTypeError, SideIncomparableError, KeyTypeError, KeySensitiveError, RuleUnknownError,
    RuleParameterError, RuleFitError, RuleKeyError.
    """
    mine = {column.name: column for column in source}
    other = {column.name: column for column in target}
    pairs = (*pairing.key, *pairing.values)
    types = {
        pair: (mapped_type(mine[pair.source], "source"), mapped_type(other[pair.target], "target")) for pair in pairs
    }
    known = [(pair.target, *types[pair], pair in pairing.key) for pair in pairs]
    documents = rules.normalise_rules(spec.rules, known, lambda name: names.documented(name, f"rules.{name}")).documents
    by_column: dict[str, list[dict[str, Any]]] = dict(documents)
    sensitive = {names.documented(name, "sensitive") for name in spec.sensitive}
    keys = [_key_columns(pair, types[pair], by_column.get(pair.target, []), sensitive) for pair in pairing.key]
    columns = tuple(
        _compared(pair, types[pair], by_column.get(pair.target, []), pair.target in sensitive)
        for pair in pairing.values
    )
    return Typed(columns, tuple(key[0] for key in keys), tuple(key[1] for key in keys), documents)


def mapped_type(column: Column, side: str) -> LogicalType:
    """Return the logical type of a column of one side. Raises: SideColumnTypeError where its engine type has none."""
    if column.type is None:
        advice = f" {column.advice}" if column.advice else ""
        raise SideColumnTypeError(
            f"{side}: column {shown(column.name)!r} has type {shown(column.engine_type)}.{advice}", where=side
        )
    return column.type


def _compared(
    pair: Pair, types: tuple[LogicalType, LogicalType], documents: list[dict[str, Any]], sensitive: bool
) -> ComparedColumn:
    effective = rules.effective_types(documents, *types)
    if effective.schema is None:
        raise _incomparable(pair, effective.source_recorded, effective.target_recorded)
    return ComparedColumn(pair.target, *types, effective.schema, tuple(documents), sensitive)


def _key_columns(
    pair: Pair, types: tuple[LogicalType, LogicalType], documents: list[dict[str, Any]], sensitive: set[str]
) -> tuple[KeyColumn, KeyColumn]:
    if pair.target in sensitive:
        raise KeySensitiveError(f"key column {shown(pair.target)!r}.", where="sensitive")
    effective = rules.effective_types(documents, *types)
    key_type = schema_type(effective.source_final, effective.target_final)
    if key_type is None:
        raise _incomparable(pair, effective.source_final, effective.target_final)
    if key_type.kind not in KEY_KINDS:
        raise KeyTypeError(f"key column {shown(pair.target)!r} has type {key_type.kind}.", where=pair.target)
    chain = tuple(documents)
    return KeyColumn(pair.source, types[0], key_type, chain), KeyColumn(pair.target, types[1], key_type, chain)


def _incomparable(pair: Pair, source: LogicalType, target: LogicalType) -> SideIncomparableError:
    advice = _comparing_rule(source, target)
    return SideIncomparableError(
        f"column {shown(pair.target)!r} is {source.text} in the source and {target.text} in the target;"
        f" {advice} would make them comparable.",
        where=pair.target,
    )


def _comparing_rule(source: LogicalType, target: LogicalType) -> str:
    kinds = {source.kind, target.kind}
    if kinds == {"timestamp", "timestamp_tz"}:
        side = "source" if source.kind == "timestamp" else "target"
        return f"read_as {{type: timestamp_tz, zone: <zone>, side: {side}}}"
    if "date" in kinds and kinds & {"timestamp", "timestamp_tz"}:
        return "date_as_midnight"
    if "text" in kinds:
        side, kind = ("source", target.kind) if source.kind == "text" else ("target", source.kind)
        return f"read_as {{type: {kind}, side: {side}}}"
    if source.nested or target.nested:
        return "a query that selects the same parts on both sides"
    return f"read_as {{type: {target.kind}, side: source}}"
