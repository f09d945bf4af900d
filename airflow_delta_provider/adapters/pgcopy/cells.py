"""Where the values of one column lie in a block of bytes, and the two ways to lift them out without a loop over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

PAD = 64
"""Zero bytes behind the last row of a block, so that a gather of a few bytes never leaves it."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of one column.

    Shape: ``raw`` holds the bytes and ``PAD`` zero bytes; ``at`` and ``size`` give each value's place in ascending order;
    NULL has size 0 and a place that may be read. ``valid`` is None where no value is NULL.
    """

    raw: Octets
    at: Ints
    size: Ints
    valid: Mask | None

    def __len__(self) -> int:
        return len(self.at)


def gather(raw: Octets, at: Ints, dtype: Any) -> Any:
    """Return one item of ``dtype`` from each place, wherever it is aligned.

    Whole items move as opaque bytes: numpy would copy records field by field, four times slower.
    """
    item = np.dtype(dtype)
    opaque = np.dtype(f"V{item.itemsize}") if item.names else item
    window: Any = np.ndarray((max(len(raw) - item.itemsize + 1, 0),), opaque, raw, strides=(1,))
    return window[at].view(item)


def validity(valid: Mask | None) -> pa.Buffer | None:
    """Return Arrow's validity bitmap, or None where nothing is NULL."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed(kind: pa.DataType, values: Any, valid: Mask | None) -> pa.Array:
    """Wrap a little-endian numpy array as an Arrow array of ``kind``, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [validity(valid), pa.py_buffer(np.ascontiguousarray(values))])


def slices(raw: Any, start: Ints, stop: Ints) -> pa.Array:
    """Copy the bytes between each start and stop, which ascend and don't overlap, into one binary array.

    Arrow does the copying: values and the gaps between them are the items of one array over the whole block, and
    every second item is taken. Blocks stay below 2 GiB.
    """
    count = len(start)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = start
    bounds[1::2] = stop
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(raw)])
    even = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pc.take(pieces, fixed(pa.int32(), even, None))


def variable(kind: pa.DataType, pieces: pa.Array, valid: Mask | None) -> pa.Array:
    """Give the pieces another 32-bit type and NULLs."""
    return pa.Array.from_buffers(kind, len(pieces), [validity(valid), *pieces.buffers()[1:]])


def lifted(cells: Cells, kind: pa.DataType, skip: int = 0) -> pa.Array:
    """Return the bytes of each cell behind the first ``skip`` as an array of a 32-bit binary or string type."""
    stop = cells.at + cells.size
    start = cells.at if not skip else np.minimum(cells.at + skip, stop)
    return variable(kind, slices(cells.raw, start, stop), cells.valid)
