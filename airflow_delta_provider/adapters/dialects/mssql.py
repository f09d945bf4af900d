"""Microsoft SQL Server 2019 and newer, through SQLAlchemy."""

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
)
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.core.types import LogicalType

SORT_CHARS_MAX = 1000
"""Longest text that is sorted there: four bytes a character, two digits a byte, 8,000 at most."""
_INTS = {"tinyint": (8, True), "smallint": (16, False), "int": (32, False), "bigint": (64, False)}
_UTF8 = "CONVERT(varbinary(4000), CONVERT(varchar(4000), \x00 COLLATE Latin1_General_100_BIN2_UTF8))"
_HEX_SORT = "CONVERT(varchar(8000), {}, 2) COLLATE Latin1_General_BIN2"
"""Hexadecimal digits order as bytes do; bytes themselves are compared as if zeros followed them."""
_FIND = """
SELECT TOP (1) s.name, o.name FROM {}sys.objects AS o JOIN {}sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.type IN ('U', 'V') AND o.name = """
_COLUMNS = """
SELECT c.name, COALESCE(t.name, TYPE_NAME(c.user_type_id)), c.max_length, c.precision, c.scale, c.is_nullable
FROM {0}sys.columns AS c JOIN {0}sys.objects AS o ON o.object_id = c.object_id
JOIN {0}sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN {0}sys.types AS t ON t.user_type_id = c.system_type_id WHERE s.name = """
_QUERY_COLUMNS = """
SELECT name, TYPE_NAME(system_type_id), max_length, precision, scale, is_nullable
FROM sys.dm_exec_describe_first_result_set("""
_PRIMARY_KEY = """
SELECT c.name FROM {0}sys.indexes AS i JOIN {0}sys.index_columns AS x ON x.object_id = i.object_id
AND x.index_id = i.index_id JOIN {0}sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
JOIN {0}sys.objects AS o ON o.object_id = i.object_id JOIN {0}sys.schemas AS s ON s.schema_id = o.schema_id
WHERE i.is_primary_key = 1 AND s.name = """


class MssqlDialect(RowDialect):
    """SQL Server; reads in a SNAPSHOT transaction where the database allows it."""

    kind = "mssql"
    parser = "tsql"
    settings = ("SET LANGUAGE us_english", "SET DATEFORMAT ymd", "SET LOCK_TIMEOUT 60000")

    def begin(self, connection: Any) -> None:
        """Fix the session, then hold a snapshot if there may be one."""
        super().begin(connection)
        asked = "SELECT snapshot_isolation_state FROM sys.databases WHERE database_id = DB_ID()"
        allowed = rows_of(connection, sql(asked))[0][0]
        connection.exec_driver_sql(
            f"SET TRANSACTION ISOLATION LEVEL {'SNAPSHOT' if allowed == 1 else 'READ COMMITTED'}"
        )

    def quote(self, name: str) -> str:
        """Write an identifier between brackets."""
        return "[" + name.replace("]", "]]") + "]"

    def order_term(self, column: ReadColumn) -> str:
        """NULL is first here without being told."""
        return f"{column.sort} ASC"

    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        """Look in the schema that is named, or in the user's own; an exact name wins over one that differs by case."""
        database, schema, name = ("", "", *way)[-3:]
        place = self._place((database, schema, name) if database else (schema, name))
        wanted = sql(Value(schema)) if schema else sql("SCHEMA_NAME()")
        exact = "CASE WHEN CONVERT(varbinary(512), o.name) = CONVERT(varbinary(512), CAST("
        statement = sql(_FIND.format(place, place), Value(name), " AND s.name = ", wanted, " ORDER BY ", exact)
        found = rows_of(connection, sql(statement, Value(name), " AS nvarchar(128))) THEN 0 ELSE 1 END"))
        if not found:
            return None
        return (database, *found[0]) if database else tuple(found[0])

    def described(self, connection: Any, relation: Relation) -> list[Described]:
        """Ask the catalog, or the server what the query's first result is."""
        if relation.is_query:
            text = f"SELECT * FROM {self.aliased(relation.source)}"
            rows = rows_of(connection, sql(_QUERY_COLUMNS, Value(text), ", NULL, 0) ORDER BY column_ordinal"))
        else:
            statement = sql(_COLUMNS.format(self._place(relation.parts)), *self._names(relation))
            rows = rows_of(connection, sql(statement, " ORDER BY c.column_id"))
        return [Described(str(row[0]), _type_text(*row[1:5]), bool(row[5])) for row in rows]

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order."""
        statement = sql(_PRIMARY_KEY.format(self._place(relation.parts)), *self._names(relation))
        return tuple(str(row[0]) for row in rows_of(connection, sql(statement, " ORDER BY x.key_ordinal")))

    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        """Return how a type is read."""
        if name in _INTS:
            bits, unsigned = _INTS[name]
            return Mapped(LogicalType("int", bits=bits, unsigned=unsigned), "int", MARK, MARK, bound_number)
        if name in ("decimal", "numeric", "money", "smallmoney"):
            precision, scale = arguments or ((19, 4) if name == "money" else (10, 4))
            kind = LogicalType("decimal", precision=precision, scale=scale)
            text = f"CONVERT(varchar(50), CONVERT(decimal({precision},{scale}), {MARK}))"
            return Mapped(kind, "parsed", text, MARK, bound_number)
        if name == "bit":
            return Mapped(LogicalType("bool"), "bool", MARK, MARK, lambda value: sql("1" if value else "0"))
        if name in ("real", "float"):
            return Mapped(LogicalType("float32" if name == "real" else "float64"), "float", MARK)
        if name in ("char", "nchar", "varchar", "nvarchar", "text", "ntext", "sysname"):
            return _text(name, arguments[0] if arguments else None)
        if name in ("binary", "varbinary", "image", "timestamp", "rowversion"):
            return _bytes(arguments[0] if arguments else None)
        if name == "uniqueidentifier":
            text = f"CONVERT(char(36), {MARK})"
            sort = f"{text} COLLATE Latin1_General_BIN2"
            return Mapped(LogicalType("uuid"), "parsed", text, sort, lambda value: sql(Value(value.upper())))
        return _moment(name, arguments[0] if arguments else 7)

    def text_of(self, column: ReadColumn) -> str:
        """Documents and hierarchies have a text that loses nothing."""
        types = {"hierarchyid": "{}.ToString()", "xml": "CONVERT(nvarchar(max), {})"}
        return types.get(column.column.engine_type, "").format(self.field(column.column.name))

    def hashed(self, terms: tuple[str, ...]) -> str:
        """Return a checksum; its sign goes."""
        return f"ABS(CAST(CHECKSUM({', '.join(terms)}) AS bigint))"

    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Take the rows whose checksum falls in a share; the remainder is an operator here."""
        head = f"SELECT {', '.join(f'{term} AS c{at}' for at, term in enumerate(terms))}"
        head += f" FROM {self.aliased(relation.source)}"
        step = (self.estimate_rows(connection, relation) or 0) // max(1, rows)
        return sql(head) if step <= 1 else sql(f"{head} WHERE {self.hashed(terms)} % {step} = 0")

    def _place(self, parts: tuple[str, ...]) -> str:
        return f"{self.quote(parts[0])}." if len(parts) == 3 else ""

    def _names(self, relation: Relation) -> tuple[Any, ...]:
        return (Value(relation.parts[-2]), " AND o.name = ", Value(relation.parts[-1]))


