"""A ceiling on the rows of a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

import pyarrow as pa

PACES_PER_S = 2
"""Into how many batches the rows of one second are cut, so that a paced read can be ended soon."""


def paced(
    batches: Iterable[pa.RecordBatch],
    rows_per_second: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[Any, None, None]:
    """Pass on batches no faster than so many rows a second, counted from the first one on."""
    started, rows = clock(), 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        early_s = rows / rows_per_second - (clock() - started)
        if early_s > 0:
            sleep(early_s)


def paced_rows(rows_per_second: int, most: int) -> int:
    """Return how many rows a batch of a paced read has."""
    return max(1, min(most, rows_per_second // PACES_PER_S))
