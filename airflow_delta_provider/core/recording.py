"""Records of compared rows: gathered over some windows, then made a column at a time, and written in key order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import rules
from airflow_delta_provider.core.arrays import bool_array
from airflow_delta_provider.core.errors import DeltaError, shown
from airflow_delta_provider.core.keyset import Keys, index_array, joined_keys
from airflow_delta_provider.core.rawcompare import RawWriter, in_key_order, raw_batch
from airflow_delta_provider.core.recorded import ComparedColumn, Comparison, Recorder, canonical
from airflow_delta_provider.core.rowtext import json_rows, repeated
from airflow_delta_provider.core.stream import Block, joined_blocks, key_text
from airflow_delta_provider.core.types import LogicalType

HELD_ROWS = 4_096
HELD_BYTES = 8 * 1024 * 1024
"""Rows, and bytes of their values, that are held before their records are made: a window may have only a few."""
SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of one column that differ. Shape: ``mask`` (numpy) has a place for each row, both sides one for each
    place at which it is true.
    """

    mask: Any
    source: rules.Typed
    target: rules.Typed


@dataclass(frozen=True, slots=True)
class Differing:
    """Rows that pair up and differ. Shape: ``cells`` has an entry for each compared column, None where no row differs;
    ``raw_keys`` has the key columns of both sides before any rule, none where they are not recorded.
    """

    keys: Keys
    cells: list[Cells | None]
    raw_keys: tuple[list[pa.Array], list[pa.Array]]


@dataclass(slots=True)
class _Held:
    """What waits for its records. ``kinds``: the types of what is held, by place; only like ones are put together."""

    differing: list[Differing] = field(default_factory=list)
    alone: dict[str, list[Block]] = field(default_factory=lambda: {"dropped": [], "added": []})
    kinds: dict[Any, Any] = field(default_factory=dict)
    rows: int = 0
    nbytes: int = 0


class Records:
    """Makes and writes the records of rows that differ; they come in key order, window by window."""

    def __init__(self, comparison: Comparison, writer: RawWriter) -> None:
        self._comparison = comparison
        self._writer = writer
        self._held = _Held()
        self._recorders = [
            Recorder(column, comparison.detail, comparison.inline_limit, comparison.hmac_key)
            for column in comparison.columns
        ]

    def add(self, differing: Differing | None, dropped: Block | None = None, added: Block | None = None) -> None:
        """Take the rows of one window, all above those taken before.

        Raises: RecordLimitError; sooner or later what has no canonical value.
        """
        alone = {name: block for name, block in (("dropped", dropped), ("added", added)) if block is not None}
        kinds, nbytes = _kinds(differing, alone)
        if any(self._held.kinds.get(place, kind) != kind for place, kind in kinds.items()):
            self.flush()
        held = self._held
        held.kinds.update(kinds)
        held.nbytes += nbytes
        if differing is not None:
            held.differing.append(differing)
            held.rows += len(differing.keys)
        for name, block in alone.items():
            held.alone[name].append(block)
            held.rows += len(block)
        self._writer.demand_room(held.rows)
        if held.rows >= HELD_ROWS or held.nbytes >= HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the records of all rows that are held."""
        held, self._held = self._held, _Held()
        batches = [self._diverged(_joined(held.differing))] if held.differing else []
        batches += [self._one_sided(joined_blocks(parts), name) for name, parts in held.alone.items() if parts]
        if batches:
            self._writer.add(in_key_order(batches))

    def _texts(self, number: int, typed: rules.Typed, side: str, keys: Keys) -> pa.LargeBinaryArray:
        """Return values as they are recorded. Raises: what has no canonical value, naming side, column and key."""
        recorder, column = self._recorders[number], self._comparison.columns[number]
        try:
            return recorder.texts(typed)
        except DeltaError as error:
            row = _first_refused(recorder, typed)
            key = key_text(keys[row], self._comparison.key_types)
            raise type(error)(
                f"{side}: column {shown(column.name)!r}, key {key}: {error.message}", where=side
            ) from error

    def _diverged(self, rows: Differing) -> pa.RecordBatch:
        names, source_texts, target_texts = list[Any](), list[Any](), list[Any]()
        for number, cells in enumerate(rows.cells):
            if cells is None:
                continue
            spread = _Spread(cells.mask)
            keys = rows.keys.take(spread.places)
            source_texts.append(spread.texts(self._texts(number, cells.source, "source", keys)))
            target_texts.append(spread.texts(self._texts(number, cells.target, "target", keys)))
            names.append(spread.texts(repeated(_json(self._comparison.columns[number].name), len(spread.places))))
        count = len(rows.keys)
        return raw_batch(
            rows.keys.data,
            "value_diverged",
            json_rows(names, count),
            json_rows(source_texts, count),
            json_rows(target_texts, count),
            *(self._raw_keys(number, raw) for number, raw in enumerate(rows.raw_keys)),
        )

    def _one_sided(self, block: Block, category: str) -> pa.RecordBatch:
        side = SIDES[category == "added"]
        columns = []
        for number, column in enumerate(self._comparison.columns):
            typed = rules.Typed(column.source if side == "source" else column.target, block.values[number], None)
            try:
                typed = rules.recorded(list(column.rules), typed, side)
            except rules.UnparsedValue as error:
                raise unparsed(error, column, block.keys, self._comparison.key_types) from error
            columns.append(self._texts(number, typed, side, block.keys))
        row = json_rows(columns, len(block))
        nothing = [b"null"] * len(block) if self._comparison.raw_keys else None
        raw = self._raw_keys(SIDES.index(side), block.raw_key)
        if side == "source":
            return raw_batch(block.keys.data, category, None, row, None, raw, nothing)
        return raw_batch(block.keys.data, category, None, None, row, nothing, raw)

    def _raw_keys(self, side: int, arrays: Sequence[pa.Array]) -> list[bytes] | None:
        """Return one side's keys before any rule; None where no key column has a rule."""
        if not self._comparison.raw_keys:
            return None
        columns = (self._comparison.source_key, self._comparison.target_key)[side]
        parts = [
            canonical(rules.Typed(column.carrier, array, None), column.carrier)
            for column, array in zip(columns, arrays, strict=True)
        ]
        return [_json(list(key)) for key in zip(*parts, strict=True)]


