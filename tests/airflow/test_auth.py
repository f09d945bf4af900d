"""Who may see the pages in Airflow's UI: every route against every kind of caller (the table that Airflow's own rules give)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import connection_text, run_dag, write_table

pytestmark = [pytest.mark.usefixtures("metadata"), pytest.mark.slow]
BOUNDS: dict[str, Any] = {"bounds": [[30], [60]]}


def reconcile_dag(dag_id: str, name: str) -> Any:
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile

    spec = {
        "name": name,
        "source": {"conn_id": "old", "table": "orders", "label": "old:orders"},
        "target": {"conn_id": "new", "table": "orders", "label": "new:orders"},
        "key": ["id"],
        "shards": BOUNDS,
    }
    with DAG(dag_id) as dag:
        reconcile(spec)
    return dag


@dataclass
class Site:
    """Airflow's API with two Dags that published a manifest each, over stores of one connection."""

    client: Any
    app: Any
    manifest: str
    other: str
    run_id: str
    pair_id: str

    def token(self, role: str | None) -> str:
        """Return a token of a user who has a role, or none."""
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role)))

    def get(self, path: str, role: str | None = "viewer", **query: str) -> Any:
        """Ask as a user."""
        return self.client.get(path, params=query, headers={"Authorization": f"Bearer {self.token(role)}"})

    def query(self, path: str) -> dict[str, str]:
        """Return a query that a route answers with 200."""
        members = {"dag_id": "orders", "run_id": self.run_id, "task_id": "reconcile.merge", "map_index": "{MAP_INDEX}"}
        more = {"manifest": self.manifest, "record": "0", "to": "jsonl", "pair": self.pair_id}
        return {} if "reconciliations" in path else {**members, **more}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, metadata: None) -> Any:
    """An API server with the plugin, and what two Dags published."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    from airflow_delta_provider.core import documents
    from airflow_delta_provider.core.store import blobs, open_store

    folder: Path = tmp_path_factory.mktemp("site")
    write_table(folder / "old.db", [(number, number, "<script>alert(1)</script>") for number in range(90)])
    write_table(folder / "new.db", [(number, number, "x" * 1_000_000 if number == 7 else "y") for number in range(90)])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("old", "new"):
            conn = connection_text(conn_type="sqlite", host=str(folder / f"{name}.db"))
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", conn)
        store = connection_text(conn_type="delta_store", host=(folder / "store").as_uri())
        patch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin")
        runs = [run_dag(reconcile_dag("orders", "orders")), run_dag(reconcile_dag("secrets", "secrets"))]
        ours, other = (str(run.returned[("reconcile.merge", -1)]) for run in runs)
        pair = documents.parse_manifest(blobs.get_blob(open_store(str(folder / "store")), ours))["pair"]
        app = create_app(apps="core")
        mounted = next(route.app for route in app.routes if getattr(route, "path", "") == "/delta")
        with TestClient(app) as client:
            yield Site(client, mounted, ours, other, run_id_of("orders"), documents.pair_id(**pair))


def run_id_of(dag_id: str) -> str:
    from airflow import settings
    from airflow.models.dagrun import DagRun

    return str(settings.Session().query(DagRun).filter_by(dag_id=dag_id).order_by(DagRun.id.desc()).first().run_id)


def paths(site: Site) -> list[str]:
    """Return every route of the app, found in the app itself, so that a new one is in the table at once."""
    return sorted(f"/delta{route.path}" for route in site.app.routes)


def test_the_routes_are_these(site):
    """No documentation, no schema, no static files: each route is a page or its JSON."""
    names = ["download", "manifest", "manifest.json", "pair", "pair.json", "pairs", "pairs.json", "reconciliations",
             "reconciliations.json", "record", "record.json", "records", "records.json", "run", "task"]  # fmt: skip
    assert paths(site) == [f"/delta/{name}" for name in names]
    assert all(route.methods == {"GET"} for route in site.app.routes)


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        ("nobody", 401),
        ("garbage", 403),
        ("forged", 403),
        ("no role", 403),
        ("viewer", 200),
        ("user", 200),
        ("admin", 200),
        ("viewer by cookie", 200),
    ],
)
def test_every_route_asks_who_and_whether(site, caller, status):
    """A mounted app is open to everybody by default; one forgotten route would show rows to the world."""
    import jwt

    forged = jwt.encode({"sub": "admin", "role": "ADMIN", "exp": 2_000_000_000}, "k" * 64, "HS512")
    for path in paths(site):
        headers: dict[str, str] = {}
        cookies: dict[str, str] = {}
        if caller in ("garbage", "forged"):
            headers = {"Authorization": f"Bearer {forged if caller == 'forged' else 'x.y.z'}"}
        elif caller == "viewer by cookie":
            cookies = {"_token": site.token("viewer")}
        elif caller != "nobody":
            headers = {"Authorization": f"Bearer {site.token(None if caller == 'no role' else caller)}"}
        site.client.cookies.clear()
        site.client.cookies.update(cookies)
        found = site.client.get(path, params=site.query(path), headers=headers)
        site.client.cookies.clear()
        assert (path, found.status_code) == (path, status)
        if status != 200:
            assert "old:orders" not in found.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD"])
def test_nothing_can_be_done_here(site, method):
    """The pages read; an administrator has no more to do here than a viewer."""
    for path in paths(site):
        headers = {"Authorization": f"Bearer {site.token('admin')}"}
        assert site.client.request(method, path, params=site.query(path), headers=headers).status_code == 405


def test_a_route_without_a_dag_answers_nothing(site):
    """Airflow takes a missing Dag for all Dags; here it is a mistake, and so are two."""
    for path in paths(site):
        if "reconciliations" in path:
            continue
        query = site.query(path)
        del query["dag_id"]
        assert site.get(path, **query).status_code == 422
        assert site.get(path, **query, dag_id="~").status_code == 400
        assert site.get(path, **query, dag_id="").status_code == 400
        twice = [*query.items(), ("dag_id", "secrets"), ("dag_id", "orders")]
        headers = {"Authorization": f"Bearer {site.token('viewer')}"}
        assert site.client.get(path, params=twice, headers=headers).status_code == 400


@pytest.mark.parametrize("path", ["download", "manifest", "manifest.json", "record", "record.json", "records"])
def test_a_dag_shows_its_own_manifests_alone(site, path):
    """A digest is no password: one of another Dag, of the same store, or of a part of our own is not there."""
    asked = {**site.query(path), "manifest": site.other}
    assert site.get(f"/delta/{path}", **asked).status_code == 404
    assert site.get(f"/delta/{path}", **{**asked, "dag_id": "secrets"}).status_code == 200
    for digest in ("0" * 64, "latest", "../../etc/passwd", site.manifest.upper()):
        assert site.get(f"/delta/{path}", **{**asked, "manifest": digest}).status_code == 404


def test_a_user_of_one_dag_sees_that_dag_alone(site, monkeypatch):
    """The page over all Dags is cut by the same rule as the others."""
    from airflow.api_fastapi.app import get_auth_manager

    def only_secrets(self: Any, *, details: Any = None, **more: Any) -> bool:
        return details is not None and details.id == "secrets"

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", only_secrets)
    found = site.get("/delta/reconciliations.json")
    assert [one["pair"]["name"] for one in found.json()["pairs"]] == ["secrets"]
    assert site.get("/delta/reconciliations.json", dag_id="orders").json() == found.json()
    assert site.get("/delta/pairs", dag_id="orders").status_code == 403


def test_every_answer_forbids_what_a_page_does_not_need(site):
    """Whatever a cell holds, a browser neither runs nor loads it, nor keeps it."""
    for path in paths(site):
        found = site.get(path, **site.query(path))
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert (found.headers["x-content-type-options"], found.headers["cache-control"]) == ("nosniff", "no-store")
    refused = site.client.get("/delta/pairs", params={"dag_id": "orders"})
    assert refused.headers["cache-control"] == "no-store"


def test_values_show_as_text_and_long_ones_cut(site):
    """Markup in a row is data; a megabyte of it neither breaks the page nor fills it."""
    page = site.get("/delta/records", **site.query("records")).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.replace("<mark>", "").replace("</mark>", "")
    assert page.count("<script>") == 1
    assert len(page) < 200_000


def test_a_task_without_a_manifest_shows_those_of_its_run(site):
    """Whoever opens a shard wants to know what came of it."""
    query = {**site.query("task"), "task_id": "reconcile.shards.compare", "map_index": "1"}
    assert site.manifest in site.get("/delta/task", **query).text
    assert site.manifest in site.get("/delta/run", **site.query("run")).text
    assert "No manifest is published here yet" in site.get("/delta/run", **{**query, "run_id": "none"}).text


def test_a_link_is_no_way_to_other_connections(site, monkeypatch):
    """An XCom may be written by hand; it must not make the server open what is no store."""
    from airflow_delta_provider.core.errors import StoreMissingError
    from airflow_delta_provider.plugins.dagscope import open_store_of

    monkeypatch.setenv("AIRFLOW_CONN_FOLDER", connection_text(conn_type="fs", host="/etc"))
    for conn_id in ("folder", "no_such_connection"):
        with pytest.raises(StoreMissingError):
            open_store_of(conn_id)


def test_the_app_exists_in_the_api_server_alone(monkeypatch):
    """Schedulers and workers load every plugin too; FastAPI is no part of them. Without its guards the app does not load."""
    import sys

    from airflow_delta_provider.plugins.ui import DeltaUIPlugin

    monkeypatch.setattr(DeltaUIPlugin, "fastapi_apps", [])
    monkeypatch.delitem(sys.modules, "airflow.api_fastapi.app", raising=False)
    DeltaUIPlugin.on_load()
    assert DeltaUIPlugin.fastapi_apps == []
    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.app", object())
    monkeypatch.delitem(sys.modules, "airflow_delta_provider.plugins.app", raising=False)
    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.core_api.security", None)
    with pytest.raises(ImportError):
        DeltaUIPlugin.on_load()
    assert DeltaUIPlugin.fastapi_apps == []
