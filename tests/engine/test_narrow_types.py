"""What an engine calls equal and the contract does not: a fingerprint tells it apart, or the shard is streamed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest
import servers

from airflow_delta_provider.adapters.dialects.mysql_connect import _parameters
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

NONE, ONE = 0, 1
POSTGRESQL = [
    ("interval", "'1 mon'", "'30 days'", ONE),
    ("interval", "'1 day'", "'24 hours'", ONE),
    ("months", "'1 mon'", "'30 days'", ONE),
    ("json", "'{\"a\": 1}'", "'{\"a\":1}'", ONE),
    ("jsonb", "'{}'", "NULL", ONE),
    ("jsonb", "'1.0'", "'1.00'", ONE),
    ("text", "'1.0'", "'1.00'", ONE),
    ("text", "''", "NULL", ONE),
    ("text", "'a'", "'a '", ONE),
    ("char(5)", "'a'", "'a  '", NONE),
    ("numeric", "1.0", "1.00", NONE),
    ("numeric", "1.0", "1.0000000000000000000000001", ONE),
    ("numeric", "'NaN'", "'NaN'", NONE),
    ("numeric(5,-2)", "100", "200", ONE),
    ("float8", "'-0'", "'0'", NONE),
    ("float8", "0.1", "0.10000000000000002", ONE),
    ("float4", "1.5", "1.5000001", ONE),
    ("bigint", "0", "4294967297", ONE),
    ("timestamp", "'2024-01-01'", "timestamp '2024-01-01' + 4294967297 * interval '1 us'", ONE),
    ("timestamptz", "'infinity'", "'-infinity'", ONE),
    ("timestamp", "'0044-03-15 BC'", "'0044-03-15'", ONE),
    ("date", "'infinity'", "'infinity'", NONE),
    ("date", "'99999-01-01'", "'99999-01-02'", ONE),
    ("time", "'24:00'", "'00:00'", ONE),
    ("numeric[]", "'{1.0}'", "'{1.00}'", NONE),
    ("int[]", "'{1,NULL}'", "'{1}'", ONE),
    ("text[]", "'{a,b}'", "'{\"a,b\"}'", ONE),
    ("bytea", "'\\x00'", "'\\x0000'", ONE),
    ("bit(3)", "B'010'", "B'011'", ONE),
    ("bool", "true", "NULL", ONE),
    ("money", "1", "2", ONE),
    ("mood", "'glad'", "'sad'", ONE),
]
"""Type, both values, and how many records that makes."""
FOLDING = [
    ("citext", "'a'", "'A'", ONE),
    ("folded", "'a'", "'A'", ONE),
    ('text COLLATE "folding"', "'a'", "'A'", ONE),
    ('text COLLATE "folding"', "U&'\\00e9'", "U&'e\\0301'", ONE),
]
MARIADB = [
    ("varchar(20) COLLATE utf8mb4_general_ci", "'a'", "'A'", ONE),
    ("varchar(20) COLLATE utf8mb4_general_ci", "'e'", "'\u00e9'", ONE),
    ("varchar(20) COLLATE utf8mb4_general_ci", "'a'", "'a '", ONE),
    ("varchar(20) CHARACTER SET latin1", "'\u00e9'", "'e'", ONE),
    ("char(9)", "'a'", "'a  '", NONE),
    ("enum('a','b')", "'a'", "'b'", ONE),
    ("set('a','b')", "'a,b'", "'b'", ONE),
    ("longtext", "REPEAT('x', 200000)", "CONCAT(REPEAT('x', 199999), 'y')", ONE),
    ("blob", "x'00'", "x'0000'", ONE),
    ("bit(3)", "b'010'", "b'011'", ONE),
    ("double", "0.1", "0.10000000000000002", ONE),
    ("float", "1.5", "1.5000001", ONE),
    ("double", "-0e0", "0e0", NONE),
    ("decimal(10,2)", "1.5", "1.51", ONE),
    ("bigint unsigned", "18446744073709551615", "18446744073709551614", ONE),
    ("int(9) zerofill", "7", "8", ONE),
    ("time(6)", "'10:00:00'", "'10:00:00.000001'", ONE),
    ("datetime(6)", "'2024-01-01'", "'2024-01-01 00:00:00.000001'", ONE),
    ("json", "'{\"a\": 1}'", "'{\"a\":1}'", ONE),
    ("year", "2024", "2025", ONE),
]
DUCKDB = [
    ("VARCHAR COLLATE NOCASE", "'a'", "'A'", ONE),
    ("VARCHAR COLLATE NOACCENT", "'e'", "'\u00e9'", ONE),
    ("INTERVAL", "'1 month'", "'30 days'", ONE),
    ("DOUBLE", "'-0.0'", "'0.0'", NONE),
    ("DOUBLE", "0.1", "0.10000000000000002", ONE),
    ("DOUBLE", "'nan'", "'nan'", NONE),
    ("HUGEINT", "170141183460469231731687303715884105727", "170141183460469231731687303715884105726", ONE),
    ("DECIMAL(4,4)", "0.5", "0.5001", ONE),
    ("TIMESTAMP_NS", "'2024-01-01 00:00:00.000000001'", "'2024-01-01 00:00:00.000000002'", ONE),
    ("TIMESTAMP", "'infinity'", "'-infinity'", ONE),
    ("DATE", "'infinity'", "'infinity'", NONE),
    ("TIME", "'10:00:00'", "'10:00:00.000001'", ONE),
    ("VARCHAR[]", "['a, b']", "['a', 'b']", ONE),
    ("STRUCT(a INT)", "{'a': 1}", "{'a': 2}", ONE),
    ("BIT", "'010'", "'011'", ONE),
    ("JSON", "'{\"a\": 1}'", "'{\"a\":1}'", ONE),
    ("BOOLEAN", "true", "NULL", ONE),
]


def manifests(uri: str, records: int) -> dict[str, Any]:
    """Run the pair by every strategy, demand one manifest with so many records, and return the fingerprint's sidecar."""
    found, sidecar = set(), {}
    for strategy in ("stream", "fingerprint", "fast"):
        form = {
            "name": "types",
            "source": {"uri": uri, "table": "source", "label": "s"},
            "target": {"uri": uri, "table": "target", "label": "t"},
            "strategy": strategy,
        }
        outcome = reconcile(parse_spec(form), MemoryStore(), open_side)
        found.add((outcome.receipt.manifest, outcome.records))
        sidecar = dict(outcome.sidecar) if strategy == "fingerprint" else sidecar
    assert len(found) == 1
    assert {count for _, count in found} == {records}
    return sidecar


