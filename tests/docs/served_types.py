"""The table of the types of engines whose sides run in the tests, made of what an opened side says of each type.

After a change: ``python tests/docs/served_types.py`` writes it into the page; it starts PostgreSQL and MariaDB.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_delta_provider.adapters import open as adapters
from airflow_delta_provider.adapters.files import open_file_side
from airflow_delta_provider.adapters.side import Side
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import SCALARS, LogicalType

PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- engines: generated -->", "<!-- end of engines -->"
POSTGRESQL = (
    "boolean smallint integer bigint oid numeric numeric(12,2) money real double~precision text varchar(20) char(8) name"
    " bit(3) varbit bytea uuid date time timestamp timestamptz interval json jsonb integer[] text[]"
    " inet xml tsvector int4range timetz point polygon"
)
MYSQL = (
    "TINYINT SMALLINT MEDIUMINT INT BIGINT BIGINT~UNSIGNED YEAR DECIMAL(12,2) FLOAT DOUBLE CHAR(8) VARCHAR(20) TINYTEXT TEXT"
    " MEDIUMTEXT LONGTEXT ENUM('a','b') SET('a','b') BIT(3) JSON BINARY(4) VARBINARY(20) TINYBLOB BLOB MEDIUMBLOB LONGBLOB"
    " UUID DATE TIME DATETIME TIMESTAMP INET6 GEOMETRY POINT"
)
DUCKDB = (
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT DECIMAL(12,2) BIGNUM FLOAT"
    " DOUBLE VARCHAR ENUM('a','b') BIT BLOB UUID DATE TIME TIME_NS TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMPTZ"
    " INTERVAL JSON INTEGER[] INTEGER[3] STRUCT(a~INTEGER) MAP(VARCHAR,INTEGER) TIMETZ UNION(a~INTEGER,b~VARCHAR)"
)
"""Types of each engine, a blank inside one written as ``~``."""
SQLITE = {"INTEGER": (1,), "REAL": (0.5,), "INTEGER and REAL": (1, 0.5), "TEXT": ("x",), "BLOB": (b"x",), "INTEGER and TEXT": (1, "x"),
          "BLOB and REAL": (b"x", 0.5)}  # fmt: skip
"""By classes that are stored: such values."""
KINDS = (*(kind for kind in SCALARS if kind != "json"), "array", "struct", "map")
READABLE, REFUSED = "refused, or text by `read_as: {type: text}`", "refused"
Types = dict[str, list[str]]


def _types(text: str) -> list[str]:
    return [one.replace("~", " ") for one in text.split()]


def sorted_out(side: Side, names: list[str]) -> Types:
    """Return type names by what the side, which has a column of each, makes of them."""
    found: Types = {}
    kinds = [column.type.kind if column.type else None for column in side.columns]
    asked = {column.name: LogicalType("text") for column in side.columns if column.type is None}
    as_text = side.resolve(asked)
    for name, kind, column in zip(names, kinds, as_text.columns, strict=True):
        found.setdefault(kind or (READABLE if column.type else REFUSED), []).append(name)
    return found


def _declared(names: list[str]) -> str:
    return f"CREATE TABLE t ({', '.join(f'c{at} {name}' for at, name in enumerate(names))})"


def postgresql(uri: str, _: Path) -> Types:
    """Ask PostgreSQL."""
    import psycopg

    with psycopg.connect(uri) as connection:
        connection.execute(_declared(_types(POSTGRESQL)).encode())
    with adapters.open_side(SideSpec(uri=uri, table="public.t")) as side:
        return sorted_out(side, _types(POSTGRESQL))


def mysql(uri: str, _: Path) -> Types:
    """Ask MariaDB."""
    import pymysql

    parts = urlsplit(uri)
    with pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path[1:],
    ) as connection:
        connection.cursor().execute(_declared(_types(MYSQL)))
    with adapters.open_side(SideSpec(uri=uri, table="t")) as side:
        return sorted_out(side, _types(MYSQL))


def duckdb(_: str, folder: Path) -> Types:
    """Ask DuckDB."""
    import duckdb as driver

    with driver.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(_declared(_types(DUCKDB)))
    with adapters.open_side(SideSpec(uri=f"duckdb:///{folder}/t.duckdb", table="t")) as side:
        return sorted_out(side, _types(DUCKDB))


def sqlite(_: str, folder: Path) -> Types:
    """Store values of the classes in a column each."""
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'c{at}' for at in range(len(SQLITE)))})")
        for at, values in enumerate(SQLITE.values()):
            connection.executemany(f"INSERT INTO t (c{at}) VALUES (?)", [(value,) for value in values])
    connection.close()
    with adapters.open_side(SideSpec(uri=f"sqlite:///{folder}/t.db", table="t")) as side:
        return sorted_out(side, list(SQLITE))


def arrow(_: str, folder: Path) -> Types:
    """Write a column of each Arrow type."""
    import pyarrow as pa

    named: dict[str, Any] = {str(kind): kind for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
    )}  # fmt: skip
    named |= {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(), "date32": pa.date32(),
              "date64": pa.date64(), "decimal128(12,2)": pa.decimal128(12, 2), "decimal256(50,2)": pa.decimal256(50, 2),
              "binary(4)": pa.binary(4), "dictionary": pa.dictionary(pa.int32(), pa.string()), "UUID annotation": pa.uuid(),
              "JSON annotation": pa.json_(pa.string()), "time32": pa.time32("ms"), "time64": pa.time64("ns"),
              "timestamp without zone": pa.timestamp("ns"), "timestamp with zone": pa.timestamp("us", "UTC"),
              "duration": pa.duration("s"), "month_day_nano_interval": pa.month_day_nano_interval(),
              "list": pa.list_(pa.int32()), "struct": pa.struct([("a", pa.int32())]), "map": pa.map_(pa.string(), pa.int32()),
              "dense_union": pa.dense_union([pa.field("a", pa.int32())])}  # fmt: skip
    schema = pa.schema([(f"c{at}", kind) for at, kind in enumerate(named.values())])
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, schema):
        pass
    return sorted_out(open_file_side(str(folder / "t.arrow")), list(named))


def text_files(_: str, folder: Path) -> Types:
    """Declare a column of each logical type for both kinds of text files."""
    kinds = [kind for kind in KINDS if kind in SCALARS]
    (folder / "t.csv").write_text(",".join(kinds) + "\n", encoding="utf-8")
    (folder / "t.jsonl").write_text("{" + ", ".join(f'"{kind}": null' for kind in kinds) + "}\n", encoding="utf-8")
    found = [
        sorted_out(open_file_side(str(folder / name), {"types": {kind: kind for kind in kinds}}), kinds)
        for name in ("t.csv", "t.jsonl")
    ]
    assert found[0] == found[1]
    return found[0]


ENGINES: dict[str, Callable[[str, Path], Types]] = {
    "PostgreSQL": postgresql,
    "MySQL, MariaDB": mysql,
    "DuckDB": duckdb,
    "SQLite, by what is stored": sqlite,
    "Arrow and Parquet": arrow,
    "CSV and JSON Lines, by `types`": text_files,
}


def table(uris: dict[str, str], folder: Path) -> str:
    """Return the table in Markdown; ``uris``: a database of each server, by the heading of its column."""
    found = {name: ask(uris.get(name, ""), folder) for name, ask in ENGINES.items()}
    lines = [f"| logical type | {' | '.join(ENGINES)} |", "| --- " * (len(ENGINES) + 1) + "|"]
    for kind in (*KINDS, READABLE, REFUSED):
        name = kind if kind.startswith("refused") else f"`{kind}`"
        row = (", ".join(f"`{one}`" for one in by_kind.get(kind, [])) for by_kind in found.values())
        lines.append(re.sub(r"\|  (?=\|)", "| ", f"| {name} | {' | '.join(row)} |"))
    return "\n".join(lines)


def page(text: str, made: str) -> str:
    """Return the page's text with another table."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import servers

    with servers.postgresql() as one, servers.mariadb() as other, tempfile.TemporaryDirectory() as place:
        uris_of = {"PostgreSQL": one.create_database(), "MySQL, MariaDB": other.create_database()}
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), table(uris_of, Path(place))), encoding="utf-8")
