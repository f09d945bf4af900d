"""SQLite: the whole file is locked for the transaction, foreign keys are checked at its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.sqlite import SqliteDialect
from airflow_delta_provider.adapters.dialects.statement import Statement, sql
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import (
    Cell,
    CellRefusedError,
    ContendedError,
    Hazard,
    TableFacts,
    TakenError,
    WriteColumn,
    write_error,
)
from airflow_delta_provider.core.errors import ConnectError, PatchSideError, SideMissingError, ValueLossyError, shown
from airflow_delta_provider.core.forms import native

BUSY_TIMEOUT_S = 30
INT64 = range(-(2**63), 2**63)
_EVENT = re.compile(
    r"\bTRIGGER\b.*?\b(?:BEFORE|AFTER|INSTEAD\s+OF)?\s*\b(DELETE|INSERT|UPDATE)\b", re.IGNORECASE | re.DOTALL
)
_HARMLESS = ("NO ACTION", "RESTRICT")


def connect_writable(path: str) -> Callable[[], Any]:
    """Return what opens a database file for writing; it is never created. Raises: SideMissingError, ConnectError."""

    def connect() -> Any:
        import sqlite3

        if not Path(path).is_file():
            raise SideMissingError(f"There is no file {shown(Path(path).name)}.", where=Path(path).name)
        address = "file:" + quote(str(Path(path).absolute())) + "?mode=rw"
        try:
            return sqlite3.connect(address, BUSY_TIMEOUT_S, uri=True, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise ConnectError(f"{shown(Path(path).name)} cannot be opened: {type(error).__name__}.") from None

    return connect


class SqliteWriter(Writer):
    """A table of a SQLite file."""

    def __init__(self, connect: Callable[[], Any], table: str) -> None:
        super().__init__(SqliteDialect(), connect, table)

    def session(self) -> None:
        """Deliver text as bytes, as the dialect reads it, and enforce foreign keys."""
        self.connection.isolation_level = None
        self.connection.text_factory = bytes
        self.connection.row_factory = None
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("PRAGMA query_only = OFF")

    def check_table(self) -> None:
        """Refuse a view."""
        schema, table = self.relation.parts
        master = f"{self.dialect.quote(schema)}.sqlite_master"
        found = self._rows(f"SELECT type FROM {master} WHERE name = ? AND type IN ('table', 'view')", table)
        if found != [("table",)]:
            raise PatchSideError(f"{self.where} is no table.", where=self.where)

    def write_columns(self, described: Sequence[ReadColumn]) -> list[WriteColumn]:
        """Return the columns; hidden kinds 2 and 3 are generated ones."""
        schema, table = self.relation.parts
        hidden = dict(self._rows("SELECT name, hidden FROM pragma_table_xinfo(?, ?)", table, schema))
        return [WriteColumn(each, generated=hidden.get(each.column.name) in (2, 3)) for each in described]

    def facts(self) -> TableFacts:
        """Return triggers, cascades and unique keys; foreign keys are deferred, so they ask for no order."""
        schema, table = self.relation.parts
        master = f"{self.dialect.quote(schema)}.sqlite_master"
        asked = f"SELECT name, sql FROM {master} WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        hazards = [_trigger(name, text) for name, text in self._rows(asked, table)]
        for (child,) in self._rows(f"SELECT name FROM {master} WHERE type = 'table'"):
            hazards += self._cascades(child, table)
        uniques = []
        indexes = 'SELECT name FROM pragma_index_list(?, ?) WHERE "unique" = 1'
        for (index,) in self._rows(indexes, table, schema):
            columns = self._rows("SELECT name FROM pragma_index_info(?, ?) ORDER BY seqno", index, schema)
            uniques.append(tuple(name for (name,) in columns if name is not None))
        primary = self.dialect.primary_key(self.connection, self.relation)
        own = 'SELECT 1 FROM pragma_foreign_key_list(?, ?) WHERE "table" = ? COLLATE NOCASE'
        linked = bool(self._rows(own, table, schema, table))
        keys = tuple(dict.fromkeys([*uniques, *([primary] if primary else [])]))
        return TableFacts(tuple(hazards), keys, linked=linked)

    def _cascades(self, child: str, table: str) -> list[Hazard]:
        found = []
        asked = (
            'SELECT "from", "to", on_update, on_delete FROM pragma_foreign_key_list(?) WHERE "table" = ? COLLATE NOCASE'
        )
        for column, referenced, on_update, on_delete in self._rows(asked, child, table):
            name = f"{child}.{column}"
            if on_delete not in _HARMLESS:
                found.append(Hazard(name, f"ON DELETE {on_delete}", frozenset(("delete",))))
            if on_update not in _HARMLESS:
                columns = frozenset((referenced,) if referenced else ())
                found.append(Hazard(name, f"ON UPDATE {on_update}", frozenset(("update",)), columns))
        return found

    def begin(self, *, write: bool, alone: bool = False) -> None:
        """Take the file's write lock at once, or one snapshot for reading."""
        with self.writing():
            self.connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if write:
                self.connection.execute("PRAGMA defer_foreign_keys = ON")

    def commit(self) -> None:
        """Commit; deferred foreign keys fail here and leave the transaction open."""
        with self.writing():
            self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo everything since ``begin``."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def operand(self, column: WriteColumn, value: Any) -> Statement:
        """Bind by storage class; a text that is no Unicode goes as bytes cast to text."""
        kind = column.type.kind if column.type else "text"
        if isinstance(value, dict):
            return sql("CAST(", Cell(bytes.fromhex(value["wtf8"]), column.name), " AS TEXT)")
        if kind in ("int", "decimal"):
            return sql(Cell(_number(value), column.name))
        if kind in ("float64", "float32"):
            number = native(value, kind)
            if number != number:
                raise ValueLossyError("SQLite stores NaN as NULL.")
            return sql(Cell(number, column.name))
        return sql(Cell(bytes.fromhex(value) if kind == "bytes" else value, column.name))

    def same(self, column: WriteColumn, value: Any) -> Statement | None:
        """Compare without affinity and in the binary collation, so that class and bytes must be the same."""
        collate = " COLLATE BINARY" if column.type and column.type.kind == "text" else ""
        return sql(f"+{self.dialect.field(column.name)}{collate} IS ", self.operand(column, value))

    def refused(self, error: BaseException) -> Exception:
        """Name the constraint; SQLite's texts hold names and no values."""
        import sqlite3

        text = str(error)
        if "locked" in text or "busy" in text:
            return ContendedError(write_error(self.where, "the file is locked by another writer"))
        if isinstance(error, OverflowError) or "datatype mismatch" in text or "cannot store" in text:
            return CellRefusedError(0, text)
        if text.startswith("UNIQUE constraint failed"):
            return TakenError(write_error(self.where, shown(text)))
        if isinstance(error, sqlite3.OperationalError) and "disk" in text:
            return ConnectError(f"{self.where}: {shown(text)}.", where=self.where)
        return write_error(self.where, shown(text))

    def _rows(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        found = self.connection.execute(text, values).fetchall()
        return [tuple(cell.decode() if isinstance(cell, bytes) else cell for cell in row) for row in found]


def _trigger(name: str, text: str) -> Hazard:
    match = _EVENT.search(text)
    events = (match[1].lower(),) if match else ("insert", "update", "delete")
    return Hazard(name, "trigger", frozenset(events))


def _number(value: str) -> int | float:
    """Return a number as SQLite stores it. Raises: ValueLossyError where neither class holds it exactly."""
    from airflow_delta_provider.core.decimals import decimal_of_float

    if "." not in value and value.lstrip("-").isdigit() and int(value) in INT64:
        return int(value)
    number = float(value)
    if decimal_of_float(number) != value:
        raise ValueLossyError("SQLite has no number that is exactly this one.")
    return number
