"""Records by category and column over several pages: the right ones, whatever was skipped, and damage found."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from cli_store import Folder
from memory_side import MemorySide, opener, spec_form, typed

from airflow_delta_provider.core.errors import BodyDigestError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.engine.run import reconcile
from airflow_delta_provider.web.opened import Opened, open_manifest
from airflow_delta_provider.web.records import Query, find_records
from airflow_delta_provider.web.scope import StoreScope

TYPES = typed(id="int", name="text", amount="int")
ROWS = 5_000


def table(side: str) -> MemorySide:
    """Every name differs; the amount does at 7 and 4,800; 4,900 is in the source alone; the name of 3,000 is ``amount``."""
    rows = []
    for number in range(ROWS):
        name = "amount" if (side, number) == ("source", 3_000) else f"{side} {number}"
        amount = number + (side == "target" and number in (7, 4_800))
        if (side, number) != ("target", 4_900):
            rows.append((str(number), name, str(amount)))
    return MemorySide(TYPES, rows)


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    """An empty store."""
    return Folder(tmp_path / "store")


@pytest.fixture
def opened(folder: Folder) -> Opened:
    """5,000 records in five pages."""
    spec = parse_spec(spec_form(key=["id"]))
    outcome = reconcile(spec, folder.store, opener(table("source"), table("target")))
    return open_manifest(StoreScope(folder.store).find(outcome.receipt.manifest))


def numbers(found: Any) -> list[int]:
    return [number for number, _ in found.records]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(column="amount"), [7, 4_800]),
        (Query(column="amount", start=8), [4_800]),
        (Query(column="amount", category="value_diverged"), [7, 4_800]),
        (Query(column="amount", category="dropped"), []),
        (Query(category="dropped"), [4_900]),
        (Query(category="added"), []),
        (Query(column="name", start=4_898, count=3), [4_898, 4_899, 4_901]),
        (Query(key=("4000",), column="amount"), [4_800]),
    ],
)
def test_a_filter_finds_each_record_however_far_away(opened, query, expected):
    """One record among thousands is what a person looks for; pages without any are skipped, asked once or twice."""
    assert numbers(find_records(opened, query)) == expected
    assert numbers(find_records(opened, query)) == expected


def test_next_leads_to_the_next_record_that_fits(opened):
    """The way on does not end on an empty page, and ends where nothing is left."""
    found = find_records(opened, Query(column="amount", count=1))
    assert (numbers(found), found.next) == ([7], 4_800)
    found = find_records(opened, Query(column="amount", count=1, start=4_800))
    assert (numbers(found), found.next) == ([4_800], None)


def test_a_search_that_takes_long_is_continued(opened):
    """Nobody waits for a whole body; what was looked through is told, and not looked through again."""
    clock = itertools.count()
    found = find_records(opened, Query(category="dropped"), clock=lambda: float(next(clock)))
    assert (numbers(found), found.next, found.scanned_all) == ([], 1_024, False)
    found = find_records(opened, Query(category="dropped", start=1_024))
    assert (numbers(found), found.next, found.scanned_all) == ([4_900], None, True)


@pytest.mark.parametrize(
    ("text", "column"), [(b'{"category":"dropped"', ""), (b'"columns":["name","amount"]', "amount")]
)
def test_a_page_whose_records_were_hidden_is_found_out(opened, folder, text, column):
    """A page is skipped unproved where it seems to hold nothing; the counts of the manifest tell that it did."""
    body = opened.material.manifest["body"]["sha256"]
    folder.change(folder.blob(body), lambda data: data.replace(text, text.swapcase()))
    with pytest.raises(BodyDigestError, match="has not as many records as the manifest says"):
        find_records(opened, Query(category="" if column else "dropped", column=column))


@pytest.mark.parametrize("query", [Query(category="dropped", start=4_500), Query(category="dropped", key=("2000",))])
def test_a_search_that_begins_late_finds_out_what_was_hidden(opened, folder, query):
    """Who searches behind a key must not be told that no record fits, only because nobody looked at the pages before."""
    body = opened.material.manifest["body"]["sha256"]
    folder.change(folder.blob(body), lambda data: data.replace(b'{"category":"dropped"', b'{"category":"DROPPED"'))
    with pytest.raises(BodyDigestError, match="has not as many records as the manifest says"):
        find_records(opened, query)


def test_pages_before_a_search_are_looked_through_when_time_is_left(opened):
    """They hold nothing that was asked for: what was found is told at once, and the next request goes on counting."""
    clock = itertools.count()
    found = find_records(opened, Query(column="amount", start=4_700), clock=lambda: float(next(clock)))
    assert (numbers(found), found.next, found.scanned_all) == ([4_800], 5_120, False)
    found = find_records(opened, Query(column="amount", start=5_120))
    assert (numbers(found), found.next, found.scanned_all) == ([], None, True)
