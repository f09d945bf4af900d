"""The keys of one block of rows, ascending: as int64 where one integer-like column allows it, else as key bytes."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import keyvec
from airflow_delta_provider.core.types import LogicalType


class Keys:
    """Ascending keys (repeats possible) of one block.

    Shape: ``len`` rows. ``ints`` is int64 whose order equals key order, or None; key bytes are made only when asked for.
    """

    __slots__ = ("_data", "ints", "key_type")

    def __init__(self, ints: Any, key_type: LogicalType | None, data: Any = None) -> None:
        self.ints = ints
        self.key_type = key_type
        self._data: Any = data

    @property
    def data(self) -> pa.LargeBinaryArray:
        """The key bytes of all rows."""
        if self._data is None:
            self._data = self._encoded(self.ints)
        return self._data

    def __len__(self) -> int:
        return len(self.ints) if self.ints is not None else len(self._data)

    def __getitem__(self, row: int) -> bytes:
        if self._data is not None:
            return bytes(self._data[row].as_py())
        return bytes(self._encoded(self.ints[row : row + 1])[0].as_py())

    def _encoded(self, ints: Any) -> pa.LargeBinaryArray:
        if self.key_type is None:
            raise ValueError("keys as integers need their type")
        return keyvec.encode_int64(ints, self.key_type)

    def slice(self, start: int, stop: int) -> Keys:
        """Return the keys of rows [start, stop)."""
        ints = None if self.ints is None else self.ints[start:stop]
        data = None if self._data is None else self._data.slice(start, stop - start)
        return Keys(ints, self.key_type, data)

    def take(self, rows: Any) -> Keys:
        """Return the keys of these rows (an int64 numpy array)."""
        ints = None if self.ints is None else self.ints[rows]
        data = None if self._data is None else self._data.take(index_array(rows))
        return Keys(ints, self.key_type, data)

    def count_below(self, bound: bytes) -> int:
        """Return how many rows have keys below the bound."""
        if self.ints is not None and self._data is None and self.key_type is not None:
            least = _least_int(self.key_type, bound)
            return len(self) if least is None else int(np.searchsorted(self.ints, least))
        return bisect.bisect_left(_Bytes(self), bound)

    def count_upto(self, other: Keys, row: int) -> int:
        """Return how many rows have keys not above the other block's key at ``row``."""
        if self.ints is not None and other.ints is not None:
            return int(np.searchsorted(self.ints, other.ints[row], side="right"))
        return bisect.bisect_right(_Bytes(self), other[row])

    def last_above(self, other: Keys) -> bool:
        """Tell whether the last key here is above the other block's last key."""
        if self.ints is not None and other.ints is not None:
            return bool(self.ints[-1] > other.ints[-1])
        return self[len(self) - 1] > other[len(other) - 1]

    def steps(self) -> tuple[int | None, list[int]]:
        """Return the first row whose key is below the one before it (or None), and all rows that repeat the one before."""
        if len(self) < 2:
            return None, []
        if self.ints is not None:
            before, after = self.ints[:-1], self.ints[1:]
            if bool((before < after).all()):
                return None, []
            down, same = np.flatnonzero(before > after), np.flatnonzero(before == after)
        else:
            before, after = self._data.slice(0, len(self) - 1), self._data.slice(1)
            if pc.all(pc.less(before, after)).as_py():
                return None, []
            down, same = flat_true(pc.greater(before, after)), flat_true(pc.equal(before, after))
        return (int(down[0]) + 1 if len(down) else None), [int(row) + 1 for row in same]

    def equals(self, other: Keys) -> bool:
        """Tell whether both blocks hold the same keys, row by row."""
        if len(self) != len(other):
            return False
        if self.ints is not None and other.ints is not None:
            return bool(np.array_equal(self.ints, other.ints))
        return bool(self.data.equals(other.data))

    def align(self, other: Keys) -> tuple[Any, Any]:
        """Match two blocks without repeats.

        Returns boolean numpy masks (matched here, matched there); both ascend, so their rows pair up in order.
        """
        if self.ints is not None and other.ints is not None:
            place = np.searchsorted(other.ints, self.ints)
            inside = np.minimum(place, max(len(other.ints) - 1, 0))
            found = (other.ints[inside] == self.ints) if len(other.ints) else np.zeros(len(self.ints), bool)
            there = place[found]
        else:
            index = pc.index_in(self.data, value_set=other.data)
            found = bool_numpy(index.is_valid())
            there = np.frombuffer(index.fill_null(0).buffers()[1], np.int32, len(index), index.offset * 4)[found]
        met = np.zeros(len(other), bool)
        met[there] = True
        return found, met


def joined_keys(parts: Sequence[Keys]) -> Keys:
    """Return the keys of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if all(part.ints is not None for part in parts):
        return Keys(np.concatenate([part.ints for part in parts]), parts[0].key_type)
    return Keys(None, parts[0].key_type, pa.concat_arrays([part.data for part in parts]))


@lru_cache(maxsize=256)
def _least_int(key_type: LogicalType, bound: bytes) -> int | None:
    """Return the least int64 whose key bytes are not below a bound, or None where all are."""
    low, high = -(2**63), 2**63
    while low < high:
        middle = (low + high) // 2
        encoded = keyvec.encode_int64(np.array([middle], np.int64), key_type)[0].as_py()
        low, high = (middle + 1, high) if encoded < bound else (low, middle)
    return low if low < 2**63 else None


class _Bytes(Sequence[bytes]):
    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: Any) -> Any:
        return self.keys[row]


def bool_numpy(array: pa.BooleanArray) -> Any:
    """Return an Arrow boolean array without nulls as numpy bools."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    return np.unpackbits(bits, bitorder="little")[array.offset : array.offset + len(array)].astype(bool)


def flat_true(array: pa.BooleanArray) -> Any:
    """Return the rows (int64) at which an Arrow boolean array without nulls is true."""
    return np.flatnonzero(bool_numpy(array))


def index_array(rows: Any) -> pa.Int64Array:
    """Return numpy row numbers as an Arrow array, without a copy."""
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
