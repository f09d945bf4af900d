"""One small table in every engine: the same rows behind a specification's side."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = Sequence[tuple[Any, ...]]
NAMES = ("id", "code", "f", "t", "b")
"""Columns: int, text (the key together), float64, text, bytes."""
CSV_TYPES = {"id": "int", "code": "text", "f": "float64", "t": "text", "b": "bytes"}
LOCAL = ("sqlite", "duckdb", "parquet", "csv", "jsonl")


def write(engine: str, folder: Path, name: str, rows: Rows) -> dict[str, str]:
    """Write the rows and return the side of a specification that reads them."""
    return {
        "sqlite": _sqlite, "duckdb": _duckdb, "parquet": _parquet, "csv": _csv, "jsonl": _jsonl,
    }[engine](folder, name, rows)  # fmt: skip


def _sqlite(folder: Path, name: str, rows: Rows) -> dict[str, str]:
    path = folder / f"{name}.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER, code TEXT, f REAL, t TEXT, b BLOB)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return {"uri": f"sqlite:///{path}", "table": "t"}


def _duckdb(folder: Path, name: str, rows: Rows) -> dict[str, str]:
    import duckdb

    path = folder / f"{name}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (id BIGINT, code VARCHAR, f DOUBLE, t VARCHAR, b BLOB)")
        if rows:
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", list(rows))
    return {"uri": f"duckdb:///{path}", "table": "t"}


def postgresql(uri: str, name: str, rows: Rows) -> dict[str, str]:
    """Write the rows into a table of a PostgreSQL database."""
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            f'CREATE TABLE "{name}" (id bigint, code text, f double precision, t text, b bytea)'  # type: ignore[arg-type]
        )
        with connection.cursor() as cursor:
            cursor.executemany(f'INSERT INTO "{name}" VALUES (%s, %s, %s, %s, %s)', list(rows))  # type: ignore[arg-type]
    return {"uri": uri, "table": name}


def arrow(rows: Rows) -> pa.Table:
    """Return the rows as an Arrow table."""
    kinds = (pa.int64(), pa.string(), pa.float64(), pa.string(), pa.binary())
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.table(columns, names=list(NAMES))


def _parquet(folder: Path, name: str, rows: Rows) -> dict[str, str]:
    pq.write_table(arrow(rows), folder / f"{name}.parquet", row_group_size=7)
    return {"path": str(folder / f"{name}.parquet")}


def _csv(folder: Path, name: str, rows: Rows) -> dict[str, str]:
    def field(value: Any) -> str:
        if value is None:
            return ""
        text = value.hex() if isinstance(value, bytes) else repr(value) if isinstance(value, float) else str(value)
        return '"' + {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text).replace('"', '""') + '"'

    lines = [",".join(NAMES), *(",".join(map(field, row)) for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", newline="")
    return {"path": str(folder / f"{name}.csv")}


def _jsonl(folder: Path, name: str, rows: Rows) -> dict[str, str]:
    def value(one: Any) -> Any:
        if isinstance(one, bytes):
            return one.hex()
        if isinstance(one, float):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(one), one)
        return one

    lines = [json.dumps({name: value(cell) for name, cell in zip(NAMES, row, strict=True)}) for row in rows]
    (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    return {"path": str(folder / f"{name}.jsonl")}