def unparsed(
    error: rules.UnparsedValue, column: ComparedColumn, keys: Keys, key_types: list[LogicalType]
) -> DeltaError:
    """Return the refusal of a value that a rule cannot read, naming its key; ``error.row`` is a row of ``keys``."""
    key = key_text(keys[error.row], key_types)
    value = "a value" if column.sensitive else repr(shown(error.text))
    return error.error(
        f"{error.side}: column {shown(column.name)!r}, key {key}: {value} {error.reason}.", where=error.side
    )


def _kinds(differing: Differing | None, alone: dict[str, Block]) -> tuple[dict[Any, Any], int]:
    """Return the types of some rows by their place, and how many bytes their values have."""
    kinds: dict[Any, Any] = {}
    nbytes = 0
    if differing is not None:
        for number, cells in enumerate(differing.cells):
            for side, typed in () if cells is None else zip(SIDES, (cells.source, cells.target), strict=True):
                extra = None if typed.unparsed is None else typed.unparsed.type
                kinds[number, side] = (typed.type, typed.array.type, extra)
                nbytes += typed.array.nbytes
        kinds["raw"] = [[array.type for array in raw] for raw in differing.raw_keys]
    for name, block in alone.items():
        arrays = [*block.values, *block.raw_key]
        kinds[name] = [array.type for array in arrays]
        nbytes += sum(array.nbytes for array in arrays)
    return kinds, nbytes


def _joined(parts: Sequence[Differing]) -> Differing:
    """Return the rows of all parts as one; what one place holds has one type."""
    if len(parts) == 1:
        return parts[0]
    sizes = [len(part.keys) for part in parts]
    cells = [
        _joined_cells(column, sizes) if any(one is not None for one in column) else None
        for column in zip(*(part.cells for part in parts), strict=True)
    ]
    here, there = (
        [pa.concat_arrays(arrays) for arrays in zip(*(part.raw_keys[side] for part in parts), strict=True)]
        for side in (0, 1)
    )
    return Differing(joined_keys([part.keys for part in parts]), cells, (here, there))


def _joined_cells(column: Sequence[Cells | None], sizes: Sequence[int]) -> Cells:
    masks = [np.zeros(size, bool) if one is None else one.mask for one, size in zip(column, sizes, strict=True)]
    there = [one for one in column if one is not None]
    return Cells(
        np.concatenate(masks),
        rules.joined([one.source for one in there]),
        rules.joined([one.target for one in there]),
    )


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


def _json(value: Any) -> bytes:
    """Return JSON in a copy of its own size: what orjson gives keeps the whole 4 KiB of its buffer."""
    return memoryview(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).tobytes()
