"""Publication of sweeps: kills, two at once, and everything that a wrong predecessor is refused for."""

import json
import shutil
import threading

import pytest
from faults import FaultyStore, killed_at
from memory_side import MemorySide, typed
from sweep_oracle import kinds

from airflow_delta_provider.core import log, packs
from airflow_delta_provider.core.errors import (
    GenerationChainError,
    GenerationContextError,
    GenerationLostError,
    PackDigestError,
    PackIndexError,
    StoreMissingError,
)
from airflow_delta_provider.core.predecessor import load_generation, newest_generation, pack_reader
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs, layout, slots
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.sweep import sweep

KINDS = typed(k="int", v="text")
FORM = {"name": "stock", "target": {"path": "twin"}, "key": ["k"]}
BEFORE = [("1", "a"), ("2", "b"), ("3", "c")]
AFTER = [("1", "a"), ("2", "x"), ("4", "d")]


def run(store, rows, form=None, kinds_of=KINDS, **options):
    spec = parse_spec({**FORM, **(form or {})}, sweep=True)
    return sweep(spec, store, lambda _: MemorySide(kinds_of, rows), **options)


def shown(store, outcome):
    return outcome.receipt.manifest, outcome.receipt.generation, kinds(store, outcome.receipt.pair_id)


def test_killed_at_any_store_call_a_sweep_ends_in_the_same_digests(tmp_path):
    """Nothing half-done is visible, nothing is lost, and the log names each artifact once (a second sidecar may stand)."""
    first = run(LocalStore(tmp_path / "first"), BEFORE).receipt
    pair_id, before = first.pair_id, first.generation
    shutil.copytree(tmp_path / "first", tmp_path / "clean")
    clean = LocalStore(tmp_path / "clean")
    expected = shown(clean, run(clean, AFTER))
    point, done = 0, False
    while not done:
        point += 1
        path = tmp_path / f"store-{point}"
        shutil.copytree(tmp_path / "first", path)
        killed = killed_at(point, lambda tick, p=path: run(FaultyStore(LocalStore(p), tick), AFTER))
        store = LocalStore(path)
        done = not killed
        if newest_generation(store, pair_id) == before:
            outcome = run(store, AFTER)
            assert (outcome.receipt.manifest, outcome.receipt.generation) == expected[:2], point
        found = kinds(store, pair_id)
        assert [kind for kind in found if kind != "sidecar"] == [kind for kind in expected[2] if kind != "sidecar"], (
            point
        )
        assert newest_generation(store, pair_id) == expected[1]
    assert point > 40


def dead_before_the_log(store, rows):
    """Sweep, and die between the claim of the slot and the first log entry."""

    class Died(Exception):
        pass

    class Dying:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def create(self, path, data):
            if "/log/" in path:
                raise Died
            return self.inner.create(path, data)

    with pytest.raises(Died):
        run(Dying(store), rows)


def test_a_sweep_that_died_after_its_claim_is_completed_by_the_next_one():
    """The data changed since, so the next sweep has other digests: the dead one's entries are logged, then it is refused."""
    store = MemoryStore()
    first = run(store, BEFORE)
    dead_before_the_log(store, AFTER)
    assert newest_generation(store, first.receipt.pair_id) == first.receipt.generation
    with pytest.raises(GenerationChainError, match=r"\[DELTA_GENERATION_CHAIN\] Another sweep took this place"):
        run(store, [("9", "z")])
    assert kinds(store, first.receipt.pair_id) == ["sidecar", "manifest", "generation"] * 2
    third = run(store, [("9", "z")])
    assert third.generation["generation"] == 2
    assert third.generation["sweep"]["absent"] == 3


