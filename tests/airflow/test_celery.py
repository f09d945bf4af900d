"""Two Celery workers without the metadata database, an S3 store, two databases; one worker is killed in mid-shard."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import ceph
import proxy as proxies
import psycopg
import pytest
import servers
from celery_set import celery_set

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

pytestmark = pytest.mark.nightly
ROWS = 2_000_000
SHARDS = 16
DIGEST = re.compile(r"[0-9a-f]{64}")
SIDES = {
    "source": {"conn_id": "legacy", "table": "orders", "label": "legacy"},
    "target": {"conn_id": "new", "table": "orders", "label": "new"},
}
CUT_S = 120
CUT_ROWS = 200_000
DAG = f"""from datetime import timedelta
from airflow.sdk import dag
from airflow_delta_provider.task_groups import reconcile

@dag(schedule=None)
def orders():
    reconcile(
        {{"name": "orders", "key": ["id"], **{SIDES!r}}},
        shards={SHARDS},
        shard_args={{"retries": 3, "retry_delay": timedelta(seconds=1)}},
    )

orders()
"""


def write_source(uri: str, rows: int) -> None:
    """Every thousandth amount differs from the target's, and the last row is missing there."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, amount numeric(18, 4), note text)")
        connection.execute(
            "INSERT INTO orders SELECT n, n * 1.25 + CASE WHEN mod(n, 1000) = 0 THEN 1 ELSE 0 END, 'order ' || n"
            " FROM generate_series(1, %s) AS n",
            [rows],
        )


@contextmanager
def mysql(uri: str) -> Iterator[Any]:
    with closing(servers.mysql_connection(uri)) as connection:
        yield connection.cursor()


def write_target(uri: str, rows: int) -> None:
    with mysql(uri) as cursor:
        cursor.execute("CREATE TABLE orders (id bigint PRIMARY KEY, amount decimal(18, 4), note text)")
        cursor.execute(f"INSERT INTO orders SELECT seq, seq * 1.25, CONCAT('order ', seq) FROM seq_1_to_{rows - 1}")


def connection_of(uri: str, kind: str) -> dict[str, Any]:
    """Return the Airflow connection of a database."""
    parts = urlsplit(uri)
    return {
        "conn_type": kind,
        "host": "127.0.0.1",
        "port": parts.port,
        "login": parts.username,
        "password": parts.password,
        "schema": parts.path[1:],
    }


def test_a_killed_worker_costs_a_retry_and_no_record(tmp_path):
    """Both sides and the store are real; the verdict is that of one process, and XComs hold digests alone."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "orders.py").write_text(DAG)
    with servers.postgresql() as postgresql, servers.mariadb() as mariadb, ceph.s3_server() as s3:
        old, new = postgresql.create_database(), mariadb.create_database()
        write_source(old, ROWS)
        write_target(new, ROWS)
        connections = {
            "legacy": connection_of(old, "postgres"),
            "new": connection_of(new, "mysql"),
            "delta_store_default": {"conn_type": "delta_store", "host": f"s3://{s3.bucket()}/deltas"},
        }
        with celery_set(tmp_path / "home", tmp_path / "dags", connections, s3.environment) as airflow:
            rest = airflow.rest
            with mysql(new) as lock:
                run_id = rest.start("orders")
                tasks = f"dags/orders/dagRuns/{run_id}/taskInstances"
                rest.wait_for_state(f"{tasks}/reconcile.plan")
                lock.execute("LOCK TABLES orders WRITE")
                rest.wait("four shards to be compared", lambda: running(rest, tasks) == 4 or None)
                airflow.workers[0].kill()
                lock.execute("UNLOCK TABLES")
            assert rest.wait_for_state(f"dags/orders/dagRuns/{run_id}") == "success"
            instances = rest.call("GET", f"{tasks}?limit=100")["task_instances"]
            compared = [one for one in instances if one["task_id"] == "reconcile.shards.compare"]
            assert len(compared) == SHARDS
            assert any(one["try_number"] > 1 for one in compared)
            pushed = [rest.call("GET", xcom_path(tasks, one))["value"] for one in instances]
            manifest = rest.returned("orders", run_id, "reconcile.merge")
        for value in pushed:
            assert all(DIGEST.fullmatch(digest) for digest in ([value] if isinstance(value, str) else value))
        sides = {
            name: {"uri": uri, "table": "orders", "label": SIDES[name]["label"]}
            for name, uri in (("source", old), ("target", new))
        }
        alone = reconcile(parse_spec({"name": "orders", "key": ["id"], **sides}), MemoryStore(), open_side)
        assert alone.records == ROWS // 1000
        assert manifest == alone.receipt.manifest


def test_workers_cut_off_from_the_api_server_cost_retries_and_no_record(tmp_path):
    """For two minutes no task can say that it lives or is done; shards that were finished meanwhile are not lost."""
    (tmp_path / "dags").mkdir()
    patient = DAG.replace('"retries": 3', '"retries": 40').replace("seconds=1", "seconds=5").replace("=16,", "=4,")
    (tmp_path / "dags" / "orders.py").write_text(patient)
    with (
        servers.postgresql() as postgresql,
        servers.mariadb() as mariadb,
        ceph.s3_server() as s3,
        proxies.proxied(0) as line,
    ):
        old, new = postgresql.create_database(), mariadb.create_database()
        write_source(old, CUT_ROWS)
        write_target(new, CUT_ROWS)
        connections = {
            "legacy": connection_of(old, "postgres"),
            "new": connection_of(new, "mysql"),
            "delta_store_default": {"conn_type": "delta_store", "host": f"s3://{s3.bucket()}/deltas"},
        }
        address = f"http://127.0.0.1:{line.port}/execution/"
        more = {**s3.environment, "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": address}
        with celery_set(tmp_path / "home", tmp_path / "dags", connections, more) as airflow:
            rest = airflow.rest
            line.aim(rest.port)
            run_id = rest.start("orders")
            tasks = f"dags/orders/dagRuns/{run_id}/taskInstances"
            with mysql(new) as lock:
                rest.wait_for_state(f"{tasks}/reconcile.plan")
                lock.execute("LOCK TABLES orders WRITE")
                rest.wait("four shards to be compared", lambda: running(rest, tasks) == 4 or None)
                line.fault = "drop"
                lock.execute("UNLOCK TABLES")
            time.sleep(CUT_S)
            line.fault = None
            assert rest.wait_for_state(f"dags/orders/dagRuns/{run_id}") == "success", rest.told(
                f"dags/orders/dagRuns/{run_id}"
            )
            manifest = rest.returned("orders", run_id, "reconcile.merge")
            found = rest.call("GET", f"{tasks}?limit=100")["task_instances"]
        assert any(one["try_number"] > 1 for one in found)
        sides = {
            name: {"uri": uri, "table": "orders", "label": SIDES[name]["label"]}
            for name, uri in (("source", old), ("target", new))
        }
        alone = reconcile(parse_spec({"name": "orders", "key": ["id"], **sides}), MemoryStore(), open_side)
        assert alone.records == CUT_ROWS // 1000
        assert manifest == alone.receipt.manifest


def running(rest: Any, tasks: str) -> int:
    found = rest.call("GET", f"{tasks}?state=running&limit=100")["task_instances"]
    return sum(one["task_id"] == "reconcile.shards.compare" for one in found)


def xcom_path(tasks: str, one: dict[str, Any]) -> str:
    return f"{tasks}/{one['task_id']}/xcomEntries/return_value?map_index={one['map_index']}"
