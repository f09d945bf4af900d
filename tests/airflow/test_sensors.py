"""Migrations by the tools that make them, and manifests that are waited for."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import migrated
import pytest
from airflow_runs import connection_text, context_of, run_dag
from migrated import flyway_row

pytestmark = pytest.mark.usefixtures("metadata")


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty SQLite file behind the connection ``app``."""
    path = tmp_path / "app.db"
    sqlite3.connect(path).close()
    monkeypatch.setenv("AIRFLOW_CONN_APP", connection_text(conn_type="sqlite", host=str(path)))
    return path


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def sensor(tool: str, **options: Any) -> Any:
    from airflow_delta_provider.sensors.migration import MigrationSensor

    where = {} if tool == "dbt" else {"conn_id": "app"}
    return MigrationSensor(task_id="wait", tool=tool, **{**where, **options})


def met(tool: str, revision: str | None = None, **options: Any) -> bool:
    return bool(sensor(tool, revision=revision, **options).poke(context_of("wait")))


def test_alembic_itself_is_waited_for(tmp_path, database):
    """A database that was never migrated has no table to look into: that is no failure, it is what the wait is for."""
    assert not met("alembic")
    migrated.alembic(tmp_path, f"sqlite:///{database}", "aa01")
    assert met("alembic")
    assert met("alembic", "aa01")
    assert not met("alembic", "aa02")
    migrated.alembic(tmp_path, f"sqlite:///{database}", "aa02")
    assert met("alembic", "aa02")


def test_flyways_history_is_waited_for(database):
    """A migration that failed is in the history too; while one is, nothing counts as done."""
    sql(database, migrated.FLYWAY, flyway_row(0, None, kind="SCHEMA"))
    assert not met("flyway")
    sql(database, flyway_row(1, "1"), flyway_row(2, None))
    assert met("flyway", "1")
    assert met("flyway", "views")
    sql(database, flyway_row(3, "2", success=False))
    assert not met("flyway", "2")
    assert not met("flyway", "1")
    sql(database, "DELETE FROM flyway_schema_history WHERE success = 0", flyway_row(3, "2"))
    assert met("flyway", "2")


def test_a_version_that_flyway_took_back_is_not_applied(database):
    """Undone and deleted versions stay in the history, each followed by a row that says so; one may come again."""
    sql(database, migrated.FLYWAY, flyway_row(1, "1"), flyway_row(2, "2"), flyway_row(3, "2", kind="UNDO_SQL"))
    assert [met("flyway", version) for version in ("1", "2")] == [True, False]
    sql(database, flyway_row(4, "2"), flyway_row(5, "1", kind="DELETE"))
    assert [met("flyway", version) for version in ("1", "2")] == [False, True]


def test_a_repeatable_migration_that_failed_and_was_mended_counts(database):
    """Flyway runs it again without a repair: the newest row of it is the one that holds."""
    sql(database, migrated.FLYWAY, flyway_row(1, None, success=False))
    assert not met("flyway", "views")
    sql(database, flyway_row(2, None))
    assert met("flyway", "views")


def test_liquibases_change_log_is_waited_for(database):
    """While Liquibase holds its lock, it is at work: what is applied so far is half of a change."""
    sql(database, migrated.LIQUIBASE, migrated.LOCK)
    sql(database, "INSERT INTO DATABASECHANGELOGLOCK VALUES (1, 1, 0, 'me')", migrated.change_set(1))
    assert not met("liquibase", "c1")
    sql(database, "UPDATE DATABASECHANGELOGLOCK SET LOCKED = 0", migrated.change_set(2, "FAILED"))
    assert met("liquibase", "c1")
    assert met("liquibase", "ann:c1")
    assert not met("liquibase", "bob:c1")
    assert not met("liquibase", "c2")


