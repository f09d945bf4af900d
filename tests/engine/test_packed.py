"""PostgreSQL pairs whose values stay bytes until they differ: the manifest of a comparison that looks at every value."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine import shards
from airflow_delta_provider.engine.run import Outcome, reconcile

TYPES = {
    "a": ("integer", ["1", "-7", "2147483647"]),
    "b": ("numeric(20,4)", ["1.0", "-0.5000", "99999999.1234", "0"]),
    "c": ("numeric", ["1.0", "1.00", "'NaN'", "-12345678901234567890.5"]),
    "d": ("double precision", ["0.1", "'NaN'", "'Infinity'", "-0.0", "0.0"]),
    "e": ("text", ["''", "'x'", "'dé'", "'d' || repeat('x', 300)"]),
    "f": ("char(5)", ["'a'", "'a  '", "'abcde'"]),
    "g": ("timestamptz", ["'2020-02-29 12:00Z'", "'infinity'", "'-infinity'"]),
    "h": ("date", ["'0001-01-01'", "'infinity'", "'2026-12-01'"]),
    "i": ("boolean", ["true", "false"]),
    "j": ("jsonb", ["'{\"a\": 1.0}'", "'{\"a\": 1.00}'", "'[]'", "'null'"]),
    "k": ("bytea", ["'\\x00ff'", "''"]),
    "l": ("uuid", ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-0000-0000-0000-000000000001'"]),
    "m": ("time", ["'00:00'", "'23:59:59.999999'"]),
    "n": ("bit varying(9)", ["B'101'", "B''"]),
}


@pytest.fixture
def pair(postgresql_database) -> Iterator[Any]:
    """What makes two tables of statements and returns a specification of them."""
    with psycopg.connect(postgresql_database, autocommit=True) as connection:

        def made(columns: str, source: str, target: str, **members: Any) -> dict[str, Any]:
            for name, rows in (("source", source), ("target", target)):
                connection.execute(f"DROP TABLE IF EXISTS t_{name}")
                connection.execute(f"CREATE TABLE t_{name} ({columns})")
                connection.execute(f"INSERT INTO t_{name} {rows}")
            sides = {name: {"uri": postgresql_database, "table": f"t_{name}"} for name in ("source", "target")}
            return {"name": "pair", "key": ["id"], **sides, **members}

        yield made


@pytest.fixture
def packings(monkeypatch) -> list[bool]:
    """Whether each read of a pair was packed, in turn."""
    found: list[bool] = []
    packed = shards.packed

    def counted(*given: Any) -> Any:
        requests = packed(*given)
        found.append(requests[0].packed)
        return requests

    monkeypatch.setattr(shards, "packed", counted)
    return found


def run(form: dict[str, Any]) -> Outcome:
    return reconcile(parse_spec(form), MemoryStore(), open_side)


def looked_at(form: dict[str, Any]) -> str:
    """Return the manifest of a comparison that packs nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "packed", lambda source, target, requests: requests)
        return run(form).receipt.manifest


def row_of(rng: random.Random, key: str) -> str:
    """Return one row with a value of every type, or NULL."""
    values = ["NULL" if rng.random() < 0.2 else f"{rng.choice(choices)}::{kind}" for kind, choices in TYPES.values()]
    return f"({', '.join([key, *values])})"


@pytest.mark.parametrize("key", ["bigint", "text", "numeric"])
def test_values_of_every_type_are_found_as_when_each_is_looked_at(pair, packings, key):
    """Damage in any column, rows on one side only, and values whose bytes differ though they are equal."""
    for seed in range(6):
        rng = random.Random(seed)
        quoted = {"bigint": "{}", "text": "'k{}'", "numeric": "{}.0"}[key]
        source = {place: row_of(rng, place) for place in map(quoted.format, range(200))}
        target = {place: row for place, row in source.items() if rng.random() > 0.03}
        for place in rng.sample(list(target), 12):
            target[place] = row_of(rng, place)
        columns = f"id {key} PRIMARY KEY, " + ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
        form = pair(columns, *(f"VALUES {', '.join(rows.values())}" for rows in (source, target)))
        outcome = run(form)
        assert outcome.receipt.manifest == looked_at(form), (key, seed)
        assert sum(outcome.summary["columns"][at][1] for at in range(len(TYPES))) > 0
    assert packings == [True] * 6


