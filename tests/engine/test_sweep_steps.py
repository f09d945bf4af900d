"""Sweeps in steps: the same digests as in one go, repeated steps, holes, and parts of other plans."""

import pytest
from memory_side import MemorySide, typed
from sweep_oracle import kinds

from airflow_delta_provider.core.errors import (
    GenerationChainError,
    InputShardError,
    LimitError,
    MergeContextError,
    MergeGapError,
    RecordLimitError,
    SideChangedError,
    WallLimitError,
)
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine import sweep_steps
from airflow_delta_provider.engine.sweep import sweep
from airflow_delta_provider.engine.work import Work

KINDS = typed(k="int", v="text")
FORM = {"name": "stock", "target": {"path": "twin"}, "key": ["k"]}
BEFORE = [(str(number), "a") for number in range(40)]
AFTER = [(str(number), "b" if number % 10 == 0 else "a") for number in range(2, 50)]


def opener(rows, kinds_of=KINDS):
    return lambda _: MemorySide(kinds_of, rows)


def started():
    store = MemoryStore()
    sweep(parse_spec(FORM, sweep=True), store, opener(BEFORE))
    return store


def work_of(store, run="a"):
    return Work(store, run * 64)


def planned(work, form=None, count=4, **options):
    return sweep_steps.plan(parse_spec(form or FORM, sweep=True), work, opener(AFTER), shards=count, **options)


def swept(work, shards, rows=AFTER):
    return [sweep_steps.sweep_one(shard, work, opener(rows)).digest for shard in shards]


def test_steps_give_what_one_go_gives():
    """Whatever the order in which shards are swept and handed over; nothing of the work is left but the plan."""
    expected = sweep(parse_spec(FORM, sweep=True), started(), opener(AFTER)).receipt
    store = started()
    work = work_of(store)
    shards = planned(work)
    parts = swept(work, shards[::-1])
    published = sweep_steps.merge(shards[::-1], parts, work, facts={"run": "x"})
    assert (published.manifest, published.generation) == (expected.manifest, expected.generation)
    assert kinds(store, expected.pair_id) == ["sidecar", "manifest", "generation"] * 2
    left = [path for path in store.list() if path.startswith("work/")]
    assert len(left) == len(shards) + 2


def test_repeated_steps_give_the_same_digests():
    """A retry on another machine finds what the first try left."""
    store = started()
    work = work_of(store)
    shards = planned(work)
    assert planned(work) == shards
    parts = swept(work, shards)
    assert swept(work, shards) == parts
    first = sweep_steps.merge(shards, parts, work)
    again = sweep_steps.merge(shards, parts, work)
    assert (again.manifest, again.generation, again.receipt) == (first.manifest, first.generation, None)


def test_steps_that_run_after_the_sweep_was_published_start_from_the_pinned_predecessor():
    """A shard that is swept once more never takes the new generation for its predecessor."""
    store = started()
    work = work_of(store)
    shards = planned(work)
    parts = swept(work, shards)
    first = sweep_steps.merge(shards, parts, work)
    assert swept(work, shards) == parts
    again = sweep_steps.merge(shards, parts, work)
    assert (again.generation, again.receipt.reused) == (first.generation, True)


def test_of_two_planned_sweeps_one_is_published():
    """Both pinned the same predecessor; the later one is refused at the end, and its retry too."""
    store = started()
    one, other = work_of(store), work_of(store, "b")
    first, second = planned(one), planned(other)
    sweep_steps.merge(first, swept(one, first), one)
    parts = swept(other, second, BEFORE)
    for _ in range(2):
        with pytest.raises(GenerationChainError, match=r"\[DELTA_GENERATION_CHAIN\]"):
            sweep_steps.merge(second, parts, other)


def test_a_shard_that_was_not_swept_refuses_the_merge():
    """A hole is named; nothing is published."""
    work = work_of(started())
    shards = planned(work)
    parts = swept(work, shards)
    with pytest.raises(MergeGapError, match=r"1 of 4 shards were not swept: 2 \["):
        sweep_steps.merge(shards, [parts[0], *parts[2:]], work)
    with pytest.raises(MergeGapError, match="1 of 4 shards of the plan were not handed over"):
        sweep_steps.merge(shards[1:], parts, work)
    with pytest.raises(MergeContextError, match="nothing to merge"):
        sweep_steps.merge([], [], work)


def test_parts_of_another_plan_are_refused():
    """Their ranges are others."""
    work = work_of(started())
    shards, others = planned(work), planned(work, count=2)
    parts, strange = swept(work, shards), swept(work, others)
    with pytest.raises(MergeContextError, match="of another plan"):
        sweep_steps.merge(shards, [*parts, strange[0]], work)
    with pytest.raises(MergeContextError, match="of different plans"):
        sweep_steps.merge([*shards, *others], parts, work)
    with pytest.raises(InputShardError, match=r"\[DELTA_INPUT_SHARD\]"):
        sweep_steps.sweep_one(parts[0], work, opener(AFTER))


def test_a_side_that_changed_its_columns_after_the_plan_is_refused():
    """Its shards would not go together."""
    work = work_of(MemoryStore())
    shards = planned(work)
    wider = {**KINDS, "w": KINDS["v"]}
    with pytest.raises(SideChangedError, match=r"\[DELTA_SIDE_CHANGED\]"):
        sweep_steps.sweep_one(shards[0], work, opener([(*row, "x") for row in AFTER], wider))


def test_limits_hold_over_all_steps():
    """Seconds count from the plan on, records over all shards, shards by what Airflow can map."""
    work = work_of(started())
    with pytest.raises(LimitError, match="the plan has 4 shards, 2 are possible"):
        planned(work, shards_max=2)
    shards = planned(work, {**FORM, "limits": {"max_discrepancies": 14}})
    parts = swept(work, shards)
    with pytest.raises(RecordLimitError, match="more than 14 records differ"):
        sweep_steps.merge(shards, parts, work)
    late = planned(work, {**FORM, "limits": {"max_seconds": 60}}, clock=lambda: 1000.0)
    with pytest.raises(WallLimitError, match="more than 60 s ago"):
        sweep_steps.sweep_one(late[0], work, opener(AFTER), clock=lambda: 1061.0)
