"""Verification of what a store published: manifest, signature, log, body, documents and patches in one pass (docs/format.md, S12)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from airflow_delta_provider.core import documents, ids, jsonc
from airflow_delta_provider.core.documents.manifest import MANIFEST_BYTES_MAX
from airflow_delta_provider.core.documents.patch import ROLLBACK_RULE
from airflow_delta_provider.core.errors import (
    DeltaError,
    EnvelopeError,
    InputDigestError,
    LogGapError,
    StoreConflictError,
    StoreFileError,
    StoreMissingError,
    StoreRetiredError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage, in_order
from airflow_delta_provider.core.log import Entry, refuse_retired
from airflow_delta_provider.core.signing.dsse import ENVELOPE_BYTES_MAX, parse_envelope
from airflow_delta_provider.core.signing.statement import subject_of
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.published import SIDECAR_BYTES_MAX
from airflow_delta_provider.core.store.store import READ_BYTES_MAX, Store
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.core.verify import read_manifest, verify_manifest
from airflow_delta_provider.core.verify_log import LogCheck, verify_log
from airflow_delta_provider.core.verify_patch import verify_patch
from airflow_delta_provider.core.verify_signature import (
    TRUSTED,
    UNCHECKED,
    UNSIGNED,
    UNTRUSTED,
    FoundEnvelope,
    SignatureCheck,
    check_envelopes,
)
from airflow_delta_provider.core.verify_sweep import verify_sweep

VERIFIED = "verified"
FOUND = "findings"
PART = "part"
"""The verdict over a manifest that nobody published, for who asks for a part: it is no verdict on the pair."""
EXIT_CODES = {VERIFIED: 0, PART: 0, FOUND: 1, UNTRUSTED: 4, UNSIGNED: 4}


@dataclass(slots=True)
class ManifestCheck:
    """What the verification of one published manifest came to.

    Shape: ``verdict`` is ``verified``, ``findings``, or, where a trust file was given and nothing else is wrong,
    ``unsigned`` or ``untrusted``; it is ``part`` for ``part``, a manifest that was asked for as a part and that no log
    entry names. ``notes`` are sentences for people: what was retired or could not be checked.
    ``seqs`` are the numbers of the log entries that name the manifest.
    """

    manifest_id: str
    manifest: documents.Document | None = None
    signature: SignatureCheck = field(default_factory=lambda: SignatureCheck(UNCHECKED))
    seqs: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trust_given: bool = False
    log_untrusted: bool = False
    part: bool = False

    @property
    def verdict(self) -> str:
        """What it comes to in one word."""
        if self.findings:
            return FOUND
        if self.trust_given and self.signature.status != TRUSTED:
            return self.signature.status
        if self.log_untrusted:
            return UNTRUSTED
        return PART if self.part else VERIFIED

    def document(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return {
            "findings": [finding.document() for finding in self.findings],
            "log": {"seq": self.seqs},
            "manifest": self.manifest_id,
            "notes": self.notes,
            "signature": self.signature.document(),
            "verdict": self.verdict,
        }


class StoreArtifacts:
    """The artifacts of a store as a verifier takes them: unchecked bytes, retired ones told from lost ones.

    What is no plain file of ours (a link, a pipe) is a finding of its own and then counts as missing.
    """

    def __init__(self, store: Store, entries: Sequence[Entry], findings: Findings) -> None:
        self._store, self._entries, self._findings = store, entries, findings

    def read(self, digest_hex: str) -> bytes:
        """Return a document's bytes, at most ``READ_BYTES_MAX`` of them."""
        with closing(self.open(digest_hex)) as stream:
            return stream.read(READ_BYTES_MAX + 1)

    def open(self, digest_hex: str) -> BinaryIO:
        """Return a seekable stream over an artifact."""
        try:
            return blobs.open_blob(self._store, digest_hex)
        except StoreMissingError:
            refuse_retired(self._entries, digest_hex)
            raise
        except StoreFileError as error:
            self._findings.add(error, f"blob {digest_hex}")
            raise StoreMissingError(f"{digest_hex} is no plain file.", where=digest_hex) from error


