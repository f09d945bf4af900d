"""Verification of a generation: index, packs, entries, each step from the predecessor, agreement with its manifest (S12)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from airflow_delta_provider.core import ids, jsonc
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.documents import Document, check_sweep_sums, parse_generation, range_bytes
from airflow_delta_provider.core.documents.generation import FILTERED, check_entry
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    BodyFramingError,
    CoverageMismatchError,
    DeltaError,
    DenominatorError,
    GenerationContractError,
    GenerationLostError,
    GenerationStepError,
    KeyMismatchError,
    RangeError,
    UnsortedStreamError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.generation import (
    LEFT_OUT,
    REFUSED,
    REPEATED,
    ROW,
    Change,
    Entry,
    Seen,
    Step,
    Tally,
    take_step,
)
from airflow_delta_provider.core.generations import check_coverage, check_predecessor
from airflow_delta_provider.core.keys import decode_key
from airflow_delta_provider.core.packs import PackRow, read_pack, read_pack_index
from airflow_delta_provider.core.types import LogicalType, from_schema
from airflow_delta_provider.core.verify import GONE, Artifacts, fetch


@dataclass(frozen=True, slots=True)
class IndexedGeneration:
    """A generation as a verifier finds it: the digest of its header, and its derived pack index."""

    header_id: str
    index: bytes


def verify_generation(
    generation: IndexedGeneration,
    predecessor: IndexedGeneration | None,
    manifest: Document,
    artifacts: Artifacts,
    *,
    detail: str = "values",
) -> tuple[Document | None, list[Finding]]:
    """Verify a generation against its manifest and its predecessor (None: the first sweep).

    ``detail`` is the contract's: under ``counts`` there is no delta body to compare with, and only under ``values`` and
    ``digests`` does a record tell its row digest.
    Raises: what the store raises where it cannot be read.
    """
    findings = Findings(Stage.GENERATION)
    header = _read_header(generation, manifest, artifacts, findings)
    if header is None:
        return None, findings.listed()
    before_header = None if predecessor is None else _read_predecessor(predecessor, header, artifacts, findings)
    rows = _read_index(generation.index, header, "pack index", findings)
    before_rows: list[PackRow] | None = []
    if predecessor is not None:
        before_rows = _read_index(predecessor.index, before_header, "predecessor's pack index", findings)
    elif header["predecessor"] is not None:
        findings.note(GenerationContractError, "predecessor", "The predecessor was not given, so no step was checked.")
        before_rows = None
    if rows is None:
        return header, findings.listed()
    entries = _Entries(header, rows, artifacts.read, findings)
    if before_rows is None:
        for _ in entries.checked():
            pass
    else:
        before = _unchecked(before_rows, artifacts.read, range_bytes(header["key_range"]), findings)
        changes = _Changes(manifest, artifacts, findings, detail)
        _check_steps(before, entries.checked(), entries, changes, manifest)
        if entries.whole:
            changes.end()
    entries.end()
    return header, findings.listed()


def _read_header(
    generation: IndexedGeneration, manifest: Document, artifacts: Artifacts, findings: Findings
) -> Document | None:
    data = fetch(artifacts.read, generation.header_id, "generation", findings)
    if data is None:
        return None
    if ids.sha256_hex(data) != generation.header_id:
        findings.note(GenerationContractError, "generation", "The header does not hash to its digest.")
    try:
        header = parse_generation(data)
    except DeltaError as error:
        findings.add(error, f"generation.{error.where}")
        return None
    try:
        check_sweep_sums(header)
    except DeltaError as error:
        findings.add(error, f"generation.{error.where}")
    try:
        check_coverage(header, manifest)
    except DeltaError as error:
        findings.add(error, f"generation.{error.where}")
    return header


def _read_predecessor(
    predecessor: IndexedGeneration, header: Document, artifacts: Artifacts, findings: Findings
) -> Document | None:
    data = fetch(artifacts.read, predecessor.header_id, "predecessor", findings)
    if data is None:
        return None
    try:
        document = parse_generation(data)
        check_predecessor(header, document, ids.sha256_hex(data))
    except DeltaError as error:
        findings.add(error, "predecessor")
        return None
    return document


def _read_index(data: bytes, header: Document | None, place: str, findings: Findings) -> list[PackRow] | None:
    if header is None:
        return None
    try:
        return read_pack_index(data, header["body"])
    except DeltaError as error:
        findings.add(error, place)
        return None


def _unchecked(
    rows: list[PackRow],
    read: Callable[[str], bytes],
    key_range: tuple[bytes | None, bytes | None],
    findings: Findings,
) -> Iterator[Entry]:
    """Yield the predecessor's entries of a key range; its own verification checks more than their packs."""
    lower, upper = key_range
    for row in rows:
        place = f"predecessor, pack at entry {row.start}"
        data = fetch(read, row.sha256, place, findings)
        if data is None:
            continue
        try:
            entries = read_pack(data, row)
        except DeltaError as error:
            findings.add(error, place)
            continue
        for entry in entries:
            if (lower is None or lower <= entry.sort_key) and (upper is None or entry.sort_key < upper):
                yield entry


