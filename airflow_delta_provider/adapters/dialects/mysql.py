"""MySQL and MariaDB: catalog, session, ranges, and reads of the text protocol in vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects import mysql_catalog as catalog
from airflow_delta_provider.adapters.dialects import mysql_load
from airflow_delta_provider.adapters.dialects.base import (
    ALIAS,
    Bound,
    Dialect,
    ReadColumn,
    Relation,
    split_name,
    text_column,
)
from airflow_delta_provider.adapters.dialects.mysql_digests import MysqlDigests
from airflow_delta_provider.adapters.dialects.mysql_stream import ProtocolError, RowStream, cancel, texts
from airflow_delta_provider.adapters.dialects.mysql_types import SORT_BYTES_MAX, Native, truth
from airflow_delta_provider.adapters.dialects.spelling import LITERAL_TYPES
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, joined, sql
from airflow_delta_provider.adapters.load import Explained, Load
from airflow_delta_provider.core.errors import DeltaError, SideMissingError, SideReadError, shown
from airflow_delta_provider.core.times import date_text

SETTINGS = (
    "NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SESSION sql_mode = ''",
    "SESSION time_zone = '+00:00'",
    "SESSION net_write_timeout = 86400",
    "SESSION net_read_timeout = 86400",
    "SESSION wait_timeout = 86400",
    "SESSION sql_select_limit = DEFAULT",
    f"SESSION max_sort_length = {SORT_BYTES_MAX}",
    "SESSION sort_buffer_size = 16777216",
)
"""What every session fixes, so that no server's or role's default changes what is read, nor ends a slow read."""
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
DAY_MIN, DAY_MAX = -719_528, 2_932_896
NS_PER_DAY = 86_400 * 10**9
STAMP_NS = (10**9, (2**31 - 1) * 10**9)
"""First and last instant that every version's TIMESTAMP holds; newer ones hold more, which only widens a range."""
HASH_PARTS = 1 << 32
_MISSING = frozenset((1044, 1049, 1051, 1054, 1064, 1142, 1143, 1146, 1356, 1370))