def tables(run: Any, kind: str, source: str, target: str) -> None:
    """Make both tables with the value in the first of some rows."""
    for table, value in (("source", source), ("target", target)):
        run(f"DROP TABLE IF EXISTS {table}")
        run(f"CREATE TABLE {table} (id int PRIMARY KEY, v {kind})")
        run(f"INSERT INTO {table} VALUES (1, {value}), (2, {source}), (3, NULL)")


@pytest.fixture(scope="module")
def postgresql(linguistic_postgresql_server: servers.Server) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    """A PostgreSQL database with types of our own."""
    uri = linguistic_postgresql_server.create_database()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE DOMAIN months AS interval")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        yield uri, connection


@pytest.mark.parametrize(("kind", "source", "target", "records"), POSTGRESQL)
def test_postgresql_tells_apart_what_its_own_equality_does_not(postgresql, kind, source, target, records):
    """Intervals, JSON, folds and shifted values are what engine hashes get wrong."""
    uri, connection = postgresql
    tables(connection.execute, kind, source, target)
    assert manifests(uri, records)["strategy"] == "fingerprint"


@pytest.mark.parametrize(("kind", "source", "target", "records"), FOLDING)
def test_text_that_folds_in_the_engine_is_digested_by_its_bytes(postgresql, kind, source, target, records):
    """citext and nondeterministic collations call texts equal that are not."""
    uri, connection = postgresql
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
        connection.execute(
            "CREATE COLLATION IF NOT EXISTS folding (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        connection.execute("DROP DOMAIN IF EXISTS folded CASCADE")
        connection.execute("CREATE DOMAIN folded AS citext")
    except psycopg.Error as error:
        servers.lacking(f"PostgreSQL with citext and ICU ({type(error).__name__})")
    tables(connection.execute, kind, source, target)
    assert manifests(uri, records)["strategy"] == "fingerprint"


@pytest.fixture(scope="module")
def mariadb(mariadb_server: servers.Server) -> Iterator[tuple[str, Any]]:
    """A MariaDB database."""
    uri = mariadb_server.create_database()
    with pymysql.connect(**_parameters(uri), autocommit=True) as connection:
        connection.cursor().execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        yield uri, connection


@pytest.mark.parametrize(("kind", "source", "target", "records"), MARIADB)
def test_mariadb_tells_apart_what_its_collations_do_not(mariadb, kind, source, target, records):
    """Most of its collations fold case, accents and blanks."""
    uri, connection = mariadb
    tables(connection.cursor().execute, kind, source, target)
    assert manifests(uri, records)["strategy"] == "fingerprint"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("date", "'0000-00-00'"), ("date", "'2024-02-30'"), ("datetime", "'2024-00-10'"), ("time", "'-10:00:00'")],
)
def test_what_a_stream_refuses_is_refused_by_a_fingerprint_too(mariadb, kind, value):
    """The same value on both sides is not equal where it is no value: its bucket is read, which says so."""
    uri, connection = mariadb
    tables(connection.cursor().execute, kind, value, value)
    with pytest.raises(DeltaError, match=r"DELTA_VALUE_RANGE"):
        manifests(uri, NONE)
    form = {"name": "x", "source": {"uri": uri, "table": "source"}, "target": {"uri": uri, "table": "target"}}
    with pytest.raises(DeltaError, match=r"DELTA_VALUE_RANGE"):
        reconcile(parse_spec({**form, "strategy": "fingerprint"}), MemoryStore(), open_side)