def test_djangos_table_may_have_another_name(tmp_path, database):
    """One table for all apps; a revision is an app and a name."""
    migrated.django(tmp_path, {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database)}, "shop.0001_initial")
    assert [met("django", name) for name in ("shop.0001_initial", "shop.0002_money")] == [True, False]
    sql(database, "ALTER TABLE django_migrations RENAME TO ours")
    assert [met("django", table=table) for table in ("ours", None)] == [True, False]


@pytest.mark.parametrize(("rows", "done"), [("", False), ("NULL", False), ("'v7'", True), ("0", True)])
def test_a_query_stands_for_any_other_tool(database, rows, done):
    """NULL and no row mean: not yet."""
    sql(database, "CREATE TABLE state (version)")
    if rows:
        sql(database, f"INSERT INTO state VALUES ({rows})")
    assert met("query", query="SELECT version FROM state") is done


def dbt_results(path: Path, invocation: str, *statuses: str) -> None:
    results = [{"unique_id": f"model.shop.m{number}", "status": one} for number, one in enumerate(statuses)]
    path.write_text(json.dumps({"metadata": {"invocation_id": invocation}, "results": results}))


def test_dbts_results_are_waited_for(tmp_path):
    """A run in which a model failed left half of the tables as they were."""
    path = tmp_path / "run_results.json"
    dbt_results(path, "i1", "success", "error")
    assert not met("dbt", path=str(path))
    dbt_results(path, "i2", "success", "pass")
    assert met("dbt", path=str(path))
    assert met("dbt", "model.shop.m1", path=str(path))
    assert met("dbt", "i2", path=str(path))
    assert not met("dbt", "i1", path=str(path))


def test_a_file_of_a_command_that_builds_nothing_does_not_count(tmp_path):
    """dbt writes the same file after a compilation, in which every node is a success."""
    path = tmp_path / "run_results.json"
    for command, counts in (("compile", False), ("generate", False), ("build", True), ("test", True)):
        dbt_results(path, "i1", "success")
        path.write_text(json.dumps({**json.loads(path.read_text()), "args": {"which": command}}))
        assert met("dbt", path=str(path)) is counts


def test_a_file_that_is_half_written_is_tried_again(tmp_path):
    """It is read while dbt writes it now and then; the next try finds it whole."""
    from airflow_delta_provider.core.errors import SideReadError

    path = tmp_path / "run_results.json"
    path.write_text('{"metadata": {')
    with pytest.raises(SideReadError):
        met("dbt", path=str(path))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"tool": "flyway", "conn_id": None}, "DELTA_SPEC_FIELD"),
        ({"tool": "dbt"}, "DELTA_SPEC_FIELD"),
        ({"tool": "query"}, "DELTA_SPEC_FIELD"),
        ({"tool": "rails"}, "DELTA_INPUT_POLICY"),
        ({"tool": "alembic", "table": "x; DROP TABLE y"}, "DELTA_SPEC_VALUE"),
        ({"tool": "alembic", "conn_id": "files"}, "DELTA_SIDE_SCHEME"),
    ],
    ids=["no connection", "no path", "no query", "another tool", "no name", "no database"],
)
def test_what_cannot_be_waited_for_fails_for_good(database, monkeypatch, options, code):
    """A wait for what never comes would end in a week."""
    from airflow_delta_provider._compat import AirflowFailException

    monkeypatch.setenv("AIRFLOW_CONN_FILES", connection_text(conn_type="fs"))
    with pytest.raises(AirflowFailException, match=code):
        met(**options)


def test_a_query_that_does_not_run_is_an_error_and_no_wait(database):
    """A table of a tool may come with the first migration; a query of one's own is wrong."""
    from airflow_delta_provider.core.errors import SideReadError

    with pytest.raises(SideReadError, match="no such table"):
        met("query", query="SELECT version FROM nowhere")


