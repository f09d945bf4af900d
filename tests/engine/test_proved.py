"""Results of an earlier run count only where both sides prove that they hold what that run read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import servers

from airflow_delta_provider.adapters import open as adapters
from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.audit import audit
from airflow_delta_provider.core.errors import StoreConflictError
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine import proved, steps
from airflow_delta_provider.engine.opened import open_sides
from airflow_delta_provider.engine.run import reconcile
from airflow_delta_provider.engine.work import Work


class Counted:
    """Opens sides and notes which key ranges of them are read."""

    def __init__(self) -> None:
        self.reads: list[Any] = []
        self.before_read: Any = lambda: None

    def __call__(self, spec: Any) -> Any:
        side = adapters.open_side(spec)
        read = side.read

        def counted(request: Any) -> Any:
            self.reads.append((request.lower, request.upper))
            self.before_read()
            return read(request)

        side.read = counted  # type: ignore[method-assign]
        return side


def write(folder: Path, name: str, part: int, changed: int = 0) -> None:
    """Write one of three files of 100 rows each; ``changed`` is added to every tenth amount."""
    ids = range(100 * part, 100 * part + 100)
    amounts = [number + changed * (number % 10 == 0) for number in ids]
    (folder / name).mkdir(exist_ok=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "amount": pa.array(amounts, pa.int64())})
    pq.write_table(
        table, folder / name / f"part-{part}.parquet", row_group_size=50, compression="none", use_dictionary=False
    )


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Two sides of three Parquet files each, one of which differs in ten rows; a shard for each file."""
    for part in range(3):
        write(tmp_path, "old", part)
        write(tmp_path, "new", part, changed=int(part == 1))
    return spec_of(tmp_path)


def spec_of(folder: Path, **members: Any) -> Spec:
    sides = {
        side: {"path": f"{folder}/{name}/part-*.parquet", "label": name}
        for side, name in (("source", "old"), ("target", "new"))
    }
    bounds = [[100], [200]]
    form = {"name": "orders", **sides, "key": ["id"], "shards": {"bounds": bounds}, "resume": "proved", **members}
    return parse_spec(form)


def in_one_process(spec: Spec, store: Store, sides: Any, run: str) -> tuple[str, Any]:
    outcome = reconcile(spec, store, sides)
    return outcome.receipt.manifest, outcome.sidecar.get("resume")


def in_steps(spec: Spec, store: Store, sides: Any, run: str, **options: Any) -> tuple[str, Any]:
    slot = run_slot("dag", run, "merge", -1)
    work = Work(store, slot)
    planned = steps.plan(spec, work, sides, shards_max=2, **options).shards
    parts = [steps.build(shard, steps.compare(shard, work, sides).digest, work).digest for shard in planned]
    found = steps.merge(planned, parts, work, slot_hex=slot, reopen=lambda form: open_sides(form, sides))
    return found.manifest, newest_sidecar(store).get("resume")


def newest_sidecar(store: Store) -> Any:
    (pair,) = log.list_pairs(store)
    return jsonc.loads(blobs.get_blob(store, [e.ref for e in log.read_log(store, pair) if e.kind == "sidecar"][-1]))


def raws_of(store: Store) -> list[str]:
    """Return the paths of the raw comparisons in the work folders of a store: what is neither JSON nor a digest."""
    return [path for path in store.list("work") if len(data := store.read(path, 2**20)) > 64 and data[:1] != b"{"]


@pytest.fixture(params=[in_one_process, in_steps], ids=["one process", "steps"])
def run(request: pytest.FixtureRequest) -> Any:
    """The whole job, as the command line and as Airflow run it."""
    return request.param


