"""Airflow's API with our pages, over Dags that reconciled something; imported by tests of tests/airflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import connection_text, run_dag, write_table

BASE_PATH = "/af"
SECRET = "secret-cell"


def reconcile_dag(dag_id: str, name: str, outlets: Any = (), **more: Any) -> Any:
    """Return a Dag with one reconciliation of the two tables."""
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile

    spec = {
        "name": name,
        "source": {"conn_id": "old", "table": "orders", "label": "old:orders"},
        "target": {"conn_id": "new", "table": "orders", "label": "new:orders"},
        "key": ["id"],
        "shards": {"bounds": [[30], [60]]},
        **more,
    }
    with DAG(dag_id) as dag:
        reconcile(spec, outlets=list(outlets))
    return dag


@dataclass
class Site:
    """Airflow's API below a base path. ``manifests`` and ``runs`` are by Dag: ``orders``, ``secrets``, ``masked``."""

    client: Any
    app: Any
    manifests: dict[str, str]
    runs: dict[str, str]
    pairs: dict[str, str] = field(default_factory=dict)

    @property
    def manifest(self) -> str:
        """The manifest of the Dag ``orders``."""
        return self.manifests["orders"]

    @property
    def other(self) -> str:
        """The manifest of another Dag, in the same store."""
        return self.manifests["secrets"]

    def token(self, role: str | None) -> str:
        """Return a token of a user who has a role, or none."""
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role)))

    def get(self, path: str, role: str | None = "viewer", **query: str) -> Any:
        """Ask for a path, below the base path or not, as a user."""
        path = f"{BASE_PATH}{path.removeprefix(BASE_PATH)}"
        return self.client.get(path, params=query, headers={"Authorization": f"Bearer {self.token(role)}"})

    def query(self, path: str, dag_id: str = "orders") -> dict[str, str]:
        """Return a query that a route answers with 200."""
        members = {"dag_id": dag_id, "run_id": self.runs[dag_id], "task_id": "reconcile.merge"}
        more = {"map_index": "{MAP_INDEX}", "manifest": self.manifests[dag_id], "record": "0", "to": "jsonl"}
        return {} if "reconciliations" in path else {**members, **more, "pair": self.pairs[dag_id]}

    def paths(self) -> list[str]:
        """Return every route of the app, found in the app itself, so that a new one is in each table at once."""
        return sorted(f"{BASE_PATH}/delta{route.path}" for route in self.app.routes)


@contextmanager
def airflow_site(folder: Path) -> Iterator[Site]:
    """An API server with the plugin, and what three Dags published."""
    from airflow.api_fastapi import app as api
    from fastapi.testclient import TestClient

    from airflow_delta_provider.assets import manifest_asset
    from airflow_delta_provider.core import documents
    from airflow_delta_provider.core.store import blobs, open_store

    notes = {"old": "<script>alert(1)</script>", "new": "y"}
    for name, note in notes.items():
        rows = [(number, number, "x" * 1_000_000 if (name, number) == ("new", 7) else note) for number in range(90)]
        write_table(folder / f"{name}.db", rows)
        write_table(folder / f"{name}.db", [(n, n, f"{SECRET}-{name}") for n in range(90)], "people")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("old", "new"):
            conn = connection_text(conn_type="sqlite", host=str(folder / f"{name}.db"))
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", conn)
        store = connection_text(conn_type="delta_store", host=(folder / "store").as_uri())
        patch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)
        patch.setenv("AIRFLOW_CONN_HMAC", connection_text(conn_type="generic", password="ab" * 32))
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin")
        patch.setattr(api, "API_ROOT_PATH", f"{BASE_PATH}/")
        people = {
            name: {"conn_id": name_of, "table": "people"} for name, name_of in (("source", "old"), ("target", "new"))
        }
        masked = {**people, "sensitive": ["note"], "hmac": {"conn_id": "hmac"}}
        dags = {
            "orders": reconcile_dag("orders", "orders", [manifest_asset("orders")]),
            "secrets": reconcile_dag("secrets", "secrets"),
            "masked": reconcile_dag("masked", "masked", **masked),
        }
        runs = {dag_id: run_dag(dag) for dag_id, dag in dags.items()}
        manifests = {dag_id: str(run.returned[("reconcile.merge", -1)]) for dag_id, run in runs.items()}
        read = open_store(str(folder / "store"))
        pairs = {
            dag_id: documents.pair_id(**documents.parse_manifest(blobs.get_blob(read, digest))["pair"])
            for dag_id, digest in manifests.items()
        }
        app = api.create_app(apps="core")
        mounted = next(route.app for route in app.routes if getattr(route, "path", "") == "/delta")
        with TestClient(app) as client:
            yield Site(client, mounted, manifests, {dag_id: run.run_id for dag_id, run in runs.items()}, pairs)
