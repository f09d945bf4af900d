"""PostgreSQL: whole batches in one statement, from arrays of exact texts; rows are locked before they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ALIAS, ReadColumn
from airflow_delta_provider.adapters.dialects.postgresql import SETTINGS, PostgresqlDialect
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, joined, sql
from airflow_delta_provider.adapters.writers import postgresql_catalog as catalog
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import (
    Bulk,
    Cell,
    CellRefusedError,
    Change,
    ContendedError,
    TableFacts,
    TakenError,
    WriteColumn,
    write_error,
)
from airflow_delta_provider.adapters.writers.postgresql_bulk import PostgresqlBulk
from airflow_delta_provider.adapters.writers.postgresql_values import bare_type, compared_as_text, text_of
from airflow_delta_provider.core.errors import ConnectError, PatchSideError, ValueLossyError, shown
from airflow_delta_provider.core.types import LogicalType

NEW = "delta_new"
SAVEPOINT = "delta_write"
ORDINAL = "delta_ord"
_CONTENDED = ("40001", "40P01", "55P03")
_TAKEN = {"23505": "unique", "23P01": "exclusion"}
_ORDERS: dict[str, Callable[[Any], Any]] = {"int": int, "uuid": str}
"""Kinds that the engine orders as their canonical values are ordered by this, whatever the collation."""


class PostgresqlWriter(Writer):
    """A table of PostgreSQL."""

    def __init__(self, connect: Callable[[], Any], table: str) -> None:
        super().__init__(PostgresqlDialect(), connect, table)

    def session(self) -> None:
        """Fix the settings that change what texts mean; READ COMMITTED, since rows are locked before they are judged."""
        import psycopg

        self.connection.rollback()
        self.connection.autocommit = True
        known = "SELECT set_config(name, %s, false) FROM pg_catalog.pg_settings WHERE name = %s"
        for name, value in SETTINGS.items():
            self.connection.execute(known, (value, name))
        self.connection.read_only = False
        self.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self.connection.autocommit = False

    def check_table(self) -> None:
        """Refuse views, foreign tables and materialised views."""
        if catalog.relation_kind(self.connection, self.relation.parts) not in ("r", "p"):
            raise PatchSideError(f"{self.where} is no table.", where=self.where)

    def write_columns(self, described: Sequence[ReadColumn]) -> list[WriteColumn]:
        """Return the columns with what the catalog says of generated and identity ones."""
        extras = catalog.column_extras(self.connection, self.relation.parts)
        return [
            WriteColumn(each, generated=bool(generated), always=identity == "a")
            for each in described
            for generated, identity in (extras[each.column.name],)
        ]

    def facts(self) -> TableFacts:
        """Return triggers, rules, cascades, unique keys and foreign keys to the table itself."""
        return catalog.facts(self.connection, self.relation.parts)

    def begin(self, *, write: bool, alone: bool = False) -> None:
        """Begin; deferrable constraints are checked at the end."""
        self.rollback()
        with self.writing():
            if write:
                self.connection.execute("SET CONSTRAINTS ALL DEFERRED")
            else:
                self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if alone:
                self.connection.execute(f"LOCK TABLE {self.relation.source} IN SHARE ROW EXCLUSIVE MODE".encode())

    def check_constraints(self) -> None:
        """Check what was deferred."""
        with self.writing():
            self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def judge_one_by_one(self) -> None:
        """Check deferrable unique and exclusion constraints with every statement; foreign keys wait till the end."""
        names = catalog.deferrable(self.connection, self.relation.parts)
        if names:
            with self.writing():
                self.connection.execute(f"SET CONSTRAINTS {', '.join(names)} IMMEDIATE".encode())

    def lookup(
        self, key: Sequence[str], keys: Sequence[Sequence[Any]], names: Sequence[str], *, lock: bool
    ) -> Iterator[pa.RecordBatch]:
        """Join the table with the keys; rows are locked first, so that the read after it sees their newest state."""
        joined_keys = self._keys(key, keys)
        if lock:
            text = sql(f"SELECT 1 FROM {self.aliased()}, ", joined_keys, f" FOR UPDATE OF {ALIAS}")
            with self.writing():
                self.connection.execute(self.dialect.written(self.connection, text).encode())  # type: ignore[attr-defined]
        yield from self.fetched(sql(", ", joined_keys), names, False)

    def scan(self, names: Sequence[str], *, lock: bool) -> Iterator[pa.RecordBatch]:
        """Yield all rows; who locks has the table for itself already."""
        yield from self.fetched(sql(""), names, False)

    def _keys(self, key: Sequence[str], keys: Sequence[Sequence[Any]]) -> Statement:
        """Write the keys as arrays and their condition."""
        columns = [self.columns[name] for name in key]
        parts = list(zip(*keys, strict=True))
        arrays = joined(
            ", ", (sql("CAST(", Value(_list_of(c, p)), " AS text[])") for c, p in zip(columns, parts, strict=True))
        )
        names = ", ".join(f"k{at}" for at in range(len(key)))
        terms = []
        for at, (column, part) in enumerate(zip(columns, parts, strict=True)):
            field, operand = self.dialect.field(column.name), f"CAST({NEW}.k{at} AS {bare_type(column)})"
            terms.append(f"{field} {'IS NOT DISTINCT FROM' if None in part else '='} {operand}")
        between = self._between(columns[0], parts[0])
        return sql("unnest(", arrays, f") AS {NEW}({names}) WHERE {' AND '.join(terms)}", between)

    def _between(self, column: WriteColumn, values: Sequence[Any]) -> Statement:
        """Write that a key column lies between its least and its greatest value, where the engine orders as we do.

        Many keys at once are a join for which the engine reads the whole table; keys that stand together are in a part.
        """
        order = _ORDERS.get(column.type.kind if column.type else "")
        if order is None or None in values:
            return sql("")
        field, kind = self.dialect.field(column.name), bare_type(column)
        lower, upper = (Value(text_of(column, end(values, key=order))) for end in (min, max))
        return sql(f" AND {field} BETWEEN CAST(", lower, f" AS {kind}) AND CAST(", upper, f" AS {kind})")

    def write(self, changes: Sequence[Change]) -> list[bool]:
        """Write the changes in few statements, one for each set of columns that occurs."""
        done = [False] * len(changes)
        taken: dict[int, TakenError] = {}
        for places in _groups(changes).values():
            for place in self._write_some(changes, places, taken):
                done[place] = True
        if taken:
            raise TakenError(next(iter(taken.values())).error, sorted(taken))
        return done

    def _write_some(self, changes: Sequence[Change], places: Sequence[int], taken: dict[int, TakenError]) -> list[int]:
        """Write some changes; where one cannot be stored or its unique value is taken, halve them until it is alone."""
        statement = self._batch([changes[place] for place in places])
        try:
            with self.writing():
                self.connection.execute(f"SAVEPOINT {SAVEPOINT}")
                found = self._run(statement, len(places))
                self.connection.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        except (CellRefusedError, TakenError) as error:
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            if len(places) == 1:
                if isinstance(error, CellRefusedError):
                    raise CellRefusedError(places[0], error.reason) from None
                taken[places[0]] = error
                return []
            middle = len(places) // 2
            first = self._write_some(changes, places[:middle], taken)
            return first + self._write_some(changes, places[middle:], taken)
        return [places[at] for at in found]

    def _run(self, statement: Statement, rows: int) -> list[int]:
        text, values = statement.render("format")
        cursor = self.connection.execute(text.encode(), values)
        if cursor.description is None:
            return list(range(rows)) if cursor.rowcount == rows else []
        return [row[0] for row in cursor.fetchall()]

    def statements(self, changes: Sequence[Change]) -> list[Statement]:
        """Return the statements that ``write`` runs for these changes."""
        return [self._batch([changes[place] for place in places]) for places in _groups(changes).values()]

    def _batch(self, changes: Sequence[Change]) -> Statement:
        """Write one statement for changes of one op that set and guard the same columns."""
        first = changes[0]
        if first.op != "insert" and not first.key:
            raise PatchSideError("A patch needs a key.", where=self.where)
        named: list[tuple[str, str, list[Any]]] = []
        for mark, rows in (("k", [c.key for c in changes]), ("v", [c.values for c in changes]), ("g", [c.guard for c in changes])):  # fmt: skip
            for at, name in enumerate(rows[0]):
                named.append((f"{mark}{at}", name, [row[name] for row in rows]))
        arrays = [sql("CAST(", Value(list(range(len(changes)))), " AS integer[])")]
        arrays += [sql("CAST(", Cell(_array(self.columns[name], part), name), " AS text[])") for _, name, part in named]
        new = sql(
            "unnest(", joined(", ", arrays), f") AS {NEW}({', '.join([ORDINAL, *(mark for mark, _, _ in named)])})"
        )
        if first.op == "insert":
            return self._insert([(mark, name) for mark, name, _ in named], new)
        terms = " AND ".join(self._terms(named))
        if first.op == "delete":
            return sql(f"DELETE FROM {self.aliased()} USING ", new, f" WHERE {terms} RETURNING {NEW}.{ORDINAL}")
        sets = ", ".join(
            f"{self.dialect.quote(name)} = {self._new(mark, name)}" for mark, name, _ in named if mark[0] == "v"
        )
        return sql(f"UPDATE {self.aliased()} SET {sets} FROM ", new, f" WHERE {terms} RETURNING {NEW}.{ORDINAL}")

    def _insert(self, named: list[tuple[str, str]], new: Statement) -> Statement:
        named = [(mark, name) for mark, name in named if mark[0] != "g"]
        names = ", ".join(self.dialect.quote(name) for _, name in named)
        always = any(self.columns[name].always for _, name in named)
        values = ", ".join(self._new(mark, name) for mark, name in named)
        overriding = " OVERRIDING SYSTEM VALUE" if always else ""
        head = f"INSERT INTO {self.relation.source} ({names}){overriding} SELECT {values} FROM "
        return sql(head, new, f" ORDER BY {NEW}.{ORDINAL}")

    def _new(self, mark: str, name: str) -> str:
        return f"CAST({NEW}.{mark} AS {bare_type(self.columns[name])})"

    def _terms(self, named: Sequence[tuple[str, str, list[Any]]]) -> Iterator[str]:
        keys = {name for mark, name, _ in named if mark[0] == "k"}
        for mark, name, part in named:
            field, new = self.dialect.field(name), self._new(mark, name)
            if mark[0] == "k":
                yield f"{field} {'IS NOT DISTINCT FROM' if None in part else '='} {new}"
            if (mark[0] == "k" and self.columns[name].type == LogicalType("text")) or (
                mark[0] == "g" and name not in keys
            ):
                exact = self._exact(self.columns[name], field, mark, new)
                yield from [exact] if exact else []

    def _exact(self, column: WriteColumn, field: str, mark: str, new: str) -> str:
        """Write that a column holds exactly a value, NULL included; "" where only texts of a list could be compared."""
        kind = column.type.kind if column.type else ""
        if kind == "text":
            return f'{field}::text COLLATE "C" IS NOT DISTINCT FROM {new}::text'
        if compared_as_text(column):
            return f"{field}::text IS NOT DISTINCT FROM {new}::text"
        return f"{field} IS NOT DISTINCT FROM {new}"

    def bulk(self, folder: Path) -> Bulk | None:
        """Write many changes at once, unless other tables stand behind this one, which may do more than it says."""
        return None if catalog.has_children(self.connection, self.relation.parts) else PostgresqlBulk(self, folder)

    def holds(self, name: str, value: Any) -> bool:
        """Tell whether there is a text for the value."""
        try:
            if value is not None:
                text_of(self.columns[name], value)
        except ValueLossyError:
            return False
        return True

    def operand(self, column: WriteColumn, value: Any) -> Statement:
        """Cast an exact text to the column's own type."""
        return sql("CAST(", Cell(text_of(column, value), column.name), f" AS {bare_type(column)})")

    def same(self, column: WriteColumn, value: Any) -> Statement | None:
        """Not used here: batches compare whole columns."""
        return None

    def refused(self, error: BaseException) -> Exception:
        """Name the constraint or the kind of failure; the server's details hold values and stay out."""
        import psycopg

        state = getattr(error, "sqlstate", None) or ""
        diag = getattr(error, "diag", None)
        constraint = shown(getattr(diag, "constraint_name", None) or "")
        if state in _CONTENDED:
            return ContendedError(write_error(self.where, f"another writer was in the way ({state})"))
        if state[:2] == "22" or state == "42804":
            return CellRefusedError(0, f"SQLSTATE {state}")
        if state[:2] == "08" or state[:2] == "57" or (isinstance(error, psycopg.OperationalError) and not state):
            return ConnectError(f"{self.where}: the connection was lost ({type(error).__name__}).", where=self.where)
        if state in _TAKEN:
            return TakenError(write_error(self.where, f"{_TAKEN[state]} constraint {constraint} ({state})"))
        column = shown(getattr(diag, "column_name", None) or "")
        name = f" {constraint or column}" if constraint or column else ""
        return write_error(self.where, f"{type(error).__name__}{name} ({state or 'no SQLSTATE'})")


def _groups(changes: Sequence[Change]) -> dict[Any, list[int]]:
    """Return places of changes that one statement can write together."""
    groups: dict[Any, list[int]] = {}
    for place, change in enumerate(changes):
        nulls = tuple(name for name, value in change.key.items() if value is None)
        groups.setdefault((change.op, *map(tuple, (change.key, change.values, change.guard)), nulls), []).append(place)
    return groups


def _list_of(column: WriteColumn, values: Sequence[Any]) -> Any:
    """Return values as PostgreSQL's text of an array where none needs quotes, else as a list for the driver."""
    if column.type is None or column.type.kind not in ("int", "uuid") or None in values:
        return _array(column, values)
    return "{" + ",".join(values) + "}"


def _array(column: WriteColumn, values: Sequence[Any]) -> list[str | None]:
    return [None if value is None else text_of(column, value) for value in values]
