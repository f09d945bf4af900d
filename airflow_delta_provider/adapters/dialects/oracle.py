"""Oracle Database 12.2 and newer, through SQLAlchemy."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider.adapters.dialects.base import ReadColumn, Relation
from airflow_delta_provider.adapters.dialects.rowwise import (
    MARK,
    Described,
    Mapped,
    RowDialect,
    bound_moment,
    bound_number,
    rows_of,
    run,
)
from airflow_delta_provider.adapters.dialects.spelling import ALIAS
from airflow_delta_provider.adapters.dialects.statement import Value, sql
from airflow_delta_provider.core.types import LogicalType

SORT_CHARS_MAX = 490
"""Longest text that is sorted there: four bytes a character, and a sort key has 2,000 bytes at most."""
_FIND = """
SELECT owner, name FROM (SELECT owner, table_name AS name FROM all_tables UNION ALL SELECT owner, view_name FROM all_views)
WHERE name = """
_COLUMNS = """
SELECT column_name, data_type, data_precision, data_scale, COALESCE(NULLIF(char_length, 0), data_length), nullable
FROM all_tab_columns WHERE owner = """
_PRIMARY_KEY = """
SELECT x.column_name FROM all_constraints c JOIN all_cons_columns x ON x.owner = c.owner
AND x.constraint_name = c.constraint_name WHERE c.constraint_type = 'P' AND c.owner = """
_STAMP = 'YYYY-MM-DD"T"HH24:MI:SS'
_ERA = "'NLS_DATE_LANGUAGE = AMERICAN'"


class OracleDialect(RowDialect):
    """Oracle; one READ ONLY transaction is one snapshot. An empty text is NULL here."""

    kind = "oracle"
    parser = "oracle"
    parts_max = 2
    settings = (
        "ALTER SESSION SET TIME_ZONE = '+00:00'",
        "ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,'",
        "ALTER SESSION SET NLS_SORT = 'BINARY'",
        "ALTER SESSION SET NLS_COMP = 'BINARY'",
        "SET TRANSACTION READ ONLY",
    )

    def __init__(self) -> None:
        self._utf8 = False
        """True where the database orders text by code points; what ``begin`` found."""

    def begin(self, connection: Any) -> None:
        """Fix the session, hold the snapshot, and ask for the character set."""
        super().begin(connection)
        asked = "SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET'"
        self._utf8 = rows_of(connection, sql(asked))[0][0] == "AL32UTF8"

    def aliased(self, source: str) -> str:
        """There is no AS before the alias of a table."""
        return f"{source} {ALIAS}"

    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        """Look in the schema that is named, or in the current one; names are as the catalog has them."""
        schema, name = ("", *way)[-2:]
        wanted = sql(Value(schema)) if schema else sql("SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')")
        found = rows_of(connection, sql(_FIND, Value(name), " AND owner = ", wanted))
        return (str(found[0][0]), str(found[0][1])) if found else None

    def described(self, connection: Any, relation: Relation) -> list[Described]:
        """Ask the catalog, or the driver what an empty result of the query has."""
        if relation.is_query:
            result = run(connection, sql(f"SELECT * FROM {self.aliased(relation.source)} WHERE 1 = 0"))
            fields = list(result.cursor.description)
            result.close()
            return [Described(str(field[0]), _driver_type(field), True) for field in fields]
        statement = sql(_COLUMNS, Value(relation.parts[0]), " AND table_name = ", Value(relation.parts[1]))
        rows = rows_of(connection, sql(statement, " ORDER BY column_id"))
        return [Described(str(row[0]), _type_text(*row[1:5]), row[5] == "Y") for row in rows]

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order."""
        statement = sql(_PRIMARY_KEY, Value(relation.parts[0]), " AND c.table_name = ", Value(relation.parts[1]))
        return tuple(str(row[0]) for row in rows_of(connection, sql(statement, " ORDER BY x.position")))

    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        """Return how a type is read; numbers as text, since drivers make floats of them."""
        if name in ("number", "float"):
            precision, scale = (*arguments, None, None)[:2] if name == "number" else (None, None)
            bounds = precision is not None and scale is not None and 0 <= scale <= precision
            kind = LogicalType("decimal", precision=precision, scale=scale) if bounds else LogicalType("decimal")
            return Mapped(kind, "parsed", f"TO_CHAR({MARK}, 'TM9')", MARK, bound_number)
        if name in ("binary_float", "binary_double"):
            return Mapped(LogicalType("float32" if name == "binary_float" else "float64"), "float", MARK)
        if name in ("char", "nchar", "varchar2", "nvarchar2", "clob", "nclob", "long"):
            return self._text(name, arguments[0] if arguments else None)
        if name in ("raw", "blob"):
            sort = MARK if name == "raw" else ""
            kind = LogicalType("bytes", length=arguments[0] if arguments else None)
            return Mapped(kind, "bytes", MARK, sort, lambda value: sql("HEXTORAW(", Value(value.hex()), ")"))
        return _moment(name, arguments[0] if arguments else 6)

    def text_of(self, column: ReadColumn) -> str:
        """Row addresses and intervals have a text of the engine."""
        kind = column.column.engine_type.lower()
        return f"TO_CHAR({self.field(column.column.name)})" if kind.startswith(("interval", "rowid", "urowid")) else ""

    def hashed(self, terms: tuple[str, ...]) -> str:
        """Add up the hashes of the terms."""
        return " + ".join(f"ORA_HASH({term})" for term in terms)

    def _text(self, name: str, length: int | None) -> Mapped:
        padded = name in ("char", "nchar")
        plain = f"RTRIM({MARK})" if padded else MARK
        short = length is not None and length <= SORT_CHARS_MAX and not name.startswith("n") and self._utf8
        sort = f"NLSSORT({plain}, 'NLS_SORT = BINARY')" if short else ""
        return Mapped(
            LogicalType("text", length=length),
            "char" if padded else "text",
            MARK,
            sort,
            lambda value: sql("NLSSORT(", Value(value), ", 'NLS_SORT = BINARY')") if value else None,
        )


