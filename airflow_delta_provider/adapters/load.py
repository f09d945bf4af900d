"""What a database server says of the work that a read would be, and of the work that it has already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from airflow_delta_provider.adapters.side import Request

__all__ = ["OUR_NAME", "Explained", "Load", "Server"]

OUR_NAME = "airflow-delta"
"""Name under which our own sessions are known to a server that knows sessions by name."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What the engine's planner says of one read: rows it would look at, their bytes where it tells, rows it would sort."""

    rows: int
    payload_bytes: int | None
    sorted_rows: int


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a server is: sessions of others that run a statement; how far a replica lags, infinite where it stopped.

    ``lag_s`` is that of the server itself where it is a replica, else that of its furthest replica; 0 without any.
    """

    sessions: int
    lag_s: float


@runtime_checkable
class Server(Protocol):
    """A side whose engine is a server with other users."""

    def limit_statements(self, seconds: float) -> None:
        """Let no statement of this side run longer. Raises, when the side is opened: SpecValueError where none can be limited."""
        ...

    def load(self) -> Load:
        """Return how busy the server is, asked over a connection of its own. Raises: SpecValueError where it cannot tell."""
        ...

    def explained(self, request: Request) -> Explained | None:
        """Return what the planner says of a read, None where it says nothing."""
        ...
