"""After a migration: compare the old table with the new one, and stop the run where they differ.

Connections: ``legacy`` and ``new`` (the two databases), ``delta_store_default`` (where manifests go).
"""

from airflow.sdk import dag, task

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile


@dag(schedule=None, tags=["delta"])
def after_migration():
    @task
    def migrate():
        """Stands for the step that moves the data."""

    orders = reconcile(
        {
            "name": "orders",
            "source": {"conn_id": "legacy", "table": "orders"},
            "target": {"conn_id": "new", "table": "orders"},
            "key": ["id"],
        },
        group_id="orders",
        verify=True,
    )
    migrate() >> orders
    CheckManifestOperator(task_id="gate", manifest=orders.manifest, fail={"records": 0})


after_migration()
