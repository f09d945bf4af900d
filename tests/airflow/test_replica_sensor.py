"""Waiting for a replica, in a worker's slot and in the triggerer."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from airflow_runs import connection_text, context_of, run_dag

pytestmark = pytest.mark.usefixtures("metadata")


@pytest.fixture
def server(postgresql_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server behind the connections ``primary`` and ``replica``: it has replayed what it wrote itself."""
    parts = urlsplit(postgresql_database)
    fields = {"login": parts.username, "host": parts.hostname, "port": parts.port, "schema": parts.path[1:]}
    text = connection_text(conn_type="postgres", password=unquote(parts.password or ""), **fields)
    for name in ("PRIMARY", "REPLICA"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", text)
    monkeypatch.setenv("AIRFLOW_CONN_FILE", connection_text(conn_type="sqlite", host="/tmp/x.db"))
    return postgresql_database


def sensor(**options: Any) -> Any:
    from airflow_delta_provider.sensors.replica import ReplicaCaughtUpSensor

    named = {"task_id": "wait", "source_conn_id": "primary", "replica_conn_id": "replica"}
    return ReplicaCaughtUpSensor(**{**named, **options})


def context(kept: str | None = None) -> dict[str, Any]:
    made = context_of("wait")
    made["ti"].xcom_pull = lambda **named: made["ti"].pushed.get(named["key"], kept)
    return made


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_dag_goes_on_once_the_replica_is_there(server, deferrable):
    """In a worker's slot and in the triggerer alike."""
    from airflow.sdk import DAG

    with DAG(f"after_replica_{deferrable}") as dag:
        sensor(deferrable=deferrable)
    assert run_dag(dag).state == "success"


def test_the_position_of_the_first_look_is_the_one_that_is_waited_for(server):
    """A source that writes on and on would else never be caught up with."""
    from airflow_delta_provider.hooks.replicas import source_position

    cluster = source_position("primary").cluster
    far = f"postgresql {cluster} FFFFFFFF/0"
    assert not sensor().poke(context(far))
    first = context()
    assert sensor().poke(first)
    assert first["ti"].pushed["position"].startswith(f"postgresql {cluster} ")


def test_a_deferred_sensor_waits_for_the_same_position(server):
    """The trigger is made anew from its text in another process."""
    from airflow.providers.common.compat.sdk import TaskDeferred

    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.hooks.replicas import source_position
    from airflow_delta_provider.triggers.replica import ReplicaTrigger

    far = f"postgresql {source_position('primary').cluster} FFFFFFFF/0"
    one = sensor(deferrable=True, poke_interval=7)
    with pytest.raises(TaskDeferred) as raised:
        one.execute(context(far))
    path, members = raised.value.trigger.serialize()
    assert path.endswith("ReplicaTrigger")
    assert ReplicaTrigger(**members).members == {
        "replica_conn_id": "replica",
        "position": far,
        "poll_interval_s": 7.0,
    }
    with pytest.raises(AirflowFailException, match="refused"):
        one.resume(context(), {"error": "refused"})


def test_what_has_no_position_fails_for_good(server):
    """A file has no log; the cluster of a stranger has another one."""
    from airflow_delta_provider._compat import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"\[DELTA_SIDE_SCHEME\] connection file has type sqlite"):
        sensor(source_conn_id="file").poke(context())
    with pytest.raises(AirflowFailException, match="no replicas of each other"):
        sensor().poke(context("postgresql 1 0/1"))
