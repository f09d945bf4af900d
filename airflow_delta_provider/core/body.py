"""Bodies: records as lines in key order, and what a manifest says about them (docs/format.md, S4 and S6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from typing import Any, BinaryIO, Final

import orjson

from airflow_delta_provider.core import ids, merkle
from airflow_delta_provider.core.errors import (
    BodyFramingError,
    LimitError,
    RangeError,
    RecordContractError,
    UnsortedStreamError,
    shown,
)
from airflow_delta_provider.core.ids import CATEGORIES

PAGE_RECORDS: Final = 1024
LINE_BYTES_MAX = 64 * 2**20
"""Longest line that a reader holds."""
READ_BYTES: Final = 2**18
"""Bytes that are read at once."""


def records_to_lines(
    schema_version: str,
    sort_keys: Sequence[bytes],
    categories: Sequence[str],
    keys: Sequence[bytes],
    columns: Sequence[bytes | None],
    source_values: Sequence[bytes],
    target_values: Sequence[bytes],
    source_keys: Sequence[bytes] | None = None,
    target_keys: Sequence[bytes] | None = None,
) -> list[bytes]:
    """Return the canonical lines of some records, without LF.

    Shape: sequences of one length. ``sort_keys`` are raw key bytes; all others hold canonical JSON text that is spliced
    in as it is; ``columns`` is None where the category has no such member. ``source_keys`` and ``target_keys`` are given
    where the contract has a rule on a key column, and then both.
    """
    of = {category: ids.record_ids(schema_version, category) for category in CATEGORIES}
    lines = []
    for at, (sort_key, category) in enumerate(zip(sort_keys, categories, strict=True)):
        listed, source_key, target_key = columns[at], b"", b""
        if source_keys is not None and target_keys is not None:
            source_key, target_key = b'"source_key":%b,' % source_keys[at], b'"target_key":%b,' % target_keys[at]
        lines.append(
            b'{"category":"%b",%b"id":"%b","key":%b,"sort_key":"%b",%b"source_value":%b,%b"target_value":%b}'
            % (
                category.encode(),
                b"" if listed is None else b'"columns":%b,' % listed,
                of[category](sort_key).encode(),
                keys[at],
                sort_key.hex().encode(),
                source_key,
                source_values[at],
                target_key,
                target_values[at],
            )
        )
    return lines


@dataclass(frozen=True, slots=True)
class BodyFacts:
    """What a manifest says about a body.

    Units: ``body_bytes`` and ``records`` are counts; digests are hex. ``page_index`` is the derived index of S6.
    """

    body_bytes: int
    records: int
    root: str
    sha256: str
    categories: dict[str, tuple[int, str]] = field(default_factory=dict)
    page_index: bytes = b""

    @property
    def block(self) -> dict[str, Any]:
        """The body block of S6."""
        return {"bytes": self.body_bytes, "records": self.records, "root": self.root, "sha256": self.sha256}


class LineWriter:
    """Writes lines to a file as they come and computes what a body block and a page index say about them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._tree = merkle.Accumulator()
        self._index: list[bytes] = []
        self._held: list[bytes] = []
        self.body_bytes = 0
        self._held_start = 0

    @property
    def records(self) -> int:
        """Number of lines written so far."""
        return self._tree.size + len(self._held)

    def write(self, lines: Sequence[bytes]) -> list[bytes]:
        """Write lines that have no LF; return their leaf hashes."""
        if not lines:
            return []
        data = b"\n".join(lines) + b"\n"
        self._file.write(data)
        self._sha256.update(data)
        leaves, start = merkle.leaf_hashes(lines), 0
        while start < len(lines):
            taken = min(PAGE_RECORDS - len(self._held), len(lines) - start)
            self._held.extend(leaves[start : start + taken])
            self.body_bytes += sum(map(len, lines[start : start + taken])) + taken
            start += taken
            if len(self._held) == PAGE_RECORDS:
                self._close_page()
        return leaves

    def _close_page(self) -> None:
        if not self._held:
            return
        subtree = merkle.root(self._held)
        if len(self._held) == PAGE_RECORDS:
            self._tree.append_subtree(PAGE_RECORDS.bit_length() - 1, subtree)
        else:
            self._tree.extend(self._held)
        self._index.append(self._held_start.to_bytes(8, "big") + subtree)
        self._held, self._held_start = [], self.body_bytes

    def close(self) -> BodyFacts:
        """Return the facts; nothing may be written afterwards. The file stays open."""
        self._close_page()
        return BodyFacts(
            self.body_bytes,
            self._tree.size,
            self._tree.root().hex(),
            self._sha256.hexdigest(),
            page_index=b"".join(self._index),
        )


