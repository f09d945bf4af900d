"""What OpenLineage is told: once, by the merge, without values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow_runs import connection_text, run_dag

pytestmark = pytest.mark.usefixtures("metadata")


def merge_of(world: Any) -> Any:
    """Return a merge operator after its run, and that run's task instance."""
    from airflow.sdk import DAG

    from airflow_delta_provider.operators.shards import MergeManifestOperator
    from airflow_delta_provider.task_groups import reconcile

    spec = {
        "name": "orders",
        "source": {"conn_id": "old", "table": "orders", "label": "old:orders"},
        "target": {"conn_id": "new", "table": "orders", "label": "new:orders"},
        "key": ["id"],
        "shards": {"count": 1},
    }
    with DAG("traced") as dag:
        reconcile(spec)
    run = run_dag(dag)
    merge = MergeManifestOperator(task_id="reconcile.merge", shards=run.returned[("reconcile.plan", -1)], parts=[])
    merge.manifest = run.returned[("reconcile.merge", -1)]
    from airflow import settings
    from airflow.models.dagrun import DagRun

    run_id = settings.Session().query(DagRun).filter_by(dag_id="traced").one().run_id
    return merge, SimpleNamespace(dag_id="traced", run_id=run_id, task_id="reconcile.merge")


def test_assertions_stand_on_the_target_and_the_version_on_the_manifest(world):
    """A catalogue shows the red column on the table that has it, and the digest as the version of the evidence."""
    merge, ti = merge_of(world)
    found = merge.get_openlineage_facets_on_complete(ti)
    source, target = found.inputs
    assert source.name.endswith("orders")
    assert "dataQualityAssertions" not in source.inputFacets
    told = {
        (one.assertion, one.column): (one.success, one.actual)
        for one in target.inputFacets["dataQualityAssertions"].assertions
    }
    assert told == {
        ("delta.added", None): (False, "1"),
        ("delta.dropped", None): (False, "1"),
        ("delta.structure", None): (True, "0"),
        ("delta.column_equal", "amount"): (False, "8"),
        ("delta.column_equal", "note"): (True, "0"),
    }
    assert target.inputFacets["dataQualityMetrics"].rowCount == 90
    (output,) = found.outputs
    assert (output.namespace, output.name) == ("delta-manifest://delta_store_default", "orders")
    assert output.facets["version"].datasetVersion == f"sha256:{merge.manifest}"
    tests = {one.name: one.status for one in found.run_facets["test"].tests}
    assert tests["delta.column_equal.amount"] == "fail"
    assert "secret" not in str(found)


def test_a_merge_without_a_manifest_tells_nothing(world):
    """No verdict, no assertion: neither passed nor failed."""
    from airflow_delta_provider.operators.shards import MergeManifestOperator

    merge = MergeManifestOperator(task_id="merge", shards=[], parts=[])
    assert merge.get_openlineage_facets_on_complete(SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("side", "named"),
    [
        ({"uri": "postgresql://u:p@db/shop", "table": "public.orders"}, ("postgresql://db:5432", "shop.public.orders")),
        ({"uri": "mysql://db:33/shop", "table": "orders"}, ("mysql://db:33", "shop.orders")),
        ({"uri": "postgresql://db/shop", "query": "SELECT 1"}, ("postgresql://db:5432", "a label")),
        ({"uri": "sqlite:////data/x.db", "table": "orders"}, ("file", "/data/x.db.orders")),
        ({"path": "/data/x.parquet"}, ("file", "/data/x.parquet")),
        ({"conn_id": "pg", "table": "orders"}, ("postgres://db:5432", "shop.public.orders")),
    ],
)
def test_sides_are_named_as_other_tools_name_them(monkeypatch, side, named):
    """Two names for one table are two tables in a catalogue."""
    from airflow_delta_provider.core.spec import SideSpec
    from airflow_delta_provider.lineage import dataset_of

    conn = connection_text(conn_type="postgres", host="db", port=5432, login="u", password="p", schema="shop")
    monkeypatch.setenv("AIRFLOW_CONN_PG", conn)
    monkeypatch.setattr(
        "airflow.providers.postgres.hooks.postgres.PostgresHook.get_openlineage_default_schema", lambda self: "public"
    )
    assert dataset_of(SideSpec(**side), ("delta", "a label")) == named
