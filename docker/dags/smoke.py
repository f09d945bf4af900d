"""What docker/smoke.sh runs: PostgreSQL against MariaDB, three rows of a thousand that differ, in four shards."""

from datetime import timedelta

from airflow.sdk import dag

from airflow_delta_provider.task_groups import reconcile

SPEC = {
    "name": "smoke",
    "source": {"conn_id": "delta_source", "table": "orders", "label": "source"},
    "target": {"conn_id": "delta_target", "table": "orders", "label": "target"},
    "key": ["id"],
}


@dag(schedule=None)
def smoke():
    reconcile(SPEC, shards=4, verify=True, shard_args={"retries": 2, "retry_delay": timedelta(seconds=5)})


smoke()
