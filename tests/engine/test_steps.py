"""The job cut into steps: the same digest as in one piece, whatever is repeated, lost or killed in between."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import pytest

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core import documents, jsonc, log
from airflow_delta_provider.core.errors import (
    DiskLimitError,
    InputDigestError,
    InputShardError,
    MergeContextError,
    MergeGapError,
    OutputExistsError,
    RecordLimitError,
    SideChangedError,
    StoreConflictError,
    WallLimitError,
)
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.published import sidecars_of
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine import steps
from airflow_delta_provider.engine.run import reconcile
from airflow_delta_provider.engine.work import Work, read_shards

SLOT = run_slot("dag", "run", "merge", -1)


def write_table(path: Path, rows: list[tuple[int, int]]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    connection.close()


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Two tables of 100 rows, of which 10 diverge, one is added and one dropped."""
    write_table(tmp_path / "old.db", [(number, number) for number in range(100)])
    write_table(tmp_path / "new.db", [(number, number + (number % 10 == 0)) for number in range(1, 101)])
    return spec_of(tmp_path)


def spec_of(folder: Path, **members: Any) -> Spec:
    sides = {
        name: {"uri": f"sqlite:///{folder}/{file}.db", "table": "orders", "label": file}
        for name, file in (("source", "old"), ("target", "new"))
    }
    bounds = {"bounds": [[34], [67]]}
    return parse_spec({"name": "orders", **sides, "key": ["id"], "shards": bounds, **members})


def run_steps(spec: Spec, store: Store, *, shards: int | None = None, **options: Any) -> steps.Published:
    work = Work(store, SLOT)
    planned = steps.plan(spec, work, open_side, shards=shards, on_rerun=options.get("on_rerun", "reuse"))
    return steps.merge(planned.shards, built_parts(planned.shards, work), work, slot_hex=SLOT, **options)


def built_parts(shards: list[str], work: Work) -> list[str]:
    return [steps.build(shard, steps.compare(shard, work, open_side).digest, work).digest for shard in shards]


def log_kinds(store: Store) -> list[str]:
    return [entry.kind for pair in log.list_pairs(store) for entry in log.read_log(store, pair)]


@pytest.mark.parametrize("shards", [1, 2, 7, 64])
def test_steps_publish_the_manifest_of_one_piece(spec, shards):
    """Whether one process or 64 tasks do the work is no part of the verdict."""
    whole = reconcile(spec, MemoryStore(), open_side, shards=1)
    cut = run_steps(spec, MemoryStore(), shards=shards)
    assert cut.manifest == whole.receipt.manifest
    assert whole.records == 11


def test_empty_tables_give_an_empty_manifest(tmp_path):
    """Nothing to compare is a result of its own, not a failure."""
    for name in ("old", "new"):
        write_table(tmp_path / f"{name}.db", [])
    store = MemoryStore()
    manifest = documents.parse_manifest(blobs.get_blob(store, run_steps(spec_of(tmp_path), store).manifest))
    assert manifest["body"]["records"] == 0
    assert manifest["population"]["source"]["rows"] == 0


@pytest.mark.parametrize("detail", ["values", "counts"])
def test_a_finished_run_leaves_only_its_plan_under_work(tmp_path, spec, detail):
    """Raw comparisons and bodies go; plan, receipt and a list of results stay, so that any step may run again."""
    store = MemoryStore()
    work = Work(store, SLOT)
    planned = steps.plan(spec_of(tmp_path, detail=detail), work, open_side)
    steps.merge(planned.shards, built_parts(planned.shards, work), work, slot_hex=SLOT)
    left = [path.rsplit("/", 1)[-1] for path in store.list(layout.work_folder(SLOT))]
    assert len(left) == 7
    assert set(planned.shards) < set(left)


