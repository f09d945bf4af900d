"""Publications over stores that fail, hang or lie about it, over many processes, and over processes that are killed.

Whatever goes wrong, a rerun ends with the same evidence, and a full audit of the store finds nothing.
"""

import contextlib
import itertools
import multiprocessing
import random
import secrets
import signal
import time
from pathlib import Path

import object_fake
import publications
import pytest
import stores

from airflow_delta_provider.core import log
from airflow_delta_provider.core.audit import audit
from airflow_delta_provider.core.errors import ConnectError, StoreMissingError, StoreReadError, StoreWriteError
from airflow_delta_provider.core.store import object_client, objects, open_store
from airflow_delta_provider.core.store.objects import ObjectStorage
from airflow_delta_provider.core.store.publish import publish
from airflow_delta_provider.core.store.store import Store

POINTS_MAX = 200
KINDS = ("local", "memory", "s3")
RETRYABLE = (ConnectError, StoreReadError, StoreWriteError)


class FailingStore:
    """A store whose n-th call goes wrong: ``fails`` and ``times out`` before it is done, ``answers wrongly`` after."""

    def __init__(self, store: Store, number: int, how: str) -> None:
        self._store, self.left, self._how = store, number, how
        self.uri = store.uri

    def _through(self, call, *arguments):
        self.left -= 1
        if self.left:
            return call(*arguments)
        if self._how == "fails":
            raise StoreWriteError("the storage answers 500.")
        if self._how == "times out":
            raise ConnectError("the storage does not answer.")
        call(*arguments)
        raise StoreReadError("the storage answers 500, though it is done.")

    def create(self, path, data):
        return self._through(self._store.create, path, data)

    def create_from_file(self, path, file):
        return self._through(self._store.create_from_file, path, file)

    def read(self, path, limit_bytes=2**26):
        return self._through(self._store.read, path, limit_bytes)

    def open(self, path):
        return self._through(self._store.open, path)

    def list(self, prefix=""):
        return self._store.list(prefix)

    def written_at(self, path):
        return self._through(self._store.written_at, path)

    def remove_work(self, *prefixes):
        return self._through(self._store.remove_work, *prefixes)


def whole(store: Store) -> list[str]:
    """Return the kinds in the log; a full audit must find nothing, and nothing that is visible may lack anything."""
    try:
        result = audit(store)
    except StoreMissingError:  # nothing was written yet
        return []
    assert result.findings == []
    kinds = []
    for pair in result.pairs:
        assert pair.findings == []
        assert [manifest.findings for manifest in pair.manifests if manifest.findings] == []
        kinds += [entry.kind for entry in pair.log.entries]
    return kinds


@pytest.mark.parametrize("how", ["fails", "times out", "answers wrongly"])
@pytest.mark.parametrize("kind", KINDS)
def test_whichever_call_goes_wrong_a_rerun_completes_the_publication(kind, how, request, tmp_path):
    """n = 1, 2, 3 ... until it succeeds; then everything is audited."""
    sign = publications.signer()
    for number in itertools.count(1):
        place = tmp_path / str(number)
        place.mkdir()
        store = stores.fresh(kind, request, place)
        failing = FailingStore(store, number, how)
        with contextlib.suppress(*RETRYABLE):
            publish(failing, publications.example(), sign=sign, slot_hex=publications.SLOT)
        assert whole(store) == ["envelope", "sidecar", "manifest"][: len(whole(store))]
        receipt = publish(store, publications.example(), sign=sign, slot_hex=publications.SLOT)
        assert (receipt.manifest, receipt.reused) == (publications.MANIFEST, False)
        assert whole(store)[:3] == ["envelope", "sidecar", "manifest"]
        if failing.left > 0:
            break
        assert number < POINTS_MAX
    assert number > 15


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("how", ["refused", "dropped", "answered", "lost"])
def test_one_request_that_goes_wrong_is_never_noticed(how, step, monkeypatch):
    """Below the store, at the wire: a single bad answer or broken connection is retried, and done once."""
    monkeypatch.setattr(objects, "CREATE_PAUSE_S", 0.01)
    monkeypatch.setattr(object_client, "BACKOFF_FIRST_S", 0.01)
    for number in itertools.count(1, step):
        with object_fake.fake_storage() as fake:
            store = ObjectStorage("s3://bucket/root", fake.s3_options)
            fake.fault = lambda n, method, number=number: how if n == number else ""
            receipt = publish(store, publications.example(), sign=publications.signer(), slot_hex=publications.SLOT)
            done = fake.requests < number
            assert (receipt.manifest, receipt.reused) == (publications.MANIFEST, False)
            assert whole(store) == ["envelope", "sidecar", "manifest"]
        if done:
            break
        assert number < POINTS_MAX
    assert number > 15