def verify_published(
    store: Store,
    manifest_id: str,
    *,
    trust: Trust | None = None,
    log: LogCheck | None = None,
    anchors: Sequence[bytes] = (),
    workers: int = 1,
    part: bool = False,
) -> tuple[ManifestCheck, LogCheck | None]:
    """Verify one manifest of a store with everything that stands behind it, and report everything that is wrong.

    ``log`` is the verified log of its pair where the caller has it; its findings are then the caller's. ``workers``
    processes share the records of a large body. ``part``: the manifest may be one that nobody published, as a sample stores
    them; a cut log looks the same, so only who asks for a part gets that verdict.
    Raises: InputDigestError (DELTA_INPUT_DIGEST); StoreMissingError (DELTA_STORE_MISSING) where the manifest is not in
    the store; what the store raises where it cannot be read.
    """
    check = ManifestCheck(layout.checked_digest(manifest_id), trust_given=trust is not None)
    files = Findings(Stage.FETCH)
    data = _manifest_bytes(store, manifest_id, files)
    if data is None:
        check.findings = files.listed()
        return check, log
    check.manifest, found = read_manifest(manifest_id, data)
    if check.manifest is None:
        check.findings = in_order([*files.listed(), *found])
        return check, log
    pair_id = documents.pair_id(**check.manifest["pair"])
    given = log is not None
    if log is None:
        log = verify_log(store, pair_id, trust, anchors=anchors)
    signing, logged = Findings(Stage.SIGNATURE), Findings(Stage.LOG)
    check.seqs = log.seqs_of("manifest", manifest_id)
    if part and not check.seqs:
        check.part = True
        check.notes.append(_part_note(check.manifest))
    elif not check.seqs:
        sentence = f"No entry of log {pair_id} names this manifest: it was never published, or the log was cut."
        logged.note(LogGapError, "log", sentence)
    about = log.about(manifest_id)
    envelopes = list(_envelopes(store, about, manifest_id, signing))
    check.signature = check_envelopes(envelopes, data, pair_id, trust, signing)
    artifacts = StoreArtifacts(store, log.entries, files)
    index = _page_index(store, about, manifest_id, logged)
    result = verify_manifest(manifest_id, artifacts, page_index=index, workers=workers)
    quiet = given or (check.part and not log.entries)  # a pair that never ran has no log to look at
    result.add(signing.listed() + logged.listed() + ([] if quiet else log.findings.listed()))
    if result.manifest is not None:
        result.add(verify_sweep(store, log.entries, manifest_id, result.manifest, artifacts))
    result.add(_verify_patches(store, about, manifest_id, result.manifest, result.schema, artifacts, check))
    result.add(files.listed())
    _set_retired_apart(check, result.findings)
    if log.untrusted and not given:
        check.log_untrusted = True
        check.notes.append(log.untrusted)
    return check, log


def _part_note(manifest: documents.Document) -> str:
    lower, upper = (manifest["key_range"][bound] or "" for bound in ("lower", "upper"))
    return f"Never published. It speaks of the keys {lower} .. {upper} alone and is no verdict on the pair."


def subjects_of(store: Store, entries: Sequence[Entry]) -> dict[int, str]:
    """Return which manifest each envelope, sidecar, checkpoint and ledger of a log is about, by number of entry.

    Whoever verifies every manifest of a log then reads each blob twice, and not once for each manifest. A blob that is
    missing or damaged is left out: it may be about any.
    """
    found: dict[int, str] = {}
    for entry in entries:
        member = {"sidecar": "for", "checkpoint": "manifest", "ledger": "manifest"}.get(entry.kind)
        if member is None and entry.kind != "envelope":
            continue
        limit = ENVELOPE_BYTES_MAX if entry.kind == "envelope" else SIDECAR_BYTES_MAX
        data = logged_blob(store, entry, limit, Findings(Stage.LOG), entries)
        try:
            document = jsonc.loads(data) if data and member else None
            subject = subject_of(parse_envelope(data).payload) if data and not member else None
        except DeltaError:
            continue
        if isinstance(document, dict):
            subject = document.get(member or "")
        if isinstance(subject, str):
            found[entry.seq] = subject
    return found


def _manifest_bytes(store: Store, manifest_id: str, files: Findings) -> bytes | None:
    """Return the bytes under the id of a manifest; more than any manifest has are cut, so that they are refused."""
    try:
        with closing(blobs.open_blob(store, manifest_id)) as stream:
            return stream.read(MANIFEST_BYTES_MAX + 1)
    except StoreFileError as error:
        files.add(error, "manifest")
        return None


def _set_retired_apart(check: ManifestCheck, findings: Sequence[Finding]) -> None:
    """Keep what was retired on purpose out of the findings: it is a fact of the log and no damage."""
    for finding in findings:
        if finding.code == StoreRetiredError.code:
            check.notes.append(f"{finding.place}: {finding.sentence} It could not be checked.")
        else:
            check.findings.append(finding)


def logged_blob(store: Store, entry: Entry, limit_bytes: int, findings: Findings, entries: Sequence[Entry]) -> bytes:
    """Return the bytes that a log entry names, empty where they are lost or damaged, which is a finding."""
    place = f"log entry {entry.seq} ({entry.kind})"
    try:
        data = store.read(layout.blob_path(entry.ref), limit_bytes)
    except StoreMissingError as error:
        try:
            refuse_retired(entries, entry.ref)
        except StoreRetiredError as retired:
            findings.add(retired, place)
            return b""
        findings.add(error, place)
        return b""
    except StoreFileError as error:
        findings.add(error, place)
        return b""
    if hashlib.sha256(data).hexdigest() != entry.ref:
        kind = EnvelopeError if entry.kind == "envelope" else StoreConflictError
        findings.note(kind, place, "What the entry names does not hash to its digest.")
        return b""
    return data


