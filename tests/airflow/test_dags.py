"""Every Dag of ``dags/`` runs, and is short enough to be read."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import connection_text, run_dag, write_table

pytestmark = pytest.mark.usefixtures("metadata")
DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture
def dags(world: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that loads a Dag of the folder by its id; ``legacy`` and ``shop`` are ``old`` and ``new`` of ``world``."""
    import os

    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("AIRFLOW_CONN_LEGACY", os.environ["AIRFLOW_CONN_OLD"])
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", os.environ["AIRFLOW_CONN_NEW"])

    def load(dag_id: str) -> Any:
        bag = DagBag(dag_folder=str(DAGS / f"{dag_id}.py"), bundle_name="dags-folder")
        assert bag.import_errors == {}
        return bag.dags[dag_id]

    return load


def test_after_migration_stops_at_a_difference(dags):
    """The quickstart: ten records differ, so the gate fails and nothing after it runs."""
    run = run_dag(dags("after_migration"))
    assert run.of("orders.verify") == "success"
    assert run.of("gate") == "failed"


@pytest.mark.parametrize(
    ("lost", "chosen", "skipped"),
    [(3, "ask_a_person", "report"), (0, "report", "ask_a_person")],
    ids=["rows were lost", "all is well"],
)
def test_thresholds_choose_a_branch(dags, world, lost, chosen, skipped):
    """Late rows go to a person, none go to the report; trailing blanks are no difference under the rule."""
    write_table(world / "old.db", [(number, number, "x") for number in range(90)])
    write_table(world / "new.db", [(number, number, "x  ") for number in range(90 - lost)])
    run = run_dag(dags("thresholds_and_branch"))
    assert (run.state, run.of(chosen), run.of(skipped)) == ("success", "success", "skipped")
    assert run.returned[("gate", -1)] == run.returned[("orders.merge", -1)]


def test_nightly_changes_maps_over_changed_records_only(dags, world):
    """The first night every record is new; the next one, one changed, and the others cost no task at all."""
    rows = [(number, number, "x") for number in range(12)]
    write_table(world / "new.db", rows)
    first = run_dag(dags("nightly_changes"))
    assert first.state == "success"
    assert first.returned[("changed", -1)] == [[str(number)] for number in range(12)]
    write_table(world / "new.db", [*rows[:7], (7, 70, "x"), *rows[8:]])
    second = run_dag(dags("nightly_changes"))
    assert second.returned[("changed", -1)] == [["7"]]
    assert [key for key in second.states if key[0] == "index_again"] == [("index_again", 0)]


def test_approve_then_patch_makes_the_tables_equal_and_roll_back_patch_undoes_it(dags, world):
    """The approval is taken as given; the patch is proved, and its id is all that the rollback is told."""
    before, wanted = rows_of(world / "new.db"), rows_of(world / "old.db")
    run = run_dag(dags("approve_then_patch"), mark_success_pattern=r"orders\.approve")
    assert (run.state, rows_of(world / "new.db")) == ("success", wanted)
    back = run_dag(dags("roll_back_patch"), run_conf={"patch": run.returned[("orders.apply", -1)]})
    assert (back.state, rows_of(world / "new.db")) == ("success", before)


def test_nightly_replica_tells_other_dags_of_its_verdict(dags, world):
    """Ten rows differ at every look, so the gate fails; the Dag that waits for the manifest is told all the same."""
    from airflow import settings
    from airflow.models.asset import AssetEvent

    run = run_dag(dags("nightly_replica"))
    assert (run.of("orders.merge"), run.of("gate")) == ("success", "failed")
    event = settings.Session().query(AssetEvent).filter_by(source_run_id=run.run_id).one()
    assert event.extra["digest"] == run.returned[("orders.merge", -1)]
    assert (event.extra["verdict"], event.extra["counts"]["records"]) == ("different", 10)


def test_after_every_verdict_reads_its_events_alone(dags):
    """It is scheduled on the asset that nightly_replica writes; started by hand, without an event, it reacts to none."""
    (waited,) = dags("after_every_verdict").schedule
    (merge,) = [task for task in dags("nightly_replica").tasks if task.task_id == "orders.merge"]
    assert [asset.uri for asset in merge.outlets] == [waited.uri] == ["delta-manifest://delta_store_default/orders"]
    run = run_dag(dags("after_every_verdict"))
    assert (run.state, run.returned[("verdicts", -1)]) == ("success", [])


