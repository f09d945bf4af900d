"""A sweep in batches: runs of unchanged keys pass as whole lists, only the others are looked at one by one (S11).

What comes out is what `generation.classify` gives; this is the way that keeps up with the reading of the side.
"""

from __future__ import annotations

import hashlib
from binascii import unhexlify
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import check_ascent
from airflow_delta_provider.core.documents.generation import first_line
from airflow_delta_provider.core.errors import GenerationContractError, PackDigestError
from airflow_delta_provider.core.generation import Change, Entry, Seen, Tally, take_step
from airflow_delta_provider.core.ids import sha256_hex
from airflow_delta_provider.core.packs import (
    KeyBounds,
    PackRow,
    PackWriter,
    add_nodes,
    body_block,
    packs_of_range,
    parse_pack,
)

WINDOW_KEYS: Final = 1024
"""Keys that are compared as one list."""

_HEAD = b'{"disposition":"'
_FIRST = b'{"disposition":"present","head":{"previous":null,"row_digest":"'
_LATER = b'{"disposition":"present","head":{"previous":"'
_LATER_DIGEST = b'","row_digest":"'
_LATER_END = len(_LATER) + 64
_TAIL = b'"sort_key":"'
_END = b'"}\n'
"""Both ends of an entry line, in a pack that was proved before. Neither can stand inside a key: its quotes are escaped."""


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries of the predecessor. Shape: lists of one length; ``present`` is the row digest, None unless present."""

    sort_keys: list[bytes]
    present: list[str | None]
    lines: list[bytes]
    leaves: list[bytes]

    def entry(self, place: int) -> Entry:
        """Return one entry in full."""
        return parse_pack(self.lines[place] + b"\n")[0]


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """Keys that this sweep sees.

    Shape: lists of one length; ``digests`` holds the row digest, None for every other outcome than a row; ``seen``
    returns one of them in full, and is asked only where something is not unchanged. ``rows`` returns (row, raw key) of
    a run of rows, half-open, as `Seen` has them: for runs of keys never seen before.
    """

    sort_keys: list[bytes]
    digests: list[str | None]
    seen: Callable[[int], Seen]
    rows: Callable[[int, int], list[tuple[bytes, bytes | None]]] | None = None


def read_batches(
    rows: Sequence[PackRow], read: Callable[[str], bytes], key_range: KeyBounds = (None, None)
) -> Iterator[EntryBatch]:
    """Yield the entries of a key range, one pack a batch, each proved by its row of a checked index.

    Raises: PackDigestError, GenerationContractError, UnsortedStreamError.
    """
    lower, upper = key_range
    for row in packs_of_range(rows, key_range):
        batch = _read_batch(read(row.sha256), row)
        start = 0 if lower is None else bisect_left(batch.sort_keys, lower)
        stop = len(batch.sort_keys) if upper is None else bisect_left(batch.sort_keys, upper)
        part = slice(start, stop)
        yield EntryBatch(batch.sort_keys[part], batch.present[part], batch.lines[part], batch.leaves[part])


def concatenate(
    parts: Sequence[tuple[Sequence[PackRow], Callable[[str], bytes]]],
) -> tuple[list[PackRow], dict[str, Any]]:
    """Return index rows and body block of packs put one after the other; none is rewritten, nodes are those of its place.

    Raises: PackDigestError, GenerationContractError, as `read_batches`; UnsortedStreamError where the packs of one part
    do not come after those of the part before.
    """
    rows, tree, hasher, size = list[PackRow](), merkle.Accumulator(), hashlib.sha256(), 0
    last: bytes | None = None
    for part, read in parts:
        for row in part:
            data = read(row.sha256)
            batch = _read_batch(data, row)
            if batch.sort_keys[0] != row.first:
                raise PackDigestError("A pack is not what the index says.", where=f"pack at entry {row.start}")
            last = check_ascent(batch.sort_keys, last, "entries")
            start = tree.size
            nodes = add_nodes(tree, batch.leaves)
            rows.append(PackRow(row.pack_bytes, row.first, nodes, row.records, row.sha256, start))
            hasher.update(data)
            size += len(data)
    return rows, body_block(size, tree, hasher.hexdigest())


def _read_batch(data: bytes, row: PackRow) -> EntryBatch:
    lines = data.split(b"\n")
    leaves = merkle.leaf_hashes(lines[:-1])
    whole = lines.pop() == b"" and (len(lines), len(data)) == (row.records, row.pack_bytes)
    proved = whole and tuple(merkle.aligned_nodes(leaves, row.start)) == row.nodes
    if not proved or sha256_hex(data) != row.sha256:
        raise PackDigestError("A pack is not what the index says.", where=f"pack at entry {row.start}")
    tails = data.split(_TAIL)[1:]
    try:
        sort_keys = [unhexlify(tail[: tail.index(_END)]) for tail in tails]
    except ValueError:
        sort_keys = []
    if len(sort_keys) != len(lines):
        raise GenerationContractError("A line of a pack is no entry.", where=f"pack at entry {row.start}")
    start, stop = len(_FIRST), len(_FIRST) + 64
    present = [line[start:stop].decode() if line.startswith(_FIRST) else _present(line) for line in lines]
    return EntryBatch(sort_keys, present, lines, leaves)


def _present(line: bytes) -> str | None:
    """Return the row digest of an entry that has changed before, None where it is not present."""
    if line.startswith(_LATER) and line.startswith(_LATER_DIGEST, _LATER_END):
        start = _LATER_END + len(_LATER_DIGEST)
        return line[start : start + 64].decode()
    if not line.startswith(_HEAD) or line.startswith(b"present", len(_HEAD)):
        raise GenerationContractError("A line of a pack is no entry.", where=line[:64].decode(errors="replace"))
    return None


class _Cursor:
    """A place in a stream of batches whose keys ascend strictly; ``batch`` is None at the end."""

    def __init__(self, batches: Iterator[Any], what: str) -> None:
        self.batch: Any = None
        self.place = 0
        self._batches = batches
        self._what = what
        self._last: bytes | None = None
        self.advance(0)

    @property
    def left(self) -> int:
        return len(self.batch.sort_keys) - self.place

    @property
    def key(self) -> bytes:
        key: bytes = self.batch.sort_keys[self.place]
        return key

    def advance(self, count: int) -> None:
        """Go on by some keys of the batch, and to the next batch where it ends."""
        self.place += count
        while self.batch is None or self.left == 0:
            self.batch, self.place = next(self._batches, None), 0
            if self.batch is None:
                return
            self._last = check_ascent(self.batch.sort_keys, self._last, self._what)


def sweep_batches(
    before: Iterator[EntryBatch],
    seen: Iterator[SeenBatch],
    key_json: Callable[[bytes], bytes],
    tally: Tally,
    writer: PackWriter,
) -> Iterator[list[Change]]:
    """Merge the predecessor with what this sweep sees: entries go to ``writer``, changes are yielded in key order.

    Raises: UnsortedStreamError (DELTA_INPUT_ORDER) where keys do not ascend strictly.
    """
    olds, news = _Cursor(before, "predecessor"), _Cursor(seen, "target")
    while olds.batch is not None or news.batch is not None:
        count = _common(olds, news) if olds.batch is not None and news.batch is not None else 0
        fresh = 0 if count else _fresh_keys(olds, news)
        if count:
            changes = _aligned(olds, news, count, key_json, tally, writer)
            olds.advance(count)
            news.advance(count)
        elif fresh:
            changes = _fresh(news, fresh, key_json, tally, writer)
            news.advance(fresh)
        else:
            changes = _single(olds, news, key_json, tally, writer)
        if changes:
            yield changes


def _common(olds: _Cursor, news: _Cursor) -> int:
    """Return how many next keys are the same on both sides, within one window."""
    count = min(olds.left, news.left, WINDOW_KEYS)
    old = olds.batch.sort_keys[olds.place : olds.place + count]
    new = news.batch.sort_keys[news.place : news.place + count]
    if old == new:
        return count
    return next(place for place, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)


def _aligned(
    olds: _Cursor,
    news: _Cursor,
    count: int,
    key_json: Callable[[bytes], bytes],
    tally: Tally,
    writer: PackWriter,
) -> list[Change]:
    """Take the steps of keys that stand on both sides."""
    part = slice(olds.place, olds.place + count)
    lines, leaves, present = olds.batch.lines[part], olds.batch.leaves[part], olds.batch.present[part]
    digests = news.batch.digests[news.place : news.place + count]
    changes, others = list[Change](), 0
    if present != digests or None in present:
        for place, (old, new) in enumerate(zip(present, digests, strict=True)):
            if old == new and old is not None:
                continue
            others += 1
            entry, row = olds.batch.entry(olds.place + place), news.batch.seen(news.place + place)
            step = take_step(entry, row, key_json)
            tally.add(entry, row, step)
            lines[place], leaves[place] = step.entry.line, merkle.leaf_hash(step.entry.line)
            if step.change is not None:
                changes.append(step.change)
    tally.add_unchanged(count - others)
    writer.extend(olds.batch.sort_keys[part], lines, leaves)
    return changes


def _fresh_keys(olds: _Cursor, news: _Cursor) -> int:
    """Return how many next rows have keys that were never seen before, within one window."""
    batch, start = news.batch, news.place
    if batch is None or batch.rows is None:
        return 0
    stop = start + min(news.left, WINDOW_KEYS)
    if olds.batch is not None:
        stop = bisect_left(batch.sort_keys, olds.key, start, stop)
    digests = batch.digests[start:stop]
    return digests.index(None) if None in digests else len(digests)


def _fresh(
    news: _Cursor, count: int, key_json: Callable[[bytes], bytes], tally: Tally, writer: PackWriter
) -> list[Change]:
    """Take the steps of rows whose keys were never seen before."""
    part = slice(news.place, news.place + count)
    sort_keys, digests = news.batch.sort_keys[part], news.batch.digests[part]
    keys = [key_json(sort_key) for sort_key in sort_keys]
    lines = [first_line(digest, key, sort_key) for digest, key, sort_key in zip(digests, keys, sort_keys, strict=True)]
    writer.extend(sort_keys, lines, merkle.leaf_hashes(lines))
    tally.add_new(count)
    return [
        Change(sort_key, "added", key, None, row, raw_key)
        for sort_key, key, (row, raw_key) in zip(sort_keys, keys, news.batch.rows(part.start, part.stop), strict=True)
    ]


def _single(
    olds: _Cursor, news: _Cursor, key_json: Callable[[bytes], bytes], tally: Tally, writer: PackWriter
) -> list[Change]:
    """Take the step of one key that stands on one side."""
    entry: Entry | None = None
    row: Seen | None = None
    if news.batch is None or (olds.batch is not None and olds.key < news.key):
        entry = olds.batch.entry(olds.place)
        olds.advance(1)
    else:
        row = news.batch.seen(news.place)
        news.advance(1)
    step = take_step(entry, row, key_json)
    tally.add(entry, row, step)
    writer.add(step.entry.sort_key, step.entry.line)
    return [] if step.change is None else [step.change]
