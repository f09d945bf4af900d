"""From two connections to whether the one has replayed what the other had written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from airflow_delta_provider._compat import BaseHook
from airflow_delta_provider.adapters.dialects.replicas import Position, demand_logged, read_position
from airflow_delta_provider.core.errors import SideReadError, SideSchemeError, shown
from airflow_delta_provider.hooks.sides import mysql_address, postgres_dsn


def position_of(conn_id: str) -> Position:
    """Return how far a server's log has got.

    Raises: SideSchemeError for an engine without log positions, InputPolicyError for a server that keeps none;
    ConnectError and SideReadError, which a retry may mend, for one that does not answer.
    """
    connection = BaseHook.get_connection(conn_id)
    kind = connection.conn_type
    if kind not in CONNECTORS:
        raise SideSchemeError(
            f"connection {conn_id} has type {shown(kind)}; positions have {', '.join(sorted(CONNECTORS))}.",
            where="conn_id",
        )
    with closing(CONNECTORS[kind](connection)()) as opened:

        def fetch(statement: str) -> Sequence[Sequence[Any]]:
            try:
                with closing(opened.cursor()) as cursor:
                    cursor.execute(statement)
                    found: Sequence[Sequence[Any]] = cursor.fetchall()
            except Exception as error:  # each driver has errors of its own, without a common base
                raise SideReadError(f"{conn_id}: {type(error).__name__}: {shown(error)}", where="conn_id") from error
            return found

        return read_position(kind, fetch)


def source_position(conn_id: str) -> Position:
    """Return how far the source's log has got. Raises: what ``position_of`` raises."""
    return demand_logged(position_of(conn_id))


def caught_up(replica_conn_id: str, position: str) -> bool:
    """Tell whether a replica has replayed everything up to a position of its source."""
    return position_of(replica_conn_id).reaches(Position.load(position))


def _postgres(connection: Any) -> Callable[[], Any]:
    from airflow_delta_provider.adapters.dialects.postgresql_connect import connector

    return connector(postgres_dsn(connection))


def _mysql(connection: Any) -> Callable[[], Any]:
    from airflow_delta_provider.adapters.dialects.mysql_connect import connector

    return connector(mysql_address(connection))


CONNECTORS: dict[str, Callable[[Any], Callable[[], Any]]] = {"mysql": _mysql, "postgres": _postgres}
"""One line a type of connection: what gives a function that connects."""
