"""PostgreSQL: catalog, session, ranges, and reads through binary COPY."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects import postgresql_catalog as catalog
from airflow_delta_provider.adapters.dialects import postgresql_load
from airflow_delta_provider.adapters.dialects.base import (
    ALIAS,
    CANCEL_TIMEOUT_S,
    Bound,
    Dialect,
    ReadColumn,
    Relation,
    split_name,
    text_column,
)
from airflow_delta_provider.adapters.dialects.postgresql_digests import PostgresqlDigests
from airflow_delta_provider.adapters.dialects.postgresql_literals import literal_of
from airflow_delta_provider.adapters.dialects.postgresql_types import Native, bool_column
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.load import Explained, Load
from airflow_delta_provider.adapters.pgcopy import (
    Block,
    CarrierClashError,
    FormError,
    decode,
    decode_heads,
    decode_tails,
    open_copy,
)
from airflow_delta_provider.core.errors import DeltaError, SideMissingError, SideReadError, shown
from airflow_delta_provider.core.stream import UnpackError

SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "idle_in_transaction_session_timeout": "0",
    "jit": "off",
}
"""What every session fixes, so that no role's or database's default changes what is read. ``search_path`` stays."""
SAMPLE_GUARD = 8
"""A sample stops at so many times the rows that were asked for, should the estimate be far off."""
SAMPLE_SEED = 7
SAMPLE_PARTS = 1 << 30
SAVEPOINT = "delta_read"
REFUSABLE = ("interval",)
"""Forms of which some values have no logical value: they are looked at even where both sides have the same bytes."""
_MISSING_CLASSES = ("42", "3F")
"""SQLSTATE classes of a name, a right or a query that does not fit; their texts hold names only."""


class PostgresqlDialect(Dialect):
    """PostgreSQL 12 and newer, and what speaks its protocol with its catalog; psycopg 3 connections."""

    kind = "postgresql"
    parser = "postgres"
    digests = PostgresqlDigests()

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Return psycopg's errors, those of the socket, and bytes that are no rows."""
        import psycopg

        return psycopg.Error, OSError, FormError

    def begin(self, connection: Any) -> None:
        """Fix the session's settings, then hold one read-only REPEATABLE READ snapshot."""
        import psycopg

        connection.rollback()
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.autocommit = True
        known = "SELECT set_config(name, %s, false) FROM pg_catalog.pg_settings WHERE name = %s"
        for name, value in SETTINGS.items():
            connection.execute(known, (value, name))
        connection.autocommit = False
        connection.execute("SELECT pg_catalog.pg_backend_pid()")  # the first statement takes the snapshot

    def find(self, connection: Any, table: str) -> Relation | None:
        """Return the table, view, foreign or partitioned table that this user may read, by path or by name."""
        for way in split_name(table):
            found = catalog.relation(connection, way)
            if found is not None:
                schema, name = found
                return Relation(f"{self.quote(schema)}.{self.quote(name)}", f"table {shown(table)}", found)
        return None

    def describe(self, connection: Any, relation: Relation) -> tuple[ReadColumn, ...]:
        """Return the columns in table order, from the catalog or, for a query, from its plan."""
        if relation.is_query:
            return catalog.query_columns(connection, relation.source, self.field)
        return catalog.table_columns(connection, relation.parts, self.field)

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order."""
        return catalog.primary_key(connection, relation.parts)

    def unique_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the primary key; that of a table with inheritance children says nothing of their rows."""
        return () if catalog.inherited(connection, relation.parts) else self.primary_key(connection, relation)

    def indexed(self, connection: Any, relation: Relation, column: ReadColumn) -> bool:
        """Tell whether a whole b-tree starts with the column in the order and the collation that reads use."""
        native: Native = column.native
        return bool(native.number) and catalog.indexed(connection, relation.parts, native.number, native.collation)

    def bound(self, column: ReadColumn, value: Any, upward: bool) -> Bound | None:
        """Return a literal of the column's own type, so that its indexes serve the comparison."""
        kind = column.column.type.kind if column.column.type else ""
        found = literal_of(kind, column.native.cast, value, upward)
        if found is None:
            return None
        text, exact = found
        if column.sort.startswith("convert_to("):
            return Bound(sql("CAST(", Value("\\x" + text.encode().hex()), " AS bytea)"), exact)
        return Bound(sql("CAST(", Value(text), f" AS {column.native.cast})"), exact)

    def fetch(
        self, connection: Any, statement: Statement, columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
    ) -> Iterator[list[pa.Array]]:
        """Yield arrays straight from a binary copy.

        A copy takes no parameters, so values are written as literals by the driver's own quoting. A savepoint keeps the
        snapshot where the read is cancelled.
        """
        forms = [column.native.form for column in columns]
        with closing(self._blocks(connection, statement, rows, payload_bytes)) as blocks:
            for block in blocks:
                yield from decode(block, forms)

    def packs(self, mine: ReadColumn, theirs: ReadColumn) -> bool:
        """Tell whether two columns come in one form of which no value is refused.

        Declared bounds say nothing of the bytes: a number is its digits and the places that were written.
        """
        one, other = mine.native.form, theirs.native.form
        return one.name == other.name and one.name not in REFUSABLE and one.item is None and other.item is None

    def fetch_packed(
        self,
        connection: Any,
        statement: Statement,
        columns: tuple[ReadColumn, ...],
        heads: int,
        rows: int,
        payload_bytes: int,
    ) -> Iterator[list[pa.Array]]:
        """Yield the first columns as arrays and the rest of each row as it came."""
        forms = [column.native.form for column in columns]
        with closing(self._blocks(connection, statement, rows, payload_bytes)) as blocks:
            for block in blocks:
                yield from decode_heads(block, forms, heads)

    def unpack(self, columns: tuple[ReadColumn, ...], rows: pa.Array) -> list[pa.Array]:
        """Return the columns of the rest of some rows."""
        try:
            return decode_tails(rows, [column.native.form for column in columns])
        except CarrierClashError as error:
            raise UnpackError from error

    def _blocks(
        self, connection: Any, statement: Statement, rows: int, payload_bytes: int
    ) -> Generator[Block, None, None]:
        text = self.written(connection, statement)
        connection.execute(f"SAVEPOINT {SAVEPOINT}")
        if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
            connection.execute("SET LOCAL client_encoding = 'SQL_ASCII'")  # else text that is no UTF-8 fails
        copy = open_copy(
            connection, f"COPY ({text}) TO STDOUT (FORMAT binary)".encode(), encrypted=catalog.encrypted(connection)
        )
        ended = False
        try:
            yield from copy.blocks(rows, payload_bytes)
            ended = True
        except self.driver_errors():
            ended = True
            raise
        finally:
            if not ended:
                copy.stop()
            if not connection.closed:
                connection.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
                connection.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")

    def written(self, connection: Any, statement: Statement) -> str:
        """Return a statement as one text."""
        from psycopg import sql as quoting

        parts = []
        for part in statement.parts:
            if isinstance(part, Value):
                value = part.value
                safe = value if not isinstance(value, Decimal) else str(value)
                parts.append(quoting.Literal(safe).as_string(connection))
            else:
                parts.append(part)
        return "".join(parts)

    def estimate_rows(self, connection: Any, relation: Relation) -> int | None:
        """Return the planner's estimate, which follows the size of the files even where nothing was analysed."""
        return catalog.planned_rows(connection, relation.source)

    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Take whole blocks from all over a stored table, the same each time; of anything else rows by their hash."""
        expected = max(catalog.planned_rows(connection, relation.source) or 0, 1)
        guard = f" LIMIT {rows * SAMPLE_GUARD}"
        head = f"SELECT {', '.join(terms)} FROM {relation.source} AS {ALIAS}"
        if expected <= rows:
            return sql(head + guard)
        share = rows / expected
        if not relation.is_query and catalog.stored(connection, relation.parts):
            return sql(f"{head} TABLESAMPLE SYSTEM ({share * 100:.9f}) REPEATABLE ({SAMPLE_SEED})" + guard)
        chance = f"pg_catalog.hashtextextended(ROW({', '.join(terms)})::text, {SAMPLE_SEED}) & {SAMPLE_PARTS - 1}"
        return sql(f"{head} WHERE {chance} < {max(1, round(share * SAMPLE_PARTS))}" + guard)

    def facts(self, connection: Any) -> dict[str, Any]:
        """Return version, encoding and the snapshot's token, exported where the server can."""
        return catalog.facts(connection)

    def order_term(self, column: ReadColumn) -> str:
        """Write NULLS FIRST only where there may be NULLs: no default index serves it."""
        return f"{column.sort} ASC NULLS FIRST" if column.column.nullable else f"{column.sort} ASC"

    def as_text(self, column: ReadColumn) -> ReadColumn | None:
        """Return the server's own text of any value, compared by code points.

        An address is written as the server shows it: its cast would add a mask of all bits.
        """
        field = self.field(column.column.name)
        text = f"pg_catalog.abbrev({field})" if column.column.engine_type == "inet" else f"{field}::text"
        return text_column(column, f'{text} COLLATE "C"', column.native)

    def keep_column(self, expression: str) -> ReadColumn:
        """Return the column that holds a filter's verdict."""
        return bool_column(expression)

    def failure(self, error: BaseException, where: str) -> DeltaError:
        """Return the refusal; the server's text stands in it only where it can name nothing but objects."""
        state = getattr(error, "sqlstate", None) or ""
        name = type(error).__name__
        if isinstance(error, FormError):
            return SideReadError(f"{where}: {error}", where=where)
        if state[:2] in _MISSING_CLASSES:
            reason = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
            return SideMissingError(f"{where}: {shown(reason)} ({state}).", where=where)
        return SideReadError(f"{where}: {name}{f' ({state})' if state else ''} while reading.", where=where)

    def limit(self, connection: Any, seconds: float) -> bool:
        """Set the session's statement timeout, in milliseconds."""
        connection.execute(f"SET statement_timeout = {max(1, round(seconds * 1000))}")
        return True

    def load(self, connection: Any) -> Load:
        """Return active sessions and the lag of replay."""
        return postgresql_load.load(connection)

    def explained(self, connection: Any, statement: Statement) -> Explained:
        """Return what the planner says of a statement."""
        return postgresql_load.explained(connection, self.written(connection, statement))

    def cancel(self, connection: Any, cut: bool) -> None:
        """Send a cancel request; with ``cut`` shut the socket, which wakes whoever waits for it."""
        from psycopg import Error

        with suppress(Error, OSError):
            if not cut:
                connection.cancel_safe(timeout=CANCEL_TIMEOUT_S)
                return
            with socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
                line.shutdown(socket.SHUT_RDWR)

    def close(self, connection: Any) -> None:
        """Close; the server ends the transaction."""
        connection.close()
