"""Random pairs of tables, random rules, random damage: everything drawn from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from differential.catalog import CATALOG, ENGINES, Declared
from differential.columns import (
    MAKERS,
    Column,
    _precision,
    _tolerance,
    draw,
    fits_value,
    normalizing,
    partner,
)
from differential.filters import FILTER_TEXTS, FILTERS
from differential.model import (
    CLOCKS,
    INFINITIES,
    NUMBERS,
    canonical,
    sort_key,
)
from differential.oracle import Comparison, Pair, key_of
from differential.oracle_rules import Refused, Rule
from differential.pools import Random, nearby


@dataclass
class Case:
    """One drawn pair of tables with everything that a run needs and the oracle's view of it."""

    seed: int
    engines: tuple[str, str]
    columns: list[Column]
    comparison: Comparison
    written: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    types: tuple[dict[str, Declared], dict[str, Declared]]
    form: dict[str, Any]
    group_rows: int


def draw_case(seed: int, engines: tuple[str, ...] = ENGINES) -> Case:
    """Draw one case; the same seed and engines give the same case."""
    rng = random.Random(seed)
    chosen = (rng.choice(engines), rng.choice(engines))
    sizes = rng.choice((1, 1, 2, 3)), rng.randint(0, 5)
    columns = [draw_column(rng, chosen, f"k{at}", True) for at in range(sizes[0])]
    columns += [draw_column(rng, chosen, f"v{at}", False) for at in range(sizes[1])]
    extra = [Column("f", *_plain(chosen, "text")), Column("n", *_plain(chosen, "int"))]
    nulls, duplicates = rng.choice(("refuse", "refuse", "set_aside", "match")), rng.choice(("refuse", "set_aside"))
    star = _star(rng, columns) if rng.random() < 0.25 else None
    pairs = {c.name: _pair(c, star) for c in columns}
    rows = _rows(rng, columns, extra, nulls != "refuse" or rng.random() < 0.05)
    if not (duplicates == "set_aside" and rng.random() < 0.6) and rng.random() < 0.9:
        rows = _unique(rows, columns, pairs)
    rng.shuffle(rows[0])
    rng.shuffle(rows[1])
    columns += extra
    _settle_sqlite(chosen, columns, rows)
    readable = _settle_undeclared(rng, columns, rows)
    pairs = {c.name: _pair(c, star) for c in columns}
    logical = [_stored(columns, side, part) for side, part in zip(("source", "target"), rows, strict=True)]
    keys = [pairs[c.name] for c in columns if c.is_key]
    excluded = [c.name for c in extra if rng.random() < 0.6]
    sources = {c.name: c.source for c in rng.sample(columns, len(columns))}
    order = rng.sample(list(sources), len(columns))
    if chosen == ("jsonl", "jsonl") and not rows[1]:
        order = list(sources)  # an empty file has no order but that of the types, which both sides share
    values = [pairs[name] for name in order if not pairs[name].is_key and name not in excluded]
    what = Comparison(keys, values, logical[0], logical[1], None, nulls, duplicates, readable=readable)
    form: dict[str, Any] = {"key": [pair.name for pair in keys], "keys": {"nulls": nulls, "duplicates": duplicates}}
    if excluded:
        form["columns"] = {"exclude": excluded}
    if rng.random() < 0.4:
        found = rng.choice(FILTERS)
        form["filter"] = found.text
        what.keep = lambda row: found.test(row) is True
    rules = {c.name: [{name: spec_of(body)} for name, body in c.rules] for c in columns if c.rules}
    if star is not None:
        rules["*"] = [{star[0]: spec_of(star[1])}]
    if rules:
        form["rules"] = rules
    if rng.random() < 0.5:
        form["shards"] = {"count": rng.choice((1, 2, 3, 7))}
    _range(rng, what, form)
    targets = {name: next(c.target for c in columns if c.name == name) for name in order}
    return Case(seed, chosen, columns, what, rows, (sources, targets), form, rng.choice((1, 3, 1000)))


