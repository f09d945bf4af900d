"""Records by number, key, category and column: a bounded amount of work for each request, whatever the body."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import orjson

from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.core.errors import InputPolicyError, shown
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.core.pages import read_page
from airflow_delta_provider.web.opened import Opened, category_of, columns_of
from airflow_delta_provider.web.terms import Term, expected_of

SHOWN = 50
SHOWN_MAX = 500
SCAN_S_MAX = 0.6
"""How long one request looks for a category or column; the next one goes on, and skips what is known."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which records are asked for.

    Shape: ``key`` holds the leading key values in canonical text; ``start`` is the number of the first record to look at.
    """

    key: Sequence[str] = ()
    category: str = ""
    column: str = ""
    start: int = 0
    count: int = SHOWN

    @property
    def filtered(self) -> bool:
        """True where not every record from ``start`` on fits."""
        return bool(self.category or self.column)


@dataclass(frozen=True, slots=True)
class Found:
    """Records that fit, with their numbers. ``next`` is where to go on, None at the end; ``exact`` tells of a key search."""

    records: list[tuple[int, dict[str, Any]]]
    start: int
    next: int | None
    exact: bool | None = None
    scanned_all: bool = True

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "key_found": self.exact,
            "next": self.next,
            "records": [{"number": number, **record} for number, record in self.records],
            "start": self.start,
        }


def find_records(opened: Opened, query: Query, clock: Callable[[], float] = time.monotonic) -> Found:
    """Return records in key order.

    Raises: SpecValueError for a key that does not fit, InputPolicyError for an unknown category or column or a negative
    number, PageDigestError for a damaged page, BodyDigestError where a filter finds other numbers than the manifest says.
    """
    _check(opened, query)
    start, exact = query.start, None
    if query.key:
        start, exact = opened.place_of(opened.bound_of(query.key))
    if query.filtered:
        return _filtered(opened, query, start, exact, clock)
    found: list[tuple[int, dict[str, Any]]] = []
    place = start
    while place < opened.records and len(found) < query.count:
        page, skipped = divmod(place, PAGE_RECORDS)
        for line in opened.lines(page)[skipped : skipped + query.count - len(found)]:
            found.append((place, orjson.loads(line)))
            place += 1
    return Found(found, start, place if place < opened.records else None, exact)


def _filtered(opened: Opened, query: Query, start: int, exact: bool | None, clock: Callable[[], float]) -> Found:
    found: list[tuple[int, dict[str, Any]]] = []
    term, index, until = _term(opened, query), opened.index, clock() + SCAN_S_MAX
    if term is None or index is None:
        return Found(found, start, None, exact)
    first = min(start // PAGE_RECORDS, index.pages)
    left = term.left_from(first)
    pages = [*range(first, index.pages), *term.unknown_before(first)]  # the count of all proves those that are skipped
    with closing(opened.material.open_body()) as body:
        for turn, page in enumerate(pages):
            if left <= 0:
                break
            if turn and clock() > until:
                following = page if page >= first else index.pages
                return Found(found, start, following * PAGE_RECORDS, exact, scanned_all=False)
            if term.may_hold(body, index, page):
                lines = read_page(body, index, page)
                fitting = [place for place, line in enumerate(lines) if _fits(line, query)]
                term.learn(page, len(fitting))
                for place in fitting:
                    number = page * PAGE_RECORDS + place
                    if number >= start and len(found) == query.count:
                        return Found(found, start, number, exact)
                    if number >= start:
                        found.append((number, orjson.loads(lines[place])))
            left -= term.counts[page]
    return Found(found, start, None, exact)


def _term(opened: Opened, query: Query) -> Term | None:
    """Return what to look for, None where no record can fit: only a diverged value has a column."""
    manifest, summary = opened.material.manifest, opened.material.summary
    if not query.column:
        return opened.terms.category(query.category, manifest["categories"][query.category]["records"])
    if query.category not in ("", "value_diverged"):
        return None
    return opened.terms.column(query.column, expected_of(summary["columns"], query.column))


def record_at(opened: Opened, number: int) -> dict[str, Any]:
    """Return one record by its number. Raises: InputPolicyError where there is none."""
    if not 0 <= number < opened.records:
        raise InputPolicyError(f"There is no record {number} among {opened.records}.", where="record")
    page, place = divmod(number, PAGE_RECORDS)
    record: dict[str, Any] = orjson.loads(opened.lines(page)[place])
    return record


def _fits(line: bytes, query: Query) -> bool:
    if query.category and category_of(line) != query.category:
        return False
    return not query.column or query.column in columns_of(line)


def _check(opened: Opened, query: Query) -> None:
    if query.category and query.category not in CATEGORIES:
        raise InputPolicyError(f"{shown(query.category)!r} is no category.", where="category")
    if query.column and query.column not in opened.material.columns:
        raise InputPolicyError(f"{shown(query.column)!r} is no compared column.", where="column")
    if query.start < 0 or not 1 <= query.count <= SHOWN_MAX:
        raise InputPolicyError(f"start is from 0 on, count from 1 to {SHOWN_MAX}.", where="start")