def test_every_step_may_run_twice(spec):
    """Retries and clears repeat steps at will; each gives its digest again, and nothing is logged twice."""
    store = MemoryStore()
    work = Work(store, SLOT)
    planned = steps.plan(spec, work, open_side)
    assert steps.plan(spec, work, open_side).shards == planned.shards
    parts = built_parts(planned.shards, work)
    assert built_parts(planned.shards, work) == parts
    first = steps.merge(planned.shards, parts, work, slot_hex=SLOT)
    again = steps.merge(planned.shards, parts, work, slot_hex=SLOT)
    assert again == steps.Published(first.manifest, None)
    assert built_parts(planned.shards, work) == parts
    assert steps.merge(planned.shards[::-1], parts[::-1], work, slot_hex=SLOT).manifest == first.manifest
    assert log_kinds(store).count("manifest") == 1


def test_a_killed_merge_ends_in_the_same_digest(tmp_path, spec):
    """kill -9 at every call to the store in turn, publication and clean-up included, then the retry that Airflow makes."""
    whole = reconcile(spec, MemoryStore(), open_side).receipt.manifest
    ready = Work(LocalStore(tmp_path / "ready"), SLOT)
    shards = steps.plan(spec_of(tmp_path, shards={"bounds": [[50]]}), ready, open_side).shards
    parts = built_parts(shards, ready)
    number, killed = 0, True
    while killed:
        number += 1
        store = LocalStore(shutil.copytree(tmp_path / "ready", tmp_path / f"store{number}"))

        def merge(tick: Callable[[], None], store: Store = store) -> None:
            steps.merge(shards, parts, Work(faults.FaultyStore(store, tick), SLOT), slot_hex=SLOT)

        killed = faults.killed_at(number, merge)
        assert steps.merge(shards, parts, Work(store, SLOT), slot_hex=SLOT).manifest == whole
        assert log_kinds(store).count("manifest") == 1
    assert number > 30


def test_a_hole_refuses(spec):
    """A shard that was skipped, failed or lost is named; there is no manifest over the rest."""
    store = MemoryStore()
    work = Work(store, SLOT)
    planned = steps.plan(spec, work, open_side)
    parts = built_parts(planned.shards, work)
    with pytest.raises(MergeGapError, match=r"1 of 3 shards have no sub-manifest: 2 \[34 \.\. 67\)"):
        steps.merge(planned.shards, [parts[0], parts[2]], work, slot_hex=SLOT)
    with pytest.raises(MergeGapError, match="3 of 3 shards have no sub-manifest"):
        steps.merge(planned.shards, [], work, slot_hex=SLOT)
    assert log.list_pairs(store) == {}


def test_a_hole_in_the_plan_refuses_too(spec):
    """Handing over fewer shards with fewer parts must not pass as the whole key space."""
    work = Work(MemoryStore(), SLOT)
    planned = steps.plan(spec, work, open_side)
    parts = built_parts(planned.shards, work)
    with pytest.raises(MergeGapError, match="1 of 3 shards of the plan were not handed over"):
        steps.merge(planned.shards[:2], parts[:2], work, slot_hex=SLOT)


def test_nothing_planned_is_nothing_to_merge():
    """No shard at all says nothing about any table."""
    with pytest.raises(MergeContextError, match="no shard was planned"):
        steps.merge([], [], Work(MemoryStore(), SLOT), slot_hex=SLOT)


def test_parts_of_another_plan_refuse(tmp_path, spec):
    """Digests are taken for what they name, not for where they came from."""
    work = Work(MemoryStore(), SLOT)
    mine, other = (steps.plan(each, work, open_side).shards for each in (spec, spec_of(tmp_path, detail="keys")))
    finer = steps.plan(spec, work, open_side, shards=4).shards
    with pytest.raises(MergeContextError, match="is of another plan"):
        steps.merge(mine, built_parts(other, work), work, slot_hex=SLOT)
    with pytest.raises(MergeContextError, match="the plan does not know"):
        steps.merge(mine, built_parts(mine, work) + built_parts(finer, work)[1:2], work, slot_hex=SLOT)
    with pytest.raises(MergeContextError, match="of different plans"):
        steps.merge([*mine, *other], [], work, slot_hex=SLOT)


