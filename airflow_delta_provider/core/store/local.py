"""A store in a local folder: write-once, crash-safe, and closed to links, devices and shared permissions."""

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from airflow_delta_provider.core.errors import StoreFileError, StoreMissingError, StoreReadError, StoreWriteError
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import READ_BYTES_MAX, is_prepared, prepare_root

TEMP_PREFIX = ".tmp-"
FILE_MODE = 0o444
FOLDER_MODE = 0o775
COPY_BYTES = 2**20
LINK_CHECKS_MAX = 5
FOLDER_DEPTH_MAX = 8
DURABLE_FOLDERS_MAX = 2**17

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_TEMP_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO)


class LocalStore:
    """A ``Store`` in a folder, safe under parallel processes and kill -9.

    A file is written as ``.tmp-<random>`` beside its place, synced, hard-linked to its name (which fails if
    the name is taken), and the folder synced; what a crash leaves behind is never visible under a path.
    Below the root no link is followed, and nothing but plain files that only their owner may write is read.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.expanduser()
        self._ready = False
        self._durable: set[tuple[str, ...]] = set()

    @property
    def uri(self) -> str:
        """The folder, as it was given."""
        return str(self._root)

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` under ``path`` if nothing is there.

        Raises: StoreFileError (DELTA_STORE_FILE), StoreWriteError (DELTA_STORE_WRITE).
        """
        layout.checked_path(path)
        self._prepare()
        return self._create(path, data)

    def create_from_file(self, path: str, file: BinaryIO) -> bool:
        """Write all bytes of a seekable file under ``path`` if nothing is there.

        Raises: StoreFileError (DELTA_STORE_FILE), StoreWriteError (DELTA_STORE_WRITE).
        """
        layout.checked_path(path)
        self._prepare()

        def copy(target: int) -> None:
            file.seek(0)
            while chunk := file.read(COPY_BYTES):
                _write_all(target, chunk)

        return self._create_with(path, copy)

    def read(self, path: str, limit_bytes: int = READ_BYTES_MAX) -> bytes:
        """Return all bytes under ``path``.

        Raises: StoreMissingError (DELTA_STORE_MISSING), StoreFileError (DELTA_STORE_FILE), StoreReadError
        (DELTA_STORE_READ).
        """
        return _read_all(self.open(path), path, limit_bytes)

    def open(self, path: str) -> BinaryIO:
        """Return a seekable stream over the file under ``path``.

        Raises: StoreMissingError (DELTA_STORE_MISSING), StoreFileError (DELTA_STORE_FILE), StoreReadError
        (DELTA_STORE_READ).
        """
        layout.checked_path(path)
        if not self._ready:
            if not is_prepared(self.uri, self._read):
                raise StoreMissingError(f"There is no store at {self.uri}, so it holds no {path}.", where=path)
            self._ready = True
        return self._open(path)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the path of everything below ``prefix`` that is no folder, in order; temporary files are left out."""
        folders = [part for part in prefix.split("/") if part]
        if any(part in (".", "..") for part in folders):
            raise StoreFileError(f"{prefix!r} is no folder of a store.", where=prefix)
        yield from self._walk(folders)

    def written_at(self, path: str) -> float:
        """Return when the file was last changed, in seconds since 1970.

        Raises: StoreMissingError (DELTA_STORE_MISSING), StoreFileError (DELTA_STORE_FILE), StoreReadError
        (DELTA_STORE_READ).
        """
        with self.open(path) as file, _told(path, StoreReadError):
            return os.fstat(file.fileno()).st_mtime

    def remove_work(self, *prefixes: str) -> None:
        """Remove each ``work/<folder>`` or file in one; links and folders put there by hand are not followed.

        Raises: StoreFileError (DELTA_STORE_FILE), StoreWriteError (DELTA_STORE_WRITE).
        """
        for checked in [layout.checked_work_prefix(prefix) for prefix in prefixes]:
            self._remove(checked)

    def _remove(self, prefix: str) -> None:
        folders = prefix.split("/")
        with contextlib.suppress(StoreMissingError), _told(prefix, StoreWriteError):
            if len(folders) == 3:
                with self._folder(folders[:2], prefix) as folder, contextlib.suppress(FileNotFoundError):
                    os.unlink(folders[2], dir_fd=folder)
                return
            with self._folder(folders, prefix) as folder:
                for name in _names(folder):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
            self._durable.discard(tuple(folders))
            with self._folder(folders[:1], prefix) as work, contextlib.suppress(FileNotFoundError):
                os.rmdir(folders[1], dir_fd=work)

    def _prepare(self) -> None:
        if not self._ready:
            with _told(self.uri, StoreWriteError):
                self._root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            prepare_root(self.uri, self._create, self._read)
            self._ready = True

    def _read(self, path: str, limit_bytes: int) -> bytes:
        return _read_all(self._open(path), path, limit_bytes)

    def _open(self, path: str) -> BinaryIO:
        *folders, name = path.split("/")
        with _told(path, StoreReadError), self._folder(folders, path) as folder:
            try:
                _check_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
                file = os.open(name, _READ_FLAGS, dir_fd=folder)
            except FileNotFoundError:
                raise StoreMissingError(f"{self.uri} holds no {path}.", where=path) from None
            with contextlib.ExitStack() as undo:
                undo.callback(os.close, file)
                _check_links(folder, file, path)
                stream = os.fdopen(file, "rb")
                undo.pop_all()  # the stream owns it now
                return stream

    def _create(self, path: str, data: bytes) -> bool:
        return self._create_with(path, lambda target: _write_all(target, data))

    def _create_with(self, path: str, write: Callable[[int], None]) -> bool:
        *folders, name = path.split("/")
        with _told(path, StoreWriteError), self._folder(folders, path, make=True) as folder:
            if _name_taken(folder, name):
                _sync(folder)  # the winner may not have come to this yet, and our caller will refer to the file
                return False
            temp = TEMP_PREFIX + secrets.token_hex(16)
            target = os.open(temp, _TEMP_FLAGS, 0o600, dir_fd=folder)
            try:
                try:
                    write(target)
                    os.fchmod(target, FILE_MODE)
                    _sync(target)
                finally:
                    os.close(target)
                created = _link(folder, temp, name)
                _sync(folder)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temp, dir_fd=folder)
            return created

    @contextlib.contextmanager
    def _folder(self, folders: Sequence[str], path: str, make: bool = False) -> Iterator[int]:
        """Open a folder part by part without following links; ``make`` creates what is missing, durably."""
        try:
            here = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StoreMissingError(f"{self.uri} does not exist, so it holds no {path}.", where=path) from None
        try:
            for depth, name in enumerate(folders, start=1):
                below = self._step(here, name, tuple(folders[:depth]), path, make)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _step(self, here: int, name: str, whole: tuple[str, ...], path: str, make: bool) -> int:
        if make and whole not in self._durable:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODE, dir_fd=here)
            _sync(here)
            if len(self._durable) < DURABLE_FOLDERS_MAX:
                self._durable.add(whole)
        try:
            below = os.open(name, _FOLDER_FLAGS, dir_fd=here)
        except FileNotFoundError:
            if make and whole in self._durable:  # a work folder that another process has removed
                self._durable.discard(whole)
                return self._step(here, name, whole, path, make)
            raise StoreMissingError(f"{self.uri} holds no {path}.", where=path) from None
        if os.fstat(below).st_mode & stat.S_IWOTH:
            os.close(below)
            raise StoreFileError(f"Everybody may write to folder {'/'.join(whole)}.", where=path)
        return below

    def _walk(self, folders: Sequence[str]) -> Iterator[str]:
        here = "/".join(folders)
        if len(folders) > FOLDER_DEPTH_MAX:  # nothing of ours lies that deep: name it and stay out
            yield here
            return
        try:
            with _told(here, StoreReadError), self._folder(folders, here) as folder, os.scandir(folder) as found:
                entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
        except StoreMissingError:
            return
        for name, is_folder in entries:
            if is_folder:
                yield from self._walk([*folders, name])
            elif not name.startswith(TEMP_PREFIX):
                yield "/".join([*folders, name])


@contextlib.contextmanager
def _told(path: str, error: type[StoreReadError] | type[StoreWriteError]) -> Iterator[None]:
    """Turn an error of the operating system into ours; a link in the way is always DELTA_STORE_FILE."""
    try:
        yield
    except OSError as cause:
        reason = f"{path}: {cause.strerror or cause}"
        if cause.errno in _LINK_ERRORS:
            raise StoreFileError(f"{reason}; it is no plain file or folder.", where=path) from cause
        raise error(f"{reason}.", where=path) from cause


def _read_all(opened: BinaryIO, path: str, limit_bytes: int) -> bytes:
    with opened, _told(path, StoreReadError):
        data = opened.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise StoreFileError(f"{path} has more than {limit_bytes} bytes.", where=path)
    return data


def _check_plain(seen: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise StoreFileError(f"{path} is a {stat.filemode(seen.st_mode)[0]!r}, not a plain file.", where=path)
    if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreFileError(f"{path} may be written by others ({stat.filemode(seen.st_mode)}).", where=path)


def _check_links(folder: int, file: int, path: str) -> None:
    """Refuse a file that has a name elsewhere; a temporary name of ours beside it, left by a crash, is none."""
    for _ in range(LINK_CHECKS_MAX):
        seen = os.fstat(file)
        _check_plain(seen, path)
        if seen.st_nlink <= 1 + _temporary_names(folder, seen):
            return
    raise StoreFileError(f"{path} has {seen.st_nlink} names, one of them outside this folder.", where=path)


def _temporary_names(folder: int, seen: os.stat_result) -> int:
    if seen.st_nlink <= 1:
        return 0
    names = 0
    for name in _names(folder):
        if name.startswith(TEMP_PREFIX):
            with contextlib.suppress(FileNotFoundError):
                other = os.stat(name, dir_fd=folder, follow_symlinks=False)
                names += (other.st_dev, other.st_ino) == (seen.st_dev, seen.st_ino)
    return names


def _names(folder: int) -> Sequence[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found]


def _name_taken(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _link(folder: int, temp: str, name: str) -> bool:
    try:
        os.link(temp, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    return True


def _write_all(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(target, left) :]


def _sync(handle: int) -> None:
    """Bring a file or folder to the medium; plain fsync stops at the drive's cache on macOS."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
        except OSError:  # file systems that know no full sync, folders among them
            pass
    os.fsync(handle)
