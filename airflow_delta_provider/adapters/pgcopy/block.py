"""A block of rows in binary copy form, and its decoding: all rows move through a row's columns together, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.pgcopy.arrays import array_array
from airflow_delta_provider.adapters.pgcopy.cells import PAD, Cells, Ints, Mask, gather, slices
from airflow_delta_provider.adapters.pgcopy.form import Form, FormError
from airflow_delta_provider.adapters.pgcopy.values import FIXED, CarrierClashError
from airflow_delta_provider.adapters.pgcopy.variables import variable_array


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one copy stream.

    Shape: each row is a 16-bit column count and its fields, from ``starts`` to ``ends`` in ``data``; rows ascend, and
    bytes between them don't count. At least ``PAD`` bytes that may be read follow the last row.
    """

    data: Any
    starts: Ints
    ends: Ints

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.starts)

    @classmethod
    def of(cls, rows: Sequence[Any]) -> Block:
        """Join single rows, each one message of the stream."""
        ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
        starts = np.zeros(len(rows), np.int64)
        starts[1:] = ends[:-1]
        return cls(b"".join((*rows, bytes(PAD))), starts, ends)

    def cut(self, start: int, stop: int) -> Block:
        """Return some of the rows, without a copy."""
        return Block(self.data, self.starts[start:stop], self.ends[start:stop])


def decode(block: Block, forms: Sequence[Form]) -> list[list[pa.Array]]:
    """Return the columns of the rows as carriers.

    As a rule that is one list of arrays; where no carrier holds all values of a column (infinite time stamps beside ones
    beyond the year 294,246), the rows come in several lists, in order. The carrier of a column may differ from call to
    call: ``decimal`` is text where a NaN occurs, time stamps are ``decimal128`` where 64 bits are too few.

    Raises: FormError where the bytes are not rows of these forms.
    """
    try:
        return [_columns(block, forms)]
    except CarrierClashError:
        half = block.rows // 2
        return decode(block.cut(0, half), forms) + decode(block.cut(half, block.rows), forms)


def decode_heads(block: Block, forms: Sequence[Form], heads: int) -> list[list[pa.Array]]:
    """Return the first columns of the rows as carriers, and what follows them in each row as its bytes, as `decode` does."""
    try:
        raw, at = _begun(block, len(forms))
        columns = [_column(raw, at, block.ends, number, form) for number, form in enumerate(forms[:heads])]
    except CarrierClashError:
        half = block.rows // 2
        parts = (block.cut(0, half), block.cut(half, block.rows))
        return [found for part in parts for found in decode_heads(part, forms, heads)]
    if (at > block.ends).any():
        raise FormError("A row ends before its key does.")
    return [[*columns, slices(raw, at, block.ends)]]


def decode_tails(tails: pa.BinaryArray, forms: Sequence[Form]) -> list[pa.Array]:
    """Return the columns of bytes that ``decode_heads`` gave. Raises: FormError, CarrierClashError."""
    bounds = np.frombuffer(tails.buffers()[1], np.int32)[tails.offset : tails.offset + len(tails) + 1].astype(np.int64)
    data = tails.buffers()[2]
    part = (
        b"" if data is None or not len(tails) else data.slice(int(bounds[0]), int(bounds[-1] - bounds[0])).to_pybytes()
    )
    raw, bounds = np.frombuffer(part + bytes(PAD), np.uint8), bounds - bounds[0]
    at = bounds[:-1].copy()
    columns = [_column(raw, at, bounds[1:], number, form) for number, form in enumerate(forms)]
    _demand_ends(at, bounds[1:])
    return columns


def _columns(block: Block, forms: Sequence[Form]) -> list[pa.Array]:
    raw, at = _begun(block, len(forms))
    columns = [_column(raw, at, block.ends, number, form) for number, form in enumerate(forms)]
    _demand_ends(at, block.ends)
    return columns


def _begun(block: Block, count: int) -> tuple[Any, Ints]:
    """Return the bytes of a block, and where the first column of each row begins."""
    raw, at = np.frombuffer(block.data, np.uint8), block.starts.copy()
    if block.rows and (gather(raw, at, ">i2") != count).any():
        raise FormError("A row has another number of columns than was asked for.")
    at += 2
    return raw, at


def _column(raw: Any, at: Ints, ends: Ints, number: int, form: Form) -> pa.Array:
    if len(at) and (at > ends).any():
        raise FormError(f"Column {number + 1} begins behind the end of its row.")
    return _fixed(raw, at, form) if form.name in FIXED else _variable(raw, at, form)


def _demand_ends(at: Ints, ends: Ints) -> None:
    if (at != ends).any():
        raise FormError("A row does not end where its last column ends.")


def _fixed(raw: Any, at: Ints, form: Form) -> pa.Array:
    """Lift length and value together, and move ``at`` behind the field."""
    item, finish = FIXED[form.name]
    width = item.itemsize
    found = gather(raw, at, np.dtype([("size", ">i4"), ("value", item)]))
    size = found["size"]
    whole = size == width
    at += 4
    if whole.all():
        at += width
        return finish(found["value"], None)
    if (whole != (size != -1)).any():
        raise FormError(f"A field of {form.name} has another width than {width}.")
    at += whole * np.int64(width)
    return finish(found["value"], whole)


def _variable(raw: Any, at: Ints, form: Form) -> pa.Array:
    size = gather(raw, at, ">i4").astype(np.int64)
    at += 4
    valid: Mask | None = None
    if len(size) and int(size.min()) < 0:
        valid = size >= 0
        size = np.where(valid, size, 0)
    cells = Cells(raw, at.copy(), size, valid)
    at += size
    if len(at) and int(at[-1]) > len(raw):
        raise FormError(f"A field of {form.name} reaches beyond its row.")
    if form.item is not None:
        return array_array(cells, form.item)
    return variable_array(cells, form)
