"""DuckDB: read-only files, streamed as Arrow, text in its binary collation."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import (
    ALIAS,
    Bound,
    Dialect,
    ReadColumn,
    Relation,
    gathered,
    split_name,
    text_column,
)
from airflow_delta_provider.adapters.dialects.duckdb_digests import DuckdbDigests
from airflow_delta_provider.adapters.dialects.ducktypes import (
    INTERVAL_HOURS_MAX,
    INTERVAL_RANGE,
    Mapped,
    advice,
    carried,
    mapped,
)
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.files.base import pieces
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    SideFileError,
    SideMissingError,
    SideReadError,
    ValueRangeError,
    shown,
)
from airflow_delta_provider.core.times import time_text
from airflow_delta_provider.core.types import LogicalType

MEMORY_LIMIT = "512MB"
"""What a database that we open may hold before its sorts go to disk."""
STREAM_ROWS = 2_048
"""Rows that DuckDB hands over at once; its own vectors are of this size."""
DATE_DAYS_MAX = 2**31 - 2
TIMESTAMP_MAX = 2**63 - 2
TIMESTAMP_US_MIN = -9_223_372_022_400_000_000
_STAMPS = {
    "TIMESTAMP": ("make_timestamp", 1_000, 1),
    "TIMESTAMP WITH TIME ZONE": ("make_timestamptz", 1_000, 1),
    "TIMESTAMP_S": ("make_timestamp", 1_000_000_000, 1_000_000),
    "TIMESTAMP_MS": ("make_timestamp", 1_000_000, 1_000),
}
"""For each type of time stamps: the function from microseconds, nanoseconds in its unit, microseconds in its unit."""


def connect_file(path: str) -> Any:
    """Open a database file for reading; it is never created, and sorts spill to the system's folder for such files.

    Raises: SideMissingError, SideFileError, ConnectError.
    """
    import duckdb

    name = Path(path).name
    if path != ":memory:" and not Path(path).is_file():
        raise SideMissingError(f"There is no file {shown(name)}.", where=name)
    try:
        connection = duckdb.connect(path, read_only=path != ":memory:")
        spill = Path(tempfile.gettempdir()) / f"airflow-delta-duckdb-{os.getpid()}"
        connection.execute("SET temp_directory = ?", [str(spill)])
        connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
    except duckdb.Error as error:
        if "not a valid DuckDB" in str(error):
            raise SideFileError(f"{shown(name)} is no DuckDB database.", where=name) from None
        reason = "another process holds it open for writing" if "lock" in str(error) else type(error).__name__
        raise ConnectError(f"{shown(name)} cannot be opened: {reason}.", where=name) from None
    return connection


class DuckdbDialect(Dialect):
    """DuckDB; each read runs on a cursor of its own, so several streams can be open at once."""

    kind = "duckdb"
    parser = "duckdb"
    digests = DuckdbDigests()

    def __init__(self) -> None:
        self._running: dict[int, set[Any]] = {}
        """Cursors that run a read, by the identity of their connection."""

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Return the driver's base error."""
        import duckdb

        return (duckdb.Error,)

    def begin(self, connection: Any) -> None:
        """Read instants in UTC, and never take a Python variable for a table. The file itself is open read-only."""
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET default_collation = ''")

    def find(self, connection: Any, table: str) -> Relation | None:
        """Return the table or view; an exact name wins over one that differs by case."""
        here = connection.execute("SELECT current_database(), current_schema()").fetchone()
        for way in split_name(table):
            for database, schema, name in _places(way, *here):
                found = connection.execute(
                    "SELECT database_name, schema_name, name FROM (SELECT database_name, schema_name, table_name AS name"
                    " FROM duckdb_tables() UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views()"
                    " WHERE NOT internal) AS known WHERE lower(database_name) = lower(?) AND lower(schema_name) ="
                    " lower(?) AND lower(name) = lower(?) ORDER BY name = ? DESC LIMIT 1",
                    [database, schema, name, name],
                ).fetchone()
                if found:
                    source = ".".join(self.quote(part) for part in found)
                    return Relation(source, f"table {shown(table)}", tuple(found))
        return None

    def describe(self, connection: Any, relation: Relation) -> tuple[ReadColumn, ...]:
        """Bind a SELECT without running it and map its types."""
        bound = connection.sql(f"SELECT * FROM {relation.source} AS {ALIAS}")
        required: set[str] = set()
        if not relation.is_query:
            rows = connection.execute(
                "SELECT column_name FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
                " AND NOT is_nullable",
                list(relation.parts),
            ).fetchall()
            required = {row[0] for row in rows}
        return tuple(
            self._column(name, duck, name not in required)
            for name, duck in zip(bound.columns, bound.types, strict=True)
        )

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order."""
        row = connection.execute(
            "SELECT constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
            " AND database_name = ? AND schema_name = ? AND table_name = ?",
            list(relation.parts),
        ).fetchone()
        return tuple(row[0]) if row else ()

    def indexed(self, connection: Any, relation: Relation, column: ReadColumn) -> bool:
        """Say no: DuckDB's indexes serve points, while ranges and order are scans."""
        return False

    def bound(self, column: ReadColumn, value: Any, upward: bool) -> Bound | None:
        """Bind as text or as a whole number and cast to the column's own type, moved outward to what it can hold."""
        kind = column.column.type
        name = str(column.native)
        if kind is None or isinstance(value, (bool, bytes)):
            return Bound(sql(Value(value)), True)
        match kind.kind:
            case "int":
                low = 0 if kind.unsigned else -(2 ** ((kind.bits or 64) - 1))
                high = 2 ** (kind.bits or 64) - 1 if kind.unsigned else 2 ** ((kind.bits or 64) - 1) - 1
                return _cast(max(low, min(high, value)), value, name)
            case "decimal":
                return _decimal(value, kind, name, upward)
            case "float32" | "float64":
                return Bound(sql("CAST(", Value(value), " AS DOUBLE)"), True)
            case "uuid":
                return Bound(sql("CAST(", Value(value), " AS UUID)"), True)
            case "date":
                held = max(-DATE_DAYS_MAX, min(DATE_DAYS_MAX, value))
                return Bound(sql("make_date(CAST(", Value(held), " AS INTEGER))"), held == value)
            case "time":
                held = _outward(value, 1_000, upward) if name == "TIME" else value
                return Bound(sql("CAST(", Value(time_text(held)), f" AS {name})"), held == value)
            case "timestamp" | "timestamp_tz":
                return _stamp(value, name, upward)
        return Bound(sql(Value(value)), True)

    def fetch(
        self, connection: Any, statement: Statement, columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
    ) -> Iterator[list[pa.Array]]:
        """Stream Arrow batches from a cursor of its own; closing it ends the query."""
        import duckdb

        text, values = statement.render(self.paramstyle)
        cursor = connection.cursor()
        running = self._running.setdefault(id(connection), set())
        running.add(cursor)
        try:
            self.begin(cursor)
            batches = _streamed(cursor, text, values, columns, rows, payload_bytes)
            try:
                first = next(batches, None)
            except duckdb.OutOfMemoryException:
                # DuckDB holds 2,048 rows at once: with megabyte values that is more than a sort of a plain table needs
                cursor.execute("RESET memory_limit")
                batches = _streamed(cursor, text, values, columns, rows, payload_bytes)
                first = next(batches, None)
            if first is not None:
                yield first
                yield from batches
        finally:
            running.discard(cursor)
            cursor.close()

    def cancel(self, connection: Any, cut: bool) -> None:
        """Interrupt the cursors that run."""
        for cursor in (*self._running.get(id(connection), ()), connection):
            cursor.interrupt()

    def close(self, connection: Any) -> None:
        """Forget and close the connection."""
        self._running.pop(id(connection), None)
        connection.close()

    def estimate_rows(self, connection: Any, relation: Relation) -> int | None:
        """Count; for a table that is read from its metadata."""
        row = connection.execute(f"SELECT count(*) FROM {relation.source} AS {ALIAS}").fetchone()
        return int(row[0])

    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Take the rows of a table whose hashed row number falls in a share; of a view or query a seeded sample."""
        named = ", ".join(f"{term} AS c{at}" for at, term in enumerate(terms))
        table = (
            not relation.is_query
            and connection.execute(
                "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
                list(relation.parts),
            ).fetchone()
        )
        if table:
            step = max(1, (self.estimate_rows(connection, relation) or 0) // max(1, rows))
            chosen = f"hash({ALIAS}.rowid) % CAST("
            return sql(
                f"SELECT {named} FROM {relation.source} AS {ALIAS} WHERE {chosen}", Value(step), " AS UBIGINT) = 0"
            )
        inner = f"SELECT {named} FROM {relation.source} AS {ALIAS}"
        return sql(f"SELECT * FROM ({inner}) AS delta_rows USING SAMPLE reservoir({int(rows)} ROWS) REPEATABLE (42)")

    def as_text(self, column: ReadColumn) -> ReadColumn | None:
        """Return the engine's own text of any value."""
        return text_column(column, f"CAST({self.field(column.column.name)} AS VARCHAR)")

    def facts(self, connection: Any) -> dict[str, Any]:
        """Return the library's version."""
        return {"engine_version": connection.execute("SELECT version()").fetchone()[0]}

    def failure(self, error: BaseException, where: str) -> DeltaError:
        """Name the kind of failure; DuckDB's own text may hold values, so only what speaks of names is shown."""
        import duckdb

        text = str(error).splitlines()[0] if str(error) else ""
        if INTERVAL_RANGE in text:
            return ValueRangeError(f"{where}: an interval has more than 292 years in its time part.", where=where)
        if isinstance(error, duckdb.CatalogException):
            return SideMissingError(f"{where}: {shown(text)}.", where=where)
        if isinstance(error, (duckdb.BinderException, duckdb.ParserException)):
            return SideReadError(f"{where}: {shown(text)}.", where=where)
        return SideReadError(f"{where}: {type(error).__name__} while reading.", where=where)

    def _column(self, name: str, duck: Any, nullable: bool) -> ReadColumn:
        if str(duck.id) == "null":
            column = Column(name, LogicalType("text"), "NULL", nullable, untyped=True)
            return ReadColumn(column, self.field(name), pa.string(), f"CAST({self.field(name)} AS VARCHAR)")
        found = mapped(duck)
        if found is None:
            return ReadColumn(Column(name, None, str(duck), nullable, advice=advice(duck)))
        field = self.field(name)
        select = f"CAST({field} AS {found.cast})" if found.cast else field
        if found.type.kind == "interval":
            hours = f"date_part('hour', {field}) BETWEEN -{INTERVAL_HOURS_MAX} AND {INTERVAL_HOURS_MAX}"
            select = f"CASE WHEN {field} IS NULL OR {hours} THEN {field} ELSE error('{INTERVAL_RANGE}') END"
        column = Column(name, found.type, found.name, nullable)
        return ReadColumn(column, select, found.carrier, _sort(field, found), found.name)


