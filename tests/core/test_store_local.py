"""The local store against what may lie in its way: links, devices, permissions, crashes, other processes."""

import multiprocessing
import os
import socket
import stat
from pathlib import Path

import pytest

from airflow_delta_provider.core.errors import StoreFileError, StoreMissingError, StoreReadError, StoreWriteError
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.local import LocalStore

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
ABC_PATH = f"blobs/sha256/ba/78/{ABC}"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(root):
    store = LocalStore(root)
    blobs.put_blob(store, b"abc")
    return store


def test_a_stored_file_is_read_only_and_alone(store, root):
    """Nobody changes evidence by accident, and a finished write leaves nothing beside it."""
    seen = (root / ABC_PATH).stat()
    assert stat.S_IMODE(seen.st_mode) == 0o444
    assert seen.st_nlink == 1
    assert [path.name for path in (root / ABC_PATH).parent.iterdir()] == [ABC]


def replace(path: Path, make) -> None:
    path.unlink()
    make(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/etc/hostname"),
        lambda path: path.symlink_to("nowhere"),
        lambda path: os.mkfifo(path, 0o444),
        lambda path: path.mkdir(),
        lambda path: (
            socket.socket(socket.AF_UNIX).bind(f"/proc/self/fd/{os.open(path.parent, os.O_RDONLY)}/s")
            or (path.parent / "s").rename(path)
        ),
    ],
    ids=["link", "dangling link", "fifo", "folder", "socket"],
)
def test_what_is_no_plain_file_is_refused_and_not_followed(store, root, make):
    """A link could lead anywhere and a FIFO would block for ever."""
    if not Path("/proc/self/fd").exists():
        pytest.xfail("sockets in deep folders are made through /proc")
    replace(root / ABC_PATH, make)
    for call in (store.read, store.open):
        with pytest.raises(StoreFileError, match=r"\[DELTA_STORE_FILE\]"):
            call(ABC_PATH)
    assert store.create(ABC_PATH, b"abc") is False
    with pytest.raises(StoreFileError):
        blobs.put_blob(store, b"abc")


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_linked_folder_is_refused_and_not_followed(store, root, depth, tmp_path):
    """Every part of a path is opened without following links."""
    folder = root.joinpath(*ABC_PATH.split("/")[:depth])
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    for call in (store.read, lambda path: store.create(path, b"abc"), lambda path: LocalStore(root).create(path, b"")):
        with pytest.raises(StoreFileError, match=r"\[DELTA_STORE_FILE\]"):
            call(ABC_PATH)


def test_a_file_in_the_place_of_a_folder_is_refused(root):
    """The answer is a code, not a traceback."""
    root.mkdir()
    (root / "blobs").write_bytes(b"")
    with pytest.raises(StoreFileError, match=r"\[DELTA_STORE_FILE\]"):
        blobs.put_blob(LocalStore(root), b"abc")


def test_a_hard_link_from_elsewhere_is_refused(store, root, tmp_path):
    """Whoever holds another name may change the file after it was checked."""
    os.link(root / ABC_PATH, tmp_path / "other")
    with pytest.raises(StoreFileError, match=r"\[DELTA_STORE_FILE\] .* has 2 names"):
        store.read(ABC_PATH)


def test_a_temporary_name_left_by_a_crash_is_harmless(store, root):
    """kill -9 between link and unlink leaves a second name of ours; the file is whole."""
    os.link(root / ABC_PATH, (root / ABC_PATH).parent / ".tmp-0123")
    assert store.read(ABC_PATH) == b"abc"
    assert blobs.put_blob(store, b"abc") == ABC
    assert list(store.list("blobs")) == [ABC_PATH]


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused(store, root, mode):
    """Such a file may be another one by the time its digest was checked."""
    (root / ABC_PATH).chmod(mode)
    with pytest.raises(StoreFileError, match="may be written by others"):
        store.read(ABC_PATH)


def test_a_folder_that_everybody_may_write_is_refused(store, root):
    """Whoever may write the folder may swap the file."""
    (root / "blobs").chmod(0o777)
    with pytest.raises(StoreFileError, match="Everybody may write to folder blobs"):
        store.read(ABC_PATH)


