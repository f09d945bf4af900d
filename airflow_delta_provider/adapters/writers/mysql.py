"""MySQL and MariaDB: strict values, every read of the transaction locks, rows are written one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from airflow_delta_provider.adapters.dialects.base import ALIAS, ReadColumn
from airflow_delta_provider.adapters.dialects.mysql import SETTINGS, MysqlDialect
from airflow_delta_provider.adapters.dialects.statement import Statement, sql
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import (
    Cell,
    CellRefusedError,
    ContendedError,
    Hazard,
    Reference,
    TableFacts,
    TakenError,
    WriteColumn,
    write_error,
)
from airflow_delta_provider.core.decimals import float32_of
from airflow_delta_provider.core.errors import ConnectError, PatchSideError, ValueLossyError, shown
from airflow_delta_provider.core.forms import native

SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO"
_CONTENDED = frozenset((1020, 1205, 1213))
_LOST = frozenset((1053, 2006, 2013, 2055, 4031))
_DATA = frozenset((1264, 1265, 1292, 1366, 1406, 1411, 1426, 1525, 1690, 3140))
_DUPLICATE = 1062
_KEY_NAME = re.compile(r"for key '([^']*)'")
_YEAR = re.compile(r"\d{4}-")
_EXTRAS = """
SELECT COLUMN_NAME, EXTRA, COALESCE(GENERATION_EXPRESSION, '') FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
"""
_TABLE = """
SELECT t.TABLE_TYPE, COALESCE(e.TRANSACTIONS, ''), t.ENGINE FROM information_schema.TABLES t
LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s
"""
_TRIGGERS = """
SELECT TRIGGER_NAME, EVENT_MANIPULATION FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s
"""
_FOREIGN = """
SELECT r.CONSTRAINT_NAME, r.DELETE_RULE, r.UPDATE_RULE, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME,
k.TABLE_SCHEMA = k.REFERENCED_TABLE_SCHEMA AND k.TABLE_NAME = k.REFERENCED_TABLE_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS r JOIN information_schema.KEY_COLUMN_USAGE k
ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME AND k.TABLE_NAME = r.TABLE_NAME
WHERE k.REFERENCED_TABLE_SCHEMA = %s AND k.REFERENCED_TABLE_NAME = %s ORDER BY r.CONSTRAINT_NAME, k.ORDINAL_POSITION
"""
_UNIQUES = """
SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX
"""


class MysqlWriter(Writer):
    """A table of MySQL or MariaDB in a storage engine that has transactions."""

    def __init__(self, connect: Callable[[], Any], table: str) -> None:
        super().__init__(MysqlDialect(), connect, table)

    def session(self) -> None:
        """Fix the settings of reads, then refuse every value that a column would change."""
        with self.connection.cursor() as cursor:
            for setting in SETTINGS:
                cursor.execute("SET " + setting)
            cursor.execute(f"SET SESSION sql_mode = '{SQL_MODE}'")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SET SESSION foreign_key_checks = 1, SESSION unique_checks = 1")
        self.connection.autocommit(False)
        self.connection.commit()

    def check_table(self) -> None:
        """Refuse views and storage engines without transactions."""
        found = self._rows(_TABLE)
        if not found or found[0][0] != "BASE TABLE":
            raise PatchSideError(f"{self.where} is no table.", where=self.where)
        if found[0][1] != "YES":
            raise PatchSideError(
                f"{self.where}: its engine {shown(found[0][2])} has no transactions.", where=self.where
            )

    def write_columns(self, described: Sequence[ReadColumn]) -> list[WriteColumn]:
        """Return the columns with what the catalog says of generated ones and of those that follow each update."""
        extras = {name: (extra.lower(), bool(made)) for name, extra, made in self._rows(_EXTRAS)}
        return [
            WriteColumn(each, generated=made or "generated" in extra.replace("default_generated", ""),
                        on_update="on update" in extra)
            for each in described
            for extra, made in (extras[each.column.name],)
        ]  # fmt: skip

    def facts(self) -> TableFacts:
        """Return triggers, cascades, unique keys and foreign keys to the table itself."""
        hazards = [Hazard(name, "trigger", frozenset((event.lower(),))) for name, event in self._rows(_TRIGGERS)]
        foreign: dict[str, list[tuple[Any, ...]]] = {}
        for row in self._rows(_FOREIGN):
            foreign.setdefault(row[0], []).append(row)
        references = []
        for name, rows in foreign.items():
            _, on_delete, on_update, _, _, own = rows[0]
            referenced = tuple(row[4] for row in rows)
            if on_delete not in ("RESTRICT", "NO ACTION"):
                hazards.append(Hazard(name, f"ON DELETE {on_delete}", frozenset(("delete",))))
            if on_update not in ("RESTRICT", "NO ACTION"):
                hazards.append(Hazard(name, f"ON UPDATE {on_update}", frozenset(("update",)), frozenset(referenced)))
            if own:
                references.append(Reference(name, tuple(row[3] for row in rows), referenced))
        uniques: dict[str, list[str]] = {}
        for index, column in self._rows(_UNIQUES):
            uniques.setdefault(index, []).append(column)
        whole = tuple(tuple(names) for names in uniques.values() if None not in names)
        return TableFacts(tuple(hazards), whole, tuple(references))

    def begin(self, *, write: bool, alone: bool = False) -> None:
        """Begin; reads for a write lock what they see, gaps between rows included."""
        with self.writing(), self.connection.cursor() as cursor:
            cursor.execute("START TRANSACTION" if write else "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def locking(self) -> str:
        """Lock the rows, and see their newest state whatever snapshot there is."""
        return " FOR UPDATE"

    def deleting(self) -> str:
        """Name the alias once more: older servers know it in this form only."""
        return f"DELETE {ALIAS} FROM {self.aliased()}"

    def operand(self, column: WriteColumn, value: Any) -> Statement:
        """Bind in a form that the column's own type reads exactly."""
        return sql(Cell(self._plain(column, value), column.name))

    def _plain(self, column: WriteColumn, value: Any) -> Any:
        kind = column.type.kind if column.type else "text"
        if isinstance(value, dict):
            raise ValueLossyError("MySQL has no text that is no Unicode.")
        if kind == "int":
            return int(value)
        if kind == "decimal":
            if value in ("NaN", "Infinity", "-Infinity"):
                raise ValueLossyError("MySQL has finite numbers only.")
            return Decimal(value)
        if kind in ("float32", "float64"):
            number = native(value, kind)
            if number - number != 0:
                raise ValueLossyError("MySQL has finite numbers only.")
            return float32_of(number) if kind == "float32" else number
        if kind == "bytes":
            return bytes.fromhex(value)
        if kind in ("date", "timestamp", "timestamp_tz"):
            if not _YEAR.match(value):
                raise ValueLossyError("MySQL has the years 0 to 9999 only.")
            return value.replace("T", " ").removesuffix("Z")
        if column.read.column.engine_type.startswith("bit"):
            return int(value, 2)
        return value

    def same(self, column: WriteColumn, value: Any) -> Statement | None:
        """Compare texts byte by byte in one character set, whatever collation; floats as doubles."""
        kind, field = column.type.kind if column.type else "text", self.dialect.field(column.name)
        if column.read.column.engine_type.startswith("bit"):
            return sql(f"{field} = ", self.operand(column, value))
        if kind in ("text", "json_text"):
            exact = f"CAST(CONVERT({field} USING utf8mb4) AS BINARY)"
            return sql(f"{exact} <=> ", Cell(str(value).encode(), column.name))
        if kind in ("float32", "float64"):
            return sql(f"{column.read.select} <=> ", self.operand(column, value))
        if kind in ("timestamp", "timestamp_tz"):
            return sql(f"{field} <=> CAST(", self.operand(column, value), " AS DATETIME(6))")
        return sql(f"{field} <=> ", self.operand(column, value))

    def refused(self, error: BaseException) -> Exception:
        """Name the constraint; messages of values that do not fit and of duplicates hold values and stay out."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[-1]) if error.args else ""
        if code in _CONTENDED:
            return ContendedError(write_error(self.where, f"another writer was in the way ({code})"))
        if code in _DATA:
            return CellRefusedError(0, f"error {code}")
        if code in _LOST or isinstance(error, OSError) or not code:
            return ConnectError(
                f"{self.where}: the connection was lost ({code or type(error).__name__}).", where=self.where
            )
        if code == _DUPLICATE:
            name = _KEY_NAME.search(text)
            return TakenError(write_error(self.where, f"unique key {shown(name[1] if name else '')} ({code})"))
        return write_error(self.where, f"{text[:300]} ({code})")

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, self.relation.parts)
            found: list[tuple[Any, ...]] = [
                tuple(cell.decode() if isinstance(cell, bytes) else cell for cell in row) for row in cursor.fetchall()
            ]
        return found