@pytest.mark.parametrize(("lost", "gate"), [(0, "success"), (1, "failed")])
def test_file_drop_compares_the_file_with_the_table(dags, world, monkeypatch, lost, gate):
    """Rows that only the table has are none of the file's business; a lost row is."""
    (world / "orders.csv").write_text("id,amount,note\n" + "".join(f"{n},{n},x\n" for n in range(20)))
    write_table(world / "new.db", [(number, number, "x") for number in range(lost, 30)])
    monkeypatch.setenv("AIRFLOW_CONN_DROP", connection_text(conn_type="fs", extra={"path": str(world)}))
    assert run_dag(dags("file_drop")).of("gate") == gate


def test_many_tables_has_a_verdict_for_each(dags, world):
    """One list, two tables: the one with ten differences fails its own gate and stops nothing of the other."""
    for name in ("old", "new"):
        write_table(world / f"{name}.db", [(1, 1, "x")], table="customers")
    run = run_dag(dags("many_tables"))
    assert (run.of("gate_orders"), run.of("gate_customers")) == ("failed", "success")
    assert run.returned[("orders.merge", -1)] != run.returned[("customers.merge", -1)]


def test_feed_index_takes_each_changed_key_once_over_several_sweeps(dags, world):
    """Fed for the first time it takes all 12 rows; two sweeps later, the three keys that they changed."""
    rows = [(number, number, "x") for number in range(12)]
    fed = []
    for tables in ([rows], [[*rows[:11], (11, 110, "x")], [*rows[:10], (10, 100, "x"), (11, 111, "x"), (12, 12, "x")]]):
        for table in tables:
            write_table(world / "new.db", table)
            assert run_dag(dags("nightly_changes")).state == "success"
        run = run_dag(dags("feed_index"))
        fed.append(run.returned[("feed", -1)])
    assert fed == [12, 3]
    assert run_dag(dags("feed_index")).returned[("feed", -1)] == 0


def test_explain_drift_compares_the_two_states_column_by_column(dags, world):
    """The first night nothing can have drifted; the next one, the history tells which column did, with both values."""
    from airflow_delta_provider.core import documents, jsonc
    from airflow_delta_provider.core.store import blobs
    from airflow_delta_provider.hooks.store import DeltaStoreHook

    with contextlib.closing(sqlite3.connect(world / "new.db")) as connection:
        connection.execute("CREATE TABLE orders_history (day TEXT, id INTEGER, amount INTEGER, note TEXT)")
        for day, amount in (("2026-01-01", 1), ("2026-01-02", 2)):
            rows = [(day, number, amount if number == 3 else 0, "x") for number in range(5)]
            connection.executemany("INSERT INTO orders_history VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    days = {"before": "2026-01-01", "after": "2026-01-02"}
    write_table(world / "new.db", [(number, 1 if number == 3 else 0, "x") for number in range(5)])
    first = run_dag(dags("explain_drift"), run_conf=days)
    assert (first.state, first.of("drift.plan"), first.of("drift.merge")) == ("success", "skipped", "skipped")
    write_table(world / "new.db", [(number, 2 if number == 3 else 0, "x") for number in range(5)])
    second = run_dag(dags("explain_drift"), run_conf=days)
    store = DeltaStoreHook().get_conn()
    manifest = documents.parse_manifest(blobs.get_blob(store, second.returned[("drift.merge", -1)]))
    (line,) = blobs.get_blob(store, manifest["body"]["sha256"]).splitlines()
    record = jsonc.loads(line)
    assert (record["key"], record["columns"], record["source_value"]) == (["3"], ["amount"], ["1"])
    assert record["target_value"] == ["2"]


def rows_of(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_every_dag_is_run_here_and_is_short():
    """A new Dag needs a test above, and no Dag more than 40 lines."""
    assert sorted(path.stem for path in DAGS.glob("*.py")) == [
        "after_every_verdict",
        "after_migration",
        "approve_then_patch",
        "explain_drift",
        "feed_index",
        "file_drop",
        "many_tables",
        "nightly_changes",
        "nightly_replica",
        "roll_back_patch",
        "thresholds_and_branch",
    ]
    assert all(len(path.read_text().splitlines()) <= 40 for path in DAGS.glob("*.py"))
