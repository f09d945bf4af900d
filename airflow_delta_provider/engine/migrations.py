"""What a migration tool recorded: which revisions are applied, and whether one failed or is under way. Nothing is written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core.errors import InputPolicyError, SideReadError, SpecFieldError, SpecValueError, shown

Fetch = Callable[[str], Sequence[Sequence[Any]]]
"""Runs one SELECT and returns all its rows."""
RUN_RESULTS_BYTES_MAX = 256 * 2**20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*){0,2}")
_DBT_GOOD = frozenset({"success", "pass", "warn", "skipped", "no-op", "partial success"})
_DBT_READS = frozenset({"compile", "generate", "list", "parse", "show"})
"""Commands of dbt that write a run_results.json and build nothing."""
_FLYWAY_SCHEMA = "SCHEMA"
_FLYWAY_GONE = ("UNDO", "DELETE")
"""Types of rows by which Flyway takes a version back, or off the list."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """The state that a tool recorded.

    Shape: ``token`` tells one state from another, None where nothing was ever applied; ``revisions`` are the applied ones
    by name; ``unsettled`` says why the state is not to be relied on, empty where it is.
    """

    token: str | None
    revisions: frozenset[str] = frozenset()
    unsettled: str = ""

    def has(self, revision: str | None) -> bool:
        """Tell whether a revision is applied, or any at all for None, and nothing is under way or failed."""
        if self.unsettled or self.token is None:
            return False
        return revision is None or revision in self.revisions

    @property
    def digest(self) -> str:
        """The SHA-256 of the token, in hex."""
        return hashlib.sha256((self.token or "").encode()).hexdigest()


def read_database(tool: str, fetch: Fetch, *, table: str | None = None, query: str | None = None) -> Migrated:
    """Return what a tool recorded in a database.

    ``tool`` is one of TOOLS; ``table`` names its table where it is not the usual one, ``query`` is the SELECT of ``query``.
    Raises: SpecFieldError, SpecValueError, InputPolicyError for what does not go together; what ``fetch`` raises.
    """
    if tool not in TOOLS:
        raise InputPolicyError(f"{shown(tool)!r} is none of {', '.join(sorted((*TOOLS, 'dbt')))}.", where="tool")
    if (tool == "query") != (query is not None):
        raise SpecFieldError("A query goes with the tool query, and only with it.", where="query")
    if table is not None and not _NAME.fullmatch(table):
        raise SpecValueError(f"{shown(table)!r} is no plain table name.", where="table")
    usual, read = TOOLS[tool]
    return read(fetch, query if query is not None else table or usual)


def _alembic(fetch: Fetch, table: str) -> Migrated:
    heads = sorted(str(row[0]) for row in fetch(f"SELECT version_num FROM {table}"))
    return Migrated(",".join(heads) or None, frozenset(heads))


def _flyway(fetch: Fetch, table: str) -> Migrated:
    rows = fetch(f"SELECT installed_rank, version, description, type, success FROM {table} ORDER BY installed_rank")
    applied: dict[str, bool] = {}
    token = None
    for rank, version, description, kind, success in rows:
        name = str(description if version is None else version)
        if kind == _FLYWAY_SCHEMA:
            continue
        if str(kind).startswith(_FLYWAY_GONE) and _true(success):
            applied.pop(name, None)
        else:
            applied[name] = _true(success)
        token = f"{rank}:{name}" if _true(success) else token
    failed = [name for name, done in applied.items() if not done]
    names = frozenset(name for name, done in applied.items() if done)
    return Migrated(token if names else None, names, f"migration {failed[-1]} failed" if failed else "")


def _liquibase(fetch: Fetch, table: str) -> Migrated:
    rows = fetch(f"SELECT ID, AUTHOR, ORDEREXECUTED, EXECTYPE FROM {table} ORDER BY ORDEREXECUTED")
    good = [row for row in rows if str(row[3]) not in ("FAILED", "SKIPPED")]
    names = frozenset(name for row in good for name in (str(row[0]), f"{row[1]}:{row[0]}"))
    locked = any(_true(row[0]) for row in fetch(f"SELECT LOCKED FROM {table}LOCK"))
    token = f"{good[-1][2]}:{good[-1][1]}:{good[-1][0]}" if good else None
    return Migrated(token, names, "its lock is held" if locked else "")


def _django(fetch: Fetch, table: str) -> Migrated:
    rows = fetch(f"SELECT id, app, name FROM {table} ORDER BY id")
    names = frozenset(f"{row[1]}.{row[2]}" for row in rows)
    return Migrated(f"{rows[-1][0]}:{rows[-1][1]}.{rows[-1][2]}" if rows else None, names)


def _query(fetch: Fetch, query: str) -> Migrated:
    rows = fetch(query)
    value = rows[0][0] if rows and len(rows[0]) else None
    if value is None or value is False:
        return Migrated(None)
    return Migrated(str(value), frozenset({str(value)}))


TOOLS: Mapping[str, tuple[str, Callable[[Fetch, str], Migrated]]] = {
    "alembic": ("alembic_version", _alembic),
    "django": ("django_migrations", _django),
    "flyway": ("flyway_schema_history", _flyway),
    "liquibase": ("DATABASECHANGELOG", _liquibase),
    "query": ("", _query),
}
"""Tools that record in a database: their usual table, and how it is read."""


def read_dbt(data: bytes) -> Migrated:
    """Return what a ``run_results.json`` of dbt says; the token is the invocation, revisions are the nodes that succeeded.

    Raises: SideReadError (DELTA_SIDE_READ) for what is no such file: it may be half written, so it is worth a retry.
    """
    try:
        form = json.loads(data)
        token = str(form["metadata"]["invocation_id"])
        results = [(str(one["unique_id"]), str(one["status"])) for one in form["results"]]
        command = str((form.get("args") or {}).get("which"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SideReadError(f"The file is no run_results.json ({type(error).__name__}).", where="path") from error
    if command in _DBT_READS:
        return Migrated(None, unsettled=f"it is of dbt {command}, which builds nothing")
    bad = [name for name, status in results if status not in _DBT_GOOD]
    names = frozenset(name for name, status in results if status in _DBT_GOOD)
    return Migrated(token, names | {token}, f"{len(bad)} nodes did not succeed, {bad[0]} first" if bad else "")


def _true(value: Any) -> bool:
    """Tell whether a flag of a driver is set: MySQL's bit(1) comes as bytes, others as text."""
    if isinstance(value, bytes):
        return any(value)
    return str(value).lower() in ("1", "t", "true", "y") if isinstance(value, str) else bool(value)
