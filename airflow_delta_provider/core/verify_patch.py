"""Verification of a checkpoint and its ledger: patch id, one line for each record, outcomes that add up (S12)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, BinaryIO

from airflow_delta_provider.core import ids, jsonc, merkle
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.documents import Document, parse_checkpoint, parse_ledger
from airflow_delta_provider.core.documents.patch import (
    OUTCOMES,
    ROLLBACK_RULE,
    parse_checkpoint_line,
    parse_ledger_line,
)
from airflow_delta_provider.core.errors import (
    CheckpointMismatchError,
    DeltaError,
    LedgerMismatchError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.types import from_schema
from airflow_delta_provider.core.values import canonical_ok
from airflow_delta_provider.core.verify import GONE, Artifacts, fetch

FOLLOWS = {"insert": True, "update": False, "delete": False}
"""Whether ``before`` is null where an operation was applied."""


def verify_patch(
    checkpoint_id: str,
    ledger_id: str | None,
    manifest_id: str,
    manifest: Document,
    schema: Document,
    artifacts: Artifacts,
    *,
    rollback_of: tuple[str, str] | None = None,
) -> list[Finding]:
    """Verify a checkpoint, and its ledger where there is one, against the manifest that was patched.

    ``rollback_of`` is (patch id, ledger digest) of the patch that a rollback takes back. ``artifacts`` gives plain
    bytes: where checkpoints are encrypted, it decrypts.
    Raises: what the store raises where it cannot be read.
    """
    findings = Findings(Stage.PATCH)
    checkpoint = _read(checkpoint_id, "checkpoint", parse_checkpoint, CheckpointMismatchError, artifacts, findings)
    if checkpoint is None:
        return findings.listed()
    _check_checkpoint(checkpoint, manifest_id, manifest, rollback_of, findings)
    lines = _Lines(artifacts, manifest["body"], "delta body", CheckpointMismatchError, findings)
    points = _Lines(artifacts, checkpoint["body"], "checkpoint body", CheckpointMismatchError, findings)
    ledger, entries = None, None
    if ledger_id is not None:
        ledger = _read(ledger_id, "ledger", parse_ledger, LedgerMismatchError, artifacts, findings)
    if ledger is not None:
        _check_ledger(ledger, checkpoint_id, checkpoint, findings)
        entries = _Lines(artifacts, ledger["body"], "ledger body", LedgerMismatchError, findings)
    outcomes = _check_lines(lines, points, entries, schema, findings)
    if ledger is not None and outcomes != ledger["outcomes"]:
        findings.note(LedgerMismatchError, "ledger.outcomes", "The lines have other outcomes than the header states.")
    return findings.listed()


def _read(
    digest: str,
    place: str,
    parse: Callable[[bytes], Document],
    error: type[DeltaError],
    artifacts: Artifacts,
    findings: Findings,
) -> Document | None:
    data = fetch(artifacts.read, digest, place, findings)
    if data is None:
        return None
    if ids.sha256_hex(data) != digest:
        findings.note(error, place, f"The {place} does not hash to its digest.")
        return None
    try:
        return parse(data)
    except DeltaError as problem:
        findings.add(problem, f"{place}.{problem.where}")
        return None


def _check_checkpoint(
    checkpoint: Document,
    manifest_id: str,
    manifest: Document,
    rollback_of: tuple[str, str] | None,
    findings: Findings,
) -> None:
    note = findings.note
    if checkpoint["manifest"] != manifest_id:
        note(CheckpointMismatchError, "checkpoint.manifest", "The checkpoint belongs to another manifest.")
    if checkpoint["schema"] != manifest["schema"]:
        note(CheckpointMismatchError, "checkpoint.schema", "The checkpoint has another schema than the manifest.")
    rule = checkpoint["rule"]
    if rule["name"] != ROLLBACK_RULE:
        expected: str | None = ids.patch_id(checkpoint["manifest"], rule["name"], rule["column"], checkpoint["side"])
    else:
        expected = None if rollback_of is None else ids.rollback_id(*rollback_of)
    if expected is not None and checkpoint["patch_id"] != expected:
        note(
            CheckpointMismatchError, "checkpoint.patch_id", "The patch id does not follow from manifest, rule and side."
        )


def _check_ledger(ledger: Document, checkpoint_id: str, checkpoint: Document, findings: Findings) -> None:
    stated = {
        "checkpoint": checkpoint_id,
        "manifest": checkpoint["manifest"],
        "patch_id": checkpoint["patch_id"],
    }
    for member, value in stated.items():
        if ledger[member] != value:
            findings.note(LedgerMismatchError, f"ledger.{member}", "It is another than the checkpoint's.")


class _Lines:
    """The lines of one body, hashed as they pass; at the end compared with the block that states them."""

    def __init__(
        self, artifacts: Artifacts, block: Document, place: str, error: type[DeltaError], findings: Findings
    ) -> None:
        self._artifacts, self._block, self.place = artifacts, block, place
        self.error, self._findings = error, findings

    def read(self) -> Iterator[bytes]:
        hasher, tree, size = hashlib.sha256(), merkle.Accumulator(), 0
        try:
            stream: BinaryIO = self._artifacts.open(self._block["sha256"])
        except GONE as gone:
            self._findings.add(gone, self.place)
            return
        with closing(stream):
            try:
                for lines in read_lines(stream, hasher):
                    tree.extend(merkle.leaf_hashes(lines))
                    size += sum(map(len, lines)) + len(lines)
                    yield from lines
            except DeltaError as error:
                self._findings.add(error, self.place)
        found = {"bytes": size, "records": tree.size, "root": tree.root().hex(), "sha256": hasher.hexdigest()}
        if found != self._block:
            self._findings.note(self.error, self.place, f"The {self.place} is not what its header says.")


def _check_lines(
    records: _Lines, points: _Lines, entries: _Lines | None, schema: Document, findings: Findings
) -> dict[str, int]:
    """Read all bodies side by side: one line each for each record; return the outcomes that were counted."""
    outcomes: Counter[str] = Counter()
    types = [from_schema(kind) for _, kind in schema["columns"]]
    streams = [records.read(), points.read(), entries.read() if entries is not None else iter(())]
    number = 0
    while True:
        line, point_line, entry_line = (next(stream, None) for stream in streams)
        if line is None and point_line is None and entry_line is None:
            break
        place = f"record {number}"
        number += 1
        record = _loads(line)
        point = _parsed(point_line, parse_checkpoint_line, points, place, findings)
        if record is None or point is None or any(point[m] != record.get(m) for m in ("id", "key", "sort_key")):
            findings.note(
                CheckpointMismatchError, place, "The checkpoint has no line for this record, or one too many."
            )
        elif point["before"] is not None and not _is_row(point["before"], types):
            findings.note(CheckpointMismatchError, place, "before is no row in clear.")
        if entries is None:
            continue
        entry = _parsed(entry_line, parse_ledger_line, entries, place, findings)
        if record is None or entry is None or any(entry[m] != record.get(m) for m in ("id", "sort_key")):
            findings.note(LedgerMismatchError, place, "The ledger has no line for this record, or one too many.")
            continue
        outcomes[entry["outcome"]] += 1
        if point is not None and entry["outcome"] == "applied" and FOLLOWS[entry["op"]] != (point["before"] is None):
            findings.note(LedgerMismatchError, place, f"{entry['op']} does not follow from what stood there before.")
    return {outcome: outcomes.get(outcome, 0) for outcome in OUTCOMES}


def _loads(line: bytes | None) -> dict[str, Any] | None:
    """Return a record that the manifest's own verification judges; here it only has to be there."""
    if line is None:
        return None
    try:
        record = jsonc.loads(line)
    except DeltaError:
        return None
    return record if isinstance(record, dict) else None


def _parsed(
    line: bytes | None,
    parse: Callable[[bytes], dict[str, Any]],
    lines: _Lines,
    place: str,
    findings: Findings,
) -> dict[str, Any] | None:
    if line is None:
        return None
    try:
        return parse(line)
    except DeltaError as error:
        findings.add(error, f"{lines.place}, {place}")
        return None


def _is_row(before: list[Any], types: list[Any]) -> bool:
    """Tell whether values are canonical and in clear; a text that a rule could not parse stands as ``{"unparsed"}``."""
    return len(before) == len(types) and all(
        canonical_ok(value, kind) or (isinstance(value, dict) and set(value) == {"unparsed"})
        for value, kind in zip(before, types, strict=True)
    )
