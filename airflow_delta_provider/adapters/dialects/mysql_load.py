"""What MySQL and MariaDB say of a read before it runs, and of their sessions and their replication."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider.adapters.dialects.mysql_catalog import flavour
from airflow_delta_provider.adapters.load import Explained, Load

_SESSIONS = """
SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND IN ('Query', 'Execute') AND ID <> CONNECTION_ID()
"""
_BEHIND = ("Seconds_Behind_Master", "Seconds_Behind_Source")


def limit(connection: Any, seconds: float) -> None:
    """Set the session's statement timeout: seconds in MariaDB, milliseconds in MySQL."""
    mariadb = flavour(connection).mariadb
    value = f"max_statement_time = {seconds}" if mariadb else f"max_execution_time = {max(1, round(seconds * 1000))}"
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION {value}")


def load(connection: Any) -> Load:
    """Return the other sessions that run a statement, and how far a replica is behind; a stopped one is infinitely so."""
    ((sessions,),) = [tuple(row.values()) for row in _named(connection, _SESSIONS)]
    shown = "SHOW ALL SLAVES STATUS" if flavour(connection).mariadb else "SHOW REPLICA STATUS"
    behind = [row.get(name) for row in _named(connection, shown) for name in _BEHIND if name in row]
    return Load(int(sessions), max((float("inf") if each is None else float(each) for each in behind), default=0.0))


def explained(connection: Any, text: str) -> Explained:
    """Return what the planner says of a SELECT; it tells no bytes."""
    rows = _named(connection, f"EXPLAIN {text}")
    counts = [int(row["rows"] or 0) for row in rows]
    sorted_rows = [count for row, count in zip(rows, counts, strict=True) if "Using filesort" in str(row["Extra"])]
    return Explained(sum(counts), None, max(sorted_rows, default=0))


def _named(connection: Any, text: str) -> list[dict[str, Any]]:
    from pymysql.cursors import DictCursor

    with connection.cursor(DictCursor) as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())
