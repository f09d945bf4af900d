"""A store in memory: the twin that shows the seam of stores is one, and a fast store for tests."""

import io
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from airflow_delta_provider.core.errors import StoreFileError, StoreMissingError
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import READ_BYTES_MAX, prepare_root


class MemoryStore:
    """A ``Store`` that lives as long as the object; safe under threads."""

    def __init__(self, name: str = "memory", clock: Callable[[], float] = time.time) -> None:
        self._files: dict[str, bytes] = {}
        self._times: dict[str, float] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._name = name
        self._ready = False

    @property
    def uri(self) -> str:
        """The name of this store, for messages."""
        return f"memory:{self._name}"

    def create(self, path: str, data: bytes) -> bool:
        """Keep a copy of ``data`` if nothing is there."""
        layout.checked_path(path)
        if not self._ready:
            prepare_root(self.uri, self._create, self.read)
            self._ready = True
        return self._create(path, data)

    def create_from_file(self, path: str, file: BinaryIO) -> bool:
        """Keep all bytes of ``file`` if nothing is there."""
        file.seek(0)
        return self.create(path, file.read())

    def read(self, path: str, limit_bytes: int = READ_BYTES_MAX) -> bytes:
        """Return the bytes under ``path``."""
        layout.checked_path(path)
        data = self._files.get(path)
        if data is None:
            raise StoreMissingError(f"{self.uri} holds no {path}.", where=path)
        if len(data) > limit_bytes:
            raise StoreFileError(f"{path} has more than {limit_bytes} bytes.", where=path)
        return data

    def open(self, path: str) -> BinaryIO:
        """Return a stream over the bytes under ``path``."""
        return io.BytesIO(self.read(path, 2**63))

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the paths below ``prefix`` in order."""
        folder = prefix.rstrip("/") + "/" if prefix else ""
        with self._lock:
            paths = sorted(path for path in self._files if path.startswith(folder))
        yield from paths

    def written_at(self, path: str) -> float:
        """Return when ``path`` was created, in seconds since 1970."""
        self.read(path, 2**63)
        return self._times[path]

    def remove_work(self, *prefixes: str) -> None:
        """Forget work folders or files in them."""
        gone = {layout.checked_work_prefix(prefix) for prefix in prefixes}
        with self._lock:
            for path in [path for path in self._files if path in gone or path.rpartition("/")[0] in gone]:
                del self._files[path]

    def _create(self, path: str, data: bytes) -> bool:
        with self._lock:
            if path in self._files:
                return False
            self._files[path] = bytes(data)
            self._times[path] = self._clock()
            return True
