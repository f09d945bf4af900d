"""The pages inside a real ``airflow standalone``, found and used as a person would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow_rest import Rest
from airflow_runs import write_table
from browser import chromium, keep_picture, look, serious_findings, wait_for

from airflow_delta_provider.demo import host as hosts

pytestmark = pytest.mark.nightly
DAG_ID = "approve_then_patch"
DAG = Path(__file__).parents[2] / "dags" / f"{DAG_ID}.py"
APPROVE = "orders.approve"


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    """An Airflow with the Dag that patches after an approval; of 100 rows three diverge, one is dropped, one added."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / DAG.name).write_text(DAG.read_text())
    write_table(tmp_path / "legacy.db", [(number, number, f"name {number}") for number in range(100)])
    write_table(
        tmp_path / "new.db", [(number, number if number > 3 else -1, f"name {number}") for number in range(1, 101)]
    )
    connections: dict[str, Any] = {
        name: {"conn_type": "sqlite", "host": str(tmp_path / f"{name}.db")} for name in ("legacy", "new")
    }
    connections["delta_store_default"] = {"conn_type": "delta_store", "host": (tmp_path / "store").as_uri()}
    return hosts.make_host(tmp_path / "home", connections, tmp_path / "dags")


def log_in(driver: Any, address: str, password: str) -> None:
    driver.get(f"{address}/auth/login")
    wait_for(driver, "input[name=username]").send_keys(hosts.USER)
    driver.find_element("css selector", "input[name=password]").send_keys(password)
    wait_for(driver, "button[type=submit]").click()
    wait_for(driver, "a[href*='/dags']")


@contextmanager
def tab(driver: Any, name: str) -> Iterator[None]:
    """Open a tab of the page that Airflow shows, and be inside it."""
    wait_for(driver, name, by="partial link text").click()
    driver.switch_to.frame(wait_for(driver, "iframe"))
    try:
        yield
    finally:
        driver.switch_to.default_content()


def check_looks(driver: Any, name: str) -> None:
    """Both themes, in Airflow's frame at 1280 pixels, and alone at 400: a picture, and nothing that axe finds serious.

    Airflow's own frame has no room for a page on a phone; its links open ours alone.
    """
    look_at(driver, f"airflow-{name}", 1280)
    address, frame_of = driver.execute_script("return location.href"), driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(address)
    look_at(driver, f"airflow-{name}", 400)
    driver.close()
    driver.switch_to.window(frame_of)
    driver.switch_to.frame(wait_for(driver, "iframe"))


def look_at(driver: Any, name: str, width: int) -> None:
    for theme in ("dark", "light"):
        look(driver, width, theme)
        assert serious_findings(driver) == [], (name, width, theme)
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), (name, width)
        keep_picture(driver, f"{name}-{width}-{theme}")


def approve(driver: Any) -> None:
    """Follow the page to the question that Airflow asks, and approve."""
    wait_for(driver, "approve or reject it", by="partial link text").click()
    driver.switch_to.default_content()
    button = wait_for(driver, "//button[normalize-space()='Approve']", by="xpath")
    keep_picture(driver, "airflow-approve")
    button.click()


def test_a_person_finds_what_differs_approves_a_patch_and_sees_the_new_verdict(host):
    """Log in, open a run, find the tab, a key and its record; approve the patch; the same tab then says that no row differs."""
    with hosts.standalone(host) as address, chromium() as driver:
        rest = Rest(host, address)
        run_id = rest.start(DAG_ID)
        run = f"dags/{DAG_ID}/dagRuns/{run_id}"
        found = rest.wait_for_state(f"{run}/taskInstances/{APPROVE}", "awaiting_input", "deferred")
        assert found in ("awaiting_input", "deferred"), rest.told(run)
        look(driver, 1280, "light")
        log_in(driver, address, hosts.password(host))

        driver.get(f"{address}/dags/{DAG_ID}/runs/{run_id}")
        with tab(driver, "Reconciliations"):
            assert "5 rows differ" in wait_for(driver, ".verdict").text
            assert "Task orders.reconcile.merge of approve_then_patch" in wait_for(driver, "main").text
            check_looks(driver, "manifest")
            wait_for(driver, "#key0").send_keys("2")
            wait_for(driver, "form button").click()
            assert "The key is among the records." in wait_for(driver, "[role=status]").text
            wait_for(driver, "Record 2", by="partial link text").click()
            wait_for(driver, "#history")
            assert "id = 2" in wait_for(driver, ".record summary").text
            check_looks(driver, "record")

        driver.get(f"{address}/dags/{DAG_ID}/runs/{run_id}")
        with tab(driver, "Reconciliations"):
            approve(driver)
        assert rest.wait_for_state(run) == "success", rest.told(run)
        driver.get(f"{address}/dags/{DAG_ID}/runs/{run_id}")
        with tab(driver, "Reconciliations"):
            assert "no row differs" in wait_for(driver, ".verdict").text
            told = wait_for(driver, "main").text
            assert "5 rows differ; then a patch of the target, applied, approved by admin" in told
            check_looks(driver, "patched")
        driver.get(f"{address}/plugin/reconciliations")
        driver.switch_to.frame(wait_for(driver, "iframe"))
        assert "1 pair, none differs." in wait_for(driver, "main").text
        check_looks(driver, "pairs")
        driver.switch_to.default_content()
        driver.get(f"{address}/dags/{DAG_ID}/runs/{run_id}/tasks/orders.apply")
        with tab(driver, "Reconciliation"):
            assert "no row differs" in wait_for(driver, ".verdict").text
            wait_for(driver, "a[data-airflow]").click()
        wait_for(driver, "//*[normalize-space()='orders.apply']", by="xpath")
