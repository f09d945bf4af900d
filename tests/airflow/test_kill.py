"""A killed task leaves no statement behind on the server: on PostgreSQL and on MariaDB, at either side."""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow_runs import connection_text, context_of

from airflow_delta_provider.core.errors import SideReadError

PATIENCE_S = 30
SLOW = {
    "postgresql": "SELECT id, pg_sleep(id)::text AS v FROM (VALUES (1), (600)) AS t(id)",
    "mysql": "SELECT seq AS id, SLEEP(seq) AS v FROM seq_600_to_601",
}
QUICK = {"postgresql": "SELECT 1 AS id, ''::text AS v", "mysql": "SELECT 1 AS id, 0 AS v"}
RUNNING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%pg_sleep%'",
    "mysql": "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT%SLEEP(%delta_side%'"
    " AND ID <> CONNECTION_ID()",
}


def running(uri: str) -> int:
    """Return how many of our slow statements a server runs."""
    parts = urlsplit(uri)
    kind = parts.scheme.partition("+")[0]
    if kind == "postgresql":
        import psycopg

        with psycopg.connect(uri) as connection:
            found: Any = connection.execute(RUNNING[kind]).fetchone()
            return int(found[0])
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1", port=parts.port or 0, user=parts.username, password=parts.password or ""
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute(RUNNING[kind])
            return int(cursor.fetchone()[0])
    finally:
        connection.close()


def wait_for(uri: str, count: int) -> float:
    """Wait until so many slow statements run; return the seconds that it took."""
    started = time.monotonic()
    while running(uri) != count:
        assert time.monotonic() - started < PATIENCE_S
        time.sleep(0.05)
    return time.monotonic() - started


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_killed_comparison_ends_the_servers_statement(server, side, tmp_path, monkeypatch):
    """Airflow calls ``on_kill`` in the task's process; a statement of ten minutes is gone within seconds."""
    from airflow_delta_provider.operators.shards import CompareShardOperator, PlanShardsOperator

    parts = urlsplit(server)
    kind = parts.scheme.partition("+")[0]
    fields = {"host": "127.0.0.1", "port": parts.port, "login": parts.username, "schema": parts.path[1:]}
    conn_type = {"postgresql": "postgres", "mysql": "mysql"}[kind]
    monkeypatch.setenv("AIRFLOW_CONN_DB", connection_text(conn_type=conn_type, password=parts.password, **fields))
    store = connection_text(conn_type="delta_store", host=(tmp_path / "store").as_uri())
    monkeypatch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)
    sides = {
        name: {"conn_id": "db", "query": (SLOW if name == side else QUICK)[kind], "label": name}
        for name in ("source", "target")
    }
    spec = {"name": "orders", "key": ["id"], "shards": {"count": 1}, **sides}
    plan = PlanShardsOperator(task_id="plan", spec=spec, merge_task_id="merge")
    (shard,) = plan.execute(context_of("plan"))
    compare = CompareShardOperator(task_id="compare", shard=shard, merge_task_id="merge")
    raised: list[BaseException] = []

    def execute() -> None:
        try:
            compare.execute(context_of("compare", map_index=0))
        except BaseException as error:  # noqa: BLE001 - the test looks at what ended the task
            raised.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    wait_for(server, 1)
    compare.on_kill()
    assert wait_for(server, 0) < 5
    thread.join(PATIENCE_S)
    assert [type(error) for error in raised] == [SideReadError]


def test_a_task_that_opened_nothing_is_killed_without_ado():
    """Airflow may kill a task before it began."""
    from airflow_delta_provider.operators.shards import CompareShardOperator

    CompareShardOperator(task_id="compare", shard="0" * 64).on_kill()
