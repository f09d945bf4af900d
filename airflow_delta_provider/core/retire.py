"""Retention: the log says that a body is given up before a lifecycle rule removes it, so that its absence is no tampering."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.documents.manifest import MANIFEST_BYTES_MAX
from airflow_delta_provider.core.errors import InputPolicyError, ManifestDigestError
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.store import Store


@dataclass(frozen=True, slots=True)
class Retired:
    """A body that was given up: ``path`` may now be removed by who owns the store; ``seq`` is the log entry that says so."""

    body: str
    path: str
    pair_id: str
    seq: int


def retire_body(store: Store, manifest_id: str) -> Retired:
    """Log that the body of a published manifest is retired; nothing is removed here.

    Said again, nothing is added. The manifest, its documents and its signature stay, so the verdict stays provable.
    Raises: InputPolicyError (DELTA_INPUT_POLICY) where no log names the manifest, and for an empty body, which every
    clean verdict shares; StoreMissingError, ManifestDigestError.
    """
    data = blobs.get_blob(store, layout.checked_digest(manifest_id), MANIFEST_BYTES_MAX, error=ManifestDigestError)
    manifest = documents.parse_manifest(data)
    pair_id, body = documents.pair_id(**manifest["pair"]), manifest["body"]
    entries = log.read_log(store, pair_id)
    if not any((entry.kind, entry.ref) == ("manifest", manifest_id) for entry in entries):
        raise InputPolicyError(f"No entry of log {pair_id} names manifest {manifest_id}.", where=manifest_id)
    if not body["records"]:
        raise InputPolicyError("The body is empty: there is nothing to remove, and other manifests share it.")
    named = [entry for entry in entries if (entry.kind, entry.ref) == ("retire", body["sha256"])]
    entry = named[0] if named else log.append(store, pair_id, "retire", body["sha256"], after=entries[-1])
    return Retired(body["sha256"], layout.blob_path(body["sha256"]), pair_id, entry.seq)
