"""Later looks at live tables: what settles is no discrepancy, what stays is, and the sums hold either way."""

import sqlite3

import pytest

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine import recheck, run


def table(path, rows):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b REAL)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    return path


def spec_of(source, target, **members):
    return parse_spec(
        {
            "name": "live",
            "source": {"uri": f"sqlite:///{source}", "table": "t", "label": "s"},
            "target": {"uri": f"sqlite:///{target}", "table": "t", "label": "t"},
            "key": ["id"],
            "rules": {"b": [{"tolerance": {"abs": "0.5"}}]},
            **members,
        }
    )


@pytest.fixture
def live(tmp_path, monkeypatch):
    """Four rows on the source; on the target one is late, one lost, one new, one wrong. A sleep lets time pass."""
    rows = [(number, number, 1.0) for number in range(1, 5)]
    source = table(tmp_path / "s.db", rows)
    target = table(tmp_path / "t.db", [(1, 9, 1.2), (2, 2, 1.2), (4, 44, 1.0), (5, 5, 1.0)])
    writes = []

    def sleep(seconds):
        if writes:
            with sqlite3.connect(target) as connection:
                connection.execute(writes.pop(0))

    monkeypatch.setattr(recheck.compare_settled, "__kwdefaults__", {"progress": None, "sleep": sleep})
    return source, target, writes


def test_a_row_that_arrives_late_is_in_flight_and_not_recorded(live):
    """A comparison of live tables accuses rows that are merely on their way; a second look does not."""
    source, target, writes = live
    writes += ["UPDATE t SET a = 1 WHERE id = 1", "INSERT INTO t VALUES (3, 3, 1.4)", "SELECT 1"]
    spec = spec_of(source, target, recheck={"attempts": 3, "delay": "PT1S"})
    outcome = run.reconcile(spec, MemoryStore(), open_side)
    assert outcome.sidecar["recheck"] == {"attempts": 3, "confirmed": 2, "in_flight": 2}
    counts = {name: part["records"] for name, part in outcome.manifest["categories"].items()}
    assert counts == {"added": 1, "dropped": 0, "value_diverged": 1}
    assert outcome.manifest["population"] == {
        "source": {"duplicate_key": 0, "null_key": 0, "rows": 4, "skipped": 0},
        "target": {"duplicate_key": 0, "null_key": 0, "rows": 5, "skipped": 0},
        "unchanged": 3,
    }
    assert outcome.summary["columns"] == [["a", 1, 0], ["b", 0, 3]]


def test_settled_tables_have_the_manifest_of_a_quiet_run(live, tmp_path):
    """The last look replaces the first: the bytes are those of a run that began when all was still."""
    source, target, writes = live
    writes += ["UPDATE t SET a = 1 WHERE id = 1", "INSERT INTO t VALUES (3, 3, 1.4)"]
    looked = run.reconcile(spec_of(source, target, recheck={"attempts": 2, "delay": "PT1S"}), MemoryStore(), open_side)
    quiet = run.reconcile(spec_of(source, target), MemoryStore(), open_side)
    assert looked.receipt.manifest == quiet.receipt.manifest


def test_equal_tables_are_not_looked_at_twice(tmp_path, monkeypatch):
    """Where nothing differs there is nothing to confirm, and no delay."""
    rows = [(1, 1, 1.0)]
    source, target = table(tmp_path / "s.db", rows), table(tmp_path / "t.db", rows)

    def sleep(seconds):
        raise AssertionError("slept")

    monkeypatch.setattr(recheck.compare_settled, "__kwdefaults__", {"progress": None, "sleep": sleep})
    outcome = run.reconcile(spec_of(source, target, recheck={"attempts": 2, "delay": "PT1S"}), MemoryStore(), open_side)
    assert outcome.sidecar["recheck"] == {"attempts": 2, "confirmed": 0, "in_flight": 0}
