"""A patch that is decided by columns leaves the same bytes and the same rows as one that is decided row by row."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from patching import Bench, file_uri

from airflow_delta_provider.core import checkpoint, log
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine.patching import apply, bycolumns, context, transaction
from airflow_delta_provider.engine.patching.spool import ALONE, Block, Spool

COLUMNS = (
    "id bigint, part varchar(20), i integer, n numeric(9,3), f double precision, t text, v varchar(6),"
    " u uuid, b boolean, d date, s timestamptz(3), w timestamp"
)
NARROW = (
    "id integer, part varchar(10), i smallint, n numeric(3,1), f double precision, t text NOT NULL, v varchar(4),"
    " u uuid, b boolean, d date, s timestamptz(0), w timestamp(3)"
)
SMALL: list[Any] = [1, Decimal("1.5"), 2.5, "old", "v", None, True, date(2026, 2, 1), None, None]
TEXTS = ["", "null", "a,b", 'say "hi"', "back\\slash", "tab\there", "line\nfeed", "\r\n", "\x01\x1f", "é€😀", '{"a":1}', "\\N", "\\.", "x" * 400, "it's"]  # fmt: skip
VALUES: list[list[Any]] = [
    [None, 0, 1, -2147483648, 2147483647],
    [None, Decimal("0"), Decimal("1.5"), Decimal("-999999.999"), Decimal("NaN")],
    [None, 0.0, -0.0, 1.5, 1e300, 5e-324, 1e16, float("inf"), float("nan")],
    [None, *TEXTS],
    [None, "", "null", "abcdef", "é\n"],
    [None, "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    [None, True, False],
    [None, date(2026, 1, 31), date(1, 1, 1), "infinity", "0044-03-15 BC", "12026-01-01"],
    [None, datetime(2026, 1, 31, 12, 30, 1, 250000, tzinfo=UTC), "-infinity", "0044-03-15 00:00Z BC"],
    [None, datetime(2026, 1, 31, 12, 30), datetime(2026, 1, 31, 12, 30, 0, 1), "infinity"],
]
CHANGED = [(0, 3), (3, 4), (7, 8, 9), (1, 2, 5, 6)]
"""Columns that change together: of more sets than the writer takes at once, all is written row by row."""
NAMES = ("i", "n", "f", "t", "v", "u", "b", "d", "s", "w")


@pytest.fixture
def bench(postgresql_database) -> Bench:
    """An empty database of the one engine that takes changes by columns."""
    return Bench("postgresql", postgresql_database, key=["id", "part"])


def row(chance: random.Random, key: tuple[Any, ...]) -> list[Any]:
    """Make a row of common and of awkward values."""
    return [*key, *(values[0] if chance.random() < 0.2 else chance.choice(values[1:]) for values in VALUES)]


def sides(chance: random.Random) -> tuple[list[list[Any]], list[list[Any]]]:
    """Make rows of both sides: alike, changed in some columns, on one side only."""
    source, target = [], []
    keys = {(chance.randrange(-300, 300), chance.choice(["", "p", 'q"', "é", "z" * 20])) for _ in range(60)}
    for key in sorted(keys):
        one = row(chance, key)
        fate = chance.choice(["same", "changed", "changed", "added", "dropped"])
        if fate != "added":
            source.append(one)
        if fate == "changed":
            other = row(chance, key)
            changed = chance.choice(CHANGED)
            target.append([other[at] if at - 2 in changed else value for at, value in enumerate(one)])
        elif fate != "dropped":
            target.append(one)
    return source, target


def patched(bench: Bench, seed: int, limit: int, monkeypatch: pytest.MonkeyPatch, **named: Any) -> Any:
    """Fill both tables by a seed, write to some rows after the comparison, patch, and return all that can be seen."""
    chance = random.Random(seed)
    monkeypatch.setattr(transaction, "BULK_ROWS_MIN", limit)
    bench.store = MemoryStore()
    bench.sql("DROP TABLE IF EXISTS t_source", "DROP TABLE IF EXISTS t_target")
    narrow = named.pop("narrow", None)
    bench.sql(f"CREATE TABLE t_source ({COLUMNS}, PRIMARY KEY (id, part))")
    bench.sql(f"CREATE TABLE t_target ({narrow or COLUMNS}, PRIMARY KEY (id, part))")
    source, target = sides(chance)
    if narrow:
        target = [[*one[:2], *SMALL] for one in target if len(one[1]) <= 10]
    bench.fill("source", source)
    bench.fill("target", target)
    manifest = bench.compare()
    for one in chance.sample(target, 3) if named["conflicts"] == "skip" else ():
        bench.sql(f"UPDATE t_target SET {chance.choice(NAMES)} = NULL WHERE id = {one[0]}")
        bench.sql(f"DELETE FROM t_target WHERE id = {chance.choice(target)[0]}")
    late = chance.choice(target)[0]

    def step(name: str) -> None:
        if name == "begin" and named["conflicts"] == "skip" and not began:
            began.append(name)
            bench.sql(f"UPDATE t_target SET i = 77 WHERE id = {late}")

    began: list[str] = []
    outcome = bench.apply(manifest, step, max_share=1, **named)
    check, _ = verify_published(bench.store, manifest)
    assert check.verdict == "verified"
    pair_id = log.pair_id_of(bench.spec.name, "bench:source", "bench:target")
    restore = checkpoint.find_restore(bench.store, pair_id, outcome.patch_id)
    return outcome.document(), bench.rows(columns="t_target::text"), restore


@pytest.fixture
def by_columns(monkeypatch) -> list[int]:
    """Look up few records at a time, and note how many were decided by columns and how many alone."""
    counted = [0, 0]

    class Counting(Spool):
        def write_block(self, block: Block) -> None:
            counted[0] += len(block.ops) - block.ops.count(ALONE)
            counted[1] += block.ops.count(ALONE)
            super().write_block(block)

    monkeypatch.setattr(apply, "Spool", Counting)
    monkeypatch.setattr(bycolumns, "CHUNK_BATCHES", 1)
    monkeypatch.setattr(context, "BATCH_RECORDS", 17)
    return counted


@pytest.mark.parametrize("conflicts", ["refuse", "skip"])
def test_by_columns_and_row_by_row_are_the_same_bytes(bench, monkeypatch, by_columns, conflicts):
    """Checkpoint, ledger, outcome and proof have the same digests, whatever stands in the rows."""
    for seed in range(3):
        expected = patched(bench, seed, 10**9, monkeypatch, conflicts=conflicts)
        assert patched(bench, seed, 1, monkeypatch, conflicts=conflicts) == expected, seed
    assert min(by_columns) > 20


def test_a_table_with_more_columns_is_restored_from_the_same_bytes(bench, monkeypatch, by_columns):
    """What is not compared goes into the restore body, guards a row that is deleted, and comes back."""
    bench.members["columns"] = {"exclude": ["t", "b", "w"]}
    for seed in range(20, 22):
        expected = patched(bench, seed, 10**9, monkeypatch, conflicts="skip")
        assert patched(bench, seed, 1, monkeypatch, conflicts="skip") == expected, seed
        assert expected[2] is not None
        bench.rollback(expected[0]["patch"])
        expected = patched(bench, seed, 1, monkeypatch, conflicts="refuse")
        assert expected[0]["outcomes"]["applied"]
        again = bench.rows(columns="t_target::text")
        assert bench.rollback(expected[0]["patch"]).proved
        assert bench.rows(columns="t_target::text") != again
    assert min(by_columns) > 20


def test_values_that_the_target_cannot_hold_are_left_by_columns_too(bench, monkeypatch, by_columns):
    """Narrower columns, one that takes no NULL: these records are skipped, and the others are written."""
    for seed in range(10, 13):
        expected = patched(bench, seed, 10**9, monkeypatch, conflicts="refuse", narrow=NARROW)
        assert patched(bench, seed, 1, monkeypatch, conflicts="refuse", narrow=NARROW) == expected, seed
        assert expected[0]["outcomes"]["skipped"]
    assert min(by_columns) > 0


@pytest.mark.parametrize("limit", [1, 10**9], ids=["by columns", "row by row"])
def test_a_key_that_the_engine_has_no_form_for_is_left_and_the_rest_is_written(
    postgresql_database, tmp_path, monkeypatch, limit
):
    """SQLite holds U+0000 in a text and PostgreSQL does not: one such key must not stop the whole patch, or its way back."""
    monkeypatch.setattr(transaction, "BULK_ROWS_MIN", limit)
    lite = Bench("sqlite", file_uri("sqlite", tmp_path))
    lite.sql("CREATE TABLE t_source (id TEXT PRIMARY KEY, v TEXT)")
    lite.fill("source", [("a\x00b", "x"), ("c", "new"), ("d", "q\x00")])
    bench = Bench("postgresql", postgresql_database)
    bench.members["source"] = {"uri": lite.uri, "table": "t_source", "label": "bench:source"}
    bench.sql("CREATE TABLE t_target (id TEXT PRIMARY KEY, v TEXT)")
    bench.fill("target", [("c", "old")])
    outcome = bench.apply(bench.compare(), max_share=1)
    assert (outcome.outcomes["applied"], outcome.outcomes["skipped"]) == (1, 2)
    assert [row["key"] for row in outcome.skipped] == [["a\x00b"], ["d"]]
    assert {row["reason"] for row in outcome.skipped} == {"DELTA_VALUE_LOSSY"}
    assert bench.rows() == [("c", "new")]
    assert bench.rollback(outcome.patch_id).proved
    assert bench.rows() == [("c", "old")]
