"""Random tables, keys, constraints and damage: a patch makes the sides equal, and a rollback brings everything back.

``DELTA_EXAMPLES`` sets the number of rounds of each test; the default is short.
"""

from __future__ import annotations

import os
import random
from typing import Any

import patching
import pytest
from patching import Bench

from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.patching import transaction

ROUNDS = int(os.environ.get("DELTA_EXAMPLES") or 0)
ROUNDS_NIGHTLY = 1000
SEED = int(os.environ.get("DELTA_SEED") or 7)
TYPES = {
    "int": {"": "INTEGER"},
    "text": {"": "VARCHAR(30)", "mysql": "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"},
    "float": {"": "DOUBLE PRECISION"},
    "decimal": {"": "DECIMAL(12,3)", "sqlite": "INTEGER"},
    "bytes": {"": "BLOB", "postgresql": "BYTEA"},
    "stamp": {"": "TIMESTAMP", "mysql": "DATETIME(6)", "sqlite": "TEXT"},
}
WORDS = ["", "a", "A", "a ", "ß", "é", "e\u0301", "\\", "%s", "'", '"', "x\ny", "😀", "NULL", "0", "zebra"]


class Table:
    """A random table: a key of one or two columns, values of several types, constraints, some columns left out."""

    def __init__(self, chance: random.Random, engine: str) -> None:
        self.chance = chance
        self.engine = engine
        self.key = chance.choice([["int"], ["int", "text"], ["text"]])
        self.kinds = [chance.choice(sorted(TYPES)) for _ in range(chance.randint(1, 4))]
        self.names = [f"k{at}" for at in range(len(self.key))] + [f"c{at}" for at in range(len(self.kinds))]
        self.left_out = {f"c{at}" for at in range(len(self.kinds)) if at and chance.random() < 0.3}
        self.unique = "c0" if self.kinds[0] == "int" and chance.random() < 0.5 else ""
        if self.unique:
            self.left_out.discard(self.unique)
        self.required = {name for name in self.names[len(self.key) :] if chance.random() < 0.3} - self.left_out
        self.primary = chance.random() < 0.7

    def columns(self) -> str:
        """Return the columns as CREATE TABLE takes them."""
        parts = []
        for name, kind in zip(self.names, [*self.key, *self.kinds], strict=True):
            made = TYPES[kind].get(self.engine, TYPES[kind][""])
            needed = " NOT NULL" if name in self.required or name[0] == "k" else ""
            parts.append(f"{name} {made}{needed}{' UNIQUE' if name == self.unique else ''}")
        if self.primary:
            parts.append(f"PRIMARY KEY ({', '.join(self.names[: len(self.key)])})")
        return ", ".join(parts)

    def value(self, kind: str, *, key: bool = False, required: bool = False) -> Any:
        """Return a random value; texts of keys differ by more than a loose collation folds."""
        if not required and not key and self.chance.random() < 0.2:
            return None
        match kind:
            case "int":
                return self.chance.randint(-3, 30)
            case "text":
                return self.chance.choice(["a", "b", "ö", "\\", "%d", "😀", "zz"] if key else WORDS)
            case "float":
                return self.chance.choice([0.1, -1.5, 1e300, 3.0, 1 / 3])
            case "decimal":
                return (
                    self.chance.randint(-9, 9)
                    if self.engine == "sqlite"
                    else f"{self.chance.randint(-9999, 9999)}.{self.chance.randint(0, 999):03d}"
                )
            case "bytes":
                return self.chance.randbytes(self.chance.randint(0, 5))
        return f"{self.chance.randint(1000, 2999)}-0{self.chance.randint(1, 9)}-11 10:00:00.{self.chance.randint(0, 999999):06d}"

    def row(self, key: tuple[Any, ...], taken: set[Any]) -> list[Any]:
        """Return a random row of a key; a unique value is one that no other row has."""
        row = list(key)
        for name, kind in zip(self.names[len(self.key) :], self.kinds, strict=True):
            found = self.value(kind, required=name in self.required)
            if name == self.unique and found is not None:
                found = next(number for number in range(100) if number not in taken)
                taken.add(found)
            row.append(found)
        return row

    def sides(self) -> tuple[list[list[Any]], list[list[Any]]]:
        """Return rows of both sides: many alike, the others damaged, missing, or only there."""
        keys = {tuple(self.value(kind, key=True) for kind in self.key) for _ in range(self.chance.randint(0, 12))}
        source, target = [], []
        taken: tuple[set[Any], set[Any]] = (set(), set())
        for key in sorted(keys, key=repr):
            fate = self.chance.choice(["same", "changed", "dropped", "added", "changed"])
            if fate != "added":
                source.append(self.row(key, taken[0]))
            if fate == "same" and not self.unique:
                target.append(list(source[-1]))
            elif fate != "dropped":
                target.append(self.row(key, taken[1]))
        if self.unique:
            for row in source:
                if self.chance.random() < 0.8:
                    self._exchange(source, row)
        return source, target

    def _exchange(self, rows: list[list[Any]], row: list[Any]) -> None:
        other, place = self.chance.choice(rows), len(self.key)
        if None not in (row[place], other[place]):
            row[place], other[place] = other[place], row[place]


