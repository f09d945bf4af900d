"""A walk over pairs and whole stores: every log, every logged artifact, and what nothing names (docs/format.md, S10 and S12)."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import StoreConflictError, StoreFileError, StoreMissingError
from airflow_delta_provider.core.findings import Finding, Findings, Stage, in_order
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.slots import SLOT_BYTES_MAX
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.core.verify_log import LogCheck, verify_log
from airflow_delta_provider.core.verify_signature import UNTRUSTED
from airflow_delta_provider.core.verify_store import (
    FOUND,
    VERIFIED,
    ManifestCheck,
    subjects_of,
    verify_published,
    worst,
)

SCAN_BYTES_MAX = 8 * 2**20
"""Largest artifact that is searched for the digests that it names; only bodies are larger."""
READ_BYTES = 2**20
ORPHAN_AGE_S = 24 * 3600
"""Younger blobs that no log names may belong to a publication that is under way."""
RECEIPT_BYTES = 64
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_BLOB = re.compile(r"blobs/sha256/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})")
_SLOT = re.compile(r"pairs/[0-9a-f]{32}/slots/[a-z]+/[0-9a-f]{64}\.json")


@dataclass(slots=True)
class PairCheck:
    """One pair: its log, and each manifest that the log names, oldest first."""

    log: LogCheck
    manifests: list[ManifestCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """What it comes to in one word."""
        mine = FOUND if self.findings else UNTRUSTED if self.log.untrusted else VERIFIED
        return worst([mine, *(manifest.verdict for manifest in self.manifests)])

    def document(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return {
            "findings": [finding.document() for finding in self.findings],
            "log": self.log.document(),
            "manifests": [manifest.document() for manifest in self.manifests],
            "verdict": self.verdict,
        }


@dataclass(slots=True)
class StoreAudit:
    """A whole store.

    Shape: ``orphans`` are digests of blobs that no log and no logged artifact names and that are older than
    ``orphan_age_s``, which is what a crashed run leaves behind: evidence of nothing, never removed here. ``young`` counts
    the ones that are not as old. ``foreign`` are paths that no store has; each is a finding too. ``unfinished`` counts
    files of runs that are not done; ``kept`` those that runs which published have left: their receipts, and plans for a
    task that is started again.
    """

    pairs: list[PairCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unfinished: int = 0
    kept: int = 0
    young: int = 0
    orphan_age_s: float = ORPHAN_AGE_S
    blobs: int = 0

    @property
    def verdict(self) -> str:
        """What it comes to in one word."""
        return worst([FOUND if self.findings else VERIFIED, *(pair.verdict for pair in self.pairs)])

    def document(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return {
            "blobs": self.blobs,
            "findings": [finding.document() for finding in self.findings],
            "foreign": self.foreign,
            "kept": self.kept,
            "orphan_age_s": self.orphan_age_s,
            "orphans": self.orphans,
            "pairs": [pair.document() for pair in self.pairs],
            "unfinished": self.unfinished,
            "verdict": self.verdict,
            "young": self.young,
        }


def verify_pair(
    store: Store, pair_id: str, *, trust: Trust | None = None, anchors: Sequence[bytes] = (), workers: int = 1
) -> PairCheck:
    """Verify the log of a pair, with entries that lie beyond a gap, and every manifest that it names.

    Raises: what the store raises where it cannot be read.
    """
    log = verify_log(store, pair_id, trust, listed=True, anchors=anchors)
    log.subjects = subjects_of(store, log.entries)
    check = PairCheck(log)
    lost = Findings(Stage.LOG)
    for manifest_id in dict.fromkeys(entry.ref for entry in log.entries if entry.kind == "manifest"):
        try:
            found, _ = verify_published(store, manifest_id, trust=trust, log=log, workers=workers)
        except StoreMissingError as error:
            lost.add(error, f"log entry {log.seqs_of('manifest', manifest_id)[0]} (manifest)")
            continue
        _check_pair_of(found, pair_id, lost)
        check.manifests.append(found)
    check.findings = log.findings.listed() + lost.listed()
    return check


def _check_pair_of(found: ManifestCheck, pair_id: str, findings: Findings) -> None:
    if found.manifest is not None and documents.pair_id(**found.manifest["pair"]) != pair_id:
        sentence = f"Manifest {found.manifest_id} is of another pair than the log that names it."
        findings.note(StoreConflictError, f"pairs/{pair_id}", sentence)


def audit(
    store: Store, *, trust: Trust | None = None, workers: int = 1, orphan_age_s: float = 0, now: float | None = None
) -> StoreAudit:
    """Verify every pair of a store and every artifact that a log names, and list what nothing names.

    ``orphan_age_s`` is how old an orphan is at least, at ``now`` in seconds since 1970; without ``now`` all are listed.
    Raises: StoreMissingError (DELTA_STORE_MISSING) where there is no store; what the store raises where it cannot be read.
    """
    store.read(layout.FORMAT_PATH, 64)
    result = StoreAudit(orphan_age_s=orphan_age_s)
    paths = list(store.list())
    files = Findings(Stage.FETCH)
    listed = _sort(paths, result, files)
    pair_ids = sorted({path.split("/")[1] for path in paths if path.startswith("pairs/") and path.count("/") > 1})
    result.pairs = [
        verify_pair(store, pair_id, trust=trust, workers=workers) for pair_id in pair_ids if layout.is_pair_id(pair_id)
    ]
    named = _logged(store, result, paths, files)
    reached = _reach(store, named, listed, result, files)
    result.orphans = [one for one in sorted(listed - reached) if now is None or _is_old(store, one, now - orphan_age_s)]
    result.young = len(listed - reached) - len(result.orphans)
    _count_work(store, [path for path in paths if path.startswith("work/")], result)
    result.blobs = len(listed)
    result.findings = in_order(files.listed())
    return result


def _sort(paths: Sequence[str], result: StoreAudit, files: Findings) -> set[str]:
    """Return the digests of all blobs; note what does not belong into a store."""
    listed = set()
    for path in paths:
        try:
            layout.checked_path(path)
        except StoreFileError as error:
            result.foreign.append(path[:256])
            files.add(error, path[:128])
            continue
        blob = _BLOB.fullmatch(path)
        if blob:
            listed.add(blob[1])
    return listed


def _is_old(store: Store, digest: str, before: float) -> bool:
    try:
        return store.written_at(layout.blob_path(digest)) <= before
    except StoreFileError:
        return True  # what was put in its place is a finding, and no publication under way


def _count_work(store: Store, paths: Sequence[str], result: StoreAudit) -> None:
    """Count the files of runs: of those that are done where the folder has the receipt of a logged manifest."""
    published = {entry.ref for pair in result.pairs for entry in pair.log.entries if entry.kind == "manifest"}
    for _, group in itertools.groupby(sorted(paths), key=lambda path: path.split("/")[1]):
        files = list(group)
        if any(_receipt(store, path) in published for path in files):
            result.kept += len(files)
        else:
            result.unfinished += len(files)


def _receipt(store: Store, path: str) -> str | None:
    """Return what a file of a run holds where it is as short as a receipt."""
    try:
        return store.read(path, RECEIPT_BYTES).decode("ascii", "replace")
    except (StoreFileError, StoreMissingError):
        return None


def _logged(store: Store, result: StoreAudit, paths: Sequence[str], files: Findings) -> list[str]:
    """Return what logs and slots name."""
    named = [entry.ref for pair in result.pairs for entry in pair.log.entries]
    for path in paths:
        if _SLOT.fullmatch(path):
            try:
                named += [digest.decode() for digest in _DIGEST.findall(store.read(path, SLOT_BYTES_MAX))]
            except StoreFileError as error:
                files.add(error, path)
    return named


def _reach(store: Store, named: Sequence[str], listed: set[str], result: StoreAudit, files: Findings) -> set[str]:
    """Return the blobs that are named, directly or by a named one, and check that each hashes to its name.

    A digest that stands in a named artifact counts as named, whatever it means there: rather too few orphans than one
    that is none. Bodies are hashed by their own verification and name nothing.
    """
    bodies = {
        check.manifest["body"]["sha256"]
        for pair in result.pairs
        for check in pair.manifests
        if check.manifest is not None
    }
    reached: set[str] = set()
    waiting = list(named)
    while waiting:
        digest = waiting.pop()
        if digest in reached or digest not in listed:
            continue
        reached.add(digest)
        if digest not in bodies:
            waiting += _names_in(store, digest, files)
    return reached


def _names_in(store: Store, digest: str, files: Findings) -> set[str]:
    """Hash one blob and return the digests that stand in it."""
    hasher, held, size = hashlib.sha256(), [], 0
    try:
        with closing(blobs.open_blob(store, digest)) as stream:
            while chunk := stream.read(READ_BYTES):
                hasher.update(chunk)
                size += len(chunk)
                if size <= SCAN_BYTES_MAX:
                    held.append(chunk)
    except (StoreMissingError, StoreFileError) as error:
        files.add(error, f"blob {digest}")
        return set()
    if hasher.hexdigest() != digest:
        files.note(StoreConflictError, f"blob {digest}", "The blob does not hash to its name.")
    if size > SCAN_BYTES_MAX:
        return set()
    return {found.decode() for found in _DIGEST.findall(b"".join(held))}
