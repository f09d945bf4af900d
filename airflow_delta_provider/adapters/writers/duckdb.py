"""DuckDB: one writing process, optimistic transactions; every value is cast from an exact form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.duckdb import DuckdbDialect
from airflow_delta_provider.adapters.dialects.statement import Statement, joined, sql
from airflow_delta_provider.adapters.ranges import native_value
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import (
    Cell,
    CellRefusedError,
    Change,
    ContendedError,
    Reference,
    TableFacts,
    TakenError,
    WriteColumn,
    write_error,
)
from airflow_delta_provider.core.errors import ConnectError, PatchSideError, SideMissingError, ValueLossyError, shown
from airflow_delta_provider.core.forms import native
from airflow_delta_provider.core.times import NS
from airflow_delta_provider.core.types import LogicalType

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_BOUND = ("int", "decimal", "float32", "float64", "date", "time", "timestamp", "timestamp_tz")


def connect_writable(path: str) -> Callable[[], Any]:
    """Return what opens a database file for writing; it is never created. Raises: SideMissingError, ConnectError."""

    def connect() -> Any:
        import duckdb

        name = Path(path).name
        if not Path(path).is_file():
            raise SideMissingError(f"There is no file {shown(name)}.", where=name)
        try:
            return duckdb.connect(path)
        except duckdb.Error as error:
            reason = "another process holds it open" if "lock" in str(error) else type(error).__name__
            raise ConnectError(f"{shown(name)} cannot be opened for writing: {reason}.", where=name) from None

    return connect


class _OneConnection:
    """The connection of a transaction under the name of a cursor: reads must see what the transaction wrote."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def cursor(self) -> _OneConnection:
        return self

    def close(self) -> None:
        return