def made(chance: random.Random, bench: Bench, number: int) -> Table:
    """Make the tables of one round."""
    table = Table(chance, bench.engine)
    bench.store = MemoryStore()
    bench.members = {"key": table.names[: len(table.key)]}
    if table.left_out:
        bench.members["columns"] = {"exclude": sorted(table.left_out)}
    bench.sql("DROP TABLE IF EXISTS t_source", "DROP TABLE IF EXISTS t_target")
    bench.tables(table.columns())
    source, target = table.sides()
    bench.fill("source", source)
    bench.fill("target", target)
    return table


def compared(bench: Bench, table: Table, side: str) -> list[tuple[Any, ...]]:
    """Return the rows of a side without the columns that are left out."""
    names = ", ".join(name for name in table.names if name not in table.left_out)
    return sorted(bench.rows(side, names), key=repr)


@pytest.fixture(params=[*patching.ENGINES, "postgresql at once"])
def bench(request, tmp_path, monkeypatch) -> Bench:
    """An empty database of each engine; of PostgreSQL also with the writes that large patches take."""
    engine, _, at_once = request.param.partition(" ")
    if at_once:
        monkeypatch.setattr(transaction, "BULK_ROWS_MIN", 1)
    if engine in ("sqlite", "duckdb"):
        return Bench(engine, patching.file_uri(engine, tmp_path))
    name = "postgresql_database" if engine == "postgresql" else "mariadb_database"
    return Bench(engine, request.getfixturevalue(name))


def rounds(bench: Bench) -> range:
    """Return the rounds: more where they are cheap."""
    return range(ROUNDS or {"sqlite": 25, "duckdb": 5}.get(bench.engine, 8))


@pytest.mark.slow
def test_a_patch_makes_random_tables_equal_and_a_rollback_undoes_it(bench):
    """Equal afterwards, nothing left to patch, and every column as it was, those that were left out too."""
    patch_and_take_back(bench, rounds(bench))


@pytest.mark.nightly
def test_a_thousand_random_tables_are_patched_and_taken_back(bench):
    """The same, long enough that rare meetings of constraints and damage occur."""
    patch_and_take_back(bench, range(ROUNDS or ROUNDS_NIGHTLY))


def patch_and_take_back(bench: Bench, numbers: range) -> None:
    """Patch, compare, patch again and roll back one random table after the other."""
    for number in numbers:
        chance = random.Random(f"{SEED} {bench.engine} {number}")
        table = made(chance, bench, number)
        before = sorted(bench.rows(), key=repr)
        manifest = bench.compare()
        outcome = bench.apply(manifest)
        where = (number, table.columns(), before, sorted(bench.rows("source"), key=repr), outcome.document())
        lossy = {row["reason"] for row in outcome.left}
        assert outcome.proved or lossy == {"DELTA_VALUE_LOSSY"}, where
        if outcome.proved:
            assert compared(bench, table, "target") == compared(bench, table, "source"), where
            again = bench.apply(bench.compare())
            assert sum(again.outcomes.values()) == 0 and again.proved, where
        back = bench.rollback(outcome.patch_id)
        assert back.proved and back.converged == manifest, where
        assert sorted(bench.rows(), key=repr) == before, where