class MysqlDialect(Dialect):
    """MySQL 8 and MariaDB 10.2 and newer; PyMySQL connections."""

    kind = "mysql"
    parser = "mysql"
    paramstyle = "format"
    digests = MysqlDigests()

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Return PyMySQL's errors, those of the socket, and bytes that are no rows or no values of their type."""
        from pymysql.err import MySQLError

        return MySQLError, OSError, ProtocolError, pa.ArrowInvalid

    def begin(self, connection: Any) -> None:
        """Fix the session's settings, then hold one read-only snapshot of the transactional tables."""
        connection.rollback()
        with connection.cursor() as cursor:
            for setting in SETTINGS:
                cursor.execute("SET " + setting)
            if not catalog.flavour(connection).mariadb:
                cursor.execute("SET SESSION information_schema_stats_expiry = 0")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def find(self, connection: Any, table: str) -> Relation | None:
        """Return the table or view that this user may read; an exact name wins over one that differs by case."""
        for way in split_name(table):
            found = catalog.relation(connection, way)
            if found is not None:
                source = ".".join(self.quote(part) for part in found)
                return Relation(source, f"table {shown(table)}", found)
        return None

    def describe(self, connection: Any, relation: Relation) -> tuple[ReadColumn, ...]:
        """Return the columns in table order, from the catalog or, for a query, from an empty result of it."""
        if relation.is_query:
            stream = RowStream(connection, f"SELECT * FROM {relation.source} AS {ALIAS} LIMIT 0")
            fields = list(stream.fields or ())
            for _ in stream.blocks(1, 1):
                pass
            return catalog.query_columns(connection, fields, self.field)
        return catalog.table_columns(connection, relation.parts, self.field)

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order."""
        return catalog.primary_key(connection, relation.parts)

    def indexed(self, connection: Any, relation: Relation, column: ReadColumn) -> bool:
        """Tell whether a b-tree over whole values starts with the column."""
        return bool(column.native.plain) and catalog.indexed(connection, relation.parts, column.column.name)

    def bound(self, column: ReadColumn, value: Any, upward: bool) -> Bound | None:
        """Return a literal that compares with the column in its own type."""
        kind = column.column.type.kind if column.column.type else ""
        if kind == "int":
            return _inside(int(value), INT_MIN, INT_MAX, upward, lambda held: sql(Value(held)))
        if kind == "decimal":
            return _decimal(value, column.native.scale or 0, upward)
        if kind in ("float32", "float64"):
            finite = value == value and value not in (float("inf"), float("-inf"))
            return Bound(sql(f"{value!r}" if "e" in repr(value) else f"{value!r}e0"), True) if finite else None
        if kind == "date":
            return _inside(
                value, DAY_MIN, DAY_MAX, upward, lambda day: sql("CAST(", Value(date_text(day)), " AS DATE)")
            )
        if kind in ("timestamp", "timestamp_tz"):
            return _moment(value, column.native.stamp, upward)
        if kind == "time":
            micros, exact = _micros(value, upward)
            return Bound(sql("CAST(", Value(_clock(micros)), " AS TIME(6))"), exact)
        if column.sort.startswith("CAST(") and isinstance(value, str):
            return Bound(sql(Value(value.encode())), True)
        return Bound(sql(Value(value)), True)

    def fetch(
        self, connection: Any, statement: Statement, columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
    ) -> Iterator[list[pa.Array]]:
        """Yield arrays straight from the text protocol; closing the iterator kills the statement."""
        stream = RowStream(connection, self.written(connection, statement))
        ended = False
        try:
            for cells in stream.blocks(rows, payload_bytes):
                yield [column.native.read(each) for column, each in zip(columns, cells, strict=True)]
            ended = True
        finally:
            if not ended:
                stream.stop()

    def written(self, connection: Any, statement: Statement) -> str:
        """Return a statement as one text; values go through the driver's own quoting."""
        text, values = statement.render(self.paramstyle)
        with connection.cursor() as cursor:
            return str(cursor.mogrify(text, tuple(values)))

    def estimate_rows(self, connection: Any, relation: Relation) -> int | None:
        """Return the engine's estimate of a table; a small table, a view or a query is counted."""
        return catalog.rows_estimate(connection, relation)

    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Take rows by a hash of the terms: the same rows each time, in one scan without a sort."""
        share = rows / max(1, self.estimate_rows(connection, relation) or 1)
        head = (
            f"SELECT {', '.join(f'{term} AS c{at}' for at, term in enumerate(terms))} FROM {relation.source} AS {ALIAS}"
        )
        if share >= 1:
            return sql(head)
        chance = f"CRC32(CONCAT_WS(',', {', '.join(terms)}))"
        return sql(f"{head} WHERE {chance} < ", Value(round(share * HASH_PARTS)))

    def facts(self, connection: Any) -> dict[str, Any]:
        """Return the server's version; its snapshots have no token."""
        return catalog.facts(connection)

    def quote(self, name: str) -> str:
        """Write an identifier between backticks."""
        return "`" + name.replace("`", "``") + "`"

    def order_term(self, column: ReadColumn) -> str:
        """NULL is first here without being told."""
        return f"{column.sort} ASC"

    def literal(self, kind: str, text: str) -> Statement:
        """Write times with six digits; an instant is a wall clock in UTC, the session's zone."""
        if kind == "text":
            return sql(Value(text))
        name = {"timestamp": "DATETIME(6)", "timestamp_tz": "DATETIME(6)", "time": "TIME(6)"}.get(
            kind, LITERAL_TYPES[kind]
        )
        return sql("CAST(", Value(text.removesuffix("+00:00")), f" AS {name})")

    def concatenated(self, parts: list[Statement]) -> Statement:
        """Join texts; NULL where one is NULL."""
        return sql("CONCAT(", joined(", ", parts), ")")

    def double(self, field: str) -> str:
        """Widen by arithmetic, which every version has."""
        return f"({field} + 0e0)"

    def as_text(self, column: ReadColumn) -> ReadColumn | None:
        """Return the server's own text; geometry and vectors have none."""
        return text_column(column, column.native, Native(texts)) if column.native else None

    def admitting(self, column: ReadColumn) -> ReadColumn:
        """Deliver zero dates, and times beyond a day, which the text protocol holds as they are."""
        read = getattr(column.native, "admitting", None)
        return replace(column, native=replace(column.native, read=read)) if read else column

    def keep_column(self, expression: str) -> ReadColumn:
        """Return the column that holds a filter's verdict."""
        return truth(expression)

    def limit(self, connection: Any, seconds: float) -> bool:
        """Set the session's statement timeout."""
        mysql_load.limit(connection, seconds)
        return True

    def load(self, connection: Any) -> Load:
        """Return active sessions and how far a replica is behind."""
        return mysql_load.load(connection)

    def explained(self, connection: Any, statement: Statement) -> Explained:
        """Return what the planner says of a statement."""
        return mysql_load.explained(connection, self.written(connection, statement))

    def cancel(self, connection: Any, cut: bool) -> None:
        """Kill the statement from another connection; with ``cut`` shut this one's socket."""
        cancel(connection, cut)

    def failure(self, error: BaseException, where: str) -> DeltaError:
        """Return the refusal; the server's text stands in it only where it names objects."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if code in _MISSING:
            return SideMissingError(f"{where}: {shown(error.args[-1])} ({code}).", where=where)
        if isinstance(error, ProtocolError):
            return SideReadError(f"{where}: {error}", where=where)
        return SideReadError(
            f"{where}: {type(error).__name__}{f' ({code})' if code else ''} while reading.", where=where
        )


def _inside(value: int, least: int, most: int, upward: bool, written: Any) -> Bound | None:
    if least <= value <= most:
        return Bound(written(value), True)
    if (value < least) != upward:
        return None
    return Bound(written(least if upward else most), False)


def _decimal(value: Decimal, scale: int, upward: bool) -> Bound | None:
    """Round outward to the column's scale; 65 digits are the most that a literal has."""
    if not value.is_finite() or value.adjusted() > 64 - scale:
        return None
    held = value.quantize(Decimal(1).scaleb(-scale), ROUND_CEILING if upward else ROUND_FLOOR, Context(prec=2100))
    if len(held.as_tuple().digits) > 65:
        return None
    return Bound(sql(f"({held:f})"), held == value)


def _micros(nanos: int, upward: bool) -> tuple[int, bool]:
    whole, rest = divmod(nanos, 1000)
    return (whole + 1 if rest and upward else whole), not rest


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _moment(nanos: int, stamp: bool, upward: bool) -> Bound | None:
    micros, exact = _micros(nanos, upward)
    least, most = (
        (ns // 1000 for ns in STAMP_NS) if stamp else (DAY_MIN * 86_400_000_000, (DAY_MAX + 1) * 86_400_000_000 - 1)
    )

    def written(held: int) -> Statement:
        day, clock = divmod(held, 86_400_000_000)
        return sql("CAST(", Value(f"{date_text(day)} {_clock(clock)}"), " AS DATETIME(6))")

    found = _inside(micros, least, most, upward, written)
    return Bound(found.term, found.exact and exact) if found else None
