"""Connections to MySQL and MariaDB from a URI, and refusals that hold no credentials."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_delta_provider.adapters.dialects.timeouts import split_timeout
from airflow_delta_provider.core.errors import ConnectError, SideMissingError, shown

CONNECT_TIMEOUT_S = 15
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds before and between questions whether a silent peer is still there, and how many go unanswered."""
_PARAMETERS = (
    "unix_socket",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_verify_cert",
    "ssl_verify_identity",
    "charset",
    "ssl",
)
_FLAGS = ("ssl_verify_cert", "ssl_verify_identity")
UNKNOWN_DATABASE = 1049


def connector(uri: str) -> Callable[[], Any]:
    """Return what opens a connection: ``mysql://user:password@host:port/database?unix_socket=&ssl_ca=...``; a driver behind
    a plus sign does not matter. ``statement_timeout_s`` limits each statement.

    The function raises ConnectError (DELTA_CONNECT) and SideMissingError (DELTA_SIDE_MISSING, no such database).
    """

    def connect() -> Any:
        import pymysql

        address, timeout_ms = split_timeout(uri)
        asked = _parameters(address)
        where = f"MySQL at {shown(asked['host'])}:{asked['port']}"
        try:
            whole = {**asked, "password": asked["password"].encode()}  # the driver would encode it as Latin-1
            connection = pymysql.connect(**whole, charset="utf8mb4", connect_timeout=CONNECT_TIMEOUT_S)
            _prepare(connection, timeout_ms)
            return connection
        except (pymysql.err.Error, OSError, UnicodeError) as error:
            code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
            reason = shown(str(error.args[-1])) if code else type(error).__name__
        if asked["password"]:
            reason = reason.replace(asked["password"], "***")
        if code == UNKNOWN_DATABASE:
            raise SideMissingError(f"{where}: {reason} ({code}).", where=where)
        raise ConnectError(f"{where}: {reason}{f' ({code})' if code else ''}.", where=where)

    return connect


def _prepare(connection: Any, timeout_ms: int | None) -> None:
    """Notice within two minutes that a peer is gone, and limit each statement where the address says so."""
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option) and connection._sock.family != socket.AF_UNIX:
            connection._sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if timeout_ms is None:
        return
    mariadb = "mariadb" in str(connection.get_server_info()).lower()
    limit = f"max_statement_time = {timeout_ms / 1000}" if mariadb else f"max_execution_time = {timeout_ms}"
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION {limit}")


def _parameters(uri: str) -> dict[str, Any]:
    unreadable = ConnectError("The MySQL address cannot be read; special characters must be percent-encoded.")
    try:
        parts = urlsplit(uri)
        port = parts.port or 3306
    except ValueError:
        raise unreadable from None
    if parts.netloc.count("@") > 1 or parts.fragment:
        raise unreadable
    asked: dict[str, Any] = {
        "host": unquote(parts.hostname or "127.0.0.1"),
        "port": port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.lstrip("/")) or None,
    }
    for name, values in parse_qs(parts.query).items():
        if name in _PARAMETERS and name != "charset":
            asked[name] = values[-1].lower() in ("1", "true", "yes") if name in _FLAGS else values[-1]
    if asked.pop("ssl", "").lower() in ("1", "true", "yes"):
        asked["ssl"] = {}
    return asked
