"""What stands beside a published manifest: its envelopes and sidecars, found over the log."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import DeltaError, StoreMissingError
from airflow_delta_provider.core.log import Entry, refuse_retired
from airflow_delta_provider.core.signing.dsse import ENVELOPE_BYTES_MAX, parse_envelope
from airflow_delta_provider.core.signing.statement import subject_of
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.store import Store

SIDECAR_BYTES_MAX = 16 * 2**20
"""Most bytes of a sidecar: what 100,000 shards or files leave, and no more than a reader may hold."""


def sidecar_bytes(facts: Mapping[str, Any], members: Mapping[str, Any]) -> bytes:
    """Return a sidecar of the facts of a run, and of ``members`` that readers need.

    Facts that would make it larger than a reader takes are left out, the largest first, and named under ``left_out``: a
    verdict of hours must not be lost by them, nor become unreadable.
    """
    kept, left = dict(facts), list[str]()
    while True:
        data = jsonc.dumps({**kept, **members, **({"left_out": sorted(left)} if left else {})})
        if len(data) <= SIDECAR_BYTES_MAX or not kept:
            return data
        left.append(max(kept, key=lambda name: len(jsonc.dumps(kept[name]))))
        del kept[left[-1]]


def envelopes_of(store: Store, entries: Iterable[Entry], manifest_id: str) -> Iterator[tuple[Entry, bytes]]:
    """Yield the logged envelopes whose subject is this manifest, with their log entries, in the order given.

    The subject is read before any signature is checked: it tells which envelopes to check, and nothing else.
    """
    for entry in entries:
        if entry.kind == "envelope":
            data = blobs.get_blob(store, entry.ref, ENVELOPE_BYTES_MAX)
            if _subject(data) == manifest_id:
                yield entry, data


def sidecars_of(store: Store, entries: Iterable[Entry], manifest_id: str) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Yield the logged sidecars that are for this manifest, with their log entries, in the order given."""
    for entry, document in all_sidecars(store, entries):
        if document.get("for") == manifest_id:
            yield entry, document


def all_sidecars(store: Store, entries: Iterable[Entry]) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Yield all logged sidecars, with their log entries, in the order given."""
    for entry in entries:
        if entry.kind == "sidecar":
            document = jsonc.loads(blobs.get_blob(store, entry.ref, SIDECAR_BYTES_MAX))
            if isinstance(document, dict):
                yield entry, document


def open_page_index(store: Store, entries: Iterable[Entry], manifest_id: str) -> BinaryIO | None:
    """Return the page index that a sidecar of this manifest names, None where the reader must build it anew.

    Nothing hashed refers to it, so it is a help and no evidence: it must recombine to the root of the body.
    """
    for _, sidecar in sidecars_of(store, entries, manifest_id):
        if layout.is_digest(sidecar.get("page_index")):
            try:
                return blobs.open_blob(store, sidecar["page_index"])
            except StoreMissingError:
                continue
    return None


def open_body(store: Store, entries: Iterable[Entry], digest_hex: str) -> BinaryIO:
    """Return a stream over a body.

    Raises: StoreRetiredError (DELTA_STORE_RETIRED) where it is gone and the log says that it was retired;
    StoreMissingError (DELTA_STORE_MISSING) where it is gone and the log does not.
    """
    try:
        return blobs.open_blob(store, digest_hex)
    except StoreMissingError:
        refuse_retired(entries, digest_hex)
        raise


def _subject(data: bytes) -> str | None:
    try:
        return subject_of(parse_envelope(data).payload)
    except DeltaError:
        return None