def _streamed(
    cursor: Any, text: str, values: list[Any], columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
) -> Iterator[list[pa.Array]]:
    """Run a statement and gather its batches as they fit into a number of rows and bytes."""
    parts: list[list[pa.Array]] = []
    held = weight = 0
    for batch in cursor.sql(text, params=values).to_arrow_reader(min(rows, STREAM_ROWS)):
        arrays = [carried(array, each.arrow) for array, each in zip(batch.columns, columns, strict=True)]
        for piece in pieces(pa.RecordBatch.from_arrays(arrays, batch.schema.names), rows, payload_bytes):
            parts.append(piece.columns)
            held, weight = held + piece.num_rows, weight + piece.nbytes
            if held + STREAM_ROWS > rows or weight >= payload_bytes:
                yield gathered(parts)
                parts, held, weight = [], 0, 0
    if held:
        yield gathered(parts)


def _sort(field: str, found: Mapped) -> str:
    if found.type.kind in ("interval", "json_text", "array", "struct", "map") or found.name == "BIGNUM":
        return ""
    if found.type.kind == "text":
        return f"(CAST({field} AS VARCHAR) COLLATE C)" if found.cast else f"({field} COLLATE C)"
    return field


def _places(way: tuple[str, ...], database: str, schema: str) -> list[tuple[str, str, str]]:
    """Return the database, schema and table that a name of one to three parts may mean."""
    if len(way) == 1:
        return [(database, schema, way[0]), (database, "main", way[0])]
    if len(way) == 2:
        return [(database, way[0], way[1]), (way[0], "main", way[1])]
    return [(way[0], way[1], way[2])] if len(way) == 3 else []


