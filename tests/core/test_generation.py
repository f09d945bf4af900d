"""Generations: the table of steps, the worked sweeps, and chains of random sweeps under random plans."""

import itertools
import json
import random

import pytest
import sweeping
from sweeping import FIRST_ROWS as FIRST
from sweeping import SWEEP, Store, merge, sort_key, sweep

from airflow_delta_provider.core import generation, generations, packs
from airflow_delta_provider.core.errors import (
    CoverageMismatchError,
    GenerationChainError,
    GenerationContextError,
    GenerationContractError,
    GenerationLostError,
    MergeContextError,
    MergeGapError,
    PackDigestError,
    PackIndexError,
    PackLimitError,
    UnsortedStreamError,
)

SECOND = {
    "A1": ["5", "1.5"],
    "B2": ["8", "2"],
    "D4": ("failed", "DELTA_VALUE_RANGE"),
    "E5": ("filtered", 1),
    "F6": ["3", "0.5"],
    "G7": ["1", "1"],
}


def golden(name):
    return (SWEEP / name).read_bytes()


def check_golden(swept, stem):
    assert swept.header == golden(f"{stem}.generation.json")
    assert swept.manifest == golden(f"{stem}.manifest.json")
    assert swept.body == golden(f"{stem}.body.jsonl")
    assert swept.index == golden(f"{stem}.packs.jsonl")
    assert swept.packs == [golden(f"{stem}.pack0.jsonl")]


def test_the_worked_sweeps_come_out_byte_for_byte():
    """Two generations, six and seven entries, as S12 prints them."""
    store = Store()
    first = sweep(store, None, FIRST)
    check_golden(first, "sweep0")
    check_golden(sweep(store, first, SECOND), "sweep1")


def test_the_worked_sweep_in_two_shards_gives_the_same_header():
    """Cut at "D"; the packs are kept as they are, only their nodes are computed anew."""
    store = Store()
    first = sweep(store, None, FIRST)
    cut = sort_key("D")
    shards = [sweep(store, first, SECOND, (None, cut)), sweep(store, first, SECOND, (cut, None))]
    check_golden(shards[0], "sweep1.shard0")
    check_golden(shards[1], "sweep1.shard1")
    merged = merge(store, shards[::-1])
    assert merged.header == golden("sweep1.generation.json")
    assert merged.manifest == golden("sweep1.manifest.json")
    assert merged.index == golden("sweep1.merged.packs.jsonl")


def row_of(swept, name):
    line = next(line for data in swept.packs for line in data.splitlines() if f'["{name}"]'.encode() in line)
    return packs.parse_pack(line + b"\n")[0]


@pytest.mark.parametrize(
    ("row", "version", "kept"), [(["2", "9.99"], 2, False), (["1", "9.99"], 1, True)], ids=["another row", "old row"]
)
def test_a_key_that_returns_is_added_and_continues_its_version(row, version, kept):
    """C3 was absent: its history is not forgotten."""
    store = Store()
    second = sweep(store, sweep(store, None, FIRST), SECOND)
    third = sweep(store, second, {**SECOND, "C3": row})
    entry, before = row_of(third, "C3"), row_of(second, "C3")
    assert (entry.disposition, entry.version) == ("present", version)
    assert (entry.row_digest == before.row_digest) is kept
    assert entry.previous == (None if kept else before.row_digest)
    assert b'"category":"added"' in next(line for line in third.body.splitlines() if b'["C3"]' in line)


STEPS = [
    # before, seen, disposition, version, category, count
    (None, "row", "present", 1, "added", "new"),
    (None, "filtered", "skipped", 0, None, "skipped"),
    (None, "duplicate", "skipped", 0, None, "duplicate_key"),
    (None, "failed", "failed", 0, None, "failed"),
    (("present", 1), "same", "present", 1, None, "unchanged"),
    (("present", 1), "row", "present", 2, "value_diverged", "changed"),
    (("present", 1), "filtered", "skipped", 1, None, "skipped"),
    (("present", 1), "duplicate", "skipped", 1, None, "duplicate_key"),
    (("present", 1), "failed", "failed", 1, None, "failed"),
    (("present", 1), None, "absent", 1, "dropped", "absent"),
    (("skipped", 1), "same", "present", 1, None, "unchanged"),
    (("skipped", 1), "row", "present", 2, "value_diverged", "changed"),
    (("skipped", 1), None, "absent", 1, "dropped", "absent"),
    (("failed", 1), "same", "present", 1, None, "unchanged"),
    (("failed", 1), "row", "present", 2, "value_diverged", "changed"),
    (("failed", 1), None, "absent", 1, "dropped", "absent"),
    (("absent", 1), "same", "present", 1, "added", "new"),
    (("absent", 1), "row", "present", 2, "added", "new"),
    (("absent", 1), "filtered", "skipped", 1, None, "skipped"),
    (("absent", 1), None, "absent", 1, None, ""),
    (("skipped", 0), "row", "present", 1, "added", "new"),
    (("skipped", 0), None, "absent", 0, None, ""),
    (("failed", 0), "failed", "failed", 0, None, "failed"),
    (("absent", 0), "row", "present", 1, "added", "new"),
    (("absent", 0), None, "absent", 0, None, ""),
]


