"""Links to the page, assets that other Dags wait for, and what their events carry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow_runs import run_dag

pytestmark = pytest.mark.usefixtures("metadata")
DIGEST = "ab" * 32


def reconcile_dag(dag_id: str, **options: Any) -> Any:
    from airflow.sdk import DAG

    from airflow_delta_provider.operators.manifests import CheckManifestOperator
    from airflow_delta_provider.task_groups import reconcile

    spec = {
        "name": "orders",
        "source": {"conn_id": "old", "table": "orders", "label": "old:orders"},
        "target": {"conn_id": "new", "table": "orders", "label": "new:orders"},
        "key": ["id"],
        "shards": {"count": 1},
    }
    with DAG(dag_id) as dag:
        orders = reconcile(spec, **options)
        CheckManifestOperator(task_id="gate", manifest=orders.manifest)
    return dag


def test_a_manifest_has_a_button_even_where_the_gate_fails(world):
    """Whoever opens a red task wants the page that says why, in one click."""
    from airflow import settings
    from airflow.models.xcom import XComModel

    from airflow_delta_provider.links import manifest_of_link

    run = run_dag(reconcile_dag("linked"))
    assert run.of("gate") == "failed"
    rows = settings.Session().query(XComModel).filter_by(dag_id="linked", key="_link_ManifestLink").all()
    found = {row.task_id: manifest_of_link(XComModel.deserialize_value(row)) for row in rows}
    expected = (run.returned[("reconcile.merge", -1)], "delta_store_default")
    assert found == {"gate": expected, "reconcile.merge": expected}


def test_a_task_that_came_to_no_manifest_links_to_its_run(monkeypatch):
    """And the link holds below a base URL with a path, with everything in it encoded."""
    from airflow_delta_provider.links import ManifestLink, manifest_of_link

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/af/")
    operator = SimpleNamespace(manifest=None, store_conn_id="s")
    key = SimpleNamespace(dag_id="a&b", run_id="manual__2026-11-01T00:00:00+00:00")
    address = ManifestLink().get_link(operator, ti_key=key)
    assert address == "https://host/af/delta/run?dag_id=a%26b&run_id=manual__2026-11-01T00%3A00%3A00%2B00%3A00"
    assert manifest_of_link(address) is None
    operator.manifest = DIGEST
    assert manifest_of_link(ManifestLink().get_link(operator, ti_key=key)) == (DIGEST, "s")


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "",
        f"https://host/delta/manifest?manifest={DIGEST}",
        f"https://host/delta/manifest?manifest={DIGEST}&manifest={DIGEST}&store=s",
        f"https://host/delta/records?manifest={DIGEST}&store=s",
        f"https://host/delta/manifest?manifest={DIGEST.upper()}&store=s",
        "https://host/delta/manifest?manifest=../x&store=s",
        "https://[host/delta/manifest",
        "/delta/manifest?" + "&".join(f"a{number}=1" for number in range(99)),
    ],
)
def test_another_xcom_is_no_link_of_ours(value):
    """Whatever stands under the key, only what the link class makes counts."""
    from airflow_delta_provider.links import manifest_of_link

    assert manifest_of_link(value) is None


def test_an_assets_event_carries_digest_verdict_and_counts(world):
    """A Dag that waits for the asset decides by its event, without reading the store."""
    from airflow import settings
    from airflow.models.asset import AssetEvent

    from airflow_delta_provider.assets import manifest_asset

    run = run_dag(reconcile_dag("publishes", outlets=[manifest_asset("orders")]))
    (event,) = settings.Session().query(AssetEvent).filter_by(source_dag_id="publishes").all()
    digest = run.returned[("reconcile.merge", -1)]
    assert event.extra == {
        "digest": digest,
        "page": f"/delta/manifest?manifest={digest}&dag_id=publishes&store=delta_store_default",
        "verdict": "different",
        "counts": {
            "records": 10,
            "added": 1,
            "dropped": 1,
            "value_diverged": 8,
            "source_rows": 90,
            "target_rows": 90,
            "unchanged": 81,
        },
    }


def test_an_asset_has_one_address():
    """Two Dags that mean the same manifest must name the same asset; Airflow asks our package for it."""
    from airflow.sdk import Asset

    from airflow_delta_provider.assets import convert_asset_to_openlineage, manifest_asset

    asset = manifest_asset("orders", "eu_store")
    assert asset.uri == Asset("delta-manifest://eu_store/orders/").uri == "delta-manifest://eu_store/orders"
    found = convert_asset_to_openlineage(asset, None)
    assert (found.namespace, found.name) == ("delta-manifest://eu_store", "orders")


@pytest.mark.parametrize("address", ["//s", "//s/a/b", "//s/a?b=c", "//u@s/a", "///a", "//s/a b"])
def test_another_address_is_refused(address):
    """A Dag that waits for an address nobody publishes would wait for ever."""
    from airflow_delta_provider.assets import sanitize_uri

    with pytest.raises(ValueError, match="delta-manifest://<store connection>/<name"):
        sanitize_uri(urlsplit(f"delta-manifest:{address}"))
