"""The pages inside a real ``airflow standalone``, found and used as a person would."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from browser import chromium, keep_picture, look, serious_findings

from airflow_delta_provider.demo import host as hosts

pytestmark = pytest.mark.nightly
DAG = """
from airflow.sdk import DAG
from airflow_delta_provider.task_groups import reconcile

SIDES = {name: {"conn_id": conn_id, "table": "t", "label": conn_id} for name, conn_id in (("source", "old"), ("target", "new"))}
with DAG("demo_flights", schedule=None) as dag:
    reconcile({"name": "orders", "key": ["id"], "shards": {"count": 1}, **SIDES})
"""


def fill(path: Path, name: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, name.format(number)) for number in range(200)])
    connection.commit()
    connection.close()


def wait_for(driver: Any, how: str, what: str) -> Any:
    from selenium.webdriver.support import expected_conditions as expected
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 120).until(expected.element_to_be_clickable((how, what)))


def log_in(driver: Any, address: str, password: str) -> None:
    driver.get(f"{address}/auth/login")
    wait_for(driver, "css selector", "input[name=username]").send_keys(hosts.USER)
    driver.find_element("css selector", "input[name=password]").send_keys(password)
    wait_for(driver, "css selector", "button[type=submit]").click()
    time.sleep(5)


def test_a_run_has_a_tab_that_leads_to_a_record(tmp_path):
    """Log in, open a run, find the tab, search a key, open its record: at both widths, in both themes."""
    fill(tmp_path / "old.db", "name {}")
    fill(tmp_path / "new.db", "name  {}")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "orders.py").write_text(DAG)
    connections: dict[str, Any] = {
        name: {"conn_type": "sqlite", "host": str(tmp_path / f"{name}.db")} for name in ("old", "new")
    }
    connections["delta_store_default"] = {"conn_type": "delta_store", "host": (tmp_path / "store").as_uri()}
    host = hosts.make_host(tmp_path / "home", connections, tmp_path / "dags")
    with hosts.standalone(host) as address, chromium() as driver:
        run_id = hosts.trigger(host, address)
        look(driver, 1280, "light")
        log_in(driver, address, hosts.password(host))
        driver.get(f"{address}/dags/{hosts.DAG_ID}/runs/{run_id}")
        wait_for(driver, "partial link text", "Reconciliations").click()
        driver.switch_to.frame(wait_for(driver, "css selector", "iframe"))
        assert "200 rows differ" in wait_for(driver, "css selector", ".verdict").text
        wait_for(driver, "css selector", "#key0").send_keys("123")
        wait_for(driver, "css selector", "form button").click()
        wait_for(driver, "partial link text", "Record 123").click()
        assert "Record 123" in wait_for(driver, "css selector", "h1").text
        for width in (400, 1280):
            for theme in ("light", "dark"):
                look(driver, width, theme)
                assert serious_findings(driver) == []
                keep_picture(driver, f"airflow-record-{width}-{theme}")