@pytest.mark.parametrize(("before", "sees", "disposition", "version", "category", "count"), STEPS, ids=str)
def test_every_row_of_the_table_of_steps(before, sees, disposition, version, category, count):
    """The table of S11, each row with each kind of entry before."""
    key, old, new = sort_key("A"), "aa" * 32, "bb" * 32
    entry = None
    if before is not None:
        reason = {"skipped": "DELTA_ROW_FILTERED", "failed": "DELTA_VALUE_RANGE"}.get(before[0])
        head = (before[1], old if before[1] else None, None)
        entry = generation.make_entry(key, before[0], head, b'["A"]', reason)
    looks = {
        "row": generation.Seen(key, generation.ROW, new, b"[]"),
        "same": generation.Seen(key, generation.ROW, old, b"[]"),
        "filtered": generation.Seen(key, generation.LEFT_OUT),
        "duplicate": generation.Seen(key, generation.REPEATED, rows=3),
        "failed": generation.Seen(key, generation.REFUSED, reason="DELTA_VALUE_RANGE"),
        None: None,
    }
    step = generation.take_step(entry, looks[sees], lambda _: b'["A"]')
    assert (step.entry.disposition, step.entry.version, step.counted) == (disposition, version, count)
    assert (step.change.category if step.change else None) == category
    assert step.entry.previous == (old if version == 2 else None)


def test_streams_that_do_not_ascend_are_refused():
    """A merge of unsorted streams would lose keys in silence."""
    rows = [generation.Seen(sort_key(name), generation.LEFT_OUT) for name in ("B", "A")]
    with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\] target"):
        list(generation.classify([], rows, sweeping.key_json, generation.Tally()))


def random_rows(rng, names):
    rows = {}
    for name in names:
        roll = rng.random()
        if roll < 0.15:
            continue
        if roll < 0.2:
            rows[name] = ("filtered", 1)
        elif roll < 0.25:
            rows[name] = ("duplicate", rng.randrange(2, 4))
        elif roll < 0.3:
            rows[name] = ("failed", "DELTA_VALUE_TEXT")
        else:
            rows[name] = [str(rng.randrange(3)), "1"]
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_of_random_sweeps_keeps_every_invariant_under_any_plan(seed):
    """Sums, history and merged bytes, with keys that come, go, repeat, fail and return."""
    from airflow_delta_provider.core.verify_generation import verify_generation

    rng = random.Random(seed)
    store, previous, ever = Store(), None, set()
    for number in range(17):
        names = [f"k{rng.randrange(60):02}" for _ in range(rng.randrange(40))]
        rows = random_rows(rng, set(names))
        whole = sweep(store, previous, rows)
        cuts = [None, *sorted({sort_key(f"k{rng.randrange(60):02}") for _ in range(rng.randrange(4))}), None]
        shards = [sweep(store, previous, rows, bounds) for bounds in itertools.pairwise(cuts)]
        rng.shuffle(shards)
        merged = merge(store, shards)
        assert (merged.header, merged.manifest, merged.body) == (whole.header, whole.manifest, whole.body)
        ever |= set(rows)
        document = whole.document
        assert (document["body"]["records"], document["generation"]) == (len(ever), number)
        before = None if previous is None else previous.indexed
        manifest = json.loads(whole.manifest)
        for indexed in (whole.indexed, merged.indexed):
            assert verify_generation(indexed, before, manifest, store)[1] == []
        previous = merged if rng.random() < 0.5 else whole


def test_packs_are_cut_at_their_limits(monkeypatch):
    """A reader holds one pack; where packs are cut is no part of any digest."""
    store = Store()
    whole = sweep(store, None, FIRST)
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 2)
    cut = sweep(store, None, FIRST)
    assert len(cut.packs) == 3
    assert cut.header == whole.header
    monkeypatch.setattr(packs, "PACK_BYTES_MAX", 200)
    assert len(sweep(store, None, FIRST).packs) == 6
    monkeypatch.setattr(packs, "PACK_BYTES_MAX", 100)
    with pytest.raises(PackLimitError, match=r"\[DELTA_PACK_LIMIT\]"):
        sweep(store, None, FIRST)


def test_only_the_packs_of_a_range_are_read(monkeypatch):
    """A shard reads its part of the predecessor, once."""
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 2)
    store = Store()
    first = sweep(store, None, FIRST)
    rows = packs.read_pack_index(first.index, first.document["body"])
    read = []

    def reader(digest):
        read.append(digest)
        return store.read(digest)

    found = list(packs.read_entries(rows, reader, (sort_key("B2"), sort_key("D4"))))
    assert [entry.key for entry in found] == [b'["B2"]', b'["C3"]']
    assert read == [rows[0].sha256, rows[1].sha256]


