"""Read a written side back through the engine's own driver: what the tests of the writers compare with the case."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path
from typing import Any

from cases.canonical import canonical
from cases.engines import SideCase
from cases.notation import Declared, Stored
from cases.writers import Databases, mysql_connection


def read_back(engine: str, side: SideCase, name: str, folder: Path, databases: Databases) -> list[list[Any]]:
    """Return all rows in the order in which the engine gives them, as the driver's values or server texts."""
    if engine == "sqlite":
        with sqlite3.connect(folder / f"{name}.db") as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "surrogatepass")
            return [list(row) for row in connection.execute(f'SELECT * FROM "{name}"')]
    if engine == "duckdb":
        return _duckdb(folder / f"{name}.duckdb", name, side)
    if engine == "postgresql":
        import psycopg

        with psycopg.connect(databases.postgresql, options="-c timezone=UTC -c extra_float_digits=3") as connection:
            texts = ", ".join(_postgresql_text(column, kind) for column, kind in side.columns.items())
            return [list(row) for row in connection.execute(f'SELECT {texts} FROM "{name}"').fetchall()]
    if engine == "mysql":
        with mysql_connection(databases.mysql) as connection:
            cursor = connection.cursor()
            cursor.execute(
                f"SELECT {', '.join(_mysql_text(c, kind) for c, kind in side.columns.items())} FROM `{name}`"
            )
            return [list(row) for row in cursor.fetchall()]
    path = folder / f"{name}.{engine}"
    if engine == "parquet":
        return _parquet(path)
    text = path.read_text(encoding="utf-8")
    if engine == "jsonl":
        return [[json.loads(line)[column] for column in side.columns] for line in text.split("\n") if line]
    csv.field_size_limit(2**31 - 1)
    return [list(row) for row in csv.reader(io.StringIO(text, newline=""))][1:]


def plain(cell: Any, kind: Declared) -> Any:
    """Bring a value of the case, or one that was read back, into one form that can be compared exactly."""
    if cell is None:
        return None
    if kind.item is not None:
        return [plain(element, kind.item) for element in cell]
    if isinstance(cell, Stored):
        return plain(cell.value, kind) if cell.storage != "real" else ("real", float(cell.value))
    if isinstance(cell, bytes) and kind.kind != "bytes":
        cell = cell.decode()
    if kind.kind == "float32":
        import struct

        return canonical(struct.unpack("f", struct.pack("f", float(cell)))[0], "float64")
    if kind.kind == "int" and isinstance(cell, float):
        return ("real", cell)
    if kind.kind == "char":
        return cell.rstrip(" ")
    if kind.kind == "bool" and isinstance(cell, str):
        return cell == "true"
    if kind.kind == "bytes" and kind.base == "binary":
        return cell.ljust((*kind.arguments, 0)[0], b"\0")
    if kind.kind in ("enum", "bit", "text", "json", "interval", "bytes", "bool"):
        return cell if kind.kind in ("bytes", "bool") else str(cell)
    if str(cell).startswith("0000-00-00"):
        return str(cell)[:10]
    return canonical(cell if isinstance(cell, int | float | bytes) else str(cell), kind.kind)


def _postgresql_text(column: str, kind: Declared) -> str:
    quoted = '"' + column.replace('"', '""') + '"'
    return quoted if kind.kind in ("bytes", "bool", "array") else f"{quoted}::text"


def _mysql_text(column: str, kind: Declared) -> str:
    quoted = "`" + column.replace("`", "``") + "`"
    if kind.kind == "bit":
        return f"{quoted} + 0"
    if kind.kind == "float32":
        return f"CAST({quoted} AS DOUBLE)"
    return (
        f"CAST({quoted} AS CHAR)" if kind.kind in ("decimal", "date", "time", "timestamp", "timestamp_tz") else quoted
    )


def _duckdb(path: Path, name: str, side: SideCase) -> list[list[Any]]:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = ['"' + column.replace('"', '""') + '"' for column in side.columns]
        texts = [
            f"CAST({column} AS VARCHAR)" if kind.kind in ("decimal", "date", "time", "timestamp", "timestamp_tz", "uuid", "enum") else column
            for column, kind in zip(columns, side.columns.values(), strict=True)
        ]  # fmt: skip
        return [list(row) for row in connection.execute(f'SELECT {", ".join(texts)} FROM "{name}"').fetchall()]


def _parquet(path: Path) -> list[list[Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    columns = []
    for column in parquet.read_table(path).columns:
        if pa.types.is_timestamp(column.type):
            per = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[column.type.unit]
            numbers = column.cast(pa.int64()).to_pylist()
            columns.append([None if number is None else _instant_text(number * per) for number in numbers])
        else:
            columns.append(column.to_pylist())
    return [list(row) for row in zip(*columns, strict=True)]


def _instant_text(ns: int) -> str:
    from cases.canonical import clock_text, date_text
    from cases.notation import NS_PER_DAY

    days, rest = divmod(ns, NS_PER_DAY)
    return f"{date_text(days)}T{clock_text(rest)}"