def _outward(value: int, unit: int, upward: bool) -> int:
    return -(-value // unit) * unit if upward else value // unit * unit


def _cast(held: int, value: Any, name: str) -> Bound:
    return Bound(sql("CAST(", Value(str(held)), f" AS {name})"), held == value)


def _decimal(value: Decimal, kind: LogicalType, name: str, upward: bool) -> Bound | None:
    if kind.precision is None or kind.scale is None:
        return None
    context = Context(prec=5_000)
    top = Decimal(10**kind.precision - 1).scaleb(-kind.scale, context)
    if not value.is_finite():
        held = -top if value == Decimal("-Infinity") else top
    else:
        rounding = ROUND_CEILING if upward else ROUND_FLOOR
        held = value.quantize(Decimal(1).scaleb(-kind.scale), rounding, context)
        held = max(-top, min(top, held))
    return Bound(sql("CAST(", Value(format(held, "f")), f" AS {name})"), held == value)


def _stamp(value: int, name: str, upward: bool) -> Bound:
    if name == "TIMESTAMP_NS":
        held = max(-TIMESTAMP_MAX, min(TIMESTAMP_MAX, value))
        return Bound(sql("make_timestamp_ns(CAST(", Value(held), " AS BIGINT))"), held == value)
    function, unit, micros = _STAMPS[name]
    units = _outward(value, unit, upward) // unit
    held = max(TIMESTAMP_US_MIN, min(TIMESTAMP_MAX // micros * micros, units * micros))
    term = sql(f"CAST({function}(CAST(", Value(held), f" AS BIGINT)) AS {name})")
    return Bound(term, held * 1_000 == value)
