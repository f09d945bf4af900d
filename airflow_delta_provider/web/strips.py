"""Where in the key space a manifest's differences lie: counted record by record, or by whole pages where there are many."""

from __future__ import annotations

from contextlib import closing

from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.report.strip import KeyStrip
from airflow_delta_provider.web.opened import Opened, all_lines, category_of, sort_key_of

EXACT_RECORDS_MAX = 20_000
PAGES_MAX = 2_000
"""Pages of which the first key is read; of more, as many, evenly spread."""
ANY = "any"


def strip_of(opened: Opened) -> tuple[KeyStrip | None, bool]:
    """Return the strip of the key space, None where no record is, and whether each record was counted.

    Where there are more than EXACT_RECORDS_MAX records, each page counts as a whole where it begins, without category.
    """
    if opened.index is None or not opened.records:
        return None, True
    last = sort_key_of(opened.lines(opened.index.pages - 1)[-1])
    if opened.records <= EXACT_RECORDS_MAX:
        strip: KeyStrip | None = None
        for line in all_lines(opened):
            strip = strip or KeyStrip(sort_key_of(line), last, opened.key_types)
            strip.add(sort_key_of(line), category_of(line))
        return strip, True
    step = -(-opened.index.pages // PAGES_MAX)
    with closing(opened.material.open_body()) as body:
        first = opened.first_key(0, opened.index, body)
        strip = KeyStrip(first, last, opened.key_types)
        for page in range(0, opened.index.pages, step):
            count = min(step * PAGE_RECORDS, opened.records - page * PAGE_RECORDS)
            strip.add(opened.first_key(page, opened.index, body), ANY, count)
    return strip, False
