"""When a shard is narrowed by fingerprints, when it is streamed instead, and what the run then says of itself."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import psycopg
import pytest
import yaml

from airflow_delta_provider.adapters.dialects.digests import merged_ranges
from airflow_delta_provider.adapters.fingerprints import Buckets
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Request
from airflow_delta_provider.adapters.sql import SqlSide
from airflow_delta_provider.cli import main
from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import KeyDuplicateError, KeyNullError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.published import sidecars_of
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.engine import narrow, steps
from airflow_delta_provider.engine.run import Outcome, reconcile
from airflow_delta_provider.engine.work import Work

ROWS = 2_000


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Two DuckDB tables of 2,000 rows with a primary key; the target has 3 changed, 1 dropped and 1 added."""
    path = tmp_path / "pair.duckdb"
    with duckdb.connect(str(path)) as connection:
        for table in ("source", "target"):
            connection.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, a BIGINT, t VARCHAR)")
            connection.execute(f"INSERT INTO {table} SELECT i, i % 7, 'text ' || i FROM range({ROWS}) r(i)")
        connection.execute("UPDATE target SET a = a + 4294967297 WHERE id IN (10, 11, 1500)")
        connection.execute("DELETE FROM target WHERE id = 700")
        connection.execute(f"INSERT INTO target VALUES ({ROWS + 5}, 1, 'new')")
    return path


def form_of(path: Path, **members: Any) -> dict[str, Any]:
    sides = {name: {"uri": f"duckdb:///{path}", "table": name, "label": name[0]} for name in ("source", "target")}
    return {"name": "pair", "strategy": "fingerprint", **sides, **members}


def run(form: dict[str, Any], shards: int = 1, **options: Any) -> Outcome:
    return reconcile(parse_spec(form), MemoryStore(), open_side, shards=shards, **options)


def changed(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_only_rows_of_buckets_that_differ_are_read(pair):
    """That is what a fingerprint is for: the rows stay where they are."""
    read = []
    original = SqlSide.read

    def counted(self: SqlSide, request: Request) -> Any:
        for batch in original(self, request):
            read.append(batch.num_rows)
            yield batch

    with patch.object(SqlSide, "read", counted):
        outcome = run(form_of(pair))
    assert outcome.records == 5
    assert outcome.sidecar["strategy"] == "fingerprint"
    assert outcome.sidecar["buckets"] == {"compared": 63, "read": 4}
    assert 0 < sum(read) < 300
    assert outcome.manifest["population"]["unchanged"] == 1996
    assert outcome.receipt.manifest == run(form_of(pair, strategy="stream")).receipt.manifest


@pytest.mark.parametrize("strategy", ["fingerprint", "fast"])
def test_rows_that_changed_places_whole_are_found(pair, strategy):
    """A sum of digests is the same in any order, so the key must be inside each of them."""
    changed(
        pair,
        "CREATE OR REPLACE TABLE target AS SELECT * FROM source",
        "UPDATE target SET a = s.a, t = s.t FROM source s WHERE s.id = 41 - target.id AND target.id IN (20, 21)",
    )
    outcome = run(form_of(pair, strategy=strategy, key=["id"]))
    assert (outcome.records, outcome.sidecar["strategy"]) == (2, strategy)


@pytest.mark.parametrize("strategy", ["fingerprint", "fast"])
@pytest.mark.parametrize(
    "members",
    [
        {"filter": "a <> 3"},
        {"filter": {"source": "t <> 'text 10'"}},
        {"detail": "counts"},
        {"key_range": {"from": [5], "to": [1200]}},
        {"shards": {"bounds": [[10], [11], [699]]}},
        {"recheck": {"attempts": 1}},
        {"columns": {"exclude": ["a"]}},
        {"keys": {"nulls": "match", "duplicates": "set_aside"}},
    ],
    ids=["filter", "filter of one side", "counts", "key range", "bounds", "recheck", "exclude", "policies"],
)
def test_the_manifest_is_that_of_a_stream_under_every_member(pair, members, strategy):
    """Counts of skipped rows, ranges and later looks are the same whether rows were read or counted by the engine."""
    whole = members.get("shards")
    expected = run(form_of(pair, strategy="stream", **members), shards=None if whole else 1)
    found = run(form_of(pair, strategy=strategy, **members), shards=None if whole else 3)
    assert found.receipt.manifest == expected.receipt.manifest
    assert found.sidecar["strategy"] == strategy


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"rules": {"t": [{"normalize": ["casefold"]}]}}, "column t has rules"),
        ({"key": ["t"]}, "neither side declares the key as its primary key"),
    ],
    ids=["rule", "other key"],
)
def test_what_a_fingerprint_cannot_say_is_streamed_with_its_reason(pair, members, reason):
    """Nobody gets another strategy than asked for without being told."""
    outcome = run(form_of(pair, **members))
    assert (outcome.sidecar["strategy"], outcome.sidecar["strategy_asked"]) == ("stream", "fingerprint")
    assert reason in outcome.sidecar["strategy_reason"]
    assert outcome.receipt.manifest == run(form_of(pair, strategy="stream", **members)).receipt.manifest