def _type_text(name: str, size: int, precision: int, scale: int) -> str:
    """Write a type with its bounds; ``size`` is in bytes, -1 without bound."""
    if name in ("decimal", "numeric"):
        return f"{name}({precision},{scale})"
    if name in ("nchar", "nvarchar", "char", "varchar", "binary", "varbinary"):
        return name if size < 0 else f"{name}({size // 2 if name.startswith('n') else size})"
    return f"{name}({scale})" if name in ("datetime2", "datetimeoffset", "time") else str(name)


def _text(name: str, length: int | None) -> Mapped:
    """Read text as Unicode; characters of the old text types are converted first."""
    padded = name in ("char", "nchar")
    kind = LogicalType("text", length=length)
    select = f"CONVERT(nvarchar(max), {MARK})"
    plain = f"RTRIM({MARK})" if padded else MARK
    sort = _HEX_SORT.format(_UTF8.replace(MARK, plain)) if length is not None and length <= SORT_CHARS_MAX else ""
    form = "char" if padded else "text"
    return Mapped(kind, form, select, sort, lambda value: sql(Value(value.encode().hex().upper())))


def _bytes(length: int | None) -> Mapped:
    sort = _HEX_SORT.format(MARK) if length is not None and length <= 4 * SORT_CHARS_MAX else ""
    kind = LogicalType("bytes", length=length)
    select = f"CONVERT(varchar(max), CONVERT(varbinary(max), {MARK}), 2)"
    return Mapped(kind, "hex", select, sort, lambda value: sql(Value(value.hex().upper())))


def _moment(name: str, digits: int) -> Mapped | None:
    """Read moments as ISO 8601 text, an instant in UTC."""
    if name == "date":
        write = bound_date("CONVERT(date, ?, 23)")
        return Mapped(LogicalType("date"), "parsed", f"CONVERT(varchar(10), {MARK}, 23)", MARK, write)
    if name == "time":
        return Mapped(LogicalType("time", digits=digits), "parsed", f"CONVERT(varchar(16), {MARK}, 126)", MARK)
    if name in ("datetime2", "datetime", "smalldatetime"):
        fixed = {"datetime": 3, "smalldatetime": 0}.get(name, digits)
        text = f"CONVERT(varchar(27), CONVERT(datetime2({fixed}), {MARK}), 126)"
        sort = MARK if name == "datetime2" else ""
        write = bound_moment("CONVERT(datetime2(7), ?, 121)", 7)
        return Mapped(LogicalType("timestamp", digits=fixed), "parsed", text, sort, write)
    if name == "datetimeoffset":
        text = f"CONVERT(varchar(27), CONVERT(datetime2(7), SWITCHOFFSET({MARK}, '+00:00')), 126) + 'Z'"
        write = bound_moment("TODATETIMEOFFSET(CONVERT(datetime2(7), ?, 121), '+00:00')", 7)
        return Mapped(LogicalType("timestamp_tz", digits=digits), "parsed", text, MARK, write)
    return None
