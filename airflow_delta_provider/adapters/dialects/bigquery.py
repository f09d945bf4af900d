"""BigQuery, through SQLAlchemy."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider.adapters.dialects.base import ReadColumn, Relation
from airflow_delta_provider.adapters.dialects.rowwise import (
    MARK,
    Described,
    Mapped,
    RowDialect,
    bound_date,
    bound_int64,
    bound_moment,
    rows_of,
    run,
)
from airflow_delta_provider.adapters.dialects.statement import Value, sql
from airflow_delta_provider.core.types import LogicalType

_COLUMNS = "SELECT column_name, data_type, is_nullable FROM {}.INFORMATION_SCHEMA.COLUMNS WHERE table_name = "
_TABLES = "SELECT table_name FROM {}.INFORMATION_SCHEMA.TABLES WHERE table_name = "
_PRIMARY_KEY = """
SELECT k.column_name FROM {0}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k
JOIN {0}.INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS c ON c.constraint_name = k.constraint_name
WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_name = """
_PARSE = "%E4Y-%m-%d %H:%M:%E*S"


class BigqueryDialect(RowDialect):
    """BigQuery; a table is ``dataset.table`` or ``project.dataset.table``. A read is one statement, one snapshot."""

    kind = "bigquery"
    parser = "bigquery"

    def quote(self, name: str) -> str:
        """Write an identifier between backticks."""
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        """Look in the data set that is named; there is none by default."""
        if len(way) < 2:
            return None
        found = rows_of(connection, sql(_TABLES.format(self._dataset(way)), Value(way[-1])))
        return way if found else None

    def described(self, connection: Any, relation: Relation) -> list[Described]:
        """Ask the catalog, or the driver what an empty result of the query has."""
        if relation.is_query:
            result = run(connection, sql(f"SELECT * FROM {self.aliased(relation.source)} LIMIT 0"))
            fields = list(result.cursor.description)
            result.close()
            return [Described(str(field[0]), str(field[1]).lower(), True) for field in fields]
        statement = sql(_COLUMNS.format(self._dataset(relation.parts)), Value(relation.parts[-1]))
        rows = rows_of(connection, sql(statement, " ORDER BY ordinal_position"))
        return [Described(str(row[0]), str(row[1]).lower(), row[2] == "YES") for row in rows]

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key, which nothing enforces here, in key order."""
        statement = sql(_PRIMARY_KEY.format(self._dataset(relation.parts)), Value(relation.parts[-1]))
        return tuple(str(row[0]) for row in rows_of(connection, sql(statement, " ORDER BY k.ordinal_position")))

    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        """Return how a type is read."""
        if name in ("int64", "integer"):
            return Mapped(LogicalType("int", bits=64), "int", MARK, MARK, bound_int64)
        if name in ("numeric", "bignumeric"):
            bounds = arguments or ((38, 9) if name == "numeric" else (None, None))
            kind = LogicalType("decimal", precision=bounds[0], scale=(*bounds, 0)[1])
            return Mapped(kind, "parsed", f"CAST({MARK} AS STRING)", MARK)
        if name in ("bool", "boolean"):
            return Mapped(LogicalType("bool"), "bool", MARK, MARK, lambda value: sql("TRUE" if value else "FALSE"))
        if name in ("float64", "float"):
            return Mapped(LogicalType("float64"), "float", MARK)
        if name == "string":
            kind = LogicalType("text", length=arguments[0] if arguments else None)
            return Mapped(kind, "text", MARK, f"COLLATE({MARK}, '')", lambda value: sql(Value(value)))
        if name == "bytes":
            kind = LogicalType("bytes", length=arguments[0] if arguments else None)
            write = lambda value: sql("FROM_HEX(", Value(value.hex()), ")")  # noqa: E731
            return Mapped(kind, "hex", f"TO_HEX({MARK})", MARK, write)
        if name == "json":
            return Mapped(LogicalType("json_text"), "text", f"TO_JSON_STRING({MARK})")
        return _moment(name)

    def text_of(self, column: ReadColumn) -> str:
        """Arrays and structs have a JSON text; it is read as text only where a rule says so."""
        nested = column.column.engine_type.startswith(("array", "struct", "range"))
        return f"TO_JSON_STRING({self.field(column.column.name)})" if nested else ""

    def hashed(self, terms: tuple[str, ...]) -> str:
        """Return a fingerprint of all terms."""
        parts = ", '|', ".join(f"COALESCE(CAST({term} AS STRING), '')" for term in terms)
        return f"FARM_FINGERPRINT(CONCAT({parts}))"

    def _dataset(self, parts: tuple[str, ...]) -> str:
        return ".".join(self.quote(part) for part in parts[:-1])


def _moment(name: str) -> Mapped | None:
    """Read moments as text with six digits, an instant in UTC."""
    if name == "date":
        write = bound_date("PARSE_DATE('%F', ?)")
        return Mapped(LogicalType("date"), "parsed", f"FORMAT_DATE('%E4Y-%m-%d', {MARK})", MARK, write)
    if name == "time":
        return Mapped(LogicalType("time", digits=6), "parsed", f"FORMAT_TIME('%H:%M:%E6S', {MARK})", MARK)
    if name == "datetime":
        text = f"FORMAT_DATETIME('%E4Y-%m-%dT%H:%M:%E6S', {MARK})"
        write = bound_moment(f"PARSE_DATETIME('{_PARSE}', ?)", 6)
        return Mapped(LogicalType("timestamp", digits=6), "parsed", text, MARK, write)
    if name == "timestamp":
        text = f"FORMAT_TIMESTAMP('%E4Y-%m-%dT%H:%M:%E6SZ', {MARK}, 'UTC')"
        write = bound_moment(f"PARSE_TIMESTAMP('{_PARSE}', ?, 'UTC')", 6)
        return Mapped(LogicalType("timestamp_tz", digits=6), "parsed", text, MARK, write)
    return None
