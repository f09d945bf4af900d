"""Ranges pushed down into each engine's own types and collations: no shard loses a row, none reads one twice."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import servers

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

CHANCE = random.Random(3)
WORDS = [
    "a", "A", "b", "B", "é", "z", "\U0001f600", "\uffff", "", "0x10", "-", " a", "a ", "a\t", "aa", "a-a", "co-op",
    "coop", "ß", "ss", "İ", "i", *(chr(CHANCE.randrange(33, 2000)) + f"{number}x" for number in range(20)),
]  # fmt: skip
MINUS = "'-Infinity'"
DUCKDB = {
    "BIGINT": "(i - 30) * 1000 + i % 7",
    "UBIGINT": "18446744073709551615::UBIGINT - i::UBIGINT",
    "HUGEINT": "170141183460469231731687303715884105727::HUGEINT - i",
    "DECIMAL(10,3)": "(i - 30) / 7.0",
    "FLOAT": "(i - 30) / 7.0",
    "DOUBLE": "CASE i WHEN 1 THEN 'nan' WHEN 2 THEN 'inf' WHEN 3 THEN '-inf' ELSE ((i - 30) / 7.0)::VARCHAR END",
    "DATE": "DATE '1970-01-05' - i::INT * 100",
    "TIMESTAMP": "TIMESTAMP '1970-01-01 00:00:00.5' - i * INTERVAL 7 HOUR",
    "TIMESTAMP_NS": "make_timestamp_ns(i * 1000000007 - 20)",
    "TIMESTAMP_MS": "TIMESTAMP '1970-01-01 00:00:00.123' - i * INTERVAL 7 HOUR",
    "TIMESTAMPTZ": "TIMESTAMPTZ '1970-01-01 00:00:00.5+00' - i * INTERVAL 7 HOUR",
    "TIME": "TIME '00:00:00.5' + i * INTERVAL 7 MINUTE",
    "UUID": "md5(i::VARCHAR)::UUID",
    "BLOB": "unhex(md5(i::VARCHAR))",
    "VARCHAR COLLATE NOCASE": "CASE WHEN i % 2 = 0 THEN 'a' ELSE 'A' END || i",
    "mood": "CASE WHEN i % 2 = 0 THEN 'z' ELSE 'A' END || (i // 2)",
}
SQLITE: dict[str, list[Any]] = {
    "INTEGER": [*range(-15, 15), 2**63 - 1, -(2**63)],
    "NUMERIC": [1, 2.5, -3.25, 2**53 + 1, float(2**53), 2**62, 1e300, -1e300, float("inf"), float("-inf"), None, 0.1],
    "REAL": [0.0, 0.1, -5.5, 1e308, float("inf"), *(number / 3 for number in range(1, 20))],
    "TEXT": WORDS,
    "TEXT COLLATE NOCASE": WORDS,
    "TEXT COLLATE RTRIM": WORDS,
    "INT": WORDS,
    "": WORDS,
    "BLOB": [word.encode() for word in WORDS],
    "VARCHAR(9)": ["a\x00b", "a", "a\x00", "\x00", "ab", "\x01", *(f"x{number}\x00" for number in range(20))],
}
POSTGRESQL: dict[str, list[Any]] = {
    "bigint": [*range(-15, 15), 2**63 - 1, -(2**63)],
    "numeric": ["NaN", "Infinity", MINUS.strip("'"), "0", "-0.5", "1e30", "-1e-30", *map(str, range(1, 20))],
    "numeric(12,3)": [str(number / 8) for number in range(-10, 10)],
    "double precision": ["NaN", "Infinity", "-Infinity", "-0", "0.1", "5e-324", *(str(n / 3) for n in range(1, 20))],
    "real": ["NaN", "Infinity", "0.1", "-0.25", *(str(number / 4) for number in range(1, 20))],
    "text": WORDS,
    'text COLLATE "en-x-icu"': WORDS,
    "char(6)": sorted({word.rstrip(" ") for word in WORDS if len(word) < 6}),
    'varchar(20) COLLATE "POSIX"': WORDS,
    "bytea": [word.encode() for word in WORDS],
    "boolean": ["true", "false"],
    "date": ["0044-03-15 BC", "1970-01-01", "9999-12-31", "1969-12-31", "infinity"][:4],
    "timestamp": ["1970-01-01 00:00:00.000001", "1969-12-31 23:59:59.999999", "4713-01-01 BC", "2262-04-12", "9999-01-01"],
    "timestamptz": ["1970-01-01 00:00:00.5+00", "1969-12-31 23:59:59+00", "2024-03-31 02:30+02", "9999-01-01+00"],
    "time": ["00:00", "24:00", "12:00:00.000001", "23:59:59.999999"],
    "uuid": [f"{number * 2654435761 % 2**32:08x}-0000-4000-8000-000000000000" for number in range(20)],
}  # fmt: skip


def rows_by_shards(side: dict[str, str]) -> list[tuple[int, int]]:
    """Compare a table with itself in 1, 2 and 7 shards; return rows and unchanged of each."""
    form = {
        "name": "self",
        "source": {**side, "label": "s"},
        "target": {**side, "label": "t"},
        "key": ["k"],
        "keys": {"nulls": "match"},
    }
    found = []
    for shards in (1, 2, 7):
        population = reconcile(parse_spec(form), MemoryStore(), open_side, shards=shards).manifest["population"]
        assert population["source"] == population["target"]
        found.append((population["source"]["rows"], population["unchanged"]))
    return found


@pytest.fixture(scope="module")
def duckdb_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import duckdb

    path = tmp_path_factory.mktemp("ranges") / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        labels = ", ".join(f"'{letter}{number}'" for number in range(30, -1, -1) for letter in "zA")
        connection.execute(f"CREATE TYPE mood AS ENUM ({labels})")
        for number, (kind, expression) in enumerate(DUCKDB.items()):
            connection.execute(f"CREATE TABLE t{number} (k {kind}, v INT)")
            connection.execute(f"INSERT INTO t{number} SELECT {expression}, i FROM range(60) AS r(i) ORDER BY hash(i)")
            connection.execute(f"CREATE INDEX x{number} ON t{number}(k)")
    return path


@pytest.mark.parametrize("number", range(len(DUCKDB)), ids=list(DUCKDB))
def test_duckdb(number, duckdb_file):
    """Enums by label and not by ordinal, UUIDs by bytes, NOCASE text by code points."""
    side = {"uri": f"duckdb:///{duckdb_file}", "table": f"t{number}"}
    assert rows_by_shards(side) == [(60, 60)] * 3


@pytest.mark.parametrize("kind", SQLITE)
def test_sqlite(kind, tmp_path):
    """Declared types bind nothing, and a collation of the column is not the order of keys."""
    values = SQLITE[kind]
    with sqlite3.connect(tmp_path / "b.db") as connection:
        connection.execute(f"CREATE TABLE t (k {kind}, v INTEGER)")
        connection.execute("CREATE INDEX x ON t(k)")
        connection.executemany("INSERT INTO t VALUES (?, 1)", [(value,) for value in values])
    side = {"uri": f"sqlite:///{tmp_path}/b.db", "table": "t"}
    assert rows_by_shards(side) == [(len(values), len(values))] * 3


@pytest.mark.parametrize("kind", POSTGRESQL)
def test_postgresql(kind, linguistic_postgresql_server):
    """NaN last, infinities in their place, text by bytes under any collation, char without its padding."""
    import psycopg

    servers.require_module("psycopg")
    values = POSTGRESQL[kind]
    uri = linguistic_postgresql_server.create_database()
    with psycopg.connect(uri, autocommit=True) as connection:
        if (
            "icu" in kind
            and not connection.execute("SELECT 1 FROM pg_collation WHERE collname = 'en-x-icu'").fetchone()
        ):
            servers.lacking("the collation en-x-icu")
        connection.execute(f"CREATE TABLE t (k {kind}, v integer)")
        connection.execute("CREATE INDEX x ON t (k)")
        bare = kind.split(" COLLATE")[0]
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t VALUES (%s::text::{bare}, 1)" if bare != "bytea" else "INSERT INTO t VALUES (%s, 1)", [(value if isinstance(value, bytes) else str(value),) for value in values])  # fmt: skip
        connection.execute("ANALYZE t")
    side = {"uri": uri, "table": "t"}
    assert rows_by_shards(side) == [(len(values), len(values))] * 3
