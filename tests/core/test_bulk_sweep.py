"""Sweeps in batches: the same entries, changes and counts as one by one, whatever the batches."""

import itertools
import random
from functools import partial

import pytest
import sweeping
from sweeping import FIRST_ROWS, Store, seen, sort_key, sweep

from airflow_delta_provider.core import bulk_sweep, generation, packs
from airflow_delta_provider.core.errors import GenerationContractError, PackDigestError, UnsortedStreamError


def batches(found, size):
    for start in range(0, len(found), size):
        part = found[start : start + size]
        rows = None if size == 1 else partial(rows_of, part)
        yield bulk_sweep.SeenBatch([one.sort_key for one in part], [one.digest for one in part], part.__getitem__, rows)


def rows_of(part, start, stop):
    assert all(one.outcome == generation.ROW for one in part[start:stop])
    return [(one.row, one.raw_key) for one in part[start:stop]]


def bulk(store, previous, rows, size, key_range=(None, None)):
    entries = iter(())
    if previous is not None:
        index = packs.read_pack_index(previous.index, previous.document["body"])
        entries = bulk_sweep.read_batches(index, store.read, key_range)
    tally, cut = generation.Tally(), []
    writer = packs.PackWriter(cut.append)
    found = batches(seen(rows, key_range), size)
    changes = list(itertools.chain(*bulk_sweep.sweep_batches(entries, found, sweeping.key_json, tally, writer)))
    return changes, tally, writer.close(), b"".join(cut)


def single(store, previous, rows, key_range=(None, None)):
    entries = iter(())
    if previous is not None:
        index = packs.read_pack_index(previous.index, previous.document["body"])
        entries = packs.read_entries(index, store.read, key_range)
    tally, cut = generation.Tally(), []
    writer = packs.PackWriter(cut.append)
    changes = []
    for step in generation.classify(entries, seen(rows, key_range), sweeping.key_json, tally):
        writer.add(step.entry.sort_key, step.entry.line)
        changes += [step.change] if step.change else []
    return changes, tally, writer.close(), b"".join(cut)


def random_rows(rng):
    rows = {}
    for number in range(80):
        roll = rng.random()
        if roll > 0.12:
            rows[f"k{number:02}"] = ["1" if roll > 0.3 else str(rng.randrange(9)), "1"]
        elif roll < 0.06:
            outcomes = [("filtered", 1), ("duplicate", 2), ("failed", "DELTA_VALUE_TEXT")]
            rows[f"k{number:02}"] = rng.choice(outcomes)
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_batches_of_any_size_give_what_single_steps_give(monkeypatch, seed):
    """The fast way has no other result than the plain one, over a chain of random sweeps and ranges."""
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 1 + 7 * seed)
    monkeypatch.setattr(bulk_sweep, "WINDOW_KEYS", (1, 3, 16, 1024)[seed])
    rng, store, previous = random.Random(seed), Store(), None
    for _ in range(8):
        rows = random_rows(rng)
        low, high = sorted(sort_key(f"k{rng.randrange(80):02}") for _ in range(2))
        for key_range in ((None, None), (low, high), (high, None)):
            expected = single(store, previous, rows, key_range)
            assert bulk(store, previous, rows, rng.choice((1, 2, 9, 100)), key_range) == expected
        previous = sweep(store, previous, rows)


@pytest.mark.parametrize("names", [["B", "A"], ["A", "A"]])
def test_keys_that_do_not_ascend_are_refused(names):
    """Within a batch and across batches."""
    found = [generation.Seen(sort_key(name), generation.LEFT_OUT) for name in names]
    for size in (1, 2):
        writer = packs.PackWriter(lambda _: None)
        with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\] target"):
            list(
                bulk_sweep.sweep_batches(iter(()), batches(found, size), sweeping.key_json, generation.Tally(), writer)
            )


def test_a_pack_that_was_altered_is_refused():
    """By its digest and by its nodes, before a line of it is looked at."""
    store = Store()
    first = sweep(store, None, FIRST_ROWS)
    rows = packs.read_pack_index(first.index, first.document["body"])
    for change in (lambda data: data.replace(b"A1", b"A2"), lambda data: data[:-1], lambda data: data + data):
        with pytest.raises(PackDigestError, match=r"\[DELTA_PACK_DIGEST\]"):
            list(bulk_sweep.read_batches(rows, lambda digest, change=change: change(store.read(digest))))


def test_a_proved_pack_of_lines_that_are_no_entries_is_refused():
    """Somebody hashed nonsense."""
    cut = []
    writer = packs.PackWriter(cut.append)
    writer.add(b"\x00", b'{"entry":false}')
    writer.close()
    with pytest.raises(GenerationContractError, match=r"\[DELTA_GENERATION_CONTRACT\]"):
        list(bulk_sweep.read_batches(writer.rows, lambda _: cut[0]))
