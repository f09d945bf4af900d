"""Where in the key space a manifest's differences lie: counted record by record, or by whole pages where there are many."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.report.strip import KeyStrip
from airflow_delta_provider.web.opened import Opened, Recent, all_lines, category_of, sort_key_of

EXACT_RECORDS_MAX = 20_000
KEYS_MAX = 500
"""First keys of pages that are read where records are not counted one by one, evenly spread."""
ANY = "any"


@dataclass(frozen=True, slots=True)
class Placed:
    """The strip of a manifest. Shape: ``at_once`` records count as one, where the first of them lies; 1 is exact."""

    strip: KeyStrip
    at_once: int


def strip_of(opened: Opened) -> Placed | None:
    """Return the strip of the key space, None where no record is.

    Where there are more than EXACT_RECORDS_MAX records, whole pages count where they begin, without category.
    """
    if opened.index is None or not opened.records:
        return None
    key = (opened.seen.store.uri, opened.seen.store_id, opened.seen.manifest)
    return _PLACED.get(key, lambda: _exact(opened) if opened.records <= EXACT_RECORDS_MAX else _by_pages(opened))


def _exact(opened: Opened) -> Placed | None:
    strip, last = None, _last_key(opened)
    for line in all_lines(opened):
        strip = strip or KeyStrip(sort_key_of(line), last, opened.key_types)
        strip.add(sort_key_of(line), category_of(line))
    return None if strip is None else Placed(strip, 1)


def _by_pages(opened: Opened) -> Placed | None:
    index = opened.index
    if index is None:
        return None
    step = -(-index.pages // KEYS_MAX)
    with closing(opened.material.open_body()) as body:
        strip = KeyStrip(opened.first_key(0, index, body), _last_key(opened), opened.key_types)
        for page in range(0, index.pages, step):
            count = min(step * PAGE_RECORDS, opened.records - page * PAGE_RECORDS)
            strip.add(opened.first_key(page, index, body), ANY, count)
    return Placed(strip, step * PAGE_RECORDS)


def _last_key(opened: Opened) -> bytes:
    return sort_key_of(opened.lines((opened.records - 1) // PAGE_RECORDS)[-1])


_PLACED = Recent(64)
