"""Take a patch back where its rows are still what it left, and prove the old state. Start it with the patch's id.

Connections: ``legacy`` and ``new`` (the two databases), ``delta_store_default`` (where manifests and ledgers are).
"""

from airflow.sdk import Param, dag

from airflow_delta_provider.operators.patches import RollbackPatchOperator


@dag(schedule=None, tags=["delta"], params={"patch": Param(type="string", pattern="^[0-9a-f]{64}$")})
def roll_back_patch():
    RollbackPatchOperator(
        task_id="roll_back",
        patch="{{ params.patch }}",
        spec={
            "name": "orders",
            "source": {"conn_id": "legacy", "table": "orders"},
            "target": {"conn_id": "new", "table": "orders"},
            "key": ["id"],
        },
    )


roll_back_patch()