def test_a_side_that_takes_no_fingerprints_is_streamed(tmp_path, pair):
    """SQLite and files have no digest of their own."""
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("CREATE TABLE source (id INTEGER PRIMARY KEY, a INTEGER, t TEXT)")
    connection.close()
    outcome = run(form_of(pair, source={"uri": f"sqlite:///{tmp_path / 's.db'}", "table": "source"}))
    assert outcome.sidecar["strategy_reason"] == "source: sqlite takes no fingerprints"
    assert outcome.records == ROWS


def test_a_repeated_or_null_key_of_a_side_without_a_primary_key_is_refused_as_in_a_stream(pair):
    """One side's primary key vouches for the other: a bucket that holds the same rows holds no key twice."""
    changed(
        pair,
        "CREATE OR REPLACE TABLE target AS SELECT * FROM source",
    )
    assert run(form_of(pair, key=["id"])).sidecar["strategy"] == "fingerprint"
    changed(pair, "INSERT INTO target SELECT * FROM source WHERE id = 900")
    with pytest.raises(KeyDuplicateError, match=r"target: key 900 occurs in 2 rows"):
        run(form_of(pair, key=["id"]))
    changed(pair, "DELETE FROM target WHERE id = 900", "INSERT INTO target VALUES (NULL, 1, 'x')")
    with pytest.raises(KeyNullError, match=r"0 rows of the source and 1 row of the target"):
        run(form_of(pair, key=["id"]))


def test_a_table_with_inheritance_children_has_no_key_of_its_own(postgresql_database):
    """PostgreSQL keeps a primary key over the parent's own rows only, and a read also gives those of its children."""
    with psycopg.connect(postgresql_database, autocommit=True) as connection:
        for table in ("source", "target"):
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
            connection.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
            connection.execute(f"CREATE TABLE {table}_more (v2 int) INHERITS ({table})")
            connection.execute(f"INSERT INTO {table}_more VALUES (1, 'a', 1)")
    sides = {name: {"uri": postgresql_database, "table": name} for name in ("source", "target")}
    with pytest.raises(KeyDuplicateError, match=r"key 1 occurs in 2 rows"):
        run({"name": "heirs", "strategy": "fingerprint", **sides})


def test_engines_that_do_not_agree_on_one_text_are_streamed(pair):
    """A server that has no MD5, or another one, says so before anything depends on it."""
    with patch.object(SqlSide, "canary", lambda self, function: (1, 2)):
        outcome = run(form_of(pair))
    assert outcome.sidecar["strategy_reason"] == "the sides do not agree on the MD5 of one text"


def test_a_shard_in_which_most_rows_differ_is_read_whole(pair):
    """Many small reads would cost more than one; the manifest is the same."""
    changed(pair, "UPDATE target SET a = a + 1")
    outcome = run(form_of(pair))
    assert outcome.records == ROWS + 1
    assert outcome.receipt.manifest == run(form_of(pair, strategy="stream")).receipt.manifest


