"""A table of any number of rows that is nowhere: keys are 0 to rows - 1, and every read and digest is computed on demand."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.fingerprints import CANARY, FINGERPRINT, Form
from airflow_delta_provider.adapters.side import Column, Order, RangeCost, Request, Side
from airflow_delta_provider.core.keys import decode_key
from airflow_delta_provider.core.types import LogicalType

INT = LogicalType("int", bits=64)


@dataclass
class Simulated:
    """A ``Side`` of ``rows`` rows ``id, v``; ``v`` is 0, and 1 in every ``step``-th row where ``step`` is set.

    Digests are honest to the two values: a bucket's sums say how many rows it has and how many of them hold 1. ``estimate``
    is what it says of its rows, and decides how many buckets a shard is cut into.
    """

    rows: int
    estimate: int
    step: int | None = None
    kind: str = "postgresql"
    where: str = "table simulated"
    primary_key: tuple[str, ...] = ("id",)
    columns: tuple[Column, ...] = (Column("id", INT, "bigint", False), Column("v", INT, "bigint", False))
    asked: list[str] = field(default_factory=list)

    def resolve(self, types: Mapping[str, LogicalType]) -> Side:
        return self

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        return Order.PROMISED

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        return RangeCost.INDEX

    def estimate_rows(self) -> int | None:
        return self.estimate

    def facts(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def close(self) -> None:
        return None

    def sample(self, key: tuple[str, ...], rows: int = 10_000) -> pa.Table:
        return pa.table({"id": np.arange(0, self.rows, max(1, self.rows // rows), dtype=np.int64)})

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        self.asked.append("read")
        least, beyond = self._bounds(request)
        for first, last in self._parts(request, least, beyond):
            for start in range(first, last, request.batch_rows):
                ids = np.arange(start, min(last, start + request.batch_rows), dtype=np.int64)
                columns = {"id": pa.array(ids), "v": pa.array(self._values(ids))}
                yield pa.RecordBatch.from_arrays([columns[name] for name in request.columns], list(request.columns))

    def _values(self, ids: Any) -> Any:
        hit = (
            np.zeros(len(ids), np.int64) if self.step is None else (ids % self.step == self.step // 2).astype(np.int64)
        )
        return hit

    def _bounds(self, request: Request) -> tuple[int, int]:
        def value(bound: bytes | None, otherwise: int) -> int:
            return otherwise if bound is None else int(decode_key(bound, [INT])[0])

        return max(0, value(request.lower, 0)), min(self.rows, value(request.upper, self.rows))

    def _parts(self, request: Request, least: int, beyond: int) -> list[tuple[int, int]]:
        buckets = request.buckets
        if buckets is None or buckets.chosen is None:
            return [(least, beyond)]
        edges = [buckets.base + buckets.width * number for number in buckets.chosen]
        return [(max(least, edge), min(beyond, edge + buckets.width)) for edge in edges]

    def fingerprints(self) -> bool:
        return True

    def writes(self, form: Form) -> bool:
        return form.form == "int"

    def unique_key(self) -> tuple[str, ...]:
        return self.primary_key

    def canary(self, function: str) -> tuple[int, int] | None:
        low, high = struct.unpack(">qq", hashlib.md5(CANARY.encode(), usedforsecurity=False).digest())
        return low, high

    def link(self, values: Sequence[Form], payload_bytes: int) -> tuple[float, float] | None:
        return None

    def exact(self, request: Request) -> bool:
        return True

    def key_span(self, request: Request) -> tuple[int, int] | None:
        least, beyond = self._bounds(request)
        return (least, beyond - 1) if least < beyond else None

    def fingerprint(self, request: Request, values: Sequence[Form], function: str) -> Iterator[pa.RecordBatch]:
        self.asked.append("fingerprint")
        least, beyond = self._bounds(request)
        buckets = request.buckets
        assert buckets is not None and buckets.width
        numbers = range((least - buckets.base) // buckets.width, (beyond - 1 - buckets.base) // buckets.width + 1)
        edges = [buckets.base + buckets.width * number for number in numbers]
        spans = [(max(least, edge), min(beyond, edge + buckets.width)) for edge in edges]
        counts = [last - first for first, last in spans]
        hits = [0 if self.step is None else self._hits(last) - self._hits(first) for first, last in spans]
        columns = [list(numbers), counts, counts, hits, counts]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, FINGERPRINT.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=FINGERPRINT)

    def _hits(self, beyond: int) -> int:
        """Return how many keys below a bound hold 1."""
        step = self.step or 1
        return max(0, (beyond - 1 - step // 2) // step + 1) if beyond > step // 2 else 0
