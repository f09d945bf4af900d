"""The conformance suite of the seam of stores, run over every kind of store, and blobs on top of it."""

import hashlib
import io
import os
import threading
import time

import pytest
import stores

from airflow_delta_provider.core.errors import (
    FormatError,
    InputDigestError,
    ManifestDigestError,
    StoreConflictError,
    StoreFileError,
    StoreMissingError,
    StoreNotWriteOnceError,
    StoreSchemeError,
)
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.store import Store, exists, open_store, prepare_root

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
ABC_PATH = f"blobs/sha256/ba/78/{ABC}"
SLOT = "a" * 64


@pytest.fixture(params=stores.KINDS)
def store(request, tmp_path):
    return stores.fresh(request.param, request, tmp_path)


def test_each_kind_of_store_fits_the_seam(store):
    """Callers know the protocol alone."""
    assert isinstance(store, Store)


def test_the_first_create_wins_and_the_second_changes_nothing(store):
    """Evidence is never replaced."""
    assert store.create(ABC_PATH, b"abc") is True
    assert store.create(ABC_PATH, b"xyz") is False
    assert store.create(ABC_PATH, b"abc") is False
    assert store.read(ABC_PATH) == b"abc"


def test_a_file_is_stored_whole_from_its_beginning(store):
    """Where the caller left the file's position must not cut the artifact."""
    content = os.urandom(3 * 2**20 + 17)
    path = layout.blob_path(hashlib.sha256(content).hexdigest())
    file = io.BytesIO(content)
    file.read(5)
    assert store.create_from_file(path, file) is True
    assert store.create_from_file(path, file) is False
    assert store.read(path) == content


def test_an_open_file_reads_in_ranges(store):
    """Pages of a large body are read alone."""
    store.create(ABC_PATH, b"0123456789")
    with store.open(ABC_PATH) as file:
        file.seek(4)
        assert file.read(3) == b"456"
        assert file.seek(0, os.SEEK_END) == 10


def test_a_missing_file_is_missing_and_not_empty(store):
    """What could not be read has no content."""
    store.create(ABC_PATH, b"abc")
    other = layout.blob_path("0" * 64)
    for read in (store.read, store.open):
        with pytest.raises(StoreMissingError, match=r"\[DELTA_STORE_MISSING\] .*0000"):
            read(other)
    assert exists(store, ABC_PATH)
    assert not exists(store, other)


def test_a_file_has_a_time_at_which_it_was_written(store):
    """An audit tells by it what a crash left behind from what is under way."""
    store.create(ABC_PATH, b"abc")
    now = time.time()
    assert now - 600 < store.written_at(ABC_PATH) < now + 600
    with pytest.raises(StoreMissingError):
        store.written_at(layout.blob_path("0" * 64))


def test_a_store_that_is_not_there_is_missing(store):
    """A mistyped address ends in an error, not in an empty log."""
    with pytest.raises(StoreMissingError):
        store.read(ABC_PATH)
    assert list(store.list()) == []


def test_a_file_beyond_the_limit_is_refused(store):
    """A hostile store cannot fill memory."""
    store.create(ABC_PATH, b"0123456789")
    assert store.read(ABC_PATH, 10) == b"0123456789"
    with pytest.raises(StoreFileError, match=r"\[DELTA_STORE_FILE\] .*more than 9 bytes"):
        store.read(ABC_PATH, 9)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "..",
        "blobs/../format",
        f"blobs/sha256/ba/79/{ABC}",
        f"blobs/sha256/BA/78/{ABC.upper()}",
        f"blobs/sha256/ba/78/{ABC}\n",
        f"blobs/sha256/ba/78/{ABC}/x",
        "pairs/orders/pair.json",
        f"pairs/{'a' * 32}/log/1.json",
        f"pairs/{'a' * 32}/log/{'1' * 21}.json",
        f"pairs/{'a' * 32}/log/{'١' * 20}.json",
        f"pairs/{'a' * 32}/slots/other/{ABC}.json",
        "probe/.tmp-1",
    ],
)
def test_only_paths_of_the_layout_exist(store, path):
    """No name from outside ever becomes a path."""
    for call in (store.read, store.open, lambda p: store.create(p, b"x")):
        with pytest.raises(StoreFileError, match=r"\[DELTA_STORE_FILE\]"):
            call(path)


