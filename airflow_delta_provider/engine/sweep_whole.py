"""The parts of a sweep made whole: merged, held to the limits, measured, and laid out for publication."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import DiskLimitError, RecordLimitError
from airflow_delta_provider.core.generations import GenerationInput, merge_generations
from airflow_delta_provider.core.ids import sha256_hex
from airflow_delta_provider.core.manifest import MergeInput, merge_manifests
from airflow_delta_provider.core.manners import Limits
from airflow_delta_provider.core.predecessor import pack_reader
from airflow_delta_provider.core.store.publish import Publication
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.submanifest import Shared
from airflow_delta_provider.core.sweeppublish import SweepPublication
from airflow_delta_provider.engine.sweep_shard import SUMMARY


@dataclass(frozen=True, slots=True)
class Whole:
    """A merged sweep: manifest and header of the whole key range, the pack index, and the derived page index."""

    manifest: bytes
    header: bytes
    index: bytes
    page_index: bytes


@dataclass(frozen=True, slots=True)
class MergePart:
    """One swept shard as a merge takes it."""

    manifest: bytes
    header: bytes
    index: bytes
    open_body: Callable[[], BinaryIO]


def merge_swept(parts: Sequence[MergePart], store: Store, out: BinaryIO) -> Whole:
    """Merge swept shards, in any order; their body is written to ``out``.

    Raises: as ``merge_manifests`` and ``merge_generations``.
    """
    merged = merge_manifests([MergeInput(one.manifest, SUMMARY, one.open_body) for one in parts], out)
    read = pack_reader(store)
    generation = merge_generations(
        [GenerationInput(one.header, one.index, read) for one in parts],
        documents.parse_manifest(merged.manifest),
        sha256_hex(merged.manifest),
    )
    return Whole(merged.manifest, generation.header, generation.index, merged.facts.page_index)


def publication_of(
    whole: Whole, shared: Shared, body: BinaryIO, sidecar: Mapping[str, Any], follows: str | None
) -> SweepPublication:
    """Return what a merged sweep publishes; ``body`` is its delta body."""
    counts_only = shared.contract_form["detail"] == "counts"
    publication = Publication(
        manifest=whole.manifest,
        schema=shared.schema,
        contract=shared.contract,
        structure=shared.structure,
        summary=SUMMARY,
        body=None if counts_only else body,
        page_index=None if counts_only else whole.page_index,
        sidecar=sidecar,
    )
    return SweepPublication(publication, whole.header, whole.index, follows)


def measures(whole: Whole, shards: int) -> dict[str, Any]:
    """Return what a sweep measured, each number by itself.

    Shape: ``read`` rows of the key range, ``selected`` those that the filter let through, ``classified`` those that were
    digested and compared; ``coverage`` the key range and whether a filter left rows out. Units: bytes.
    """
    header, manifest = documents.parse_generation(whole.header), documents.parse_manifest(whole.manifest)
    counts = header["sweep"]
    return {
        "body_bytes": manifest["body"]["bytes"],
        "classified": counts["new"] + counts["changed"] + counts["unchanged"],
        "coverage": coverage(header),
        "generation": header["generation"],
        "pack_bytes": header["body"]["bytes"],
        "packs": whole.index.count(b"\n"),
        "read": counts["read"],
        "selected": counts["read"] - counts["skipped"],
        "shards": shards,
    }


def coverage(header: documents.Document) -> dict[str, Any]:
    """Return what a generation covers: its key range, and ``whole`` where that is the whole key space.

    Keys outside the range were not looked at: nothing is absent there.
    """
    bounds = header["key_range"]
    return {"key_range": bounds, "whole": bounds["lower"] is None and bounds["upper"] is None}


def check_limits(whole: Whole, limits: Limits) -> None:
    """Hold a merged sweep to the limits of its specification. Raises: RecordLimitError, DiskLimitError."""
    body = documents.parse_manifest(whole.manifest)["body"]
    if limits.max_discrepancies is not None and body["records"] > limits.max_discrepancies:
        sentence = f"more than {limits.max_discrepancies} records differ."
        raise RecordLimitError(sentence, where="limits.max_discrepancies")
    size = body["bytes"] + documents.parse_generation(whole.header)["body"]["bytes"]
    if limits.max_bytes is not None and size > limits.max_bytes:
        raise DiskLimitError(f"body and packs are larger than {limits.max_bytes} bytes.", where="limits.max_bytes")
