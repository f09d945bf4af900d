"""From a side of a specification to an opened side: by the scheme of its address, or by the ending of its path."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from airflow_delta_provider.adapters.dialects.base import Dialect
from airflow_delta_provider.adapters.side import Side
from airflow_delta_provider.adapters.sql import SqlSide
from airflow_delta_provider.core.errors import SideMissingError, SideSchemeError, SpecFieldError
from airflow_delta_provider.core.spec import SideSpec

Connect = Callable[[], Any]
Engine = tuple[Dialect, Connect]
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)(?:\+[A-Za-z0-9_.-]+)?://")
FILE_SCHEMES = ("file", "s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss")
"""Schemes of an address that name files, read by the ending of their names."""


def _sqlite(uri: str) -> Engine:
    from airflow_delta_provider.adapters.dialects.sqlite import SqliteDialect, connect_file

    path = local_path(uri)
    return SqliteDialect(), lambda: connect_file(path)


def _duckdb(uri: str) -> Engine:
    from airflow_delta_provider.adapters.dialects.duckdb import DuckdbDialect, connect_file

    path = local_path(uri)
    return DuckdbDialect(), lambda: connect_file(path)


def _postgresql(uri: str) -> Engine:
    _need("psycopg", "postgresql", "postgres")
    dialect = import_module("airflow_delta_provider.adapters.dialects.postgresql").PostgresqlDialect()
    return dialect, import_module("airflow_delta_provider.adapters.dialects.postgresql_connect").connector(uri)


def _mysql(uri: str) -> Engine:
    _need("pymysql", "mysql", "mysql")
    dialect = import_module("airflow_delta_provider.adapters.dialects.mysql").MysqlDialect()
    return dialect, import_module("airflow_delta_provider.adapters.dialects.mysql_connect").connector(uri)


ROW_ENGINES = {
    "mssql": "MssqlDialect",
    "oracle": "OracleDialect",
    "snowflake": "SnowflakeDialect",
    "bigquery": "BigqueryDialect",
    "trino": "TrinoDialect",
}
"""Engines that are read row by row through SQLAlchemy; tested against recorded SQL only."""


def _rowwise(kind: str, uri: str) -> Engine:
    _need("sqlalchemy", kind, "sqlalchemy")
    dialect = getattr(import_module(f"airflow_delta_provider.adapters.dialects.{kind}"), ROW_ENGINES[kind])()
    return dialect, import_module("airflow_delta_provider.adapters.dialects.rowwise_connect").connector(kind, uri)


ENGINES: dict[str, Callable[[str], Engine]] = {
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "postgresql": _postgresql,
    "postgres": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
    **{kind: partial(_rowwise, kind) for kind in ROW_ENGINES},
}
"""One line a scheme: what turns an address into a dialect and a function that connects."""


def open_side(spec: SideSpec) -> Side:
    """Open one side; the connection is made when the side is first asked for something.

    ``spec.uri`` and ``spec.path`` have their ``${ENV}`` replaced.
    Raises: SideSchemeError for an address that no adapter reads (the message lists what is read, and holds nothing of the
    address but its scheme), SpecFieldError where table and query are missing, and what the file sides raise.
    """
    if spec.path is not None:
        return _files(spec.path, spec)
    if spec.uri is None:
        raise SideSchemeError(f"The connection {spec.conn_id!r} is known to Airflow only: run it there, or give a uri.")
    match = _SCHEME.match(spec.uri)
    if match is None:
        raise SideSchemeError(f"An address has no scheme; {_known()}.")
    scheme = match[1].lower()
    if scheme in FILE_SCHEMES:
        return _files(spec.uri, spec)
    engine = ENGINES.get(scheme)
    if engine is None:
        raise SideSchemeError(f"No adapter reads {scheme}://; {_known()}.")
    dialect, connect = engine(spec.uri)
    return sql_side(dialect, connect, table=spec.table, query=spec.query)


def open_connection(kind: str, connect: Connect, *, table: str | None = None, query: str | None = None) -> SqlSide:
    """Open a table or query over a connection that somebody else makes, such as an Airflow hook.

    ``kind``: ``sqlite``, ``duckdb``, ``postgresql`` or ``mysql``. ``connect`` gives a connection of that engine's own driver
    (sqlite3, duckdb, psycopg, PyMySQL), for the side alone: it is made read-only, and closed with the side. A hook that shares one DuckDB
    connection gives ``connection.cursor``.
    Raises: SideSchemeError, SpecFieldError.
    """
    if kind not in ENGINES:
        raise SideSchemeError(f"No adapter reads {kind}; {_known()}.")
    dialect, _ = ENGINES[kind](f"{kind}:///:memory:")
    return sql_side(dialect, connect, table=table, query=query)


def open_sqlalchemy(engine: Any, *, table: str | None = None, query: str | None = None) -> SqlSide:
    """Open a table or query of an SQLAlchemy engine that somebody else made, such as an Airflow hook.

    Engines that have a reader of their own here are opened by it, at the engine's address; the others are read row by row
    over a connection of the engine, which stays the caller's.
    Raises: SideSchemeError, SpecFieldError.
    """
    kind = str(engine.dialect.name)
    if kind not in ENGINES:
        raise SideSchemeError(f"No adapter reads {kind}; {_known()}.")
    dialect, connect = ENGINES[kind](engine.url.render_as_string(hide_password=False))
    if kind in ROW_ENGINES:
        connect = import_module("airflow_delta_provider.adapters.dialects.rowwise_connect").over(kind, engine)
    return sql_side(dialect, connect, table=table, query=query)


def sql_side(dialect: Dialect, connect: Connect, *, table: str | None, query: str | None) -> SqlSide:
    """Return the side of a table or a query. Raises: SpecFieldError unless exactly one of them is given."""
    if (table is None) == (query is None):
        raise SpecFieldError("A database needs table or query, one of them.")
    if not (table or query or "").strip():
        raise SpecFieldError("The table or query is empty.")
    return SqlSide(dialect, connect, table=table, query=query)


def local_path(uri: str) -> str:
    """Return the path of a database file in an address: three slashes and a relative path, four and an absolute one.

    The text as it stands wins where such a file exists; else percent signs are decoded and a query part is left out.
    Raises: SideMissingError for an address without a path.
    """
    text = uri.partition("://")[2].removeprefix("/")
    if text == ":memory:":
        return text
    if not text:
        raise SideMissingError("The address of a database file names no file: write sqlite:///folder/file.db.")
    if Path(text).is_file():
        return text
    return unquote(text.partition("?")[0])


def _files(path: str, spec: SideSpec) -> Side:
    if spec.table is not None or spec.query is not None:
        raise SpecFieldError("A side of files has no table and no query.")
    from airflow_delta_provider.adapters.files import open_file_side

    return open_file_side(path, spec.options)


def _known() -> str:
    schemes = ", ".join(sorted(ENGINES))
    return f"{schemes} and files are read (pip install 'airflow-delta-provider[postgres]' for PostgreSQL)"


def _need(module: str, engine: str, extra: str) -> None:
    try:
        import_module(module)
    except ImportError:
        raise SideSchemeError(
            f"{engine} needs {module}: pip install 'airflow-delta-provider[{extra}]'.", where=engine
        ) from None
