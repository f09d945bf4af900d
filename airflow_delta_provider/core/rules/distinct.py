"""Apply a Python function once for each distinct value of an array: the fall-back where no kernel is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa


def per_distinct(array: pa.Array, function: Callable[[Any], Any]) -> tuple[list[Any], pa.Array]:
    """Return the results for the distinct non-null values, and the index of each row's result (NULL for NULL)."""
    encoded = array.dictionary_encode()
    return [function(value) for value in encoded.dictionary.to_pylist()], encoded.indices


def mapped(array: pa.Array, function: Callable[[Any], Any], arrow: pa.DataType) -> pa.Array:
    """Return ``function`` of each value as an array of type ``arrow``; NULL for NULL and where the function gives None."""
    results, indices = per_distinct(array, function)
    return pa.array(results, arrow).take(indices)