def test_a_rerun_completes_a_missing_second_entry():
    """Killed between the log entries of manifest and generation."""
    store = MemoryStore()
    first = run(store, BEFORE)
    missing = layout.log_path(first.receipt.pair_id, first.receipt.generation_seq)
    del store._files[missing]
    again = run(store, BEFORE)
    assert again.receipt.generation == first.receipt.generation
    assert kinds(store, first.receipt.pair_id) == ["sidecar", "manifest", "sidecar", "generation"]


def test_of_two_sweeps_at_once_one_is_published_and_the_other_refused():
    """Both start from the same generation and meet before they publish; the loser logs nothing."""
    store, results, barrier = MemoryStore(), [], threading.Barrier(2)
    first = run(store, BEFORE)

    def work(rows):
        side = MemorySide(KINDS, rows, before_batch=lambda number: barrier.wait(10))
        try:
            results.append(sweep(parse_spec(FORM, sweep=True), store, lambda _: side))
        except GenerationChainError as error:
            results.append(error)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (AFTER, [("7", "q")])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [one for one in results if not isinstance(one, Exception)]
    lost = [one for one in results if isinstance(one, Exception)]
    assert len(won) == len(lost) == 1
    assert newest_generation(store, first.receipt.pair_id) == won[0].receipt.generation
    assert kinds(store, first.receipt.pair_id) == ["sidecar", "manifest", "generation"] * 2
    assert run(store, [("7", "q")]).generation["generation"] == 2


@pytest.mark.parametrize(
    "form",
    [
        {"schema_version": "2"},
        {"contract_version": "2"},
        {"columns": {"exclude": ["v"]}},
        {"inline_limit": 3},
        {"filter": "k > 0"},
        {"key": ["k", "v"]},
    ],
    ids=["schema version", "contract version", "fewer columns", "inline limit", "filter", "key"],
)
def test_another_contract_schema_or_key_starts_a_series(form):
    """Every row is added; the slot that is claimed is that of the generation before, so the pair has one line of history."""
    store = MemoryStore()
    first = run(store, BEFORE)
    other = run(store, BEFORE, form)
    assert (other.generation["generation"], other.generation["predecessor"]) == (0, None)
    assert other.generation["sweep"]["new"] == 3
    pair_id = first.receipt.pair_id
    assert slots.read_slot(store, pair_id, "generation", first.receipt.generation) == other.receipt.generation
    assert run(store, BEFORE, form).generation["generation"] == 1
    with pytest.raises(GenerationContextError, match=r"\[DELTA_GENERATION_CONTEXT\]"):
        run(store, BEFORE, predecessor=newest_generation(store, pair_id))


def test_a_series_that_starts_again_with_the_same_generation_is_refused():
    """Its header would be one that has a successor already, and nobody could continue from it."""
    store = MemoryStore()
    for form in ({}, {}, {"contract_version": "2"}):
        run(store, BEFORE, form)
    with pytest.raises(GenerationChainError, match="was published before, and followed"):
        run(store, BEFORE)
    assert run(store, AFTER).generation["generation"] == 0


def test_a_predecessor_that_is_not_the_newest_is_refused():
    """Before a row is read."""
    store = MemoryStore()
    first = run(store, BEFORE)
    run(store, AFTER)
    with pytest.raises(GenerationChainError, match=r"\[DELTA_GENERATION_CHAIN\] The newest generation is"):
        run(store, AFTER, predecessor=first.receipt.generation)


def test_a_predecessor_of_another_pair_is_refused():
    """Two data sets never share a history."""
    store = MemoryStore()
    other = run(store, BEFORE, {"name": "other"})
    run(store, BEFORE)
    with pytest.raises(GenerationContextError, match=r"\[DELTA_GENERATION_CONTEXT\] .* is of pair other"):
        run(store, BEFORE, predecessor=other.receipt.generation)


