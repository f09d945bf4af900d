"""Publication: everything a manifest names first, its log entry last, so that nothing half-done is visible."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    ContractError,
    DeltaError,
    InputPolicyError,
    ManifestContractError,
    OutputExistsError,
    SchemaError,
    StructureError,
    SummaryError,
)
from airflow_delta_provider.core.store import blobs, slots
from airflow_delta_provider.core.store.published import sidecar_bytes
from airflow_delta_provider.core.store.store import Store

MANIFEST_BYTES_MAX = 16 * 1024
ON_RERUN = ("reuse", "recompute", "refuse")
_DOCUMENT_ERRORS: dict[str, type[DeltaError]] = {
    "schema": SchemaError,
    "contract": ContractError,
    "structure": StructureError,
    "summary": SummaryError,
}


@dataclass(frozen=True, slots=True)
class Publication:
    """What one run publishes.

    Shape: ``manifest`` and the four documents in canonical bytes; ``body`` and ``page_index`` as bytes or seekable
    files, None under ``detail: counts``; ``sidecar`` the volatile facts of the run, without ``for`` and
    ``page_index``, which are added here.
    Raises, when published: the code of the document that is not the one that the manifest names.
    """

    manifest: bytes
    schema: bytes
    contract: bytes
    structure: bytes
    summary: bytes
    body: bytes | BinaryIO | None
    page_index: bytes | BinaryIO | None
    sidecar: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a publication.

    Shape: ``manifest`` the id that is now visible, in hex; ``computed`` the id of what this try computed;
    ``reused`` True where an earlier try of the same task run published another manifest and that one holds;
    ``seq`` the number of the log entry of ``manifest``.
    """

    manifest: str
    computed: str
    reused: bool
    pair_id: str
    seq: int


Sign = Callable[[bytes], bytes]
"""Gives the envelope over the bytes of a manifest."""


def publish(
    store: Store,
    publication: Publication,
    *,
    sign: Sign | None = None,
    slot_hex: str | None = None,
    on_rerun: str = "reuse",
) -> Receipt:
    """Store what a manifest names, then the manifest and its envelope, then make it visible in the log.

    Killed at any moment and started again, it ends in the same digests and never shows anything half-done.
    ``slot_hex`` names the logical task run (``slots.run_slot``): the first manifest of a run stays its manifest
    unless ``on_rerun`` is ``recompute``, which logs another, or ``refuse``.
    Raises: OutputExistsError (DELTA_OUTPUT_EXISTS) under ``refuse``; InputPolicyError (DELTA_INPUT_POLICY) for
    another policy; StoreConflictError (DELTA_STORE_CONFLICT) and what the store raises.
    """
    if on_rerun not in ON_RERUN:
        raise InputPolicyError(f"on_rerun is one of {', '.join(ON_RERUN)}, not {on_rerun!r}.", where="on_rerun")
    pair, manifest_id = _checked(publication)
    pair_id = log.register_pair(store, pair["name"], pair["source"], pair["target"])
    earlier = slots.read_slot(store, pair_id, "run", slot_hex) if slot_hex else None
    if earlier not in (None, manifest_id) and on_rerun != "recompute":
        return _reuse(store, publication, pair_id, str(earlier), sign, on_rerun)
    page_index = _store_parts(store, publication, manifest_id)
    envelope = blobs.put_blob(store, sign(publication.manifest)) if sign else None
    if slot_hex:
        earlier = slots.claim(store, pair_id, "run", slot_hex, manifest_id)
        if earlier not in (None, manifest_id) and on_rerun != "recompute":
            return _reuse(store, publication, pair_id, str(earlier), sign, on_rerun)
    index = {"page_index": page_index} if page_index else {}
    seq = _make_visible(store, pair_id, manifest_id, envelope, publication.sidecar, index)
    return Receipt(manifest_id, manifest_id, False, pair_id, seq)


def store_manifest(store: Store, publication: Publication) -> str:
    """Store a manifest with everything it names, without making it visible, and return its id in hex."""
    _, manifest_id = _checked(publication)
    _store_parts(store, publication, manifest_id)
    return manifest_id


def _checked(publication: Publication) -> tuple[Mapping[str, str], str]:
    """Return the pair and the id of the manifest; what it names must be what is published with it."""
    try:
        manifest = jsonc.loads(publication.manifest)
        for name, error in _DOCUMENT_ERRORS.items():
            found, named = blobs.digest_of(getattr(publication, name)), manifest[name]["sha256"]
            if found != named:
                raise error(f"The manifest names {name} {named}, given is {found}.", where=name)
        pair = manifest["pair"]
        return {part: str(pair[part]) for part in ("name", "source", "target")}, blobs.digest_of(publication.manifest)
    except (KeyError, TypeError) as error:
        raise ManifestContractError(f"The manifest to be published lacks {error}.") from error


def _store_parts(store: Store, publication: Publication, manifest_id: str) -> str | None:
    """Store documents, body, page index and manifest, in this order; return the digest of the page index."""
    for name in _DOCUMENT_ERRORS:
        blobs.put_blob(store, getattr(publication, name))
    if publication.body is not None:
        named = jsonc.loads(publication.manifest)["body"]["sha256"]
        found = blobs.digest_of(publication.body)
        if found != named:
            raise BodyDigestError(f"Manifest {manifest_id} names body {named}, given is {found}.", where="body")
        blobs.put_blob(store, publication.body)
    index = None if publication.page_index is None else blobs.put_blob(store, publication.page_index)
    blobs.put_blob(store, publication.manifest)
    return index


def _reuse(
    store: Store, publication: Publication, pair_id: str, earlier: str, sign: Sign | None, on_rerun: str
) -> Receipt:
    """Stand by the manifest that an earlier try of this run has claimed, completing its log entry if it has none."""
    computed = blobs.digest_of(publication.manifest)
    if on_rerun == "refuse":
        raise OutputExistsError(f"This run published {earlier} and now computed {computed}.", where=earlier)
    logged = log.find(store, pair_id, "manifest", earlier)
    facts, reuse = publication.sidecar, {"computed": computed, "reused": True}
    if logged is None:
        manifest = blobs.get_blob(store, earlier, MANIFEST_BYTES_MAX)
        envelope = blobs.put_blob(store, sign(manifest)) if sign else None
        return Receipt(earlier, computed, True, pair_id, _make_visible(store, pair_id, earlier, envelope, facts, reuse))
    log.append(store, pair_id, "sidecar", _put_sidecar(store, earlier, facts, reuse))
    return Receipt(earlier, computed, True, pair_id, logged.seq)


def _make_visible(
    store: Store,
    pair_id: str,
    manifest_id: str,
    envelope: str | None,
    facts: Mapping[str, Any],
    needed: Mapping[str, Any],
) -> int:
    """Log the envelope, the sidecar and, last, the manifest; return the number of its entry."""
    entry, sidecar = None, _put_sidecar(store, manifest_id, facts, needed)
    if envelope:
        entry = log.append(store, pair_id, "envelope", envelope)
    entry = log.append(store, pair_id, "sidecar", sidecar, after=entry)
    return log.append(store, pair_id, "manifest", manifest_id, after=entry).seq


def _put_sidecar(store: Store, manifest_id: str, facts: Mapping[str, Any], needed: Mapping[str, Any]) -> str:
    return blobs.put_blob(store, sidecar_bytes(facts, {**needed, "for": manifest_id}))