def _type_text(name: str, precision: int | None, scale: int | None, length: int | None) -> str:
    kind = name.lower()
    if kind == "number":
        return kind if precision is None else f"number({precision},{scale or 0})"
    return f"{kind}({length})" if kind in ("char", "nchar", "varchar2", "nvarchar2", "raw") else kind


def _driver_type(field: Any) -> str:
    """Write a type from a driver's description: name, type, display size, size, precision, scale, nullable."""
    name = str(getattr(field[1], "name", field[1])).removeprefix("DB_TYPE_").lower()
    known = {"varchar": "varchar2", "nvarchar": "nvarchar2", "timestamp_tz": "timestamp with time zone",
             "timestamp_ltz": "timestamp with local time zone", "long_nvarchar": "long"}  # fmt: skip
    return _type_text(known.get(name, name), field[4] or None, field[5], field[3])


def _moment(name: str, digits: int) -> Mapped | None:
    """Read moments with their era, since there is no year 0; a DATE has a time of day."""

    def text(value: str, fraction: str) -> str:
        return f"REPLACE(TO_CHAR({value}, '{_STAMP}{fraction} BC', {_ERA}), ' AD', '')"

    if name == "date":
        write = bound_moment("TO_DATE(?, 'YYYY-MM-DD HH24:MI:SS')", 0)
        return Mapped(LogicalType("timestamp", digits=0), "parsed", text(MARK, ""), MARK, write)
    if name == "timestamp":
        write = bound_moment("TO_TIMESTAMP(?, 'YYYY-MM-DD HH24:MI:SS.FF9')", 9)
        return Mapped(LogicalType("timestamp", digits=digits), "parsed", text(MARK, ".FF9"), MARK, write)
    if name in ("timestamp with time zone", "timestamp with local time zone"):
        utc = f"SYS_EXTRACT_UTC({MARK})"
        moment = f"REPLACE(TO_CHAR({utc}, '{_STAMP}.FF9\"Z\" BC', {_ERA}), ' AD', '')"
        write = bound_moment("TO_TIMESTAMP(?, 'YYYY-MM-DD HH24:MI:SS.FF9')", 9)
        return Mapped(LogicalType("timestamp_tz", digits=digits), "parsed", moment, utc, write)
    return None
