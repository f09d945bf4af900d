"""From a side's raw batches to guarded blocks: exact range, filter, NULL and repeated keys, strict ascent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import keyvec, rules
from airflow_delta_provider.core.carriers import unified
from airflow_delta_provider.core.errors import DeltaError, UnsortedStreamError, shown
from airflow_delta_provider.core.keys import decode_key
from airflow_delta_provider.core.keyset import Keys, flat_true, index_array, joined_keys
from airflow_delta_provider.core.spill import sort_batches
from airflow_delta_provider.core.types import KEEP_COLUMN, KEY_BYTES, PACKED_COLUMN, LogicalType

Unpack = Callable[[pa.Array], list[pa.Array]]
"""Makes the value columns, in schema order, of packed rows. Raises: UnpackError."""


class UnpackError(Exception):
    """Packed rows whose values no single carrier holds: the caller reads them again, not packed."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One key column on one side: its name there, the type it is carried as, the key's canonical type, its rules."""

    name: str
    carrier: LogicalType
    key_type: LogicalType
    rules: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """What the batches of one side hold, and how its keys are guarded.

    ``side``: ``source`` or ``target``. ``values``: names of the compared columns, in schema order.
    ``lower``, ``upper``: key bytes, half-open, None is open. ``raw_keys``: keep each side's key before any rule.
    ``unpack``: what makes the compared columns of PACKED_COLUMN, where batches have that in place of them.
    """

    side: str
    key: tuple[KeyColumn, ...]
    values: tuple[str, ...]
    lower: bytes | None = None
    upper: bytes | None = None
    nulls: str = "refuse"
    duplicates: str = "refuse"
    raw_keys: bool = False
    unpack: Unpack | None = None

    @property
    def ruled(self) -> bool:
        """True where some key column has a rule, so that the side's own order says nothing."""
        return any(column.rules for column in self.key)


@dataclass(slots=True)
class SideCounts:
    """Rows of one side inside the key range, by what became of them (docs/format.md, S7, population)."""

    rows: int = 0
    skipped: int = 0
    null_key: int = 0
    duplicate_key: int = 0

    def document(self) -> dict[str, int]:
        """Return the side's part of the population."""
        return {name: getattr(self, name) for name in ("duplicate_key", "null_key", "rows", "skipped")}


class RefusedKeyError(Exception):
    """A key that the policy refuses was met; the caller counts over both whole sides and raises the public error."""

    def __init__(self, reason: str, side: str, key: bytes) -> None:
        super().__init__(f"{side}: {reason} key {key.hex()}")
        self.reason = reason
        self.side = side
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return RefusedKeyError, (self.reason, self.side, self.key)


@dataclass(slots=True)
class Block:
    """Consecutive rows of one side: ascending keys, value columns in schema order, raw key columns if asked for.

    ``repeats``: key bytes that occur more than once; a repeated key never straddles two blocks.
    ``packed``: in place of ``values``, all of them as bytes, and what makes them of it.
    """

    keys: Keys
    values: list[pa.Array]
    raw_key: list[pa.Array] = field(default_factory=list)
    repeats: frozenset[bytes] = frozenset()
    packed: tuple[pa.Array, Unpack] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> Block:
        """Return rows [start, stop)."""
        return self._each(self.keys.slice(start, stop), lambda column: column.slice(start, stop - start))

    def take(self, rows: Any) -> Block:
        """Return these rows (int64 numpy array)."""
        index = index_array(rows)
        return self._each(self.keys.take(rows), lambda column: column.take(index))

    def unpacked(self) -> Block:
        """Return the rows with their values as columns. Raises: UnpackError."""
        if self.packed is None:
            return self
        rows, unpack = self.packed
        return Block(self.keys, unpack(rows), self.raw_key, self.repeats)

    def _each(self, keys: Keys, chosen: Callable[[pa.Array], pa.Array]) -> Block:
        return Block(
            keys,
            [chosen(column) for column in self.values],
            [chosen(column) for column in self.raw_key],
            self.repeats,
            None if self.packed is None else (chosen(self.packed[0]), self.packed[1]),
        )


