"""SQLite: declared types don't bind, so what is stored decides; order and text are by UTF-8 bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import (
    ALIAS,
    Bound,
    Decoder,
    Dialect,
    ReadColumn,
    Relation,
    row_batches,
    split_name,
    text_column,
)
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.decimals import decimal_of_float, float64_text
from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    FilterError,
    SideChangedError,
    SideFileError,
    SideMissingError,
    SideReadError,
    shown,
)
from airflow_delta_provider.core.types import LogicalType

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
COLUMNS_PER_SCAN = 500
"""Columns whose stored classes one statement asks for; SQLite allows 2,000 results and each column needs two."""

_CLASSES = {"integer": "int", "real": "float64", "text": "text", "blob": "bytes"}
_CARRIERS = {
    "int": pa.int64(),
    "float64": pa.float64(),
    "decimal": pa.string(),
    "text": pa.string(),
    "bytes": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A column as the catalog has it; ``affinity`` is None for a column of a query, whose affinity is not told."""

    name: str
    text: str
    affinity: str | None
    nullable: bool
    strict: bool


def connect_file(path: str) -> Any:
    """Open a database file for reading; it is never created.

    Raises: SideMissingError, ConnectError.
    """
    import sqlite3

    if not Path(path).is_file():
        raise SideMissingError(f"There is no file {shown(Path(path).name)}.", where=Path(path).name)
    address = "file:" + quote(str(Path(path).absolute())) + "?mode=ro"
    try:
        return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise ConnectError(f"{shown(Path(path).name)} cannot be opened: {type(error).__name__}.") from None


