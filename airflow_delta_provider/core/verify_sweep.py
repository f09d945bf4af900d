"""Verification of what the log says of a sweep: its generation, held against manifest and predecessor (docs/format.md, S12)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import (
    DeltaError,
    GenerationChainError,
    GenerationContractError,
    PackIndexError,
    StoreMissingError,
    StoreRetiredError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.log import Entry
from airflow_delta_provider.core.predecessor import HEADER_BYTES_MAX, INDEX_BYTES_MAX
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.published import sidecars_of
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.verify import Artifacts
from airflow_delta_provider.core.verify_generation import IndexedGeneration, verify_generation


def verify_sweep(
    store: Store,
    entries: Sequence[Entry],
    manifest_id: str,
    manifest: documents.Document,
    artifacts: Artifacts,
) -> list[Finding]:
    """Verify the generation that the log names for a sweep's manifest; nothing for any other manifest.

    Raises: what the store raises where it cannot be read.
    """
    if "sweep" not in manifest:
        return []
    findings = Findings(Stage.GENERATION)
    logged = [entry.ref for entry in entries if entry.kind == "generation"]
    headers = [ref for ref in dict.fromkeys(logged) if _manifest_of(store, ref) == manifest_id]
    if not headers:
        findings.note(GenerationContractError, "generation", "The log names no generation of this sweep.")
        return findings.listed()
    generation = _indexed(store, entries, headers[0], manifest_id, findings)
    before, before_id = None, manifest["sweep"]["predecessor"]
    if before_id is not None:
        named = _manifest_of(store, before_id)
        if named is None:
            sentence = f"The predecessor {before_id} is not in the store, or is no generation."
            findings.note(GenerationContractError, "predecessor", sentence)
            return findings.listed()
        if before_id not in logged:
            findings.note(GenerationChainError, "predecessor", f"The log does not name the predecessor {before_id}.")
        before = _indexed(store, entries, before_id, named, findings)
    if generation is None or (before_id is not None and before is None):
        return findings.listed()
    detail = _detail(artifacts, manifest)
    _, found = verify_generation(generation, before, manifest, artifacts, detail=detail)
    return findings.listed() + found


def _manifest_of(store: Store, header_id: str) -> str | None:
    """Return the manifest that a generation header names; what is wrong with the header is found where it is verified."""
    try:
        data = blobs.get_blob(store, header_id, HEADER_BYTES_MAX)
        return str(documents.parse_generation(data)["manifest"])
    except DeltaError:
        return None


def _indexed(
    store: Store, entries: Sequence[Entry], header_id: str, manifest_id: str, findings: Findings
) -> IndexedGeneration | None:
    """Return a generation with the newest pack index that a sidecar names and that can be read."""
    place = f"pack index of {header_id}"
    sidecars = _sidecars(store, entries, manifest_id)
    for named in sidecars:
        try:
            return IndexedGeneration(header_id, blobs.get_blob(store, named, INDEX_BYTES_MAX, PackIndexError))
        except (StoreMissingError, StoreRetiredError, PackIndexError) as error:
            findings.add(error, place)
    if not sidecars:
        findings.note(PackIndexError, place, "No sidecar names the pack index of this generation.")
    return None


def _sidecars(store: Store, entries: Sequence[Entry], manifest_id: str) -> list[str]:
    """Return the pack indexes that readable sidecars name; one that is damaged is a finding of the page index."""
    named = list[str]()
    for entry in reversed(entries):
        try:
            for _, sidecar in sidecars_of(store, [entry], manifest_id):
                if layout.is_digest(sidecar.get("pack_index")):
                    named.append(str(sidecar["pack_index"]))
        except DeltaError:
            continue
    return list(dict.fromkeys(named))


def _detail(artifacts: Artifacts, manifest: documents.Document) -> str:
    try:
        contract = documents.parse_contract(artifacts.read(manifest["contract"]["sha256"]))
    except DeltaError:
        return "counts"  # a finding of its own
    return str(contract["detail"])
