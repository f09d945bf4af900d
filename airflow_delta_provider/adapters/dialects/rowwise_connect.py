"""Connections through SQLAlchemy, and refusals that hold nothing of an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_delta_provider.core.errors import ConnectError, DeltaError, SideSchemeError


def connector(kind: str, uri: str) -> Callable[[], Any]:
    """Return what opens a connection from an SQLAlchemy URL. It raises ConnectError and SideSchemeError."""

    def connect() -> Any:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        return _refusing(kind, lambda: create_engine(uri, poolclass=NullPool).connect())

    return connect


def over(kind: str, engine: Any) -> Callable[[], Any]:
    """Return what opens a connection of an engine. It raises ConnectError and SideSchemeError."""
    return lambda: _refusing(kind, engine.connect)


def _refusing(kind: str, connect: Callable[[], Any]) -> Any:
    """Connect, or say which class of error came: the texts of drivers hold addresses."""
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

    refusal: DeltaError
    try:
        return connect()
    except (NoSuchModuleError, ImportError):
        refusal = SideSchemeError(
            f"{kind}:// needs the SQLAlchemy dialect of {kind} and its driver; install them.", where=kind
        )
    except ArgumentError:
        refusal = ConnectError(f"The {kind} address cannot be read; special characters must be percent-encoded.")
    except (SQLAlchemyError, OSError, ValueError, TypeError) as error:
        cause = getattr(error, "orig", None) or error
        refusal = ConnectError(f"{kind}: {type(cause).__name__} while connecting.", where=kind)
    raise refusal
