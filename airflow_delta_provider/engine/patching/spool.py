"""Decided records on their way to the database and the ledger: kept in a local file, read back in batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_delta_provider.adapters.writers.changes import Bulk, Change
from airflow_delta_provider.core.patch import CONFLICTED, DELETE, INSERT, UPDATE, Decision


@dataclass(slots=True)
class Item:
    """One record with what is to become of it.

    ``number``: its place in the manifest's body. ``key``: canonical, for people. ``raw_key``: the key columns as
    stored, None where the side cannot hold the key. ``change``: what to write where ``decision`` leaves that open.
    """

    number: int
    id: str
    sort_key: bytes
    key: list[Any]
    raw_key: list[Any] | None
    decision: Decision
    change: Change | None = None

    def listed(self, reason: str | None) -> dict[str, Any]:
        """Return the form in which a person sees the record."""
        return {"id": self.id, "key": self.key, "reason": reason}


@dataclass(slots=True)
class Planned:
    """What is in a spool as a whole.

    ``counts``: rows to insert, update and delete. ``columns``: for each op the columns that are set. ``conflicts``: rows
    that were written after the comparison, as the rows before show. ``bounds``: key bytes of the first and last record.
    """

    counts: dict[str, int] = field(default_factory=lambda: {INSERT: 0, UPDATE: 0, DELETE: 0})
    columns: dict[str, set[str]] = field(default_factory=lambda: {INSERT: set(), UPDATE: set(), DELETE: set()})
    conflicts: int = 0
    bounds: tuple[bytes, bytes] | None = None

    @property
    def changes(self) -> int:
        """Number of rows to write."""
        return sum(self.counts.values())

    def add(self, item: Item) -> None:
        """Count one item."""
        if item.change is not None:
            self.counts[item.change.op] += 1
            self.columns[item.change.op].update(item.change.values)
        elif item.decision.outcome == CONFLICTED:
            self.conflicts += 1

    def span(self, first: bytes, last: bytes) -> None:
        """Note the key bytes of the first and the last of some records, which come after those before in key order."""
        self.bounds = (first if self.bounds is None else self.bounds[0], last)


@dataclass(slots=True)
class Block:
    """Consecutive records of which most are written as their manifest says, without a thought of each.

    Shape: one entry a record. ``ids`` and ``sort_keys``: these members as their lines hold them; ``ops``: the place of
    the op in ``OPS``, or ``ALONE`` for a record that stands in ``alone``, by its place in the block.
    """

    number: int
    ids: list[bytes]
    sort_keys: list[bytes]
    ops: bytes
    alone: dict[int, Item]


OPS = (INSERT, UPDATE, DELETE)
ALONE = len(OPS)


class Spool:
    """A file of batches of items. Written once, read any number of times; only this process reads it.

    ``planned`` tells what is in it without reading it again. It may hold blocks instead: then ``bulk`` has their changes,
    and ``again`` decides each record anew for whoever asks for items.
    """

    def __init__(self, path: Path, again: Callable[[], Iterator[list[Item]]] | None = None) -> None:
        self._path = path
        self._again = again
        self._blocks = False
        self.bulk: Bulk | None = None
        self._file = path.open("wb")
        self.items = 0
        self.planned = Planned()

    def write(self, items: Sequence[Item]) -> None:
        """Add one batch, as plain tuples: those of classes take several times as long."""
        pickle.dump([_plain(item) for item in items], self._file, pickle.HIGHEST_PROTOCOL)
        for item in items:
            self.planned.add(item)
        if items:
            self.planned.span(items[0].sort_key, items[-1].sort_key)
        self.items += len(items)

    def write_block(self, block: Block) -> None:
        """Add one block; what is planned in it was counted by the caller."""
        alone = {place: _plain(item) for place, item in block.alone.items()}
        pickle.dump((block.number, block.ids, block.sort_keys, block.ops, alone), self._file, pickle.HIGHEST_PROTOCOL)
        self.items += len(block.ids)
        self._blocks = True

    def close(self) -> None:
        """End writing."""
        self._file.close()

    def batches(self) -> Iterator[list[Item]]:
        """Yield the items in batches, in the order in which they were written."""
        if self._blocks and self._again is not None:
            self._itemise(self._again())
        for entry in self.entries():
            if not isinstance(entry, Block):
                yield entry

    def entries(self) -> Iterator[Block | list[Item]]:
        """Yield what was written, in order."""
        with self._path.open("rb") as file:
            while True:
                try:
                    plain = pickle.load(file)
                except EOFError:
                    return
                if isinstance(plain, tuple):
                    number, ids, sort_keys, ops, alone = plain
                    yield Block(number, ids, sort_keys, ops, {place: _item(*part) for place, part in alone.items()})
                else:
                    yield [_item(*part) for part in plain]

    def _itemise(self, batches: Iterator[list[Item]]) -> None:
        """Put items where the blocks are."""
        made = Spool(self._path.with_name("again"))
        for items in batches:
            made.write(items)
        made.close()
        self._path, self._blocks, self.bulk = made._path, False, None


def _plain(item: Item) -> tuple[Any, ...]:
    one, made = item.change, item.decision
    change = None if one is None else (one.op, one.key, one.values, one.guard)
    decision = (made.op, made.outcome, made.reason, made.wanted)
    return item.number, item.id, item.sort_key, item.key, item.raw_key, decision, change


def _item(
    number: int, record_id: str, sort_key: bytes, key: list[Any], raw_key: list[Any] | None, decision: Any, change: Any
) -> Item:
    made = None if change is None else Change(*change)
    return Item(number, record_id, sort_key, key, raw_key, Decision(*decision), made)