class BodyWriter:
    """Writes records in key order and computes everything that a manifest says about them.

    Shape: ``key_range`` holds the bounds as key bytes, half-open, None is open.
    Raises: UnsortedStreamError (DELTA_INPUT_ORDER) where keys do not ascend strictly; RangeError (DELTA_RANGE) for a
    key outside the range.
    """

    def __init__(self, file: BinaryIO, key_range: tuple[bytes | None, bytes | None] = (None, None)) -> None:
        self._lines = LineWriter(file)
        self._lower, self._upper = key_range
        self._last: bytes | None = None
        self._trees = {category: merkle.Accumulator() for category in CATEGORIES}
        self._pending: dict[str, list[bytes]] = {category: [] for category in CATEGORIES}

    @property
    def records(self) -> int:
        """Number of records written so far."""
        return self._lines.records

    def write(self, lines: Sequence[bytes], sort_keys: Sequence[bytes], categories: Sequence[str]) -> None:
        """Write canonical lines of which key bytes and category are known."""
        if not lines:
            return
        self._last = check_ascent(sort_keys, self._last, "body")
        check_inside(sort_keys[0], sort_keys[-1], self._lower, self._upper)
        for leaf, category in zip(self._lines.write(lines), categories, strict=True):
            self._pending[category].append(leaf)
        for category, leaves in self._pending.items():
            if len(leaves) >= PAGE_RECORDS:
                whole = len(leaves) - len(leaves) % PAGE_RECORDS
                self._trees[category].extend(leaves[:whole])
                self._pending[category] = leaves[whole:]

    def write_lines(self, lines: Sequence[bytes]) -> None:
        """Write canonical lines, reading key bytes and category out of them.

        Raises: RecordContractError (DELTA_RECORD_CONTRACT) where a line has none.
        """
        found = [key_and_category(line) for line in lines]
        self.write(lines, [sort_key for sort_key, _ in found], [category for _, category in found])

    def close(self) -> BodyFacts:
        """Return the facts; nothing may be written afterwards. The file stays open."""
        for category, leaves in self._pending.items():
            self._trees[category].extend(leaves)
        facts = self._lines.close()
        categories = {name: (tree.size, tree.root().hex()) for name, tree in self._trees.items()}
        return BodyFacts(facts.body_bytes, facts.records, facts.root, facts.sha256, categories, facts.page_index)


def check_ascent(sort_keys: Sequence[bytes], last: bytes | None, what: str) -> bytes | None:
    """Check that key bytes ascend strictly, after ``last``; return the newest.

    Raises: UnsortedStreamError (DELTA_INPUT_ORDER).
    """
    if sort_keys and (last is None or last < sort_keys[0]) and all(map(lt, sort_keys, islice(sort_keys, 1, None))):
        return sort_keys[-1]
    for sort_key in sort_keys:
        if last is not None and sort_key <= last:
            raise UnsortedStreamError(f"{what}: key {sort_key.hex()} after {last.hex()}.", where=what)
        last = sort_key
    return last


def check_inside(first: bytes, last: bytes, lower: bytes | None, upper: bytes | None) -> None:
    """Check that ascending keys from ``first`` to ``last`` lie in a range.

    Raises: RangeError (DELTA_RANGE).
    """
    if lower is not None and first < lower:
        raise RangeError(f"Key {first.hex()} lies below {lower.hex()}.", where=first.hex())
    if upper is not None and last >= upper:
        raise RangeError(f"Key {last.hex()} does not lie below {upper.hex()}.", where=last.hex())


def key_and_category(line: bytes) -> tuple[bytes, str]:
    """Return key bytes and category of a canonical line.

    Raises: RecordContractError (DELTA_RECORD_CONTRACT) where it has none.
    """
    try:
        record = orjson.loads(line)
        sort_key, category = bytes.fromhex(record["sort_key"]), record["category"]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise RecordContractError(f"A line is no record: {shown(line[:64])}.") from error
    if category not in CATEGORIES:
        raise RecordContractError(f"{shown(category)!r} is no category.")
    return sort_key, category


def read_lines(stream: BinaryIO, hasher: Any = None, batch: int = PAGE_RECORDS) -> Iterator[list[bytes]]:
    """Yield the lines of a body without LF, ``batch`` at a time; ``hasher`` is fed every byte.

    Raises: BodyFramingError (DELTA_BODY_FRAMING) for an empty line or a last line without LF; LimitError (DELTA_LIMIT)
    for a line that no reader holds.
    """
    lines: list[bytes] = []
    held: list[bytes] = []  # the parts of a line whose end is still to come
    while chunk := stream.read(READ_BYTES):
        if hasher is not None:
            hasher.update(chunk)
        first, *others = chunk.split(b"\n")
        held.append(first)
        if others:
            found = [b"".join(held), *others]
            held = [found.pop()]
            if b"" in found:
                raise BodyFramingError("A line is empty.")
            if len(found[0]) > LINE_BYTES_MAX:
                raise LimitError(f"A line of a body is longer than {LINE_BYTES_MAX} bytes.")
            lines += found
            whole = len(lines) - len(lines) % batch
            yield from (lines[start : start + batch] for start in range(0, whole, batch))
            del lines[:whole]
        if sum(map(len, held)) > LINE_BYTES_MAX:
            raise LimitError(f"A line of a body is longer than {LINE_BYTES_MAX} bytes.")
    if any(held):
        raise BodyFramingError("The last line does not end in LF.")
    if lines:
        yield lines


def digest_stream(stream: BinaryIO, chunk_bytes: int = 2**20) -> tuple[int, str]:
    """Return length and SHA-256 of a stream, read to its end."""
    hasher, size = hashlib.sha256(), 0
    while chunk := stream.read(chunk_bytes):
        hasher.update(chunk)
        size += len(chunk)
    return size, hasher.hexdigest()