def spec_of(form: dict[str, Any]) -> dict[str, Any]:
    """Return a rule's parameters as a specification has them."""
    return dict(form)


def draw_column(rng: Random, engines: tuple[str, str], name: str, is_key: bool) -> Column:
    """Draw one column pair that both engines have."""
    while True:
        column = rng.choice(MAKERS)(rng, CATALOG[engines[0]], CATALOG[engines[1]], is_key)
        if column is None:
            continue
        alike = engines[0] == engines[1] and engines[0] in ("csv", "jsonl")
        if alike and column.source.kind != column.target.kind:
            continue
        if is_key and "float" in column.source.native and "float" in column.target.native:
            continue
        column.name, column.is_key = name, is_key
        reads = any(rule == "read_as" for rule, _ in column.rules)
        if not reads and column.source.kind == column.target.kind and rng.random() < 0.4:
            files = [s for s, e in zip(("source", "target"), engines, strict=True) if e in ("csv", "jsonl")]
            column.undeclared = files[0] if len(files) == 1 else ""
        return column


def _plain(engines: tuple[str, str], kind: str) -> tuple[Declared, Declared]:
    found = [next(each for each in CATALOG[engine] if each.kind == kind) for engine in engines]
    return found[0], found[1]


def _star(rng: Random, columns: list[Column]) -> Rule | None:
    rule = rng.choice((normalizing(rng), _precision(rng), _tolerance(rng)))
    return rule if any(_fits_star(rule, column) for column in columns) else None


def _fits_star(rule: Rule, column: Column) -> bool:
    kinds = {"normalize": ("text",), "precision": CLOCKS, "tolerance": NUMBERS}[rule[0]]
    side = rule[1].get("side", "both")
    wanted = [column.declared(each).kind for each in ("source", "target") if side in (each, "both")]
    return all(kind in kinds for kind in wanted) and (rule[0] == "normalize" or not column.is_key)


def _pair(column: Column, star: Rule | None) -> Pair:
    rules = ([star] if star is not None and _fits_star(star, column) else []) + column.rules
    return Pair(column.name, column.source.kind, column.target.kind, rules, column.is_key)


Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def _rows(rng: Random, columns: list[Column], extra: list[Column], null_keys: bool) -> Rows:
    def cell(column: Column, side: str) -> Any:
        if rng.random() < (0.06 if column.is_key and null_keys else 0 if column.is_key else 0.12):
            return None
        return draw(rng, column, side, column.is_key)

    def with_extra(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"f": rng.choice(FILTER_TEXTS), "n": rng.choice((0, 1, 3, 5, -3, None))}

    count = rng.choice((0, 1, 5, 12, 25))
    source = [with_extra({c.name: cell(c, "source") for c in columns}) for _ in range(count)]
    target = []
    for row in source:
        if rng.random() < 0.12:
            continue
        made = {c.name: partner(rng, c, row[c.name]) for c in columns} | {c.name: row[c.name] for c in extra}
        target.append(_damaged(rng, made, columns))
    target += [with_extra({c.name: cell(c, "target") for c in columns}) for _ in range(rng.choice((0, 0, 1, 4)))]
    if len(target) > 2 and rng.random() < 0.2:
        one, other, name = *rng.sample(target, 2), rng.choice(columns).name
        one[name], other[name] = other[name], one[name]
    broken = [c for c in columns if c.is_key and not null_keys]
    return tuple([row for row in part if all(row[c.name] is not None for c in broken)] for part in (source, target))  # type: ignore[return-value]


def _damaged(rng: Random, row: dict[str, Any], columns: list[Column]) -> dict[str, Any]:
    for column in columns:
        if rng.random() > (0.06 if column.is_key else 0.3):
            continue
        if rng.random() < 0.15 and not column.is_key:
            row[column.name] = None if row[column.name] is not None else draw(rng, column, "target")
            continue
        plain = column.target.native == "ENUM" or (column.spelled and column.spelled_side in ("target", "both"))
        found = None if plain else nearby(rng, row[column.name], column.target.kind)
        if found is None or not fits_value(column, found, "target"):
            found = draw(rng, column, "target", column.is_key)
        row[column.name] = found
    if rng.random() < 0.05:
        row["f"] = rng.choice(FILTER_TEXTS)
    return row


