"""Checkpoints and restore bodies: what stood there before a patch, published before its first write (docs/format.md, S10)."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.body import BodyFacts, LineWriter
from airflow_delta_provider.core.documents import Document, build_checkpoint, parse_checkpoint
from airflow_delta_provider.core.errors import CheckpointMismatchError, CheckpointRequiredError
from airflow_delta_provider.core.patch_seal import seal, unseal
from airflow_delta_provider.core.store import blobs, slots
from airflow_delta_provider.core.store.store import Store

HEADER_BYTES_MAX = 16 * 1024
CHUNK_BYTES = 2**20
CHECKPOINT, RESTORE = "checkpoint", "restore"


def checkpoint_line(before: Sequence[Any] | None, record: Mapping[str, Any]) -> bytes:
    """Return the checkpoint's line of one record; ``before`` is the row in clear, None where the key is not there."""
    return jsonc.dumps_checked(
        {
            "before": None if before is None else list(before),
            "id": record["id"],
            "key": record["key"],
            "sort_key": record["sort_key"],
        }
    )


def restore_line(raw: Sequence[Sequence[Any]] | None, sort_key_hex: str) -> bytes:
    """Return the restore body's line of one record: [[column, type, canonical value], ...] as stored, or None."""
    return jsonc.dumps_checked({"raw": None if raw is None else [list(part) for part in raw], "sort_key": sort_key_hex})


class LineFile:
    """A body under construction in a local file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._writer = LineWriter(self._file)

    def write(self, lines: Sequence[bytes]) -> None:
        """Add lines that have no LF."""
        self._writer.write(lines)

    def close(self) -> BodyFacts:
        """Return what is known of the body; the file holds all of it."""
        facts = self._writer.close()
        self._file.close()
        return facts


def put_body(store: Store, pair_id: str, kind: str, path: Path, sha256: str, seal_key: bytes | None) -> None:
    """Store a body; with a key, its sealed form, which slot ``<kind>/<digest of the plain bytes>`` then points at."""
    with path.open("rb") as plain:
        if seal_key is None:
            blobs.put_blob(store, plain)
            return
        sealed_path = path.with_suffix(".sealed")
        with sealed_path.open("w+b") as sealed:
            seal(seal_key, sha256, plain, sealed)
            sealed.seek(0)
            slots.claim(store, pair_id, kind, sha256, blobs.put_blob(store, sealed))
        sealed_path.unlink()


def fetch_body(store: Store, pair_id: str, kind: str, sha256: str, seal_key: bytes | None, path: Path) -> None:
    """Copy a body to a local file, opened where it is sealed, and checked against its digest.

    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH) where the bytes are other ones, or no key opens them;
    StoreMissingError (DELTA_STORE_MISSING).
    """
    sealed_as = slots.read_slot(store, pair_id, kind, sha256)
    with path.open("wb") as out:
        if sealed_as is not None:
            if seal_key is None:
                raise CheckpointMismatchError(f"The {kind} body is encrypted and no key was given.", where=sha256)
            with closing(blobs.open_blob(store, sealed_as)) as sealed:
                unseal(seal_key, sha256, sealed, out)
            return
        hasher = hashlib.sha256()
        with closing(blobs.open_blob(store, sha256)) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                hasher.update(chunk)
                out.write(chunk)
    if hasher.hexdigest() != sha256:
        raise CheckpointMismatchError(f"The {kind} body does not hash to its digest.", where=sha256)


def find_checkpoint(store: Store, pair_id: str, patch_id: str) -> tuple[str, Document] | None:
    """Return digest and header of the checkpoint that this patch took, or None.

    Raises: CheckpointMismatchError, StoreMissingError.
    """
    digest = slots.read_slot(store, pair_id, CHECKPOINT, patch_id)
    if digest is None:
        return None
    data = blobs.get_blob(store, digest, HEADER_BYTES_MAX, CheckpointMismatchError)
    return digest, parse_checkpoint(data)


def check_checkpoint(header: Document, manifest_id: str, manifest: Document, patch_id: str, side: str) -> None:
    """Refuse a checkpoint that is not this patch's. Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH)."""
    wanted = {"manifest": manifest_id, "patch_id": patch_id, "schema": manifest["schema"], "side": side}
    for member, value in wanted.items():
        if header[member] != value:
            raise CheckpointMismatchError(f"The checkpoint of patch {patch_id} has another {member}.", where=member)
    if header["body"]["records"] != manifest["body"]["records"]:
        raise CheckpointMismatchError(f"The checkpoint of patch {patch_id} has another number of lines.", where="body")


def publish_checkpoint(
    store: Store,
    pair_id: str,
    facts: BodyFacts,
    manifest_id: str,
    patch_id: str,
    rule: tuple[str, str | None],
    schema: Document,
    side: str,
) -> str:
    """Store a checkpoint's header, claim its slot and return the digest that the slot holds: an earlier try's wins."""
    data = build_checkpoint(facts.block, manifest_id, patch_id, rule, schema, side)
    digest = blobs.put_blob(store, data)
    return slots.claim(store, pair_id, CHECKPOINT, patch_id, digest) or digest


def publish_restore(store: Store, pair_id: str, patch_id: str, sha256: str) -> str:
    """Claim the slot of a restore body that is stored and return the digest that it holds: an earlier try's wins."""
    return slots.claim(store, pair_id, RESTORE, patch_id, sha256) or sha256


def find_restore(store: Store, pair_id: str, patch_id: str) -> str | None:
    """Return the digest of the plain bytes of a patch's restore body, or None where it has none."""
    return slots.read_slot(store, pair_id, RESTORE, patch_id)


def demand_checkpoint(store: Store, pair_id: str, patch_id: str) -> tuple[str, Document]:
    """Return the checkpoint of a patch. Raises: CheckpointRequiredError (DELTA_CHECKPOINT_REQUIRED)."""
    found = find_checkpoint(store, pair_id, patch_id)
    if found is None:
        raise CheckpointRequiredError(f"Patch {patch_id} has no checkpoint in this store.", where=patch_id)
    return found


def log_once(store: Store, pair_id: str, kind: str, ref: str) -> int:
    """Make an artifact of a patch visible unless some entry already does; return the number of its entry."""
    return (log.find(store, pair_id, kind, ref) or log.append(store, pair_id, kind, ref)).seq


def body_bytes(lines: Sequence[bytes]) -> tuple[bytes, BodyFacts]:
    """Return a whole body of a few lines, and what is known of it."""
    out: BinaryIO = io.BytesIO()
    writer = LineWriter(out)
    writer.write(lines)
    facts = writer.close()
    out.seek(0)
    return out.read(), facts
