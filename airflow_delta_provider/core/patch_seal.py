"""Encryption of checkpoint and restore bodies that hold sensitive columns: AES-256-GCM in chunks (docs/format.md, S10).

The key of one body comes from the given key and the digest of the plain bytes, so equal bodies give equal sealed bytes,
and no nonce is ever used twice under one key.
"""

from __future__ import annotations

import hashlib
import hmac
import io
from typing import BinaryIO

from airflow_delta_provider.core.errors import CheckpointMismatchError
from airflow_delta_provider.core.ids import digest_bytes, lp

MAGIC = b"delta-sealed/1\n"
CHUNK_BYTES = 2**20
TAG_BYTES = 16
NONCE_BYTES = 12


def seal(key: bytes, plain_sha256: str, plain: BinaryIO, out: BinaryIO) -> None:
    """Write the sealed form of a stream, from where it stands; ``plain_sha256`` is the digest of what is sealed."""
    cipher = _cipher(key, plain_sha256)
    out.write(MAGIC)
    chunk, number = plain.read(CHUNK_BYTES), 0
    while True:
        following = plain.read(CHUNK_BYTES)
        out.write(cipher.encrypt(number.to_bytes(NONCE_BYTES, "big"), chunk, b"" if following else b"last"))
        if not following:
            return
        chunk, number = following, number + 1


def unseal(key: bytes, plain_sha256: str, sealed: BinaryIO, out: BinaryIO) -> None:
    """Write the plain form of a sealed stream.

    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH) for another key, or bytes that were altered or cut.
    """
    from cryptography.exceptions import InvalidTag

    cipher, hasher = _cipher(key, plain_sha256), hashlib.sha256()
    if sealed.read(len(MAGIC)) != MAGIC:
        raise CheckpointMismatchError("A body that should be encrypted is not.", where=plain_sha256)
    chunk, number = sealed.read(CHUNK_BYTES + TAG_BYTES), 0
    while True:
        following = sealed.read(CHUNK_BYTES + TAG_BYTES)
        try:
            plain = cipher.decrypt(number.to_bytes(NONCE_BYTES, "big"), chunk, b"" if following else b"last")
        except (InvalidTag, ValueError):
            raise CheckpointMismatchError(
                "An encrypted body does not open with this key, or was altered.", where=plain_sha256
            ) from None
        hasher.update(plain)
        out.write(plain)
        if not following:
            break
        chunk, number = following, number + 1
    if hasher.hexdigest() != plain_sha256:
        raise CheckpointMismatchError("An encrypted body holds other bytes than its digest says.", where=plain_sha256)


def sealed_bytes(key: bytes, plain_sha256: str, plain: bytes) -> bytes:
    """Return the sealed form of some bytes."""
    out = io.BytesIO()
    seal(key, plain_sha256, io.BytesIO(plain), out)
    return out.getvalue()


def seal_key_of(secret: bytes) -> bytes:
    """Return the sealing key that is used where none is given: one derived from the key of keyed digests."""
    return hmac.new(secret, b"delta-seal/v1\x00", hashlib.sha256).digest()


def _cipher(key: bytes, plain_sha256: str):  # type: ignore[no-untyped-def]  # the library is imported when used
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    one = hmac.new(key, b"delta-seal-body/v1\x00" + lp(digest_bytes(plain_sha256)), hashlib.sha256).digest()
    return AESGCM(one)