def test_a_run_over_unchanged_files_reads_no_row_and_says_on_which_proof(spec, run):
    """The manifest is that of a run without the skip, byte for byte; every skipped range names the files it rests on."""
    store, sides = MemoryStore(), Counted()
    first, told = run(spec, store, sides, "1")
    assert (told["mode"], told["skipped"], told["left"]) == ("proved", [], True)
    assert [name for name, _ in told["proofs"]["source"]] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    sides.reads.clear()
    again, told = run(spec, store, sides, "2")
    assert (again, sides.reads) == (first, [])
    assert [each["source"] for each in told["skipped"]] == [["part-0.parquet"], ["part-1.parquet"], ["part-2.parquet"]]
    plain, nothing = run(parse_spec({**spec.form, "resume": "run"}), MemoryStore(), Counted(), "1")
    assert (plain, nothing) == (first, None)


def test_only_the_shards_of_a_file_that_changed_are_compared_anew(spec, run, tmp_path):
    """A day's new file costs a day's rows, and the verdict is that of all of them."""
    store, sides = MemoryStore(), Counted()
    first, _ = run(spec, store, sides, "1")
    write(tmp_path, "new", 2, changed=5)
    sides.reads.clear()
    again, told = run(spec, store, sides, "2")
    assert len(sides.reads) == 2
    assert len(told["skipped"]) == 2
    assert again != first
    assert again == reconcile(spec, MemoryStore(), adapters.open_side).receipt.manifest


def test_size_and_time_of_change_prove_nothing(spec, run, tmp_path):
    """A file of the same size under the same name and time is another file where its bytes are others."""
    store = MemoryStore()
    first, _ = run(spec, store, Counted(), "1")
    path = tmp_path / "new" / "part-0.parquet"
    before = path.stat()
    data = path.read_bytes()
    write(tmp_path, "new", 0, changed=7)
    assert len(path.read_bytes()) == len(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again, told = run(spec, store, Counted(), "2")
    assert len(told["skipped"]) == 2
    assert again != first


def test_a_file_that_changes_during_the_run_leaves_nothing(spec, run, tmp_path):
    """Nobody knows then which content was read, so no later run may take it for the result of one of them."""
    store, sides = MemoryStore(), Counted()

    def change() -> None:
        if len(sides.reads) == 5:
            write(tmp_path, "old", 0, changed=3)

    pristine = (tmp_path / "old" / "part-0.parquet").read_bytes()
    sides.before_read = change
    _, told = run(spec, store, sides, "1")
    assert (told["left"], told["reason"]) == (False, "a side changed during the run")
    (tmp_path / "old" / "part-0.parquet").write_bytes(pristine)
    sides.before_read = lambda: None
    sides.reads.clear()
    _, told = run(spec, store, sides, "2")
    assert (told["skipped"], len(sides.reads)) == ([], 6)


def test_a_changed_specification_finds_no_result_of_the_old_one(spec, run):
    """Rules decide what is equal; a result under other rules is another result."""
    store, sides = MemoryStore(), Counted()
    run(spec, store, sides, "1")
    changed = parse_spec({**spec.form, "rules": {"amount": [{"tolerance": {"abs": "1"}}]}})
    _, told = run(changed, store, sides, "2")
    assert told["skipped"] == []


def test_other_versions_and_another_key_find_no_result(spec, run, monkeypatch):
    """A mended reader reads other values from the same bytes, and a keyed digest says nothing under another key."""
    keyed = parse_spec({**spec.form, "detail": "digests", "hmac": {"env": "DELTA_KEY"}})
    monkeypatch.setenv("DELTA_KEY", "k" * 32)
    store, skipped = MemoryStore(), []

    def once() -> None:
        _, told = run(keyed, store, Counted(), str(len(skipped)))
        skipped.append(len(told["skipped"]))

    once()
    once()
    monkeypatch.setenv("DELTA_KEY", "j" * 32)
    once()
    once()
    with monkeypatch.context() as changed:
        changed.setattr("airflow_delta_provider.__version__", "9.9.9")
        once()
    version = proved.metadata.version
    monkeypatch.setattr(proved.metadata, "version", lambda name: "1" if name == "pyarrow" else version(name))
    once()
    assert skipped == [0, 3, 0, 3, 0, 0]


def test_a_database_proves_nothing_and_the_sidecar_says_so(spec, run, tmp_path):
    """A table may have been written since, whatever its file looks like: it is read again."""
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(number, number) for number in range(300)])
    connection.close()
    target = {"uri": f"sqlite:///{tmp_path}/new.db", "table": "orders", "label": "new"}
    mixed = parse_spec({**spec.form, "target": target})
    store, sides = MemoryStore(), Counted()
    for number in ("1", "2"):
        sides.reads.clear()
        _, told = run(mixed, store, sides, number)
        assert told == {"mode": "run", "reason": "target: sqlite gives no proof of its state"}
        assert len(sides.reads) == 6


