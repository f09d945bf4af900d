"""Arrays of scalars in the binary copy form to Arrow lists."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_delta_provider.adapters.pgcopy.cells import Cells, Ints, Mask, gather, validity
from airflow_delta_provider.adapters.pgcopy.form import Form, FormError
from airflow_delta_provider.adapters.pgcopy.values import FIXED
from airflow_delta_provider.adapters.pgcopy.variables import variable_array
from airflow_delta_provider.core.errors import ValueTypeError

_HEADER = np.dtype([("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">u4"), ("count", ">i4"), ("first", ">i4")])
HEADER_BYTES = 20
FEW_ROWS = 8
"""So few arrays are walked item by item in plain Python: arrays of very many items are rare, and each is alone."""


def array_array(cells: Cells, item: Form) -> pa.Array:
    """Return one list a row; its items follow the form's own carrier.

    Subscripts don't count: an array whose first item has another number than 1 is its items in order.

    Raises: ValueTypeError (DELTA_VALUE_TYPE) for an array of more than one dimension.
    """
    head = gather(cells.raw, cells.at, _HEADER)
    dimensions = head["dimensions"].astype(np.int64)
    dimensions[cells.size == 0] = 0
    if (dimensions > 1).any():
        raise ValueTypeError("An array of more than one dimension has no logical type; read the column as text.")
    count = np.where(dimensions == 1, head["count"], 0).astype(np.int64)
    bounds = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(count, out=bounds[1:])
    at, size = _items(cells, count, bounds, FIXED[item.name][0].itemsize if item.name in FIXED else None)
    valid: Mask | None = size >= 0
    if valid is not None and valid.all():
        valid = None
    values = _values(Cells(cells.raw, at, np.maximum(size, 0), valid), item)
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.Array.from_buffers(pa.list_(values.type), len(cells), [validity(cells.valid), offsets], children=[values])


def _values(cells: Cells, item: Form) -> pa.Array:
    if item.name not in FIXED:
        return variable_array(cells, item)
    kind, finish = FIXED[item.name]
    if (cells.size[cells.size > 0] != kind.itemsize).any():
        raise FormError(f"An item of {item.name} has another width than {kind.itemsize}.")
    return finish(np.ascontiguousarray(gather(cells.raw, cells.at, kind)), cells.valid)


def _items(cells: Cells, count: Ints, bounds: Ints, width: int | None) -> tuple[Ints, Ints]:
    """Return place and size of every item of every array; size -1 is NULL."""
    total = int(bounds[-1])
    body = cells.at + HEADER_BYTES
    stop = cells.at + cells.size
    if width is not None and (np.where(count > 0, stop - body, 0) == count * (4 + width)).all():
        step = np.arange(total, dtype=np.int64) - np.repeat(bounds[:-1], count)
        at = np.repeat(body, count) + step * (4 + width) + 4
        size = gather(cells.raw, at - 4, ">i4").astype(np.int64)
        if (size == width).all():
            return at, size
    at, size = np.zeros(total, np.int64), np.full(total, -1, np.int64)
    _walk(cells.raw, body.copy(), count, bounds, at, size)
    filled = np.flatnonzero(count)
    ends = at[bounds[1:][filled] - 1] + np.maximum(size[bounds[1:][filled] - 1], 0)
    if (ends != stop[filled]).any():
        raise FormError("An array does not end where its last item ends.")
    return at, size


def _walk(raw: npt.NDArray[np.uint8], place: Ints, count: Ints, bounds: Ints, at: Ints, size: Ints) -> None:
    """Move through the arrays together, item by item; the last few long ones one after another."""
    rows = np.flatnonzero(count)
    number = 0
    while len(rows) >= FEW_ROWS:
        here = place[rows]
        length = gather(raw, np.minimum(here, len(raw) - 4), ">i4").astype(np.int64)
        at[bounds[rows] + number], size[bounds[rows] + number] = here + 4, length
        place[rows] = here + 4 + np.maximum(length, 0)
        number += 1
        rows = rows[count[rows] > number]
    data = memoryview(raw.data)
    for row in rows.tolist():
        spot = int(place[row])
        for target in range(int(bounds[row]) + number, int(bounds[row + 1])):
            length = int.from_bytes(data[spot : spot + 4], "big", signed=True)
            at[target], size[target] = spot + 4, length
            spot += 4 + max(length, 0)
