"""Connections to MySQL and MariaDB from a URI, and refusals that hold no credentials."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_delta_provider.adapters.dialects.timeouts import split_timeout
from airflow_delta_provider.core.errors import ConnectError, SideMissingError, shown

CONNECT_TIMEOUT_S = 15
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds before and between questions whether a silent peer is still there, and how many go unanswered."""
TLS = ("ssl", "ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity")
TIMEOUTS = ("connect_timeout", "read_timeout", "write_timeout")
PARAMETERS = (*TLS, *TIMEOUTS, "unix_socket", "charset", "local_infile")
"""What an address may say behind its question mark. ``charset`` and ``local_infile`` change nothing: all text travels as
utf8mb4, and no file is ever loaded."""
TLS_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
"""As MySQL's own client has them; without any, encryption is taken where the server offers it."""
TIMEOUT_S_MAX = 10**6
UNKNOWN_DATABASE = 1049


def connector(uri: str) -> Callable[[], Any]:
    """Return what opens a connection: ``mysql://user:password@host:port/database?unix_socket=&ssl_ca=...``; a driver behind
    a plus sign does not matter. ``statement_timeout_s`` limits each statement; the other parameters are ``PARAMETERS``.

    The function raises ConnectError (DELTA_CONNECT) and SideMissingError (DELTA_SIDE_MISSING, no such database).
    """

    def connect() -> Any:
        import pymysql

        address, timeout_ms = split_timeout(uri)
        asked = _parameters(address)
        where = f"MySQL at {shown(asked['host'])}:{asked['port']}"
        try:
            whole = {"connect_timeout": CONNECT_TIMEOUT_S, **asked, "charset": "utf8mb4"}
            whole["password"] = asked["password"].encode()  # the driver would encode it as Latin-1
            connection = pymysql.connect(**whole)
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
    said = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if not said.keys() <= set(PARAMETERS):
        # Not named: behind a question mark that was not escaped, it may be part of the password.
        raise ConnectError(
            f"The MySQL address has a parameter that is not known; known are {', '.join(PARAMETERS)}."
            " A question mark that belongs to the password is written %3F."
        )
    if "unix_socket" in said:
        asked["unix_socket"] = said["unix_socket"]
    return asked | {name: _seconds(name, said[name]) for name in TIMEOUTS if name in said} | _tls(said)


def _seconds(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= TIMEOUT_S_MAX):
        raise ConnectError(f"{name} is a whole number of seconds from 1 to {TIMEOUT_S_MAX}.")
    return int(text)


def _tls(said: dict[str, str]) -> dict[str, Any]:
    """Return the driver's parameters for encryption: none, none at all, or a context that insists on it.

    A certificate of an authority is there to be checked against, so it implies ``verify_ca``. The driver's own parameters
    are not used: it checks nothing where only ``ssl_ca`` is given, and no name where there is none.
    """
    mode = said.get("ssl_mode", "").lower().replace("-", "_")
    if mode and mode not in TLS_MODES:
        raise ConnectError(f"ssl_mode is one of {', '.join(TLS_MODES)}.")
    identity = mode == "verify_identity" or _flag(said, "ssl_verify_identity")
    verify = identity or mode == "verify_ca" or _flag(said, "ssl_verify_cert", "ssl_ca" in said)
    insisted = verify or mode == "required" or _flag(said, "ssl") or "ssl_cert" in said or "ssl_key" in said
    if mode == "disabled" or not insisted:
        return {"ssl_disabled": True} if mode == "disabled" else {}
    try:
        context = ssl.create_default_context(cafile=said.get("ssl_ca"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the certificates that servers make for themselves fail it
        context.check_hostname = identity
        context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
        if "ssl_cert" in said or "ssl_key" in said:
            context.load_cert_chain(said.get("ssl_cert") or said["ssl_key"], said.get("ssl_key"))
    except OSError as error:
        named = ", ".join(name for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in said)
        raise ConnectError(f"{named}: no usable PEM file ({type(error).__name__}).") from None
    return {"ssl": context}


def _flag(said: dict[str, str], name: str, otherwise: bool = False) -> bool:
    return said[name].lower() in ("1", "true", "yes") if name in said else otherwise