def test_equal_values_of_unequal_bytes_are_equal(pair, packings):
    """A number knows how many places were written, and a fixed text its blanks."""
    form = pair("id int PRIMARY KEY, n numeric, t text", "VALUES (1, 1.0, 'x'), (2, 2, 'y')", "VALUES (1, 1.00, 'x'), (2, 2, 'z')")  # fmt: skip
    outcome = run(form)
    assert (outcome.summary["columns"], packings) == ([["n", 0, 0], ["t", 1, 0]], [True])


def test_time_stamps_that_no_carrier_holds_together_are_read_again(pair, packings):
    """Infinity beside the year 294,276: such a table must not be refused because its values came late."""
    stamps = "VALUES (1, '294276-12-31'::timestamp), (2, 'infinity'), (3, '2020-01-01')"
    form = pair("id int PRIMARY KEY, t timestamp", stamps, "VALUES (1, 'infinity'::timestamp), (2, NULL), (3, '2020-01-01')")  # fmt: skip
    outcome = run(form)
    assert outcome.summary["columns"] == [["t", 2, 0]]
    assert packings == [True]
    assert outcome.receipt.manifest == looked_at(form)


@pytest.mark.parametrize(
    ("column", "values", "members", "asked"),
    [
        ("v interval", ("'1 day'", "'2 days'"), {}, [False]),
        ("v int[]", ("'{1}'", "'{2}'"), {}, [False]),
        ("v int", ("1", "2"), {"rules": {"v": [{"tolerance": {"abs": "1"}}]}}, []),
        ("v int", ("1", "2"), {}, [True]),
    ],
)
def test_values_that_must_be_looked_at_are_not_packed(pair, packings, column, values, members, asked):
    """Some intervals and arrays have no logical value, and a rule counts what it makes equal: nobody is even asked then."""
    one, other = values
    run(pair(f"id int PRIMARY KEY, {column}", f"VALUES (1, {one})", f"VALUES (1, {other})", **members))
    assert packings == asked


def test_filtered_rows_are_not_packed(pair, packings):
    """The verdict of the filter is a column of its own."""
    rows = ("VALUES (1, 1), (2, -1)", "VALUES (1, 1), (2, -2)")
    outcome = run(pair("id int PRIMARY KEY, v int", *rows, filter="v > 0"))
    assert outcome.manifest["population"]["source"]["skipped"] == 1
    assert packings == [False]


def test_columns_of_two_types_are_not_packed(pair, packings, postgresql_database):
    """The same bytes are other values there."""
    form = pair("id int PRIMARY KEY, v int", "VALUES (1, 1)", "VALUES (1, 1)")
    with psycopg.connect(postgresql_database, autocommit=True) as connection:
        connection.execute("ALTER TABLE t_target ALTER COLUMN v TYPE bigint")
    assert sum(run(form).summary["columns"][0][1:]) == 0
    assert packings == [False]


def test_repeated_keys_are_set_aside_where_values_are_packed(pair, packings):
    """A key may repeat from one batch to the next; its rows are kept together whatever their values are."""
    rows = ", ".join(f"({number // 2}, {number})" for number in range(400))
    form = pair("id int, v int", f"VALUES {rows}, (900, 1)", f"VALUES {rows}, (900, 2)", keys={"duplicates": "set_aside"})  # fmt: skip
    outcome = run(form)
    assert outcome.manifest["population"]["source"]["duplicate_key"] == 400
    assert outcome.manifest["categories"]["value_diverged"]["records"] == 1
    assert outcome.receipt.manifest == looked_at(form)
