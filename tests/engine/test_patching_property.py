"""Random tables, keys, constraints and damage: a patch makes the sides equal, and a rollback brings everything back.

``DELTA_EXAMPLES`` sets the number of rounds of each test, ``DELTA_FIRST`` the first of them, ``DELTA_SEED`` the seed. The
default is short; the nightly form spreads 1,000 rounds over the engines. Every failure names seed, engine and round.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import patching
import pytest
from patching import Bench
from random_tables import Table, write_as_somebody

from airflow_delta_provider.core.errors import PatchWriteError
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.patching import PatchOutcome, transaction

ROUNDS = int(os.environ.get("DELTA_EXAMPLES") or 0)
FIRST = int(os.environ.get("DELTA_FIRST") or 0)
SEED = int(os.environ.get("DELTA_SEED") or 7)
ROUNDS_SHORT = {"sqlite": 25, "duckdb": 5, "postgresql": 8, "mysql": 8}
ROUNDS_NIGHTLY = {"sqlite": 334, "duckdb": 100, "postgresql": 333, "mysql": 333}
"""1,000 rounds over three engines; DuckDB, and PostgreSQL's rows that are written at once, come on top."""
UNLOCKED = ("begin", "pause", "committed")
"""Steps at which a patch holds no lock, so that anybody may write anything."""
LOCKED = ("delete", "update", "insert", "verify", "commit")
"""Steps at which PostgreSQL lets others write to rows that the patch does not touch."""


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


def made(chance: random.Random, bench: Bench) -> Table:
    """Make the tables of one round."""
    table = Table(chance, bench.engine)
    bench.store = MemoryStore()
    bench.members = {"key": table.names[: len(table.key)]}
    if table.left_out:
        bench.members["columns"] = {"exclude": sorted(table.left_out)}
    table.create(bench)
    for side, rows in zip(("source", "target"), table.sides(), strict=True):
        table.fill(bench, side, rows)
    return table


def compared(bench: Bench, table: Table, side: str) -> list[tuple[Any, ...]]:
    """Return the rows of a side without the columns that are left out."""
    names = ", ".join(name for name in table.names if name not in table.left_out)
    return sorted(bench.rows(side, names), key=repr)


def rounds(bench: Bench, spread: dict[str, int]) -> range:
    """Return the rounds of a test, and say which they are."""
    found = range(FIRST, FIRST + (ROUNDS or spread[bench.engine]))
    print(f"seed {SEED}, {bench.engine}, rounds {found.start} to {found.stop - 1}")
    return found


@pytest.mark.slow
def test_a_patch_makes_random_tables_equal_and_a_rollback_undoes_it(bench):
    """Equal afterwards, nothing left to patch, and every column as it was, those that were left out too."""
    patch_and_take_back(bench, rounds(bench, ROUNDS_SHORT))


@pytest.mark.nightly
def test_a_thousand_random_tables_are_patched_and_taken_back(bench):
    """The same, long enough that rare meetings of constraints and damage occur."""
    patch_and_take_back(bench, rounds(bench, ROUNDS_NIGHTLY))


def patch_and_take_back(bench: Bench, numbers: range) -> None:
    """Patch, compare, patch again and roll back one random table after the other."""
    for number in numbers:
        table = made(random.Random(f"{SEED} {bench.engine} {number}"), bench)
        before = sorted(bench.rows(), key=repr)
        told = (SEED, bench.engine, number, table.columns("target"), before, sorted(bench.rows("source"), key=repr))
        try:
            patch_once_and_take_back(bench, table, before)
        except Exception as error:
            raise AssertionError(f"{told}: {error}") from error


def patch_once_and_take_back(bench: Bench, table: Table, before: Sequence[Any]) -> None:
    """Patch, compare, patch again, roll back, and look at every value."""
    manifest = bench.compare()
    outcome = bench.apply(manifest)
    assert outcome.proved, outcome.document()
    assert compared(bench, table, "target") == compared(bench, table, "source"), outcome.document()
    again = bench.apply(bench.compare())
    assert sum(again.outcomes.values()) == 0 and again.proved, again.document()
    back = bench.rollback(outcome.patch_id)
    assert back.proved and back.converged == manifest, back.document()
    assert sorted(bench.rows(), key=repr) == before, back.document()


@pytest.mark.slow
def test_no_write_of_somebody_else_is_ever_lost(bench):
    """Rows that change after the comparison or after the checkpoint keep that change, and each conflict is in the list.

    What was written to a column that is left out before the checkpoint goes with a row that is deleted: the restore
    body has it.
    """
    if bench.engine == "duckdb":
        pytest.skip("DuckDB's file has one writer")
    patch_beside_others(bench, rounds(bench, ROUNDS_SHORT))