def joined_blocks(parts: Sequence[Block]) -> Block:
    """Return the rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Block(
        joined_keys([part.keys for part in parts]),
        [pa.concat_arrays(unified(column)) for column in zip(*(part.values for part in parts), strict=True)],
        [pa.concat_arrays(unified(column)) for column in zip(*(part.raw_key for part in parts), strict=True)],
        frozenset().union(*(part.repeats for part in parts)),
        _joined_packed([part.packed for part in parts if part.packed is not None]),
    )


def _joined_packed(parts: Sequence[tuple[pa.Array, Unpack]]) -> tuple[pa.Array, Unpack] | None:
    return (pa.concat_arrays([rows for rows, _ in parts]), parts[0][1]) if parts else None


def guarded_blocks(
    batches: Iterable[pa.RecordBatch], layout: Layout, counts: SideCounts, *, ordered: bool, folder: str | None = None
) -> Iterator[Block]:
    """Yield the rows of a side that take part in the comparison, ascending; fill ``counts`` on the way.

    ``ordered``: the batches come in key order already; else they are sorted here, on disk when large.
    Raises: UnsortedStreamError (an ordered stream went down), RefusedKeyError, ValueTextError (a key does not parse).
    """
    if not ordered:
        batches = sort_batches(keyed_batches(batches, layout), folder=folder)
    return _refuse_repeats(_ascending(_blocks(batches, layout, counts, ordered), layout, counts), layout)


def keyed_batches(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Yield the rows inside the key range with their key bytes as one more column, KEY_BYTES."""
    for batch in batches:
        if batch.num_rows:
            batch = _cut_unordered(_with_key_bytes(batch, layout), layout)
        if batch.num_rows:
            yield batch


