"""Tables to compare: ten columns or two hundred, keys of several kinds, a known share of rows that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHUNK_ROWS = 250_000
NULL_SHARE = 0.03
KEYS = {
    "dense": ("id",),
    "skewed": ("id",),
    "uuid": ("uid",),
    "text": ("code",),
    "composite": ("tenant", "item"),
}
"""Names of the key columns for each kind of key."""
SPREAD_US = 2**50
DAYS = 20_000


@dataclass(frozen=True)
class Shape:
    """What a pair of tables looks like.

    ``rate``: share of rows whose values differ; half as many again are added, and half as many dropped.
    ``columns``: columns beside the key, at least 9; those beyond are whole numbers.
    """

    rows: int
    key: str = "dense"
    rate: float = 0.001
    columns: int = 9

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return KEYS[self.key]


@dataclass
class Counts:
    """What a right answer says."""

    added: int = 0
    dropped: int = 0
    value_diverged: int = 0

    def add(self, other: Counts) -> None:
        """Count the rows of one more chunk."""
        self.added += other.added
        self.dropped += other.dropped
        self.value_diverged += other.value_diverged


def chunks(shape: Shape) -> Iterator[tuple[pa.Table, pa.Table, Counts]]:
    """Yield (source, target, counts) in key order; the same shape gives the same rows each time."""
    for start in range(0, shape.rows, CHUNK_ROWS):
        rows = min(CHUNK_ROWS, shape.rows - start)
        draw = np.random.default_rng([shape.rows, start])
        columns = {**_key(shape, start, rows, draw), **_values(shape, rows, draw)}
        yield _damaged(pa.table(columns), shape.rate, draw)


def _key(shape: Shape, start: int, rows: int, draw: np.random.Generator) -> dict[str, pa.Array]:
    number = np.arange(start, start + rows, dtype=np.int64)
    if shape.key == "dense":
        return {"id": pa.array(number)}
    if shape.key == "skewed":  # long runs of neighbours, and gaps of any size between them
        steps = np.where(draw.random(rows) < 0.001, draw.integers(1, 2**36, rows), 1)
        steps[0] = 1
        return {"id": pa.array(np.cumsum(steps) + start * 2**27)}
    if shape.key == "composite":
        items = pa.array(np.char.mod("item-%05d", number % 1000 * 7))
        return {"tenant": pa.array((number // 1000).astype(np.int32)), "item": items}
    stride = 2**63 // max(shape.rows, 1)
    spread = number.astype(np.uint64) * np.uint64(stride) + draw.integers(0, stride, rows).astype(np.uint64)
    if shape.key == "text":
        return {"code": pa.array(np.char.mod("customer/%016x/eu", spread))}
    low = draw.integers(0, 2**63, rows).astype(np.uint64)
    raw = np.hstack([half.astype(">u8").view(np.uint8).reshape(-1, 8) for half in (spread, low)]).tobytes()
    storage = pa.Array.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(raw)])
    return {"uid": pa.ExtensionArray.from_storage(pa.uuid(), storage)}


def _values(shape: Shape, rows: int, draw: np.random.Generator) -> dict[str, pa.Array]:
    def some(values: pa.Array) -> pa.Array:
        return pc.if_else(pa.array(draw.random(rows) < NULL_SHARE), pa.scalar(None, values.type), values)

    money = pa.array(draw.integers(0, 10**9, rows)).cast(pa.decimal128(19, 0))
    buffers = [None, money.buffers()[1]]
    columns = {
        "a": some(pa.array(draw.integers(0, 1000, rows).astype(np.int32))),
        "b": some(pa.array(draw.integers(0, 10**9, rows).astype(np.int32))),
        "c": some(pa.Array.from_buffers(pa.decimal128(18, 4), rows, buffers)),
        "d": some(pa.array(draw.random(rows))),
        "e": some(pa.array(np.char.mod("name-%06d-abcdefgh", draw.integers(0, 10**6, rows)))),
        "f": some(pa.array(np.char.mod("code%04d", draw.integers(0, 50, rows)))),
        "g": some(pa.array(draw.integers(0, SPREAD_US, rows), pa.timestamp("us", "UTC"))),
        "h": some(pa.array(draw.integers(0, DAYS, rows).astype(np.int32), pa.date32())),
        "i": some(pa.array(draw.integers(0, 2, rows).astype(bool))),
    }
    for number in range(len(columns), shape.columns):
        columns[f"x{number:03d}"] = pa.array(draw.integers(0, 10**6, rows))
    return columns


def _damaged(base: pa.Table, rate: float, draw: np.random.Generator) -> tuple[pa.Table, pa.Table, Counts]:
    """Cut rows out of either copy of a table and change ``b`` in some of those that are left in both."""
    place = draw.random(base.num_rows)
    added, dropped = place < rate / 2, (place >= rate / 2) & (place < rate)
    diverged = (place >= rate) & (place < 2 * rate)
    b = pc.if_else(pa.array(diverged), pc.add(base["b"].fill_null(6), 1), base["b"])
    target = base.set_column(base.schema.get_field_index("b"), "b", b.cast(pa.int32()))
    counts = Counts(int(added.sum()), int(dropped.sum()), int(diverged.sum()))
    return base.filter(pa.array(~added)), target.filter(pa.array(~dropped)), counts
