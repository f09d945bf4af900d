"""Snowflake, through SQLAlchemy."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider.adapters.dialects.base import ReadColumn, Relation
from airflow_delta_provider.adapters.dialects.rowwise import (
    MARK,
    Described,
    Mapped,
    RowDialect,
    bound_date,
    bound_moment,
    bound_number,
    rows_of,
    run,
)
from airflow_delta_provider.adapters.dialects.statement import Value, sql
from airflow_delta_provider.core.types import LogicalType

_FIND = """
SELECT table_catalog, table_schema, table_name FROM {}information_schema.tables WHERE table_name = """
_COLUMNS = """
SELECT column_name, data_type, numeric_precision, numeric_scale, character_maximum_length, datetime_precision, is_nullable
FROM {}.information_schema.columns WHERE table_schema = """
_CODES = ("number", "float", "text", "date", "timestamp", "variant", "timestamp_ltz", "timestamp_tz", "timestamp_ntz",
          "object", "array", "binary", "time", "boolean", "geography", "geometry", "vector")  # fmt: skip
"""Type codes of the driver's descriptions, from 0."""


class SnowflakeDialect(RowDialect):
    """Snowflake. There are no snapshots over statements; a read is one statement."""

    kind = "snowflake"
    parser = "snowflake"
    settings = (
        "ALTER SESSION SET TIMEZONE = 'UTC'",
        "ALTER SESSION SET BINARY_OUTPUT_FORMAT = 'HEX'",
        "ALTER SESSION SET QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE",
    )

    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        """Look in the database and schema that are named, or in the current ones."""
        database, schema, name = ("", "", *way)[-3:]
        place = f"{self.quote(database)}." if database else ""
        wanted = sql(Value(schema)) if schema else sql("CURRENT_SCHEMA()")
        found = rows_of(connection, sql(_FIND.format(place), Value(name), " AND table_schema = ", wanted))
        return tuple(str(part) for part in found[0]) if found else None

    def described(self, connection: Any, relation: Relation) -> list[Described]:
        """Ask the catalog, or the driver what an empty result of the query has."""
        if relation.is_query:
            result = run(connection, sql(f"SELECT * FROM {self.aliased(relation.source)} LIMIT 0"))
            fields = list(result.cursor.description)
            result.close()
            return [Described(str(field[0]), _driver_type(field), True) for field in fields]
        database, schema, name = relation.parts
        statement = sql(_COLUMNS.format(self.quote(database)), Value(schema), " AND table_name = ", Value(name))
        rows = rows_of(connection, sql(statement, " ORDER BY ordinal_position"))
        return [Described(str(row[0]), _type_text(*row[1:6]), row[6] == "YES") for row in rows]

    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        """Return how a type is read."""
        if name in ("number", "decimal", "numeric"):
            precision, scale = arguments or (38, 0)
            kind = LogicalType("decimal", precision=precision, scale=scale)
            return Mapped(kind, "parsed", f"TO_VARCHAR({MARK})", MARK, bound_number)
        if name == "boolean":
            return Mapped(LogicalType("bool"), "bool", MARK, MARK, lambda value: sql("TRUE" if value else "FALSE"))
        if name in ("float", "double", "real"):
            return Mapped(LogicalType("float64"), "float", MARK)
        if name in ("text", "varchar", "char", "string"):
            kind = LogicalType("text", length=arguments[0] if arguments else None)
            return Mapped(kind, "text", MARK, f"COLLATE({MARK}, 'utf8')", lambda value: sql(Value(value)))
        if name in ("binary", "varbinary"):
            kind = LogicalType("bytes", length=arguments[0] if arguments else None)
            sort = f"HEX_ENCODE({MARK})"
            return Mapped(kind, "hex", sort, sort, lambda value: sql(Value(value.hex().upper())))
        if name in ("variant", "object", "array"):
            return Mapped(LogicalType("json_text"), "text", f"TO_JSON({MARK})")
        return _moment(name, arguments[0] if arguments else 9)

    def text_of(self, column: ReadColumn) -> str:
        """Nothing else has a text that loses nothing."""
        return ""

    def hashed(self, terms: tuple[str, ...]) -> str:
        """Return a hash of all terms."""
        return f"ABS(HASH({', '.join(terms)}))"


def _type_text(name: str, precision: Any, scale: Any, length: Any, digits: Any) -> str:
    kind = name.lower()
    if kind in ("number", "decimal", "numeric"):
        return f"{kind}({precision},{scale})"
    bound = length if kind in ("text", "binary") else digits if kind.startswith("time") else None
    return kind if bound is None else f"{kind}({bound})"


def _driver_type(field: Any) -> str:
    """Write a type from a driver's description: name, code, display size, size, precision, scale, nullable."""
    name = _CODES[field[1]] if isinstance(field[1], int) and 0 <= field[1] < len(_CODES) else str(field[1])
    return _type_text(name, field[4], field[5], field[3], field[5])


def _moment(name: str, digits: int) -> Mapped | None:
    """Read moments as text with nine digits, an instant in UTC."""
    stamp = "'YYYY-MM-DD\"T\"HH24:MI:SS.FF9'"
    if name == "date":
        write = bound_date("TO_DATE(?, 'YYYY-MM-DD')")
        return Mapped(LogicalType("date"), "parsed", f"TO_VARCHAR({MARK}, 'YYYY-MM-DD')", MARK, write)
    if name == "time":
        return Mapped(LogicalType("time", digits=digits), "parsed", f"TO_VARCHAR({MARK}, 'HH24:MI:SS.FF9')", MARK)
    if name in ("timestamp_ntz", "timestamp", "datetime"):
        write = bound_moment("TO_TIMESTAMP_NTZ(?, 'YYYY-MM-DD HH24:MI:SS.FF9')", 9)
        kind = LogicalType("timestamp", digits=digits)
        return Mapped(kind, "parsed", f"TO_VARCHAR({MARK}, {stamp})", MARK, write)
    if name in ("timestamp_tz", "timestamp_ltz"):
        utc = f"TO_TIMESTAMP_NTZ(CONVERT_TIMEZONE('UTC', {MARK}))"
        write = bound_moment("TO_TIMESTAMP_NTZ(?, 'YYYY-MM-DD HH24:MI:SS.FF9')", 9)
        kind = LogicalType("timestamp_tz", digits=digits)
        return Mapped(kind, "parsed", f"TO_VARCHAR({utc}, {stamp}) || 'Z'", utc, write)
    return None
