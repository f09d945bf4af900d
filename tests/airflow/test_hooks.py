"""Connections: stores, signing keys, keys of keyed digests, and databases by their own adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import transit_twin
from airflow_runs import connection_text
from cryptography.hazmat.primitives.asymmetric import ed25519
from signers import pem

from airflow_delta_provider.core.errors import (
    HmacKeyError,
    InputPathError,
    SideMissingError,
    SideSchemeError,
    SignKeyError,
    SpecFieldError,
    SpecValueError,
)
from airflow_delta_provider.core.spec import SideSpec, parse_spec

HARD = "p@ss:w/rd%20 'x\\y?#[]"
"""A password of everything that an address would have to encode."""


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes the connection ``it``."""
    return lambda **fields: monkeypatch.setenv("AIRFLOW_CONN_IT", connection_text(**fields))


def side(**fields: Any) -> Any:
    from airflow_delta_provider.hooks.sides import open_side

    return open_side(SideSpec(conn_id="it", **{"table": "orders", **fields}))


def store_hook() -> Any:
    from airflow_delta_provider.hooks.store import DeltaStoreHook

    return DeltaStoreHook("it")


def signer_hook() -> Any:
    from airflow_delta_provider.hooks.signer import DeltaSignerHook

    return DeltaSignerHook("it")


def test_a_store_is_the_host_of_its_connection(connect, tmp_path):
    """A folder or a URI; the button in the UI says what is there and writes nothing."""
    connect(conn_type="delta_store", host=(tmp_path / "store").as_uri())
    assert store_hook().get_conn().uri == str(tmp_path / "store")
    ok, text = store_hook().test_connection()
    assert (ok, "the first run makes it a store" in text) == (True, True)
    assert list(tmp_path.iterdir()) == []
    store_hook().get_conn().create("probe/" + "0" * 32, b"")
    assert store_hook().test_connection() == (True, f"{tmp_path / 'store'} is a store.")


def test_a_connection_without_a_store_says_so(connect):
    """No address, and one that nothing answers to."""
    connect(conn_type="delta_store")
    with pytest.raises(SpecFieldError, match="connection it has no address"):
        store_hook().get_conn()
    connect(conn_type="delta_store", host="gopher://old/deltas")
    ok, text = store_hook().test_connection()
    assert (ok, "DELTA_STORE_SCHEME" in text) == (False, True)


def test_a_store_in_object_storage_gets_its_options_and_nobody_sees_them(connect, s3_server, s3_bucket):
    """Login and password are the account, extras are settings; what is not named comes from the environment."""
    options = s3_server.options
    account = {"login": options.pop("access_key_id"), "password": options.pop("secret_access_key")}
    connect(conn_type="delta_store", host=f"s3://{s3_bucket}/hook", extra={**options, "trust": "/t.json"}, **account)
    store = store_hook().get_conn()
    assert store.create("probe/" + "0" * 32, b"x") is True
    assert store_hook().test_connection() == (True, f"s3://{s3_bucket}/hook is a store.")
    connect(conn_type="delta_store", host=f"s3://{s3_bucket}/hook", extra=options, login="WRONG", password="hidden-key")
    ok, text = store_hook().test_connection()
    assert not ok
    assert "403" in text
    assert "hidden-key" not in text


def test_a_store_names_whom_to_trust(connect, tmp_path):
    """One place for the whole deployment; a task may name another."""
    connect(conn_type="delta_store", host=str(tmp_path), extra={"trust": str(tmp_path / "absent.json")})
    with pytest.raises(InputPathError, match=r"absent\.json"):
        store_hook().trust()
    connect(conn_type="delta_store", host=str(tmp_path))
    assert store_hook().trust() is None


def test_a_private_key_is_read_from_either_field(connect):
    """The password holds one line in the UI, so line breaks may be written out; a passphrase has its own field."""
    key = ed25519.Ed25519PrivateKey.generate()
    plain, locked = pem(key).decode(), pem(key, b"open sesame").decode()
    connect(conn_type="delta_signer", password=plain.replace("\n", "\\n"))
    keyid = signer_hook().get_conn().keyid
    connect(conn_type="delta_signer", extra={"private_key": locked, "passphrase": "open sesame"})
    assert signer_hook().get_conn().keyid == keyid
    assert signer_hook().test_connection() == (True, f"ed25519 key {keyid}")


def test_a_key_that_cannot_be_read_is_not_shown(connect):
    """Neither the key nor the passphrase is in the refusal."""
    connect(conn_type="delta_signer")
    with pytest.raises(SignKeyError, match="has no private key"):
        signer_hook().get_conn()
    connect(conn_type="delta_signer", password="-----BEGIN geheim", extra={"passphrase": "geheim"})
    ok, text = signer_hook().test_connection()
    assert (ok, "DELTA_SIGN_KEY" in text, "geheim" in text) == (False, True, False)


