"""The repair of dags/ under a real ``airflow standalone``: approved over the REST API, proved, and taken back."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from airflow_rest import Rest
from airflow_runs import write_table

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.store import blobs, open_store
from airflow_delta_provider.demo import host as hosts

pytestmark = pytest.mark.nightly
DAGS = Path(__file__).parents[2] / "dags"
APPROVE, PATCH, BACK = "orders.approve", "approve_then_patch", "roll_back_patch"


def rows_of(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM orders ORDER BY id").fetchall()


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    """An Airflow with the two repair Dags, two databases that differ in five rows, and a store."""
    (tmp_path / "dags").mkdir()
    for name in (PATCH, BACK):
        (tmp_path / "dags" / f"{name}.py").write_text((DAGS / f"{name}.py").read_text())
    write_table(tmp_path / "legacy.db", [(number, number, "ä\\") for number in range(100)])
    write_table(tmp_path / "new.db", [(number, number if number > 3 else -1, "ä\\") for number in range(1, 101)])
    connections: dict[str, Any] = {
        name: {"conn_type": "sqlite", "host": str(tmp_path / f"{name}.db")} for name in ("legacy", "new")
    }
    connections["delta_store_default"] = {"conn_type": "delta_store", "host": (tmp_path / "store").as_uri()}
    return hosts.make_host(tmp_path / "home", connections, tmp_path / "dags")


def test_a_repair_waits_for_a_person_is_proved_and_taken_back(host, tmp_path):
    """Nothing is written before the approval over REST; who gave it is on record; the rollback brings every row back.

    An answer waits until the scheduler has noted the pause. Airflow 3.3.2 fails the task where the answer comes first:
    its scheduler queues the task again, then reads the executor's report of the paused try, takes it for one of the new
    try ("finished with state success, but the task instance's state attribute is queued") and marks it as failed. Its
    exemption for tasks that go on after a pause covers the state ``scheduled`` alone. So did this test fail at times.
    """
    before, wanted = rows_of(tmp_path / "new.db"), rows_of(tmp_path / "legacy.db")
    with hosts.standalone(host) as address:
        rest = Rest(host, address)
        run_id = rest.start(PATCH)
        run = f"dags/{PATCH}/dagRuns/{run_id}"
        found = rest.wait_for_state(f"{run}/taskInstances/{APPROVE}", "awaiting_input", "deferred")
        assert found in ("awaiting_input", "deferred"), rest.told(run)
        details = rest.call("GET", f"{run}/taskInstances/{APPROVE}/-1/hitlDetails")
        assert "| update | 3 |" in details["body"]
        assert rows_of(tmp_path / "new.db") == before

        rest.wait_for_log(f"TaskInstance Finished: dag_id={PATCH}, task_id={APPROVE},")
        answer = {"chosen_options": ["Approve"], "params_input": {}}
        rest.call("PATCH", f"{run}/taskInstances/{APPROVE}/-1/hitlDetails", answer)
        assert rest.wait_for_state(run) == "success", rest.told(run)
        assert rows_of(tmp_path / "new.db") == wanted
        patch = rest.returned(PATCH, run_id, "orders.apply")
        converged = rest.returned(PATCH, run_id, "orders.apply", "converged")

        back_id = rest.start(BACK, {"patch": patch})
        back_run = f"dags/{BACK}/dagRuns/{back_id}"
        assert rest.wait_for_state(back_run) == "success", rest.told(back_run)
        assert rows_of(tmp_path / "new.db") == before
        old_again = rest.returned(BACK, back_id, "roll_back", "converged")
        assert old_again == rest.returned(PATCH, run_id, "orders.reconcile.merge")
    store = open_store((tmp_path / "store").as_uri())
    proof = jsonc.loads(blobs.get_blob(store, converged))
    assert {name: found["records"] for name, found in proof["categories"].items()} == {
        "added": 0,
        "dropped": 0,
        "value_diverged": 0,
    }
    (pair,) = log.list_pairs(store)
    notes = [jsonc.loads(blobs.get_blob(store, e.ref)) for e in log.read_log(store, pair) if e.kind == "sidecar"]
    assert [note["approval"]["by"]["name"] for note in notes if "approval" in note] == [hosts.USER]
