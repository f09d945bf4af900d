"""What people are told of a manifest, over any channel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow_runs import run_dag

pytestmark = pytest.mark.usefixtures("metadata")
sent: list[str] = []


def channel(text: str) -> Any:
    """Return a notifier that keeps its text, as one of a provider would send it."""
    from airflow_delta_provider._compat import BaseNotifier

    class Kept(BaseNotifier):
        def notify(self, context: Any) -> None:
            sent.append(text)

    return Kept()


def test_a_message_says_what_where_and_how_much(world, monkeypatch):
    """Counts, the columns that differ most, and a link; no value of any row."""
    from airflow.sdk import DAG

    from airflow_delta_provider.notifications.manifest import ManifestNotifier
    from airflow_delta_provider.operators.manifests import CheckManifestOperator
    from airflow_delta_provider.task_groups import reconcile

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host")
    sent.clear()
    spec = {
        "name": "orders",
        "source": {"conn_id": "old", "table": "orders", "label": "old:orders"},
        "target": {"conn_id": "new", "table": "orders", "label": "new:orders"},
        "key": ["id"],
        "shards": {"count": 1},
    }
    with DAG("told") as dag:
        orders = reconcile(spec)
        CheckManifestOperator(task_id="gate", manifest=orders.manifest, on_failure_callback=ManifestNotifier(channel))
    digest = run_dag(dag).returned[("reconcile.merge", -1)]
    assert sent == [
        "orders: old:orders → new:orders\n"
        "10 rows differ (8 diverged, 1 dropped, 1 added)\n"
        "90 source rows, 90 target rows, 81 unchanged\n"
        "Most values diverge in amount (8)\n"
        f"Manifest {digest}\n"
        f"https://host/delta/manifest?manifest={digest}&dag_id=told&store=delta_store_default"
    ]


def test_no_manifest_is_told_as_no_verdict(monkeypatch):
    """Silence and success look alike in a chat."""
    from airflow_delta_provider.notifications.manifest import ManifestNotifier

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host")
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="merge", task=SimpleNamespace(manifest=None))
    context: Any = {"ti": ti}
    assert ManifestNotifier(channel).message(context) == (
        "d: task merge of run r came to no manifest, so there is no verdict.\nhttps://host/delta/run?dag_id=d&run_id=r"
    )
