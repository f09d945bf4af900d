"""Content-addressed artifacts in a store: put, get and open by digest."""

import hashlib
from typing import BinaryIO

from airflow_delta_provider.core.errors import DeltaError, StoreConflictError
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import READ_BYTES_MAX, Store

CHUNK_BYTES = 2**20


def put_blob(store: Store, content: bytes | BinaryIO) -> str:
    """Store bytes, or all bytes of a seekable file, under their SHA-256 and return it in hex.

    A blob that is there already and reads back equal is success.
    Raises: StoreConflictError (DELTA_STORE_CONFLICT) where other bytes lie under this digest.
    """
    digest_hex = digest_of(content)
    _put(store, layout.blob_path(digest_hex), content)
    return digest_hex


def put_work(store: Store, slot_hex: str, content: bytes | BinaryIO) -> str:
    """Do the same in the work folder of the run whose slot is ``slot_hex``; ``get_work`` reads it."""
    digest_hex = digest_of(content)
    _put(store, layout.work_path(slot_hex, digest_hex), content)
    return digest_hex


def get_blob(
    store: Store,
    digest_hex: str,
    limit_bytes: int = READ_BYTES_MAX,
    error: type[DeltaError] = StoreConflictError,
) -> bytes:
    """Return the bytes of a blob, checked against their digest.

    Raises: ``error`` where they do not hash to it (give the code of the artifact);
    StoreMissingError (DELTA_STORE_MISSING); InputDigestError (DELTA_INPUT_DIGEST) for text that is no digest.
    """
    return _checked(store.read(layout.blob_path(digest_hex), limit_bytes), digest_hex, error)


def get_work(store: Store, slot_hex: str, digest_hex: str, limit_bytes: int = READ_BYTES_MAX) -> bytes:
    """Return the bytes of an artifact of an unfinished run, checked like a blob."""
    return _checked(store.read(layout.work_path(slot_hex, digest_hex), limit_bytes), digest_hex, StoreConflictError)


def open_blob(store: Store, digest_hex: str) -> BinaryIO:
    """Return a seekable stream over a blob. Not checked against the digest: who reads all of it must hash it.

    Raises: StoreMissingError (DELTA_STORE_MISSING).
    """
    return store.open(layout.blob_path(digest_hex))


def open_work(store: Store, slot_hex: str, digest_hex: str) -> BinaryIO:
    """Return a seekable stream over an artifact of an unfinished run, unchecked like ``open_blob``."""
    return store.open(layout.work_path(slot_hex, digest_hex))


def digest_of(content: bytes | BinaryIO) -> str:
    """Return the SHA-256 of bytes, or of all bytes of a seekable file, in hex."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    content.seek(0)
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _put(store: Store, path: str, content: bytes | BinaryIO) -> None:
    created = store.create(path, content) if isinstance(content, bytes) else store.create_from_file(path, content)
    if not created and not _reads_back(store, path, content):
        raise StoreConflictError(f"{store.uri} holds other bytes under {path}.", where=path)


def _reads_back(store: Store, path: str, content: bytes | BinaryIO) -> bool:
    with store.open(path) as stored:
        if isinstance(content, bytes):
            return stored.read(len(content) + 1) == content
        content.seek(0)
        while True:
            wanted = content.read(CHUNK_BYTES)
            if stored.read(len(wanted) or 1) != wanted:
                return False
            if not wanted:
                return True


def _checked(data: bytes, digest_hex: str, error: type[DeltaError]) -> bytes:
    found = hashlib.sha256(data).hexdigest()
    if found != digest_hex:
        raise error(f"Stored under {digest_hex}, the bytes hash to {found}.", where=digest_hex)
    return data
