"""A published manifest held to all of docs/format.md, S12: the artifact itself, its place in the log, its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.documents.manifest import MANIFEST_BYTES_MAX
from airflow_delta_provider.core.errors import (
    DeltaError,
    EnvelopeError,
    InputManifestError,
    LogChainError,
    LogGapError,
    SignatureInvalidError,
    SignatureUntrustedError,
    StatementMismatchError,
    StoreMissingError,
)
from airflow_delta_provider.core.findings import Findings, Stage
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.published import envelopes_of, open_page_index
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust, verify_manifest_envelope
from airflow_delta_provider.core.verify import Verification, verify_manifest

INDEX_BYTES_MAX = 2**30


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit found. ``signers`` are the ids of the trusted keys that vouch for the manifest; ``seq`` its entry."""

    verification: Verification
    seq: int | None
    signers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stored:
    """The artifacts of one store; what the log says was retired is told apart from what is gone."""

    store: Store
    entries: Sequence[log.Entry]

    def read(self, digest_hex: str) -> bytes:
        try:
            return self.store.read(layout.blob_path(digest_hex))
        except StoreMissingError:
            log.refuse_retired(self.entries, digest_hex)
            raise

    def open(self, digest_hex: str) -> BinaryIO:
        try:
            return blobs.open_blob(self.store, digest_hex)
        except StoreMissingError:
            log.refuse_retired(self.entries, digest_hex)
            raise


def audit(store: Store, manifest_id: str, trust: Trust | None = None) -> Audited:
    """Verify a manifest with everything that it names, the log that shows it, and with ``trust`` who signed it.

    Without ``trust`` no signature is looked at. All findings are reported, none is raised.
    Raises: InputDigestError, StoreMissingError where there is no such manifest, and what the store raises.
    """
    data = store.read(layout.blob_path(manifest_id), MANIFEST_BYTES_MAX)
    try:
        pair_id = documents.pair_id(**documents.parse_manifest(data)["pair"])
    except DeltaError as error:
        raise InputManifestError(f"{manifest_id} is no manifest: {error.message}", where=manifest_id) from error
    found = Findings(Stage.LOG)
    entries = _entries(store, pair_id, found)
    seq = next((entry.seq for entry in entries if (entry.kind, entry.ref) == ("manifest", manifest_id)), None)
    if seq is None and not found:
        found.note(LogGapError, "log", "No entry of the log shows the manifest; it was never published.")
    index = open_page_index(store, entries, manifest_id)
    if index is None:
        page_index = None
    else:
        with index:
            page_index = index.read(INDEX_BYTES_MAX)
    verification = verify_manifest(manifest_id, _Stored(store, entries), page_index=page_index)
    verification.add(found.listed())
    signers = _signers(store, entries, manifest_id, data, pair_id, trust, verification) if trust else ()
    return Audited(verification, seq, signers)


def _entries(store: Store, pair_id: str, found: Findings) -> list[log.Entry]:
    try:
        return log.read_log(store, pair_id)
    except (LogChainError, LogGapError) as error:
        found.add(error, "log")
        return []


def _signers(
    store: Store,
    entries: Sequence[log.Entry],
    manifest_id: str,
    data: bytes,
    pair_id: str,
    trust: Trust,
    verification: Verification,
) -> tuple[str, ...]:
    """Return the trusted keys that signed; an envelope that is wrong is a finding, one by a stranger is none."""
    found, signers = Findings(Stage.SIGNATURE), list[str]()
    for entry, envelope in envelopes_of(store, entries, manifest_id):
        try:
            signers.append(verify_manifest_envelope(envelope, data, trust, pair_id, entry.seq))
        except SignatureUntrustedError:
            continue
        except (EnvelopeError, SignatureInvalidError, StatementMismatchError) as error:
            found.add(error, f"envelope {entry.ref}")
    if not signers:
        found.note(SignatureUntrustedError, "envelope", "No key of the trust document vouches for the manifest.")
    verification.add(found.listed())
    return tuple(dict.fromkeys(signers))
