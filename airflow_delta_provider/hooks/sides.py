"""From a side of a specification to an opened side, by way of an Airflow connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from airflow_delta_provider._compat import AirflowException, BaseHook
from airflow_delta_provider.core.errors import SideSchemeError, SpecValueError

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.side import Side
    from airflow_delta_provider.core.spec import SideSpec, Spec

POSTGRES_IGNORED = frozenset(
    {"iam", "redshift", "redshift-serverless", "cluster-identifier", "workgroup-name", "cursor", "aws_conn_id"}
    | {"sqlalchemy_scheme", "sqlalchemy_query", "azure_conn_id", "region_name"}
)
"""Extras of a PostgreSQL connection that are for Airflow's hook and not for the server."""
MYSQL_IGNORED = frozenset({"cursor", "client", "aws_conn_id", "region_name", "sqlalchemy_scheme", "sqlalchemy_query"})
"""Extras of a MySQL connection by which Airflow's hook picks a driver, its cursors, or who asks for an IAM token."""
MYSQL_TLS = {
    "ca": "ssl_ca",
    "cert": "ssl_cert",
    "key": "ssl_key",
    "check_hostname": "ssl_verify_identity",
    "verify_mode": "ssl_verify_cert",
    "mode": "ssl_mode",
}
"""Members of a MySQL connection's extra ``ssl``, and the parameters that they mean."""


def open_side(spec: SideSpec) -> Side:
    """Open one side: by its connection where it has a ``conn_id``, else as the command line does.

    Connections of type postgres, sqlite, duckdb and mysql are read by our own adapters; so is any other whose hook gives
    an SQLAlchemy URL of one of these engines.
    Raises: SideSchemeError (DELTA_SIDE_SCHEME) for other connections, and what the adapters raise.
    """
    from airflow_delta_provider.adapters import open as adapters

    if spec.conn_id is None:
        return adapters.open_side(spec)
    connection = BaseHook.get_connection(spec.conn_id)
    opener = OPENERS.get(connection.conn_type)
    if opener is not None:
        return opener(connection, spec)
    return adapters.open_side(replace(spec, conn_id=None, uri=_hook_address(connection, spec.conn_id)))


def refuse_passwords(spec: Spec) -> None:
    """Refuse a ``uri`` that holds a password in clear: it would be stored with the plan, and shown with the Dag.

    Raises: SpecValueError (DELTA_SPEC_VALUE).
    """
    for name, side in (("source", spec.source), ("target", spec.target)):
        if side is not None and side.uri is not None and _has_password(side.uri):
            raise SpecValueError(
                f"{name}.uri holds a password in clear; use a conn_id, or ${{NAME}} of the environment.",
                where=f"{name}.uri",
            )


def _has_password(uri: str) -> bool:
    from airflow_delta_provider.core.spec import ENV

    parts = urlsplit(ENV.sub("", uri))
    queried = [value for name, value in parse_qsl(parts.query) if "password" in name.lower() or name == "passwd"]
    userinfo = parts.netloc.rpartition("@")[0]
    return bool(userinfo.partition(":")[2]) or any(queried)


def _postgres(connection: Any, spec: SideSpec) -> Side:
    """Open PostgreSQL by the fields of a connection, each quoted as libpq wants it; no URL is built."""
    from airflow_delta_provider.adapters import open as adapters

    def connect() -> Any:
        from airflow_delta_provider.adapters.dialects.postgresql_connect import connector

        return connector(postgres_dsn(connection))()

    return adapters.open_connection("postgresql", connect, table=spec.table, query=spec.query)


def postgres_dsn(connection: Any) -> str:
    """Return the ``key=value`` text for libpq of a connection, its extras among it.

    Raises: SpecValueError (DELTA_SPEC_VALUE) for an extra that libpq does not know, or that is a list or a map.
    """
    from psycopg.conninfo import make_conninfo

    extra = connection.extra_dejson
    login, password, port = connection.login, connection.password, connection.port
    if extra.get("iam"):
        login, password, port = connection.get_hook().get_iam_token(connection)
    fields = {"host": connection.host, "port": port, "user": login, "password": password, "dbname": connection.schema}
    fields |= {name: _postgres_extra(name, value) for name, value in extra.items() if name not in POSTGRES_IGNORED}
    return str(make_conninfo(**{name: str(value) for name, value in fields.items() if value not in (None, "")}))


def _postgres_extra(name: str, value: Any) -> str | None:
    """Return one extra of a connection as libpq takes it. Raises: SpecValueError naming one that it does not know."""
    from psycopg.pq import Conninfo

    if name not in {option.keyword.decode() for option in Conninfo.get_defaults()}:
        raise SpecValueError(
            f"the connection's extra {name!r} is no parameter of PostgreSQL's client.", where="conn_id"
        )
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, int | float):
        raise SpecValueError(f"the connection's extra {name!r} is neither a text nor a number.", where="conn_id")
    return str(value)


def _sqlite(connection: Any, spec: SideSpec) -> Side:
    from airflow_delta_provider.adapters import open as adapters
    from airflow_delta_provider.adapters.dialects.sqlite import connect_file

    path = _file(connection, spec)
    return adapters.open_connection("sqlite", lambda: connect_file(path), table=spec.table, query=spec.query)


