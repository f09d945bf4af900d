"""A whole pair is verified with reads that grow with its log, and damage in one entry is told for every manifest."""

from collections import Counter

import publications

from airflow_delta_provider.core import log
from airflow_delta_provider.core.audit import verify_pair
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.memory import MemoryStore


class CountingStore(MemoryStore):
    """Counts what is read."""

    def __init__(self):
        super().__init__()
        self.reads = Counter()

    def read(self, path, limit_bytes=2**26):
        self.reads[path] += 1
        return super().read(path, limit_bytes)


def published(store, runs):
    for number in range(runs):
        publications.publish_to(store, number)
    return log.read_log(store, publications.PAIR_ID)


def test_a_logged_blob_is_read_as_often_for_ten_manifests_as_for_one():
    """Evidence grows for years: an audit that is quadratic is never run."""
    store = CountingStore()
    entries = published(store, 10)
    store.reads.clear()
    check = verify_pair(store, publications.PAIR_ID)
    assert (len(check.manifests), check.verdict) == (10, "verified")
    assert all(manifest.signature.envelopes == 1 for manifest in check.manifests)
    logged = [layout.blob_path(entry.ref) for entry in entries if entry.kind in ("envelope", "sidecar")]
    assert len(logged) == 20
    assert {store.reads[path] for path in logged} == {2}


def test_an_envelope_that_is_gone_is_a_finding_of_every_manifest():
    """Nobody can tell about which one it was."""
    store = MemoryStore()
    entries = published(store, 3)
    lost = next(entry for entry in entries if entry.kind == "envelope")
    del store._files[layout.blob_path(lost.ref)]
    check = verify_pair(store, publications.PAIR_ID)
    found = [[(one.code, one.place) for one in manifest.findings] for manifest in check.manifests]
    assert found == [[("DELTA_STORE_MISSING", f"log entry {lost.seq} (envelope)")]] * 3