def test_a_root_that_is_a_link_is_followed(store, root, tmp_path):
    """The root is named by its user: links above it are theirs (on macOS /tmp is one)."""
    (tmp_path / "link").symlink_to(root, target_is_directory=True)
    assert LocalStore(tmp_path / "link").read(ABC_PATH) == b"abc"


def test_foreign_files_are_listed_and_foreign_trees_are_not_entered(store, root, tmp_path):
    """An audit must see what does not belong here, whatever its depth."""
    (root / "blobs" / "NOTES.txt").write_text("mine")
    (root / "away").symlink_to(tmp_path)
    deep = root.joinpath("deep", *["x"] * 12)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    found = list(store.list())
    assert "blobs/NOTES.txt" in found
    assert "away" in found
    assert [path for path in found if path.startswith("deep")] == ["deep" + "/x" * 8]


def test_a_link_in_work_is_removed_and_not_followed(store, root, tmp_path):
    """Cleaning up must not reach out of the store."""
    blobs.put_work(store, "a" * 64, b"abc")
    (tmp_path / "precious").write_text("x")
    (root / "work" / ("a" * 32) / "link").symlink_to(tmp_path / "precious")
    store.remove_work(layout.work_folder("a" * 64))
    assert (tmp_path / "precious").exists()
    assert not (root / "work" / ("a" * 32)).exists()
    (root / "work" / ("b" * 32)).symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(StoreFileError):
        store.remove_work(layout.work_folder("b" * 64))
    assert (tmp_path / "precious").exists()


def test_a_removed_work_folder_is_made_anew(store, root):
    """Another process may clean the folder between two writes of this one."""
    blobs.put_work(store, "a" * 64, b"abc")
    LocalStore(root).remove_work(layout.work_folder("a" * 64))
    assert blobs.put_work(store, "a" * 64, b"abc") == ABC


def test_a_full_disk_is_a_failure_that_a_retry_may_cure(store, monkeypatch):
    """No half file stays behind, and the code tells a full disk from a hostile store."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreWriteError, match=r"\[DELTA_STORE_WRITE\] .*No space left on device") as caught:
        blobs.put_blob(store, b"abcd")
    assert caught.value.retryable
    monkeypatch.undo()
    with pytest.raises(StoreMissingError):
        blobs.get_blob(store, "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589")
    assert not [path for path in store.list() if ".tmp" in path]
    assert blobs.put_blob(store, b"abcd") == "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589"


def test_a_store_that_may_not_be_read_is_a_failure_that_has_no_verdict(store, monkeypatch):
    """No permission is neither a missing artifact nor a hostile file."""

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    for call in (store.read, store.open, lambda path: list(store.list())):
        with pytest.raises(StoreReadError, match=r"\[DELTA_STORE_READ\] .*Permission denied"):
            call(ABC_PATH)


def test_nothing_happens_before_first_use(root):
    """Building a store object touches no disk, and reading does not make a folder."""
    store = LocalStore(root)
    with pytest.raises(StoreMissingError):
        store.read(ABC_PATH)
    assert not root.exists()


def put_many(root: str, start: "multiprocessing.synchronize.Barrier", wins: "multiprocessing.Queue[int]") -> None:
    start.wait()
    store = LocalStore(Path(root))
    won = 0
    for number in range(20):
        blobs.put_blob(store, b"shared %d" % number)
        won += store.create(layout.slot_path("a" * 32, "run", f"{number:064x}"), b"%d" % os.getpid())
    wins.put(won)


def test_processes_share_a_new_root(root):
    """Mapped tasks meet in a store that none of them has made before."""
    context = multiprocessing.get_context("fork")
    barrier, wins = context.Barrier(4), context.Queue()
    workers = [context.Process(target=put_many, args=(str(root), barrier, wins)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert sum(wins.get() for _ in workers) == 20
    store = LocalStore(root)
    assert len(list(store.list("blobs"))) == 20
    assert len(list(store.list("pairs"))) == 20