def test_a_generation_that_was_never_logged_is_no_predecessor():
    """An orphan of a sweep that was refused is not history."""
    store = MemoryStore()
    first = run(store, BEFORE)
    header = blobs.get_blob(store, first.receipt.generation)
    stray = json.dumps({**json.loads(header), "manifest": "0" * 64}, separators=(",", ":"), sort_keys=True).encode()
    with pytest.raises(GenerationChainError, match="was never logged"):
        run(store, BEFORE, predecessor=blobs.put_blob(store, stray))
    with pytest.raises(StoreMissingError):
        run(store, BEFORE, predecessor="1" * 64)


def damaged(monkeypatch, change):
    """Return a store with a first sweep of six one-entry packs, whose index and packs ``change`` damages."""
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 2)
    store = MemoryStore()
    first = run(store, [(str(number), "a") for number in range(6)])
    generation = load_generation(store, first.receipt.pair_id, first.receipt.generation)
    change(store, generation, first)
    return store


def overwrite(store, digest, data):
    store._files[layout.blob_path(digest)] = data


def swap_packs(store, generation, first):
    one, other = (pack_reader(store)(row.sha256) for row in generation.rows[:2])
    overwrite(store, generation.rows[0].sha256, other)
    overwrite(store, generation.rows[1].sha256, one)


def alter_pack(store, generation, first):
    data = pack_reader(store)(generation.rows[1].sha256)
    overwrite(store, generation.rows[1].sha256, data.replace(b'"version":1', b'"version":2'))


def swap_rows(store, generation, first):
    index = packs.index_bytes([generation.rows[1], generation.rows[0], *generation.rows[2:]])
    name_index(store, first, blobs.put_blob(store, index))


def name_index(store, first, digest):
    """Replace the sidecar by one that names another index."""
    entry = next(entry for entry in log.read_log(store, first.receipt.pair_id) if entry.kind == "sidecar")
    facts = json.loads(blobs.get_blob(store, entry.ref))
    sidecar = json.dumps({**facts, "pack_index": digest}, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for seq in range(3):
        del store._files[layout.log_path(first.receipt.pair_id, seq)]
    log.append(store, first.receipt.pair_id, "sidecar", blobs.put_blob(store, sidecar.encode()))
    log.append(store, first.receipt.pair_id, "manifest", first.receipt.manifest)
    log.append(store, first.receipt.pair_id, "generation", first.receipt.generation)


@pytest.mark.parametrize(
    ("change", "error"),
    [(swap_packs, PackDigestError), (alter_pack, PackDigestError), (swap_rows, PackIndexError)],
    ids=["packs in another order", "an altered pack", "index rows in another order"],
)
def test_damaged_packs_are_refused(monkeypatch, change, error):
    """A sweep on top of them would carry the damage on for ever."""
    store = damaged(monkeypatch, change)
    with pytest.raises(error, match=rf"\[{error.code}\]"):
        run(store, BEFORE)
    assert kinds(store, run(MemoryStore(), BEFORE).receipt.pair_id) == ["sidecar", "manifest", "generation"]


def test_a_narrower_key_range_than_the_predecessors_is_refused():
    """Keys outside would have no entry any more."""
    store = MemoryStore()
    run(store, BEFORE, {"key_range": {"from": ["1"], "to": ["3"]}})
    wider = run(store, BEFORE, {"key_range": {"from": ["0"]}})
    assert (wider.generation["sweep"]["new"], wider.generation["sweep"]["absent"]) == (1, 0)
    with pytest.raises(GenerationLostError, match=r"\[DELTA_GENERATION_LOST\]"):
        run(store, BEFORE, {"key_range": {"from": ["1"]}})


def test_absences_are_derived_inside_the_covered_range_only():
    """A bounded sweep says nothing about keys that it did not look at."""
    store = MemoryStore()
    bounded = {"key_range": {"from": ["2"]}}
    run(store, BEFORE, bounded)
    outcome = run(store, [("3", "c")], bounded)
    assert outcome.generation["sweep"]["absent"] == 1
    assert outcome.sidecar["sweep"]["coverage"] == {"key_range": {"lower": "202102", "upper": None}, "whole": False}
