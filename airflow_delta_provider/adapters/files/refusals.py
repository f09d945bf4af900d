"""Values of one batch that a text file's reader refuses, kept beside the batch where the other rows are still wanted."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from airflow_delta_provider.core.errors import ValueTextError
from airflow_delta_provider.core.types import REFUSED_COLUMN


class Refusals:
    """The rows of one batch that hold a value which is none of its column's type.

    ``names``: the columns whose values may be refused row by row; a refusal in any other one ends the read.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self._rows: set[int] = set()

    def note(self, rows: Iterable[int]) -> None:
        """Take down rows that hold a refused value."""
        self._rows.update(rows)

    def batch(self, arrays: list[pa.Array], names: tuple[str, ...]) -> pa.RecordBatch:
        """Return the batch of these columns (at least one), with REFUSED_COLUMN where values may be refused."""
        if not self.names:
            return pa.RecordBatch.from_arrays(arrays, names=list(names))
        rows = len(arrays[0])
        codes = pa.nulls(rows, pa.string())
        if self._rows:
            from airflow_delta_provider.adapters.files.base import texts

            codes = texts([ValueTextError.code if row in self._rows else None for row in range(rows)])
        return pa.RecordBatch.from_arrays([*arrays, codes], names=[*names, REFUSED_COLUMN])
