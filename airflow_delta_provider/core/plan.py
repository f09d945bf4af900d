"""Cut the key space into shards: half-open ranges that tile it, at keys taken from samples of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_delta_provider.core.errors import KeyEncodingError, RangeError, shown
from airflow_delta_provider.core.keys import decode_key
from airflow_delta_provider.core.types import LogicalType

BOUND_BYTES_MAX = 200
"""Longest range bound, in key bytes (docs/format.md, S9); a longer one is cut, which still is a bound."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """One slice of the key space: the unit of work, of retry and of proof.

    Shape: ``lower <= key < upper`` in unsigned byte order of key bytes; None is open.
    Raises: RangeError (DELTA_RANGE) unless lower is below upper.
    """

    lower: bytes | None = None
    upper: bytes | None = None

    def __post_init__(self) -> None:
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise RangeError(f"[{self.lower.hex()}, {self.upper.hex()}) holds no key.")

    def __contains__(self, key: bytes) -> bool:
        return (self.lower is None or self.lower <= key) and (self.upper is None or key < self.upper)

    def document(self) -> dict[str, str | None]:
        """Return the range as documents write it: hex or null."""
        return {
            "lower": None if self.lower is None else self.lower.hex(),
            "upper": None if self.upper is None else self.upper.hex(),
        }

    def label(self, types: Sequence[LogicalType]) -> str:
        """Return the range for people: ``[(1, DE) .. (9, IT))``, an open end as ``..``."""
        return f"[{_bound_text(self.lower, types)} .. {_bound_text(self.upper, types)})"


def tile(whole: KeyRange, bounds: Sequence[bytes]) -> list[KeyRange]:
    """Cut a range at bounds: ascending, distinct, strictly inside; others are left out. The result tiles the range."""
    inside = sorted({bound[:BOUND_BYTES_MAX] for bound in bounds})
    inside = [bound for bound in inside if bound and bound in whole and bound != whole.lower]
    edges = [whole.lower, *inside, whole.upper]
    return [KeyRange(lower, upper) for lower, upper in pairwise(edges)]


def choose_bounds(samples: Sequence[tuple[Sequence[bytes], int]], count: int) -> list[bytes]:
    """Choose up to ``count - 1`` bounds that cut the rows of all sides into about equal parts.

    ``samples``: for each side its sampled key bytes, in any order, and how many rows they stand for. Bounds come from
    keys that exist, never from a minimum and a maximum, so a skewed key space is cut where its rows are.
    """
    weighted = sorted((key, rows / len(keys)) for keys, rows in samples for key in keys)
    count = min(count, len(weighted) + 1)
    step = sum(weight for _, weight in weighted) / count
    bounds: list[bytes] = []
    passed, due = 0.0, step
    for key, weight in weighted:
        if len(bounds) == count - 1:
            break
        if passed >= due * (1 - 1e-9) and (not bounds or key > bounds[-1]):
            bounds.append(key)
            while due <= passed * (1 + 1e-9):
                due += step
        passed += weight
    return bounds


def shard_count(rows: int, *, asked: int | None, shard_rows: int) -> int:
    """Return how many shards to aim for: as asked, else one for each ``shard_rows`` rows."""
    return asked if asked is not None else max(1, -(-rows // shard_rows))


def _bound_text(bound: bytes | None, types: Sequence[LogicalType]) -> str:
    if bound is None:
        return ""
    try:
        parts = ["NULL" if part is None else shown(part) for part in decode_key(bound, list(types))]
    except KeyEncodingError:
        return f"0x{bound.hex()[:32]}"
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