def test_a_pack_that_was_altered_is_refused():
    """By its digest; and an entry that is none by its layout."""
    store = Store()
    first = sweep(store, None, FIRST)
    row = packs.read_pack_index(first.index, first.document["body"])[0]
    with pytest.raises(PackDigestError, match=r"\[DELTA_PACK_DIGEST\]"):
        packs.read_pack(first.packs[0].replace(b"A1", b"A2"), row)
    with pytest.raises(GenerationContractError, match=r"\[DELTA_GENERATION_CONTRACT\]"):
        packs.parse_pack(first.packs[0] + b"{}\n")
    with pytest.raises(GenerationContractError, match=r"\[DELTA_GENERATION_CONTRACT\]"):
        packs.parse_pack(b"")


def swapped(data):
    lines = data.splitlines(keepends=True)
    return b"".join([lines[1], lines[0], *lines[2:]])


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        swapped,
        lambda data: b"".join(data.splitlines(keepends=True)[1:]),
        lambda data: data.replace(b'"records":2', b'"records":3', 1),
        lambda data: data.replace(b'"nodes":["', b'"nodes":["00', 1),
        lambda data: data.replace(b":", b": ", 1),
    ],
    ids=["cut", "re-ordered", "row removed", "count", "node", "blank"],
)
def test_an_index_that_does_not_recombine_is_refused(monkeypatch, change):
    """A re-ordered or altered pack shows in the root of the header."""
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 2)
    first = sweep(Store(), None, FIRST)
    with pytest.raises(PackIndexError, match=r"\[DELTA_PACK_INDEX\]"):
        packs.read_pack_index(change(first.index), first.document["body"])


def test_the_wrong_predecessor_is_refused():
    """Another number, another digest, another context: each with its code."""
    store = Store()
    first = sweep(store, None, FIRST)
    second = sweep(store, first, SECOND)
    generations.check_predecessor(second.document, first.document, first.header_id)
    with pytest.raises(GenerationChainError, match=r"\[DELTA_GENERATION_CHAIN\]"):
        generations.check_predecessor(second.document, second.document, second.header_id)
    with pytest.raises(GenerationChainError):
        generations.check_predecessor(second.document, {**first.document, "generation": 1}, first.header_id)
    for member in ("contract", "hmac_key", "key", "pair", "schema"):
        other = {**first.document, member: {"other": 1}}
        with pytest.raises(GenerationContextError, match=r"\[DELTA_GENERATION_CONTEXT\] " + member):
            generations.check_predecessor(second.document, other, first.header_id)


def test_a_narrower_sweep_would_forget_keys():
    """Absences are derived inside the covered range only, and entries are never deleted."""
    first = sweep(Store(), None, FIRST)
    generations.check_range_covers((None, None), first.document)
    for bounds in ((sort_key("B"), None), (None, sort_key("B"))):
        with pytest.raises(GenerationLostError, match=r"\[DELTA_GENERATION_LOST\]"):
            generations.check_range_covers(bounds, first.document)


def test_a_header_that_counts_otherwise_than_its_manifest_is_refused():
    """The sweep's counts and the delta manifest are two views of one thing."""
    first = sweep(Store(), None, FIRST)
    manifest = json.loads(first.manifest)
    generations.check_coverage(first.document, manifest)
    manifest["population"]["unchanged"] = 1
    with pytest.raises(CoverageMismatchError, match=r"\[DELTA_COVERAGE_MISMATCH\] unchanged"):
        generations.check_coverage(first.document, manifest)


def test_sub_generations_of_other_sweeps_do_not_merge():
    """Same predecessor, same number, ranges that touch."""
    store = Store()
    first = sweep(store, None, FIRST)
    cut = sort_key("D")
    low, high = (sweep(store, first, SECOND, bounds) for bounds in ((None, cut), (cut, None)))
    other = sweep(store, None, FIRST, (cut, None))
    parts = {
        name: generations.GenerationInput(one.header, one.index, store.read)
        for name, one in (("low", low), ("high", high), ("other", other))
    }
    with pytest.raises(MergeContextError, match=r"\[DELTA_MERGE_CONTEXT\]"):
        generations.merge_generations([parts["low"], parts["other"]], {}, "00" * 32)
    far = sweep(store, first, SECOND, (sort_key("E"), None))
    gap = generations.GenerationInput(far.header, far.index, store.read)
    with pytest.raises(MergeGapError):
        generations.merge_generations([parts["low"], gap], {}, "00" * 32)
    with pytest.raises(MergeContextError):
        generations.merge_generations([], {}, "00" * 32)