def test_a_comparison_of_another_shard_refuses(spec):
    """A sub-manifest is built over the range that was planned, and no other."""
    work = Work(MemoryStore(), SLOT)
    first, second, _ = steps.plan(spec, work, open_side).shards
    with pytest.raises(InputShardError, match="of another shard"):
        steps.build(first, steps.compare(second, work, open_side).digest, work)


@pytest.mark.parametrize(
    ("digest", "error"),
    [("0" * 64, InputShardError), ("plan", InputDigestError), (None, InputDigestError)],
    ids=["unknown", "no digest", "nothing"],
)
def test_a_digest_that_names_no_shard_refuses(digest, error):
    """What an XCom holds is checked like any input."""
    with pytest.raises(error):
        steps.compare(digest, Work(MemoryStore(), SLOT), open_side)


def test_a_plan_is_no_shard(spec):
    """Both lie in one folder under digests; the format member tells them apart."""
    work = Work(MemoryStore(), SLOT)
    (shard,) = steps.plan(spec, work, open_side, shards=1).shards
    plan = jsonc.loads(work.get(shard))["plan"]
    with pytest.raises(InputShardError, match="no document of format delta-shard/1"):
        steps.compare(plan, work, open_side)


def test_an_altered_raw_comparison_refuses(spec, tmp_path):
    """It lies in a folder that others may write to; its digest is checked before it is read."""
    work = Work(LocalStore(tmp_path / "store"), SLOT)
    (shard,) = steps.plan(spec, work, open_side, shards=1).shards
    digest = steps.compare(shard, work, open_side).digest
    path = tmp_path / "store" / layout.work_path(SLOT, digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"\0")
    path.chmod(0o444)
    with pytest.raises(StoreConflictError, match="the bytes hash to"):
        steps.build(shard, digest, work)


def test_a_side_that_changed_between_plan_and_read_refuses(spec, tmp_path):
    """Shards of other columns would not merge; the first of them says so."""
    work = Work(MemoryStore(), SLOT)
    (shard,) = steps.plan(spec, work, open_side, shards=1).shards
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("ALTER TABLE orders ADD COLUMN note TEXT")
    connection.close()
    with pytest.raises(SideChangedError):
        steps.compare(shard, work, open_side)


def test_a_stored_plan_holds_no_secret(tmp_path, spec, monkeypatch):
    """A specification is stored as it was written: what ${ENV} stands for is looked up again by each task."""
    monkeypatch.setenv("FOLDER_OF_TEST", str(tmp_path))
    form = {**spec.form, "source": {**spec.form["source"], "uri": "sqlite:///${FOLDER_OF_TEST}/old.db"}}
    store = MemoryStore()
    work = Work(store, SLOT)
    planned = steps.plan(parse_spec(form), work, open_side, shards=2)
    stored = b"".join(store.read(path) for path in store.list())
    assert b"${FOLDER_OF_TEST}" in stored
    assert str(tmp_path / "old.db").encode() not in stored
    assert steps.merge(planned.shards, built_parts(planned.shards, work), work, slot_hex=SLOT).manifest


def test_more_shards_than_can_be_mapped_are_pieces_of_fewer(spec):
    """Airflow refuses beyond its limit; seven pieces in three tasks give the manifest of one piece."""
    whole = reconcile(spec, MemoryStore(), open_side, shards=1)
    work = Work(MemoryStore(), SLOT)
    planned = steps.plan(spec, work, open_side, shards=7, shards_max=3)
    assert [len(shard.pieces) for shard in read_shards(work, planned.shards)] == [2, 2, 3]
    parts = built_parts(planned.shards, work)
    assert steps.merge(planned.shards, parts, work, slot_hex=SLOT).manifest == whole.receipt.manifest


@pytest.mark.parametrize(
    ("limits", "error"),
    [({"max_discrepancies": 10}, RecordLimitError), ({"max_bytes": 1500}, DiskLimitError)],
    ids=["records", "bytes"],
)
def test_limits_hold_over_all_shards(tmp_path, spec, limits, error):
    """Each shard stays within, the sum does not: 11 records of about 200 bytes in 4 shards."""
    store = MemoryStore()
    with pytest.raises(error):
        run_steps(spec_of(tmp_path, limits=limits), store, shards=4)
    assert log.list_pairs(store) == {}


