"""From a side of a specification to a writer of its table."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from airflow_delta_provider.adapters.open import FILE_SCHEMES, local_path
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.core.errors import PatchSideError, SideSchemeError
from airflow_delta_provider.core.spec import SideSpec

Connect = Callable[[], Any]
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)(?:\+[A-Za-z0-9_.-]+)?://")
_HERE = "airflow_delta_provider.adapters"


def _file(kind: str) -> Callable[[str], Connect]:
    def connect(uri: str) -> Connect:
        found: Connect = import_module(f"{_HERE}.writers.{kind}").connect_writable(local_path(uri))
        return found

    return connect


def _server(kind: str) -> Callable[[str], Connect]:
    def connect(uri: str) -> Connect:
        found: Connect = import_module(f"{_HERE}.dialects.{kind}_connect").connector(uri)
        return found

    return connect


WRITERS: dict[str, tuple[str, Callable[[str], Connect]]] = {
    "sqlite": ("SqliteWriter", _file("sqlite")),
    "duckdb": ("DuckdbWriter", _file("duckdb")),
    "postgresql": ("PostgresqlWriter", _server("postgresql")),
    "mysql": ("MysqlWriter", _server("mysql")),
}
"""One line an engine: its writer, and what turns an address into a function that connects for writing."""
ALIASES = {"postgres": "postgresql", "mariadb": "mysql"}


def open_writer(spec: SideSpec) -> Writer:
    """Return the writer of a side's table; it connects when it is entered. ``spec`` has its ``${ENV}`` replaced.

    Raises: PatchSideError (DELTA_PATCH_SIDE) for a query or files; SideSchemeError for an address that nothing writes.
    """
    if spec.path is not None or spec.query is not None:
        raise PatchSideError("A query and files are read, never written.", where=spec.label)
    if spec.uri is None:
        raise SideSchemeError(f"The connection {spec.conn_id!r} is known to Airflow only: run it there, or give a uri.")
    match = _SCHEME.match(spec.uri)
    scheme = match[1].lower() if match else ""
    if scheme in FILE_SCHEMES:
        raise PatchSideError("A query and files are read, never written.", where=spec.label)
    kind = ALIASES.get(scheme, scheme)
    if kind not in WRITERS:
        raise SideSchemeError(f"No writer writes {scheme}://; {', '.join(sorted(WRITERS))} are written.")
    return writer_of(kind, WRITERS[kind][1](spec.uri), str(spec.table))


def writer_of(kind: str, connect: Connect, table: str) -> Writer:
    """Return a writer over connections that somebody else makes, such as an Airflow hook: ``connect`` gives a writable
    connection of the engine's own driver (sqlite3, duckdb, psycopg, pymysql), which the writer closes.

    Raises: SideSchemeError for another ``kind``.
    """
    kind = ALIASES.get(kind, kind)
    if kind not in WRITERS:
        raise SideSchemeError(f"No writer writes {kind}; {', '.join(sorted(WRITERS))} are written.")
    made: Writer = getattr(import_module(f"{_HERE}.writers.{kind}"), WRITERS[kind][0])(connect, table)
    return made