@pytest.mark.nightly
def test_no_write_of_somebody_else_is_lost_in_a_thousand_tables(bench):
    """The same, long enough that rare meetings of a foreign write and a constraint occur."""
    if bench.engine == "duckdb":
        pytest.skip("DuckDB's file has one writer")
    patch_beside_others(bench, rounds(bench, ROUNDS_NIGHTLY))


class Others:
    """What other users write to the target meanwhile: by key, the places and values of a row, or None for deleted."""

    def __init__(self, bench: Bench, table: Table) -> None:
        self._bench = bench
        self._table = table
        self._left = {place for place, name in enumerate(table.names) if name in table.left_out}
        self.wrote: dict[tuple[Any, ...], dict[int, Any] | None] = {}

    def rows(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Return the target's rows by key as read."""
        return {row[: len(self._table.key)]: row for row in self._bench.rows()}

    def write(self) -> None:
        """Write to some rows, and note what came of it."""
        before = self.rows()
        for key in sorted(before, key=repr):
            if self._table.chance.random() < 0.4:
                write_as_somebody(self._bench, self._table, key)
        now = self.rows()
        for key, row in before.items():
            if key not in now:
                self.wrote[key] = None
            elif now[key] != row:
                changed = {place: cell for place, cell in enumerate(now[key]) if cell != row[place]}
                self.wrote[key] = {**(self.wrote.get(key) or {}), **changed}

    def forget_left_out(self) -> None:
        """Forget rows of which only columns that are left out were written: they go with a row that is deleted."""
        self.wrote = {
            key: changed for key, changed in self.wrote.items() if changed is None or changed.keys() - self._left
        }

    def lost(self) -> list[Any]:
        """Return what was written and is not there."""
        now = self.rows()
        return [
            (key, changed, now.get(key))
            for key, changed in self.wrote.items()
            if (key in now if changed is None else key not in now or any(now[key][at] != changed[at] for at in changed))
        ]


def patch_beside_others(bench: Bench, numbers: range) -> None:
    """Patch one random table after the other, rows of which somebody else changes meanwhile."""
    for number in numbers:
        table = made(random.Random(f"{SEED} foreign {bench.engine} {number}"), bench)
        told = (SEED, "foreign", bench.engine, number, table.columns("target"))
        try:
            patch_once_beside_others(bench, table)
        except Exception as error:
            raise AssertionError(f"{told}: {error}") from error


def patch_once_beside_others(bench: Bench, table: Table) -> None:
    """Patch a table while others write, look for what they wrote and for the list, and take it back as carefully."""
    manifest = bench.compare()
    others = Others(bench, table)
    others.write()
    others.forget_left_out()
    waiting = [table.chance.choice((*UNLOCKED, *(LOCKED if bench.engine == "postgresql" else ())))]
    batch_rows = table.chance.choice([None, None, 1, 3])

    def step(name: str) -> None:
        if waiting and name == waiting[0]:
            waiting.clear()
            others.write()

    try:
        outcome = bench.apply(manifest, conflicts="skip", batch_rows=batch_rows, step=step)
    except PatchWriteError:
        assert table.parent, "only a row that refers to one that somebody deleted refuses a patch as a whole"
        assert others.lost() == []
        return
    assert others.lost() == [], outcome.document()
    reviewed = reviewed_keys(outcome)
    alike = set()
    after = {table.canonical_key(row): row for row in bench.rows()}
    wanted = {table.canonical_key(row): row for row in bench.rows("source")}
    for record in bench.records(manifest):
        key = tuple(record["key"])
        if compared_cells(table, after.get(key)) == compared_cells(table, wanted.get(key)):
            alike.add(key)
        else:
            assert key in reviewed, (key, outcome.document())
    others.forget_left_out()
    others.wrote = {key: changed for key, changed in others.wrote.items() if table.canonical_key(key) not in alike}
    try:
        bench.rollback(outcome.patch_id, conflicts="skip", batch_rows=batch_rows)
    except PatchWriteError:
        assert table.parent
    assert others.lost() == [], "after the rollback"


def reviewed_keys(outcome: PatchOutcome) -> set[tuple[str, ...]]:
    """Return the keys of every row that a person is told of."""
    listed = {tuple(row["key"]) for row in outcome.conflicts}
    assert outcome.outcomes["conflict"] == len(listed)
    return listed | {tuple(row["key"]) for row in (*outcome.left, *outcome.skipped)}


def compared_cells(table: Table, row: tuple[Any, ...] | None) -> list[Any] | None:
    """Return the compared cells of a row, None where there is none."""
    if row is None:
        return None
    return [cell for cell, name in zip(row, table.names, strict=True) if name not in table.left_out]