class _Entries:
    """The entries of the generation under test, each checked by itself as it passes."""

    def __init__(self, header: Document, rows: list[PackRow], read: Callable[[str], bytes], findings: Findings) -> None:
        self.findings = findings
        self.header = header
        self._rows = rows
        self._read = read
        self._hasher = hashlib.sha256()
        self._types: list[LogicalType] = [from_schema(kind) for kind in header["key"]["types"]]
        self._bounds = range_bytes(header["key_range"])
        self._last: bytes | None = None
        self._whole = True
        self._dispositions = dict.fromkeys(header["dispositions"], 0)
        self._filtered = 0

    def checked(self) -> Iterator[Entry]:
        """Yield every entry that could be read, in the order of the packs."""
        for row in self._rows:
            place = f"pack at entry {row.start}"
            data = fetch(self._read, row.sha256, place, self.findings)
            self._whole = self._whole and data is not None
            if data is None:
                continue
            self._hasher.update(data)
            try:
                entries = read_pack(data, row)
            except DeltaError as error:
                self.findings.add(error, place)
                self._whole = False
                continue
            for number, entry in enumerate(entries, row.start):
                self._check(entry, f"entry {number}, key {entry.sort_key.hex()[:64]}")
                yield entry

    def _check(self, entry: Entry, place: str) -> None:
        note = self.findings.note
        try:
            key = check_entry(jsonc.loads(entry.line))["key"]
            if decode_key(entry.sort_key, self._types) != key:
                note(KeyMismatchError, place, "The key is not the one that its sort_key holds.")
        except DeltaError as error:
            self.findings.add(error, place)
        if self._last is not None and entry.sort_key <= self._last:
            note(UnsortedStreamError, place, "The key does not come after the one before it.")
        lower, upper = self._bounds
        if (lower is not None and entry.sort_key < lower) or (upper is not None and entry.sort_key >= upper):
            note(RangeError, place, "The key lies outside the key range of the generation.")
        self._last = entry.sort_key
        self._dispositions[entry.disposition] += 1
        self._filtered += entry.reason == FILTERED

    def end(self) -> None:
        """Compare what was counted with the header, where all packs could be read."""
        if not self._whole:
            return
        header = self.header
        if self._hasher.hexdigest() != header["body"]["sha256"]:
            self.findings.note(BodyDigestError, "entries", "The packs do not hash to what the header says.")
        if self._dispositions != header["dispositions"]:
            self.findings.note(DenominatorError, "dispositions", "The entries have other dispositions than stated.")
        if self._filtered != header["sweep"]["skipped"]:
            sentence = f"{self._filtered} entries were filtered, {header['sweep']['skipped']} rows skipped."
            self.findings.note(DenominatorError, "sweep.skipped", sentence)

    @property
    def whole(self) -> bool:
        """False once a pack could not be read."""
        return self._whole


def _seen(after: Entry) -> Seen | None:
    """Return what a sweep must have seen for this entry to come out of it."""
    if after.disposition == "absent":
        return None
    if after.disposition == "present":
        return Seen(after.sort_key, ROW, after.row_digest)
    if after.disposition == "failed":
        return Seen(after.sort_key, REFUSED, reason=after.reason)
    return Seen(after.sort_key, LEFT_OUT if after.reason == FILTERED else REPEATED)


