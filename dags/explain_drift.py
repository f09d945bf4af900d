"""Every night: sweep a table, and where it changed, tell column by column how, from the two states that a history holds.

Connections: ``shop`` (the database with ``orders`` and ``orders_history``), ``delta_store_default``.
"""

from airflow.sdk import Param, dag

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile, sweep


def state(day: str) -> dict:
    query = f"SELECT id, amount, note FROM orders_history WHERE day = '{{{{ params.{day} }}}}'"
    return {"conn_id": "shop", "query": query, "label": f"orders, {day}"}


@dag(
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["delta"],
    params={name: Param("2026-01-01", format="date", type="string") for name in ("before", "after")},
)
def explain_drift():
    orders = sweep(
        {"name": "orders", "target": {"conn_id": "shop", "table": "orders"}, "key": ["id"]}, group_id="orders"
    )
    changed = CheckManifestOperator(
        task_id="changed", manifest=orders.manifest, branch={"value_diverged": 0}, beyond="drift.plan"
    )
    drift = reconcile(
        {"name": "orders_drift", "source": state("before"), "target": state("after"), "key": ["id"]},
        group_id="drift",
    )
    changed >> drift


explain_drift()
