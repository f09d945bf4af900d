"""A headless Chromium for tests, driven as a person would, and axe-core's view of a page."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import servers

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
HEIGHT = 1000
WAIT_S = 60
SERIOUS = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser with a profile of its own, quit at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    browser, driver = servers.require_program("chromium"), servers.require_program("chromedriver")
    with tempfile.TemporaryDirectory(prefix="delta-chromium-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        found = webdriver.Chrome(options=options, service=Service(driver))
        found.set_page_load_timeout(WAIT_S)
        found.set_script_timeout(WAIT_S)
        try:
            yield found
        finally:
            found.quit()


def look(driver: Any, width: int, theme: str) -> None:
    """Set the width of the page in pixels, and whether the system asks for ``light`` or ``dark``."""
    size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def wait_for(driver: Any, what: str, by: str = "css selector") -> Any:
    """Return an element once it can be clicked; where it does not come in time, the message ends with what is shown."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support import expected_conditions as expected
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        return WebDriverWait(driver, WAIT_S).until(expected.element_to_be_clickable((by, what)))
    except TimeoutException as error:
        keep_picture(driver, "missed")
        shown = driver.find_element("css selector", "body").text[:2000]
        raise AssertionError(f"waited {WAIT_S} s in vain for {what!r} at {driver.current_url}:\n{shown}") from error


def keep_picture(driver: Any, name: str) -> None:
    """Keep a picture of the page where ``DELTA_SCREENSHOTS`` names a folder."""
    folder = os.environ.get("DELTA_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        driver.save_screenshot(str(Path(folder) / f"{name}.png"))


def serious_findings(driver: Any) -> list[str]:
    """Return what axe-core finds serious or critical on the page: rule, and the elements it is about.

    The script goes in through the driver, as a page with a strict policy would refuse it as a script of its own.
    """
    driver.execute_script(axe_script())
    found = driver.execute_async_script("axe.run(document).then(arguments[arguments.length - 1])")
    return [
        f"{one['id']}: {json.dumps([node['html'][:200] for node in one['nodes'][:3]])}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


def axe_script() -> str:
    """Return axe-core's script, from the package that brings it; the package itself is not imported."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        servers.lacking("the package axe-playwright-python")
    return (Path(spec.origin).parent / "axe.min.js").read_text("utf-8")


def refused_by_policy(driver: Any) -> list[str]:
    """Return what the browser's console says about things that the page's policy forbids."""
    return [entry["message"] for entry in driver.get_log("browser") if "Content Security Policy" in entry["message"]]
