"""Verification of a body against its manifest: bytes, framing, each record, and every root (docs/format.md, S12)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import LINE_BYTES_MAX, PAGE_RECORDS
from airflow_delta_provider.core.documents import Document
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    BodyFramingError,
    CategoryRootError,
    CountError,
    LimitError,
    MerkleRootError,
    PageDigestError,
)
from airflow_delta_provider.core.findings import Findings
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.core.localise import locate_damage
from airflow_delta_provider.core.pages import read_page_index
from airflow_delta_provider.core.recordform import RecordChecker

READ_BYTES = 2**20


@dataclass(slots=True)
class BodyScan:
    """What one pass over a body found. ``columns`` counts the records that name each column."""

    body_bytes: int = 0
    records: int = 0
    sha256: str = ""
    root: str = ""
    categories: dict[str, tuple[int, str]] = field(default_factory=dict)
    columns: Counter[str] = field(default_factory=Counter)


def verify_body(
    open_body: Callable[[], BinaryIO],
    manifest: Document,
    schema: Document | None,
    contract: Document | None,
    page_index: bytes | None,
    findings: Findings,
) -> BodyScan:
    """Read a body once and check it; where its root is wrong and there is a page index, read it again to find the place.

    ``schema`` and ``contract`` are None where they could not be read; the steps that need them are left out.
    """
    checker = RecordChecker(manifest, schema, contract, findings)
    with closing(open_body()) as stream:
        scan = _scan(stream, checker, findings)
    block = manifest["body"]
    good = (scan.sha256, scan.root) == (block["sha256"], block["root"])
    _compare(scan, manifest, findings)
    if page_index is not None and not good:
        with closing(open_body()) as stream:
            locate_damage(stream, page_index, block, findings)
    elif page_index is not None:
        try:
            read_page_index(page_index, block)
        except PageDigestError as error:
            findings.add(error, "page index")
    return scan


class _Tree:
    """A root over leaves that come one by one, combined a page at a time."""

    def __init__(self) -> None:
        self._tree = merkle.Accumulator()
        self._held: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        self._held.append(leaf)
        if len(self._held) == PAGE_RECORDS:
            self._tree.extend(self._held)
            self._held = []

    def finish(self) -> tuple[int, str]:
        self._tree.extend(self._held)
        self._held = []
        return self._tree.size, self._tree.root().hex()


def _scan(stream: BinaryIO, checker: RecordChecker, findings: Findings) -> BodyScan:
    scan, hasher, whole = BodyScan(), hashlib.sha256(), _Tree()
    trees = {category: _Tree() for category in CATEGORIES}
    while line := stream.readline(LINE_BYTES_MAX + 1):
        hasher.update(line)
        scan.body_bytes += len(line)
        number = scan.records
        if not line.endswith(b"\n"):
            if len(line) > LINE_BYTES_MAX:
                findings.note(LimitError, f"record {number}", f"The record is longer than {LINE_BYTES_MAX} bytes.")
                _hash_rest(stream, hasher, scan)
                break
            findings.note(BodyFramingError, f"record {number}", "The last line does not end in LF.")
        if line == b"\n":
            findings.note(BodyFramingError, f"record {number}", "A line is empty.")
            continue
        line = line.removesuffix(b"\n")
        leaf = merkle.leaf_hash(line)
        whole.append(leaf)
        checker.check(line, number)
        category = _category_of(line)
        if category is not None:
            trees[category].append(leaf)
        scan.records += 1
    scan.sha256 = hasher.hexdigest()
    scan.root = whole.finish()[1]
    scan.categories = {category: tree.finish() for category, tree in trees.items()}
    scan.columns = checker.columns
    return scan


def _category_of(line: bytes) -> str | None:
    """Return the category with which a line begins, as an auditor counts them, whatever else is wrong with it."""
    return next((name for name in CATEGORIES if line.startswith(b'{"category":"%b"' % name.encode())), None)


def _hash_rest(stream: BinaryIO, hasher: Any, scan: BodyScan) -> None:
    while chunk := stream.read(READ_BYTES):
        hasher.update(chunk)
        scan.body_bytes += len(chunk)


def _compare(scan: BodyScan, manifest: Document, findings: Findings) -> None:
    """Compare what was read with what the manifest says."""
    block = manifest["body"]
    if scan.sha256 != block["sha256"]:
        findings.note(BodyDigestError, "body", "The body does not hash to what the manifest says.")
    for what, found, stated in (
        ("bytes", scan.body_bytes, block["bytes"]),
        ("records", scan.records, block["records"]),
    ):
        if found != stated:
            findings.note(CountError, f"body.{what}", f"The body has {found} {what}, the manifest says {stated}.")
    if scan.root != block["root"]:
        findings.note(MerkleRootError, "body.root", "The root over the records is not the one in the manifest.")
    for category, (records, root) in scan.categories.items():
        stated = manifest["categories"][category]
        if records != stated["records"]:
            sentence = f"The body has {records} records of it, the manifest says {stated['records']}."
            findings.note(CountError, f"categories.{category}", sentence)
        if root != stated["root"]:
            sentence = "The root over its records is not the one in the manifest."
            findings.note(CategoryRootError, f"categories.{category}", sentence)
