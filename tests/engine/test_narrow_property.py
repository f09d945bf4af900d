"""The manifest says nothing of the strategy: on random damaged pairs all three give the same bytes, on every engine pair."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import product

import narrowing
import psycopg
import pymysql
import pytest
import servers
from narrowing import Engine

from airflow_delta_provider.adapters.dialects.mysql_connect import _parameters

PAIRS = int(os.environ.get("DELTA_EXAMPLES", "27"))
LONG_PAIRS = 1000


@pytest.fixture(scope="module")
def engines(
    postgresql_server: servers.Server, mariadb_server: servers.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Engine]]:
    """One database on each engine that takes fingerprints."""
    postgresql, mariadb = postgresql_server.create_database(), mariadb_server.create_database()
    with (
        psycopg.connect(postgresql, autocommit=True) as first,
        pymysql.connect(**_parameters(mariadb), autocommit=True) as second,
    ):
        first.execute("SET TimeZone = 'UTC'")
        second.cursor().execute("SET time_zone = '+00:00'")
        yield {
            "postgresql": Engine("postgresql", postgresql, lambda: first),
            "mariadb": Engine("mariadb", mariadb, lambda: second),
            "duckdb": narrowing.duckdb_engine(tmp_path_factory.mktemp("duck") / "pair.duckdb"),
        }


def agree(engines: dict[str, Engine], seed: int) -> tuple[str, str]:
    """Run one random pair by all strategies and shard counts; return the strategies that fingerprint and fast took."""
    rng = random.Random(seed)
    combinations = list(product(engines, engines))
    source, target = combinations[seed % len(combinations)]
    number = rng.randrange(len(narrowing.KEYS))
    rows = narrowing.pair(number, rng)
    for side, name, content in zip(("source", "target"), (source, target), rows, strict=True):
        engines[name].fill(side, number, content)
    more = {"filter": "v0 <> 7"} if rng.random() < 0.3 else {}
    runs = [
        narrowing.run(engines[source], engines[target], number, strategy, shards, **more)
        for strategy, shards in (("stream", 1), ("fingerprint", 1), ("fingerprint", rng.choice([2, 5])), ("fast", 1))
    ]
    what = f"seed {seed}: {source} to {target}, key {narrowing.KEYS[number]}, {more}"
    assert not any(isinstance(each, str) for each in runs), f"{what}: {runs}"
    assert len({each.receipt.manifest for each in runs}) == 1, what
    assert runs[0].sidecar["strategy"] == "stream"
    return runs[1].sidecar["strategy"], runs[3].sidecar["strategy"]


def test_every_strategy_gives_the_same_manifest(engines):
    """Who chooses how rows are compared must not choose what is found; swaps and folds are among the damage."""
    taken = Counter(agree(engines, seed) for seed in range(PAIRS))
    assert {fingerprint for fingerprint, _ in taken} == {"fingerprint"}
    assert {fast for _, fast in taken} == {"fast", "fingerprint"}


@pytest.mark.nightly
def test_the_long_form_over_a_thousand_pairs(engines):
    """The same over many more pairs, other ones each night."""
    start = random.SystemRandom().randrange(10**6)
    for seed in range(start, start + LONG_PAIRS):
        agree(engines, seed)
