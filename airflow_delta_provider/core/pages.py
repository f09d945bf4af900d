"""The page index of a body: one page read alone, and one record proved, without reading the rest (docs/format.md, S6)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.core.errors import PageDigestError

PAGE_ROW_BYTES: Final = 40
"""One row of a page index: 8 bytes of big-endian offset, 32 bytes of subtree hash."""


@dataclass(frozen=True, slots=True)
class PageIndex:
    """Where each page of 1,024 records starts and the hash of its subtree.

    Shape: ``offsets`` has one more entry than there are pages: the length of the body, in bytes.
    """

    offsets: tuple[int, ...]
    subtrees: tuple[bytes, ...]
    records: int

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.subtrees)

    def page_of(self, record: int) -> int:
        """Return the page that holds a record."""
        return record // PAGE_RECORDS

    def records_in(self, page: int) -> int:
        """Return the number of records of a page."""
        return min(PAGE_RECORDS, self.records - page * PAGE_RECORDS)


def read_page_index(data: bytes, block: dict[str, Any]) -> PageIndex:
    """Return a page index, checked against the body block that it belongs to.

    Raises: PageDigestError (DELTA_PAGE_DIGEST) unless it has a row for each page, offsets that ascend from 0, and
    hashes that recombine to the root.
    """
    pages = -(-block["records"] // PAGE_RECORDS)
    if len(data) != pages * PAGE_ROW_BYTES:
        raise PageDigestError(f"The page index has {len(data)} bytes for {pages} pages.", where="page index")
    rows = [data[start : start + PAGE_ROW_BYTES] for start in range(0, len(data), PAGE_ROW_BYTES)]
    offsets = [int.from_bytes(row[:8], "big") for row in rows] + [block["bytes"]]
    subtrees = [row[8:] for row in rows]
    if pages and (offsets[0] != 0 or any(a >= b for a, b in itertools.pairwise(offsets))):
        raise PageDigestError("The offsets of the page index do not ascend from 0.", where="page index")
    if merkle.root(subtrees).hex() != block["root"]:
        raise PageDigestError("The page index does not recombine to the root.", where="page index")
    return PageIndex(tuple(offsets), tuple(subtrees), block["records"])


def read_page(stream: BinaryIO, index: PageIndex, page: int) -> list[bytes]:
    """Return the lines of one page, read from a body that can seek, proved against the index.

    Raises: PageDigestError (DELTA_PAGE_DIGEST).
    """
    if not 0 <= page < index.pages:
        raise PageDigestError(f"There is no page {page} in {index.pages}.", where=f"page {page}")
    stream.seek(index.offsets[page])
    return check_page(stream.read(index.offsets[page + 1] - index.offsets[page]), index, page)


def check_page(data: bytes, index: PageIndex, page: int) -> list[bytes]:
    """Return the lines of a page from its bytes, proved against the index.

    Raises: PageDigestError (DELTA_PAGE_DIGEST).
    """
    lines = data.split(b"\n")
    framed = lines.pop() == b"" and len(lines) == index.records_in(page)
    if not framed or merkle.root(merkle.leaf_hashes(lines)) != index.subtrees[page]:
        raise PageDigestError(f"Page {page} is not what the index says.", where=f"page {page}")
    return lines


def proof_of(index: PageIndex, page_lines: Sequence[bytes], record: int) -> list[bytes]:
    """Return the audit path of one record from the lines of its page and the page index."""
    page = index.page_of(record)
    inner = merkle.inclusion_path(merkle.leaf_hashes(page_lines), record - page * PAGE_RECORDS)
    return inner + merkle.inclusion_path(index.subtrees, page)
