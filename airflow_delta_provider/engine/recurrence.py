"""Differences that come back: the same records, known by id, over the newest runs of a pair and the patches between them.

Patching the same rows for ever hides a broken pipeline, and so does a difference that everybody has got used to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.documents import Document, parse_contract, parse_ledger, parse_manifest, range_bytes
from airflow_delta_provider.core.errors import InputManifestError, InputPolicyError, StoreRetiredError
from airflow_delta_provider.core.ids import rollback_id
from airflow_delta_provider.core.ledger import ledger_lines
from airflow_delta_provider.core.patch import APPLIED
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.published import SIDECAR_BYTES_MAX, open_body
from airflow_delta_provider.core.store.store import Store

RUNS_LOOKED_AT = 20
"""Runs that are looked back at, the newest one included."""
RUNS_PERSISTING = 3
"""From so many runs in a row on, a difference persists."""
RECORDS_MAX = 1_000_000


@dataclass(slots=True)
class Recurring:
    """One record of the newest run, and how often it was there before.

    ``in_a_row``: runs in which it was, from the newest one back without a gap. ``runs``: all in which it was, of those
    looked at. ``patched``: patches that had made it equal, and that were not taken back.
    """

    id: str
    sort_key: bytes
    key: list[Any]
    category: str
    in_a_row: int = 1
    runs: int = 1
    patched: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What comes back in a pair. ``runs``: how many were looked at. ``records``: recurring ones, in key order."""

    manifest: str | None
    runs: int
    records: list[Recurring]

    @property
    def came_back(self) -> int:
        """Records that a patch had made equal before."""
        return sum(record.patched > 0 for record in self.records)

    def document(self) -> dict[str, Any]:
        """Return the form that ``recur --json`` prints."""
        return {
            "manifest": self.manifest,
            "runs": self.runs,
            "recurring": len(self.records),
            "came_back": self.came_back,
            "records": [
                {
                    "id": one.id,
                    "key": one.key,
                    "category": one.category,
                    "in_a_row": one.in_a_row,
                    "runs": one.runs,
                    "patched": one.patched,
                }
                for one in self.records
            ],
        }


def find_recurring(
    store: Store,
    pair_id: str,
    *,
    manifest: str | None = None,
    runs: int = RUNS_LOOKED_AT,
    persisting: int = RUNS_PERSISTING,
) -> Recurrence:
    """Return the records of the newest run (or of the newest run of ``manifest``) that were there before.

    A record recurs where a patch had made it equal, or where it is in ``persisting`` runs in a row. A run whose key
    range does not hold the record's key says nothing of it; nor does one whose records are not recorded or retired.
    Raises: InputPolicyError for a number below 2, InputManifestError for a manifest that this pair's log does not name
    or that has too many records, and what log and store raise.
    """
    if min(runs, persisting) < 2:
        raise InputPolicyError("recurrence takes at least 2 runs.", where="runs")
    entries = log.read_log(store, pair_id)
    known: dict[str, Recurring] | None = None
    newest, looked_at = None, 0
    patches: list[tuple[str, Document]] = []
    taken_back: set[str] = set()
    for kind, ref in _observed(store, entries):
        if kind == "ledger":
            if known is not None:
                header = parse_ledger(blobs.get_blob(store, ref))
                patches.append((ref, header))
                taken_back.add(header["patch_id"])
            continue
        if known is None:
            if manifest in (None, ref):
                newest, known, looked_at = ref, _records(store, entries, ref), 1
            continue
        _look(store, entries, ref, known)
        looked_at += 1
        if looked_at >= runs:
            break
    if known is None and manifest is not None:
        raise InputManifestError(f"the log of the pair names no run of {manifest}.", where=manifest)
    known = known or {}
    _count_patches(store, patches, taken_back, known)
    found = [one for one in known.values() if one.patched or one.in_a_row >= persisting]
    return Recurrence(newest, looked_at, sorted(found, key=lambda one: one.sort_key))


def _observed(store: Store, entries: list[log.Entry]) -> Iterator[tuple[str, str]]:
    """Yield runs (kind ``manifest``, its id) and ledgers, newest first.

    A run that finds what the run before it found appends its sidecar and no manifest, so sidecars are counted; proofs
    of patches are runs too.
    """
    manifests = {entry.ref for entry in entries if entry.kind == "manifest"}
    of: dict[int, str] = {}
    for entry in entries:
        if entry.kind == "sidecar":
            document = jsonc.loads(blobs.get_blob(store, entry.ref, SIDECAR_BYTES_MAX))
            if isinstance(document, dict) and document.get("for") in manifests:
                of[entry.seq] = document["for"]
    accounted = set(of.values())
    for entry in reversed(entries):
        if entry.seq in of:
            yield "manifest", of[entry.seq]
        elif entry.kind == "ledger" or (entry.kind == "manifest" and entry.ref not in accounted):
            yield entry.kind, entry.ref


def _manifest(store: Store, manifest_id: str) -> Document:
    return parse_manifest(blobs.get_blob(store, manifest_id))


def _records(store: Store, entries: list[log.Entry], manifest_id: str) -> dict[str, Recurring]:
    count = _manifest(store, manifest_id)["body"]["records"]
    if count > RECORDS_MAX:
        raise InputManifestError(f"{count} records; recurrence is told of {RECORDS_MAX} and fewer.", where=manifest_id)
    return {
        record["id"]: Recurring(record["id"], bytes.fromhex(record["sort_key"]), record["key"], record["category"])
        for record in _lines(store, entries, manifest_id)
    }


def _lines(store: Store, entries: list[log.Entry], manifest_id: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a manifest. Raises: InputPolicyError where its contract keeps none, StoreRetiredError."""
    manifest = _manifest(store, manifest_id)
    contract = parse_contract(blobs.get_blob(store, manifest["contract"]["sha256"]))
    if contract["detail"] == "counts":
        raise InputPolicyError("detail counts keeps no records, so none can be known again.", where=manifest_id)
    with closing(open_body(store, entries, manifest["body"]["sha256"])) as body:
        for lines in read_lines(body):
            yield from (jsonc.loads(line) for line in lines)


def _look(store: Store, entries: list[log.Entry], manifest_id: str, known: dict[str, Recurring]) -> None:
    """Count one older run."""
    key_range = KeyRange(*range_bytes(_manifest(store, manifest_id)["key_range"]))
    try:
        there = {record["id"] for record in _lines(store, entries, manifest_id) if record["id"] in known}
    except (InputPolicyError, StoreRetiredError):
        return  # its records are not at hand
    for one in known.values():
        if one.id in there:
            one.runs += 1
            one.in_a_row += not one.gone
        elif one.sort_key in key_range:
            one.gone = True


def _count_patches(
    store: Store, patches: list[tuple[str, Document]], taken_back: set[str], known: dict[str, Recurring]
) -> None:
    """Count the patches that had made a record equal; neither rollbacks nor what they took back."""
    inverse = {ref: rollback_id(header["patch_id"], ref) for ref, header in patches}
    rollbacks = taken_back.intersection(inverse.values())
    headers = {ref: header for ref, header in patches if inverse[ref] not in rollbacks}
    for header in headers.values():
        if header["patch_id"] in rollbacks:
            continue
        for lines in ledger_lines(store, header):
            for line in lines:
                if line["outcome"] == APPLIED and line["id"] in known:
                    known[line["id"]].patched += 1
