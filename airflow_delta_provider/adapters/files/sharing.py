"""Two Parquet sides read at the same time: a column chunk that is byte for byte the same in both is decoded once.

Equal bytes under equal descriptions decode to equal values, so both reads get the same Arrow arrays, and everything that
looks at values (order, keys, rules, refusals) still looks at those of each side. What cannot be shared, for whatever
reason, each side reads for itself, so that a refusal names the file that it is about.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta_provider.core.errors import DeltaError

COMPARED_BYTES = 1024 * 1024
"""How much of two column chunks is compared at once."""
HELD_BATCHES = 8
"""Decoded batches that wait for the slower of the two reads; one that is further behind decodes for itself."""
UNREADABLE = (DeltaError, pa.ArrowException, OSError, EOFError)
"""What reading a file raises where it is cut, damaged, replaced or gone."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The column chunks of one row group of one side.

    ``rows``: of the group. ``described``: what must be equal for equal bytes to mean equal values, for each column; None
    for a column that is never shared. ``spans``: offset and size in bytes of each chunk. ``read``: takes names and rows
    a batch and yields the group's batches. ``open``: opens the file.
    """

    rows: int
    names: tuple[str, ...]
    described: tuple[Any, ...]
    spans: tuple[tuple[int, int], ...]
    open: Callable[[], Any]
    read: Callable[[tuple[str, ...], int], AbstractContextManager[Iterator[pa.RecordBatch]]]


class SharedGroup:
    """One row group that stands in both sides, read by two threads. Sides are 0 and 1."""

    def __init__(self, one: Chunks, other: Chunks) -> None:
        self._chunks = (one, other)
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._equal: tuple[int, ...] | None = None
        self._rows = 0
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._held: deque[list[Any]] = deque()
        self._dropped = 0
        self._failed = False
        self._wanted = [0, 0]

    def read(self, side: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the group's batches of one side; ``rows`` a batch counts where this side is the first to come.

        Raises: what the reading of its own file raises; ArrowInvalid where columns are of unlike length.
        """
        chunks = self._chunks[side]
        with self._lock:
            if self._equal is None:
                self._equal, self._rows = self._compared(), rows
        equal = set(self._equal)
        own = tuple(name for position, name in enumerate(chunks.names) if position not in equal)
        with ExitStack() as stack:
            alone = stack.enter_context(chunks.read(own, self._rows)) if own else iter([])
            if not equal:
                yield from alone
                return
            rest, read = _Rows(alone) if own else None, 0
            for shared in self._parts(side, stack):
                arrays = iter(shared)
                others = iter(() if rest is None else rest.take(len(shared[0])))
                columns = [next(arrays if position in equal else others) for position in range(len(chunks.names))]
                read += len(shared[0])
                yield pa.RecordBatch.from_arrays(columns, names=list(chunks.names))
            if read != chunks.rows:
                raise pa.ArrowInvalid(f"A row group of {chunks.rows} rows has columns of {read}")

    def close(self) -> None:
        """Forget what was decoded."""
        with self._lock:
            self._held.clear()
            self._open.close()

    def _parts(self, side: int, stack: ExitStack) -> Iterator[list[Any]]:
        """Yield the shared columns, batch by batch: decoded by whichever side comes first."""
        number = 0
        while True:
            with self._lock:
                part = self._part(side, number)
                alone = part is None and (number < self._dropped or self._failed)
                if alone:
                    self._forget(side, sys.maxsize)
            if alone:
                yield from self._alone(side, number, stack)
                return
            if part is None:
                return
            yield part
            number += 1

    def _alone(self, side: int, start: int, stack: ExitStack) -> Iterator[list[Any]]:
        """Yield the shared columns from a batch on, decoded from this side's own file."""
        names = tuple(self._chunks[side].names[position] for position in self._equal or ())
        batches = stack.enter_context(self._chunks[side].read(names, self._rows))
        for place, batch in enumerate(batches):
            if place >= start:
                yield batch.columns

    def _part(self, side: int, number: int) -> list[Any] | None:
        """Return one batch's columns; None behind the last, and where they are not to be had here any more."""
        if number < self._dropped:
            return None
        if number - self._dropped == len(self._held):
            batch = self._decoded()
            if batch is None:
                return None
            self._held.append(batch.columns)
        found = self._held[number - self._dropped]
        self._forget(side, number + 1)
        return found

    def _decoded(self) -> pa.RecordBatch | None:
        """Return the next batch; None behind the last, and from the first failure on."""
        if self._failed:
            return None
        self._failed = True  # until the batch is here, whatever is raised
        with suppress(*UNREADABLE):
            if self._batches is None:
                names = tuple(self._chunks[0].names[position] for position in self._equal or ())
                self._batches = self._open.enter_context(self._chunks[0].read(names, self._rows))
            batch = next(self._batches, None)
            self._failed = False
            if batch is not None:
                return batch
        self._open.close()
        return None

    def _forget(self, side: int, wanted: int) -> None:
        """Note the first batch that a side still wants from here; drop what both have had, or the slower is too late for."""
        self._wanted[side] = wanted
        while self._held and (self._dropped < min(self._wanted) or len(self._held) > HELD_BATCHES):
            self._held.popleft()
            self._dropped += 1

    def _compared(self) -> tuple[int, ...]:
        """Return the positions of the columns whose chunks are equal, byte for byte."""
        one, other = self._chunks
        alike = [
            position
            for position, (mine, theirs) in enumerate(zip(one.described, other.described, strict=True))
            if mine is not None and mine == theirs and one.spans[position][1] == other.spans[position][1]
        ]
        if not alike:
            return ()
        try:
            with one.open() as here, other.open() as there:
                return tuple(
                    position for position in alike if _same(here, there, one.spans[position], other.spans[position])
                )
        except UNREADABLE:
            return ()