def test_what_was_left_is_checked_against_its_digest(spec, run):
    """A store that gives other bytes than were put there is refused; nothing is published from them."""
    store = MemoryStore()
    first, _ = run(spec, store, Counted(), "1")
    raws = raws_of(store)
    assert len(raws) == 3
    for path in raws:
        store._files[path] = store._files[path][:-1] + b"?"
    with pytest.raises(StoreConflictError):
        run(spec, store, Counted(), "2")
    (pair,) = log.list_pairs(store)
    assert [entry.ref for entry in log.read_log(store, pair) if entry.kind == "manifest"] == [first]


def test_only_the_results_of_the_last_run_stay(spec, run, tmp_path):
    """A table that changes daily does not fill the store, and an audit knows what the files are."""
    store = MemoryStore()
    counts = []
    for number in range(3):
        write(tmp_path, "new", 0, changed=number)
        run(spec, store, Counted(), str(number))
        counts.append(len(raws_of(store)))
    assert counts == [3, 3, 3]
    assert audit(store).unfinished == 0


def test_a_snapshot_of_a_table_is_its_proof(tmp_path):
    """A Delta table's id and version name its rows; a table made anew at the same place has another id."""
    servers.require_module("deltalake")
    import shutil

    import deltalake

    rows = pa.table({"id": pa.array(range(20), pa.int64()), "amount": pa.array(range(20), pa.int64())})
    for name in ("old", "new"):
        deltalake.write_deltalake(str(tmp_path / name), rows)
    sides = {
        side: {"path": str(tmp_path / name), "label": name} for side, name in (("source", "old"), ("target", "new"))
    }
    form = parse_spec({"name": "orders", **sides, "key": ["id"], "resume": "proved"})
    store, counted = MemoryStore(), Counted()
    skipped = []
    for step in range(4):
        if step == 2:
            deltalake.write_deltalake(str(tmp_path / "new"), rows.slice(0, 1), mode="overwrite")
        if step == 3:
            shutil.rmtree(tmp_path / "new")
            deltalake.write_deltalake(str(tmp_path / "new"), rows.slice(0, 2))
            deltalake.write_deltalake(str(tmp_path / "new"), rows.slice(0, 3), mode="overwrite")
        _, told = in_one_process(form, store, counted, "")
        skipped.append(len(told["skipped"]))
    assert skipped == [0, 1, 0, 0]


def test_a_restored_table_that_counts_to_the_same_version_is_another_one(tmp_path):
    """A copy of a folder has the table's id, and after one more write the version of the table that it replaces."""
    servers.require_module("deltalake")
    import shutil

    import deltalake

    rows = pa.table({"id": pa.array(range(20), pa.int64()), "amount": pa.array(range(20), pa.int64())})
    others = rows.set_column(1, "amount", pa.array([0] * 20, pa.int64()))
    for name in ("old", "new"):
        deltalake.write_deltalake(str(tmp_path / name), rows)
    shutil.copytree(tmp_path / "new", tmp_path / "backup")
    deltalake.write_deltalake(str(tmp_path / "new"), rows, mode="overwrite")
    sides = {
        side: {"path": str(tmp_path / name), "label": name} for side, name in (("source", "old"), ("target", "new"))
    }
    form = parse_spec({"name": "orders", **sides, "key": ["id"], "resume": "proved"})
    store = MemoryStore()
    assert reconcile(form, store, adapters.open_side).records == 0
    shutil.rmtree(tmp_path / "new")
    (tmp_path / "backup").rename(tmp_path / "new")
    deltalake.write_deltalake(str(tmp_path / "new"), others, mode="overwrite")
    assert deltalake.DeltaTable(str(tmp_path / "new")).version() == 1
    again = reconcile(form, store, adapters.open_side)
    assert (again.records, again.sidecar["resume"]["skipped"]) == (19, [])