@pytest.mark.parametrize(("kind", "source", "target", "records"), DUCKDB)
def test_duckdb_tells_apart_what_it_calls_equal(tmp_path: Path, kind, source, target, records):
    """Its nested values and intervals have no text that tells all of them apart: those are streamed."""
    with duckdb.connect(str(tmp_path / "types.duckdb")) as connection:
        tables(connection.execute, kind, source, target)
    sidecar = manifests(f"duckdb:///{tmp_path / 'types.duckdb'}", records)
    streamed = kind in ("INTERVAL", "VARCHAR[]", "STRUCT(a INT)")
    assert sidecar["strategy"] == ("stream" if streamed else "fingerprint")
    assert ("no text that is proved the same" in sidecar.get("strategy_reason", "")) == streamed


def test_a_key_of_object_numbers_is_hashed(postgresql):
    """An oid compares as unsigned, so that a negative bound of the other side would be a large one."""
    uri, connection = postgresql
    for table, kind, key in (("source", "oid", 7), ("target", "int", -7)):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, v int)")
        connection.execute(f"INSERT INTO {table} VALUES ({key}, 1), (1, 1), (2, 2)")
    assert manifests(uri, 2)["strategy"] == "fingerprint"


def test_the_texts_of_floats_tell_all_of_them_apart(tmp_path, mariadb_database):
    """DuckDB and MariaDB write a double with as many digits as it needs, which its text is trusted for."""
    import random

    rng = random.Random(5)
    bits = [rng.getrandbits(64) for _ in range(3000)]
    near = [int.from_bytes(struct.pack(">d", value)) + step for value in (0.1, 1e22, 5e-324, 1.5) for step in range(50)]
    values = [struct.unpack(">d", (one & (2**64 - 1)).to_bytes(8))[0] for one in (*bits, *near)]
    finite = sorted({value for value in values if value == value and abs(value) != float("inf")})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (v DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in finite])
        assert connection.execute("SELECT count(DISTINCT CAST(v AS VARCHAR)) FROM t").fetchone() == (len(finite),)
    with pymysql.connect(**_parameters(mariadb_database), autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (v double)")
        cursor.executemany("INSERT INTO t VALUES (%s)", [(repr(value),) for value in finite])
        cursor.execute("SELECT COUNT(DISTINCT CAST(v + 0e0 AS CHAR)), COUNT(DISTINCT v) FROM t")
        texts, kept = cursor.fetchone()
        assert texts == kept
        assert kept > 2900