class _Rows:
    """Takes columns from batches by number of rows: a reader may cut its batches anywhere."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> list[Any]:
        """Return the columns of the next so many rows. Raises: ArrowInvalid where there are fewer."""
        parts, missing = [], rows
        while missing:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                raise pa.ArrowInvalid(f"A row group ends {missing} rows before its other columns")
            part, self._rest = batch.slice(0, missing), batch.slice(missing) if batch.num_rows > missing else None
            parts.append(part)
            missing -= part.num_rows
        if len(parts) == 1:
            return list(parts[0].columns)
        return [column.combine_chunks() for column in pa.Table.from_batches(parts).columns]


@dataclass(slots=True)
class Sharing:
    """The row groups that two sides share, for the read of one of them (``side`` 0 or 1)."""

    side: int
    groups: dict[tuple[int, int], SharedGroup] = field(default_factory=dict)

    def close(self) -> None:
        """Close what is open."""
        for group in self.groups.values():
            group.close()


def pair_groups(
    one: Sequence[tuple[Any, Chunks]], other: Sequence[tuple[Any, Chunks]]
) -> tuple[Sharing, Sharing] | None:
    """Pair row groups of two sides by their bounds and rows, or return None where none pair up.

    Each is given with its ``rowgroups.RowGroup``. Pairs of groups that then differ cost one look at some bytes.
    """
    there: dict[Any, list[tuple[Any, Chunks]]] = {}
    for group, chunks in other:
        there.setdefault((group.lower, group.upper, group.rows), []).append((group, chunks))
    found = (Sharing(0), Sharing(1))
    for group, chunks in one:
        partners = there.get((group.lower, group.upper, group.rows))
        if partners and len(chunks.names) == len(partners[0][1].names):
            partner, theirs = partners.pop(0)
            shared = SharedGroup(chunks, theirs)
            found[0].groups[group.file, group.number] = shared
            found[1].groups[partner.file, partner.number] = shared
    return found if found[0].groups else None


def described(
    column: pq.ColumnChunkMetaData, leaf: pq.ColumnSchema, arrow: pa.DataType, writer: str | None
) -> tuple[Any, ...] | None:
    """Return what must be equal for two chunks of equal bytes to hold equal values; None for lists and old time stamps.

    ``writer``: as the footer names it, since readers take account of the faults of some.
    """
    if leaf.max_repetition_level or leaf.physical_type == "INT96" or pa.types.is_dictionary(arrow):
        return None
    kind = (leaf.physical_type, leaf.logical_type.to_json(), leaf.length, leaf.precision, leaf.scale)
    stored = (column.compression, tuple(column.encodings), column.num_values, column.total_uncompressed_size)
    return (arrow, kind, leaf.converted_type, leaf.max_definition_level, stored, column.has_dictionary_page, writer)


def span(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return where a chunk begins and how many bytes it has."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        start = min(start, column.dictionary_page_offset)
    return start, column.total_compressed_size


def _same(here: Any, there: Any, mine: tuple[int, int], theirs: tuple[int, int]) -> bool:
    done, size = 0, mine[1]
    while done < size:
        count = min(COMPARED_BYTES, size - done)
        if here.read_at(count, mine[0] + done) != there.read_at(count, theirs[0] + done):
            return False
        done += count
    return True
