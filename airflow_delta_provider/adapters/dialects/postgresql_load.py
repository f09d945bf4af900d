"""What PostgreSQL says of a read before it runs, and of its sessions and replicas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from airflow_delta_provider.adapters.load import OUR_NAME, Explained, Load

_LOAD = """
SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend'
AND application_name <> %s AND pid <> pg_catalog.pg_backend_pid()),
CASE WHEN NOT pg_catalog.pg_is_in_recovery()
THEN (SELECT COALESCE(max(extract(epoch FROM replay_lag)), 0) FROM pg_catalog.pg_stat_replication)
WHEN pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn() THEN 0
ELSE COALESCE(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()), 'Infinity')
END::float8
"""


def load(connection: Any) -> Load:
    """Return the sessions of others that run a statement, and the lag of replay."""
    sessions, lag_s = connection.execute(_LOAD, (OUR_NAME,)).fetchone()
    return Load(int(sessions), float(lag_s))


def explained(connection: Any, text: str) -> Explained:
    """Return what the planner says of a SELECT. An incremental sort holds no more than rows with one leading value."""
    found = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode()).fetchone()[0]
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    nodes = list(_nodes(plan))
    leaves = [node for node in nodes if not node.get("Plans")]
    return Explained(
        sum(int(node["Plan Rows"]) for node in leaves),
        sum(int(node["Plan Rows"]) * int(node["Plan Width"]) for node in leaves),
        max((int(node["Plan Rows"]) for node in nodes if node["Node Type"] == "Sort"), default=0),
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
