"""Every night: is the replica what the primary is? What differs is looked at again before it counts, as both are written to.

Connections: ``legacy`` (the primary), ``new`` (the replica), ``delta_store_default``. Pools: one for each side, so that
other Dags never add to its load; here Airflow's own.
"""

from datetime import timedelta

from airflow.sdk import dag

from airflow_delta_provider.assets import manifest_asset
from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile


@dag(schedule="@daily", catchup=False, max_active_runs=1, tags=["delta"])
def nightly_replica():
    orders = reconcile(
        {
            "name": "orders",
            "source": {"conn_id": "legacy", "table": "orders"},
            "target": {"conn_id": "new", "table": "orders"},
            "key": ["id"],
            "recheck": {"attempts": 2, "delay": "PT1S"},
        },
        group_id="orders",
        shards=2,
        shard_args={"pool": "default_pool", "retries": 2, "execution_timeout": timedelta(hours=1)},
        outlets=[manifest_asset("orders")],
    )
    CheckManifestOperator(task_id="gate", manifest=orders.manifest, fail={"records": 0}, warn={"structure": 0})


nightly_replica()
