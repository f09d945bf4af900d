"""What a try of a run has finished is not computed again: counted by the questions that the sides are asked."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from airflow_delta_provider.adapters import open as adapters
from airflow_delta_provider.core.errors import ConnectError
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.engine import steps
from airflow_delta_provider.engine.resume import Results
from airflow_delta_provider.engine.work import Work, read_shards

SLOT = run_slot("dag", "run", "merge", -1)


class Counted:
    """Opens sides, counts how often, and loses the connection at the given reads."""

    def __init__(self, *lost: int) -> None:
        self.opened = 0
        self.reads = 0
        self.lost = lost

    def __call__(self, spec: Any) -> Any:
        self.opened += 1
        side = adapters.open_side(spec)
        read = side.read

        def counted(request: Any) -> Any:
            self.reads += 1
            if self.reads in self.lost:
                raise ConnectError("the connection was cut.")
            return read(request)

        side.read = counted  # type: ignore[method-assign]
        return side


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Two tables of 60 rows that differ in 6, cut into six pieces."""
    for name, changed in (("old", 0), ("new", 1)):
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
            rows = [(number, number + changed * (number % 10 == 0)) for number in range(60)]
            connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        connection.close()
    sides = {
        name: {"uri": f"sqlite:///{tmp_path}/{file}.db", "table": "orders", "label": file}
        for name, file in (("source", "old"), ("target", "new"))
    }
    bounds = [[number] for number in range(10, 60, 10)]
    return parse_spec({"name": "orders", **sides, "key": ["id"], "shards": {"bounds": bounds}})


def run(spec: Spec, work: Work, open_side: Any, **options: Any) -> tuple[list[str], list[str], str]:
    planned = steps.plan(spec, work, open_side, shards_max=2, **options).shards
    parts = [steps.build(shard, steps.compare(shard, work, open_side).digest, work).digest for shard in planned]
    return planned, parts, steps.merge(planned, parts, work, slot_hex=SLOT, **options).manifest


def test_a_retry_keeps_the_pieces_that_were_finished(spec):
    """A connection is lost in the third piece of the first shard: two are not read again."""
    work, sides = Work(MemoryStore(), SLOT), Counted(5)
    first, _ = steps.plan(spec, work, sides, shards_max=2).shards
    assert len(read_shards(work, [first])[0].pieces) == 3
    with pytest.raises(ConnectError):
        steps.compare(first, work, sides)
    sides.reads, sides.lost = 0, ()
    compared = steps.compare(first, work, sides)
    assert (compared.reused, compared.records, sides.reads) == (2, 3, 2)
    assert compared.population["source"]["rows"] == 30


def test_a_cleared_run_that_was_published_asks_no_side(spec):
    """Under ``reuse``, every task of the run returns its digest again, whatever the tables hold by now."""
    work, sides = Work(MemoryStore(), SLOT), Counted()
    first = run(spec, work, sides)
    sides.opened = sides.reads = 0
    assert run(spec, work, sides) == first
    assert (sides.opened, sides.reads) == (0, 0)
    assert steps.compare(first[0][0], work, sides).population["target"]["rows"] == 30


def test_recompute_compares_a_published_run_anew(spec):
    """Who asked for it gets every row read again: one read of each side for each of six pieces."""
    work, sides = Work(MemoryStore(), SLOT), Counted()
    first = run(spec, work, sides, on_rerun="recompute")
    assert sides.reads == 12
    assert run(spec, work, sides, on_rerun="recompute") == first
    assert sides.reads == 24


def test_another_specification_is_planned_and_compared_anew(spec):
    """A Dag that was changed before it was cleared does not get what the old one found."""
    work, sides = Work(MemoryStore(), SLOT), Counted()
    run(spec, work, sides)
    sides.reads = 0
    changed = parse_spec({**spec.form, "detail": "keys"})
    planned = steps.plan(changed, work, sides, shards_max=2).shards
    assert [steps.compare(shard, work, sides).reused for shard in planned] == [0, 0]
    assert sides.reads == 12


def test_a_comparison_whose_bytes_are_gone_is_made_again(spec):
    """The work folder may be swept by a lifecycle rule; a result without its artifact counts for nothing."""
    work, sides = Work(MemoryStore(), SLOT), Counted()
    first, _ = steps.plan(spec, work, sides, shards_max=6).shards[:2]
    digest = steps.compare(first, work, sides).digest
    work.store.remove_work(layout.work_path(SLOT, digest))
    again = steps.compare(first, work, sides)
    assert (again.digest, again.reused) == (digest, 0)
    assert steps.build(first, digest, work).records == 1


def test_a_task_of_several_pieces_keeps_the_facts_of_its_sides_once(spec):
    """They name every file of both sides; each of a hundred pieces would store thousands of them anew."""
    work = Work(MemoryStore(), SLOT)
    (planned,) = steps.plan(spec, work, adapters.open_side, shards=3, shards_max=1).shards
    steps.compare(planned, work, adapters.open_side)
    (shard,) = read_shards(work, [planned])
    kept = [Results(work).of_comparison(planned, shard.plan.digest, number) for number in range(3)]
    assert [[side["side"] for side in one["sides"]] for one in kept if one] == [["source", "target"], [], []]
    whole = Results(work).of_comparison(planned, shard.plan.digest)
    assert whole is not None
    assert [side["side"] for side in whole["sides"]] == ["source", "target"]
