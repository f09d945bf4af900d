"""Where in a damaged body the damage is: by page through the page index, and by record where one flipped bit explains it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.core.errors import PageDigestError
from airflow_delta_provider.core.findings import Findings
from airflow_delta_provider.core.pages import PageIndex, check_page, read_page_index

REPAIR_CANDIDATES_MAX: Final = 200_000
"""Single bits of one page that are tried; a page with more is named without its record."""

BAD_PAGES_MAX: Final = 100


def locate_damage(stream: BinaryIO, page_index: bytes, block: dict[str, Any], findings: Findings) -> None:
    """Report each page that is not what the index says, and its record where flipping one bit back repairs it.

    ``stream`` is the body, able to seek. An index that does not recombine to the root is itself a finding.
    """
    try:
        index = read_page_index(page_index, block)
    except PageDigestError as error:
        findings.add(error, "page index")
        return
    bad = 0
    for page in range(index.pages):
        stream.seek(index.offsets[page])
        data = stream.read(index.offsets[page + 1] - index.offsets[page])
        try:
            check_page(data, index, page)
        except PageDigestError as error:
            first = page * PAGE_RECORDS
            records = f"records {first} to {first + index.records_in(page) - 1}"
            findings.note(PageDigestError, f"page {page}, {records}", error.message)
            bad += 1
            record = flipped_record(data, index, page) if bad <= 3 else None
            if record is not None:
                sentence = "One bit of this record was flipped: flipping it back gives the page that the index states."
                findings.note(PageDigestError, f"record {first + record}", sentence)
        if bad >= BAD_PAGES_MAX:
            return


def flipped_record(data: bytes, index: PageIndex, page: int) -> int | None:
    """Return the record of a page in which one bit was flipped, counted from 0 within the page; None where it is more.

    A bit of an LF that was flipped joins two records; it is reported as the first of them.
    """
    wanted, count = index.subtrees[page], index.records_in(page)
    if len(data) * 8 > REPAIR_CANDIDATES_MAX:
        return None
    lines = data.split(b"\n")
    if len(lines) == count + 1 and not lines[-1]:
        leaves = merkle.leaf_hashes(lines[:-1])
        for number, line in enumerate(lines[:-1]):
            path = merkle.inclusion_path(leaves, number)
            for candidate in _flips(line):
                if merkle.root_from_inclusion(number, count, merkle.leaf_hash(candidate), path) == wanted:
                    return number
        return None
    for candidate in _flips(data):
        flipped = candidate.split(b"\n")
        if len(flipped) == count + 1 and not flipped[-1] and merkle.root(merkle.leaf_hashes(flipped[:-1])) == wanted:
            differs = (n for n, (a, b) in enumerate(zip(flipped, lines, strict=False)) if a != b)
            return min(next(differs, 0), count - 1)
    return None


def _flips(data: bytes) -> Iterator[bytes]:
    """Yield the data with each single bit flipped."""
    changed = bytearray(data)
    for place in range(len(data)):
        for bit in range(8):
            changed[place] ^= 1 << bit
            yield bytes(changed)
            changed[place] ^= 1 << bit
