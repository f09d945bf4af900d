"""A worker cut off from a database or from the store in mid-shard: it ends right in each case, no record twice, none lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import object_fake
import proxy as proxies
import psycopg
import pytest

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.objects import ObjectStorage
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine import steps
from airflow_delta_provider.engine.run import reconcile
from airflow_delta_provider.engine.work import Work

SLOT = run_slot("dag", "run", "merge", -1)
ROWS = 30_000
MID_SHARD_BYTES = 500_000
SHORT_S = 3
TWO_MINUTES_S = 120
RETRY_S = 0.5
GIVE_UP_S = 400
LENGTHS = [
    pytest.param(SHORT_S, id="for seconds"),
    pytest.param(TWO_MINUTES_S, id="for two minutes", marks=pytest.mark.nightly),
]
FAULTS = pytest.mark.parametrize("fault", ["drop", "stall"])


@pytest.fixture
def tables(postgresql_database: str) -> str:
    """A table and its copy, in which every hundredth amount differs and one row is missing."""
    with psycopg.connect(postgresql_database, autocommit=True) as connection:
        for name, extra in (("source", "0"), ("target", "CASE WHEN mod(g, 100) = 0 THEN 1 ELSE 0 END")):
            connection.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, amount bigint, note text)".encode())
            filled = f"INSERT INTO {name} SELECT g, g + {extra}, repeat('x', 100) FROM generate_series(1, {ROWS}) AS g"
            connection.execute(filled.encode())
        connection.execute("DELETE FROM target WHERE id = 7")
    return postgresql_database


def spec_of(source: str, target: str) -> Any:
    sides = {name: {"uri": uri, "table": name, "label": name} for name, uri in (("source", source), ("target", target))}
    bounds = [[ROWS // 3], [2 * ROWS // 3]]
    return parse_spec({"name": "orders", **sides, "key": ["id"], "shards": {"bounds": bounds}})


def through(uri: str, proxy: proxies.Proxy) -> str:
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}"))


@contextmanager
def cut(proxy: proxies.Proxy, fault: str, seconds: float, after_bytes: int) -> Iterator[None]:
    """Cut a line off for some seconds, each connection once it has carried so many bytes."""

    def heal() -> None:
        proxy.fault = None

    timer = threading.Timer(seconds, heal)
    proxy.fault, proxy.after_bytes = fault, after_bytes
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        heal()


class Tried:
    """Runs steps as Airflow does: again after a refusal that a retry may mend, never after another one."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def __call__(self, step: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            try:
                return step()
            except DeltaError as error:
                if not error.retryable or time.monotonic() > deadline:
                    raise
                self.failed.append(error.code)
                time.sleep(RETRY_S)


def run(spec: Any, work: Work, tried: Tried, during: Callable[[int], Any]) -> str:
    """Run all steps; ``during`` gives what holds while a shard of this number is compared and built."""
    planned = tried(lambda: steps.plan(spec, work, open_side)).shards
    parts = []
    for number, shard in enumerate(planned):
        with during(number):
            compared = tried(lambda shard=shard: steps.compare(shard, work, open_side))
            parts.append(tried(lambda shard=shard, compared=compared: steps.build(shard, compared.digest, work)).digest)
    return str(tried(lambda: steps.merge(planned, parts, work, slot_hex=SLOT)).manifest)


@contextmanager
def nothing() -> Iterator[None]:
    yield


def held(store: Any, manifest: str, spec: Any) -> None:
    """Hold what was published to a run that nothing disturbed: the same manifest, once, with all that it names."""
    undisturbed = reconcile(spec, MemoryStore(), open_side)
    assert undisturbed.records == ROWS // 100 + 1
    assert manifest == undisturbed.receipt.manifest
    (pair,) = log.list_pairs(store)
    assert [entry.ref for entry in log.read_log(store, pair) if entry.kind == "manifest"] == [manifest]
    assert not verify_published(store, manifest)[0].findings


@pytest.mark.parametrize("seconds", LENGTHS)
@FAULTS
def test_a_worker_that_loses_a_database_in_mid_shard_ends_right(tables, fault, seconds):
    """A broken connection costs a retry; a line that is only silent for a while costs the while."""
    tried, work = Tried(), Work(MemoryStore(), SLOT)
    with proxies.proxied(urlsplit(tables).port or 0) as proxy:
        spec = spec_of(through(tables, proxy), tables)
        started = time.monotonic()
        manifest = run(
            spec,
            work,
            tried,
            lambda number: cut(proxy, fault, seconds, MID_SHARD_BYTES) if number == 1 else nothing(),
        )
        took = time.monotonic() - started
    held(work.store, manifest, spec_of(tables, tables))
    if fault == "drop":
        assert set(tried.failed) <= {"DELTA_SIDE_READ", "DELTA_CONNECT"}
        assert tried.failed[0] == "DELTA_SIDE_READ"
    else:
        assert tried.failed == []
        assert took >= seconds


@pytest.mark.parametrize("seconds", LENGTHS)
@FAULTS
def test_a_worker_that_loses_the_store_in_mid_shard_ends_right(tables, fault, seconds):
    """What was compared and could not be stored is compared again; what was stored and not acknowledged is found."""
    tried = Tried()
    with object_fake.fake_storage() as fake, proxies.proxied(fake.port) as proxy:
        options = {**fake.s3_options, "endpoint": f"http://127.0.0.1:{proxy.port}"}
        work = Work(ObjectStorage("s3://bucket/deltas", options), SLOT)
        started = time.monotonic()
        manifest = run(
            spec_of(tables, tables),
            work,
            tried,
            lambda number: cut(proxy, fault, seconds, 0) if number == 1 else nothing(),
        )
        took = time.monotonic() - started
        held(work.store, manifest, spec_of(tables, tables))
    assert set(tried.failed) <= {"DELTA_STORE_READ", "DELTA_STORE_WRITE", "DELTA_CONNECT"}
    assert took >= seconds
