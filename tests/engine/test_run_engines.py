"""The same rows in different engines: the same records, and where labels and types agree the same digest."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import engine_tables
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.errors import KeyDuplicateError, SideChangedError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

CODES = ["", "a", "A", "Z", "b", "é", "\U0001f600", "\uffff", "a b", "a'b", 'a"b']
SOURCE = [
    (number, CODES[number % 11], number / 8 - 1, None if number % 5 == 0 else f"text {number}", bytes([number % 256]))
    for number in range(-20, 40)
    if number >= 0 or number % 3
]
TARGET = [
    (number, code, f + 1 if number % 7 == 0 else f, "" if number % 10 == 0 else t, b if number % 9 else b + b"\x00")
    for number, code, f, t, b in SOURCE
    if number % 11 != 3
] + [(10**12, "new", float("inf"), "\U0001f600", b""), (-(2**63), "new", float("-inf"), "", None)]


def compared(source: dict[str, str], target: dict[str, str], **members: Any) -> tuple[str, bytes]:
    """Return the manifest id and the body."""
    form = {
        "name": "same",
        "source": {**source, "label": "s"},
        "target": {**target, "label": "t"},
        "key": ["id", "code"],
        **members,
    }
    for kind in ("csv", "jsonl"):
        if kind in (Path(side.get("path", "")).suffix[1:] for side in (source, target)):
            form[kind] = {"types": engine_tables.CSV_TYPES}
    shards = form.pop("shards_asked", None)
    workers = form.pop("workers", 1)
    store = MemoryStore()
    outcome = reconcile(parse_spec(form), store, open_side, shards=shards, workers=workers)
    return outcome.receipt.manifest, blobs.get_blob(store, outcome.manifest["body"]["sha256"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, str]]:
    """Both tables in every local engine; rows in an order of their own in each."""
    folder = tmp_path_factory.mktemp("engines")
    sides = {}
    for engine in engine_tables.LOCAL:
        for name, rows in (("source", SOURCE), ("target", TARGET)):
            mixed = random.Random(engine + name).sample(rows, len(rows))
            sides[engine, name] = engine_tables.write(engine, folder, name, mixed)
    return sides


@pytest.fixture(scope="module")
def reference(written: dict[tuple[str, str], dict[str, str]]) -> tuple[str, bytes]:
    """Parquet against Parquet."""
    found = compared(written["parquet", "source"], written["parquet", "target"])
    assert found[1].count(b"\n") == 23
    return found


@pytest.mark.parametrize(("source", "target"), list(itertools.product(engine_tables.LOCAL, repeat=2)))
def test_the_records_are_the_same_in_any_combination_of_engines(source, target, written, reference):
    """What differs does not depend on who stores it."""
    manifest, body = compared(written[source, "source"], written[target, "target"])
    assert body == reference[1]
    if {source, target} <= {"sqlite", "duckdb", "parquet"}:
        assert manifest == reference[0]


@pytest.mark.parametrize("engine", engine_tables.LOCAL)
@pytest.mark.parametrize("shards", [2, 7, 64])
def test_the_digest_is_the_same_for_any_number_of_shards(engine, shards, written):
    """Ranges are pushed into each engine's own language; none may lose a row there."""
    sides = written[engine, "source"], written[engine, "target"]
    assert compared(*sides, shards_asked=shards) == compared(*sides)


def test_two_workers_find_the_same(written, reference, monkeypatch):
    """Processes that open the sides anew."""
    monkeypatch.setattr("airflow_delta_provider.engine.run.WORKER_ROWS_MIN", 10)
    sides = written["sqlite", "source"], written["duckdb", "target"]
    assert compared(*sides, shards_asked=4, workers=2) == reference


