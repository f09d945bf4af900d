"""Every night: what changed in a table since the last sweep, and one task for each record that did.

Connections: ``shop`` (the database), ``delta_store_default`` (where manifests and generations go).
"""

from airflow.sdk import dag, task

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import sweep


@dag(schedule="@daily", catchup=False, max_active_runs=1, tags=["delta"])
def nightly_changes():
    orders = sweep(
        {"name": "orders", "target": {"conn_id": "shop", "table": "orders"}, "key": ["id"]},
        group_id="orders",
        shards=2,
    )
    gate = CheckManifestOperator(task_id="gate", manifest=orders.manifest, fail={"dropped": "5%"})

    @task
    def changed(generation: str):
        """Keys are no secret here, so they may be mapped over; a sweep that found nothing maps over nothing."""
        from airflow_delta_provider.engine.sweep_changes import changed_keys
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        return [found.key for found in changed_keys(DeltaStoreHook().get_conn(), generation)]

    @task
    def index_again(key: list):
        """Stands for the work on one new or changed record."""

    keys = changed(orders.generation)
    gate >> keys
    index_again.expand(key=keys)


nightly_changes()
