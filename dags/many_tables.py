"""Every table of one YAML list: a reconciliation and a gate for each, side by side.

Connections: ``legacy`` and ``new`` (the two databases), ``delta_store_default``.
"""

from pathlib import Path

import yaml
from airflow.sdk import dag

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile

TABLES = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text(encoding="utf-8"))


@dag(schedule="@daily", catchup=False, max_active_runs=1, max_active_tasks=8, tags=["delta"])
def many_tables():
    for each in TABLES:
        table = each["table"]
        sides = {side: {"conn_id": conn, "table": table} for side, conn in (("source", "legacy"), ("target", "new"))}
        compared = reconcile({"name": table, "key": each["key"], **sides}, group_id=table)
        CheckManifestOperator(
            task_id=f"gate_{table}", manifest=compared.manifest, fail={"records": each.get("limit", 0)}
        )


many_tables()