def test_max_seconds_counts_from_the_plan(tmp_path, spec):
    """Shards wait for workers, so the time of a run is that of the whole graph."""
    work = Work(MemoryStore(), SLOT)
    limited = spec_of(tmp_path, limits={"max_seconds": 60})
    planned = steps.plan(limited, work, open_side, shards=2, clock=lambda: 1000.0)
    with pytest.raises(WallLimitError, match="more than 60 s ago"):
        steps.compare(planned.shards[0], work, open_side, clock=lambda: 1061.0)
    parts = []
    for shard in planned.shards:
        compared = steps.compare(shard, work, open_side, clock=lambda: 1059.0)
        parts.append(steps.build(shard, compared.digest, work).digest)
    with pytest.raises(WallLimitError):
        steps.merge(planned.shards, parts, work, slot_hex=SLOT, clock=lambda: 1061.0)
    assert steps.merge(planned.shards, parts, work, slot_hex=SLOT, clock=lambda: 1060.0).manifest


@pytest.mark.parametrize(
    ("on_rerun", "manifests"), [("reuse", 1), ("recompute", 2)], ids=["the first stands", "both are logged"]
)
def test_a_rerun_over_other_data_follows_its_policy(tmp_path, spec, on_rerun, manifests):
    """Airflow reruns a whole run under the same id; what it published before does not silently change."""
    store = MemoryStore()
    first = run_steps(spec, store, on_rerun=on_rerun)
    write_table(tmp_path / "new.db", [(number, number) for number in range(100)])
    second = run_steps(spec, store, on_rerun=on_rerun)
    assert (second.receipt is None) is (on_rerun == "reuse")
    assert (second.manifest == first.manifest) is (on_rerun == "reuse")
    assert log_kinds(store).count("manifest") == manifests


def test_a_rerun_may_refuse(tmp_path, spec):
    """For those who want a person to look."""
    store = MemoryStore()
    run_steps(spec, store, on_rerun="refuse")
    write_table(tmp_path / "new.db", [])
    with pytest.raises(OutputExistsError):
        run_steps(spec, store, on_rerun="refuse")


def test_the_sidecar_tells_what_each_shard_took(spec):
    """Volatile facts stand beside the manifest and nowhere in it."""
    store = MemoryStore()
    published = run_steps(spec, store, facts={"airflow": {"dag_id": "dag"}})
    pair = next(iter(log.list_pairs(store)))
    ((_, sidecar),) = sidecars_of(store, log.read_log(store, pair), published.manifest)
    assert [shard["label"] for shard in sidecar["shards"]] == ["[ .. 34)", "[34 .. 67)", "[67 .. )"]
    assert [shard["records"] for shard in sidecar["shards"]] == [4, 3, 4]
    assert [side["side"] for side in sidecar["sides"]] == ["source", "target"]
    assert sidecar["airflow"] == {"dag_id": "dag"}


def test_a_merge_overtaken_by_another_try_returns_what_that_one_published(spec, monkeypatch):
    """A worker thought dead may still finish first and clear the folder under the feet of its own retry."""
    store = MemoryStore()
    work = Work(store, SLOT)
    planned = steps.plan(spec, work, open_side)
    parts, merge_manifests, others = built_parts(planned.shards, work), steps.merge_manifests, []

    def overtaken(inputs: Any, out: Any) -> Any:
        if not others:
            others.append("running")
            others.append(steps.merge(planned.shards, parts, work, slot_hex=SLOT).manifest)
        return merge_manifests(inputs, out)

    monkeypatch.setattr(steps, "merge_manifests", overtaken)
    mine = steps.merge(planned.shards, parts, work, slot_hex=SLOT)
    assert mine == steps.Published(others[1], None)
    assert log_kinds(store).count("manifest") == 1