def _duckdb(connection: Any, spec: SideSpec) -> Side:
    """Open a DuckDB file for reading; a connection with settings of its own is made by its hook."""
    from airflow_delta_provider.adapters import open as adapters
    from airflow_delta_provider.adapters.dialects.duckdb import connect_file

    connect: Callable[[], Any]
    if connection.extra_dejson or not connection.host:
        connect = connection.get_hook().get_conn
    else:
        path = _file(connection, spec)

        def connect() -> Any:
            return connect_file(path)

    return adapters.open_connection("duckdb", connect, table=spec.table, query=spec.query)


def _mysql(connection: Any, spec: SideSpec) -> Side:
    from airflow_delta_provider.adapters import open as adapters

    return adapters.open_side(replace(spec, conn_id=None, uri=mysql_address(connection)))


def mysql_address(connection: Any) -> str:
    """Return the address of a MySQL or MariaDB server, every part percent-encoded, with what its extras say.

    Raises: SpecValueError (DELTA_SPEC_VALUE) for an extra that is not known here: one that is dropped in silence could be
    what protects the line.
    """
    login = quote(connection.login or "", safe="")
    password = f":{quote(connection.password, safe='')}" if connection.password else ""
    port = f":{connection.port}" if connection.port else ""
    user = f"{login}{password}@" if login or password else ""
    said = _mysql_extras(connection.extra_dejson)
    query = f"?{urlencode(said, quote_via=quote, safe='')}" if said else ""
    return f"mysql://{user}{connection.host or 'localhost'}{port}/{quote(connection.schema or '', safe='')}{query}"


def _mysql_extras(extra: dict[str, Any]) -> dict[str, str]:
    """Return the parameters of an address that a connection's extras mean; ``ssl`` may be a map, or its JSON text."""
    from airflow_delta_provider.adapters.dialects.mysql_connect import PARAMETERS

    said: dict[str, Any] = {}
    for name, value in extra.items():
        if name in MYSQL_IGNORED or value is None:
            continue
        if name not in (*PARAMETERS, "statement_timeout_s"):
            raise SpecValueError(
                f"the connection's extra {name!r} is no parameter of a MySQL connection here.", where="conn_id"
            )
        if name == "ssl" and isinstance(value, str) and value.strip().startswith("{"):
            value = _json_map(value)
        said |= _mysql_tls(value) if name == "ssl" and isinstance(value, dict) else {name: value}
    for name, value in said.items():
        if not isinstance(value, str | bool | int | float):
            raise SpecValueError(f"the connection's extra {name!r} is neither a text nor a number.", where="conn_id")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in said.items()}


def _json_map(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise SpecValueError("the connection's extra 'ssl' is no JSON.", where="conn_id") from None


def _mysql_tls(members: dict[str, Any]) -> dict[str, Any]:
    """Return what the map ``ssl`` of a MySQL connection means; a host's name is checked unless it says otherwise."""
    unknown = sorted(members.keys() - MYSQL_TLS.keys())
    if unknown:
        raise SpecValueError(
            f"the connection's extra ssl has a member {unknown[0]!r}; known are {', '.join(MYSQL_TLS)}.",
            where="conn_id",
        )
    said = {MYSQL_TLS[name]: value for name, value in members.items()}
    if "ssl_verify_cert" in said and not isinstance(said["ssl_verify_cert"], bool):
        said["ssl_verify_cert"] = str(said["ssl_verify_cert"]).lower() not in ("none", "0", "false", "no")
    checked = "ssl_ca" in said and said.get("ssl_verify_cert", True)
    return {"ssl": True, "ssl_verify_identity": bool(checked)} | said


def _file(connection: Any, spec: SideSpec) -> str:
    path = connection.host or connection.schema
    if not path:
        raise SpecValueError(f"connection {spec.conn_id} names no file: write its path as the host.", where="conn_id")
    return str(path)


def _hook_address(connection: Any, conn_id: str) -> str:
    """Return the address that a connection's hook gives, if it is of an engine that our adapters read."""
    from airflow_delta_provider.adapters.open import ENGINES, ROW_ENGINES

    known = f"connection {conn_id} has type {connection.conn_type}; read are {', '.join(sorted(OPENERS))}"
    if connection.conn_type == "generic":
        raise SideSchemeError(f"{known}.", where="conn_id")
    try:
        url = getattr(connection.get_hook(), "sqlalchemy_url", None)
    except (AirflowException, NotImplementedError, ImportError, ValueError) as error:  # the second: a hook without URL
        raise SideSchemeError(
            f"{known}, and its hook gives no address ({type(error).__name__}).", where="conn_id"
        ) from None
    engine = "" if url is None else str(url.get_backend_name())
    if url is None or engine not in ENGINES:
        raise SideSchemeError(f"{known}, and hooks that give an SQLAlchemy URL of one of these.", where="conn_id")
    if engine in ROW_ENGINES:
        return str(url.render_as_string(hide_password=False))
    return f"{engine}://" + str(url.render_as_string(hide_password=False)).partition("://")[2]


OPENERS: dict[str, Callable[[Any, SideSpec], Side]] = {
    "duckdb": _duckdb,
    "mysql": _mysql,
    "postgres": _postgres,
    "sqlite": _sqlite,
}
"""One line a type of connection: what opens a side over it."""
