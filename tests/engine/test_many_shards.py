"""Many shards over tables that are nowhere: what a plan, its comparisons and its merge cost follows shards and records alone."""

from __future__ import annotations

import resource
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from simulated import Simulated

from airflow_delta_provider.adapters.fingerprints import Fingerprinting
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs, open_store
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.core.verify_store import VERIFIED, verify_published
from airflow_delta_provider.engine import run as one_process
from airflow_delta_provider.engine import steps
from airflow_delta_provider.engine.work import Work

SLOT = run_slot("dag", "run", "merge", -1)
SHARD_BUCKETS = 64
RECORDS = 50


@pytest.fixture(autouse=True)
def no_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is not the disk."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@dataclass(frozen=True)
class Made:
    """What a run over simulated tables made, and what it cost."""

    manifest: documents.Document
    findings: int
    seconds: dict[str, float]
    merge_peak_bytes: int


def run(folder: Path, *, rows: int, shards: int, tasks: int, records: int = RECORDS) -> Made:
    """Plan, compare, build, merge and verify; ``tasks`` mapped tasks take several shards each."""
    assert isinstance(Simulated(1, 1), Fingerprinting), (
        "a twin that takes no fingerprints would be streamed, row by row"
    )
    estimate = shards * 32 * SHARD_BUCKETS
    sides = {"source": Simulated(rows, estimate), "target": Simulated(rows, estimate, rows // records)}
    spec = parse_spec(
        {
            "name": "huge",
            "source": {"path": "source"},
            "target": {"path": "target"},
            "key": ["id"],
            "strategy": "fingerprint",
        }
    )

    def open_side(asked: Any) -> Any:
        return sides[str(asked.path)]

    store, seconds = open_store(str(folder)), {}
    work = Work(store, SLOT)
    started = time.monotonic()

    def lap(name: str) -> None:
        nonlocal started
        seconds[name] = round(time.monotonic() - started, 2)
        started = time.monotonic()

    planned = steps.plan(spec, work, open_side, shards=shards, shards_max=tasks).shards
    lap("plan")
    compared = [steps.compare(shard, work, open_side).digest for shard in planned]
    lap("compare")
    parts = [steps.build(shard, digest, work).digest for shard, digest in zip(planned, compared, strict=True)]
    lap("build")
    tracemalloc.start()
    found = steps.merge(planned, parts, work, slot_hex=SLOT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    lap("merge")
    check, _ = verify_published(store, found.manifest)
    lap("verify")
    assert len(planned) == tasks
    assert check.verdict == VERIFIED or not check.findings
    return Made(documents.parse_manifest(blobs.get_blob(store, found.manifest)), len(check.findings), seconds, peak)


def test_a_thousand_shards_of_many_rows_are_planned_merged_and_verified(tmp_path):
    """Ten billion rows are accounted for one by one, and each of the fifty records is found."""
    made = run(tmp_path / "a", rows=10**10, shards=1000, tasks=50)
    population = made.manifest["population"]
    assert (population["source"]["rows"], population["target"]["rows"]) == (10**10, 10**10)
    assert population["unchanged"] == 10**10 - RECORDS
    assert made.manifest["categories"]["value_diverged"]["records"] == RECORDS
    assert made.findings == 0
    assert made.merge_peak_bytes < 80 * 2**20


def test_shards_and_tasks_change_no_byte_of_the_manifest(tmp_path):
    """One task of one shard says what sixty shards in nine tasks say."""
    whole = run(tmp_path / "a", rows=10**5, shards=1, tasks=1, records=20)
    cut = run(tmp_path / "b", rows=10**5, shards=60, tasks=9, records=20)
    assert whole.manifest == cut.manifest


def test_a_finished_shard_holds_little_until_the_last_one_has_ended(monkeypatch):
    """One process keeps what a hundred thousand shards found; as it was encoded that took twice the memory."""
    held: dict[int, int] = {}
    compare_all = one_process._compare_all

    def watched(opened: Any, ranges: Any, *rest: Any) -> Any:
        before = tracemalloc.get_traced_memory()[0]
        found = compare_all(opened, ranges, *rest)
        held[len(ranges)] = tracemalloc.get_traced_memory()[0] - before
        return found

    monkeypatch.setattr(one_process, "_compare_all", watched)
    tracemalloc.start()
    for shards in (20, 120):
        sides = {name: Simulated(10**8, shards * 32 * SHARD_BUCKETS) for name in ("source", "target")}
        spec = parse_spec(
            {"name": "huge", **{name: {"path": name} for name in sides}, "key": ["id"], "strategy": "fingerprint"}
        )
        one_process.reconcile(spec, MemoryStore(), lambda asked: sides[str(asked.path)], shards=shards)  # noqa: B023
    tracemalloc.stop()
    assert (held[120] - held[20]) / 100 < 8_000


@pytest.mark.nightly
def test_a_hundred_thousand_shards_cost_what_shards_and_records_cost(tmp_path):
    """10^11 rows in 100,000 shards on 1,000 tasks; a hundredth of the rows in as many shards costs the same."""
    few = run(tmp_path / "few", rows=10**9, shards=2000, tasks=20, records=20)
    many = run(tmp_path / "many", rows=10**11, shards=2000, tasks=20, records=20)
    assert many.seconds["merge"] < 3 * few.seconds["merge"] + 1
    assert many.merge_peak_bytes < 1.5 * few.merge_peak_bytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = run(tmp_path / "all", rows=10**11, shards=100_000, tasks=1000, records=1000)
    assert made.manifest["population"]["source"]["rows"] == 10**11
    assert made.manifest["categories"]["value_diverged"]["records"] == 1000
    assert made.findings == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 * 1024
    print(made.seconds, made.merge_peak_bytes)
