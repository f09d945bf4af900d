"""A store in object storage (S3 and compatible, Google Cloud Storage, Azure Blob): conditional create and ranged reads."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

from airflow_delta_provider.core.errors import (
    LimitError,
    StoreFileError,
    StoreMissingError,
    StoreReadError,
    StoreWriteError,
)
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.object_client import connect, failures, obstore_module, refused
from airflow_delta_provider.core.store.ranges import RangeReader
from airflow_delta_provider.core.store.store import READ_BYTES_MAX, is_prepared, prepare_root

PUT_BYTES_MAX = 5000 * 2**20
"""Largest artifact: what all three storages take in one conditional write (Azure 5,000 MiB, the others a little more)."""

SMALL_BYTES_MAX = 8 * 2**20
"""What is uploaded from memory, in one request that may last as long as any other; larger files are mapped."""

CREATE_ATTEMPTS_MAX = 4
CREATE_PAUSE_S = 0.2
STREAM_BYTES = 2**20
REMOVE_BATCH = 1000

_Answer = TypeVar("_Answer")


class ObjectStorage:
    """A ``Store`` below ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.

    Shape: ``options`` are settings of the storage by name, such as ``endpoint``, ``region`` or ``access_key_id``; what
    they leave open comes from the environment. They are in no message and no address.
    An artifact is written by one conditional request, so it is there whole or not at all. A multipart upload would
    not do: its last request is not conditional everywhere.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        self._options = dict(options or {})
        self._storage = connect(uri, self._options)
        self._ready = False

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStorage, (self._storage.uri, self._options)

    def __repr__(self) -> str:
        return f"ObjectStorage({self._storage.uri!r})"

    @property
    def uri(self) -> str:
        """The address, without credentials."""
        return self._storage.uri

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` under ``path`` if nothing is there.

        Raises: StoreWriteError (DELTA_STORE_WRITE), StoreNotWriteOnceError (DELTA_STORE_NOT_WRITE_ONCE), ConnectError
        (DELTA_CONNECT), LimitError (DELTA_LIMIT) for more than ``PUT_BYTES_MAX``.
        """
        layout.checked_path(path)
        self._prepare()
        return self._create(path, data)

    def create_from_file(self, path: str, file: BinaryIO) -> bool:
        """Write all bytes of a seekable file under ``path`` if nothing is there; a large one is mapped, not read.

        Raises: as ``create``.
        """
        layout.checked_path(path)
        self._prepare()
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= SMALL_BYTES_MAX:
            return self._create(path, file.read())
        if size > PUT_BYTES_MAX:
            raise LimitError(f"{path} has {size} bytes; one conditional write takes {PUT_BYTES_MAX}.", where=path)
        with contextlib.ExitStack() as open_files:
            whole = mmap.mmap(_handle_of(file, open_files), size, access=mmap.ACCESS_READ)
            try:
                return self._create(path, whole, self._storage.patient)
            finally:
                with contextlib.suppress(BufferError):  # the client may let go of its view a moment later
                    whole.close()

    def read(self, path: str, limit_bytes: int = READ_BYTES_MAX) -> bytes:
        """Return all bytes under ``path``; more than ``limit_bytes`` are refused before they are fetched.

        Raises: StoreMissingError (DELTA_STORE_MISSING), StoreFileError (DELTA_STORE_FILE), StoreReadError
        (DELTA_STORE_READ), ConnectError (DELTA_CONNECT).
        """
        layout.checked_path(path)
        self._demand_store(path)
        return self._read(path, limit_bytes)

    def open(self, path: str) -> BinaryIO:
        """Return a seekable stream; a seek and a read fetch that range, and reading on fetches ever larger ones.

        Raises: StoreMissingError (DELTA_STORE_MISSING), StoreReadError (DELTA_STORE_READ), ConnectError
        (DELTA_CONNECT).
        """
        layout.checked_path(path)
        self._demand_store(path)
        size = self._size(path)
        store = self._storage.client()

        def fetch(start: int, end: int) -> bytes:
            return self._ask(path, lambda: bytes(obstore_module().get_range(store, path, start=start, end=end)))

        return io.BufferedReader(RangeReader(size, fetch), STREAM_BYTES // 16)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the path of everything below ``prefix``.

        Raises: StoreFileError (DELTA_STORE_FILE) for a prefix or a found name with ``.``, ``..`` or an empty part.
        """
        folder = "/".join(part for part in prefix.split("/") if part)
        if any(part in (".", "..") for part in folder.split("/")):
            raise StoreFileError(f"{prefix!r} is no folder of a store.", where=prefix)
        pages = iter(obstore_module().list(self._storage.client(), prefix=folder or None))
        while True:
            try:
                page = self._ask(folder, lambda: next(pages, None))
            except StoreMissingError:  # no such bucket: as empty as a folder that is not there
                return
            if page is None:
                return
            yield from (str(found["path"]) for found in page)

    def written_at(self, path: str) -> float:
        """Return when the storage took the object, in seconds since 1970.

        Raises: StoreMissingError (DELTA_STORE_MISSING), StoreReadError (DELTA_STORE_READ), ConnectError (DELTA_CONNECT).
        """
        layout.checked_path(path)
        found = self._ask(path, lambda: obstore_module().head(self._storage.client(), path))
        return float(found["last_modified"].timestamp())

    def remove_work(self, *prefixes: str) -> None:
        """Remove each ``work/<folder>`` or file in one, a thousand in a request.

        Raises: StoreFileError (DELTA_STORE_FILE), StoreWriteError (DELTA_STORE_WRITE), ConnectError (DELTA_CONNECT).
        """
        paths: list[str] = []
        for whole in [layout.checked_work_prefix(prefix) for prefix in prefixes]:
            paths.extend([whole] if whole.count("/") == 2 else self.list(whole))
        for start in range(0, len(paths), REMOVE_BATCH):
            batch = paths[start : start + REMOVE_BATCH]
            try:
                self._remove(batch[0], batch)
            except StoreMissingError:  # another process removes the same folder: take what is left one by one
                for path in batch:
                    with contextlib.suppress(StoreMissingError):
                        self._remove(path, [path])

    def _prepare(self) -> None:
        if not self._ready:
            prepare_root(self.uri, self._create, self._read)
            self._ready = True

    def _demand_store(self, path: str) -> None:
        if not self._ready:
            if not is_prepared(self.uri, self._read):
                raise StoreMissingError(f"There is no store at {self.uri}, so it holds no {path}.", where=path)
            self._ready = True

    def _create(self, path: str, data: bytes | mmap.mmap, patient: bool = False) -> bool:
        """Try until it is known what is there; an answer that was lost shows as False with our own bytes."""
        store = self._storage.client(patient=patient)
        for attempt in range(1, CREATE_ATTEMPTS_MAX + 1):
            try:
                obstore_module().put(store, path, data, mode="create", use_multipart=False)
                return True
            except obstore_module().exceptions.AlreadyExistsError:
                if self._is_there(path):
                    return False
                problem: Exception = StoreWriteError(f"{path}: writers get in each other's way.", where=path)
            except FileNotFoundError:
                raise StoreWriteError(f"{self.uri}: the bucket or container is not there.", where=path) from None
            except failures() as error:
                problem = refused(error, self.uri, path, StoreWriteError)
                if not getattr(problem, "retryable", False):
                    raise problem from None
            if attempt < CREATE_ATTEMPTS_MAX:
                time.sleep(CREATE_PAUSE_S * attempt)
        raise problem from None

    def _remove(self, place: str, paths: Sequence[str]) -> None:
        store = self._storage.client()
        self._ask(place, lambda: obstore_module().delete(store, [*paths]), StoreWriteError)

    def _is_there(self, path: str) -> bool:
        try:
            self._size(path)
        except StoreMissingError:
            return False
        return True

    def _size(self, path: str) -> int:
        return int(self._ask(path, lambda: obstore_module().head(self._storage.client(), path))["size"])

    def _read(self, path: str, limit_bytes: int) -> bytes:
        def run() -> bytes:
            found = obstore_module().get(self._storage.client(), path)
            held, size = [], int(found.meta["size"])
            if size <= limit_bytes:
                size = 0
                for chunk in found.stream(min_chunk_size=STREAM_BYTES):
                    held.append(bytes(chunk))
                    size += len(held[-1])
                    if size > limit_bytes:
                        break
            if size > limit_bytes:
                raise StoreFileError(f"{path} has more than {limit_bytes} bytes.", where=path)
            return b"".join(held)

        return self._ask(path, run)

    def _ask(
        self,
        path: str,
        run: Callable[[], _Answer],
        error: type[StoreReadError] | type[StoreWriteError] = StoreReadError,
    ) -> _Answer:
        """Run one request and turn what the client raises into our errors, without its text: that holds addresses."""
        try:
            return run()
        except FileNotFoundError:
            raise StoreMissingError(f"{self.uri} holds no {path}.", where=path) from None
        except failures() as problem:
            raise refused(problem, self.uri, path, error) from None


def _handle_of(file: BinaryIO, open_files: contextlib.ExitStack) -> int:
    """Return the handle of a file whose bytes are all on disk, that of a copy where it has none."""
    with contextlib.suppress(OSError, AttributeError):
        file.flush()
        return file.fileno()
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the stack closes it
    open_files.callback(copy.close)
    while chunk := file.read(STREAM_BYTES):
        copy.write(chunk)
    copy.flush()
    return copy.fileno()
