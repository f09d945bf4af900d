"""The rules of a specification against the columns of both sides: the ``rules`` member of the contract (S7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core.equality import schema_type
from airflow_delta_provider.core.errors import RuleFitError, RuleKeyError, RuleParameterError, shown
from airflow_delta_provider.core.rules.fit import KEY_RULES, fits_key, fits_pair, fitting, limited, type_after
from airflow_delta_provider.core.rules.parameters import Document, rule_document
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.values import canonical_values

EVERY = "*"
RuledColumn = tuple[str, LogicalType, LogicalType, bool]
"""A column pair: the target's name, the source's type, the target's type, and whether it is a key column."""


@dataclass(frozen=True, slots=True)
class NormalRules:
    """``documents``: the contract's ``rules``, [[column, [rule, ...]], ...]. ``ignored``: target names under ``ignore``."""

    documents: list[list[Any]]
    ignored: tuple[str, ...]


def ignored_names(written: Mapping[str, Any], names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names, as written, of the columns under ``ignore``; under ``"*"`` those are ``names``.

    Raises: RuleUnknownError, RuleParameterError.
    """
    found: list[str] = []
    for column, rules in _documents(written).items():
        if any(rule["rule"] == "ignore" for rule in rules):
            found += names if column == EVERY else [column]
    return tuple(dict.fromkeys(found))


def normalise_rules(
    written: Mapping[str, Any], columns: Sequence[RuledColumn], name_of: Callable[[str], str]
) -> NormalRules:
    """Return the rules in document form.

    ``written``: rules by column name, as the specification has them. ``columns``: the compared pairs, in schema order;
    ignored columns may be among them or not. ``name_of``: the documents' name of a column for a name as written; it
    raises SpecColumnError for a name that neither side has.
    Raises: RuleUnknownError, RuleParameterError, RuleKeyError, RuleFitError; each names the rule and the column.
    """
    documents = _documents(written)
    every = documents.pop(EVERY, [])
    own = _by_target(documents, name_of)
    keys = {name for name, _, _, key in columns if key}
    ignored = {name for name, rules in own.items() if any(rule["rule"] == "ignore" for rule in rules)}
    if any(rule["rule"] == "ignore" for rule in every):
        ignored |= {name for name, _, _, key in columns if not key}
    if keys & ignored & set(own):
        name = min(keys & ignored)
        raise RuleKeyError(f"column {shown(name)!r}, rule ignore: it is a key column.", where=name)
    known = {name for name, _, _, _ in columns} | ignored
    for name, rules in own.items():
        if name not in known:
            first = rules[0]["rule"]
            raise RuleFitError(f"column {shown(name)!r}, rule {first}: the column is not compared.", where=name)
    return NormalRules(_expanded(every, own, columns, ignored), tuple(sorted(ignored, key=str.encode)))


def _documents(written: Mapping[str, Any]) -> dict[str, list[Document]]:
    return {column: _rules_of(column, rules) for column, rules in written.items()}


def _rules_of(column: str, rules: Any) -> list[Document]:
    rules = [rules] if isinstance(rules, Mapping) else rules
    if not isinstance(rules, list) or not rules:
        raise RuleParameterError(f"column {shown(column)!r}: it takes a list of rules that is not empty.", where=column)
    documents = []
    for rule in rules:
        if not isinstance(rule, Mapping) or len(rule) != 1:
            raise RuleParameterError(
                f"column {shown(column)!r}: a rule is a map of one entry, its name and its parameters.", where=column
            )
        ((name, value),) = rule.items()
        documents.append(rule_document(name, value, column))
    return documents


def _by_target(documents: Mapping[str, list[Document]], name_of: Callable[[str], str]) -> dict[str, list[Document]]:
    own: dict[str, list[Document]] = {}
    for column, rules in documents.items():
        name = name_of(column)
        if name in own:
            raise RuleParameterError(f"column {shown(name)!r} has rules under two names.", where=name)
        own[name] = rules
    return own


def _expanded(
    every: Sequence[Document],
    own: Mapping[str, list[Document]],
    columns: Sequence[RuledColumn],
    ignored: set[str],
) -> list[list[Any]]:
    result: list[list[Any]] = []
    used = [rule["rule"] == "ignore" for rule in every]
    for name, source, target, key in sorted(columns, key=lambda column: not column[3]):
        if name in ignored:
            continue
        rules: list[Document] = []
        for place, rule in enumerate([*every, *own.get(name, [])]):
            wanted = place >= len(every)
            fitted = _fitted(rule, source, target, key, name, wanted)
            if fitted is not None:
                rules.append(fitted)
                if not wanted:
                    used[place] = True
                source, target = type_after(fitted, source, "source"), type_after(fitted, target, "target")
        if rules:
            result.append([name, rules])
    for rule, fits_some in zip(every, used, strict=True):
        if not fits_some:
            raise RuleFitError(
                f'column "*", rule {rule["rule"]}: no compared column is of a type that it fits; '
                f"it fits {fitting(rule['rule'])}.",
                where=EVERY,
            )
    return result


def _fitted(
    rule: Document, source: LogicalType, target: LogicalType, key: bool, name: str, wanted: bool
) -> Document | None:
    """Return the rule for one column, or None where one of ``"*"`` does not fit it; refuse where it is the column's own."""
    if rule["rule"] == "ignore":
        return None
    if key and not fits_key(rule):
        if wanted:
            raise RuleKeyError(f"column {shown(name)!r}, rule {rule['rule']}: {_key_reason(rule)}.", where=name)
        return None
    fitted = _with_values(rule, source, target) if rule["rule"] == "null_equals" else rule
    if fitted is not None and fits_pair(fitted, source, target):
        return fitted
    if not wanted:
        return None
    raise RuleFitError(
        f"column {shown(name)!r}, rule {rule['rule']}: {_types(rule, source, target)}; it fits {fitting(rule['rule'])}.",
        where=name,
    )


def _key_reason(rule: Document) -> str:
    if rule["rule"] not in KEY_RULES:
        return "it never applies to a key column"
    if rule["otherwise"] == "different":
        return "a key that is different from everything has no place; say otherwise: refuse"
    return f"a {rule['type']} cannot be a key"


def _types(rule: Document, source: LogicalType, target: LogicalType) -> str:
    side = limited(rule)
    seen = f"the {side} is {(source if side == 'source' else target).text}"
    if side == "both":
        seen = f"the source is {source.text} and the target {target.text}"
    if rule["rule"] != "read_as":
        return seen
    zoned = rule["type"] == "timestamp_tz" and rule["zone"] is None
    return f"{seen}, to be read as {rule['type']}{' without a zone' if zoned else ''}"


def _with_values(rule: Document, source: LogicalType, target: LogicalType) -> Document | None:
    """Return ``null_equals`` with canonical values of the pair's type, or None where one of them has no such value."""
    type = schema_type(source, target) or source
    if rule["values"] == "zero_date":
        return rule
    canonical = [None if type.nested else _canonical(value, type) for value in rule["values"]]
    if any(value is None for value in canonical):
        return None
    return {**rule, "values": list(dict.fromkeys(canonical))}


def _canonical(value: str | int | Decimal, type: LogicalType) -> Any:
    if isinstance(value, bool):
        value = "true" if value else "false"
    if type.kind == "bool" and value not in ("true", "false"):
        return None
    array, bad = parse_text(pa.array([str(value)], pa.string()), LogicalType(type.kind))
    return None if bad[0].as_py() else canonical_values(array, LogicalType(type.kind), LogicalType(type.kind))[0]
