"""A manifest that another process verifies while its rows are read: the same bytes, and nothing is done before it verifies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from patching import Bench

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.errors import PatchManifestError
from airflow_delta_provider.core.store import blobs, layout, open_store
from airflow_delta_provider.engine.patching import transaction, verified

DAMAGES = {
    "a value": lambda data: data.replace(b"new", b"odd", 1),
    "no record": lambda data: b"x" * data.index(b"\n") + data[data.index(b"\n") :],
}


@pytest.fixture
def bench(postgresql_database, tmp_path, monkeypatch) -> Bench:
    """Two tables and a store on disk; few records are many enough for columns and for a process of their own."""
    monkeypatch.setattr(transaction, "BULK_ROWS_MIN", 1)
    monkeypatch.setattr(verified, "PARALLEL_RECORDS_MIN", 1)
    made = Bench("postgresql", postgresql_database, open_store(tmp_path.joinpath("store").as_uri()))
    made.tables("id INTEGER PRIMARY KEY, v TEXT")
    return made


def fill(bench: Bench) -> str:
    """Fill both tables anew, and return the manifest."""
    bench.sql("TRUNCATE t_source", "TRUNCATE t_target")
    bench.fill("source", [(at, "new") for at in range(4)])
    bench.fill("target", [(at, "old") for at in range(2, 6)])
    return bench.compare()


def test_a_manifest_that_another_process_verifies_is_patched_with_the_same_bytes(bench, tmp_path):
    """Checkpoint, ledger and proof do not tell how many processes there were."""
    alone = bench.apply(fill(bench), max_share=1)
    bench.store = open_store(tmp_path.joinpath("other").as_uri())
    shared = bench.apply(fill(bench), max_share=1, workers=2)
    assert shared.document() == alone.document()
    assert shared.outcomes["applied"] == 6 and shared.proved


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_body_that_does_not_verify_is_told_first_and_nothing_is_done(bench, tmp_path, damage):
    """Its records are read before that is known: whatever comes of them, neither table nor log knows of it."""
    manifest = fill(bench)
    body = jsonc.loads(blobs.get_blob(bench.store, manifest))["body"]["sha256"]
    _change(tmp_path / "store" / layout.blob_path(body), damage)
    pair_id = log.pair_id_of("bench", "bench:source", "bench:target")
    head, rows = log.head(bench.store, pair_id), bench.rows()
    with pytest.raises(PatchManifestError, match="does not verify: DELTA_"):
        bench.apply(manifest, max_share=1, workers=2)
    assert log.head(bench.store, pair_id) == head
    assert bench.rows() == rows


def test_what_fails_meanwhile_is_told_where_the_manifest_verifies(bench):
    """The verification hides no other refusal."""
    manifest = fill(bench)
    bench.members["schema_version"] = "2"
    with pytest.raises(PatchManifestError, match="the manifest"):
        bench.apply(manifest, workers=2)


def _change(path: Path, damage: Callable[[bytes], bytes]) -> None:
    path.chmod(0o644)
    changed = damage(path.read_bytes())
    path.write_bytes(changed)