def test_keys_that_a_live_table_gained_at_its_ends_fall_into_the_outer_buckets():
    """They came after the ends were asked for; a read of these buckets must find what the fingerprint counted."""
    buckets = Buckets((), "", count=4, base=100, width=10)
    assert merged_ranges(Buckets((), "", 4, 100, 10, chosen=(0, 1, 3))) == [(None, 120), (130, None)]
    assert merged_ranges(Buckets((), "", 4, 100, 10, chosen=(0, 1, 2, 3))) == [(None, None)]
    assert merged_ranges(buckets) == []


def test_the_steps_of_a_dag_narrow_too_and_say_so(pair):
    """Airflow's tasks share nothing but the store; the strategy of each shard comes with its note."""
    spec = parse_spec(form_of(pair, strategy="fast"))
    store = MemoryStore()
    work = Work(store, run_slot("dag", "run", "merge", -1))
    planned = steps.plan(spec, work, open_side, shards=3)
    built = []
    for shard in planned.shards:
        compared = steps.compare(shard, work, open_side)
        built.append(steps.build(shard, compared.digest, work).digest)
    published = steps.merge(planned.shards, built, work, slot_hex=run_slot("dag", "run", "merge", -1))
    assert published.manifest == run(form_of(pair, strategy="stream")).receipt.manifest
    log_entries = log.read_log(store, next(iter(log.list_pairs(store))))
    ((_, sidecar),) = sidecars_of(store, log_entries, published.manifest)
    assert (sidecar["strategy"], sidecar["strategy_asked"]) == ("fast", "fast")
    assert sidecar["verdict"]["kind"] == "probabilistic"


def test_the_command_line_calls_a_fast_verdict_probabilistic(pair, tmp_path, capsys):
    """Who reads the verdict must know what it rests on, in the text and in --json."""
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(form_of(pair, strategy="fast")))
    arguments = ["run", str(tmp_path / "spec.yaml"), "--store", str(tmp_path / "store")]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "strategy: fast, asked for fast, 4 of 63 buckets read" in shown
    assert "verdict   5 records differ, probabilistic" in shown
    assert main([*arguments, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == {"bound": narrow.FAST_BOUND, "kind": "probabilistic"}
    assert found["buckets"] == {"compared": 63, "read": 4}


def test_check_says_beforehand_what_will_be_taken(pair, tmp_path, capsys):
    """A run of hours should not be the first to say that everything is read."""
    for members, line in (
        ({}, "fast, asked for fast"),
        ({"key": ["t"]}, "stream, asked for fast: neither side declares"),
    ):
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(form_of(pair, strategy="fast", **members)))
        assert main(["check", str(tmp_path / "spec.yaml")]) == 0
        assert f"  strategy: {line}" in capsys.readouterr().out


def test_the_page_calls_a_verdict_probabilistic_until_a_run_proves_it(pair, tmp_path, capsys):
    """The same manifest by a stream is a proof, whichever run came first."""
    store = ["--store", str(tmp_path / "store")]
    words = "This verdict is probabilistic (strategy fast)."
    for strategy, probable in (("fast", True), ("stream", False)):
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(form_of(pair, strategy=strategy)))
        assert main(["run", str(tmp_path / "spec.yaml"), *store, "--json"]) == 1
        manifest = json.loads(capsys.readouterr().out)["manifest"]
        assert main(["export", manifest, *store, "--to", "html"]) == 0
        assert (words in capsys.readouterr().out) == probable


def test_lost_facts_never_make_a_verdict_look_proved():
    """A shard whose notes are gone rests on what was asked for, and many pieces on the weakest of them."""
    assert narrow.strategy_form("fast", [])["verdict"]["kind"] == "probabilistic"
    assert narrow.strategy_form("fast", [{"strategy": "stream"}, {}])["strategy"] == "fast"
    assert narrow.strategy_form("auto", [{}])["strategy"] == "fingerprint"
    pieces = [
        {"strategy": "fingerprint", "strategy_reason": "", "buckets": 4, "buckets_read": 1},
        {"strategy": "stream", "strategy_reason": "a key is NULL"},
    ]
    assert narrow.strategy_form("fingerprint", [narrow.united_facts(pieces)]) == {
        "strategy": "fingerprint",
        "strategy_asked": "fingerprint",
        "strategy_reason": "a key is NULL",
        "buckets": {"compared": 4, "read": 1},
    }
