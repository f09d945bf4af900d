"""Values of any length in the binary copy form to Arrow carriers: text, bytes, JSON, bit strings, numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.pgcopy.cells import Cells, gather, lifted, slices, variable
from airflow_delta_provider.adapters.pgcopy.form import Form, FormError
from airflow_delta_provider.adapters.pgcopy.numeric import numeric_array


def variable_array(cells: Cells, form: Form) -> pa.Array:
    """Return the values of a form that is neither of one width nor an array."""
    if form.name == "numeric":
        return numeric_array(cells, form.precision, form.scale)
    return VARIABLE[form.name](cells)


def _char(cells: Cells) -> pa.Array:
    return pc.ascii_rtrim(lifted(cells, pa.string()), characters=" ")


def _rawchar(cells: Cells) -> pa.Array:
    return pc.ascii_rtrim(lifted(cells, pa.string()), characters=" ").view(pa.binary())


def _jsonb(cells: Cells) -> pa.Array:
    """One byte of version, then text."""
    version = gather(cells.raw, cells.at, "u1")
    if (version[cells.size > 0] != 1).any():
        raise FormError("A jsonb value has another version than 1.")
    return lifted(cells, pa.string(), skip=1)


_BIT_TEXT = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) + np.uint8(ord("0"))


def _bit(cells: Cells) -> pa.Array:
    """Each value is a count of bits and the bits, padded to whole bytes; the text is one digit a bit."""
    count = gather(cells.raw, cells.at, ">i4").astype(np.int64)
    count[cells.size == 0] = 0
    stop = cells.at + cells.size
    packed = slices(cells.raw, np.minimum(cells.at + 4, stop), stop)
    _, bounds, data = packed.buffers()
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    start = np.frombuffer(bounds, np.int32)[: len(cells)].astype(np.int64) * 8
    digits = np.ascontiguousarray(_BIT_TEXT[octets]).reshape(-1)
    return variable(pa.string(), slices(digits, start, start + count), cells.valid)


VARIABLE: dict[str, Callable[[Cells], pa.Array]] = {
    "text": lambda cells: lifted(cells, pa.string()),
    "rawtext": lambda cells: lifted(cells, pa.binary()),
    "char": _char,
    "rawchar": _rawchar,
    "bytea": lambda cells: lifted(cells, pa.binary()),
    "jsonb": _jsonb,
    "bit": _bit,
}
"""Forms of any length. ``rawtext`` and ``rawchar`` are text of an unknown encoding, kept as bytes."""
