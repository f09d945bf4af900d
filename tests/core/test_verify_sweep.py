"""Verification of published sweeps: every damage to a generation is a finding of its manifest."""

import json

import pytest
from memory_side import MemorySide, typed

from airflow_delta_provider.core import log, packs
from airflow_delta_provider.core.predecessor import load_generation, pack_reader
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine.sweep import sweep

FORM = {"name": "stock", "target": {"path": "twin"}, "key": ["k"]}


@pytest.fixture
def swept(monkeypatch):
    """A store with two sweeps in packs of two entries, and their receipts."""
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 2)
    store, receipts = MemoryStore(), []
    for rows in ([("1", "a"), ("2", "b"), ("3", "c")], [("1", "a"), ("3", "x"), ("4", "d")]):
        side = MemorySide(typed(k="int", v="text"), rows)
        receipts.append(sweep(parse_spec(FORM, sweep=True), store, lambda _, side=side: side).receipt)
    return store, receipts


def codes(store, receipt):
    return {finding.code for finding in verify_published(store, receipt.manifest)[0].findings}


def replace(store, digest, change):
    path = layout.blob_path(digest)
    store._files[path] = change(store._files[path])


def test_sound_sweeps_have_no_findings(swept):
    """Both the first and its successor."""
    store, receipts = swept
    assert [codes(store, receipt) for receipt in receipts] == [set(), set()]


def test_an_altered_pack_is_found(swept):
    """In the generation itself and as its successor's predecessor."""
    store, receipts = swept
    generation = load_generation(store, receipts[0].pair_id, receipts[0].generation)
    replace(store, generation.rows[0].sha256, lambda data: data.replace(b'"version":1', b'"version":3', 1))
    assert codes(store, receipts[0]) == {"DELTA_PACK_DIGEST"}
    assert "DELTA_PACK_DIGEST" in codes(store, receipts[1])


def test_a_lost_pack_is_found(swept):
    """It is evidence, not a cache."""
    store, receipts = swept
    generation = load_generation(store, receipts[1].pair_id, receipts[1].generation)
    del store._files[layout.blob_path(generation.rows[1].sha256)]
    assert codes(store, receipts[1]) == {"DELTA_STORE_MISSING"}


def test_an_altered_index_is_found(swept):
    """It must recombine to the header's root."""
    store, receipts = swept
    generation = load_generation(store, receipts[1].pair_id, receipts[1].generation)
    replace(store, generation.index_id, lambda data: data.replace(b'"records":2', b'"records":1', 1))
    assert codes(store, receipts[1]) == {"DELTA_PACK_INDEX"}


def test_an_altered_header_is_found(swept):
    """The log names it by its digest."""
    store, receipts = swept
    replace(store, receipts[1].generation, lambda data: data.replace(b'"unchanged":1', b'"unchanged":2'))
    assert "DELTA_GENERATION_CONTRACT" in codes(store, receipts[1])


def test_a_sweep_whose_generation_was_never_logged_is_found(swept):
    """Killed before its last log entry, or cut: the manifest alone is not a whole sweep."""
    store, receipts = swept
    del store._files[layout.log_path(receipts[1].pair_id, receipts[1].generation_seq)]
    assert codes(store, receipts[1]) == {"DELTA_GENERATION_CONTRACT"}


def test_a_predecessor_that_is_gone_is_found(swept):
    """No step can be checked without it."""
    store, receipts = swept
    del store._files[layout.blob_path(receipts[0].generation)]
    assert codes(store, receipts[1]) == {"DELTA_GENERATION_CONTRACT"}


def test_a_predecessor_that_was_never_logged_is_found(swept):
    """History is what the log names."""
    store, receipts = swept
    entries = [entry for entry in log.read_log(store, receipts[0].pair_id) if entry.ref != receipts[0].generation]
    for path in [path for path in store._files if "/log/" in path]:
        del store._files[path]
    for entry in entries:
        log.append(store, receipts[0].pair_id, entry.kind, entry.ref)
    assert codes(store, receipts[1]) == {"DELTA_GENERATION_CHAIN"}


def test_a_sidecar_that_names_no_index_is_found(swept):
    """Without an index nobody knows which packs belong to the generation."""
    store, receipts = swept
    for entry in log.read_log(store, receipts[1].pair_id):
        if entry.kind == "sidecar":
            facts = json.loads(blobs.get_blob(store, entry.ref))
            if facts["for"] == receipts[1].manifest:
                data = json.dumps({"for": facts["for"]}, separators=(",", ":")).encode()
                log.append(store, receipts[1].pair_id, "sidecar", blobs.put_blob(store, data))
                del store._files[layout.blob_path(facts["pack_index"])]
    assert "DELTA_STORE_MISSING" in codes(store, receipts[1])


def test_packs_can_be_read_back(swept):
    """The reader that a sweep uses refuses what does not hash to its name."""
    store, receipts = swept
    generation = load_generation(store, receipts[0].pair_id, receipts[0].generation)
    assert pack_reader(store)(generation.rows[0].sha256).count(b"\n") == 2