def _check_steps(
    before: Iterator[Entry], after: Iterator[Entry], entries: _Entries, changes: _Changes, manifest: Document
) -> None:
    """Check each step, that no key was lost, and that the counts are those of the steps."""
    findings, tally = entries.findings, Tally()
    old = next(before, None)
    for entry in after:
        while old is not None and old.sort_key < entry.sort_key:
            if entries.whole:
                _note_lost(findings, old)
            old = next(before, None)
        known = old if old is not None and old.sort_key == entry.sort_key else None
        _check_step(known, entry, tally, changes if entries.whole else None, findings)
        if known is not None:
            old = next(before, None)
    while old is not None and entries.whole:
        _note_lost(findings, old)
        old = next(before, None)
    if not entries.whole:
        return
    for name in ("new", "changed", "unchanged", "absent", "failed", "skipped"):
        if tally.counts[name] != entries.header["sweep"][name]:
            sentence = f"The steps give {tally.counts[name]}, the header says {entries.header['sweep'][name]}."
            findings.note(DenominatorError, f"sweep.{name}", sentence)
    source = manifest["population"]["source"]
    for member, count in tally.population()["source"].items():
        if source[member] != count:
            sentence = f"The predecessor gives {count}, the manifest says {source[member]}."
            findings.note(CoverageMismatchError, f"population.source.{member}", sentence)


def _note_lost(findings: Findings, entry: Entry) -> None:
    findings.note(GenerationLostError, f"key {entry.sort_key.hex()[:64]}", "The key of the predecessor has no entry.")


def _check_step(known: Entry | None, entry: Entry, tally: Tally, changes: _Changes | None, findings: Findings) -> None:
    """Check one step; ``changes`` is None once a pack is missing, for its records would be taken for others."""
    seen = _seen(entry)
    place = f"key {entry.sort_key.hex()[:64]}"
    if known is None and seen is None:
        findings.note(GenerationStepError, place, "A key that was never seen cannot be absent.")
        return
    step: Step = take_step(known, seen, lambda _: entry.key)
    if step.entry.line != entry.line:
        findings.note(GenerationStepError, place, "The entry does not follow from the one before.")
        return
    tally.add(known, seen, step)
    if step.change is not None and changes is not None:
        changes.expect(step.change, entry)


class _Changes:
    """The delta body beside the steps: one record for each change, of the same key, category and digests.

    What is wrong with a record or with the body itself is the finding of the manifest's own verification.
    """

    def __init__(self, manifest: Document, artifacts: Artifacts, findings: Findings, detail: str) -> None:
        self._findings = findings
        self._version = manifest["schema"]["version"]
        self._whole_rows = detail in ("values", "digests")
        self._lines: Iterator[bytes] | None = None
        if detail != "counts":
            self._lines = _body_lines(manifest["body"]["sha256"], artifacts)

    def expect(self, change: Change, entry: Entry) -> None:
        """Compare the next record with what a step gives; after the first that is another, nothing is compared."""
        if self._lines is None:
            return
        line = next(self._lines, None)
        if line is None or not self._same(line, change, entry):
            sentence = f"The record of this change ({change.category}) is not the next one in the delta body."
            self._findings.note(CoverageMismatchError, f"key {change.sort_key.hex()[:64]}", sentence)
            self._lines = None

    def _same(self, line: bytes, change: Change, entry: Entry) -> bool:
        try:
            record = jsonc.loads(line)
        except DeltaError:
            return False
        old = None if change.old is None else {"row_digest": change.old}
        stated = {"sort_key": change.sort_key.hex(), "category": change.category, "source_value": old}
        if not isinstance(record, dict) or any(record.get(name, ...) != value for name, value in stated.items()):
            return False
        if change.category == "dropped" or not self._whole_rows:
            return True
        row = jsonc.dumps(record.get("target_value"))
        return ids.row_digest(self._version, change.sort_key, row) == entry.row_digest

    def end(self) -> None:
        """Check that no record is left."""
        if self._lines is not None and next(self._lines, None) is not None:
            sentence = "The delta body has a record that no step gives."
            self._findings.note(CoverageMismatchError, "delta body", sentence)


def _body_lines(digest: str, artifacts: Artifacts) -> Iterator[bytes]:
    """Yield the lines of a body as far as they can be read."""
    try:
        with closing(artifacts.open(digest)) as stream:
            for lines in read_lines(stream):
                yield from lines
    except (*GONE, BodyFramingError):
        return
