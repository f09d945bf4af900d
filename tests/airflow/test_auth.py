"""Who may see the pages in Airflow's UI: every route against every kind of caller (the table that Airflow's own rules give)."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from airflow_runs import connection_text
from airflow_site import BASE_PATH, SECRET, airflow_site

pytestmark = [pytest.mark.usefixtures("metadata"), pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, metadata: None) -> Any:
    """An API server with the plugin, and what three Dags published."""
    with airflow_site(tmp_path_factory.mktemp("site")) as found:
        yield found


def test_the_routes_are_these(site):
    """No documentation, no schema, no static files: each route is a page or its JSON."""
    names = ["download", "manifest", "manifest.json", "pair", "pair.json", "pairs", "pairs.json", "reconciliations",
             "reconciliations.json", "record", "record.json", "records", "records.json", "run", "task"]  # fmt: skip
    assert site.paths() == [f"{BASE_PATH}/delta/{name}" for name in names]
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
    for path in site.paths():
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
    for path in site.paths():
        headers = {"Authorization": f"Bearer {site.token('admin')}"}
        assert site.client.request(method, path, params=site.query(path), headers=headers).status_code == 405


def test_a_route_without_a_dag_answers_nothing(site):
    """Airflow takes a missing Dag for all Dags; here it is a mistake, and so are two."""
    for path in site.paths():
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
    for path in site.paths():
        found = site.get(path, **site.query(path))
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert (found.headers["x-content-type-options"], found.headers["cache-control"]) == ("nosniff", "no-store")
    refused = site.client.get(f"{BASE_PATH}/delta/pairs", params={"dag_id": "orders"})
    assert refused.headers["cache-control"] == "no-store"


def test_values_show_as_text_and_long_ones_cut(site):
    """Markup in a row is data; a megabyte of it neither breaks the page nor fills it."""
    page = site.get("/delta/records", **site.query("records")).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.replace("<mark>", "").replace("</mark>", "")
    assert page.count("<script>") == 1
    assert len(page) < 200_000


def test_masked_columns_stay_masked_on_every_route(site):
    """One page or one download that shows what the contract masks makes the masking worthless."""
    for path in site.paths():
        for form in ("jsonl", "csv", "html", "sql") if path.endswith("download") else ("",):
            found = site.get(path, **{**site.query(path, "masked"), "to": form})
            assert (path, form, found.status_code) == (path, form, 200)
            assert (path, form, SECRET in found.text) == (path, form, False)
    assert "keyed digest" in site.get("/delta/records", **site.query("records", "masked")).text


def test_everything_works_below_a_base_path(site):
    """Airflow behind a proxy has a path of its own: a link that leaves it leads nowhere, and so does a form."""
    for path in site.paths():
        found = site.get(path, **site.query(path))
        assert (path, found.status_code) == (path, 200)
        if "html" in found.headers["content-type"]:
            links = re.findall(r'(?:href|action|src)="([^"#][^"]*)"', found.text)
            reached = {urlsplit(urljoin(f"http://host{path}", html.unescape(link))).path for link in links}
            assert (path, [one for one in reached if not one.startswith(f"{BASE_PATH}/")]) == (path, [])
            assert links


def test_a_manifest_leads_to_its_task_and_its_asset(site):
    """Where it came from and who was told; the task is the one that published it, the asset one that may be seen."""
    page = site.get("/delta/manifest", **site.query("manifest")).text
    assert (
        f"../dags/orders/runs/{site.runs['orders'].replace(':', '%3A').replace('+', '%2B')}/tasks/reconcile.merge"
        in page
    )
    assert 'href="../assets/' in page
    found = site.get("/delta/manifest.json", **site.query("manifest.json")).json()
    assert [one["asset"] for one in found["asset_events"]] == ["delta-manifest delta_store_default orders"]


def test_what_waits_for_a_person_is_shown_to_whom_airflow_shows_it(site, monkeypatch):
    """The page says what to do next; who may not see approvals or assets in Airflow does not see them here."""
    from airflow import settings
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance

    session = settings.Session()
    asked = session.query(TaskInstance).filter_by(dag_id="orders", task_id="reconcile.plan").one()
    body = f"see /delta/manifest?manifest={site.manifest}&dag_id=orders"
    asked.state = "deferred"
    session.add(HITLDetail(ti_id=asked.id, options=["Approve", "Reject"], subject="Apply?", body=body, params={}))
    session.commit()
    query = site.query("manifest")
    assert "A patch waits for an approval" in site.get("/delta/manifest", **query).text
    assert "/tasks/reconcile.plan/required_actions" in site.get("/delta/run", **query).text

    manager = type(get_auth_manager())
    allowed = manager.is_authorized_dag

    def no_approvals(self: Any, *, access_entity: Any = None, **more: Any) -> bool:
        return access_entity != DagAccessEntity.HITL_DETAIL and allowed(self, access_entity=access_entity, **more)

    monkeypatch.setattr(manager, "is_authorized_dag", no_approvals)
    monkeypatch.setattr(manager, "is_authorized_asset", lambda self, **details: False)
    found = site.get("/delta/manifest.json", **site.query("manifest.json")).json()
    assert (found["approvals"], found["asset_events"]) == ([], [])
    page = site.get("/delta/manifest", **query).text
    assert "waits for an approval" not in page
    assert "../assets/" not in page


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
