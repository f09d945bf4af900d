"""What two servers hold at their limits: a thousand columns, a megabyte of text, 247 digits, keys that fold case."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pymysql
import pytest
from servers import Server

from airflow_delta_provider.adapters.dialects.mysql_connect import _parameters
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

COLUMNS = 996
"""Besides key, text, number and flag; InnoDB ends at 1,017 columns, PostgreSQL at 1,600."""
KEYS = ["b", "C", "a", "Z", "é", "_x", "ß", "a b", "aB", "Ω", "\U0001f600", "10", "9", "B1"]
TEXT = "".join(chr(0x61 + at % 26) + ("é" if at % 1000 == 0 else "") for at in range(1_048_576))
DIGITS = ("1234567890" * 25)[:246] + "7"
DDL_MARIADB = "CREATE TABLE wide (code varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, "
COLLATION = "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"


def rows() -> list[tuple[Any, ...]]:
    """Return the rows: a key, a thousand values less four, a long text, a long number, a flag."""
    return [
        (
            key,
            *(None if (at + column) % 7 == 0 else at * column for column in range(COLUMNS)),
            TEXT[at:],
            DIGITS,
            at % 2,
        )
        for at, key in enumerate(KEYS)
    ]


@pytest.fixture
def mariadb(mariadb_database: str) -> str:
    """The address of the MariaDB database with the table."""
    names = [f"c{at}" for at in range(COLUMNS)]
    with pymysql.connect(**_parameters(mariadb_database), autocommit=True, charset="utf8mb4") as connection:
        cursor = connection.cursor()
        cursor.execute(
            DDL_MARIADB + ", ".join(f"{name} int" for name in names) + ", t longtext, n text, f tinyint(1))"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci ROW_FORMAT=DYNAMIC"
        )
        marks = ", ".join(["%s"] * (COLUMNS + 4))
        for row in rows():
            cursor.execute(f"INSERT INTO wide VALUES ({marks})", row)
    return mariadb_database


@pytest.fixture
def postgresql(linguistic_postgresql_server: Server) -> str:
    """The address of the PostgreSQL database with the table; its key folds case where the build has ICU."""
    uri = linguistic_postgresql_server.create_database()
    names = [f"c{at}" for at in range(COLUMNS)]
    with psycopg.connect(uri, autocommit=True) as connection:
        try:
            connection.execute(COLLATION)
            key = "code text COLLATE folded PRIMARY KEY"
        except psycopg.errors.FeatureNotSupported:
            key = "code text PRIMARY KEY"
        columns = [*(f"{name} bigint" for name in names), "t text", "n numeric(247)", "f boolean"]
        connection.execute(f"CREATE TABLE wide ({key}, {', '.join(columns)})".encode())
        marks = ", ".join(["%s"] * (COLUMNS + 3) + ["%s::int::boolean"])
        with connection.cursor() as cursor:
            for row in reversed(rows()):
                cursor.execute(f"INSERT INTO wide VALUES ({marks})".encode(), row)
    return uri


def compared(source: str, target: str, shards: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the manifest and its records."""
    form = {
        "name": "wide",
        "source": {"uri": source, "table": "wide", "label": "s"},
        "target": {"uri": target, "table": "wide", "label": "t"},
        "key": ["code"],
        "rules": {
            "n": [{"read_as": {"type": "decimal", "side": "source"}}],
            "f": [{"read_as": {"type": "bool", "side": "source"}}],
        },
    }
    store = MemoryStore()
    outcome = reconcile(parse_spec(form), store, open_side, shards=shards)
    lines = blobs.get_blob(store, outcome.manifest["body"]["sha256"]).splitlines()
    return dict(outcome.manifest), [json.loads(line) for line in lines]


def test_two_servers_at_their_limits_agree_and_one_letter_is_found(mariadb, postgresql):
    """No phantom difference, and no real one missed: one letter of a megabyte, one digit, and the case of a key."""
    for shards in (1, 3):
        manifest, records = compared(mariadb, postgresql, shards)
        assert records == []
        assert manifest["population"]["unchanged"] == 14
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("UPDATE wide SET t = overlay(t placing 'X' from 900000 for 1) WHERE code = 'b'")
        connection.execute("UPDATE wide SET n = n + 1 WHERE code = 'a'")
        connection.execute("UPDATE wide SET c995 = -1 WHERE code = '9'")
        connection.execute("UPDATE wide SET code = 'z' WHERE code = 'Z'")
    _, records = compared(mariadb, postgresql, 2)
    assert [(record["key"][0], record["category"], record.get("columns")) for record in records] == [
        ("9", "value_diverged", ["c995"]),
        ("Z", "dropped", None),
        ("a", "value_diverged", ["n"]),
        ("b", "value_diverged", ["t"]),
        ("z", "added", None),
    ]
