"""The table of results of the handed cases, after the tests have run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_WORDS = {"passed": "pass", "failed": "fail", "error": "fail", "skipped": "skip"}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the cases by outcome; write the whole table where DELTA_CASES_REPORT says."""
    rows = []
    for outcome, word in _WORDS.items():
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", []))
            if "case" in properties:
                covered = properties.get("covered", "") if word == "pass" else ""
                told = f"tested by {covered}" if covered else _reason(report)
                rows.append((properties["case"], "covered" if covered else word, properties.get("engines", "-"), told))
    if not rows:
        return
    rows.sort()
    counts = ", ".join(f"{sum(row[1] == word for row in rows)} {word}" for word in ("pass", "covered", "fail", "skip"))
    terminalreporter.write_line(f"handed cases: {counts}")
    target = os.environ.get("DELTA_CASES_REPORT")
    if target:
        Path(target).write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def _reason(report: Any) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ").replace("\n", " ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message).replace("\n", " ").replace("\t", " ")[:300] if crash else ""
