"""Two guarded streams in, one raw comparison out: rows matched by key, columns compared as Arrow arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow.compute as pc

from airflow_delta_provider.core import rules
from airflow_delta_provider.core.arrays import binary_list
from airflow_delta_provider.core.equality import equal_mask, same_values
from airflow_delta_provider.core.errors import DenominatorError
from airflow_delta_provider.core.keyset import bool_numpy, index_array
from airflow_delta_provider.core.rawcompare import RawWriter
from airflow_delta_provider.core.recorded import Comparison
from airflow_delta_provider.core.recording import Cells, Differing, Records, unparsed
from airflow_delta_provider.core.rowpairs import RowPairs, every_row, paired_rows
from airflow_delta_provider.core.stream import Block, SideCounts

RECORD_ROWS = 16_384
"""Records that are held at one time; a block has many more rows."""
RARE_SHARE = 16
"""Records are rare where fewer than one row in so many has one."""
ALONE = ("dropped", "added")
"""What a row is that stands on the source alone, and on the target alone."""


class Progress(Protocol):
    """Called now and then with rows read so far on (source, target)."""

    def __call__(self, source_rows: int, target_rows: int) -> None: ...


@dataclass(slots=True)
class Tally:
    """Counts of one shard. ``rules`` and ``key_rules`` hold one list for each column, one count for each of its rules;
    the ``_recorded`` ones count of the same only rows that have a record, which a later look may replace.
    """

    source: SideCounts = field(default_factory=SideCounts)
    target: SideCounts = field(default_factory=SideCounts)
    unchanged: int = 0
    categories: dict[str, int] = field(default_factory=lambda: {"added": 0, "dropped": 0, "value_diverged": 0})
    diverged: list[int] = field(default_factory=list)
    rules: list[list[int]] = field(default_factory=list)
    key_rules: list[list[int]] = field(default_factory=list)
    rules_recorded: list[list[int]] = field(default_factory=list)
    key_rules_recorded: list[list[int]] = field(default_factory=list)

    def population(self) -> dict[str, Any]:
        """Return the population of the manifest, its sums checked. Raises: DenominatorError."""
        both = self.unchanged + self.categories["value_diverged"]
        for name, side, alone in (("source", self.source, "dropped"), ("target", self.target, "added")):
            landed = both + self.categories[alone] + side.null_key + side.duplicate_key + side.skipped
            if side.rows != landed:
                raise DenominatorError(f"{name}: {side.rows} rows were read and {landed} accounted for.", where=name)
        return {"source": self.source.document(), "target": self.target.document(), "unchanged": self.unchanged}


def compare_blocks(
    source: Iterator[Block],
    target: Iterator[Block],
    comparison: Comparison,
    tally: Tally,
    writer: RawWriter,
    progress: Progress | None = None,
) -> None:
    """Compare two streams of blocks, write what differs, and count everything into ``tally``.

    Memory: one block of each side. Raises: RecordLimitError, ValueTextError, and what the streams raise.
    """
    worker = _Worker(comparison, tally, writer)
    here, there = next(source, None), next(target, None)
    while here is not None and there is not None:
        lesser = there if here.keys.last_above(there.keys) else here
        last = len(lesser) - 1
        cut_here = here.keys.count_upto(lesser.keys, last)
        cut_there = there.keys.count_upto(lesser.keys, last)
        worker.window(here.slice(0, cut_here), there.slice(0, cut_there))
        here = here.slice(cut_here, len(here)) if cut_here < len(here) else next(source, None)
        there = there.slice(cut_there, len(there)) if cut_there < len(there) else next(target, None)
        if progress is not None:
            progress(tally.source.rows, tally.target.rows)
    for first, rest, category in ((here, source, ALONE[0]), (there, target, ALONE[1])):
        block = first
        while block is not None:
            worker.alone(block, category)
            block = next(rest, None)
            if progress is not None:
                progress(tally.source.rows, tally.target.rows)
    worker.records.flush()
    if progress is not None:
        progress(tally.source.rows, tally.target.rows)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of rows that pair up. Shape: ``unequal`` (numpy) has an entry for each pair; ``source`` and ``target``
    are the values to be recorded, one for each pair.
    """

    unequal: Any
    source: rules.Typed
    target: rules.Typed