def test_the_key_of_keyed_digests_is_a_password(connect):
    """Its id is the connection's, as a variable of that name would have on the command line."""
    from airflow_delta_provider.hooks.keys import hmac_key_for

    sides = {"source": {"path": "a.csv"}, "target": {"path": "b.csv"}}
    spec = parse_spec({"name": "a", **sides, "hmac": {"conn_id": "IT"}})
    connect(conn_type="generic", password="00ff")
    key = hmac_key_for(spec)
    assert key is not None
    assert (key.key_id, key.secret) == ("it", b"\x00\xff")
    connect(conn_type="generic")
    with pytest.raises(HmacKeyError, match="has no password"):
        hmac_key_for(spec)
    assert hmac_key_for(parse_spec({"name": "a", **sides})) is None


def test_sqlite_and_duckdb_are_files_of_a_connection(connect, tmp_path):
    """Opened for reading by our own adapters; what is not there is not created."""
    import duckdb

    with duckdb.connect(str(tmp_path / "it.duckdb")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connect(conn_type="duckdb", host=str(tmp_path / "it.duckdb"))
    opened = side()
    assert (opened.kind, [column.name for column in opened.columns]) == ("duckdb", ["id"])
    opened.close()
    connect(conn_type="sqlite", host=str(tmp_path / "absent.db"))
    with pytest.raises(SideMissingError):
        side().columns  # noqa: B018 - the connection is made by the first question
    assert not (tmp_path / "absent.db").exists()
    connect(conn_type="sqlite")
    with pytest.raises(SpecValueError, match="names no file"):
        side()


def test_a_duckdb_connection_with_settings_is_made_by_its_hook(connect, tmp_path):
    """Extensions, limits, tokens: what the hook knows is not to be lost."""
    import duckdb

    with duckdb.connect(str(tmp_path / "it.duckdb")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connect(conn_type="duckdb", host=str(tmp_path / "it.duckdb"), extra={"read_only": True, "threads": 1})
    opened = side()
    assert [column.name for column in opened.columns] == ["id"]
    opened.close()


@pytest.mark.parametrize("password", [HARD, ""], ids=["of special characters", "none"])
def test_a_password_reaches_postgresql_as_it_is(connect, password):
    """Fields go to libpq one by one; no address is put together and taken apart again."""
    from airflow.sdk import BaseHook
    from psycopg.conninfo import conninfo_to_dict

    from airflow_delta_provider.hooks.sides import postgres_dsn

    extra = {"sslmode": "require", "cursor": "dictcursor"}
    connect(conn_type="postgres", host="db", port=5433, login="m e", password=password, schema="shop", extra=extra)
    found = conninfo_to_dict(postgres_dsn(BaseHook.get_connection("it")))
    assert found.pop("password", "") == password
    assert found == {"host": "db", "port": "5433", "user": "m e", "dbname": "shop", "sslmode": "require"}


def test_postgresql_is_read_over_its_connection(connect, postgresql_database):
    """A real server, a role whose password has every special character, and a table of it."""
    import psycopg

    parts = urlsplit(postgresql_database)
    with psycopg.connect(postgresql_database, autocommit=True) as admin:
        admin.execute(psycopg.sql.SQL("CREATE ROLE hard LOGIN PASSWORD {}").format(HARD))
        admin.execute("CREATE TABLE orders (id integer PRIMARY KEY, amount numeric(10, 2))")
        admin.execute("GRANT SELECT ON orders TO hard")
    fields = {"host": parts.hostname, "port": parts.port, "schema": parts.path[1:]}
    connect(conn_type="postgres", login="hard", password=HARD, **fields)
    opened = side(table="public.orders")
    assert [(column.name, column.type.text) for column in opened.columns] == [
        ("id", "int(32)"),
        ("amount", "decimal(10,2)"),
    ]
    opened.close()


def test_mysql_gets_an_encoded_address(connect):
    """The adapter of MySQL takes an address, so every part of it is encoded."""
    from airflow.sdk import BaseHook

    from airflow_delta_provider.hooks.sides import mysql_address

    connect(conn_type="mysql", host="db", login="m:e", password="p@/", port=3307, schema="shop")
    assert mysql_address(BaseHook.get_connection("it")) == "mysql://m%3Ae:p%40%2F@db:3307/shop"
    connect(conn_type="mysql", host="db", login="me", password="", schema="shop")
    assert mysql_address(BaseHook.get_connection("it")) == "mysql://me@db/shop"


@pytest.mark.parametrize(
    ("extra", "query"),
    [
        ({}, ""),
        ({"charset": "utf8", "cursor": "sscursor", "local_infile": False}, "?charset=utf8&local_infile=false"),
        ({"ssl_mode": "REQUIRED", "read_timeout": 30}, "?ssl_mode=REQUIRED&read_timeout=30"),
        ({"unix_socket": "/run/my sql.sock"}, "?unix_socket=%2Frun%2Fmy%20sql.sock"),
        (
            {"ssl": {"ca": "/a.pem", "cert": "/c.pem", "key": "/k.pem"}},
            "?ssl=true&ssl_verify_identity=true&ssl_ca=%2Fa.pem&ssl_cert=%2Fc.pem&ssl_key=%2Fk.pem",
        ),
        (
            {"ssl": '{"ca": "/a.pem", "check_hostname": false}'},
            "?ssl=true&ssl_verify_identity=false&ssl_ca=%2Fa.pem",
        ),
        (
            {"ssl": {"ca": "/a.pem", "verify_mode": "none"}},
            "?ssl=true&ssl_verify_identity=false&ssl_ca=%2Fa.pem&ssl_verify_cert=false",
        ),
    ],
)
def test_extras_of_a_mysql_connection_reach_its_address(extra, query, connect):
    """What protects the line, and what limits it, is never dropped on the way."""
    from airflow.sdk import BaseHook

    from airflow_delta_provider.hooks.sides import mysql_address

    connect(conn_type="mysql", host="db", login="me", schema="shop", extra=extra)
    assert mysql_address(BaseHook.get_connection("it")) == f"mysql://me@db/shop{query}"


@pytest.mark.parametrize(
    ("extra", "named"),
    [({"sslmode": "require"}, "sslmode"), ({"iam": True}, "iam"), ({"init_command": "SET x = 1"}, "init_command"),
     ({"ssl": {"cipher": "AES"}}, "cipher"), ({"ssl": "{ca"}, "ssl"), ({"read_timeout": [1]}, "read_timeout")],
)  # fmt: skip
def test_an_extra_that_mysql_does_not_know_is_refused_by_name(extra, named, connect):
    """A connection that is less safe than its extras say would be believed to be safe."""
    connect(conn_type="mysql", host="db", login="me", schema="shop", extra=extra)
    with pytest.raises(SpecValueError, match=named):
        side(table="orders")


def test_another_hook_is_taken_by_the_address_that_it_gives(connect, monkeypatch, tmp_path):
    """A company's own connection type over an engine that we read works without a line here."""
    import sqlite3

    from airflow.sdk import Connection
    from sqlalchemy.engine import make_url

    with sqlite3.connect(tmp_path / "it.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connect(conn_type="our_vault", host="vault")

    class Hook:
        sqlalchemy_url = make_url(f"sqlite+pysqlite:///{tmp_path}/it.db")

    monkeypatch.setattr(Connection, "get_hook", lambda self, **options: Hook())
    assert [column.name for column in side().columns] == ["id"]
    Hook.sqlalchemy_url = make_url("firebird://me@host/db")
    with pytest.raises(
        SideSchemeError, match="connection it has type our_vault; read are duckdb, mysql, postgres, sqlite"
    ):
        side()


@pytest.mark.parametrize("conn_type", ["generic", "http", "no_such_type"])
def test_a_connection_that_is_no_database_is_refused(connect, conn_type):
    """By name, with what would work."""
    connect(conn_type=conn_type, host="somewhere", password="geheim")
    with pytest.raises(SideSchemeError, match=f"connection it has type {conn_type}; read are") as refused:
        side()
    assert "geheim" not in str(refused.value)


def test_files_need_no_connection(tmp_path: Path):
    """A path is a side of its own."""
    from airflow_delta_provider.hooks.sides import open_side

    (tmp_path / "orders.csv").write_text("id,amount\n1,2\n")
    opened = open_side(SideSpec(path=str(tmp_path / "orders.csv")))
    assert [column.name for column in opened.columns] == ["id", "amount"]


def test_a_signer_whose_key_stays_in_a_service_is_the_host_of_its_connection(connect, monkeypatch):
    """The connection holds no secret then."""
    with transit_twin.transit_twin() as twin:
        monkeypatch.setenv("VAULT_ADDR", twin.url)
        monkeypatch.setenv("VAULT_TOKEN", transit_twin.TOKEN)
        connect(conn_type="delta_signer", host="hv:deltas")
        ok, text = signer_hook().test_connection()
        assert (ok, text.startswith("ed25519 key ")) == (True, True)
        twin.status = 503
        ok, text = signer_hook().test_connection()
        assert (ok, "DELTA_SIGN_SERVICE" in text) == (False, True)
