"""Trino, through SQLAlchemy: whatever lies behind its catalogs."""

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
    bound_number,
    rows_of,
    run,
)
from airflow_delta_provider.adapters.dialects.statement import Value, sql
from airflow_delta_provider.core.types import LogicalType

_INTS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64}
_TABLES = "SELECT table_schema, table_name FROM {}information_schema.tables WHERE table_name = "
_COLUMNS = "SELECT column_name, data_type, is_nullable FROM {}information_schema.columns WHERE table_schema = "


class TrinoDialect(RowDialect):
    """Trino; a read is one statement. Names are in lower case."""

    kind = "trino"
    parser = "trino"
    settings = ("SET TIME ZONE 'UTC'",)

    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        """Look in the catalog and schema that are named, or in the current ones."""
        catalog, schema, name = ("", "", *way)[-3:]
        wanted = sql(Value(schema.lower())) if schema else sql("CURRENT_SCHEMA")
        place = f"{self.quote(catalog)}." if catalog else ""
        statement = sql(_TABLES.format(place), Value(name.lower()), " AND table_schema = ", wanted)
        found = rows_of(connection, statement)
        if not found:
            return None
        return (catalog, *map(str, found[0])) if catalog else tuple(map(str, found[0]))

    def described(self, connection: Any, relation: Relation) -> list[Described]:
        """Ask the catalog, or the driver what an empty result of the query has: it writes types as SQL does."""
        if relation.is_query:
            result = run(connection, sql(f"SELECT * FROM {self.aliased(relation.source)} LIMIT 0"))
            fields = list(result.cursor.description)
            result.close()
            return [Described(str(field[0]), str(field[1]).lower(), True) for field in fields]
        schema, name = relation.parts[-2:]
        place = f"{self.quote(relation.parts[0])}." if len(relation.parts) == 3 else ""
        statement = sql(_COLUMNS.format(place), Value(schema), " AND table_name = ", Value(name))
        rows = rows_of(connection, sql(statement, " ORDER BY ordinal_position"))
        return [Described(str(row[0]), str(row[1]).lower(), row[2] == "YES") for row in rows]

    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        """Return how a type is read."""
        if name in _INTS:
            return Mapped(LogicalType("int", bits=_INTS[name]), "int", MARK, MARK, bound_int64)
        if name == "decimal":
            precision, scale = (*(arguments or (38, 0)), 0)[:2]
            kind = LogicalType("decimal", precision=precision, scale=scale)
            write = lambda value: sql("DECIMAL ", f"'{value:f}'") if bound_number(value) else None  # noqa: E731
            return Mapped(kind, "parsed", f"CAST({MARK} AS varchar)", MARK, write)
        if name == "boolean":
            return Mapped(LogicalType("bool"), "bool", MARK, MARK, lambda value: sql("TRUE" if value else "FALSE"))
        if name in ("real", "double"):
            return Mapped(LogicalType("float32" if name == "real" else "float64"), "float", MARK)
        if name in ("varchar", "char"):
            kind = LogicalType("text", length=arguments[0] if arguments else None)
            sort = MARK if name == "varchar" else ""
            return Mapped(kind, "text" if name == "varchar" else "char", MARK, sort, lambda value: sql(Value(value)))
        if name == "varbinary":
            write = lambda value: sql("from_hex(", Value(value.hex()), ")")  # noqa: E731
            return Mapped(LogicalType("bytes"), "hex", f"to_hex({MARK})", MARK, write)
        if name == "uuid":
            text = f"CAST({MARK} AS varchar)"
            return Mapped(LogicalType("uuid"), "parsed", text, text, lambda value: sql(Value(value)))
        if name == "json":
            return Mapped(LogicalType("json_text"), "text", f"json_format({MARK})")
        return _moment(name, arguments[0] if arguments else 3)

    def text_of(self, column: ReadColumn) -> str:
        """Arrays, rows and maps have a JSON text, addresses and intervals a text; each only where a rule says so."""
        field, kind = self.field(column.column.name), column.column.engine_type
        if kind.startswith(("array", "row", "map")):
            return f"json_format(CAST({field} AS json))"
        return f"CAST({field} AS varchar)" if kind.startswith(("ipaddress", "interval", "time(")) else ""

    def hashed(self, terms: tuple[str, ...]) -> str:
        """Return a hash of all terms."""
        parts = " || '|' || ".join(f"COALESCE(CAST({term} AS varchar), '')" for term in terms)
        return f"from_big_endian_64(xxhash64(to_utf8({parts})))"


def _moment(name: str, digits: int) -> Mapped | None:
    """Read moments as the engine's text; beyond nine digits a value is refused, not cut."""
    text = f"CAST({MARK} AS varchar)"
    if name == "date":
        return Mapped(LogicalType("date"), "parsed", text, MARK, bound_date("CAST(? AS date)"))
    if name == "time":
        return Mapped(LogicalType("time", digits=digits), "parsed", text, MARK)
    if name == "timestamp":
        write = bound_moment("CAST(? AS timestamp(9))", 9)
        return Mapped(LogicalType("timestamp", digits=digits), "parsed", text, MARK, write)
    if name == "timestamp with time zone":
        utc = f"CAST({MARK} AT TIME ZONE 'UTC' AS timestamp({min(digits, 12)}))"
        write = bound_moment("CAST(? AS timestamp(9))", 9)
        kind = LogicalType("timestamp_tz", digits=digits)
        return Mapped(kind, "parsed", f"CAST({utc} AS varchar) || ' UTC'", utc, write)
    return None
