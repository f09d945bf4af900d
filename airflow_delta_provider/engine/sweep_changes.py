"""What a sweep changed, for those who act on it: keys streamed out of the delta bodies, over one sweep or several."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from airflow_delta_provider.core import documents, jsonc
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    DetailError,
    GenerationChainError,
    GenerationContractError,
)
from airflow_delta_provider.core.predecessor import HEADER_BYTES_MAX
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.store import Store

TO_REFRESH = ("added", "value_diverged")
"""Categories of the keys that a consumer has to read again: new, returned and changed ones."""
GENERATIONS_MAX = 1000
"""Sweeps that are looked through at once; each holds one open body."""


@dataclass(frozen=True, slots=True)
class ChangedKey:
    """One key that a sweep changed.

    Shape: ``key`` canonical values; ``sort_key`` key bytes; ``category`` as in the manifest of the newest sweep that changed
    it; ``row`` the new row in recorded form, schema order, None where it is gone.
    """

    key: list[Any]
    sort_key: bytes
    category: str
    row: list[Any] | None


def changed_keys(
    store: Store,
    generation: str,
    *,
    since: str | None = None,
    whole: bool = False,
    categories: Collection[str] = TO_REFRESH,
) -> Iterator[ChangedKey]:
    """Yield in key order what a generation changed, or what changed since an earlier generation of its series.

    ``generation`` and ``since`` are digests of headers; without ``since`` it is the one sweep, or with ``whole`` all sweeps
    of the series: what a consumer takes that has processed none. A key that changed in several
    sweeps comes once, with its newest record. ``categories``: with ``dropped``, keys that are gone come too.
    Memory: a batch of lines for each sweep.
    Raises: GenerationChainError (DELTA_GENERATION_CHAIN) where ``since`` is no ancestor; BodyDigestError at the end of a
    body that is not what its manifest says: what came out of it is then worth nothing; DetailError (DELTA_DETAIL) under
    ``detail: counts``, which keeps no body.
    """
    manifests = _manifests(store, generation, since, whole)
    streams = [_records(store, manifest, age) for age, manifest in enumerate(manifests)]
    for _, group in groupby(heapq.merge(*streams), key=lambda found: found[0]):
        sort_key, _, record = next(group)
        if record["category"] in categories:
            yield ChangedKey(record["key"], sort_key, record["category"], record["target_value"])


def _manifests(store: Store, generation: str, since: str | None, whole: bool) -> list[documents.Document]:
    """Return the manifests of the sweeps from ``generation`` back to after ``since``, newest first."""
    found, header_id = list[documents.Document](), generation
    while header_id != since:
        header = documents.parse_generation(blobs.get_blob(store, header_id, HEADER_BYTES_MAX, GenerationContractError))
        manifest = documents.parse_manifest(blobs.get_blob(store, header["manifest"]))
        contract = documents.parse_contract(blobs.get_blob(store, manifest["contract"]["sha256"]))
        if contract["detail"] == "counts":
            raise DetailError(f"Generation {header_id} was swept under detail counts.", where=header_id)
        found.append(manifest)
        if since is None and not (whole and header["predecessor"]):
            break
        if header["predecessor"] is None or len(found) == GENERATIONS_MAX:
            raise GenerationChainError(f"{since} is no ancestor of {generation}.", where=since or generation)
        header_id = header["predecessor"]
    return found


def _records(store: Store, manifest: documents.Document, age: int) -> Iterator[tuple[bytes, int, dict[str, Any]]]:
    """Yield (key bytes, age, record) of a body, checked against its manifest as it ends."""
    hasher = hashlib.sha256()
    with closing(blobs.open_blob(store, manifest["body"]["sha256"])) as stream:
        for lines in read_lines(stream, hasher):
            for line in lines:
                record: Any = jsonc.loads(line)
                yield bytes.fromhex(record["sort_key"]), age, record
    if hasher.hexdigest() != manifest["body"]["sha256"]:
        raise BodyDigestError("A delta body is not what its manifest says.", where="body")