@pytest.mark.slow
def test_no_write_of_somebody_else_is_ever_lost(bench):
    """Rows that change after the comparison or after the checkpoint keep that change, and each conflict is in the list.

    What was written to a column that is left out before the checkpoint goes with a row that is deleted: the restore
    body has it.
    """
    if bench.engine == "duckdb":
        pytest.skip("DuckDB's file has one writer")
    patch_beside_others(bench, rounds(bench))


@pytest.mark.nightly
def test_no_write_of_somebody_else_is_lost_in_a_thousand_tables(bench):
    """The same, long enough that rare meetings of a foreign write and a constraint occur."""
    if bench.engine == "duckdb":
        pytest.skip("DuckDB's file has one writer")
    patch_beside_others(bench, range(ROUNDS or ROUNDS_NIGHTLY))


def patch_beside_others(bench: Bench, numbers: range) -> None:
    """Patch one random table after the other, rows of which somebody else changes meanwhile."""
    for number in numbers:
        chance = random.Random(f"{SEED} foreign {bench.engine} {number}")
        table = made(chance, bench, number)
        manifest = bench.compare()
        wrote: dict[tuple[Any, ...], dict[int, Any] | None] = {}

        def foreign(table: Table = table, chance: random.Random = chance, wrote: Any = wrote) -> None:
            rows = {row[: len(table.key)]: row for row in bench.rows()}
            for key in sorted(rows, key=repr):
                if chance.random() < 0.4:
                    _write_as_somebody(bench, table, chance, key)
            now = {row[: len(table.key)]: row for row in bench.rows()}
            for key in rows:
                if key not in now:
                    wrote[key] = None
                elif now[key] != rows[key]:
                    changed = {at: now[key][at] for at in range(len(table.names)) if now[key][at] != rows[key][at]}
                    wrote[key] = {**(wrote.get(key) or {}), **changed}

        foreign()
        out = {place for place, name in enumerate(table.names) if name in table.left_out}
        for key, changed in list(wrote.items()):
            if changed is not None and not changed.keys() - out:
                del wrote[key]
        waiting = ["begin"]

        def step(name: str, waiting: list[str] = waiting, foreign: Any = foreign) -> None:
            if waiting and name == waiting[0]:
                waiting.clear()
                foreign()

        outcome = bench.apply(manifest, conflicts="skip", step=step)
        after = {row[: len(table.key)]: row for row in bench.rows()}
        listed = {tuple(row["key"]) for row in outcome.conflicts}
        for key, changed in wrote.items():
            row = after.get(key)
            kept = row is None if changed is None else row is not None and all(row[at] == changed[at] for at in changed)
            assert kept, (number, table.columns(), key, changed, row, outcome.document())
        assert outcome.outcomes["conflict"] == len(listed)
        reviewed = listed | {tuple(row["key"]) for row in (*outcome.left, *outcome.skipped)}
        wanted = {row[: len(table.key)]: row for row in bench.rows("source")}
        for key in (tuple(record["key"]) for record in bench.records(manifest)):
            here, there = (_compared_cells(table, rows, key) for rows in (after, wanted))
            assert here == there or key in reviewed, (number, table.columns(), key, outcome.document())


def _compared_cells(table: Table, rows: dict[tuple[Any, ...], tuple[Any, ...]], key: tuple[str, ...]) -> Any:
    """Return the compared cells of the row whose key has these canonical values, None where there is no row."""
    for found, row in rows.items():
        if tuple(str(part) for part in found) == key:
            return [cell for cell, name in zip(row, table.names, strict=True) if name not in table.left_out]
    return None


def _write_as_somebody(bench: Bench, table: Table, chance: random.Random, key: tuple[Any, ...]) -> None:
    mark = "%s" if bench.engine in ("postgresql", "mysql") else "?"
    where = " AND ".join(f"{name} = {mark}" for name in table.names[: len(table.key)])
    with bench.connection() as run:
        if chance.random() < 0.3:
            run(f"DELETE FROM t_target WHERE {where}", list(key))
            return
        place = chance.randrange(len(table.kinds))
        name = table.names[len(table.key) + place]
        value = table.value(table.kinds[place], required=True)
        if name == table.unique:
            held = {row[0] for row in run(f"SELECT {name} FROM t_target")}
            value = next(number for number in range(100) if number not in held)
        run(f"UPDATE t_target SET {name} = {mark} WHERE {where}", [value, *key])
