"""A slow and obvious reconciliation under rules, read off docs/contract.md; shares no code with the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from differential.model import (
    DAY_NS,
    INFINITIES,
    canonical,
    same,
    schema_kind,
    sort_key,
)
from differential.oracle_rules import PAIR_RULES, Refused, Rule, after, changed, met, side_of


@dataclass
class Pair:
    """One column on both sides: its target name, both kinds, and its rules after expansion of ``"*"``."""

    name: str
    source: str
    target: str
    rules: list[Rule] = field(default_factory=list)
    is_key: bool = False

    def kind_after(self, side: str, count: int) -> str:
        """Return the kind of one side after so many rules."""
        kind = self.source if side == "source" else self.target
        for rule in self.rules[:count]:
            kind = after(rule, kind, side)
        return kind

    @property
    def recorded_rules(self) -> int:
        """How many rules belong to the recorded form."""
        marks = [at for at, (name, form) in enumerate(self.rules, 1) if name == "read_as" or side_of(form) != "both"]
        return marks[-1] if marks and not self.is_key else len(self.rules) if self.is_key else 0

    def recorded_kind(self, side: str) -> str:
        """Return the kind in which one side is recorded."""
        kind = self.kind_after(side, self.recorded_rules)
        midnight = any(name == "date_as_midnight" for name, _ in self.rules)
        return "timestamp" if midnight and kind == "date" else kind

    @property
    def schema(self) -> str:
        """The type in the schema document."""
        kind = schema_kind(self.recorded_kind("source"), self.recorded_kind("target"))
        assert kind is not None
        return kind


def ladder(pair: Pair, source: Any, target: Any) -> tuple[bool, int]:
    """Return whether the values are equal in the end, and the rule (from 1) that it is owed to, or 0."""
    kinds = [pair.source, pair.target]
    satisfied, equal = False, [same(source, target, *kinds)]
    for rule in pair.rules:
        if rule[0] in PAIR_RULES:
            satisfied = satisfied or met(rule, source, target, *kinds)
        else:
            schema = schema_kind(*kinds)
            source, target = (
                changed(rule, value, kind, side, schema)
                for value, kind, side in ((source, kinds[0], "source"), (target, kinds[1], "target"))
            )
            kinds = [after(rule, kinds[0], "source"), after(rule, kinds[1], "target")]
        equal.append(satisfied or same(source, target, *kinds))
    least = next(at for at in range(len(equal) + 1) if all(equal[at:]))
    return equal[-1], least if equal[-1] else 0


def recorded(pair: Pair, value: Any, side: str) -> Any:
    """Return the canonical value of one side in recorded form."""
    kind = pair.source if side == "source" else pair.target
    for rule in pair.rules[: pair.recorded_rules]:
        value = changed(rule, value, kind, side, kind)
        kind = after(rule, kind, side)
    if kind == "date" and pair.schema == "timestamp" and value is not None and value not in INFINITIES:
        value = value * DAY_NS
    return canonical(value, pair.schema)


@dataclass
class Verdict:
    """What the run has to say: a code of refusal, or records, population and summary."""

    refused: str | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    population: dict[str, Any] = field(
        default_factory=lambda: {
            **{s: {"duplicate_key": 0, "null_key": 0, "rows": 0, "skipped": 0} for s in ("source", "target")},
            "unchanged": 0,
        }
    )
    columns: list[list[Any]] = field(default_factory=list)
    rules: list[list[Any]] = field(default_factory=list)


@dataclass
class Comparison:
    """What to compare: key pairs, other pairs in target order, rows as dicts by target name, and the policies."""

    key: list[Pair]
    values: list[Pair]
    source: list[dict[str, Any]]
    target: list[dict[str, Any]]
    keep: Callable[[dict[str, Any]], bool] | None = None
    nulls: str = "refuse"
    duplicates: str = "refuse"
    lower: bytes | None = None
    upper: bytes | None = None
    readable: bool = True
    """False: a file holds a value that is none of its column's type."""


def reconcile(what: Comparison) -> Verdict:
    """Compare, row by row."""
    try:
        return _reconcile(what)
    except Refused as refusal:
        return Verdict(refused=refusal.args[0])