def test_the_root_is_marked_and_probed_at_first_use(store):
    """A store that lets a second create win must be found out before evidence goes into it."""
    store.create(ABC_PATH, b"abc")
    assert store.read("format") == b"delta-store/1\n"
    found = list(store.list())
    assert [path for path in found if not path.startswith("probe/")] == [ABC_PATH, "format"]
    assert len(list(store.list("probe"))) == 1
    assert list(store.list("blobs")) == [ABC_PATH]
    assert list(store.list("pairs")) == []


def test_only_work_can_be_removed(store):
    """There is no way to remove evidence through a store."""
    work = blobs.put_work(store, SLOT, b"abc")
    more = blobs.put_work(store, SLOT, b"abcd")
    kept = blobs.put_work(store, "b" * 64, b"abc")
    blobs.put_blob(store, b"abc")
    for prefix in ("", "work", "blobs", "work/../blobs", ABC_PATH, "format", f"work/{'a' * 32}/"):
        with pytest.raises(StoreFileError, match="is not below work/"):
            store.remove_work(prefix)
    store.remove_work(layout.work_path(SLOT, more))
    assert list(store.list(f"work/{'a' * 32}")) == [f"work/{'a' * 32}/{work}"]
    store.remove_work(layout.work_folder(SLOT))
    store.remove_work(layout.work_folder(SLOT))
    assert list(store.list("work")) == [f"work/{'b' * 32}/{kept}"]
    assert blobs.get_blob(store, ABC) == b"abc"
    assert blobs.put_work(store, SLOT, b"abc") == work


def test_many_files_of_work_are_removed_at_once(store, monkeypatch):
    """A run of a hundred thousand shards leaves several for each; one that is no work refuses them all."""
    monkeypatch.setattr("airflow_delta_provider.core.store.objects.REMOVE_BATCH", 8)
    digests = [blobs.put_work(store, SLOT, str(number).encode()) for number in range(20)]
    kept = blobs.put_work(store, SLOT, b"kept")
    paths = [layout.work_path(SLOT, digest) for digest in digests]
    with pytest.raises(StoreFileError, match="is not below work/"):
        store.remove_work(*paths, ABC_PATH)
    assert len(list(store.list("work"))) == 21
    store.remove_work(*paths, paths[0], layout.work_folder("b" * 64))
    assert list(store.list("work")) == [layout.work_path(SLOT, kept)]
    store.remove_work()


