"""A partner drops a file: compare it with the table that it was loaded into, and stop where a row got lost or changed.

Connections: ``drop`` (type fs: the folder), ``new`` (the database), ``delta_store_default``.
"""

from airflow.providers.standard.sensors.filesystem import FileSensor
from airflow.sdk import Param, dag

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile


@dag(schedule=None, max_active_runs=1, tags=["delta"], params={"file": Param("orders.csv", type="string")})
def file_drop():
    arrived = FileSensor(task_id="arrived", fs_conn_id="drop", filepath="{{ params.file }}", mode="reschedule")
    orders = reconcile(
        {
            "name": "orders_file",
            "source": {"path": "{{ conn.drop.extra_dejson.path }}/{{ params.file }}", "label": "partner"},
            "target": {"conn_id": "new", "table": "orders"},
            "key": ["id"],
            "csv": {"types": {"id": "int", "amount": "int"}},
        },
        group_id="orders",
    )
    gate = CheckManifestOperator(task_id="gate", manifest=orders.manifest, fail={"dropped": 0, "value_diverged": 0})
    arrived >> orders >> gate


file_drop()
