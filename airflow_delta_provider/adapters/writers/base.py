"""The seam of writers: what a patch asks of a table, and the row by row way in which most engines give it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ALIAS, Dialect, ReadColumn, Relation
from airflow_delta_provider.adapters.dialects.statement import Statement, joined, sql
from airflow_delta_provider.adapters.writers.changes import (
    Bulk,
    CellRefusedError,
    Change,
    ContendedError,
    TableFacts,
    TakenError,
    WriteColumn,
)
from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    PatchSideError,
    SideColumnTypeError,
    SideMissingError,
    ValueLossyError,
    shown,
)
from airflow_delta_provider.core.types import LogicalType

BATCH_ROWS = 65_536
BATCH_BYTES = 16 * 2**20
LOOKUP_KEYS = 500
"""Keys that one statement looks up."""


class Writer(ABC):
    """One table, opened for reading and writing, one transaction at a time.

    ``connect`` gives a writable connection of the dialect's driver. Raises, from every method: ConnectError,
    SideMissingError, PatchSideError, PatchWriteError, ContendedError.
    """

    def __init__(self, dialect: Dialect, connect: Callable[[], Any], table: str) -> None:
        self.kind = dialect.kind
        self.where = f"table {shown(table)}"
        self.dialect = dialect
        self._connect = connect
        self._table = table
        self.connection: Any = None
        self.relation: Relation = Relation("", self.where)
        self.columns: dict[str, WriteColumn] = {}

    def __enter__(self) -> Writer:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect, find the table and read its columns."""
        self.connection = self._connect()
        with self.refusals():
            self.session()
            relation = self.dialect.find(self.connection, self._table)
            if relation is None:
                raise SideMissingError(f"There is no {self.where} that this user may read.", where=self.where)
            self.relation = relation
            self.check_table()
            described = self.dialect.describe(self.connection, relation)
            self.columns = {each.name: each for each in self.write_columns(described)}
            self.rollback()

    def close(self) -> None:
        """Give up what was not committed and close the connection; a second call does nothing."""
        connection, self.connection = self.connection, None
        if connection is not None:
            try:
                connection.close()
            except self.dialect.driver_errors():
                return

    @abstractmethod
    def session(self) -> None:
        """Fix the session's settings: UTC, strict values, no autocommit."""

    @abstractmethod
    def check_table(self) -> None:
        """Refuse what is no table with transactions. Raises: PatchSideError (DELTA_PATCH_SIDE)."""

    @abstractmethod
    def write_columns(self, described: Sequence[ReadColumn]) -> list[WriteColumn]:
        """Return the columns with what the catalog says about writing them."""

    @abstractmethod
    def facts(self) -> TableFacts:
        """Return triggers, cascades, unique keys and foreign keys to the table itself."""

    @abstractmethod
    def begin(self, *, write: bool, alone: bool = False) -> None:
        """Begin a transaction; ``alone`` keeps other writers out of the whole table until it ends."""

    @abstractmethod
    def operand(self, column: WriteColumn, value: Any) -> Statement:
        """Write a canonical value that is not NULL as an operand of the column's own type.

        Raises: ValueLossyError where the engine has no such value.
        """

    @abstractmethod
    def same(self, column: WriteColumn, value: Any) -> Statement | None:
        """Write a predicate: the column holds exactly this value; None where the engine cannot compare it."""

    @abstractmethod
    def refused(self, error: BaseException) -> Exception:
        """Return what to raise for a driver's error during a write."""

    def commit(self) -> None:
        """Make everything since ``begin`` permanent."""
        with self.writing():
            self.connection.commit()

    def rollback(self) -> None:
        """Undo everything since ``begin``."""
        with self.refusals():
            self.connection.rollback()

    def check_constraints(self) -> None:
        """Check what was deferred, so that it fails before the commit."""
        return

    def judge_one_by_one(self) -> None:
        """Check in this transaction every unique constraint with each write, so that a refusal names its row."""
        return

    def types(self, names: Sequence[str]) -> dict[str, LogicalType]:
        """Return the stored types of columns. Raises: SideColumnTypeError for one that has none."""
        found = {}
        for name in names:
            column = self.columns[name]
            if column.type is None:
                raise SideColumnTypeError(
                    f"{self.where}, column {shown(name)}: {shown(column.read.column.engine_type)} has no logical type.",
                    where=self.where,
                )
            found[name] = column.type
        return found

    def lookup(
        self, key: Sequence[str], keys: Sequence[Sequence[Any]], names: Sequence[str], *, lock: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have one of these keys, and perhaps others; the caller picks by key bytes.

        ``keys``: canonical stored values, one for each key column, None for NULL. ``lock`` holds the rows until the
        transaction ends.
        """
        for start in range(0, len(keys), LOOKUP_KEYS):
            part = keys[start : start + LOOKUP_KEYS]
            yield from self.fetched(sql(" WHERE ", self._any_key(key, part)), names, lock)

    def scan(self, names: Sequence[str], *, lock: bool) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in any order."""
        yield from self.fetched(sql(""), names, lock)

    def fetched(self, tail: Statement, names: Sequence[str], lock: bool) -> Iterator[pa.RecordBatch]:
        """Run a SELECT of these columns over the table."""
        columns = tuple(self.columns[name].read for name in names)
        terms = ", ".join(f"{each.select} AS c{at}" for at, each in enumerate(columns))
        locking = self.locking() if lock else ""
        statement = sql(f"SELECT {terms} FROM {self.relation.source} AS {ALIAS}", tail, locking)
        with self.refusals():
            batches = self.dialect.fetch(self.reader(), statement, columns, BATCH_ROWS, BATCH_BYTES)
            for arrays in batches:
                yield pa.RecordBatch.from_arrays(arrays, list(names))

    def locking(self) -> str:
        """Return what a SELECT ends with so that it locks its rows."""
        return ""

    def reader(self) -> Any:
        """Return the connection as the dialect's ``fetch`` takes it, inside this transaction."""
        return self.connection

    def write(self, changes: Sequence[Change]) -> list[bool]:
        """Write changes of one op in order; tell for each whether its row was there as guarded.

        Raises: CellRefusedError, PatchWriteError, ContendedError; TakenError once all others were tried, where the
        engine goes on after a unique key refused a row.
        """
        done: list[bool] = []
        taken: list[int] = []
        refusal: TakenError | None = None
        for place, change in enumerate(changes):
            text, values = self.statement(change).render(self.dialect.paramstyle)
            try:
                with self.writing():
                    done.append(self.execute(text, values) == 1)
            except CellRefusedError as error:
                raise CellRefusedError(place, error.reason) from None
            except TakenError as error:
                refusal = error
                taken.append(place)
        if refusal is not None:
            raise TakenError(refusal.error, taken)
        return done

    def bulk(self, folder: Path) -> Bulk | None:
        """Return what writes many changes at once, with its files in ``folder``; None where there is no such way."""
        return None

    def execute(self, text: str, values: Sequence[Any]) -> int:
        """Run one statement and return how many rows it wrote."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(text, tuple(values))
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def statements(self, changes: Sequence[Change]) -> list[Statement]:
        """Return the statements that ``write`` runs for these changes."""
        return [self.statement(change) for change in changes]

    def statement(self, change: Change) -> Statement:
        """Return the one statement of a change. No update and no delete is ever without the whole key."""
        if change.op == "insert":
            return self.insert_statement({**change.key, **change.values})
        if not change.key:
            raise PatchSideError("A patch needs a key.", where=self.where)
        if change.op == "delete":
            return sql(f"{self.deleting()} WHERE ", self.condition(change))
        sets = joined(", ", (self.assignment(name, value) for name, value in change.values.items()))
        kept = [each.name for each in self.columns.values() if each.on_update and each.name not in change.values]
        for name in kept:
            sets = sql(sets, f", {self.dialect.quote(name)} = {self.dialect.quote(name)}")
        return sql(f"UPDATE {self.aliased()} SET ", sets, " WHERE ", self.condition(change))

    def aliased(self) -> str:
        """Write the table with its alias, as UPDATE and DELETE take it."""
        return f"{self.relation.source} AS {ALIAS}"

    def deleting(self) -> str:
        """Write the head of a DELETE."""
        return f"DELETE FROM {self.aliased()}"

    def insert_statement(self, row: dict[str, Any]) -> Statement:
        """Write an INSERT of one row."""
        names = ", ".join(self.dialect.quote(name) for name in row)
        values = joined(", ", (self.bound(name, value) for name, value in row.items()))
        return sql(f"INSERT INTO {self.relation.source} ({names}){self.overriding()} VALUES (", values, ")")

    def overriding(self) -> str:
        """Return what an INSERT says so that identity columns take its values."""
        return ""

    def assignment(self, name: str, value: Any) -> Statement:
        """Write one assignment of an UPDATE."""
        return sql(f"{self.dialect.quote(name)} = ", self.bound(name, value))

    def bound(self, name: str, value: Any) -> Statement:
        """Write a value, NULL included, as an operand."""
        return sql("NULL") if value is None else self.operand(self.columns[name], value)

    def condition(self, change: Change) -> Statement:
        """Write the whole key and the guard of a change."""
        terms = []
        for name, value in change.key.items():
            column = self.columns[name]
            if value is None:
                terms.append(sql(f"{self.dialect.field(name)} IS NULL"))
                continue
            terms.append(sql(f"{self.dialect.field(name)} = ", self.operand(column, value)))
            exact = self.same(column, value)
            terms += [exact] if exact is not None and column.type is not None and column.type.kind == "text" else []
        for name, value in change.guard.items():
            if name not in change.key:
                term = self.guarded(name, value)
                terms += [] if term is None else [term]
        return joined(" AND ", terms)

    def guarded(self, name: str, value: Any) -> Statement | None:
        """Write that a column holds exactly a value, or NULL."""
        if value is None:
            return sql(f"{self.dialect.field(name)} IS NULL")
        return self.same(self.columns[name], value)

    def holds(self, name: str, value: Any) -> bool:
        """Tell whether the engine has a form for a canonical value in this column, as far as it is known beforehand."""
        try:
            self.bound(name, value)
        except ValueLossyError:
            return False
        return True

    def _any_key(self, names: Sequence[str], keys: Sequence[Sequence[Any]]) -> Statement:
        if len(names) == 1 and all(key[0] is not None for key in keys):
            column = self.columns[names[0]]
            operands = joined(", ", (self.operand(column, key[0]) for key in keys))
            return sql(f"{self.dialect.field(names[0])} IN (", operands, ")")
        return joined(" OR ", (self._one_key(names, key) for key in keys))

    def _one_key(self, names: Sequence[str], key: Sequence[Any]) -> Statement:
        terms = []
        for name, value in zip(names, key, strict=True):
            field_text = self.dialect.field(name)
            operand = sql(" IS NULL") if value is None else sql(" = ", self.operand(self.columns[name], value))
            terms.append(sql(field_text, operand))
        return sql("(", joined(" AND ", terms), ")")

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Turn a driver's errors while reading into refusals."""
        try:
            yield
        except DeltaError:
            raise
        except self.dialect.driver_errors() as error:
            found = self.refused(error)
            if isinstance(found, (ContendedError, ConnectError)):
                raise found from None
            raise self.dialect.failure(error, self.where) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn a driver's errors while writing into refusals."""
        try:
            yield
        except DeltaError:
            raise
        except self.dialect.driver_errors() as error:
            raise self.refused(error) from None