def _unique(rows: Rows, columns: list[Column], pairs: dict[str, Pair]) -> Rows:
    keys = [c for c in columns if c.is_key]
    kinds = [pairs[c.name].schema for c in keys]
    what = Comparison([pairs[c.name] for c in keys], [], [], [])
    found: list[list[dict[str, Any]]] = []
    for side, part in zip(("source", "target"), rows, strict=True):
        kept: dict[bytes, dict[str, Any]] = {}
        for row in part:
            plain = {c.name: None if row[c.name] is None else c.declared(side).stored(row[c.name]) for c in keys}
            try:
                kept[sort_key(key_of(what, plain, side), kinds)] = row
            except Refused:
                continue
        found.append(list(kept.values()))
    return found[0], found[1]


def _settle_sqlite(engines: tuple[str, str], columns: list[Column], rows: Rows) -> None:
    """Give SQLite's columns of mixed classes the type that what is stored in them makes."""
    for side, engine, part in zip(("source", "target"), engines, rows, strict=True):
        for column in columns:
            if engine != "sqlite" or column.declared(side).native != "":
                continue
            whole = {value == value.to_integral_value() for row in part if (value := row[column.name]) is not None}
            kind, native = {(True,): ("int", "INTEGER"), (False,): ("float64", "REAL")}.get(
                tuple(whole), ("decimal", "") if whole else ("int", "INTEGER")
            )
            settled = Declared(kind, native, stored=_as_stored)
            if side == "source":
                column.source = settled
            else:
                column.target = settled


def _settle_undeclared(rng: Random, columns: list[Column], rows: Rows) -> bool:
    """Give undeclared columns of text files the type that SQLite's side has taken, by which they are read strictly.

    Values that are none of that type are replaced at most times; where some stay, False: the run has to refuse.
    """
    readable = True
    for column in columns:
        at = ("source", "target").index(column.undeclared) if column.undeclared else 0
        other = column.declared(("target", "source")[at])
        if not column.undeclared or other.kind == column.declared(column.undeclared).kind:
            continue
        read = _as_int if other.kind == "int" else _as_float
        keeps = other.kind == "int" and rng.random() < 0.3
        for row in rows[at]:
            value = row[column.name]
            fits = value is None or read(value) == value
            readable = readable and (fits or not keeps)
            row[column.name] = value if keeps and not fits else None if value is None else read(value)
        settled = Declared(other.kind, other.kind, stored=lambda value: value)
        if column.undeclared == "source":
            column.source = settled
        else:
            column.target = settled
    return readable


def _as_int(value: Decimal) -> int:
    return int(value) if value.is_finite() else 7


def _as_float(value: Decimal) -> float:
    return float(value)


def _stored(columns: list[Column], side: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the logical values of one side, by column."""
    return [
        {c.name: None if row[c.name] is None else c.declared(side).stored(row[c.name]) for c in columns} for row in rows
    ]


def _as_stored(value: Decimal) -> Any:
    return int(value) if value == value.to_integral_value() else float(value)


def _range(rng: Random, what: Comparison, form: dict[str, Any]) -> None:
    """Cut a range out of the key space at times: literals of the first key column, where it has no rules."""
    first = what.key[0]
    if first.schema not in ("int", "text", "date", "uuid") or first.rules or rng.random() > 0.15:
        return
    found = sorted(
        {
            sort_key([row[first.name]], [first.schema]): row[first.name]
            for row in what.source
            if row[first.name] is not None
        }.items()
    )
    found = [(key, value) for key, value in found if value not in INFINITIES and len(key) < 150]
    if len(found) < 2:
        return
    lower, upper = sorted(rng.sample(found, 2))
    form["key_range"] = {"from": [canonical(lower[1], first.schema)], "to": [canonical(upper[1], first.schema)]}
    what.lower, what.upper = lower[0], upper[0]
