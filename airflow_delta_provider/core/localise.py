"""Where in a damaged body the damage is: by page through the page index, and by record where one changed byte explains it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import PAGE_RECORDS
from airflow_delta_provider.core.errors import PageDigestError
from airflow_delta_provider.core.findings import Findings
from airflow_delta_provider.core.pages import PageIndex, check_page, read_page_index

CANDIDATES_MAX: Final = 4_000_000
"""Repairs that are tried for one body, at some microseconds each: every single bit of a page of 500 kB."""

PAGE_BYTES_MAX: Final = 64 * 2**20
"""Largest page that is read whole to be repaired."""

BAD_PAGES_MAX: Final = 100

_VALUES = b'"source_value":'
_JOINED = re.compile(rb'\}([^\n])(?=\{"category":")', re.DOTALL)
_PLACE = re.compile(r"record (\d+)")


class _Budget:
    """Counts the repairs that are still tried."""

    def __init__(self, candidates: int) -> None:
        self.left = candidates

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def locate_damage(stream: BinaryIO, page_index: bytes, block: dict[str, Any], findings: Findings) -> None:
    """Report each page that is not what the index says, and its record where changing one byte back repairs it.

    ``stream`` is the body, able to seek. ``findings`` holds what was found in single records: they are tried first.
    An index that does not recombine to the root is itself a finding.
    """
    try:
        index = read_page_index(page_index, block)
    except PageDigestError as error:
        findings.add(error, "page index")
        return
    suspects = {int(match[1]) for one in findings.listed() if (match := _PLACE.fullmatch(one.place))}
    budget, bad = _Budget(CANDIDATES_MAX), 0
    for page in range(index.pages):
        stream.seek(index.offsets[page])
        data = stream.read(min(index.offsets[page + 1] - index.offsets[page], PAGE_BYTES_MAX + 1))
        try:
            check_page(data, index, page)
        except PageDigestError as error:
            first = page * PAGE_RECORDS
            records = f"records {first} to {first + index.records_in(page) - 1}"
            findings.note(PageDigestError, f"page {page}, {records}", error.message)
            bad += 1
            within = [number - first for number in suspects if first <= number < first + PAGE_RECORDS]
            _name_record(data, index, page, within, budget, findings)
        if bad >= BAD_PAGES_MAX:
            return


def _name_record(
    data: bytes, index: PageIndex, page: int, suspects: Sequence[int], budget: _Budget, findings: Findings
) -> None:
    found = damaged_record(data, index, page, suspects, budget)
    if found is not None:
        record, what, done = found
        sentence = f"One {what} of this record was {done}: {done} back, the page is what the index states."
        findings.note(PageDigestError, f"record {page * PAGE_RECORDS + record}", sentence)


def damaged_record(
    data: bytes, index: PageIndex, page: int, suspects: Sequence[int] = (), budget: _Budget | None = None
) -> tuple[int, str, str] | None:
    """Return the record of a page in which one bit was flipped or one byte changed, None where it is not known.

    Shape: the record counts from 0 within the page; with it come the words for what was done, ``bit`` and ``flipped``
    or ``byte`` and ``changed``. ``suspects`` are tried first. An LF that was changed joins two records: the first of
    them is named; a byte that became an LF cuts one in two.
    """
    budget = budget or _Budget(CANDIDATES_MAX)
    wanted, count = index.subtrees[page], index.records_in(page)
    if len(data) > PAGE_BYTES_MAX or not data.endswith(b"\n"):
        return _last_lf(data, wanted, count)
    lines = data[:-1].split(b"\n")
    if len(lines) == count:
        return _within(lines, wanted, suspects, budget)
    if len(lines) == count - 1:
        return _joined(data, wanted, count, budget)
    return _cut(lines, wanted, budget) if len(lines) == count + 1 else None


def _last_lf(data: bytes, wanted: bytes, count: int) -> tuple[int, str, str] | None:
    """Tell whether the last byte of a page was its LF."""
    lines = data[:-1].split(b"\n")
    if data and len(lines) == count and merkle.root(merkle.leaf_hashes(lines)) == wanted:
        return count - 1, *_words(data[-1], 0x0A)
    return None


def _within(
    lines: Sequence[bytes], wanted: bytes, suspects: Sequence[int], budget: _Budget
) -> tuple[int, str, str] | None:
    """Try each record: first those that are not good by themselves, then the values of the others, where any bit fits."""
    leaves = merkle.leaf_hashes(lines)
    everywhere = [number for number in suspects if number < len(lines)]
    rest = [number for number in range(len(lines)) if number not in set(everywhere)]
    values = {number: max(0, lines[number].find(_VALUES)) for number in rest}
    rounds: list[tuple[Iterable[tuple[int, int, int]], bool]] = [
        (((n, 0, len(lines[n])) for n in everywhere), False),
        (((n, 0, len(lines[n])) for n in everywhere), True),
        (((n, values[n], len(lines[n])) for n in rest), False),
        (((n, 0, values[n]) for n in rest), False),
        (((n, values[n], len(lines[n])) for n in rest), True),
    ]
    for parts, whole_bytes in rounds:
        for number, start, stop in parts:
            changes = _bytes(lines[number], start, stop) if whole_bytes else _bits(lines[number], start, stop)
            if _repairs(changes, _path(leaves, number), wanted, budget):
                return (number, "byte", "changed") if whole_bytes else (number, "bit", "flipped")
            if budget.left <= 0:
                return None
    return None


def _path(leaves: Sequence[bytes], number: int) -> list[tuple[bytes, bytes]]:
    """Return what stands before and behind the hash of a record on each step of its way up."""
    steps, level, at = [], list(leaves), number
    while len(level) > 1:
        sibling = at ^ 1
        if sibling < len(level):
            steps.append((b"\x01", level[sibling]) if sibling > at else (b"\x01" + level[sibling], b""))
        odd = [level[-1]] if len(level) % 2 else []
        level = [merkle.node_hash(a, b) for a, b in zip(level[::2], level[1::2], strict=False)] + odd
        at //= 2
    return steps


def _repairs(changes: Iterable[bytes], path: Sequence[tuple[bytes, bytes]], wanted: bytes, budget: _Budget) -> bool:
    sha256 = hashlib.sha256
    for changed in changes:
        if not budget.take():
            return False
        digest = sha256(b"\x00" + changed).digest()
        for before, behind in path:
            digest = sha256(before + digest + behind).digest()
        if digest == wanted:
            return True
    return False


def _joined(data: bytes, wanted: bytes, count: int, budget: _Budget) -> tuple[int, str, str] | None:
    for match in _JOINED.finditer(data):
        if not budget.take():
            return None
        place = match.start(1)
        lines = (data[:place] + b"\n" + data[place + 1 : -1]).split(b"\n")
        if len(lines) == count and merkle.root(merkle.leaf_hashes(lines)) == wanted:
            return data.count(b"\n", 0, place), *_words(data[place], 0x0A)
    return None


def _cut(lines: Sequence[bytes], wanted: bytes, budget: _Budget) -> tuple[int, str, str] | None:
    """Try to join each two lines of which one is no whole record by the byte that became an LF."""
    for number in range(len(lines) - 1):
        first, second = lines[number], lines[number + 1]
        if first.endswith(b"}") and second.startswith(b'{"category":"'):
            continue
        leaves = merkle.leaf_hashes([*lines[:number], b"", *lines[number + 2 :]])
        joined = (first + bytes([byte]) + second for byte in sorted(range(256), key=lambda b: (b ^ 0x0A).bit_count()))
        path = _path(leaves, number)
        for changed in joined:
            if _repairs([changed], path, wanted, budget):
                return number, *_words(changed[len(first)], 0x0A)
    return None


def _words(one: int, other: int) -> tuple[str, str]:
    return ("bit", "flipped") if (one ^ other).bit_count() == 1 else ("byte", "changed")


def _bits(line: bytes, start: int, stop: int) -> Iterator[bytes]:
    """Yield the line with each single bit of a part flipped."""
    for place in range(start, stop):
        head, tail, byte = line[:place], line[place + 1 :], line[place]
        for bit in range(8):
            yield b"%b%c%b" % (head, byte ^ (1 << bit), tail)


def _bytes(line: bytes, start: int, stop: int) -> Iterator[bytes]:
    """Yield the line with each byte of a part changed by more than one bit."""
    for place in range(start, stop):
        head, tail, byte = line[:place], line[place + 1 :], line[place]
        for other in range(256):
            if (other ^ byte).bit_count() > 1:
                yield b"%b%c%b" % (head, other, tail)