def test_of_many_threads_one_creates(store):
    """Create if absent holds under concurrency, or two writers would both own a log entry."""
    wins: list[bytes] = []
    store.create(layout.blob_path("0" * 64), b"")

    def race(content: bytes) -> None:
        if store.create(ABC_PATH, content):
            wins.append(content)

    threads = [threading.Thread(target=race, args=(bytes([n]) * 1000,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert store.read(ABC_PATH) == wins[0]


def test_a_blob_lies_under_its_digest(store):
    """Bytes and files of the same content are one blob."""
    assert blobs.put_blob(store, b"abc") == ABC
    assert blobs.put_blob(store, io.BytesIO(b"abc")) == ABC
    assert store.read(ABC_PATH) == b"abc"
    assert blobs.get_blob(store, ABC) == b"abc"
    with blobs.open_blob(store, ABC) as file:
        assert file.read() == b"abc"


def test_a_work_artifact_is_read_and_checked_like_a_blob(store):
    """Resuming from a damaged artifact would give a wrong verdict."""
    assert blobs.put_work(store, SLOT, io.BytesIO(b"abc")) == ABC
    assert blobs.get_work(store, SLOT, ABC) == b"abc"
    with blobs.open_work(store, SLOT, ABC) as file:
        assert file.read() == b"abc"
    store.create(layout.work_path(SLOT, "0" * 64), b"abc")
    with pytest.raises(StoreConflictError, match=r"\[DELTA_STORE_CONFLICT\]"):
        blobs.get_work(store, SLOT, "0" * 64)


@pytest.mark.parametrize("stored", [b"ab", b"abd", b"abcd", b""], ids=["shorter", "changed", "longer", "empty"])
@pytest.mark.parametrize("content", [b"abc", io.BytesIO(b"abc")], ids=["bytes", "file"])
def test_other_bytes_under_the_digest_are_a_conflict(store, stored, content):
    """A store that was tampered with is not written over, and not taken for success."""
    store.create(ABC_PATH, stored)
    with pytest.raises(StoreConflictError, match=r"\[DELTA_STORE_CONFLICT\] .*other bytes"):
        blobs.put_blob(store, content)


def test_a_changed_blob_does_not_come_back(store):
    """The caller names the code, since a changed manifest and a changed body are different findings."""
    store.create(ABC_PATH, b"abd")
    with pytest.raises(StoreConflictError, match=r"\[DELTA_STORE_CONFLICT\] Stored under ba7816bf"):
        blobs.get_blob(store, ABC)
    with pytest.raises(ManifestDigestError, match=r"\[DELTA_MANIFEST_DIGEST\]"):
        blobs.get_blob(store, ABC, error=ManifestDigestError)


@pytest.mark.parametrize("digest", ["", "abc", ABC.upper(), ABC + "\n", "../" + ABC[3:], None])
def test_text_that_is_no_digest_is_refused(store, digest):
    """A digest comes from people and XCom."""
    with pytest.raises(InputDigestError, match=r"\[DELTA_INPUT_DIGEST\]"):
        blobs.get_blob(store, digest)


def test_a_store_that_overwrites_in_silence_is_refused():
    """Some object stores take a second create and say nothing."""
    files: dict[str, bytes] = {}

    def create(path: str, data: bytes) -> bool:
        files[path] = data
        return True

    def read(path: str, limit_bytes: int) -> bytes:
        if path not in files:
            raise StoreMissingError(path)
        return files[path]

    with pytest.raises(StoreNotWriteOnceError, match=r"\[DELTA_STORE_NOT_WRITE_ONCE\] s3://bucket"):
        prepare_root("s3://bucket", create, read)
    assert "format" not in files


def test_a_store_that_says_no_but_overwrites_is_refused():
    """The answer alone proves nothing: the first bytes must still be there."""
    files: dict[str, bytes] = {}

    def create(path: str, data: bytes) -> bool:
        absent = path not in files
        files[path] = data
        return absent

    def read(path: str, limit_bytes: int) -> bytes:
        if path not in files:
            raise StoreMissingError(path)
        return files[path]

    with pytest.raises(StoreNotWriteOnceError):
        prepare_root("s3://bucket", create, read)


def test_a_store_of_another_format_is_not_read_and_not_written(tmp_path):
    """A newer version may mean other things by the same paths."""
    (tmp_path / "format").write_bytes(b"delta-store/2\n")
    for call in (lambda s: s.read(ABC_PATH), lambda s: s.create(ABC_PATH, b"abc")):
        with pytest.raises(FormatError, match=r"\[DELTA_FORMAT\].*delta-store/2"):
            call(LocalStore(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["format"]


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}", "FILE://{}"])
def test_a_folder_opens_by_path_and_by_uri(tmp_path, form):
    """The command line takes both."""
    root = tmp_path / "a store"
    text = str(root) if form == "{}" else form.format(str(root).replace(" ", "%20"))
    blobs.put_blob(open_store(text), b"abc")
    assert (root / ABC_PATH).read_bytes() == b"abc"


@pytest.mark.parametrize("uri", ["gopher://x", "", "file://host/folder", "c3://x/y"])
def test_an_address_that_no_store_answers_to_is_refused(uri):
    """A typing error must not become a folder named after it."""
    with pytest.raises(StoreSchemeError, match=r"\[DELTA_STORE_SCHEME\]"):
        open_store(uri)
