"""The table of the types of engines that are read row by row, made of what their dialects say.

After a change: ``python tests/docs/engine_types.py`` writes it into the page.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from airflow_delta_provider.adapters.dialects.rowwise import RowDialect, type_parts
from airflow_delta_provider.adapters.open import ROW_ENGINES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- row engines: generated -->", "<!-- end -->"
NAMES = {
    "mssql": "SQL Server", "oracle": "Oracle", "snowflake": "Snowflake", "bigquery": "BigQuery", "trino": "Trino",
}  # fmt: skip
TYPES = {
    "mssql": "bit tinyint smallint int bigint decimal(12,2) numeric(12,2) money smallmoney real float char(8) varchar(20)"
    " varchar nchar(8) nvarchar(20) text ntext binary(4) varbinary(20) rowversion uniqueidentifier date time(7) datetime"
    " smalldatetime datetime2(7) datetimeoffset(7) xml hierarchyid geometry sql_variant",
    "oracle": "number(12,2) number float binary_float binary_double char(8) nchar(8) varchar2(20) nvarchar2(20) clob nclob"
    " raw(16) blob date timestamp(6) timestamp(6)~with~time~zone timestamp(6)~with~local~time~zone rowid xmltype json",
    "snowflake": "number(12,2) float text(20) binary(8) boolean date time(9) timestamp_ntz(9) timestamp_ltz(9)"
    " timestamp_tz(9) variant object array geography vector",
    "bigquery": "bool int64 numeric(12,2) bignumeric float64 string bytes json date time datetime timestamp array<int64>"
    " struct<a~int64> geography interval",
    "trino": "boolean tinyint smallint integer bigint decimal(12,2) real double varchar(20) char(8) varbinary uuid json"
    " date time(6) timestamp(6) timestamp(6)~with~time~zone array(bigint) map(varchar,bigint) ipaddress",
}
"""Types of each engine, a blank inside one written as ``~``."""
KINDS = ("bool", "int", "decimal", "float32", "float64", "text", "bytes", "uuid", "date", "time", "timestamp", "timestamp_tz",
         "json_text", "refused, or text by `read_as: {type: text}`", "refused")  # fmt: skip


def table() -> str:
    """Return the table in Markdown."""
    cells = {kind: {engine: _types(engine).get(kind, []) for engine in NAMES} for kind in KINDS}
    lines = [f"| logical type | {' | '.join(NAMES.values())} |", "| --- " * (len(NAMES) + 1) + "|"]
    for kind, by_engine in cells.items():
        name = kind if kind.startswith("refused") else f"`{kind}`"
        row = (", ".join(f"`{one}`" for one in by_engine[engine]) for engine in NAMES)
        lines.append(f"| {name} | {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines)


def _types(engine: str) -> dict[str, list[str]]:
    dialect: RowDialect = getattr(
        import_module(f"airflow_delta_provider.adapters.dialects.{engine}"), ROW_ENGINES[engine]
    )()
    found: dict[str, list[str]] = {}
    for text in (one.replace("~", " ") for one in TYPES[engine].split()):
        mapped = dialect.mapped(*type_parts(text))
        kind = mapped.kind.kind if mapped else KINDS[-2] if _readable(dialect, text) else KINDS[-1]
        found.setdefault(kind, []).append(text)
    return found


def _readable(dialect: RowDialect, text: str) -> bool:
    from airflow_delta_provider.adapters.dialects.base import ReadColumn
    from airflow_delta_provider.adapters.side import Column

    return bool(dialect.text_of(ReadColumn(Column("c", None, text))))


def page(text: str) -> str:
    """Return the page's text with the table of now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
