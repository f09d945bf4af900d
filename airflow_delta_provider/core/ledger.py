"""Ledgers: what became of each record, told from the checkpoint and the final state (docs/format.md, S10)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.body import BodyFacts, read_lines
from airflow_delta_provider.core.documents import Document, build_ledger, parse_ledger
from airflow_delta_provider.core.documents.patch import parse_ledger_line
from airflow_delta_provider.core.errors import LedgerMismatchError
from airflow_delta_provider.core.ids import rollback_id
from airflow_delta_provider.core.store import blobs, slots
from airflow_delta_provider.core.store.store import Store

HEADER_BYTES_MAX = 16 * 1024


def ledger_line(record_id: str, op: str, outcome: str, reason: str | None, sort_key_hex: str) -> bytes:
    """Return the ledger's line of one record."""
    return jsonc.dumps_checked(
        {"id": record_id, "op": op, "outcome": outcome, "reason": reason, "sort_key": sort_key_hex}
    )


def publish_ledger(
    store: Store,
    path: Path,
    facts: BodyFacts,
    checkpoint: str,
    manifest: str,
    outcomes: Mapping[str, int],
    patch_id: str,
) -> str:
    """Store the body of a ledger, then its header; return the header's digest. The log entry is the caller's."""
    header = build_ledger(facts.block, checkpoint, manifest, outcomes, patch_id)
    with path.open("rb") as body:
        blobs.put_blob(store, body)
    return blobs.put_blob(store, header)


def find_ledgers(store: Store, pair_id: str, patch_id: str) -> list[tuple[str, Document]]:
    """Return digest and header of each logged ledger of a patch, newest first.

    Raises: LedgerMismatchError (DELTA_LEDGER_MISMATCH) where one does not hash to its digest; what the log raises.
    """
    found: list[tuple[str, Document]] = []
    for entry in log.walk_back(store, pair_id, log.head(store, pair_id)):
        if entry.kind == "ledger":
            header = parse_ledger(blobs.get_blob(store, entry.ref, HEADER_BYTES_MAX, LedgerMismatchError))
            if header["patch_id"] == patch_id and entry.ref not in [digest for digest, _ in found]:
                found.append((entry.ref, header))
    return found


def rolled_back(store: Store, pair_id: str, patch_id: str, ledgers: list[tuple[str, Document]]) -> str | None:
    """Return the id of a rollback that was begun for one of these ledgers, or None: its checkpoint is published."""
    for digest, _ in ledgers:
        taken_back = rollback_id(patch_id, digest)
        if slots.read_slot(store, pair_id, "checkpoint", taken_back) is not None:
            return taken_back
    return None


def ledger_lines(store: Store, header: Document) -> Iterator[list[dict[str, Any]]]:
    """Yield the lines of a ledger in batches, hashed against its header at the end.

    Raises: LedgerMismatchError (DELTA_LEDGER_MISMATCH), StoreMissingError.
    """
    hasher = hashlib.sha256()
    with closing(blobs.open_blob(store, header["body"]["sha256"])) as stream:
        for lines in read_lines(stream, hasher):
            yield [parse_ledger_line(line) for line in lines]
    if hasher.hexdigest() != header["body"]["sha256"]:
        raise LedgerMismatchError("The ledger's body does not hash to its digest.", where="body")
