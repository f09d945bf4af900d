"""Verification of a pair's log and its anchors: every entry read, every break named, nothing believed (docs/format.md, S12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from airflow_delta_provider.core.anchor import Anchor, check_log, parse_anchor, verify_anchor
from airflow_delta_provider.core.errors import (
    DeltaError,
    LogAnchorError,
    LogChainError,
    LogGapError,
    SignatureUntrustedError,
    StoreConflictError,
    StoreFileError,
    StoreMissingError,
)
from airflow_delta_provider.core.findings import Findings, Stage
from airflow_delta_provider.core.log import Entry, head, read_entry, read_pair
from airflow_delta_provider.core.signing.dsse import ENVELOPE_BYTES_MAX, parse_envelope
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust


@dataclass(slots=True)
class LogCheck:
    """What stands in the log of one pair.

    Shape: ``entries`` are those that could be read, oldest first, though a link between them may be broken.
    ``anchors`` counts the anchors that the log was held against; ``untrusted`` says why one of them was by no trusted key.
    ``subjects`` tells by number of entry which manifest its blob is about, where many manifests are verified; an entry
    that is not there may be about any.
    """

    pair_id: str
    entries: list[Entry] = field(default_factory=list)
    anchors: int = 0
    untrusted: str = ""
    findings: Findings = field(default_factory=lambda: Findings(Stage.LOG))
    subjects: dict[int, str] = field(default_factory=dict)

    def about(self, manifest_id: str) -> list[Entry]:
        """Return the entries whose blobs are about a manifest, or may be."""
        return [entry for entry in self.entries if self.subjects.get(entry.seq, manifest_id) == manifest_id]

    def seqs_of(self, kind: str, ref: str) -> list[int]:
        """Return the numbers of the entries of a kind that name a digest."""
        return [entry.seq for entry in self.entries if (entry.kind, entry.ref) == (kind, ref)]

    def document(self) -> dict[str, object]:
        """Return the form that ``--json`` prints."""
        return {"anchors": self.anchors, "entries": len(self.entries), "pair": self.pair_id}


def verify_log(
    store: Store, pair_id: str, trust: Trust | None = None, *, listed: bool = False, anchors: Sequence[bytes] = ()
) -> LogCheck:
    """Read the whole log of a pair, check each link, and hold it against its anchors.

    ``listed`` also looks for entries beyond a missing one, by listing. ``anchors`` are envelopes of anchors that the
    verifier kept elsewhere; those in the store are always taken too.
    Raises: what the store raises where it cannot be read.
    """
    check = LogCheck(pair_id)
    _check_pair(store, check)
    last = _last(store, check, listed)
    before: Entry | None = None
    whole = True
    for seq in range(last + 1):
        entry = _read(store, check, seq)
        if entry is None:
            before, whole = None, False
            continue
        if whole and entry.prev != (before.digest_hex if before else None):
            sentence = "The entry does not follow from the one before it."
            check.findings.note(LogChainError, f"log entry {seq}", sentence)
        check.entries.append(entry)
        before, whole = entry, True
    for number, kept in enumerate(anchors):
        _check_anchor(check, kept, f"kept anchor {number}", trust, None)
    for path, size in stored_anchors(store, pair_id):
        data = _anchor_bytes(store, check, path)
        if data is not None:
            _check_anchor(check, data, f"anchor of {size} entries", trust, size)
    return check


def stored_anchors(store: Store, pair_id: str) -> Iterator[tuple[str, int]]:
    """Yield path and size of the anchors that a store lists for a pair."""
    for path in store.list(f"pairs/{pair_id}/anchors"):
        name = path.rsplit("/", 1)[1].removesuffix(".json")
        if name.isdecimal() and len(name) == 20:
            yield path, int(name)


def _check_pair(store: Store, check: LogCheck) -> None:
    try:
        read_pair(store, check.pair_id)
    except (StoreMissingError, StoreConflictError, StoreFileError) as error:
        check.findings.add(error, "pair.json")
    except DeltaError as error:
        if type(error).code.startswith("DELTA_JSON"):
            check.findings.add(error, "pair.json")
            return
        raise


def _last(store: Store, check: LogCheck, listed: bool) -> int:
    """Return the number of the last entry that can be found, -1 where there is none."""
    try:
        newest = head(store, check.pair_id)
        last = newest.seq if newest else -1
    except (LogChainError, StoreFileError):
        last, listed = 0, True  # a damaged entry stands in the way of the bisection; reading in order names it
    if listed:
        for path in store.list(f"pairs/{check.pair_id}/log"):
            name = path.rsplit("/", 1)[1].removesuffix(".json")
            if name.isdecimal() and len(name) == 20:
                last = max(last, int(name))
            else:
                check.findings.note(StoreFileError, path[:128], "This is no log entry.")
    return last


def _read(store: Store, check: LogCheck, seq: int) -> Entry | None:
    try:
        return read_entry(store, check.pair_id, seq)
    except StoreMissingError:
        check.findings.note(LogGapError, f"log entry {seq}", "The entry is missing, though later ones are there.")
    except (LogChainError, StoreFileError) as error:
        check.findings.add(error, f"log entry {seq}")
    return None


def _anchor_bytes(store: Store, check: LogCheck, path: str) -> bytes | None:
    try:
        return store.read(path, ENVELOPE_BYTES_MAX)
    except StoreFileError as error:
        check.findings.add(error, path)
        return None


def _check_anchor(check: LogCheck, data: bytes, place: str, trust: Trust | None, size: int | None) -> None:
    try:
        anchor = _trusted_anchor(check, data, trust)
        if size is not None and anchor.size != size:
            raise LogAnchorError(f"The anchor is over {anchor.size} entries, its name says {size}.")
        check_log(check.entries, anchor)
    except SignatureUntrustedError as error:
        check.untrusted = check.untrusted or f"{place}: {error.message}"
    except DeltaError as error:
        check.findings.add(error, place)
    else:
        check.anchors += 1


def _trusted_anchor(check: LogCheck, data: bytes, trust: Trust | None) -> Anchor:
    if trust is not None:
        return verify_anchor(data, trust, check.pair_id)
    return parse_anchor(parse_envelope(data).payload)