def ascending_batches(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Pass on batches that have KEY_BYTES. Raises: UnsortedStreamError where a key is below the one before it."""
    last: Keys | None = None
    for batch in batches:
        keys = _keys(batch, layout)
        _demand_order(keys, layout)
        if last is not None and last.last_above(keys.slice(0, 1)):
            _refuse_descent(last[0], keys[0], layout)
        last = keys.slice(len(keys) - 1, len(keys))
        yield batch


def _blocks(batches: Iterable[pa.RecordBatch], layout: Layout, counts: SideCounts, ordered: bool) -> Iterator[Block]:
    for batch in batches:
        if batch.num_rows == 0:
            continue
        keys = _keys(batch, layout)
        if ordered:
            _demand_order(keys, layout)
            start = keys.count_below(layout.lower) if layout.lower is not None else 0
            stop = keys.count_below(layout.upper) if layout.upper is not None else len(keys)
            batch, keys = batch.slice(start, stop - start), keys.slice(start, stop)
            if start >= stop:
                continue
        counts.rows += len(keys)
        batch, keys = _drop_filtered(batch, keys, counts)
        batch, keys = _drop_nulls(batch, keys, layout, counts)
        if len(keys):
            raw_key = [batch.column(column.name) for column in layout.key] if layout.raw_keys else []
            if layout.unpack is None:
                yield Block(keys, [batch.column(name) for name in layout.values], raw_key)
            else:
                yield Block(keys, [], raw_key, packed=(batch.column(PACKED_COLUMN), layout.unpack))


def _keys(batch: pa.RecordBatch, layout: Layout) -> Keys:
    if KEY_BYTES in batch.schema.names:
        return Keys(None, None, batch.column(KEY_BYTES))
    arrays = [batch.column(column.name) for column in layout.key]
    carriers = [column.carrier for column in layout.key]
    types = [column.key_type for column in layout.key]
    try:
        ints = keyvec.order_int64(arrays, carriers, types)
    except DeltaError:
        ints = None
    if ints is not None:
        return Keys(ints, types[0])
    return Keys(None, None, key_bytes(arrays, carriers, layout))


def key_bytes(arrays: list[Any], carriers: list[LogicalType], layout: Layout) -> pa.LargeBinaryArray:
    """Return the key bytes of each row.

    Raises: KeyTextError, KeyRangeError and ValueTypeError, naming side and column.
    """
    types = [column.key_type for column in layout.key]
    try:
        return keyvec.encode_keys(arrays, carriers, types)
    except DeltaError as error:
        for column, array, carrier in zip(layout.key, arrays, carriers, strict=True):
            _encode_alone(column, array, carrier, layout.side)
        raise error


def _encode_alone(column: KeyColumn, array: Any, carrier: LogicalType, side: str) -> None:
    try:
        keyvec.encode_column(array, carrier, column.key_type)
    except DeltaError as error:
        raise type(error)(f"{side}: key column {shown(column.name)!r}: {error.message}", where=side) from error


def _with_key_bytes(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    arrays, carriers = [], []
    for column in layout.key:
        typed = rules.Typed(column.carrier, batch.column(column.name), None)
        try:
            typed = rules.apply_key_rules(list(column.rules), typed, layout.side)
        except rules.UnparsedValue as error:
            raise error.error(
                f"{layout.side}: key column {shown(column.name)!r} holds {shown(error.text)!r}, which {error.reason}.",
                where=layout.side,
            ) from error
        arrays.append(typed.array)
        carriers.append(typed.type)
    keys = key_bytes(arrays, carriers, layout)
    return batch.append_column(pa.field(KEY_BYTES, pa.large_binary()), keys)


def _cut_unordered(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    keys = batch.column(KEY_BYTES)
    if layout.lower is not None:
        batch = batch.filter(pc.greater_equal(keys, pa.scalar(layout.lower, pa.large_binary())))
        keys = batch.column(KEY_BYTES)
    if layout.upper is not None:
        batch = batch.filter(pc.less(keys, pa.scalar(layout.upper, pa.large_binary())))
    return batch


def _drop_filtered(batch: pa.RecordBatch, keys: Keys, counts: SideCounts) -> tuple[pa.RecordBatch, Keys]:
    if KEEP_COLUMN not in batch.schema.names:
        return batch, keys
    keep = batch.column(KEEP_COLUMN).fill_null(False)
    return _keep(batch, keys, keep, counts, "skipped")


def _drop_nulls(batch: pa.RecordBatch, keys: Keys, layout: Layout, counts: SideCounts) -> tuple[pa.RecordBatch, Keys]:
    if layout.nulls == "match":
        return batch, keys
    nulls = [batch.column(column.name) for column in layout.key if batch.column(column.name).null_count]
    if not nulls:
        return batch, keys
    whole = nulls[0].is_valid()
    for column in nulls[1:]:
        whole = pc.and_(whole, column.is_valid())
    if layout.nulls == "refuse":
        raise RefusedKeyError("null", layout.side, keys[int(flat_true(pc.invert(whole))[0])])
    return _keep(batch, keys, whole, counts, "null_key")


def _keep(
    batch: pa.RecordBatch, keys: Keys, keep: pa.BooleanArray, counts: SideCounts, name: str
) -> tuple[pa.RecordBatch, Keys]:
    rows = flat_true(keep)
    if len(rows) == len(keys):
        return batch, keys
    setattr(counts, name, getattr(counts, name) + len(keys) - len(rows))
    return batch.take(index_array(rows)), keys.take(rows)


def _demand_order(keys: Keys, layout: Layout) -> None:
    descent, _ = keys.steps()
    if descent is not None:
        _refuse_descent(keys[descent - 1], keys[descent], layout)


def _refuse_descent(before: bytes, after: bytes, layout: Layout) -> None:
    types = [column.key_type for column in layout.key]
    raise UnsortedStreamError(
        f"{layout.side}: key {key_text(after, types)} after {key_text(before, types)}.", where=layout.side
    )


def key_text(key: bytes, types: list[LogicalType]) -> str:
    """Return a key as errors and labels show it: ``42`` or ``(2, NULL)``."""
    parts = ["NULL" if part is None else shown(part) for part in decode_key(key, types)]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _ascending(blocks: Iterator[Block], layout: Layout, counts: SideCounts) -> Iterator[Block]:
    """Yield blocks such that no key straddles two. Of a key's rows in further blocks one is kept and the rest counted."""
    held: Block | None = None
    for block in blocks:
        if held is None:
            held = block
            continue
        if held.keys.last_above(block.keys.slice(0, 1)):
            _refuse_descent(held.keys[len(held) - 1], block.keys[0], layout)
        same = block.keys.count_upto(held.keys, len(held) - 1)
        if same and layout.duplicates == "refuse":
            raise RefusedKeyError("repeated", layout.side, block.keys[0])
        if same:
            known = len(held) > 1 and held.keys[len(held) - 2] == held.keys[len(held) - 1]
            held = held if known else joined_blocks([held, block.slice(0, 1)])
            counts.duplicate_key += same - (not known)
            block = block.slice(same, len(block))
        if len(block):
            yield held
            held = block
    if held is not None:
        yield held


def _refuse_repeats(blocks: Iterator[Block], layout: Layout) -> Iterator[Block]:
    for block in blocks:
        _, same = block.keys.steps()
        if same:
            if layout.duplicates == "refuse":
                raise RefusedKeyError("repeated", layout.side, block.keys[same[0]])
            block.repeats = frozenset(block.keys[row] for row in same)
        yield block


def count_null_keys(batches: Iterable[pa.RecordBatch], layout: Layout) -> int:
    """Return how many rows of the range, after the filter, have a NULL in the key. Batches may come in any order."""
    found = 0
    for batch in _selected(batches, layout):
        whole = batch.column(layout.key[0].name).is_valid()
        for column in layout.key[1:]:
            whole = pc.and_(whole, batch.column(column.name).is_valid())
        found += len(whole) - whole.true_count
    return found


def rows_of_key(
    batches: Iterable[pa.RecordBatch], layout: Layout, key: bytes, shown_rows: int = 5
) -> tuple[int, pa.Table | None]:
    """Return how many rows after the filter have this key, and the key columns of the first few, before any rule."""
    rows, first = 0, None
    for batch in _selected(batches, layout):
        same = batch.filter(pc.equal(batch.column(KEY_BYTES), pa.scalar(key, pa.large_binary())))
        if same.num_rows and first is None:
            first = pa.Table.from_batches([same]).select([column.name for column in layout.key]).slice(0, shown_rows)
        rows += same.num_rows
    return rows, first


def _selected(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    for batch in keyed_batches(batches, layout):
        if KEEP_COLUMN in batch.schema.names:
            batch = batch.filter(batch.column(KEEP_COLUMN).fill_null(False))
        if batch.num_rows:
            yield batch
