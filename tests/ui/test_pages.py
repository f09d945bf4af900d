"""The pages in a real browser: found, searched, read by keyboard, at phone and desk width, in light and dark."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser import chromium, keep_picture, look, refused_by_policy, serious_findings

from airflow_delta_provider.cli import main
from airflow_delta_provider.cli.serve import pages
from airflow_delta_provider.core.store import open_store

pytestmark = pytest.mark.slow
MARKUP = "<script>document.title='owned'</script>"


@dataclass
class Site:
    """A store behind the served pages, and a browser before them."""

    driver: Any
    base: str
    manifest: str

    def open(self, page: str, **query: str) -> None:
        from urllib.parse import urlencode

        self.driver.get(f"{self.base}/{page}?{urlencode(query)}")

    def text(self, selector: str) -> str:
        return str(self.driver.find_element("css selector", selector).text)

    def click(self, text: str) -> None:
        self.driver.find_element("link text", text).click()

    def wait_until(self, told: str) -> None:
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 30, ignored_exceptions=[WebDriverException]).until(
            lambda _: told in self.text("[role=status]")
        )

    def wait_for(self, selector: str) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 30).until(lambda driver: driver.find_element("css selector", selector))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two manifests of one pair: 3,000 records, then 3,001; the last key holds markup and a long text."""
    folder = tmp_path_factory.mktemp("site")
    fill(folder / "s.db", [(number, f"name {number}", number) for number in range(3_000)])
    fill(folder / "t.db", [(number, f"name  {number}", number) for number in range(3_000)])
    run(folder)
    fill(folder / "t.db", [(9_999, f"{MARKUP}{'x' * 1_000_000}", 1)])
    manifest = run(folder)
    with pages(open_store(str(folder / "store")), 0) as server, chromium() as driver:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Site(driver, server.address.removesuffix("/pairs"), manifest)
        server.shutdown()


def fill(path: Path, rows: list[tuple[int, str, int]]) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()


def run(folder: Path) -> str:
    import contextlib
    import io

    sides = {
        name: {"uri": f"sqlite:///{folder}/{name[0]}.db", "table": "t", "label": label}
        for name, label in (("source", "legacy:orders"), ("target", "new:orders"))
    }
    (folder / "spec.json").write_text(json.dumps({"name": "orders", "key": ["id"], "inline_limit": 2_000_000, **sides}))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["run", str(folder / "spec.json"), "--store", str(folder / "store"), "--workers", "1", "--json"])
    return str(json.loads(out.getvalue())["manifest"])


def test_from_all_pairs_to_one_record(site):
    """The way that everybody goes: which pair, which manifest, which key, what exactly differs."""
    look(site.driver, 1280, "light")
    site.open("pairs")
    assert "3,001 rows differ" in site.text("tbody")
    assert "3,000 recurring, 1 new" in site.text("tbody")
    site.click("orders")
    cells = [cell.text for cell in site.driver.find_elements("css selector", "tbody tr:first-child td")]
    assert cells[4:6] == ["3,000", "1"]
    site.click(site.manifest[:12])
    assert "✗ 3,001 rows differ" in site.text(".verdict")
    assert "adds up" in site.text("main")
    field = site.wait_for("#key0")
    field.send_keys("1234")
    site.driver.find_element("css selector", "form button").click()
    first = site.wait_for(".record")
    assert "The key is among the records." in site.text("[role=status]")
    assert "id = 1234" in first.find_element("css selector", "summary").text
    marked = first.find_elements("css selector", "td[data-side=target] mark")
    assert [one.text for one in marked] == ["·"]
    site.click("Record 1,234: history of its key")
    history = [row.text for row in site.driver.find_elements("css selector", "section tbody tr")]
    assert len(history) == 2
    assert all("value diverged" in row for row in history)


def test_everything_can_be_reached_by_keyboard(site):
    """The slash leads to the search, Enter finds; n and p turn pages, but not while somebody types."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    site.open("manifest", manifest=site.manifest)
    ActionChains(site.driver).send_keys("/").perform()
    active = site.driver.switch_to.active_element
    assert active.get_attribute("id") == "key0"
    active.send_keys("9999", Keys.ENTER)
    site.wait_for("nav.crumbs li:nth-child(4)")
    assert "id = 9999" in site.text(".record summary")
    site.driver.find_element("css selector", "body").send_keys(Keys.TAB)
    assert site.driver.switch_to.active_element.get_attribute("class") == "skip"
    site.open("records", manifest=site.manifest)
    site.wait_for("#key0").send_keys("n")
    assert "Records 0 to 49" in site.text("[role=status]")
    site.open("records", manifest=site.manifest)
    for key, told in (("n", "Records 50 to 99"), ("n", "Records 100 to 149"), ("p", "Records 50 to 99")):
        site.driver.find_element("css selector", "body").send_keys(key)
        site.wait_until(told)


def test_markup_and_a_megabyte_show_as_text(site):
    """A value is data: it neither runs nor breaks the page, and its whole is in the downloads."""
    site.open("records", manifest=site.manifest, key="9999")
    shown = site.text(".record td[data-side=target]")
    assert MARKUP in shown
    assert "1,000,039 characters, shown are 1 to 800" in shown
    assert site.driver.title == "orders: records"
    assert refused_by_policy(site.driver) == []


def test_a_wrong_key_is_explained(site):
    """A mistake in the search is answered in words, with the code."""
    site.open("records", manifest=site.manifest, key="twelve")
    assert "DELTA_SPEC_VALUE" in site.text("main")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_every_page_suits_people_and_their_tools(site, width, theme):
    """Nothing to scroll sideways, nothing that axe finds serious, and the theme that was asked for."""
    look(site.driver, width, theme)
    ask = {
        "pairs": {},
        "manifest": {"manifest": site.manifest},
        "records": {"manifest": site.manifest, "category": "value_diverged"},
        "record": {"manifest": site.manifest, "record": "7"},
    }
    for page, query in ask.items():
        site.open(page, **query)
        ground = site.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (page, ground) == (page, {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 21, 27)"}[theme])
        assert site.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), page
        assert serious_findings(site.driver) == [], page
        keep_picture(site.driver, f"{page}-{width}-{theme}")