def address(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """Return a fresh address that other processes can open, and its options."""
    if kind == "local":
        return str(tmp_path / "store"), {}
    server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("s3_bucket")
    return f"s3://{bucket}/{secrets.token_hex(8)}", server.options


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_hundred_publications_from_eight_processes_are_all_there_once(kind, request, tmp_path):
    """Mapped tasks of many runs publish to one pair at the same moment: no gap, no fork, nothing lost."""
    uri, options = address(kind, request, tmp_path)
    context = multiprocessing.get_context("spawn")
    parts = [list(range(100))[start::8] for start in range(8)]
    workers = [context.Process(target=publications.publish_many, args=(uri, options, part)) for part in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert [worker.exitcode for worker in workers] == [0] * 8
    store = open_store(uri, options)
    kinds = whole(store)
    assert kinds.count("sidecar") == 100
    entries = log.read_log(store, publications.PAIR_ID, listed=True)
    named = [entry.ref for entry in entries if entry.kind == "manifest"]
    assert sorted(named) == sorted(publications.manifest_of(number) for number in range(100))
    runs = {publications.run_of(store, entry.ref) for entry in entries if entry.kind == "sidecar"}
    assert runs == {f"run-{number}" for number in range(100)}


def started(uri: str, options: dict[str, str], number: int) -> multiprocessing.Process:
    """Return a process that begins to publish at this moment; its imports are done."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(publications.PRELOADED)
    here, there = context.Pipe()
    process = context.Process(target=publications.publish_when_told, args=(there, uri, options, number))
    process.start()
    assert here.recv() == "ready"
    here.send("go")
    return process


def killed_round(uri: str, options: dict[str, str], number: int, after_s: float) -> bool:
    """Publish in another process that is killed after some time; tell whether it was killed."""
    process = started(uri, options, number)
    time.sleep(after_s)
    process.kill()
    process.join(60)
    return process.exitcode == -signal.SIGKILL


def soak(uri: str, options: dict[str, str], rounds: int) -> int:
    """Kill publications at random moments, complete each, audit all; return how many were really killed."""
    chance, killed, store = random.Random(8), 0, open_store(uri, options)
    first, before = started(uri, options, 0), time.monotonic()
    first.join(60)
    whole_s = time.monotonic() - before
    for number in range(1, rounds):
        killed += killed_round(uri, options, number, chance.uniform(0, whole_s))
        if number % 40 == 1:
            whole(store)
        publications.publish_many(uri, options, [number])
    whole(store)
    entries = log.read_log(store, publications.PAIR_ID, listed=True)
    named = [entry.ref for entry in entries if entry.kind == "manifest"]
    assert named == [publications.manifest_of(number) for number in range(rounds)]
    return killed


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_processes_killed_at_random_moments_lose_nothing(kind, request, tmp_path):
    """The short form of the soak."""
    assert soak(*address(kind, request, tmp_path), rounds=6) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_two_hundred_processes_killed_at_random_moments_lose_nothing(kind, request, tmp_path):
    """Nothing lost, nothing half-visible, nothing twice."""
    assert soak(*address(kind, request, tmp_path), rounds=200) > 50
