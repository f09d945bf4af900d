"""A value that a text file's reader refuses fails its own row of a sweep, and nothing else."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sweep_oracle import stored_lines

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Request, SideSpec
from airflow_delta_provider.core.errors import SideColumnTypeError, ValueTextError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.types import REFUSED_COLUMN
from airflow_delta_provider.engine.sweep import SweepOutcome, sweep

CSV_TYPES = {"csv": {"types": {"id": "int", "a": "int", "d": "date"}}}
JSON_TYPES = {"jsonl": {"types": {"id": "int", "a": "int", "d": "date"}}}
Row = tuple[Any, Any, Any]
GOOD: list[Row] = [(1, "5", "2024-01-01"), (2, "6", "2024-01-02"), (3, "7", "2024-01-03")]


def write(path: Path, rows: list[Row]) -> Path:
    """Write rows of (id, a, d) as the file's name says."""
    if path.suffix == ".csv":
        path.write_text("id,a,d\n" + "".join(f"{key},{a},{d}\n" for key, a, d in rows))
    else:
        path.write_text("".join(json.dumps({"id": key, "a": a, "d": d}) + "\n" for key, a, d in rows))
    return path


def form_of(path: Path, **members: Any) -> dict[str, Any]:
    types = CSV_TYPES if path.suffix == ".csv" else JSON_TYPES
    return {"name": "file", "key": ["id"], "target": {"path": str(path), "label": "file"}, **types, **members}


def run(store: MemoryStore, path: Path, shards: int = 1, **members: Any) -> SweepOutcome:
    return sweep(parse_spec(form_of(path, **members), sweep=True), store, open_side, shards=shards)


def counts(outcome: SweepOutcome) -> dict[str, int]:
    return {name: number for name, number in outcome.generation["sweep"].items() if number}


@pytest.fixture(params=["t.csv", "t.jsonl"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_text_of_another_type_fails_its_row_alone(path, shards):
    """The other rows keep their verdict, and the row its place in the denominator and its head in the history."""
    store = MemoryStore()
    assert counts(run(store, write(path, GOOD))) == {"new": 3, "read": 3}
    rows = [GOOD[0], (2, "six", "2024-01-02"), (3, "8", "2024-01-03"), (4, "9", "no day"), (5, "x", "y")]
    found = run(store, write(path, rows), shards)
    assert counts(found) == {"changed": 1, "failed": 3, "read": 5, "unchanged": 1}
    assert found.manifest["sweep"]["failed"] == 3
    entries = {line["key"][0]: line for line in stored_lines(store, found.receipt.pair_id, found.receipt.generation)}
    assert [(entries[key]["disposition"], entries[key]["reason"]) for key in ("2", "4")] == [
        ("failed", "DELTA_VALUE_TEXT"),
        ("failed", "DELTA_VALUE_TEXT"),
    ]
    assert (entries["2"]["head"]["version"], entries["4"]["head"]) == (
        1,
        {"previous": None, "row_digest": None, "version": 0},
    )
    mended = [*GOOD[:2], (3, "8", "2024-01-03"), (4, "9", "2024-01-04"), (5, "1", "2024-01-05")]
    assert counts(run(store, write(path, mended))) == {"new": 2, "read": 5, "unchanged": 3}


def test_the_manifest_is_the_same_for_every_shard_plan(path):
    """A refused row is in one shard, whichever that is."""
    rows = [(number, "x" if number % 7 == 3 else str(number), "2024-01-01") for number in range(200)]
    write(path, rows)
    found = [run(MemoryStore(), path, shards) for shards in (1, 3)]
    assert found[0].receipt == found[1].receipt
    assert counts(found[0]) == {"failed": 29, "new": 171, "read": 200}


def test_a_key_that_is_refused_ends_the_sweep(path):
    """A row without a key has no place in a history."""
    with pytest.raises(ValueTextError, match=r'column id: "x" is no int'):
        run(MemoryStore(), write(path, [("x", "5", "2024-01-01"), *GOOD]))


def test_a_column_that_the_filter_needs_ends_the_sweep(path):
    """Nobody knows whether the filter would have kept the row."""
    rows = [*GOOD, (4, "x", "2024-01-01")]
    with pytest.raises(ValueTextError, match=r'column a: "x" is no int'):
        run(MemoryStore(), write(path, rows), filter="a > 5")
    rows = [*GOOD, (4, "9", "no day")]
    assert counts(run(MemoryStore(), write(path, rows), filter="a > 5")) == {
        "failed": 1,
        "new": 2,
        "read": 4,
        "skipped": 1,
    }


def test_a_row_that_the_filter_leaves_out_is_skipped_whatever_it_holds(path):
    """What is not looked at cannot fail."""
    rows = [*GOOD, (4, "1", "no day")]
    assert counts(run(MemoryStore(), write(path, rows), filter="a > 5")) == {"new": 2, "read": 4, "skipped": 2}


def test_who_does_not_ask_for_refusals_gets_an_error(path):
    """A comparison of two sides has no place for a row without a value."""
    types = form_of(path)
    options = {name: types[name] for name in ("csv", "jsonl") if name in types}
    side = open_side(SideSpec(path=str(write(path, [*GOOD, (4, "x", "2024-01-01")])), options=options))
    with pytest.raises(ValueTextError, match=r'column a: "x" is no int'):
        list(side.read(Request(columns=("id", "a"))))
    batches = list(side.read(Request(columns=("id", "a"), refusable=("a",))))
    assert [row[REFUSED_COLUMN] for batch in batches for row in batch.to_pylist()] == [
        None,
        None,
        None,
        "DELTA_VALUE_TEXT",
    ]
    assert batches[0].column("a").null_count == 1


def test_a_column_without_a_type_is_refused_under_the_only_side(tmp_path):
    """A sweep has no source, so no refusal speaks of one."""
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.executescript(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER); INSERT INTO t VALUES (1, 5), (2, 'x')"
    )
    connection.close()
    side = {"uri": f"sqlite:///{tmp_path}/t.db", "table": "t", "label": "t"}
    with pytest.raises(SideColumnTypeError, match="target: column 'a' has type integer and text"):
        sweep(parse_spec({"name": "t", "key": ["id"], "target": side}, sweep=True), MemoryStore(), open_side)
