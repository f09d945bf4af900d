"""kill -9 in the middle of a run, and two runs at once: the store shows whole runs and nothing else."""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import pytest
from memory_side import MemorySide, opener, spec_form, typed
from signers import example_signer

from airflow_delta_provider.core import log
from airflow_delta_provider.core.signing import envelope_signer
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.verify_store import VERIFIED, verify_published
from airflow_delta_provider.engine.run import Outcome, reconcile

PAIR_ID = log.pair_id_of("pair", "source", "target")


def run(store: Any, shards: int = 2) -> Outcome:
    types = typed(id="int", v="text")
    source = MemorySide(types, [(str(number), "a") for number in range(8)])
    target = MemorySide(types, [(str(number), "b" if number % 4 == 0 else "a") for number in range(1, 9)])
    form = spec_form(key=["id"])
    sign = envelope_signer(example_signer())
    return reconcile(parse_spec(form), store, opener(source, target), shards=shards, sign=sign)


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The manifest of an undisturbed run."""
    return run(LocalStore(tmp_path_factory.mktemp("clean") / "store")).receipt.manifest


def kinds(store: LocalStore) -> list[str]:
    return [entry.kind for entry in log.read_log(store, PAIR_ID)]


def nothing_half_done(store: LocalStore, digest: str) -> None:
    """Whatever is visible is whole: every manifest in the log verifies, and no file of a crash counts as content."""
    for entry in log.read_log(store, PAIR_ID):
        if entry.kind == "manifest":
            assert entry.ref == digest
            check, _ = verify_published(store, entry.ref)
            assert (check.verdict, check.findings) == (VERIFIED, [])


def crashes(kill: Callable[[int, Path], bool], folder: Path, digest: str, step: int) -> int:
    for number in itertools.count(1, step):
        root = folder / str(number)
        killed = kill(number, root)
        store = LocalStore(Path(root))
        nothing_half_done(store, digest)
        again = run(LocalStore(root))
        assert again.receipt.manifest == digest
        nothing_half_done(store, digest)
        assert kinds(store)[-1] in ("manifest", "sidecar")
        assert verify_published(store, digest)[0].verdict == VERIFIED
        shutil.rmtree(root)
        if not killed:
            return number
        assert number < faults.POINTS_MAX
    raise AssertionError("unreachable")


@pytest.mark.slow
def test_killed_at_every_call_of_the_store(tmp_path, digest):
    """Before each call, and after each that writes: done, but never answered."""

    def kill(number: int, root: Path) -> bool:
        return faults.killed_at(number, lambda tick: run_faulty(root, tick))

    assert crashes(kill, tmp_path, digest, 1) > 20


def run_faulty(root: Path, tick: Callable[[], None]) -> None:
    run(faults.FaultyStore(LocalStore(root), tick))


def kill_at_file_call(number: int, root: Path) -> bool:
    return faults.killed_at_file_call(number, lambda: run_faulty(root, lambda: None))


def test_killed_at_some_system_calls_on_files(tmp_path, digest):
    """In the middle of a write as well: half of its bytes are there."""
    assert crashes(kill_at_file_call, tmp_path, digest, 37) > 100


@pytest.mark.nightly
def test_killed_at_every_system_call_on_files(tmp_path, digest):
    """The same at each of them."""
    assert crashes(kill_at_file_call, tmp_path, digest, 1) > 100


def test_a_killed_run_leaves_its_temporary_folder_and_no_more(tmp_path, digest, monkeypatch):
    """What lies there is of no use to anybody; a finished run, or a refused one, removes it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(LocalStore(tmp_path / "store"))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def run_at(root: str, start: Any, results: Any) -> None:
    start.wait()
    results.put(run(LocalStore(Path(root))).receipt.manifest)


def test_two_runs_at_once_both_publish_and_the_log_stays_dense(tmp_path, digest):
    """Processes that append to one log: the loser of each number takes the next."""
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(3), context.Queue()
    root = str(tmp_path / "store")
    workers = [context.Process(target=run_at, args=(root, start, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert found == [digest] * 3
    store = LocalStore(Path(root))
    entries = log.read_log(store, PAIR_ID)
    assert [entry.seq for entry in entries] == list(range(len(entries)))
    assert kinds(store).count("sidecar") == 3
    assert kinds(store)[-1] in ("manifest", "sidecar")
    nothing_half_done(store, digest)


def test_two_threads_may_run_in_one_process(tmp_path, digest):
    """As two tasks of one worker do."""
    store, found = LocalStore(tmp_path / "store"), []
    threads = [threading.Thread(target=lambda: found.append(run(store).receipt.manifest)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [digest] * 3
    nothing_half_done(store, digest)


def test_a_repeated_verdict_is_visible_and_logged_once_as_manifest(tmp_path, digest):
    """Each run appends its sidecar; the newest manifest entry already says the same."""
    store = LocalStore(tmp_path / "store")
    for shards in (1, 2, 5):
        assert run(store, shards).receipt.manifest == digest
    assert kinds(store).count("manifest") == 1
    assert kinds(store).count("sidecar") == 3
