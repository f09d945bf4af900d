"""Thresholds and a branch: a few late rows are normal, a wrong amount never is, and what is between goes to a person."""

from airflow.sdk import Param, dag, task

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile


@dag(schedule="@daily", catchup=False, tags=["delta"], params={"since": Param("1")})
def thresholds_and_branch():
    orders = reconcile("orders.yaml", group_id="orders", shards=2, shard_args={"retries": 2})
    gate = CheckManifestOperator(
        task_id="gate",
        manifest=orders.manifest,
        fail={"columns.amount": 0, "structure.column_dropped": 0, "records": "20%"},
        branch={"records": 0},
        beyond="ask_a_person",
        within="report",
        warn={"dropped": 5},
    )

    @task
    def ask_a_person(manifest: str):
        """Stands for an approval; the manifest id is all it needs."""

    @task
    def report(manifest: str):
        """Stands for a message that all is well."""

    gate >> [ask_a_person(orders.manifest), report(orders.manifest)]


thresholds_and_branch()
