"""What the information schema of MySQL and MariaDB says of a relation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_delta_provider.adapters.dialects.base import ALIAS, ReadColumn, Relation
from airflow_delta_provider.adapters.dialects.mysql_types import Declared, Flavour, described_field, read_column

COUNTED_ROWS_MAX = 10_000
"""An estimate below this is counted: statistics of small and fresh tables are often zero."""
_COLUMNS = """
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE,
DATETIME_PRECISION, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
ORDER BY ORDINAL_POSITION
"""
_INDEXED = """
SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND SEQ_IN_INDEX = 1
AND CAST(COLUMN_NAME AS BINARY) = CAST(%s AS BINARY) AND INDEX_TYPE = 'BTREE' AND SUB_PART IS NULL
"""
_PRIMARY_KEY = """
SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX
"""


def rows_of(connection: Any, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement of our own and return its rows as tuples."""
    from pymysql.cursors import Cursor

    with connection.cursor(Cursor) as cursor:
        cursor.execute(text, values or None)
        return list(cursor.fetchall())


def flavour(connection: Any) -> Flavour:
    """Tell the server's kind by its version, and the collation that orders by code points."""
    version = str(connection.get_server_info())
    mariadb = "mariadb" in version.lower()
    if mariadb:
        return Flavour(True, "utf8mb4_nopad_bin")
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:3] if part.isdigit())
    return Flavour(False, "utf8mb4_0900_bin" if numbers >= (8, 0, 17) else "")


def relation(connection: Any, way: tuple[str, ...]) -> tuple[str, str] | None:
    """Return database and name of what one reading of a table name means."""
    if len(way) > 2:
        return None
    path = way if len(way) == 2 else (None, way[0])
    asked = """
    SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE())
    AND TABLE_NAME = %s ORDER BY CAST(TABLE_NAME AS BINARY) = CAST(%s AS BINARY) DESC
    """
    found = rows_of(connection, asked, *path, path[1])
    return (found[0][0], found[0][1]) if found else None


def table_columns(connection: Any, parts: tuple[str, ...], field: Callable[[str], str]) -> tuple[ReadColumn, ...]:
    """Return how the columns of a table are read."""
    kind = flavour(connection)
    return tuple(read_column(_declared(row), field(row[0]), kind) for row in rows_of(connection, _COLUMNS, *parts))


def _declared(row: tuple[Any, ...]) -> Declared:
    name, type_name, shown_type, nullable, length, precision, scale, digits, collation = row
    return Declared(
        name=str(name),
        type=str(type_name).lower(),
        shown=_text(shown_type),
        nullable=nullable == "YES",
        unsigned="unsigned" in _text(shown_type).lower().partition("(")[2] or " unsigned" in _text(shown_type).lower(),
        length=None if length is None else int(length),
        precision=None if precision is None else int(precision),
        scale=None if scale is None else int(scale),
        digits=None if digits is None else int(digits),
        collation=str(collation or ""),
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def query_columns(connection: Any, fields: list[Any], field: Callable[[str], str]) -> tuple[ReadColumn, ...]:
    """Return how the columns of a query's result are read."""
    declared = [described_field(each, "") for each in fields]
    return tuple(read_column(each, field(each.name), flavour(connection)) for each in declared)


def primary_key(connection: Any, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the primary key in its order."""
    return tuple(str(row[0]) for row in rows_of(connection, _PRIMARY_KEY, *parts))


def indexed(connection: Any, parts: tuple[str, ...], name: str) -> bool:
    """Tell whether an index over whole values starts with the column."""
    return bool(rows_of(connection, _INDEXED, *parts, name)[0][0])


def rows_estimate(connection: Any, relation: Relation) -> int:
    """Return the statistics' count where it is large, else the exact one."""
    if not relation.is_query:
        asked = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        found = rows_of(connection, asked, *relation.parts)
        if found and found[0][0] is not None and int(found[0][0]) > COUNTED_ROWS_MAX:
            return int(found[0][0])
    return int(rows_of(connection, f"SELECT COUNT(*) FROM {relation.source} AS {ALIAS}")[0][0])


def facts(connection: Any) -> dict[str, Any]:
    """Return version and replication position where the server tells it."""
    return {"version": str(connection.get_server_info())}
