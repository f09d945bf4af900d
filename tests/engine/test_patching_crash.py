"""kill -9 between any two statements of a patch or a rollback, then resume: same rows, same ledger bytes.

The sweep of every point is nightly; ``DELTA_CRASH_STEP`` thins it. It covers one transaction, the writes that large
patches of PostgreSQL take at once, and batches that are committed one by one.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import patching
import pytest
from patching import Bench

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.core import log
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine.patching import transaction

ENGINES = (
    "sqlite",
    "postgresql",
    "postgresql at once",
    "mysql",
    "sqlite batches",
    "postgresql batches",
    "mysql batches",
)
POINTS_MAX = 900
SWEEP_STEP = int(os.environ.get("DELTA_CRASH_STEP") or 1)
BATCHES = {"conflicts": "skip", "batch_rows": 1}
SHORT_POINTS = {"sqlite": 5, "postgresql": 9, "mysql": 9}
"""Points from one to the next in the ordinary form; batches have several times as many points, and take longer steps."""
TICKED = ("begin", "commit", "rollback", "check_constraints", "execute", "_run", "fetched", "facts")
"""Methods of a writer before and after which a process is killed on SQLite: every statement runs in one of them."""
SOURCE = [(1, "s1", 2), (2, "s2", 1), (3, "s3", 3), (6, "s6", 6)]
BEFORE = [(1, "t1", 1, "n1"), (2, "t2", 2, "n2"), (4, "t4", 4, "n4"), (6, "t6", 6, "n6")]


@pytest.fixture(params=ENGINES)
def bench(request, tmp_path, monkeypatch) -> Bench:
    """Two tables that differ in every way, a unique value exchanged and one column left out.

    Rows that are written at once or in batches have no unique values to exchange.
    """
    engine, _, way = request.param.partition(" ")
    if way == "at once":
        monkeypatch.setattr(transaction, "BULK_ROWS_MIN", 1)
    uri = patching.file_uri(engine, tmp_path) if engine == "sqlite" else ""
    if not uri:
        uri = request.getfixturevalue("postgresql_database" if engine == "postgresql" else "mariadb_database")
    made = Bench(engine, uri, LocalStore(tmp_path / "first"), columns={"exclude": ["note"]})
    made.asked = BATCHES if way == "batches" else {}
    unique = "" if way else " UNIQUE"
    made.tables(f"id INTEGER PRIMARY KEY, v VARCHAR(9), pos INTEGER{unique}, note VARCHAR(9)")
    made.fill("source", [(*row, "") for row in SOURCE])
    made.fill("target", BEFORE)
    return made


def staged(bench: Bench, rows: list[Any], base: Path, folder: Path) -> None:
    """Begin again: these rows in the target, and a copy of a store."""
    bench.sql("DELETE FROM t_target")
    bench.fill("target", rows)
    shutil.copytree(base, folder)
    bench.store = LocalStore(folder)


def ticking(tick: Callable[[], None]) -> Callable[[Writer], Writer]:
    """Return what makes a writer tick around its statements: those of servers in the driver, so that none is missed."""

    def wrap(writer: Writer) -> Writer:
        if writer.kind == "sqlite":
            for name in TICKED:
                plain = getattr(writer, name, None)
                if plain is not None:
                    setattr(writer, name, _ticked(plain, tick))
            return writer
        connect = writer._connect
        writer._connect = lambda: _ticking_connection(connect(), tick)
        return writer

    return wrap


def _ticking_connection(connection: Any, tick: Callable[[], None]) -> Any:
    """Make a driver's connection tick before every statement and copy, and around commit and rollback."""
    for name in ("commit", "rollback"):
        setattr(connection, name, _ticked(getattr(connection, name), tick))
    if hasattr(connection, "query"):
        connection.query = _preceded(connection.query, tick)
    plain = getattr(connection, "cursor_factory", None)
    if plain is not None:

        class Ticking(plain):  # type: ignore[misc, valid-type]
            def execute(self, *arguments: Any, **named: Any) -> Any:
                return _preceded(super().execute, tick)(*arguments, **named)

            def copy(self, *arguments: Any, **named: Any) -> Any:
                return _preceded(super().copy, tick)(*arguments, **named)

        connection.cursor_factory = Ticking
    return connection


