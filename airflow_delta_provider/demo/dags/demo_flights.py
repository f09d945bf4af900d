"""The demo's Dag: hold the migrated flights against the original, sign the result, warn of what differs."""

from airflow.sdk import DAG

from airflow_delta_provider.operators.manifests import CheckManifestOperator
from airflow_delta_provider.task_groups import reconcile

SPEC = {
    "name": "flights",
    "schema_version": "2013-12",
    "source": {"conn_id": "flights_source", "table": "public.flights", "label": "postgresql:flights"},
    "target": {"conn_id": "flights_target", "table": "flights", "label": "duckdb:flights"},
    "key": ["time_hour", "carrier", "flight", "origin"],
}

with DAG("demo_flights", schedule=None, doc_md=__doc__, tags=["delta"]):
    flights = reconcile(SPEC, shards=4, signer_conn_id="delta_signer_default", verify=True)
    CheckManifestOperator(task_id="check", manifest=flights.manifest, warn={"records": 0})
