"""Two guarded streams in, one raw comparison out: rows matched by key, columns compared as Arrow arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import rules
from airflow_delta_provider.core.arrays import binary_list, bool_array
from airflow_delta_provider.core.equality import equal_mask
from airflow_delta_provider.core.errors import DeltaError, DenominatorError, shown
from airflow_delta_provider.core.keyset import Keys, bool_numpy, index_array
from airflow_delta_provider.core.rawcompare import RawWriter, in_key_order, raw_batch
from airflow_delta_provider.core.recorded import ComparedColumn, HmacKey, Recorder, canonical
from airflow_delta_provider.core.rowtext import json_rows, repeated
from airflow_delta_provider.core.stream import Block, KeyColumn, SideCounts, key_text
from airflow_delta_provider.core.types import LogicalType

RECORD_ROWS = 16_384
"""Records that are held at one time; a block has many more rows."""
RARE_SHARE = 16
"""Records are rare where fewer than one row in so many has one."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared and how it is recorded: the same for every shard of one reconciliation.

    ``source_key``, ``target_key``: the key columns on each side. ``raw_keys``: some key column has a rule.
    """

    columns: tuple[ComparedColumn, ...]
    source_key: tuple[KeyColumn, ...]
    target_key: tuple[KeyColumn, ...]
    detail: str = "values"
    inline_limit: int = 65_536
    hmac_key: HmacKey | None = None
    raw_keys: bool = False

    @property
    def key_types(self) -> list[LogicalType]:
        """The canonical types of the key."""
        return [column.key_type for column in self.target_key]


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
    for first, rest, category in ((here, source, "dropped"), (there, target, "added")):
        block = first
        while block is not None:
            worker.alone(block, category)
            block = next(rest, None)
            if progress is not None:
                progress(tally.source.rows, tally.target.rows)
    if progress is not None:
        progress(tally.source.rows, tally.target.rows)


@dataclass(frozen=True, slots=True)
class _Matched:
    """Rows that pair up, compared: ``rows`` (int64 numpy) differ, in the columns whose ``unequal`` mask is not None."""

    source: Block
    target: Block
    rows: Any
    unequal: list[Any]
    recorded: list[tuple[rules.Typed, rules.Typed]]
    ladders: list[tuple[rules.Ladder, list[int], list[int]]]


class _Worker:
    """Compares one window after another: rows of both sides whose keys lie in one interval."""

    def __init__(self, comparison: Comparison, tally: Tally, writer: RawWriter) -> None:
        self.comparison = comparison
        self.tally = tally
        self.writer = writer
        self._piece_rows = sys.maxsize
        self.recorders = [
            Recorder(column, comparison.detail, comparison.inline_limit, comparison.hmac_key)
            for column in comparison.columns
        ]
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
            for records in self._recorded(self._compared(source, target)):
                self.writer.add(records)
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
        here, there = source.keys.align(target.keys)
        matched = self._compared(source.kept(here), target.kept(there))
        alone = [(source, np.flatnonzero(~here), "dropped"), (target, np.flatnonzero(~there), "added")]
        records = len(matched.rows) + sum(len(rows) for _, rows, _ in alone)
        if records > RECORD_ROWS and size > RECORD_ROWS:
            self._piece_rows = RECORD_ROWS
            return False
        if records < size // RARE_SHARE:
            self._piece_rows = sys.maxsize
        found = list(self._recorded(matched))
        found += [self._one_sided(block.take(rows), category) for block, rows, category in alone if len(rows)]
        if found:
            self.writer.add(in_key_order(found))
        return True

    def alone(self, block: Block, category: str) -> None:
        """Record a block whose keys the other side has not."""
        if block.repeats:
            counts = self.tally.source if category == "dropped" else self.tally.target
            block = self._set_aside(block, block.repeats, counts)
        for start in range(0, len(block), RECORD_ROWS):
            part = block.slice(start, min(start + RECORD_ROWS, len(block)))
            self.writer.add(self._one_sided(part, category))

    def _set_aside(self, block: Block, repeats: frozenset[bytes], counts: SideCounts) -> Block:
        aside = pc.is_in(block.keys.data, value_set=binary_list(list(repeats)))
        rows = np.flatnonzero(~bool_numpy(aside))
        counts.duplicate_key += len(block) - len(rows)
        return block if len(rows) == len(block) else block.take(rows)

    def _compared(self, source: Block, target: Block) -> _Matched:
        """Compare rows that pair up, column by column; count and record nothing."""
        if len(source) == 0:
            return _Matched(source, target, np.zeros(0, np.int64), [], [], [])
        ladders = self._key_ladders(source, target)
        unequal: list[Any] = []
        recorded: list[tuple[rules.Typed, rules.Typed]] = []
        for number, column in enumerate(self.comparison.columns):
            mine, other = source.values[number], target.values[number]
            if column.rules:
                ladder = self._ladder(number, source, target)
                ladders.append((ladder, self.tally.rules[number], self.tally.rules_recorded[number]))
                recorded.append((ladder.recorded_source, ladder.recorded_target))
                equal = ladder.equal
            else:
                equal = equal_mask(mine, other, column.source, column.target, column.schema)
                recorded.append((rules.Typed(column.source, mine, None), rules.Typed(column.target, other, None)))
            unequal.append(None if equal.true_count == len(source) else ~bool_numpy(equal))
        found = [differs for differs in unequal if differs is not None]
        rows = np.flatnonzero(np.logical_or.reduce(found)) if found else np.zeros(0, np.int64)
        return _Matched(source, target, rows, unequal, recorded, ladders)

    def _recorded(self, matched: _Matched) -> Iterator[pa.RecordBatch]:
        """Count compared rows; yield the records of those that differ, at most RECORD_ROWS at a time."""
        for number, differs in enumerate(matched.unequal):
            if differs is not None:
                self.tally.diverged[number] += int(differs.sum())
        rows = matched.rows
        for ladder, counts, counts_recorded in matched.ladders:
            _count_positions(ladder.rule, counts)
            _count_positions(ladder.rule[rows], counts_recorded)
        self.tally.unchanged += len(matched.source) - len(rows)
        self.tally.categories["value_diverged"] += len(rows)
        for start in range(0, len(rows), RECORD_ROWS):
            yield self._diverged(matched, rows[start : start + RECORD_ROWS])

    def _ladder(self, number: int, source: Block, target: Block) -> rules.Ladder:
        column = self.comparison.columns[number]
        mine = rules.Typed(column.source, source.values[number], None)
        other = rules.Typed(column.target, target.values[number], None)
        try:
            return rules.evaluate(list(column.rules), mine, other)
        except rules.UnparsedValue as error:
            block = source if error.side == "source" else target
            raise self._unparsed(error, column, block) from error

    def _key_ladders(self, source: Block, target: Block) -> list[tuple[rules.Ladder, list[int], list[int]]]:
        """Return which matched keys only a rule made equal; the keys themselves are equal by now."""
        found = []
        for number, column in enumerate(self.comparison.target_key):
            if column.rules:
                mine = rules.Typed(self.comparison.source_key[number].carrier, source.raw_key[number], None)
                other = rules.Typed(column.carrier, target.raw_key[number], None)
                ladder = rules.evaluate(list(column.rules), mine, other)
                found.append((ladder, self.tally.key_rules[number], self.tally.key_rules_recorded[number]))
        return found

    def _texts(self, number: int, typed: rules.Typed, side: str, keys: Keys) -> pa.LargeBinaryArray:
        """Return values as they are recorded. Raises: what has no canonical value, naming side, column and key."""
        recorder, column = self.recorders[number], self.comparison.columns[number]
        try:
            return recorder.texts(typed)
        except DeltaError as error:
            row = _first_refused(recorder, typed)
            key = key_text(keys[row], self.comparison.key_types)
            raise type(error)(
                f"{side}: column {shown(column.name)!r}, key {key}: {error.message}", where=side
            ) from error

    def _unparsed(self, error: rules.UnparsedValue, column: ComparedColumn, block: Block) -> DeltaError:
        key = key_text(block.keys[error.row], self.comparison.key_types)
        value = "a value" if column.sensitive else repr(shown(error.text))
        return error.error(
            f"{error.side}: column {shown(column.name)!r}, key {key}: {value} {error.reason}.", where=error.side
        )

    def _diverged(self, matched: _Matched, rows: Any) -> pa.RecordBatch:
        source, target = matched.source, matched.target
        names, source_texts, target_texts = list[Any](), list[Any](), list[Any]()
        for number, differs in enumerate(matched.unequal):
            if differs is None or not differs[rows].any():
                continue
            spread = _Spread(differs[rows])
            index = index_array(rows[spread.places])
            keys = source.keys.take(rows[spread.places])
            typed_source, typed_target = matched.recorded[number]
            source_texts.append(spread.texts(self._texts(number, typed_source.take(index), "source", keys)))
            target_texts.append(spread.texts(self._texts(number, typed_target.take(index), "target", keys)))
            names.append(spread.texts(repeated(_json(self.comparison.columns[number].name), len(index))))
        count = len(rows)
        return raw_batch(
            source.keys.take(rows).data,
            "value_diverged",
            json_rows(names, count),
            json_rows(source_texts, count),
            json_rows(target_texts, count),
            *self._raw_keys(source.take(rows), target.take(rows)),
        )

    def _one_sided(self, block: Block, category: str) -> pa.RecordBatch:
        self.tally.categories[category] += len(block)
        side = "source" if category == "dropped" else "target"
        columns = []
        for number, column in enumerate(self.comparison.columns):
            carried = column.source if side == "source" else column.target
            typed = rules.Typed(carried, block.values[number], None)
            try:
                typed = rules.recorded(list(column.rules), typed, side)
            except rules.UnparsedValue as error:
                raise self._unparsed(error, column, block) from error
            columns.append(self._texts(number, typed, side, block.keys))
        row = json_rows(columns, len(block))
        source_rows, target_rows = (row, None) if side == "source" else (None, row)
        there, others = self._raw_keys(block if side == "source" else None, block if side == "target" else None)
        nothing = [b"null"] * len(block) if self.comparison.raw_keys else None
        return raw_batch(
            block.keys.data,
            category,
            None,
            source_rows,
            target_rows,
            there if side == "source" else nothing,
            others if side == "target" else nothing,
        )

    def _raw_keys(self, source: Block | None, target: Block | None) -> tuple[list[bytes] | None, list[bytes] | None]:
        """Return each side's keys before any rule; None for a block that is none and where no key column has a rule."""
        result: list[list[bytes] | None] = []
        for block, columns in ((source, self.comparison.source_key), (target, self.comparison.target_key)):
            if block is None or not self.comparison.raw_keys:
                result.append(None)
                continue
            parts = [
                canonical(rules.Typed(column.carrier, array, None), column.carrier)
                for column, array in zip(columns, block.raw_key, strict=True)
            ]
            result.append([_json(list(key)) for key in zip(*parts, strict=True)])
        return result[0], result[1]


class _Spread:
    """Puts what was made for some rows of many back to its place, with NULL between. ``mask``: which rows (numpy)."""

    def __init__(self, mask: Any) -> None:
        self.places = np.flatnonzero(mask)
        self._index = None
        if len(self.places) < len(mask):
            self._index = pc.if_else(bool_array(mask), index_array(np.cumsum(mask) - 1), pa.scalar(None, pa.int64()))

    def texts(self, texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        return texts if self._index is None else texts.take(self._index)


def _first_refused(recorder: Recorder, typed: rules.Typed) -> int:
    for row in range(len(typed)):
        try:
            recorder.record(typed.take(index_array([row])))
        except DeltaError:
            return row
    return 0


def _count_positions(positions: Any, counts: list[int]) -> None:
    """Add to each rule's count how often it is named; 0 names none."""
    found = np.bincount(positions, minlength=len(counts) + 1)
    for position in range(len(counts)):
        counts[position] += int(found[position + 1])


def _json(value: Any) -> bytes:
    """Return JSON in a copy of its own size: what orjson gives keeps the whole 4 KiB of its buffer."""
    return memoryview(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).tobytes()