class SqliteDialect(Dialect):
    """SQLite 3 through the standard library; reads inside one transaction."""

    kind = "sqlite"
    parser = "sqlite"

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Return the driver's base error, and what pyarrow raises for a value of another class than was counted."""
        import sqlite3

        return (sqlite3.Error, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)

    def begin(self, connection: Any) -> None:
        """Hold one snapshot, deliver text as bytes, and make LIKE tell case apart as other engines do."""
        connection.isolation_level = None
        connection.text_factory = bytes
        connection.row_factory = None
        for pragma in ("query_only = ON", "trusted_schema = OFF", "case_sensitive_like = ON"):
            connection.execute(f"PRAGMA {pragma}")
        if not connection.in_transaction:
            connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def find(self, connection: Any, table: str) -> Relation | None:
        """Return the table or view; SQLite takes names without regard to ASCII case, so an exact name wins."""
        schemas = [row[1] for row in _rows(connection, "PRAGMA database_list")]
        for way in split_name(table):
            schema, name = ("main", *way)[-2:]
            if len(way) > 2 or schema not in schemas:
                continue
            master = f"{self.quote(schema)}.sqlite_master"
            found = _rows(
                connection,
                f"SELECT name FROM {master} WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
                " ORDER BY name = ? DESC",
                name,
                name,
            )
            if found:
                exact = found[0][0]
                return Relation(f"{self.quote(schema)}.{self.quote(exact)}", f"table {shown(table)}", (schema, exact))
        return None

    def describe(self, connection: Any, relation: Relation) -> tuple[ReadColumn, ...]:
        """Ask once what classes each column stores and widen: int and real together are decimal."""
        declared = self._declared(connection, relation)
        utf8 = _rows(connection, "PRAGMA encoding")[0][0] == "UTF-8"
        columns: list[ReadColumn] = []
        for start in range(0, len(declared), COLUMNS_PER_SCAN):
            part = declared[start : start + COLUMNS_PER_SCAN]
            stored = self._stored(connection, relation, part)
            columns += [self._column(each, least, most, utf8) for each, (least, most) in zip(part, stored, strict=True)]
        return tuple(columns)

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order."""
        schema, table = relation.parts
        found = _rows(connection, "SELECT name FROM pragma_table_info(?, ?) WHERE pk > 0 ORDER BY pk", table, schema)
        return tuple(row[0] for row in found)

    def indexed(self, connection: Any, relation: Relation, column: ReadColumn) -> bool:
        """Tell whether the row id or a whole index in binary collation starts with the column."""
        schema, table = relation.parts
        name = column.column.name
        rowid = _rows(
            connection, "SELECT name, upper(type), pk FROM pragma_table_info(?, ?) WHERE pk > 0", table, schema
        )
        if len(rowid) == 1 and rowid[0][0] == name and rowid[0][1] == "INTEGER":
            return True
        return bool(
            _rows(
                connection,
                "SELECT 1 FROM pragma_index_list(?, ?) AS i, pragma_index_xinfo(i.name, ?) AS x"
                " WHERE i.partial = 0 AND x.seqno = 0 AND x.name = ? AND x.coll = 'BINARY' COLLATE NOCASE",
                table,
                schema,
                schema,
                name,
            )
        )

    def bound(self, column: ReadColumn, value: Any, upward: bool) -> Bound | None:
        """Bind integers within 64 bits and doubles; SQLite compares one with the other exactly."""
        if isinstance(value, (str, bytes)):
            return Bound(sql(Value(value)), True)
        if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, int):
            held = max(INT64_MIN, min(INT64_MAX, value))
            return Bound(sql(Value(held)), held == value)
        return self._double(value, upward)

    def fetch(
        self, connection: Any, statement: Statement, columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
    ) -> Iterator[list[pa.Array]]:
        """Step through the rows with one cursor; closing it ends the statement."""
        text, values = statement.render(self.paramstyle)
        cursor = connection.cursor()
        try:
            cursor.execute(text, values)
            yield from row_batches(cursor.fetchmany, [_decoder(each) for each in columns], rows, payload_bytes)
        finally:
            cursor.close()

    def estimate_rows(self, connection: Any, relation: Relation) -> int | None:
        """Count: SQLite keeps no statistics that it maintains, and counting reads the smallest index."""
        return int(_rows(connection, f"SELECT count(*) FROM {relation.source} AS {ALIAS}")[0][0])

    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Take every n-th row in storage order."""
        step = max(1, (self.estimate_rows(connection, relation) or 0) // max(1, rows))
        named = ", ".join(f"{term} AS c{at}" for at, term in enumerate(terms))
        outer = ", ".join(f"c{at}" for at in range(len(terms)))
        inner = f"SELECT {named}, row_number() OVER () AS delta_row FROM {relation.source} AS {ALIAS}"
        return sql(f"SELECT {outer} FROM ({inner}) WHERE delta_row % ", Value(step), " = 0")

    def as_text(self, column: ReadColumn) -> ReadColumn | None:
        """Return texts as they are and numbers as canonical text; a column that also holds blobs has none."""
        if "blob" in column.column.engine_type or column.column.type is not None:
            return None
        field = self.field(column.column.name)
        return text_column(column, f"CASE typeof({field}) WHEN 'real' THEN {field} ELSE CAST({field} AS TEXT) END")

    def facts(self, connection: Any) -> dict[str, Any]:
        """Return the library's version."""
        return {"engine_version": _rows(connection, "SELECT sqlite_version()")[0][0]}

    def failure(self, error: BaseException, where: str) -> DeltaError:
        """Name the kind of failure; SQLite's own text is shown only where it speaks of names."""
        text = str(error)
        if isinstance(error, (pa.ArrowInvalid, pa.ArrowTypeError)):
            return SideChangedError(f"{where}: a value of another class was stored while the table was read.")
        if "not a database" in text or "malformed" in text:
            return SideFileError(f"{where}: the file is no whole SQLite database.", where=where)
        if "no such table" in text or "no such column" in text:
            return SideMissingError(f"{where}: {shown(text)}.", where=where)
        return SideReadError(f"{where}: {shown(text)}.", where=where)

    def cancel(self, connection: Any, cut: bool) -> None:
        """Interrupt whatever statement runs."""
        import sqlite3

        with suppress(sqlite3.Error):
            connection.interrupt()

    def close(self, connection: Any) -> None:
        """End the snapshot and close."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()

    def literal(self, kind: str, text: str) -> Statement:
        """Bind a text; there are no other literals in quotes, since SQLite stores no such types."""
        if kind != "text":
            raise FilterError(f"SQLite stores no {kind}; give each side its own filter.")
        return sql(Value(text))

    def double(self, field: str) -> str:
        """Return the field: every number with a fraction is a double already."""
        return field

    def _declared(self, connection: Any, relation: Relation) -> list[Declared]:
        if relation.is_query:
            cursor = connection.execute(f"SELECT * FROM {relation.source} AS {ALIAS} LIMIT 0")
            return [Declared(each[0], "", None, True, False) for each in cursor.description]
        schema, table = relation.parts
        strict = bool(
            _rows(
                connection, 'SELECT 1 FROM pragma_table_list WHERE schema = ? AND name = ? AND "strict"', schema, table
            )
        )
        found = _rows(
            connection,
            'SELECT name, type, "notnull" FROM pragma_table_xinfo(?, ?) WHERE hidden IN (0, 2, 3) ORDER BY cid',
            table,
            schema,
        )
        return [
            Declared(name, text, affinity(text), not notnull, strict and text.upper() != "ANY")
            for name, text, notnull in found
        ]

    def _stored(
        self, connection: Any, relation: Relation, declared: list[Declared]
    ) -> list[tuple[str | None, str | None]]:
        """Return the least and the greatest name of a stored class for each column; None where all is NULL.

        The names sort as blob, integer, real, text, so least and greatest tell every case that is not a refusal.
        """
        asked = [each for each in declared if not each.strict]
        terms = []
        for each in asked:
            field = f"nullif(typeof({self.field(each.name)}), 'null')"
            terms += [f"min({field})", f"max({field})"]
        found: dict[str, tuple[str | None, str | None]] = {}
        if asked:
            row = _rows(connection, f"SELECT {', '.join(terms)} FROM {relation.source} AS {ALIAS}")[0]
            found = {each.name: (row[2 * at], row[2 * at + 1]) for at, each in enumerate(asked)}
        return [found.get(each.name, (_by_affinity(each), _by_affinity(each))) for each in declared]

    def _column(self, declared: Declared, least: str | None, most: str | None, utf8: bool) -> ReadColumn:
        untyped = False
        if least is None:
            fallback = _by_affinity(declared)
            untyped = fallback is None
            least = most = fallback or "text"
        name = declared.name
        if least == most:
            kind = LogicalType(_CLASSES[str(least)], bits=64 if least == "integer" else None)
        elif (least, most) == ("integer", "real"):
            kind = LogicalType("decimal")
        else:
            as_text = "" if least == "blob" else "name read_as: {type: text}, or "
            advice = f"It holds values of the classes {least} and {most}: {as_text}CAST it to one of them in a query."
            return ReadColumn(Column(name, None, f"{least} and {most}", declared.nullable, advice=advice))
        column = Column(name, kind, declared.text or str(least), declared.nullable, untyped)
        return ReadColumn(column, self.field(name), _CARRIERS[kind.kind], self._sort(declared, kind.kind, utf8))

    def _sort(self, declared: Declared, kind: str, utf8: bool) -> str:
        """Write the column for order and ranges.

        A unary plus takes the affinity away where it would turn a bound text into a number before it is compared. In a
        UTF-16 database the binary collation is not code point order, so its texts are sorted by the caller.
        """
        field = self.field(declared.name)
        if kind != "text":
            return field
        if not utf8:
            return ""
        plain = declared.affinity in ("TEXT", "BLOB")
        return f"{field} COLLATE BINARY" if plain else f"+{field} COLLATE BINARY"

    def _double(self, value: Any, upward: bool) -> Bound | None:
        if value != value:
            return Bound(sql(Value(math.inf)), False)
        held = float(value)
        if not math.isinf(held) and Decimal(held) != value:
            off = Decimal(held) < value if upward else Decimal(held) > value
            toward = math.inf if upward else -math.inf
            return Bound(sql(Value(math.nextafter(held, toward) if off else held)), False)
        return Bound(sql(Value(held)), math.isinf(held) == (not math.isfinite(value)))


def affinity(declared: str) -> str:
    """Return the affinity of a declared type, by the five rules of SQLite's documentation, in their order."""
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if any(part in text for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in text or not text:
        return "BLOB"
    if any(part in text for part in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def _by_affinity(declared: Declared) -> str | None:
    """Return the class for a column without values, or None where its declaration says nothing.

    Nothing is said by no declared type, and by NUMERIC affinity (``date``, ``boolean``, ``decimal``), under which any
    class may be stored: such a column takes the type of its partner.
    """
    if not declared.text:
        return None
    return {"INTEGER": "integer", "REAL": "real", "TEXT": "text", "BLOB": "blob"}.get(declared.affinity or "")


def _rows(connection: Any, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a catalog query and return its rows with text as text."""
    found = connection.execute(text, values).fetchall()
    return [
        tuple(cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in row) for row in found
    ]


def _decoder(each: ReadColumn) -> Decoder:
    kind = each.column.type.kind if each.column.type else ""
    if kind == "decimal":
        return lambda values: pa.array([_decimal_text(value) for value in values], pa.string())
    if kind == "text":
        return _texts
    if kind == "bool":
        return lambda values: pa.array([None if value is None else bool(value) for value in values], pa.bool_())
    carrier = each.arrow
    return lambda values: pa.array(values, carrier)


def _texts(values: list[Any]) -> pa.Array:
    raw = pa.array([float64_text(each).encode() if isinstance(each, float) else each for each in values], pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return raw


def _decimal_text(value: int | float | None) -> str | None:
    if value is None or isinstance(value, int):
        return None if value is None else str(value)
    return decimal_of_float(value)