@dataclass(frozen=True, slots=True)
class _Matched:
    """Rows that pair up, compared: ``rows`` (int64 numpy, numbers of pairs) differ, in the columns that are not None.

    ``alike``: how many more rows pair up and are equal, so that nothing else is said of them.
    """

    source: Block
    target: Block
    pairs: RowPairs
    rows: Any
    columns: list[_Column | None]
    ladders: list[tuple[rules.Ladder, list[int], list[int]]]
    alike: int = 0

    @property
    def count(self) -> int:
        """How many rows pair up."""
        return len(self.pairs) + self.alike


class _Worker:
    """Compares one window after another: rows of both sides whose keys lie in one interval."""

    def __init__(self, comparison: Comparison, tally: Tally, writer: RawWriter) -> None:
        self.comparison = comparison
        self.tally = tally
        self.records = Records(comparison, writer)
        self._piece_rows = sys.maxsize
        tally.diverged = [0] * len(comparison.columns)
        tally.rules = [[0] * len(column.rules) for column in comparison.columns]
        tally.key_rules = [[0] * len(column.rules) for column in comparison.target_key]
        tally.rules_recorded = [[0] * len(column.rules) for column in comparison.columns]
        tally.key_rules_recorded = [[0] * len(column.rules) for column in comparison.target_key]

    def window(self, source: Block, target: Block) -> None:
        """Match two blocks by key; count and record."""
        if source.repeats or target.repeats:
            repeats = source.repeats | target.repeats
            source = self._set_aside(source, repeats, self.tally.source)
            target = self._set_aside(target, repeats, self.tally.target)
        self._aligned(source, target)

    def _aligned(self, source: Block, target: Block) -> None:
        """Match two blocks without repeats; those that do not just pair up row by row in pieces, as they need a sort."""
        if source.keys.equals(target.keys):
            for differing in self._recorded(self._compared(source, target, every_row(len(source)))):
                self.records.add(differing)
            return
        size = max(len(source), len(target))
        if size <= self._piece_rows and self._paired(source, target, size):
            return
        larger = source if len(source) == size else target
        cuts = [block.keys.count_upto(larger.keys, size // 2 - 1) for block in (source, target)]
        self._aligned(source.slice(0, cuts[0]), target.slice(0, cuts[1]))
        self._aligned(source.slice(cuts[0], len(source)), target.slice(cuts[1], len(target)))

    def _paired(self, source: Block, target: Block, size: int) -> bool:
        """Pair rows up and record what differs, in key order; return False, with nothing done, if that is too much.

        What follows is then taken in pieces that hold few enough records whatever is in them, until records are rare.
        """
        pairs = paired_rows(source.keys, target.keys)
        matched = self._compared(source, target, pairs)
        records = len(matched.rows) + len(source) + len(target) - 2 * len(pairs)
        if records > RECORD_ROWS and size > RECORD_ROWS:
            self._piece_rows = RECORD_ROWS
            return False
        if records < size // RARE_SHARE:
            self._piece_rows = sys.maxsize
        dropped, added = (
            None if mask is None else self._alone(block.take(np.flatnonzero(~mask)), category)
            for block, mask, category in zip((source, target), pairs.kept, ALONE, strict=True)
        )
        self.records.add(next(self._recorded(matched), None), dropped, added)
        return True

    def alone(self, block: Block, category: str) -> None:
        """Record a block whose keys the other side has not."""
        if block.repeats:
            counts = self.tally.source if category == "dropped" else self.tally.target
            block = self._set_aside(block, block.repeats, counts)
        for start in range(0, len(block), RECORD_ROWS):
            part = self._alone(block.slice(start, min(start + RECORD_ROWS, len(block))), category)
            self.records.add(None, **{category: part})

    def _alone(self, block: Block, category: str) -> Block:
        self.tally.categories[category] += len(block)
        return block.unpacked()

    def _set_aside(self, block: Block, repeats: frozenset[bytes], counts: SideCounts) -> Block:
        aside = pc.is_in(block.keys.data, value_set=binary_list(list(repeats)))
        rows = np.flatnonzero(~bool_numpy(aside))
        counts.duplicate_key += len(block) - len(rows)
        return block if len(rows) == len(block) else block.take(rows)

    def _compared(self, source: Block, target: Block, pairs: RowPairs) -> _Matched:
        """Compare rows that pair up, column by column; count and record nothing."""
        alike = 0
        if source.packed is not None and target.packed is not None:
            rows = pairs.unlike(source.packed[0], target.packed[0])
            alike = len(pairs) - len(rows)
            source, target = source.take(pairs.source[rows]), target.take(pairs.target[rows])
            pairs = every_row(len(rows))
        source, target = source.unpacked(), target.unpacked()
        if len(pairs) == 0:
            return _Matched(source, target, pairs, np.zeros(0, np.int64), [], [], alike)
        ladders = self._key_ladders(source, target, pairs)
        columns: list[_Column | None] = []
        for number, column in enumerate(self.comparison.columns):
            mine, other = source.values[number], target.values[number]
            if column.rules:
                ladder = self._ladder(number, source, target, pairs)
                ladders.append((ladder, self.tally.rules[number], self.tally.rules_recorded[number]))
                equal, recorded = ladder.equal, (ladder.recorded_source, ladder.recorded_target)
            elif same_values(mine, other, column.source, column.target) and pairs.surely_equal(mine, other):
                columns.append(None)
                continue
            else:
                mine, other = pairs.columns(mine, other)
                equal = equal_mask(mine, other, column.source, column.target, column.schema)
                recorded = (rules.Typed(column.source, mine, None), rules.Typed(column.target, other, None))
            columns.append(None if equal.true_count == len(pairs) else _Column(~bool_numpy(equal), *recorded))
        found = [column.unequal for column in columns if column is not None]
        rows = np.flatnonzero(np.logical_or.reduce(found)) if found else np.zeros(0, np.int64)
        return _Matched(source, target, pairs, rows, columns, ladders, alike)

    def _recorded(self, matched: _Matched) -> Iterator[Differing]:
        """Count compared rows; yield those that differ, at most RECORD_ROWS at a time."""
        for number, column in enumerate(matched.columns):
            if column is not None:
                self.tally.diverged[number] += int(column.unequal.sum())
        rows = matched.rows
        for ladder, counts, counts_recorded in matched.ladders:
            _count_positions(ladder.rule, counts)
            _count_positions(ladder.rule[rows], counts_recorded)
        self.tally.unchanged += matched.count - len(rows)
        self.tally.categories["value_diverged"] += len(rows)
        for start in range(0, len(rows), RECORD_ROWS):
            yield _differing(matched, rows[start : start + RECORD_ROWS])

    def _ladder(self, number: int, source: Block, target: Block, pairs: RowPairs) -> rules.Ladder:
        column = self.comparison.columns[number]
        mine, other = pairs.columns(source.values[number], target.values[number])
        try:
            return rules.evaluate(
                list(column.rules), rules.Typed(column.source, mine, None), rules.Typed(column.target, other, None)
            )
        except rules.UnparsedValue as error:
            keys = source.keys.take(pairs.source) if error.side == "source" else target.keys.take(pairs.target)
            raise unparsed(error, column, keys, self.comparison.key_types) from error

    def _key_ladders(
        self, source: Block, target: Block, pairs: RowPairs
    ) -> list[tuple[rules.Ladder, list[int], list[int]]]:
        """Return which matched keys only a rule made equal; the keys themselves are equal by now."""
        found = []
        for number, column in enumerate(self.comparison.target_key):
            if column.rules:
                mine, other = pairs.columns(source.raw_key[number], target.raw_key[number])
                ladder = rules.evaluate(
                    list(column.rules),
                    rules.Typed(self.comparison.source_key[number].carrier, mine, None),
                    rules.Typed(column.carrier, other, None),
                )
                found.append((ladder, self.tally.key_rules[number], self.tally.key_rules_recorded[number]))
        return found


def _differing(matched: _Matched, rows: Any) -> Differing:
    """Return some of the pairs that differ, by their numbers, with only the values that do."""
    here, there = matched.pairs.source[rows], matched.pairs.target[rows]
    cells: list[Cells | None] = []
    for column in matched.columns:
        mask = None if column is None else column.unequal[rows]
        if column is None or mask is None or not mask.any():
            cells.append(None)
            continue
        index = index_array(rows[mask])
        cells.append(Cells(mask, column.source.take(index), column.target.take(index)))
    raw_keys = (
        [array.take(index_array(here)) for array in matched.source.raw_key],
        [array.take(index_array(there)) for array in matched.target.raw_key],
    )
    return Differing(matched.source.keys.take(here), cells, raw_keys)


def _count_positions(positions: Any, counts: list[int]) -> None:
    """Add to each rule's count how often it is named; 0 names none."""
    found = np.bincount(positions, minlength=len(counts) + 1)
    for position in range(len(counts)):
        counts[position] += int(found[position + 1])