class DuckdbWriter(Writer):
    """A table of a DuckDB file."""

    def __init__(self, connect: Callable[[], Any], table: str) -> None:
        super().__init__(DuckdbDialect(), connect, table)
        self._uniques: tuple[tuple[str, ...], ...] = ()

    def session(self) -> None:
        """Read and write instants in UTC."""
        self.dialect.begin(self.connection)

    def check_table(self) -> None:
        """Refuse a view."""
        asked = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
        if not self.connection.execute(asked, list(self.relation.parts)).fetchall():
            raise PatchSideError(f"{self.where} is no table.", where=self.where)

    def write_columns(self, described: Sequence[ReadColumn]) -> list[WriteColumn]:
        """Return the columns; generated ones are told by their expression."""
        asked = "SELECT sql FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
        text = self.connection.execute(asked, list(self.relation.parts)).fetchone()[0]
        return [WriteColumn(each, generated=_generated(each.column.name, text)) for each in described]

    def facts(self) -> TableFacts:
        """Return unique keys and foreign keys to the table itself; DuckDB has neither triggers nor cascades."""
        asked = (
            "SELECT constraint_type, constraint_column_names, constraint_text FROM duckdb_constraints()"
            " WHERE database_name = ? AND schema_name = ? AND table_name = ?"
        )
        uniques, references = [], []
        name = self.relation.parts[-1]
        for kind, columns, text in self.connection.execute(asked, list(self.relation.parts)).fetchall():
            if kind in ("PRIMARY KEY", "UNIQUE"):
                uniques.append(tuple(columns))
            match = re.search(r"REFERENCES\s+\"?([^\"(]+)\"?\s*\(([^)]*)\)", text or "")
            if kind == "FOREIGN KEY" and match and match[1].strip() == name:
                referenced = tuple(part.strip().strip('"') for part in match[2].split(","))
                references.append(Reference(shown(text), tuple(columns), referenced))
        self._uniques = tuple(uniques)
        return TableFacts((), self._uniques, tuple(references))

    def begin(self, *, write: bool, alone: bool = False) -> None:
        """Begin a transaction; its first statement takes the snapshot."""
        with self.writing():
            self.connection.execute("BEGIN TRANSACTION")

    def commit(self) -> None:
        """Commit; another writer's change to one of these rows fails here."""
        with self.writing():
            self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo everything since ``begin``; without a transaction nothing is done."""
        import duckdb

        try:
            self.connection.execute("ROLLBACK")
        except duckdb.TransactionException:
            return

    def reader(self) -> Any:
        """Read on the connection of the transaction."""
        return _OneConnection(self.connection)

    def execute(self, text: str, values: Sequence[Any]) -> int:
        """Run one statement; its result is the number of rows."""
        row = self.connection.execute(text, list(values)).fetchone()
        return int(row[0]) if row else 0

    def write(self, changes: Sequence[Change]) -> list[bool]:
        """Write changes one by one; those whose unique value another row holds are left to the end and named.

        A refused statement would end the transaction here, so that the table is asked before.
        """
        done: list[bool] = []
        taken: list[int] = []
        for place, change in enumerate(changes):
            if self._is_taken(change):
                taken.append(place)
                done.append(False)
                continue
            try:
                done += super().write([change])
            except CellRefusedError as error:
                raise CellRefusedError(place, error.reason) from None
            except TakenError as error:
                raise TakenError(error.error, [*taken, place]) from None
        if taken:
            raise TakenError(write_error(self.where, "another row holds a unique value"), taken)
        return done

    def _is_taken(self, change: Change) -> bool:
        """Tell whether another row holds a unique value that a change sets, as the transaction sees the table."""
        if change.op == "delete":
            return False
        known = {**change.guard, **change.key, **change.values}
        for unique in self._uniques:
            if not any(name in change.values or change.op == "insert" for name in unique):
                continue
            if any(name in known and known[name] is None for name in unique):
                continue
            text, values = self._holders(unique, known, change).render(self.dialect.paramstyle)
            with self.writing():
                if self.connection.execute(text, list(values)).fetchone() is not None:
                    return True
        return False

    def _holders(self, unique: Sequence[str], known: dict[str, Any], change: Change) -> Statement:
        """Ask for a row that holds the values of a unique key, other than the one that a change finds."""
        own = self.condition(Change(change.op, change.key))
        terms = []
        for name in unique:
            field = self.dialect.field(name)
            if name in known:
                terms.append(sql(f"{field} = ", self.bound(name, known[name])))
            elif change.op == "update":
                of_own = sql(f"(SELECT {field} FROM {self.aliased()} WHERE ", own, ")")
                terms.append(sql(f"{field} = ", of_own))
            else:
                return sql("SELECT 1 WHERE FALSE")  # the column's default: the engine judges
        if change.op == "update":
            terms.append(sql("NOT (", own, ")"))
        return sql(f"SELECT 1 FROM {self.aliased()} WHERE ", joined(" AND ", terms), " LIMIT 1")

    def operand(self, column: WriteColumn, value: Any) -> Statement:
        """Cast to the column's own type from a form that holds the value exactly."""
        kind = column.type or LogicalType("text")
        name = str(column.read.native)
        if kind.kind == "array" and kind.item is not None and not kind.item.nested:
            return sql("CAST(", Cell([_item(part, kind.item) for part in value], column.name), f" AS {name})")
        if kind.nested or isinstance(value, dict):
            raise ValueLossyError(f"A {kind.text} is not written to DuckDB.")
        if value in ("infinity", "-infinity") and kind.kind in ("date", "timestamp", "timestamp_tz"):
            return sql("CAST(", Cell(value, column.name), f" AS {name})")
        if kind.kind in _BOUND:
            found, exact = native_value(value, kind.kind, kind.kind, True)
            bound = self.dialect.bound(column.read, found, True)
            if bound is None or not (exact and bound.exact):
                raise ValueLossyError("DuckDB has no such value of this type.")
            return _named(bound.term, column.name)
        if kind.kind == "interval":
            return sql("CAST(", Cell(_interval(value), column.name), " AS INTERVAL)")
        if kind.kind == "bytes":
            return sql(Cell(bytes.fromhex(value), column.name))
        if kind.kind == "bool":
            return sql(Cell(value, column.name))
        return sql("CAST(", Cell(value, column.name), f" AS {name})")

    def same(self, column: WriteColumn, value: Any) -> Statement | None:
        """Compare in the binary collation; structs and maps are compared by the caller under the lock."""
        if column.type is None or column.type.kind in ("struct", "map"):
            return None
        if column.type.kind == "text":
            return sql(f"CAST({self.dialect.field(column.name)} AS VARCHAR) COLLATE C = ", Cell(value, column.name))
        return sql(f"{self.dialect.field(column.name)} IS NOT DISTINCT FROM ", self.operand(column, value))

    def refused(self, error: BaseException) -> Exception:
        """Tell conflicts with other writers from broken constraints; DuckDB's texts quote values, which are cut out."""
        import duckdb

        if isinstance(error, duckdb.TransactionException):
            return ContendedError(write_error(self.where, "another writer changed one of these rows"))
        if isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)):
            return CellRefusedError(0, type(error).__name__)
        if isinstance(error, duckdb.ConstraintException):
            text = str(error).splitlines()[0]
            if "uplicate key" in text:
                return TakenError(write_error(self.where, shown(_QUOTED.sub("...", text))))
            return write_error(self.where, shown(_QUOTED.sub("...", text)))
        if isinstance(error, duckdb.IOException):
            return ConnectError(f"{self.where}: {type(error).__name__}.", where=self.where)
        return write_error(self.where, type(error).__name__)


def _generated(name: str, text: str) -> bool:
    quoted = re.escape('"' + name.replace('"', '""') + '"')
    plain = re.escape(name)
    return bool(re.search(rf"(?:{quoted}|\b{plain}\b)\s+[A-Z][^,]*\bGENERATED\s+ALWAYS\s+AS\b", text, re.IGNORECASE))


def _named(term: Statement, column: str) -> Statement:
    from airflow_delta_provider.adapters.dialects.statement import Value

    return Statement(tuple(Cell(part.value, column) if isinstance(part, Value) else part for part in term.parts))


def _item(value: Any, kind: LogicalType) -> Any:
    if value is None or isinstance(value, bool):
        return value
    return (
        bytes.fromhex(value) if kind.kind == "bytes" else value.replace("T", " ") if "timestamp" in kind.kind else value
    )


def _interval(value: str) -> str:
    months, days, ns = native(value, "interval")
    if ns % 1000:
        raise ValueLossyError("DuckDB has intervals of microseconds.")
    sign = "-" if ns < 0 else ""
    seconds, rest = divmod(abs(ns), NS)
    return f"{months} months {days} days {sign}{seconds}.{rest // 1000:06d} seconds"
