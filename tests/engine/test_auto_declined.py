"""Strategy ``auto`` where an engine declines the fingerprint: the run is a stream, unless somebody ended the statement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import duckdb
import psycopg
import pytest
import servers

from airflow_delta_provider.adapters.dialects import duckdb_digests, mysql_digests, postgresql_digests
from airflow_delta_provider.adapters.dialects.statement import sql
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.sql import SqlSide
from airflow_delta_provider.core.errors import FingerprintDeclinedError, SideReadError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine import narrow
from airflow_delta_provider.engine.killed import Killable
from airflow_delta_provider.engine.run import Outcome, reconcile

ROWS = 3_000
SLOW = (100.0, 1e6)
"""A link that is worth a fingerprint: bytes of a row, bytes a second."""
PATIENCE_S = 30
HEAVY = {
    "postgresql": "SELECT 0::bigint AS c0, 0::bigint AS c1, 0::bigint AS c2, 0::numeric AS c3, 0::numeric AS c4 "
    "FROM pg_catalog.pg_sleep(600)",
    "mariadb": "SELECT id AS c0, 0 AS c1, 0 AS c2, 0 AS c3, 0 AS c4 FROM source WHERE SLEEP(0.1) = 1",
}
"""Stand in for the fingerprint of a table that is too large for it."""
DIGESTS = {
    "postgresql": postgresql_digests.PostgresqlDigests,
    "mariadb": mysql_digests.MysqlDigests,
    "duckdb": duckdb_digests.DuckdbDigests,
}


class Pair:
    """Two tables on one server that differ in one row; ``uri`` is its address, ``run`` what an administrator runs."""

    def __init__(self, kind: str, uri: str) -> None:
        self.kind, self.uri = kind, uri
        series = {"postgresql": "generate_series(1, {}) AS i", "mariadb": "(SELECT seq AS i FROM seq_1_to_{}) AS s"}
        for table in ("source", "target"):
            self.run(f"CREATE TABLE {table} (id bigint PRIMARY KEY, a bigint, t varchar(20))")
            self.run(f"INSERT INTO {table} SELECT i, i % 7, 'text' FROM {series[kind].format(ROWS)}")
        self.run("UPDATE target SET a = a + 1 WHERE id = 1000")
        self.run("ANALYZE" if kind == "postgresql" else "ANALYZE TABLE source, target")

    def run(self, statement: str) -> list[Any]:
        if self.kind == "postgresql":
            with psycopg.connect(self.uri, autocommit=True) as connection:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []
        with (
            closing(servers.mysql_connection(self.uri)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall())

    def working(self) -> list[int]:
        """Return the sessions that run the heavy statement."""
        if self.kind == "postgresql":
            found = self.run(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND state = 'active' AND query LIKE '%pg_sleep(600)%'"
            )
        else:
            found = self.run(
                "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID() "
                "AND INFO LIKE '%SLEEP(0.1)%'"
            )
        return [int(number) for (number,) in found]

    def end(self) -> None:
        """End the sessions that run the heavy statement."""
        for number in self.working():
            self.run(f"SELECT pg_terminate_backend({number})" if self.kind == "postgresql" else f"KILL {number}")

    def form(self, uri: str = "", **members: Any) -> dict[str, Any]:
        """Return a specification, over another address where one is given."""
        sides = {name: {"uri": uri or self.uri, "table": name, "label": name} for name in ("source", "target")}
        return {"name": "pair", **sides, **members}


@pytest.fixture(params=["postgresql", "mariadb"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """Two tables on each server."""
    return Pair(request.param, request.getfixturevalue(f"{request.param}_database"))


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few thousand rows count as many."""
    monkeypatch.setattr(narrow, "AUTO_ROWS_MIN", 1_000)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every link for a slow one."""
    monkeypatch.setattr(narrow.NamedSide, "link", lambda self, values, size: SLOW)


def run(form: dict[str, Any], opener: Any = open_side) -> Outcome:
    return reconcile(parse_spec(form), MemoryStore(), opener, shards=2)


def heavy(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(DIGESTS[kind], "grouped", lambda self, *parts: sql(HEAVY[kind]))


def streamed(found: Outcome, reason: str) -> None:
    """Hold a run to the manifest of a stream, and to the reason that it gives."""
    assert (found.records, found.sidecar["strategy"]) == (1, "stream")
    assert (found.sidecar["strategy_asked"], found.sidecar["strategy_reason"]) == ("auto", reason)


LIMITED = {"postgresql": "QueryCanceled (57014)", "mariadb": "OperationalError (1969)"}


def test_a_fingerprint_beyond_the_statement_timeout_is_streamed(pair, slow, monkeypatch):
    """Whoever protects a server by a timeout gets the stream that fits it, and reads in the sidecar why."""
    plain = run(pair.form(strategy="stream")).receipt.manifest
    heavy(monkeypatch, pair.kind)
    limited = f"{pair.uri}{'&' if '?' in pair.uri else '?'}statement_timeout_s=0.5"
    found = run(pair.form(limited))
    streamed(
        found,
        f"a fingerprint was declined: source: table source: {LIMITED[pair.kind]} while reading.",
    )
    assert found.receipt.manifest == plain
    with pytest.raises(FingerprintDeclinedError, match=r"DELTA_SIDE_FINGERPRINT\] source: .* strategy: stream"):
        run(pair.form(limited, strategy="fingerprint"))


@pytest.mark.parametrize("way", ["killed", "cut"])
def test_a_fingerprint_that_somebody_ends_ends_the_run(pair, slow, monkeypatch, way):
    """A killed task must not begin to read whole tables, and a cut connection has to be told as what it is."""
    heavy(monkeypatch, pair.kind)
    reads: list[Any] = []
    plain = SqlSide.read
    monkeypatch.setattr(SqlSide, "read", lambda self, request: reads.append(request) or plain(self, request))
    opener = Killable(open_side)
    with ending(pair, opener.cancel if way == "killed" else pair.end), pytest.raises(SideReadError) as caught:
        run(pair.form(), opener)
    assert (caught.type, reads) == (SideReadError, [])


@contextmanager
def ending(pair: Pair, end: Callable[[], None]) -> Iterator[None]:
    """End the heavy statements of both sides once they run."""

    def wait() -> None:
        until = time.monotonic() + PATIENCE_S
        while len(pair.working()) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        end()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield
    thread.join(PATIENCE_S)


def test_a_server_of_small_packets_is_streamed(mariadb_database):
    """MariaDB gives NULL for a text beyond its largest packet, and that is no time that a payload took."""
    pair = Pair("mariadb", mariadb_database)
    ((usual,),) = pair.run("SELECT @@GLOBAL.max_allowed_packet")
    pair.run("SET GLOBAL max_allowed_packet = 524288")
    try:
        found = run(pair.form())
    finally:
        pair.run(f"SET GLOBAL max_allowed_packet = {usual}")
    streamed(found, "a fingerprint was declined: source: table source: a text of 1048576 bytes is not sent.")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("md5", None),
        (
            "octet_length",
            "a fingerprint was declined: source: table source: permission denied for function octet_length (42501).",
        ),
    ],
)
def test_a_user_without_the_right_to_a_function_is_streamed(postgresql_database, function, reason):
    """A hardened server keeps functions from its readers; a stream needs none of them."""
    pair = Pair("postgresql", postgresql_database)
    parts = urlsplit(postgresql_database)
    reader = f"reader_{parts.path[1:]}"
    pair.run(f"CREATE ROLE {reader} LOGIN PASSWORD 'secret'")
    try:
        pair.run(f"GRANT SELECT ON source, target TO {reader}")
        pair.run(f"REVOKE EXECUTE ON FUNCTION pg_catalog.{function}(text) FROM PUBLIC")
        place = parts.netloc.rpartition("@")[2]
        found = run(pair.form(urlunsplit(parts._replace(netloc=f"{quote(reader)}:secret@{place}"))))
    finally:
        pair.run(f"DROP OWNED BY {reader}")
        pair.run(f"DROP ROLE {reader}")
    assert (found.records, found.sidecar["strategy"]) == (1, "stream")
    assert found.sidecar.get("strategy_reason") == reason


def test_an_embedded_engine_goes_on_after_what_it_declined(tmp_path, slow, monkeypatch):
    """The stream runs in the transaction in which the fingerprint failed."""
    path = tmp_path / "pair.duckdb"
    with duckdb.connect(str(path)) as connection:
        for table in ("source", "target"):
            connection.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, a BIGINT, t VARCHAR)")
            connection.execute(f"INSERT INTO {table} SELECT range, range % 7, 'text' FROM range({ROWS})")
        connection.execute("UPDATE target SET a = a + 1 WHERE id = 1000")
    monkeypatch.setattr(DIGESTS["duckdb"], "grouped", lambda self, *parts: sql("SELECT error('too much') AS c0"))
    sides = {name: {"uri": f"duckdb:///{path}", "table": name, "label": name} for name in ("source", "target")}
    streamed(
        run({"name": "pair", **sides}),
        "a fingerprint was declined: source: table source: InvalidInputException while reading.",
    )
