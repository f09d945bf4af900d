"""From a side of a specification to a writer of its table, by way of an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import BaseHook
from airflow_delta_provider.core.errors import PatchSideError, SideSchemeError
from airflow_delta_provider.hooks.sides import mysql_address, postgres_dsn

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.writers.base import Writer
    from airflow_delta_provider.core.spec import SideSpec


def open_writer(spec: SideSpec) -> Writer:
    """Return the writer of a side's table: by its connection where it has a ``conn_id``, else as the command line does.

    Raises: PatchSideError (DELTA_PATCH_SIDE) for a query or files, SideSchemeError for a connection that nothing writes.
    """
    from airflow_delta_provider.adapters.writers import open as writers

    if spec.conn_id is None:
        return writers.open_writer(spec)
    if spec.query is not None or spec.table is None:
        raise PatchSideError("A query is read, never written.", where=spec.label)
    connection = BaseHook.get_connection(spec.conn_id)
    kind = connection.conn_type
    if kind == "mysql":
        return writers.open_writer(replace(spec, conn_id=None, uri=mysql_address(connection)))
    if kind not in CONNECTORS:
        raise SideSchemeError(
            f"connection {spec.conn_id} has type {kind}; written are duckdb, mysql, postgres, sqlite.", where="conn_id"
        )
    return writers.writer_of(kind, CONNECTORS[kind](connection), spec.table)


def _postgres(connection: Any) -> Callable[[], Any]:
    from airflow_delta_provider.adapters.dialects.postgresql_connect import connector

    return connector(postgres_dsn(connection))


def _sqlite(connection: Any) -> Callable[[], Any]:
    from airflow_delta_provider.adapters.writers.sqlite import connect_writable

    return connect_writable(connection.host or connection.schema or "")


def _duckdb(connection: Any) -> Callable[[], Any]:
    from airflow_delta_provider.adapters.writers.duckdb import connect_writable

    return connect_writable(connection.host or connection.schema or "")


CONNECTORS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "duckdb": _duckdb,
    "postgres": _postgres,
    "sqlite": _sqlite,
}
"""One line a type of connection: what gives a function that connects for writing."""