def _preceded(plain: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        tick()
        return plain(*arguments, **named)

    return call


def _ticked(plain: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        tick()
        found = plain(*arguments, **named)
        tick()
        return found

    return call


def run_until(act: Callable[[Bench, Callable[[str], None]], object], bench: Bench, ticks: int) -> bool:
    """Run in a child that dies at the n-th tick; tell whether it died."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            count = faults.Countdown(ticks, lambda: os.kill(os.getpid(), signal.SIGKILL))
            store = bench.store
            bench.store = faults.FaultyStore(store, count.tick) if bench.engine == "sqlite" else store
            bench.wrap = ticking(count.tick)
            act(bench, lambda step: count.tick())
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


@pytest.mark.slow
def test_a_patch_killed_anywhere_ends_in_the_same_rows_and_ledger(bench, tmp_path):
    """A clean run is the measure; before the resume the table is as it was, or wholly patched."""
    kill_patches(bench, tmp_path, short(bench))


@pytest.mark.nightly
def test_a_patch_killed_between_any_two_statements_ends_in_the_same_rows_and_ledger(bench, tmp_path):
    """Every single point, so that no gap between two statements is left out."""
    kill_patches(bench, tmp_path, SWEEP_STEP)


def short(bench: Bench) -> int:
    """Return the points from one kill to the next in the ordinary form."""
    return SHORT_POINTS[bench.engine] * (4 if bench.asked else 1)


def way_of(steps: list[str]) -> str:
    """Return how rows were written, by the steps that were told."""
    return "at once" if "at once" in steps else "batches" if steps.count("commit") > 1 else ""


def way_asked(bench: Bench) -> str:
    """Return how rows are to be written."""
    if bench.asked:
        return "batches"
    return "at once" if bench.engine == "postgresql" and transaction.BULK_ROWS_MIN == 1 else ""


def kill_patches(bench: Bench, tmp_path: Path, step: int) -> None:
    """Kill a patch at every ``step``-th point and apply it again."""
    manifest = bench.compare()
    staged(bench, BEFORE, tmp_path / "first", tmp_path / "clean")
    steps: list[str] = []
    clean = bench.apply(manifest, step=steps.append)
    assert way_of(steps) == way_asked(bench)
    after = bench.rows()
    ticks, died = 0, True
    while died:
        ticks += step
        assert ticks < POINTS_MAX
        staged(bench, BEFORE, tmp_path / "first", tmp_path / f"apply{ticks}")
        died = run_until(lambda one, step: one.apply(manifest, step=step), bench, ticks)
        now = bench.rows()
        assert now in (BEFORE, after) or (bench.asked and between(now, BEFORE, after)), (ticks, now)
        resumed = bench.apply(manifest)
        assert (resumed.ledger, resumed.checkpoint) == (clean.ledger, clean.checkpoint), ticks
        assert bench.rows() == after and resumed.proved, ticks
    settled(bench, manifest, 1, f"a patch was killed at every {step}. of {ticks} points")


def settled(bench: Bench, manifest: str, ledgers: int, told: str) -> None:
    """Say what was done, and check that the log of the last try is whole."""
    print(f"{bench.engine} {way_asked(bench)}: {told}")
    entries = log.read_log(bench.store, log.pair_id_of("bench", "bench:source", "bench:target"))
    assert [entry.kind for entry in entries].count("ledger") == ledgers
    assert verify_published(bench.store, manifest)[0].findings == []


@pytest.mark.slow
def test_a_rollback_killed_anywhere_ends_in_the_old_rows(bench, tmp_path):
    """The way back is as safe as the way there."""
    kill_rollbacks(bench, tmp_path, short(bench) + 2)


@pytest.mark.nightly
def test_a_rollback_killed_between_any_two_statements_ends_in_the_old_rows(bench, tmp_path):
    """Every single point of the way back."""
    kill_rollbacks(bench, tmp_path, SWEEP_STEP)


def kill_rollbacks(bench: Bench, tmp_path: Path, step: int) -> None:
    """Kill a rollback at every ``step``-th point and start it again."""
    manifest = bench.compare()
    patch = bench.apply(manifest).patch_id
    after = bench.rows()
    staged(bench, after, tmp_path / "first", tmp_path / "clean")
    steps: list[str] = []
    clean = bench.rollback(patch, step=steps.append)
    assert way_of(steps) == way_asked(bench) and bench.rows() == BEFORE
    ticks, died = 0, True
    while died:
        ticks += step
        assert ticks < POINTS_MAX
        staged(bench, after, tmp_path / "first", tmp_path / f"back{ticks}")
        died = run_until(lambda one, step: one.rollback(patch, step=step), bench, ticks)
        now = bench.rows()
        assert now in (BEFORE, after) or (bench.asked and between(now, after, BEFORE)), (ticks, now)
        resumed = bench.rollback(patch)
        assert (resumed.ledger, resumed.checkpoint) == (clean.ledger, clean.checkpoint), ticks
        assert bench.rows() == BEFORE and resumed.converged == manifest, ticks
    settled(bench, manifest, 2, f"a rollback was killed at every {step}. of {ticks} points")


def between(rows: list[Any], before: list[Any], after: list[Any]) -> bool:
    """Tell whether every row is whole: as it was before, or as it is after."""
    keys = {row[0] for row in (*before, *after)}
    old, new, now = ({row[0]: row for row in part} for part in (before, after, rows))
    return now.keys() <= keys and all(now.get(key) in (old.get(key), new.get(key)) for key in keys)