def test_a_filter_and_a_key_range_mean_the_same_everywhere(written):
    """In SQL where there is SQL, over Arrow where there are files."""
    members = {"filter": "t <> '' AND f > 0.5", "key_range": {"from": [-5, "a"], "to": [30, "b"]}, "shards_asked": 3}
    found = {
        compared(written[engine, "source"], written[engine, "target"], **members)
        for engine in ("sqlite", "duckdb", "parquet")
    }
    assert len(found) == 1
    bodies = {compared(written[one, "source"], written[one, "target"], **members)[1] for one in ("csv", "jsonl")}
    assert bodies == {next(iter(found))[1]}


def test_postgresql_finds_the_same_as_every_other(written, reference, postgresql_database):
    """Against itself and against each other engine, in both directions."""
    sides = {
        name: engine_tables.postgresql(postgresql_database, name, rows)
        for name, rows in (("source", SOURCE), ("target", TARGET))
    }
    assert compared(sides["source"], sides["target"]) == reference
    assert compared(sides["source"], sides["target"], shards_asked=7) == reference
    for engine in engine_tables.LOCAL:
        for pair in ((sides["source"], written[engine, "target"]), (written[engine, "source"], sides["target"])):
            manifest, body = compared(*pair)
            assert body == reference[1]
            assert engine in ("csv", "jsonl") or manifest == reference[0]


ROW = st.tuples(
    st.integers(-300, 300) | st.sampled_from([-(2**63), 2**63 - 1]),
    st.sampled_from(CODES),
    st.none() | st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 0.1, 5e-324]),
    st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r\n"), max_size=4),
    st.none() | st.binary(max_size=3),
)
TABLES = st.lists(ROW, max_size=25, unique_by=lambda row: row[:2])


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(TABLES, TABLES, st.randoms(), st.sampled_from([1, 2, 7]))
def test_random_tables_give_one_digest_in_every_database(tmp_path_factory, source, target, chance, shards):
    """Whatever the rows are; half of the target is the source's."""
    target = list({row[:2]: row for row in [*target, *source[::2]]}.values())
    folder = tmp_path_factory.mktemp("random")
    found = set()
    for engine in ("sqlite", "duckdb", "parquet", "csv", "jsonl"):
        for rows in (source, target):
            chance.shuffle(rows)
        sides = [engine_tables.write(engine, folder, name, rows) for name, rows in (("s", source), ("t", target))]
        if engine in ("csv", "jsonl"):
            assert compared(*sides, shards_asked=shards)[1] == next(iter(found))[1]
        else:
            found.add(compared(*sides, shards_asked=shards))
    assert len(found) == 1


def test_a_refusal_in_a_worker_is_the_refusal_of_the_run(tmp_path, monkeypatch):
    """Its class, its message and its place come through the process; the store stays empty."""
    monkeypatch.setattr("airflow_delta_provider.engine.run.WORKER_ROWS_MIN", 10)
    sides = {
        name: {**engine_tables.write(engine, tmp_path, name, [*SOURCE, SOURCE[5]]), "label": name}
        for engine, name in (("sqlite", "source"), ("parquet", "target"))
    }
    form = {"name": "same", **sides, "key": ["id", "code"]}
    store = MemoryStore()
    with pytest.raises(KeyDuplicateError) as caught:
        reconcile(parse_spec(form), store, open_side, shards=4, workers=2)
    code = CODES[SOURCE[5][0] % 11]
    key = f"({SOURCE[5][0]}, {code})"
    assert caught.value.message == f"source: key {key} occurs in 2 rows; target: key {key} occurs in 2 rows."
    assert list(store.list()) == []


def test_a_worker_that_finds_other_columns_than_were_planned_refuses(written, monkeypatch):
    """A migration that runs meanwhile: its verdict would be about two schemas."""
    from airflow_delta_provider.engine import run

    form = {
        "name": "same",
        "source": written["sqlite", "source"],
        "target": written["sqlite", "target"],
        "key": ["id", "code"],
    }
    job = run.Job(form, "0" * 64, Path(), None, {}, None)
    monkeypatch.setattr(run, "_WORKER", {"job": job, "open_side": open_side})
    with pytest.raises(SideChangedError, match=r"\[DELTA_SIDE_CHANGED\] the columns of a side changed"):
        run._run_in_worker(0, KeyRange())