def test_cuts_that_no_longer_fit_are_made_anew(tmp_path):
    """Cuts of an earlier run are kept for its results' sake, not for a table twice the size and more."""
    store = MemoryStore()
    kept = proved.Kept.of(store, "0" * 64)
    from airflow_delta_provider.core.plan import KeyRange

    kept.leave([None], 100, [KeyRange(None, b"\x01"), KeyRange(b"\x01", None)], [], "f" * 64)
    assert [len(kept.cuts([None], rows) or []) for rows in (49, 50, 200, 201)] == [0, 2, 2, 0]
    assert kept.cuts([7], 100) is None


def test_a_worker_that_reads_other_files_leaves_nothing(spec, tmp_path):
    """Plan and merge may see one file where a worker sees another one: what it found is no result of what they proved."""
    store, sides = MemoryStore(), Counted()
    path = tmp_path / "new" / "part-1.parquet"
    different, times = path.read_bytes(), path.stat()
    write(tmp_path, "new", 1)
    alike = path.read_bytes()
    path.write_bytes(different)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    slot = run_slot("dag", "1", "merge", -1)
    work = Work(store, slot)
    planned = steps.plan(spec, work, sides).shards
    path.write_bytes(alike)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    parts = [steps.build(shard, steps.compare(shard, work, sides).digest, work).digest for shard in planned]
    path.write_bytes(different)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    steps.merge(planned, parts, work, slot_hex=slot, reopen=lambda form: open_sides(form, sides))
    told = newest_sidecar(store)["resume"]
    assert (told["left"], told["reason"]) == (False, "a task read other files than were proved")
    assert reconcile(spec, store, adapters.open_side).records == 10


def test_the_cuts_of_a_hundred_thousand_shards_are_found_again():
    """What a run leaves must be read by the next one, whatever the number of shards and the length of their keys."""
    from airflow_delta_provider.core.plan import KeyRange, tile

    bounds = [b"tenant-0123456789-%012d-abcdefghijklmnopqrstuvwxyz" % number for number in range(100_000)]
    kept, ranges = proved.Kept.of(MemoryStore(), "0" * 64), tile(KeyRange(None, None), bounds)
    kept.leave([None], 10**11, ranges, [], "f" * 64)
    assert kept.cuts([None], 10**11) == ranges


def test_a_side_that_changes_between_plan_and_task_is_read(spec, tmp_path):
    """A task may run hours after the plan; what an earlier run found of a file that was replaced since says nothing of it."""
    store, sides = MemoryStore(), Counted()
    write(tmp_path, "new", 1)
    in_steps(spec, store, sides, "1")
    slot = run_slot("dag", "2", "merge", -1)
    work = Work(store, slot)
    planned = steps.plan(spec, work, sides).shards
    write(tmp_path, "new", 1, changed=1)
    compared = [steps.compare(shard, work, sides) for shard in planned]
    assert [one.records for one in compared] == [0, 10, 0]
    assert [one.taken for one in compared] == [0, 0, 0]
    parts = [steps.build(shard, one.digest, work).digest for shard, one in zip(planned, compared, strict=True)]
    steps.merge(planned, parts, work, slot_hex=slot, reopen=lambda form: open_sides(form, sides))
    told = newest_sidecar(store)["resume"]
    assert (told["left"], told["reason"]) == (False, "a side changed during the run")
