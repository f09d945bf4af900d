"""Connections to PostgreSQL from a URI, a DSN or an SQLAlchemy URL, and refusals that hold no credentials."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from airflow_delta_provider.adapters.dialects.timeouts import split_timeout
from airflow_delta_provider.core.errors import ConnectError, DeltaError, SideMissingError, shown

CONNECT_TIMEOUT_S = 15
DEFAULTS = {
    "connect_timeout": str(CONNECT_TIMEOUT_S),
    "fallback_application_name": "airflow-delta",
    "keepalives_idle": "60",
    "keepalives_interval": "15",
    "keepalives_count": "4",
}
"""Parameters of a connection that its URI does not set; a silent server is given up after two minutes."""
_SCHEME = re.compile(r"^(postgresql|postgres)(\+\w+)?://", re.IGNORECASE)


def connector(uri: str) -> Callable[[], Any]:
    """Return what opens a connection: ``uri`` is any form that libpq takes (a URI, ``key=value`` pairs), or an
    SQLAlchemy URL, whose driver does not matter. ``statement_timeout_s`` in a URI limits each statement.

    The function raises ConnectError (DELTA_CONNECT) and SideMissingError (DELTA_SIDE_MISSING, no such database).
    """

    def connect() -> Any:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        address, timeout_ms = split_timeout(uri)
        plain = _SCHEME.sub("postgresql://", address)
        try:
            asked = conninfo_to_dict(plain)
        except psycopg.ProgrammingError:
            raise _unreadable() from None
        if not _plausible(asked):
            raise _unreadable()
        try:
            whole: dict[str, Any] = {**DEFAULTS, **asked, "client_encoding": "UTF8"}
            if timeout_ms is not None:
                whole["options"] = f"{whole.get('options', '')} -c statement_timeout={timeout_ms}".strip()
            return psycopg.connect(make_conninfo(**whole))
        except (psycopg.Error, UnicodeError) as error:
            refusal = _refusal(error, asked)
        raise refusal

    return connect


def _unreadable() -> ConnectError:
    return ConnectError("The PostgreSQL address cannot be read; special characters must be percent-encoded.")


def _plausible(asked: dict[str, Any]) -> bool:
    """Tell host and port from pieces of a password whose ``@``, ``:`` or ``/`` was not encoded."""
    ports = str(asked.get("port") or "").replace(",", "")
    host = str(asked.get("host") or "")
    return (not ports or ports.isdigit()) and (host.startswith(("/", "@")) or not set(host) & set("@/?# "))


def _refusal(error: BaseException, asked: dict[str, Any]) -> DeltaError:
    """Say host, port, database and the server's reason, without password."""
    where = f"PostgreSQL at {shown(asked.get('host') or 'the local socket')}:{asked.get('port') or 5432}"
    reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    reason = reason.rpartition("FATAL:")[2].strip() or reason
    for secret in ("password", "sslpassword", "passfile", "sslkey"):
        if asked.get(secret):
            reason = reason.replace(str(asked[secret]), "***")
    if f'database "{asked.get("dbname")}" does not exist' in reason:
        return SideMissingError(f"{where}: {reason[:200]}.", where=where)
    return ConnectError(f"{where}: {reason[:200]}.", where=where)