def test_sensors_reschedule_and_are_tried_thrice():
    """A waiting sensor holds no slot, and Airflow's race of deferred tasks costs one try."""
    from airflow_delta_provider.sensors.manifest import ManifestSensor

    one, other = sensor("alembic"), ManifestSensor(task_id="m", pair="orders", retries=5)
    assert (one.mode, one.retries, other.mode, other.retries) == ("reschedule", 2, "reschedule", 5)


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_dag_goes_on_after_the_migration(tmp_path, database, deferrable):
    """In a worker's slot and in the triggerer alike."""
    from airflow.sdk import DAG

    migrated.alembic(tmp_path, f"sqlite:///{database}", "aa02")
    with DAG(f"after_{deferrable}") as dag:
        sensor("alembic", revision="aa02", deferrable=deferrable)
    assert run_dag(dag).state == "success"


def test_a_deferred_sensor_hands_over_everything(database):
    """The trigger is made anew from its text in another process."""
    from airflow.providers.common.compat.sdk import TaskDeferred

    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.triggers.migration import MigrationAppliedTrigger

    one = sensor("alembic", revision="aa02", deferrable=True, poke_interval=7)
    with pytest.raises(TaskDeferred) as raised:
        one.execute(context_of("wait"))
    path, members = raised.value.trigger.serialize()
    assert path.endswith("MigrationAppliedTrigger")
    again = MigrationAppliedTrigger(**members)
    assert (again.source, again.revision, again.poll_interval_s) == (one._source(), "aa02", 7.0)
    with pytest.raises(AirflowFailException, match="refused"):
        one.resume(context_of("wait"), {"error": "refused"})


def publish(folder: Path) -> str:
    """Publish a manifest of ``orders`` from the tables of ``world`` by the command line."""
    import contextlib
    import io

    from airflow_delta_provider.cli import main

    sides = {
        name: {"uri": f"sqlite:///{folder}/{file}.db", "table": "orders", "label": file}
        for name, file in (("source", "old"), ("target", "new"))
    }
    (folder / "spec.json").write_text(json.dumps({"name": "orders", "key": ["id"], **sides}))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["run", str(folder / "spec.json"), "--store", str(folder / "store"), "--workers", "1", "--json"])
    return str(json.loads(out.getvalue())["manifest"])


def manifest_sensor(**options: Any) -> Any:
    from airflow_delta_provider.sensors.manifest import ManifestSensor

    found = ManifestSensor(task_id="wait", **{"pair": "orders", **options}).poke(context_of("wait"))
    return getattr(found, "xcom_value", None)


def test_a_manifest_is_waited_for(world):
    """None, then one; by verdict, and after another one. What comes of it is the digest."""
    from airflow_runs import write_table

    assert manifest_sensor() is None
    first = publish(world)
    assert manifest_sensor() == manifest_sensor(verdict="different") == first
    assert manifest_sensor(verdict="equal") is None
    assert manifest_sensor(newer_than=first) is None
    assert manifest_sensor(pair="customers") is None
    rows = [(number, number, "x") for number in range(9)]
    for name in ("old", "new"):
        write_table(world / f"{name}.db", rows)
    second = publish(world)
    assert manifest_sensor(newer_than=first) == manifest_sensor(verdict="equal") == second
    assert manifest_sensor(verdict="different") is None


def test_an_unknown_verdict_or_digest_fails_for_good(world):
    """And so does one that can never come."""
    from airflow_delta_provider._compat import AirflowFailException

    for options in ({"verdict": "good"}, {"newer_than": "latest"}):
        with pytest.raises(AirflowFailException, match="DELTA_INPUT"):
            manifest_sensor(**options)


def test_a_manifest_is_waited_for_in_the_triggerer(world):
    """The value of the task is the digest there too."""
    from airflow.sdk import DAG

    from airflow_delta_provider.sensors.manifest import ManifestSensor

    digest = publish(world)
    with DAG("wait_for_orders") as dag:
        ManifestSensor(task_id="wait", pair="orders", deferrable=True)
    assert run_dag(dag).returned[("wait", -1)] == digest
