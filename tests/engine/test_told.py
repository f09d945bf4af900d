"""What the log of a task says of a shard that takes long, and the sidecar of where the time went."""

from __future__ import annotations

from typing import Any

from memory_side import MemorySide, opener, spec_form, typed

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.engine import steps
from airflow_delta_provider.engine.work import Work

SLOT = run_slot("dag", "run", "merge", -1)


class Clock:
    """A clock that goes on by a second with every look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def run(rows: int) -> tuple[list[str], Any]:
    """Run two pieces in one shard over two tables, and return what was told, and the sidecar."""
    table = [(str(number),) for number in range(rows)]
    sides = opener(*(MemorySide(typed(id="int"), table, batch_rows=rows // 20) for _ in range(2)))
    spec = parse_spec(spec_form(key=["id"], shards={"bounds": [[rows // 2]]}))
    work, told, clock = Work(MemoryStore(), SLOT), [], Clock()
    (shard,) = steps.plan(spec, work, sides, shards_max=1).shards
    part = steps.build(shard, steps.compare(shard, work, sides, clock=clock, tell=told.append).digest, work).digest
    steps.merge([shard], [part], work, slot_hex=SLOT, tell=told.append)
    (pair,) = log.list_pairs(work.store)
    notes = [entry.ref for entry in log.read_log(work.store, pair) if entry.kind == "sidecar"]
    return told, jsonc.loads(blobs.get_blob(work.store, notes[-1]))


def test_a_long_shard_says_how_far_it_is():
    """Rows so far on both sides, the share of what was estimated, and about how long it still takes."""
    told, _ = run(4000)
    assert len(told) >= 3
    first, last = told[0], told[-2]
    assert first.startswith("Shard 1 of 1, piece 1 of 2: ")
    assert last.startswith("Shard 1 of 1, piece 2 of 2: ")
    assert "% of about 8000, " in first
    assert first.endswith(" s left")


def test_the_merge_sums_up_and_the_sidecar_says_where_the_time_went():
    """Who wonders why a run took an hour looks at the parts before at the code."""
    told, sidecar = run(4000)
    assert told[-1].startswith("1 shards: 4000 source rows, 4000 target rows, 0 differ; read ")
    assert list(sidecar["profile"]) == ["compare", "encode", "merge", "read", "store"]
    assert sidecar["profile"]["compare"] > 1000
