"""Compare, and repair the new table once a person has approved it under "Required Actions".

Connections: ``legacy`` and ``new`` (the two databases), ``delta_store_default`` (where manifests and ledgers go).
"""

from datetime import timedelta

from airflow.sdk import dag

from airflow_delta_provider.task_groups import reconcile_and_patch


@dag(schedule=None, max_active_runs=1, tags=["delta"])
def approve_then_patch():
    reconcile_and_patch(
        {
            "name": "orders",
            "source": {"conn_id": "legacy", "table": "orders"},
            "target": {"conn_id": "new", "table": "orders"},
            "key": ["id"],
        },
        group_id="orders",
        patch_args={"max_share": "20%"},
        approval_args={"response_timeout": timedelta(days=1)},
    )


approve_then_patch()
