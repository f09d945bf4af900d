"""Databases for the procedures, and the table of results of the handed cases after the tests have run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers

_WORDS = {"passed": "pass", "failed": "fail", "error": "fail", "skipped": "skip"}


@pytest.fixture(scope="module")
def postgresql(postgresql_server: servers.Server) -> Iterator[tuple[str, Any]]:
    """The URI of a database, and a connection to it."""
    import psycopg

    uri = postgresql_server.create_database()
    with psycopg.connect(uri, autocommit=True) as connection:
        yield uri, connection


@pytest.fixture(scope="module")
def mysql(mariadb_server: servers.Server) -> Iterator[tuple[str, Any]]:
    """The URI of a database, and a cursor in it."""
    from cases.writers import mysql_connection

    uri = mariadb_server.create_database()
    with mysql_connection(uri) as connection:
        yield uri, connection.cursor()


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