def _envelopes(store: Store, entries: Sequence[Entry], manifest_id: str, findings: Findings) -> Iterator[FoundEnvelope]:
    """Yield the logged envelopes that are about a manifest; one that is damaged might be, so it is a finding."""
    for entry in entries:
        if entry.kind != "envelope":
            continue
        data = logged_blob(store, entry, ENVELOPE_BYTES_MAX, findings, entries)
        if not data:
            continue
        try:
            subject = subject_of(parse_envelope(data).payload)
        except EnvelopeError as error:
            findings.add(error, f"log entry {entry.seq} (envelope)")
            continue
        if subject == manifest_id:
            yield FoundEnvelope(data, entry.seq, f"log entry {entry.seq} (envelope)")


def _page_index(store: Store, entries: Sequence[Entry], manifest_id: str, findings: Findings) -> bytes | None:
    """Return the page index that a sidecar names. It is derived: one that is gone is no finding."""
    for entry in reversed(entries):
        if entry.kind != "sidecar":
            continue
        data = logged_blob(store, entry, SIDECAR_BYTES_MAX, findings, entries)
        named = _page_index_of(data, manifest_id) if data else None
        if named is None:
            continue
        try:
            with closing(blobs.open_blob(store, named)) as stream:
                index = stream.read(READ_BYTES_MAX + 1)
        except (StoreMissingError, StoreFileError):
            continue
        return index if len(index) <= READ_BYTES_MAX else None
    return None


def _page_index_of(data: bytes, manifest_id: str) -> str | None:
    try:
        document = jsonc.loads(data)
    except DeltaError:
        return None
    if not isinstance(document, dict) or document.get("for") != manifest_id:
        return None
    named = document.get("page_index")
    return named if isinstance(named, str) and layout.is_digest(named) else None


def _verify_patches(
    store: Store,
    entries: Sequence[Entry],
    manifest_id: str,
    manifest: documents.Document | None,
    schema: documents.Document | None,
    artifacts: StoreArtifacts,
    check: ManifestCheck,
) -> list[Finding]:
    """Verify the checkpoints and ledgers that the log names for a manifest."""
    findings = Findings(Stage.PATCH)
    if manifest is None or schema is None:
        return []
    checkpoints = _headers(store, entries, "checkpoint", manifest_id, findings)
    ledgers = _headers(store, entries, "ledger", manifest_id, findings)
    if checkpoints and _is_encrypted(artifacts, manifest):
        check.notes.append("Checkpoints of sensitive columns are encrypted: they were not read.")
        return findings.listed()
    found: list[Finding] = []
    for digest, checkpoint in checkpoints.items():
        mine: list[str | None] = [ref for ref, ledger in ledgers.items() if ledger.get("checkpoint") == digest]
        for ledger_id in mine or [None]:
            taken_back = _taken_back(checkpoint, ledgers)
            found += verify_patch(digest, ledger_id, manifest_id, manifest, schema, artifacts, rollback_of=taken_back)
    return findings.listed() + found


def _is_encrypted(artifacts: StoreArtifacts, manifest: documents.Document) -> bool:
    try:
        contract = documents.parse_contract(artifacts.read(manifest["contract"]["sha256"]))
    except DeltaError:
        return False  # a finding of its own
    return bool(contract["sensitive"])


def _headers(
    store: Store, entries: Sequence[Entry], kind: str, manifest_id: str, findings: Findings
) -> dict[str, dict[str, Any]]:
    """Return the logged headers of a kind that are for a manifest, by digest."""
    headers = {}
    for entry in entries:
        if entry.kind != kind or entry.ref in headers:
            continue
        data = logged_blob(store, entry, SIDECAR_BYTES_MAX, findings, entries)
        try:
            document = jsonc.loads(data) if data else None
        except DeltaError as error:
            findings.add(error, f"log entry {entry.seq} ({kind})")
            continue
        if isinstance(document, dict) and document.get("manifest") == manifest_id:
            headers[entry.ref] = document
    return headers


def _taken_back(checkpoint: dict[str, Any], ledgers: dict[str, dict[str, Any]]) -> tuple[str, str] | None:
    """Return patch id and ledger digest of the patch that a rollback's checkpoint takes back, None for a patch."""
    rule = checkpoint.get("rule")
    if not isinstance(rule, dict) or rule.get("name") != ROLLBACK_RULE:
        return None
    for digest, ledger in ledgers.items():
        patch = ledger.get("patch_id")
        try:
            if isinstance(patch, str) and ids.rollback_id(patch, digest) == checkpoint.get("patch_id"):
                return patch, digest
        except InputDigestError:
            continue
    return ("0" * 64, "0" * 64)


def worst(verdicts: Sequence[str]) -> str:
    """Return the verdict over several: findings before untrusted, unsigned and verified."""
    return next((verdict for verdict in (FOUND, UNTRUSTED, UNSIGNED) if verdict in verdicts), VERIFIED)
