"""Strategy ``auto``: a stream on a quick link, a fingerprint where the link makes a stream three times slower."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import servers

from airflow_delta_provider.adapters.fingerprints import Form
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import SideSpec, parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine import narrow
from airflow_delta_provider.engine.narrow import strategy_form
from airflow_delta_provider.engine.run import Outcome, reconcile

ROWS = 3_000
SLOW, QUICK = (100.0, 6e6), (100.0, 7e6)
"""Bytes of a row, bytes a second: 16.7 and 14.3 microseconds a row, more and less than three digests of 5."""
FORMS = (Form("a", "int"), Form("t", "text"))


@pytest.fixture
def pair(postgresql_database):
    """Two PostgreSQL tables that differ in one row."""
    with psycopg.connect(postgresql_database) as connection:
        for table in ("source", "target"):
            connection.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, a bigint, t text)".encode())
            connection.execute(
                f"INSERT INTO {table} SELECT i, i % 7, 'text' FROM generate_series(1, {ROWS}) i".encode()
            )
        connection.execute("UPDATE target SET a = a + 1 WHERE id = 1000")
    with psycopg.connect(postgresql_database, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return {
        "name": "pair",
        **{name: {"uri": postgresql_database, "table": name, "label": name} for name in ("source", "target")},
    }


@pytest.fixture
def many(monkeypatch):
    """Let a few thousand rows count as many."""
    monkeypatch.setattr(narrow, "AUTO_ROWS_MIN", 1_000)


def run(form: dict[str, Any], **members: Any) -> Outcome:
    return reconcile(parse_spec({**form, **members}), MemoryStore(), open_side, shards=2)


def linked(monkeypatch: pytest.MonkeyPatch, **links: tuple[float, float] | None) -> None:
    monkeypatch.setattr(narrow.NamedSide, "link", lambda self, values, size: links[self.name])


@pytest.mark.parametrize("slow", ["source", "target"])
def test_one_slow_link_is_enough_for_a_fingerprint(pair, many, monkeypatch, slow):
    """The slower side is what a stream waits for; the sidecar says what was measured, the manifest is the same."""
    linked(monkeypatch, **{"source": QUICK, "target": QUICK, slow: SLOW})
    found = run(pair)
    assert (found.sidecar["strategy"], found.sidecar["strategy_asked"]) == ("fingerprint", "auto")
    assert found.sidecar["strategy_reason"] == (
        f"{slow}: rows of 100 bytes come at 6.0 MB/s, 3 times as long as a digest"
    )
    assert found.records == 1
    assert found.receipt.manifest == run(pair, strategy="stream").receipt.manifest


def test_a_quick_link_is_streamed_and_nothing_more_is_said(pair, many, monkeypatch):
    """A proof by values is better than one by digests where it costs no more."""
    linked(monkeypatch, source=QUICK, target=None)
    assert run(pair).sidecar["strategy"] == "stream"
    assert "strategy_asked" not in run(pair).sidecar


def test_few_rows_are_not_worth_the_question(pair, monkeypatch):
    """Small tables are read before a link could be measured."""
    monkeypatch.setattr(narrow.NamedSide, "link", None)
    assert run(pair).sidecar["strategy"] == "stream"


def test_what_has_rules_is_streamed_over_any_link(pair, many, monkeypatch):
    """A fingerprint cannot express a rule, however slow the link is."""
    linked(monkeypatch, source=SLOW, target=SLOW)
    assert run(pair, rules={"t": [{"normalize": ["casefold"]}]}).sidecar["strategy"] == "stream"


def test_the_way_from_a_server_is_weighed_and_timed(pair, mariadb_database):
    """Row bytes come from the rows themselves: 1 digit, 4 letters, their length in front and what parts them."""
    with (
        servers.mysql_connection(mariadb_database) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE target (id bigint PRIMARY KEY, a bigint, t text CHARACTER SET utf8mb4)")
        cursor.execute("INSERT INTO target VALUES (1, 5, 'text'), (2, 6, 'text')")
    for uri, table in ((pair["source"]["uri"], "source"), (mariadb_database, "target")):
        side = open_side(SideSpec(uri=uri, table=table))
        found = side.link(FORMS, 1 << 20)
        side.close()
        assert found is not None
        row_bytes, rate = found
        assert row_bytes == 8.0
        assert rate > 1e6


def test_a_file_of_an_engine_has_no_link(tmp_path):
    """DuckDB reads on this machine."""
    import duckdb

    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, t VARCHAR)")
    side = open_side(SideSpec(uri=f"duckdb:///{tmp_path}/t.duckdb", table="t"))
    assert side.link(FORMS, 1 << 20) is None
    side.close()


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([{"records": 1}, {"records": 0}], "stream"),
        ([{"records": 1}, {"strategy": "stream", "strategy_reason": ""}], "stream"),
        ([{"records": 1}, {"strategy": "fingerprint", "buckets": 3, "buckets_read": 1}], "fingerprint"),
        ([{"records": 1}, {}], "fingerprint"),
    ],
    ids=["streamed", "asked and streamed", "one narrowed", "one lost"],
)
def test_the_verdict_rests_on_the_weakest_shard(facts, expected):
    """A run says of itself no more than what holds for all of its shards."""
    assert strategy_form("auto", facts)["strategy"] == expected
