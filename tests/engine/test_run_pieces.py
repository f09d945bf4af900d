"""How many pieces and processes a local run takes where nobody says so: as many as are of use, and never another manifest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine_tables
import pytest

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine import run
from airflow_delta_provider.engine.opened import open_sides
from airflow_delta_provider.engine.planning import worth_workers

ROWS = [(number, "c", number / 4, f"t{number}", b"\x01") for number in range(60)]


@pytest.fixture
def make(tmp_path):
    """What makes a specification of tables of 60 rows, whose shards have ten rows unless it says otherwise."""

    def made(source: str = "parquet", target: str = "parquet", **members: Any) -> Spec:
        sides = {"source": side(source, "source", ROWS), "target": side(target, "target", [*ROWS[:-2], *ROWS[-1:]])}
        return replace(parse_spec({"name": "pair", "key": ["id"], **sides, **members}), shard_rows=10)

    def side(engine: str, name: str, rows: list[Any]) -> dict[str, str]:
        engine_tables.write(engine, Path(tmp_path), name, rows)
        if engine == "parquet":
            return {"path": f"{tmp_path}/{name}.parquet", "label": name}
        with closing(sqlite3.connect(f"{tmp_path}/{name}.db")) as database:  # which then knows how many rows it has
            database.execute("CREATE UNIQUE INDEX by_id ON t (id)")
            database.execute("ANALYZE")
        return {"uri": f"sqlite:///{tmp_path}/{name}.db", "table": "t", "label": name}

    return made


def pieces(spec: Spec, **options: Any) -> tuple[int, str]:
    """Return how many shards a run had, and its manifest."""
    outcome = run.reconcile(spec, MemoryStore(), open_side, **options)
    return len(outcome.sidecar["shards"]), outcome.receipt.manifest


def test_one_process_takes_parquet_files_in_one_piece(make):
    """A bound inside of a row group makes both of its shards decode it."""
    whole = pieces(make())
    assert whole[0] == 1
    assert pieces(make(), shards=6) == (6, whole[1])
    assert pieces(make(shards={"rows": 10})) == (6, whole[1])


@pytest.mark.parametrize("engines", [("sqlite", "parquet"), ("parquet", "sqlite"), ("sqlite", "sqlite")])
def test_where_a_side_is_no_file_of_row_groups_shards_stay(make, engines):
    """They bound what is lost by a cut connection, and cost nothing there."""
    assert pieces(make(*engines))[0] == 6


def test_shards_whose_results_may_be_kept_stay(make):
    """What one piece holds is compared anew as soon as one of its files is another one."""
    assert pieces(make(resume="proved"))[0] == 6


def test_several_workers_get_shards(make, monkeypatch):
    """One piece is no work for two."""
    monkeypatch.setattr(run, "WORKER_ROWS_MIN", 10)
    assert pieces(make(), workers=2) == (6, pieces(make())[1])


@pytest.mark.parametrize(
    ("engines", "expected"), [(("parquet", "parquet"), [1, 1, 1, 2, 4]), (("sqlite", "parquet"), [1, 2, 3, 4, 8])]
)
def test_so_many_workers_are_worth_their_start(make, engines, expected):
    """One process decodes two Parquet files in threads of its own: a second one would only take turns with it."""
    with open_sides(make(*engines), open_side) as opened:
        assert [worth_workers(opened, cores) for cores in (1, 2, 3, 4, 8)] == expected


def test_none_means_as_many_workers_as_are_worth_it(make, monkeypatch):
    """The command line says nothing where nobody asked."""
    monkeypatch.setattr(run.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(run, "WORKER_ROWS_MIN", 10)
    assert pieces(make(), workers=None) == (1, pieces(make())[1])
    sidecar = run.reconcile(make("sqlite", "sqlite"), MemoryStore(), open_side, workers=None).sidecar
    assert (len(sidecar["shards"]), sidecar["workers"]) == (6, 2)
