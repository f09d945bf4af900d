"""A run is a guest of the servers it reads: held to a pace, made to wait, and kept from sorts nobody allowed."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import servers
from memory_side import MemorySide, opener, spec_form, typed
from servers import SLOW

from airflow_delta_provider.adapters.load import Explained, Load
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Request
from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import SideReadError, SideSortError, SpecValueError, TooDifferentError
from airflow_delta_provider.core.manners import Manners, manners_of
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.engine import manners, steps
from airflow_delta_provider.engine.named import NamedSide
from airflow_delta_provider.engine.opened import open_sides
from airflow_delta_provider.engine.paced import paced
from airflow_delta_provider.engine.run import reconcile
from airflow_delta_provider.engine.work import Work

PATIENCE_S = 30
SLEEPS = {"postgresql": "SELECT pg_sleep(%d)", "mysql": "SELECT SLEEP(%d)"}


def kind_of(uri: str) -> str:
    return urlsplit(uri).scheme.partition("+")[0]


def execute(uri: str, *statements: str) -> None:
    """Run statements on a server, over a connection of somebody else."""
    if kind_of(uri) == "postgresql":
        import psycopg

        with psycopg.connect(uri, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    connection = servers.mysql_connection(uri)
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.commit()
    finally:
        connection.close()


@contextmanager
def somebody_else(uri: str, seconds: int) -> Iterator[None]:
    """Let another session run a statement for some seconds, and wait until the server knows of it."""
    thread = threading.Thread(target=execute, args=(uri, SLEEPS[kind_of(uri)] % seconds), daemon=True)
    with open_side_of(uri, "SELECT 1 AS id") as side:
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while not side.load().sessions:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield
    thread.join(PATIENCE_S)


def open_side_of(uri: str, query: str) -> Any:
    from airflow_delta_provider.core.spec import SideSpec

    return open_side(SideSpec(uri=uri, query=query))


def pair_of(source: str, target: str, **members: Any) -> Any:
    sides = {
        name: {"uri": uri, "query": "SELECT 1 AS id", "label": name}
        for name, uri in (("source", source), ("target", target))
    }
    return parse_spec({"name": "pair", **sides, "key": ["id"], **members})


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_paced_read_takes_the_seconds_that_its_rows_ask_for():
    """A thousand rows at two hundred a second are five seconds, however they are cut."""
    side, clock = MemorySide(typed(id="int"), [(str(number),) for number in range(1000)], batch_rows=100), Clock()
    batches = paced(side.read(Request(("id",))), 200, clock=clock, sleep=clock.sleep)
    assert sum(batch.num_rows for batch in batches) == 1000
    assert clock.now == 5.0


def test_a_side_with_a_pace_is_read_in_batches_that_can_be_ended_soon():
    """A batch of sixty thousand rows at a thousand a second could not be cancelled for a minute."""
    side = MemorySide(typed(id="int"), [("1",)])
    list(NamedSide("source", side, rows_per_second=1000).read(Request(("id",))))
    assert side.requests[0].batch_rows == 500


def test_processes_share_what_a_second_may_hold():
    """The ceiling is the side's, not the process's."""
    form = {"name": "x", "manners": {"source": {"rows_per_second": 1000, "sessions": 5}, "target": {"sessions": 1}}}
    assert manners.divided(form, 4)["manners"] == {
        "source": {"rows_per_second": 250, "sessions": 5},
        "target": {"sessions": 1},
    }
    assert manners.divided({"name": "x"}, 4) == {"name": "x"}


def test_a_pace_is_kept_by_streaming(postgresql_database):
    """A digest that the engine computes reads as fast as it can, so it is not taken, and the reason is said."""
    execute(postgresql_database, "CREATE TABLE t (id bigint PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sides = {name: {"uri": postgresql_database, "table": "t", "label": name} for name in ("source", "target")}
    spec = parse_spec(
        {"name": "pair", **sides, "strategy": "fingerprint", "manners": {"target": {"rows_per_second": 1000}}}
    )
    sidecar = reconcile(spec, MemoryStore(), open_side).sidecar
    assert sidecar["strategy"] == "stream"
    assert sidecar["strategy_reason"] == "target: the engine would keep no ceiling of rows per second"


def test_a_statement_timeout_in_the_specification_ends_a_read(server):
    """It holds for a connection of Airflow as well, whose address nobody writes."""
    asked = {"source": {"statement_timeout": "PT0.5S"}}
    spec = pair_of(server, server, manners=asked)
    spec = parse_spec({**spec.form, "source": {"uri": server, "query": SLOW[kind_of(server)], "label": "s"}})
    with pytest.raises(SideReadError, match="source:"):
        reconcile(spec, MemoryStore(), open_side)


def test_a_run_waits_while_others_are_busy_and_goes_on_by_itself(server):
    """Our own sessions do not count against us; both sides are closed while it waits."""
    spec, told = pair_of(server, server, manners={"source": {"sessions": 0}}), []
    with open_sides(spec, open_side) as opened, somebody_else(server, 2):
        _ = opened.source.columns
        manners.wait_until_quiet(opened, tell=told.append, sleep=lambda seconds: time.sleep(0.2))
        assert opened.source.inner._connection is None  # type: ignore[attr-defined]
        assert told == ["Waiting: source: 1 active sessions, 0 allowed", "Going on"]
        assert [batch.num_rows for batch in opened.source.read(Request(("id",)))] == [1]


class Lagging(MemorySide):
    """A server whose replica catches up look by look."""

    lags: tuple[float, ...] = (90.0, float("inf"), 29.0)

    def load(self) -> Load:
        lag, *rest = self.lags
        self.lags = (*rest,) or self.lags
        return Load(0, lag)

    def limit_statements(self, seconds: float) -> None:
        raise AssertionError

    def explained(self, request: Request) -> Explained | None:
        return None


def test_a_run_waits_for_a_replica_and_ends_with_its_time():
    """A stopped replica is later than any bound; the limit of seconds ends the wait."""
    sides = Lagging(typed(id="int"), [("1",)]), MemorySide(typed(id="int"), [("1",)])
    spec = parse_spec(spec_form(key=["id"], manners={"source": {"lag": "PT30S"}}))
    told: list[str] = []
    with open_sides(spec, opener(*sides)) as opened:
        manners.wait_until_quiet(opened, tell=told.append, sleep=lambda seconds: None)
    assert told == [
        "Waiting: source: replication is 90 s late, 30 s allowed",
        "Waiting: source: replication is inf s late, 30 s allowed",
        "Going on",
    ]

    def over() -> None:
        raise TimeoutError

    sides[0].lags = (90.0,)
    with open_sides(spec, opener(*sides)) as opened, pytest.raises(TimeoutError):
        manners.wait_until_quiet(opened, watch=over, sleep=lambda seconds: None)


def test_a_server_without_replication_is_not_late(server):
    """Zero is what a primary without replicas says, and what a bound of zero accepts."""
    with open_side_of(server, "SELECT 1 AS id") as side:
        assert side.load().lag_s == 0.0


@pytest.mark.parametrize("asked", [{"statement_timeout": "PT1M"}, {"sessions": 3}, {"lag": "PT1M"}])
def test_manners_that_a_side_cannot_keep_are_refused(tmp_path, asked):
    """Who asks for a bound must not believe that it holds where it does not."""
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n")
    sides = {name: {"path": str(path), "label": name} for name in ("source", "target")}
    spec = parse_spec({"name": "pair", **sides, "key": ["id"], "manners": {"source": asked}})
    with pytest.raises(SpecValueError, match="csv has neither statements nor sessions"):
        reconcile(spec, MemoryStore(), open_side)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    connection.close()
    database = {name: {"uri": f"sqlite:///{tmp_path}/a.db", "table": "t", "label": name} for name in sides}
    spec = parse_spec({"name": "pair", **database, "key": ["id"], "manners": {"source": asked}})
    with pytest.raises(SpecValueError, match=r"sqlite (has no statement timeout|tells neither sessions nor lag)"):
        reconcile(spec, MemoryStore(), open_side)


def test_a_sort_that_was_not_allowed_is_refused_before_the_first_row(server, monkeypatch):
    """Each shard of a key without index would scan the table and sort; with an index, or with leave, the plan is made."""
    rows = {"postgresql": "generate_series(1, 3000) AS g(seq)", "mysql": "seq_1_to_3000"}[kind_of(server)]
    for table, key in (("bare", ""), ("indexed", " PRIMARY KEY")):
        execute(
            server,
            f"CREATE TABLE {table} (id bigint NOT NULL{key}, v bigint)",
            f"INSERT INTO {table} SELECT seq, seq FROM {rows}",
            f"ANALYZE {'TABLE ' if kind_of(server) == 'mysql' else ''}{table}",
        )
    monkeypatch.setattr(manners, "SORTED_ROWS_MAX", 1000)

    def planned(table: str, **members: Any) -> int:
        sides = {name: {"uri": server, "table": table, "label": name} for name in ("source", "target")}
        spec = parse_spec({"name": "pair", **sides, "key": ["id"], **members})
        work = Work(MemoryStore(), run_slot("dag", "run", "merge", -1))
        return len(steps.plan(spec, work, open_side, shards=3).shards)

    assert planned("indexed") == 3
    with pytest.raises(
        SideSortError, match=r"source: table bare would be sorted by its engine, about \d+ rows at once"
    ):
        planned("bare")
    allowed = {name: {"sort": "allow"} for name in ("source", "target")}
    assert planned("bare", manners=allowed) == 3
    with pytest.raises(SideSortError, match="target:"):
        planned("bare", manners={"source": {"sort": "allow"}})


def test_check_says_what_the_engine_would_scan(postgresql_database, tmp_path: Path, capsys):
    """Before a row is read: how many rows, how many bytes."""
    from airflow_delta_provider.cli import main

    execute(
        postgresql_database,
        "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)",
        "INSERT INTO t SELECT g, g FROM generate_series(1, 1000) AS g",
        "ANALYZE t",
    )
    sides = {name: {"uri": postgresql_database, "table": "t", "label": name} for name in ("source", "target")}
    (tmp_path / "pair.yaml").write_text(json.dumps({"name": "pair", **sides}))
    assert main(["check", str(tmp_path / "pair.yaml"), "--json"]) == 0
    scan = json.loads(capsys.readouterr().out)["sides"]["source"]["scan"]
    assert scan == {"bytes": 16000, "rows": 1000, "sorted_rows": 0}
    assert main(["check", str(tmp_path / "pair.yaml")]) == 0
    assert "source: the engine would scan 1000 rows, about 16000 bytes" in capsys.readouterr().out


def twins(differ: int, rows: int = 1000, estimate: int | None = None) -> Any:
    """Return two tables in memory of which so many rows differ, from the first on."""
    one = MemorySide(
        typed(id="int", v="int"), [(str(number), "0") for number in range(rows)], estimate=estimate, batch_rows=50
    )
    other = MemorySide(
        typed(id="int", v="int"), [(str(number), str(int(number < differ))) for number in range(rows)], batch_rows=50
    )
    return one, other


def test_sides_that_are_too_different_end_the_run_early_and_say_so():
    """The second of twenty batches already has more than the whole may have; nothing is published."""
    one, other = twins(differ=1000)
    batches: list[int] = []
    one.before_batch = batches.append
    store, spec = MemoryStore(), parse_spec(spec_form(key=["id"], limits={"max_share": "3%"}))
    with pytest.raises(
        TooDifferentError, match=r"more than 60 records differ, and no more than 3.0000% of the rows may"
    ):
        reconcile(spec, store, opener(one, other))
    assert len(batches) < 8
    assert not log.list_pairs(store)


@pytest.mark.parametrize(("differ", "refused"), [(30, False), (31, True)], ids=["at the share", "beyond it"])
def test_the_whole_verdict_is_held_to_the_share_exactly(differ, refused):
    """What an estimate cannot say while rows are read, the count says at the end."""
    spec = parse_spec(spec_form(key=["id"], limits={"max_share": "3%"}))
    if refused:
        with pytest.raises(TooDifferentError, match=r"31 of 1000 rows differ, more than 3.0000%"):
            reconcile(spec, MemoryStore(), opener(*twins(differ)))
    else:
        assert reconcile(spec, MemoryStore(), opener(*twins(differ))).records == 30


def test_a_crowd_in_one_shard_is_no_share_of_the_whole():
    """One lost partition in a hundred is one percent, though it is all of its shard."""
    spec = parse_spec(spec_form(key=["id"], limits={"max_share": "3%"}, shards={"bounds": [[20]]}))
    assert reconcile(spec, MemoryStore(), opener(*twins(20))).records == 20


def test_steps_hold_the_share_at_the_merge():
    """Shards that are each within their bound may be too many together."""
    spec = parse_spec(spec_form(key=["id"], limits={"max_share": "3%"}, shards={"bounds": [[20]]}))
    slot = run_slot("dag", "run", "merge", -1)
    work, sides = Work(MemoryStore(), slot), opener(*twins(50))
    planned = steps.plan(spec, work, sides).shards
    parts = [steps.build(shard, steps.compare(shard, work, sides).digest, work).digest for shard in planned]
    with pytest.raises(TooDifferentError):
        steps.merge(planned, parts, work, slot_hex=slot)


def test_manners_are_read_exactly():
    """Every member has its unit in its form."""
    form = {"rows_per_second": 5, "statement_timeout": "PT1M", "lag": "PT30S", "sessions": 7, "sort": "allow"}
    assert manners_of({"manners": {"source": form}}) == {"source": Manners(5, 60.0, 30.0, 7, "allow")}
    assert parse_spec(spec_form(limits={"max_share": "0.5%"})).limits.max_share == Fraction(1, 200)


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"manners": {"source": {"rows_per_second": 0}}}, "manners.source.rows_per_second"),
        ({"manners": {"source": {"statement_timeout": 5}}}, "manners.source.statement_timeout"),
        ({"manners": {"source": {"statement_timeout": "PT0S"}}}, "manners.source.statement_timeout"),
        ({"manners": {"target": {"lag": "30"}}}, "manners.target.lag"),
        ({"manners": {"target": {"sort": "maybe"}}}, "manners.target.sort"),
        ({"manners": {"target": 5}}, "manners.target"),
        ({"limits": {"max_share": 0.05}}, "limits.max_share"),
        ({"limits": {"max_share": "200%"}}, "limits.max_share"),
        ({"limits": {"max_share": "5"}}, "limits.max_share"),
    ],
)
def test_manners_that_mean_nothing_are_refused_by_name(members, where):
    """A bound that is misread is no bound."""
    with pytest.raises(SpecValueError) as caught:
        parse_spec(spec_form(**members))
    assert caught.value.where == where
