"""Publication of a sweep: everything stored, the predecessor's slot claimed, then the log (docs/format.md, S11)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_delta_provider.core import documents, jsonc, log
from airflow_delta_provider.core.errors import DeltaError, GenerationChainError, StoreMissingError
from airflow_delta_provider.core.generations import check_coverage
from airflow_delta_provider.core.ids import sha256_hex
from airflow_delta_provider.core.packs import read_pack_index
from airflow_delta_provider.core.predecessor import HEADER_BYTES_MAX, newest_generation
from airflow_delta_provider.core.store import blobs, layout, slots
from airflow_delta_provider.core.store.publish import Publication, Sign, store_manifest
from airflow_delta_provider.core.store.published import sidecar_bytes
from airflow_delta_provider.core.store.store import Store

SLOT_KIND = "generation"
NOTE_BYTES_MAX = 1024
_NOTE = b"delta-sweep/1\x00"


@dataclass(frozen=True, slots=True)
class SweepPublication:
    """What one sweep publishes.

    Shape: ``manifest`` with its documents, body and sidecar; ``header`` and ``index`` of the generation, whose packs are
    stored already; ``follows`` is the newest generation that the sweep started from: its predecessor, or, where a new
    series starts, the last generation of the one before, None for the first sweep of the pair.
    """

    manifest: Publication
    header: bytes
    index: bytes
    follows: str | None


@dataclass(frozen=True, slots=True)
class SweepReceipt:
    """What became of a sweep: the digests of its manifest and header, and the numbers of their log entries.

    ``reused``: an earlier try had published all of it.
    """

    manifest: str
    generation: str
    pair_id: str
    seq: int
    generation_seq: int
    reused: bool = False


def publish_sweep(store: Store, publication: SweepPublication, *, sign: Sign | None = None) -> SweepReceipt:
    """Store a sweep and make it visible: manifest first, generation last.

    Killed at any moment and started again over the same data, it ends in the same digests. Of two sweeps from one
    predecessor one is published; the other is refused and logs nothing of its own. Where a sweep died between its claim
    and its log entries and the data changed since, its entries are completed and this one is refused.
    Raises: GenerationChainError (DELTA_GENERATION_CHAIN); StoreConflictError and what the store raises.
    """
    header = documents.parse_generation(publication.header)
    manifest_id, header_id = sha256_hex(publication.manifest.manifest), sha256_hex(publication.header)
    _check(publication, header)
    pair = header["pair"]
    pair_id = log.register_pair(store, pair["name"], pair["source"], pair["target"])
    slot = slot_of(pair, publication.follows)
    _refuse_taken(store, pair_id, slot, header_id)
    store_manifest(store, publication.manifest)
    envelope = blobs.put_blob(store, sign(publication.manifest.manifest)) if sign else None
    index_id = blobs.put_blob(store, publication.index)
    blobs.put_blob(store, publication.header)
    sidecar = blobs.put_blob(store, _sidecar(publication, manifest_id, index_id))
    store.create(_note_path(slot, header_id), jsonc.dumps({"envelope": envelope, "sidecar": sidecar}))
    earlier = slots.claim(store, pair_id, SLOT_KIND, slot, header_id)
    if earlier not in (None, header_id):
        raise _taken(store, pair_id, slot, str(earlier))
    if earlier is not None:
        logged = _logged(store, pair_id, manifest_id, header_id)
        if logged is not None:
            return SweepReceipt(manifest_id, header_id, pair_id, *logged, reused=True)
    seqs = _make_visible(store, pair_id, (envelope, sidecar, manifest_id, header_id))
    store.remove_work(_note_path(slot, header_id))
    return SweepReceipt(manifest_id, header_id, pair_id, *seqs)


def slot_of(pair: Mapping[str, str], follows: str | None) -> str:
    """Return the slot that a sweep claims: the generation that it follows, or the pair for the first one."""
    return follows if follows is not None else sha256_hex(documents.pair_bytes(**pair))


def _check(publication: SweepPublication, header: documents.Document) -> None:
    manifest = documents.parse_manifest(publication.manifest.manifest)
    if header["manifest"] != sha256_hex(publication.manifest.manifest):
        raise GenerationChainError("The generation names another manifest.", where="manifest")
    if header["predecessor"] not in (None, publication.follows):
        raise GenerationChainError("The generation does not follow the one that it was swept from.", where="follows")
    check_coverage(header, manifest)
    documents.check_sweep_sums(header)
    read_pack_index(publication.index, header["body"])


def _refuse_taken(store: Store, pair_id: str, slot: str, header_id: str) -> None:
    """Refuse early where another sweep holds the slot, and where the same generation has a successor already."""
    earlier = slots.read_slot(store, pair_id, SLOT_KIND, slot)
    if earlier is not None and earlier != header_id:
        raise _taken(store, pair_id, slot, earlier)
    if earlier is None and slots.read_slot(store, pair_id, SLOT_KIND, header_id) is not None:
        raise GenerationChainError(
            f"Generation {header_id} was published before, and followed: a series that starts again needs another"
            " schema_version or contract_version.",
            where=header_id,
        )


def _taken(store: Store, pair_id: str, slot: str, winner: str) -> GenerationChainError:
    """Complete the log entries of the sweep that holds the slot, where it died before them; return the refusal."""
    try:
        note = jsonc.loads(store.read(_note_path(slot, winner), NOTE_BYTES_MAX))
        header = documents.parse_generation(blobs.get_blob(store, winner, HEADER_BYTES_MAX))
    except (StoreMissingError, DeltaError):
        note, header = None, None
    if isinstance(note, dict) and header is not None and newest_generation(store, pair_id) != winner:
        refs = (note["envelope"], note["sidecar"], header["manifest"], winner)
        if _logged(store, pair_id, header["manifest"], winner) is None:
            _make_visible(store, pair_id, refs)
    return GenerationChainError(f"Another sweep took this place: generation {winner}.", where=winner)


def _logged(store: Store, pair_id: str, manifest_id: str, header_id: str) -> tuple[int, int] | None:
    """Return the numbers of the entries of manifest and generation, None unless both are there."""
    found: int | None = None
    for entry in log.walk_back(store, pair_id, log.head(store, pair_id)):
        if (entry.kind, entry.ref) == ("generation", header_id):
            found = entry.seq
        elif found is not None and (entry.kind, entry.ref) == ("manifest", manifest_id):
            return entry.seq, found
    return None


def _make_visible(store: Store, pair_id: str, refs: tuple[str | None, str, str, str]) -> tuple[int, int]:
    """Log envelope, sidecar, manifest and generation; what stands there already is not logged again."""
    envelope, sidecar, manifest_id, header_id = refs
    if envelope:
        log.append(store, pair_id, "envelope", envelope)
    log.append(store, pair_id, "sidecar", sidecar)
    seq = log.append(store, pair_id, "manifest", manifest_id).seq
    return seq, log.append(store, pair_id, "generation", header_id).seq


def _sidecar(publication: SweepPublication, manifest_id: str, index_id: str) -> bytes:
    needed = {"for": manifest_id, "pack_index": index_id}
    if publication.manifest.page_index is not None:
        needed["page_index"] = blobs.digest_of(publication.manifest.page_index)
    return sidecar_bytes(publication.manifest.sidecar, needed)


def _note_path(slot: str, header_id: str) -> str:
    """Return where a sweep leaves word of its envelope and sidecar before it claims a slot."""
    return layout.work_path(slot, hashlib.sha256(_NOTE + header_id.encode()).hexdigest())
