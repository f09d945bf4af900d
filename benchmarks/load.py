"""The same pair of tables in files and databases."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.data import Counts, Shape, chunks

SIDES = ("source", "target")


@dataclass(frozen=True)
class Place:
    """One copy of one table: ``kind`` of engine, where it is, and the server's process session if there is one."""

    kind: str
    address: str
    table: str
    key: tuple[str, ...]
    session: int | None = None

    @property
    def side(self) -> dict[str, str]:
        """The side of a specification."""
        return {"path": self.address} if self.kind == "parquet" else {"uri": self.address, "table": self.table}


def write_parquet(shape: Shape, folder: Path, name: str) -> tuple[dict[str, Path], Counts]:
    """Write both tables as Parquet files and return them with what a right answer says."""
    paths = {side: folder / f"{name}-{side}.parquet" for side in SIDES}
    writers: dict[str, pq.ParquetWriter] = {}
    counts = Counts()
    for source, target, found in chunks(shape):
        counts.add(found)
        for side, table in zip(SIDES, (source, target), strict=True):
            if side not in writers:
                writers[side] = pq.ParquetWriter(paths[side], table.schema)
            writers[side].write_table(table)
    for writer in writers.values():
        writer.close()
    return paths, counts


def to_postgresql(path: Path, server: Any, table: str, key: tuple[str, ...]) -> Place:
    """Load a Parquet file into a table with a primary key, in a database of its own."""
    import psycopg

    types = {
        pa.int32(): "integer", pa.int64(): "bigint", pa.float64(): "double precision", pa.string(): "text",
        pa.bool_(): "boolean", pa.date32(): "date", pa.timestamp("us", "UTC"): "timestamptz", pa.uuid(): "uuid",
        pa.decimal128(18, 4): "numeric(18,4)",
    }  # fmt: skip
    uri = server.create_database()
    with psycopg.connect(uri) as connection:
        connection.execute(f"CREATE TABLE {table} ({_columns(path, types, key)})".encode())
        with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy:
            for part in _csv_parts(path):
                copy.write(part)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE, FREEZE) {table}".encode())
    return Place("postgresql", uri, table, key, server.pid)


def to_mariadb(path: Path, server: Any, table: str, key: tuple[str, ...]) -> Place:
    """Load a Parquet file into a table with a primary key, in a database of its own."""
    types = {
        pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double", pa.string(): "varchar(64) COLLATE utf8mb4_bin",
        pa.bool_(): "boolean", pa.date32(): "date", pa.timestamp("us", "UTC"): "timestamp(6) NULL",
        pa.decimal128(18, 4): "decimal(18,4)",
    }  # fmt: skip
    import pymysql

    uri = server.create_database()
    parts = urlsplit(uri)
    text = path.with_name(f"{table}.csv")
    with text.open("wb") as out:
        for part in _csv_parts(path, plain=True):
            out.write(part)
    names = pq.read_schema(path).names
    asked = ", ".join(f"@{name}" for name in names)
    given = ", ".join(f"`{name}` = NULLIF(@{name}, '')" for name in names)
    with pymysql.connect(
        host=parts.hostname or "", port=parts.port or 0, user=parts.username, password=unquote(parts.password or ""),
        database=parts.path[1:], local_infile=True, autocommit=True,
    ) as connection:  # fmt: skip
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE {table} ({_columns(path, types, key)}) CHARACTER SET utf8mb4")
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{text}' INTO TABLE {table} CHARACTER SET utf8mb4"
            f" FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ({asked}) SET {given}"
        )
        cursor.execute(f"ANALYZE TABLE {table}")
    text.unlink()
    return Place("mysql", uri, table, key, server.pid)


def to_duckdb(path: Path, table: str, key: tuple[str, ...]) -> Place:
    """Load a Parquet file into a database file of its own."""
    import duckdb

    database = path.with_suffix(".duckdb")
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{path}')")
    return Place("duckdb", f"duckdb:///{database}", table, key)


def _columns(path: Path, types: dict[pa.DataType, str], key: tuple[str, ...]) -> str:
    schema = pq.read_schema(path)
    columns = [f"{field.name} {types[field.type]}{' NOT NULL' if field.name in key else ''}" for field in schema]
    return ", ".join([*columns, f"PRIMARY KEY ({', '.join(key)})"])


def _csv_parts(path: Path, *, plain: bool = False) -> Iterator[bytes]:
    """Yield CSV without a header; ``plain``: booleans as digits and time stamps without a zone."""
    options = pacsv.WriteOptions(include_header=False)
    for batch in pq.ParquetFile(path).iter_batches(batch_size=65_536):
        arrays = [_written(column, plain) for column in batch.columns]
        sink = pa.BufferOutputStream()
        pacsv.write_csv(pa.table(arrays, names=batch.schema.names), sink, options)
        yield sink.getvalue().to_pybytes()


def _written(column: pa.Array, plain: bool) -> pa.Array:
    if column.type == pa.uuid():
        return pa.array([str(uuid.UUID(bytes=one)) for one in column.storage.to_pylist()])
    if plain and pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if plain and pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us"))
    return column
