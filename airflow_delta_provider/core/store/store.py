"""The seam of stores: create if absent, read, and (for audits only) list."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

from airflow_delta_provider.core.errors import (
    FormatError,
    StoreMissingError,
    StoreNotWriteOnceError,
    StoreSchemeError,
)
from airflow_delta_provider.core.store import layout

READ_BYTES_MAX = 64 * 2**20
"""Most bytes that one ``read`` returns unless the caller says less or more; larger artifacts are streamed."""


@runtime_checkable
class Store(Protocol):
    """A write-once store. Nothing in it is replaced or removed, but what lies below ``work/``.

    Shape: ``path`` is one of the paths of ``layout``; every method refuses others with DELTA_STORE_FILE.
    A file is visible with all its bytes or not at all, and what ``create`` returned from survives a power cut.
    Raises, in every method: StoreFileError (DELTA_STORE_FILE) where something else than a plain file of ours
    stands in the way; ConnectError (DELTA_CONNECT) where the store cannot be reached.
    """

    @property
    def uri(self) -> str:
        """The address of the root, without secrets; for messages."""

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` under ``path`` if nothing is there; return False, changing nothing, if something is.

        What is there may be our own: the answer to an earlier try can get lost. Who owns what is told by its bytes.
        """

    def create_from_file(self, path: str, file: BinaryIO) -> bool:
        """Do the same with all bytes of a seekable file, from its beginning."""

    def read(self, path: str, limit_bytes: int = READ_BYTES_MAX) -> bytes:
        """Return all bytes under ``path``.

        Raises: StoreMissingError (DELTA_STORE_MISSING); StoreFileError where there are more than ``limit_bytes``.
        """

    def open(self, path: str) -> BinaryIO:
        """Return a seekable binary stream over ``path``; a seek and a read fetch that range alone.

        Raises: StoreMissingError (DELTA_STORE_MISSING).
        """

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield every path below a folder, foreign ones included. For audits and pages; no verdict depends on it."""

    def written_at(self, path: str) -> float:
        """Return when the storage says that ``path`` was written, in seconds since 1970. For audits; no verdict depends on it.

        Raises: StoreMissingError (DELTA_STORE_MISSING).
        """

    def remove_work(self, *prefixes: str) -> None:
        """Remove each ``work/<folder>`` or file in one; nothing there is success. The only removal there is.

        Many are removed in as few requests as the storage takes.
        """


def exists(store: Store, path: str) -> bool:
    """Tell whether something is stored under ``path``."""
    try:
        store.open(path).close()
    except StoreMissingError:
        return False
    return True


def prepare_root(uri: str, create: Callable[[str, bytes], bool], read: Callable[[str, int], bytes]) -> None:
    """Make the root of a store usable: prove once that it is write-once, then write its ``format`` file.

    Each kind of store calls this before its first write, with its bare ``create`` and ``read``.
    Raises: StoreNotWriteOnceError (DELTA_STORE_NOT_WRITE_ONCE); FormatError (DELTA_FORMAT) for a store of
    another version.
    """
    if is_prepared(uri, read):
        return
    probe = layout.probe_path(secrets.token_hex(16))
    create(probe, b"first\n")  # the name is random, so what is read back below tells more than the answer does
    if create(probe, b"second\n") or read(probe, 64) != b"first\n":
        raise StoreNotWriteOnceError(f"{uri} let a second create replace a file.", where=uri)
    create(layout.FORMAT_PATH, layout.FORMAT_BYTES)
    is_prepared(uri, read)


def is_prepared(uri: str, read: Callable[[str, int], bytes]) -> bool:
    """Tell whether the root has its ``format`` file, that is, whether it is a store at all.

    Raises: FormatError (DELTA_FORMAT) for a store of another version.
    """
    try:
        found = read(layout.FORMAT_PATH, 64)
    except StoreMissingError:
        return False
    if found != layout.FORMAT_BYTES:
        raise FormatError(f"{uri} is marked {found!r}, not {layout.FORMAT_BYTES!r}.", where=uri)
    return True


def _open_local(uri: str, options: Mapping[str, str]) -> Store:
    from airflow_delta_provider.core.store.local import LocalStore

    if uri[:5].lower() != "file:":
        return LocalStore(Path(uri))
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise StoreSchemeError(f"{uri!r} names a host; write file:///folder.", where=uri)
    return LocalStore(Path(unquote(parts.path)))


def _open_objects(uri: str, options: Mapping[str, str]) -> Store:
    from airflow_delta_provider.core.store.objects import ObjectStorage

    return ObjectStorage(uri, options)


OPENERS: dict[str, Callable[[str, Mapping[str, str]], Store]] = {
    "": _open_local,
    "az": _open_objects,
    "file": _open_local,
    "gs": _open_objects,
    "s3": _open_objects,
}
"""Who opens which scheme of a store's address: a new kind of store is one line here."""


def open_store(uri: str, options: Mapping[str, str] | None = None) -> Store:
    """Return the store at a folder's path or at a URI; nothing is read or written yet.

    ``options`` are credentials and settings of an object storage by name (``access_key_id``, ``endpoint``, ...); what
    they leave open comes from the environment.
    Raises: StoreSchemeError (DELTA_STORE_SCHEME) where no store answers to the scheme.
    """
    scheme, found, _ = uri.partition("://")
    if not found:
        scheme = "file" if uri[:5].lower() == "file:" else ""
    opener = OPENERS.get(scheme.lower())
    if opener is None or not uri:
        known = ", ".join(sorted(f"{name}://" for name in OPENERS if name))
        raise StoreSchemeError(f"No store answers to {scheme or uri!r}; give a folder or one of {known}", where=scheme)
    return opener(uri, options or {})
