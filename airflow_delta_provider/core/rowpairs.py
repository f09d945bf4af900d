"""Which rows of two blocks pair up by key, and their values column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.arrays import bool_array
from airflow_delta_provider.core.keyset import Keys, flat_true

RUN_ROWS = 512
"""Average length from which on runs of paired rows are compared where they are, as cutting rows out costs more: measured
over a whole number and a text, where it takes 0.9 times as long; for texts alone that is so from 256 on.
"""


@dataclass(frozen=True, slots=True)
class RowPairs:
    """The pairs of two blocks, in key order. Shape: ``source`` and ``target`` are int64 numpy row numbers, one entry for
    each pair; ``kept`` has the masks (numpy) of the paired rows, None for a block of which every row is paired. ``runs``:
    first row here, first row there, and length of each run of pairs without a gap, or None where there are too many.
    """

    source: Any
    target: Any
    kept: tuple[Any, Any]
    runs: list[tuple[int, int, int]] | None

    def __len__(self) -> int:
        return len(self.source)

    def columns(self, source: pa.Array, target: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the values of the pairs of one column."""
        here, there = self.kept
        return (
            source if here is None else source.filter(bool_array(here)),
            target if there is None else target.filter(bool_array(there)),
        )

    def surely_equal(self, source: pa.Array, target: pa.Array) -> bool:
        """Tell whether the values of all pairs of one column are equal in every bit that Arrow compares."""
        if self.runs is None or source.type != target.type:
            return False
        return all(source.slice(here, size).equals(target.slice(there, size)) for here, there, size in self.runs)

    def unlike(self, source: pa.Array, target: pa.Array) -> Any:
        """Return the numbers of the pairs (int64 numpy) whose values in one column without NULLs are not equal."""
        if self.runs is None:
            return flat_true(pc.not_equal(*self.columns(source, target)))
        found, number = [np.zeros(0, np.int64)], 0
        for here, there, size in self.runs:
            mine, other = source.slice(here, size), target.slice(there, size)
            if not mine.equals(other):
                found.append(flat_true(pc.not_equal(mine, other)) + number)
            number += size
        return np.concatenate(found)


def every_row(count: int) -> RowPairs:
    """Return the pairs of two blocks whose keys are the same, row by row."""
    rows = np.arange(count, dtype=np.int64)
    return RowPairs(rows, rows, (None, None), [(0, 0, count)])


def paired_rows(source: Keys, target: Keys) -> RowPairs:
    """Match two blocks without repeats by key."""
    here, there = source.align(target)
    ours, theirs = np.flatnonzero(here), np.flatnonzero(there)
    gaps = np.flatnonzero((np.diff(ours) != 1) | (np.diff(theirs) != 1)) + 1
    runs = None
    if (len(gaps) + 1) * RUN_ROWS <= len(ours):
        starts = np.concatenate([np.zeros(1, np.int64), gaps])
        sizes = np.diff(np.append(starts, len(ours)))
        runs = list(zip(ours[starts].tolist(), theirs[starts].tolist(), sizes.tolist(), strict=True))
    kept = tuple(None if bool(mask.all()) else mask for mask in (here, there))
    return RowPairs(ours, theirs, (kept[0], kept[1]), runs)
