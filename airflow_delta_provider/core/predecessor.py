"""The generation that a sweep starts from: found over the log, its packs over the index that a sidecar names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.bulk_sweep import EntryBatch, read_batches
from airflow_delta_provider.core.documents.generation import PACK_BYTES_MAX
from airflow_delta_provider.core.errors import (
    GenerationChainError,
    GenerationContextError,
    GenerationContractError,
    PackDigestError,
    PackIndexError,
)
from airflow_delta_provider.core.packs import KeyBounds, PackRow, read_pack_index
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.published import sidecars_of
from airflow_delta_provider.core.store.store import Store

HEADER_BYTES_MAX = 64 * 1024
INDEX_BYTES_MAX = 2**31


@dataclass(frozen=True, slots=True)
class Predecessor:
    """One published generation, ready to be read.

    Shape: ``header_id`` and ``index_id`` are digests; ``rows`` is the pack index, checked against the header's body.
    """

    header_id: str
    document: documents.Document
    index_id: str
    rows: list[PackRow]

    def batches(self, read: Callable[[str], bytes], key_range: KeyBounds) -> Iterator[EntryBatch]:
        """Yield its entries of a key range, one pack held at a time, each proved before it is used."""
        return read_batches(self.rows, read, key_range)


def newest_generation(store: Store, pair_id: str) -> str | None:
    """Return the header of the newest generation that the log of a pair names, None before the first sweep."""
    entries = log.walk_back(store, pair_id, log.head(store, pair_id))
    return next((entry.ref for entry in entries if entry.kind == "generation"), None)


def load_generation(store: Store, pair_id: str, header_id: str) -> Predecessor:
    """Return a generation of a pair with its pack index.

    Raises: GenerationContextError (DELTA_GENERATION_CONTEXT) for a generation of another pair; GenerationChainError
    (DELTA_GENERATION_CHAIN) for one that no log entry names; PackIndexError (DELTA_PACK_INDEX) where no sidecar names an
    index that fits it; GenerationContractError, StoreMissingError.
    """
    data = blobs.get_blob(store, layout.checked_digest(header_id), HEADER_BYTES_MAX, GenerationContractError)
    document = documents.parse_generation(data)
    if documents.pair_id(**document["pair"]) != pair_id:
        pair = document["pair"]
        raise GenerationContextError(f"Generation {header_id} is of pair {pair['name']}.", where="pair")
    if log.find(store, pair_id, "generation", header_id) is None:
        raise GenerationChainError(f"Generation {header_id} was never logged.", where=header_id)
    for _, sidecar in sidecars_of(store, _entries(store, pair_id), document["manifest"]):
        named = sidecar.get("pack_index")
        if layout.is_digest(named):
            index = blobs.get_blob(store, str(named), INDEX_BYTES_MAX, PackIndexError)
            return Predecessor(header_id, document, str(named), read_pack_index(index, document["body"]))
    raise PackIndexError(f"No sidecar names the pack index of generation {header_id}.", where="pack index")


def _entries(store: Store, pair_id: str) -> Iterator[log.Entry]:
    return log.walk_back(store, pair_id, log.head(store, pair_id))


def pack_reader(store: Store) -> Callable[[str], bytes]:
    """Return a function that reads a pack by its digest. It raises: PackDigestError, StoreMissingError."""

    def read(digest_hex: str) -> bytes:
        return blobs.get_blob(store, digest_hex, PACK_BYTES_MAX, PackDigestError)

    return read
