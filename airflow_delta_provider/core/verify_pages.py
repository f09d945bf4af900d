"""The check of a body's records page by page, in this process or spread over several: the findings are the same."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.core.documents import Document
from airflow_delta_provider.core.errors import WorkerLostError
from airflow_delta_provider.core.findings import Findings, Stage
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.core.recordform import RecordChecker
from airflow_delta_provider.core.wholepage import whole_pages

PAGE_BYTES: Final = 8 * 2**20
"""A page with longer records is cut after as many bytes."""
PARALLEL_RECORDS_MIN: Final = 100_000
"""A body with fewer records is checked in this process: starting others takes longer than that."""
AHEAD: Final = 3
"""Pages that wait for each worker."""
NO_CATEGORY: Final = len(CATEGORIES)

_STARTS = tuple(b'{"category":"%b"' % name.encode() for name in CATEGORIES)
_worker: dict[str, PageChecker] = {}


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive lines without LF, and the number of the first."""

    number: int
    lines: list[bytes]


@dataclass(slots=True)
class PageScan:
    """What one page came to.

    Shape: ``leaves`` hashes of the lines; ``categories`` for each line the place of its category in ``CATEGORIES``, or
    ``NO_CATEGORY``; ``columns`` counts the records that name each column; ``first`` and ``last`` are the places and key
    bytes of the first and last record that has a key, since the order across pages is checked by whoever joins them.
    """

    leaves: list[bytes]
    categories: bytes
    findings: Findings
    columns: Counter[str] = field(default_factory=Counter)
    first: tuple[str, bytes] | None = None
    last: bytes | None = None


class PageChecker:
    """Checks pages of one body. Shape: as ``RecordChecker``."""

    def __init__(self, manifest: Document, schema: Document | None, contract: Document | None) -> None:
        self._records = RecordChecker(manifest, schema, contract, Findings(Stage.BODY))
        self._whole = whole_pages(manifest, schema, contract)

    def check(self, page: Page) -> PageScan:
        """Check one page: as a whole, or record by record where that is not enough."""
        findings, whole = Findings(Stage.BODY), None if self._whole is None else self._whole.check(page.lines)
        if whole is not None:
            place = f"record {page.number}, key {whole.first.hex()[:64]}"
            leaves = merkle.leaf_hashes(page.lines)
            return PageScan(leaves, whole.categories, findings, whole.columns, (place, whole.first), whole.last)
        records = self._records
        records.start(findings)
        for number, line in enumerate(page.lines, page.number):
            records.check(line, number)
        leaves = merkle.leaf_hashes(page.lines)
        return PageScan(
            leaves, bytes(map(_category_of, page.lines)), findings, records.columns, records.first, records.last
        )


def check_pages(pages: Iterable[Page], checker: PageChecker) -> Iterator[PageScan]:
    """Check pages in this process."""
    return map(checker.check, pages)


def check_pages_apart(pages: Iterable[Page], documents: tuple[Any, ...], workers: int) -> Iterator[PageScan]:
    """Check pages in other processes, and yield what they came to in order; few pages are held at a time.

    ``documents`` are what ``PageChecker`` takes. Raises: WorkerLostError (DELTA_WORKER_LOST).
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start, initargs=documents) as pool:
        waiting: deque[Callable[[], PageScan]] = deque()
        try:
            for page in pages:
                waiting.append(pool.submit(_check, page).result)
                if len(waiting) > AHEAD * workers:
                    yield waiting.popleft()()
            while waiting:
                yield waiting.popleft()()
        except BrokenProcessPool as error:
            raise WorkerLostError("a worker process ended while it checked records.", where="--workers") from error


def _start(*documents: Any) -> None:
    _worker["checker"] = PageChecker(*documents)


def _check(page: Page) -> PageScan:
    return _worker["checker"].check(page)


def _category_of(line: bytes) -> int:
    """Return the category with which a line begins, as an auditor counts them, whatever else is wrong with it."""
    return next((place for place, start in enumerate(_STARTS) if line.startswith(start)), NO_CATEGORY)


class Pages:
    """Collects the lines of a body into pages."""

    def __init__(self) -> None:
        self.records = 0
        self._lines: list[bytes] = []
        self._bytes = 0

    def add(self, line: bytes) -> Page | None:
        """Add a line without LF; return the page that it completes."""
        self._lines.append(line)
        self._bytes += len(line)
        self.records += 1
        return self.take() if len(self._lines) >= PAGE_RECORDS or self._bytes >= PAGE_BYTES else None

    def extend(self, lines: list[bytes]) -> Iterator[Page]:
        """Add lines without LF, of at most ``PAGE_BYTES`` together; yield the pages that they complete."""
        start = 0
        while start < len(lines):
            part = lines[start : start + PAGE_RECORDS - len(self._lines)]
            size = sum(map(len, part))
            if self._bytes + size >= PAGE_BYTES:
                made = (self.add(line) for line in part)
                yield from (page for page in made if page is not None)
            else:
                self._lines += part
                self._bytes += size
                self.records += len(part)
                if len(self._lines) >= PAGE_RECORDS:
                    yield self._whole()
            start += len(part)

    def _whole(self) -> Page:
        page = Page(self.records - len(self._lines), self._lines)
        self._lines, self._bytes = [], 0
        return page

    def take(self) -> Page | None:
        """Return the lines that wait, None where none does."""
        return self._whole() if self._lines else None
