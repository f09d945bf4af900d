"""Verification of a body against its manifest: bytes, framing, each record, and every root (docs/format.md, S12)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import compress
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
from airflow_delta_provider.core.recordform import out_of_order
from airflow_delta_provider.core.verify_pages import (
    PARALLEL_RECORDS_MIN,
    Page,
    PageChecker,
    Pages,
    PageScan,
    check_pages,
    check_pages_apart,
)

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
    workers: int = 1,
) -> BodyScan:
    """Read a body once and check it; where its root is wrong and there is a page index, read it again to find the place.

    ``schema`` and ``contract`` are None where they could not be read; the steps that need them are left out. A large
    body is checked by ``workers`` processes, page by page.
    Raises: WorkerLostError (DELTA_WORKER_LOST).
    """
    documents, scan = (manifest, schema, contract), BodyScan()
    with closing(open_body()) as stream:
        pages = _read_pages(stream, scan, findings)
        if workers > 1 and manifest["body"]["records"] >= PARALLEL_RECORDS_MIN:
            checked = check_pages_apart(pages, documents, workers)
        else:
            checked = check_pages(pages, PageChecker(*documents))
        _join(checked, scan, findings)
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
    """A root over leaves that come some at a time, combined a page at a time."""

    def __init__(self) -> None:
        self._tree = merkle.Accumulator()
        self._held: list[bytes] = []

    def extend(self, leaves: list[bytes]) -> None:
        self._held += leaves
        if len(self._held) >= PAGE_RECORDS:
            whole = len(self._held) - len(self._held) % PAGE_RECORDS
            self._tree.extend(self._held[:whole])
            self._held = self._held[whole:]

    def finish(self) -> tuple[int, str]:
        self._tree.extend(self._held)
        self._held = []
        return self._tree.size, self._tree.root().hex()


def _read_pages(stream: BinaryIO, scan: BodyScan, findings: Findings) -> Iterator[Page]:
    """Yield the lines of a body in pages, and put its digest and its sizes into ``scan``."""
    hasher, pages = hashlib.sha256(), Pages()
    held: list[bytes] = []  # the parts of a line whose end is still to come
    while chunk := stream.read(READ_BYTES):
        hasher.update(chunk)
        scan.body_bytes += len(chunk)
        first, *lines = chunk.split(b"\n")
        held.append(first)
        if lines:
            lines.insert(0, b"".join(held))
            held = [lines.pop()]
            if b"" not in lines and len(lines[0]) <= LINE_BYTES_MAX:
                yield from pages.extend(lines)
            else:
                held = (yield from _add_each(lines, pages, findings)) or held
        if sum(map(len, held)) > LINE_BYTES_MAX:
            findings.note(LimitError, f"record {pages.records}", f"The record is longer than {LINE_BYTES_MAX} bytes.")
            _hash_rest(stream, hasher, scan)
            held = []
    if any(held):
        findings.note(BodyFramingError, f"record {pages.records}", "The last line does not end in LF.")
        yield from pages.extend([b"".join(held)])
    rest = pages.take()
    if rest is not None:
        yield rest
    scan.records, scan.sha256 = pages.records, hasher.hexdigest()


def _add_each(lines: list[bytes], pages: Pages, findings: Findings) -> Generator[Page, None, list[bytes]]:
    """Yield the pages that lines complete; empty ones are told, and one that is too long is given back."""
    for line in lines:
        if len(line) > LINE_BYTES_MAX:
            return [line]
        if line:
            yield from pages.extend([line])
        else:
            findings.note(BodyFramingError, f"record {pages.records}", "A line is empty.")
    return []


def _join(checked: Iterable[PageScan], scan: BodyScan, findings: Findings) -> None:
    """Put together what the pages came to: roots, counts, findings, and the order of their keys."""
    whole, trees = merkle.Accumulator(), {category: _Tree() for category in CATEGORIES}
    last: bytes | None = None
    for page in checked:
        if page.first is not None:
            place, sort_key = page.first
            for problem in out_of_order(sort_key, last):
                findings.add(problem, place)
            last = page.last
        findings.absorb(page.findings)
        scan.columns += page.columns
        whole.extend(page.leaves)
        for number, category in enumerate(CATEGORIES):
            if number in page.categories:
                trees[category].extend(list(compress(page.leaves, map(number.__eq__, page.categories))))
    scan.root = whole.root().hex()
    scan.categories = {category: tree.finish() for category, tree in trees.items()}


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
