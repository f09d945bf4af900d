"""Where the records of a category or column lie: pages without any are skipped unparsed, and what was learnt is kept."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import BodyDigestError
from airflow_delta_provider.core.pages import PageIndex

UNKNOWN = -1


@dataclass(slots=True)
class Term:
    """One category or column of one body.

    Shape: ``needle`` are bytes that each of its records holds, and hardly another; ``expected`` is how many records the
    manifest and its summary say there are; ``counts`` tells for each page how many it holds, UNKNOWN where nobody looked.
    """

    needle: bytes
    expected: int
    counts: array[int]
    lock: threading.Lock = field(default_factory=threading.Lock)
    pages_known: int = 0
    records_known: int = 0

    def may_hold(self, body: BinaryIO, index: PageIndex, page: int) -> bool:
        """Tell whether a page can hold such a record; one without the needle is read unproved, ``learn`` adds it up."""
        if self.counts[page] == UNKNOWN:
            body.seek(index.offsets[page])
            if self.needle not in body.read(index.offsets[page + 1] - index.offsets[page]):
                self.learn(page, 0)
        return self.counts[page] != 0

    def learn(self, page: int, count: int) -> None:
        """Keep how many records a page holds. Raises: BodyDigestError where all pages together hold another number."""
        with self.lock:
            if self.counts[page] != UNKNOWN:
                return
            if self.pages_known + 1 == len(self.counts) and self.records_known + count != self.expected:
                raise BodyDigestError(
                    "A category or column has not as many records as the manifest says.", where="body"
                )
            self.counts[page] = count
            self.pages_known += 1
            self.records_known += count

    def left_from(self, page: int) -> int:
        """Return how many records lie on this page or behind it, at most."""
        return self.expected - sum(count for count in self.counts[:page] if count != UNKNOWN)

    def unknown_before(self, page: int) -> list[int]:
        """Return the pages before this one where nobody looked."""
        return [number for number, count in enumerate(self.counts[:page]) if count == UNKNOWN]


class Terms:
    """What is known of the terms of one body, shared by all requests."""

    def __init__(self, pages: int) -> None:
        self._pages, self._lock = pages, threading.Lock()
        self._found: dict[tuple[str, str], Term] = {}

    def category(self, name: str, expected: int) -> Term:
        """Return the term of a category: a line begins with it, and no text within a line has a bare quotation mark."""
        return self._term(("category", name), b'{"category":"%b"' % name.encode(), expected)

    def column(self, name: str, expected: int) -> Term:
        """Return the term of a diverging column."""
        return self._term(("column", name), jsonc.dumps([name])[1:-1], expected)

    def _term(self, key: tuple[str, str], needle: bytes, expected: int) -> Term:
        with self._lock:
            if key not in self._found:
                self._found[key] = Term(needle, expected, array("h", [UNKNOWN]) * self._pages)
            return self._found[key]


def expected_of(columns: Sequence[Sequence[object]], name: str) -> int:
    """Return how many records a summary counts for a column."""
    return next((int(str(diverged)) for column, diverged, *_ in columns if column == name), 0)
