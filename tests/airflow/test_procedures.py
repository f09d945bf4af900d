"""The procedures of the handed cases that need Airflow; tests/cases/test_procedures.py says where each of the others is."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import servers
from airflow_runs import connection_text, context_of, run_dag, write_table

from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.spec import SideSpec

pytestmark = pytest.mark.usefixtures("metadata")


def spec_of(**members: Any) -> dict[str, Any]:
    sides = {
        name: {"conn_id": conn, "table": "orders", "label": f"{conn}:orders"}
        for name, conn in (("source", "old"), ("target", "new"))
    }
    return {"name": "orders", **sides, "key": ["id"], **members}


def reconcile_dag(spec: dict[str, Any], dag_id: str) -> Any:
    from airflow.sdk import DAG, task

    from airflow_delta_provider.task_groups import reconcile

    with DAG(dag_id) as dag:
        group = reconcile(spec)

        @task
        def users_own() -> str:
            return "ran"

        group >> users_own()
    return dag


def manifest_of(folder: Path, digest: str) -> dict[str, Any]:
    data = (folder / "store" / "blobs" / "sha256" / digest[:2] / digest[2:4] / digest).read_bytes()
    return dict(json.loads(data))


def test_rc_215_a_password_in_an_error_of_the_driver_is_masked(world, monkeypatch, capfd):
    """Drivers quote the address; neither the task's log nor the error that is raised may repeat it."""
    import psycopg

    conn = connection_text(conn_type="postgres", host="127.0.0.1", login="me", password="hunter2secret", schema="db")
    monkeypatch.setenv("AIRFLOW_CONN_OLD", conn)

    def connect(conninfo: str = "", **named: Any) -> Any:
        raise psycopg.OperationalError(f"cannot connect with {conninfo} {named} password=hunter2secret")

    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    run = run_dag(reconcile_dag(spec_of(), "rc_215"))
    assert run.of("reconcile.plan") == "failed"
    text = "".join(capfd.readouterr())
    assert "DELTA_CONNECT" in text
    assert "hunter2secret" not in text
    stored = [path.read_bytes() for path in (world / "store").rglob("*") if path.is_file()]
    assert not any(b"hunter2secret" in data for data in stored)


@pytest.fixture
def postgresql_connection(postgresql_server: servers.Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes the connection ``pg`` with extras."""
    uri = postgresql_server.create_database()
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
    parts = urlsplit(uri)

    def make(extra: Any) -> None:
        fields = {"login": parts.username, "password": parts.password, "host": parts.hostname, "port": parts.port}
        text = connection_text(conn_type="postgres", schema=parts.path[1:], extra=extra, **fields)
        monkeypatch.setenv("AIRFLOW_CONN_PG", text)

    return make


@pytest.mark.parametrize("extra", [{}, {"connect_timeout": 7}, {"sslmode": "prefer"}, {"options": "-c work_mem=1MB"}])
def test_rc_218_extras_reach_the_driver(extra, postgresql_connection):
    """Nothing is folded into one parameter, and an empty extra changes nothing."""
    from airflow_delta_provider.hooks.sides import open_side

    postgresql_connection(extra)
    with open_side(SideSpec(conn_id="pg", table="public.orders")) as side:
        assert [column.name for column in side.columns] == ["id"]


@pytest.mark.parametrize(
    ("extra", "name"),
    [({"as_dict": True, "n": 7}, "as_dict"), ({"options": {"a": "b"}}, "options"), ({"nope": "x"}, "nope")],
)
def test_rc_218_extras_reach_the_driver_or_are_refused_by_name(extra, name, postgresql_connection):
    """A member that the driver does not know is refused by its own name, and never sent as __extra__."""
    from airflow_delta_provider.hooks.sides import open_side

    postgresql_connection(extra)
    with (
        pytest.raises(DeltaError, match=name) as refused,
        open_side(SideSpec(conn_id="pg", table="public.orders")) as side,
    ):
        assert side.columns
    assert "__extra__" not in str(refused.value)


def test_rc_220_empty_tables_let_the_users_task_run(world):
    """Nothing to compare is a verdict: the run succeeds and a task behind it runs under its default trigger rule."""
    for name in ("old", "new"):
        write_table(world / f"{name}.db", [])
    run = run_dag(reconcile_dag(spec_of(), "rc_220"))
    assert (run.state, run.of("users_own")) == ("success", "success")
    manifest = manifest_of(world, run.returned[("reconcile.merge", -1)])
    assert (manifest["body"]["records"], manifest["population"]["unchanged"]) == (0, 0)


def test_rc_222_one_shard_gives_the_manifest_of_four(world):
    """With one mapped instance Airflow hands over one value; its characters are no list."""
    one = run_dag(reconcile_dag(spec_of(shards={"count": 1}), "rc_222_one"))
    four = run_dag(reconcile_dag(spec_of(shards={"bounds": [[20], [40], [60]]}), "rc_222_four"))
    assert len(one.returned[("reconcile.plan", -1)]) == 1
    assert len(four.returned[("reconcile.plan", -1)]) == 4
    assert one.returned[("reconcile.merge", -1)] == four.returned[("reconcile.merge", -1)]


def test_rc_224_no_order_of_the_shards_shows(world):
    """Results come in any order, and 1, 10, 11, 2 is the order of their texts."""
    from airflow_delta_provider.operators.shards import (
        BuildSubManifestOperator,
        CompareShardOperator,
        MergeManifestOperator,
        PlanShardsOperator,
    )

    bounds = [[7 * number] for number in range(1, 12)]
    rng, found = random.Random(12), set()
    for turn in range(20):
        merge_id = f"merge_{turn}"
        plan = PlanShardsOperator(task_id="plan", merge_task_id=merge_id, spec=spec_of(shards={"bounds": bounds}))
        shards = plan.execute(context_of("plan"))
        assert len(shards) == 12
        parts = []
        for number in rng.sample(range(12), 12):
            compare = CompareShardOperator(task_id="compare", merge_task_id=merge_id, shard=shards[number])
            raw = compare.execute(context_of("compare", number))
            build = BuildSubManifestOperator(
                task_id="build", merge_task_id=merge_id, shard=shards[number], comparison=raw
            )
            parts.append(build.execute(context_of("build", number)))
        merge = MergeManifestOperator(task_id=merge_id, shards=rng.sample(shards, 12), parts=rng.sample(parts, 12))
        found.add(merge.execute(context_of(merge_id)))
    assert len(found) == 1


def test_rc_226_a_lower_limit_of_mapping_gives_fewer_shards(world, monkeypatch):
    """At most three mapped instances, and the whole key line covered."""
    from airflow_delta_provider.operators.shards import PlanShardsOperator

    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    plan = PlanShardsOperator(task_id="plan", merge_task_id="merge", spec=spec_of(shards={"rows": 10}))
    assert 1 <= len(plan.execute(context_of("plan"))) <= 3