def key_of(what: Comparison, row: dict[str, Any], side: str) -> list[Any]:
    """Return a row's key after the rules of the key columns."""
    found = []
    for pair in what.key:
        value, kind = row[pair.name], pair.source if side == "source" else pair.target
        for rule in pair.rules:
            value = changed(rule, value, kind, side, None)
            kind = after(rule, kind, side)
        found.append(value)
    return found


def listed_values_fit(pair: Pair) -> bool:
    """Tell whether every value that a ``null_equals`` lists is one of the pair's type: ``0.5`` is no integer."""
    for at, (name, form) in enumerate(pair.rules):
        kinds = [pair.kind_after(side, at) for side in ("source", "target")]
        if name == "null_equals" and kinds == ["int", "int"] and any("." in text for text in form["values"]):
            return False
    return True


def _reconcile(what: Comparison) -> Verdict:
    if not all(listed_values_fit(pair) for pair in (*what.key, *what.values)):
        raise Refused("DELTA_RULE_FIT")
    if not what.readable:
        raise Refused("DELTA_VALUE_TEXT")
    verdict = Verdict()
    kept: dict[str, list[tuple[bytes, dict[str, Any]]]] = {"source": [], "target": []}
    nulls = False
    kinds = [pair.schema for pair in what.key]
    for side, rows in (("source", what.source), ("target", what.target)):
        for row in rows:
            values = key_of(what, row, side)
            key = sort_key(values, kinds)
            if (what.lower is not None and key < what.lower) or (what.upper is not None and key >= what.upper):
                continue
            verdict.population[side]["rows"] += 1
            if what.keep is not None and not what.keep(row):
                verdict.population[side]["skipped"] += 1
            elif None in values and what.nulls != "match":
                verdict.population[side]["null_key"] += 1
                nulls = True
            else:
                kept[side].append((key, row))
    if nulls and what.nulls == "refuse":
        raise Refused("DELTA_KEY_NULL")
    repeated = {key for rows in kept.values() for key, times in Counter(key for key, _ in rows).items() if times > 1}
    if repeated and what.duplicates == "refuse":
        raise Refused("DELTA_KEY_DUPLICATE")
    for side, rows in kept.items():
        verdict.population[side]["duplicate_key"] = sum(key in repeated for key, _ in rows)
    _compare(what, verdict, *({key: row for key, row in kept[s] if key not in repeated} for s in ("source", "target")))
    return verdict


def _compare(what: Comparison, verdict: Verdict, source: dict[bytes, Any], target: dict[bytes, Any]) -> None:
    counts: Counter[tuple[str, int]] = Counter()
    diverged: Counter[str] = Counter()
    for key in sorted({*source, *target}):
        mine, other = source.get(key), target.get(key)
        if mine is not None and other is not None:
            unequal = []
            for pair in (*what.key, *what.values):
                equal, owed = ladder(pair, mine[pair.name], other[pair.name])
                counts[(pair.name, owed)] += owed > 0
                if not equal:
                    unequal.append(pair)
            if not unequal:
                verdict.population["unchanged"] += 1
                continue
            diverged.update(pair.name for pair in unequal)
            category, shown = "value_diverged", unequal
        else:
            category, shown = ("added", what.values) if mine is None else ("dropped", what.values)
        values = key_of(what, mine if mine is not None else other, "source" if mine is not None else "target")
        record: dict[str, Any] = {
            "category": category,
            "key": [canonical(value, pair.schema) for value, pair in zip(values, what.key, strict=True)],
            "sort_key": key.hex(),
            "source_value": None if mine is None else [recorded(pair, mine[pair.name], "source") for pair in shown],
            "target_value": None if other is None else [recorded(pair, other[pair.name], "target") for pair in shown],
        }
        if category == "value_diverged":
            record["columns"] = [pair.name for pair in shown]
        if any(pair.rules for pair in what.key):
            record["source_key"] = mine and [canonical(mine[pair.name], pair.source) for pair in what.key]
            record["target_key"] = other and [canonical(other[pair.name], pair.target) for pair in what.key]
        verdict.records.append(record)
    for pair in (*what.key, *what.values):
        tolerated = [counts[(pair.name, at)] for at in range(1, len(pair.rules) + 1)]
        verdict.rules += [[pair.name, at, count] for at, count in enumerate(tolerated)]
        if not pair.is_key:
            verdict.columns.append([pair.name, diverged[pair.name], sum(tolerated)])
