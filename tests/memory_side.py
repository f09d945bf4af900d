"""A table in memory as a side: the twin that holds the seam of sides to its promises, and counts what is asked of it.

Rows are canonical values (docs/format.md, S2). Carriers are chosen batch by batch, so one column may arrive as int64 in
one batch and as decimal128 in the next, as the seam allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.side import KEEP_COLUMN, Column, Order, RangeCost, Request, Side
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.rules import parse_text
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import LogicalType

Row = tuple[Any, ...]


def widened(value: Any, kind: str, wanted: str) -> Any:
    """Return the canonical value of a number of one kind in a wider kind; floats by their exact binary value."""
    if value is None or kind == wanted or kind == "int":
        return value
    if isinstance(value, str) and kind in ("float32", "float64") and wanted == "decimal":
        if value in ("NaN", "Infinity", "-Infinity"):
            return value
        number = pa.scalar(float(value), pa.float32()).as_py() if kind == "float32" else float(value)
        return plain(Decimal(number))
    if kind == "float32" and wanted == "float64":
        from airflow_delta_provider.core.decimals import float64_text

        return float64_text(pa.scalar(float(value), pa.float32()).as_py())
    return value


def plain(number: Decimal) -> str:
    """Return the canonical text of a finite decimal."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def carrier(values: Sequence[Any], kind: LogicalType, variant: int = 0) -> pa.Array:
    """Return canonical values as a carrier; ``variant`` chooses among the Arrow types that the kind allows."""
    if kind.kind == "bool":
        return pa.array(values, pa.bool_())
    if kind.kind == "text":
        if any(isinstance(value, dict) for value in values):
            raw = [value if value is None else _text_bytes(value) for value in values]
            return pa.array(raw, pa.binary() if variant % 2 else pa.large_binary())
        return pa.array(values, pa.large_string() if variant % 2 else pa.string())
    array, bad = parse_text(pa.array(values, pa.string()), kind)
    assert not any(bad.to_pylist()), (values, kind)
    return _varied(array, kind.kind, variant)


def _varied(array: pa.Array, kind: str, variant: int) -> pa.Array:
    if kind == "int" and variant % 3 and pa.types.is_integer(array.type):
        return array.cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 0) if variant % 3 == 1 else pa.decimal256(40, 0))
    if kind == "decimal" and variant % 2 and not pa.types.is_string(array.type):
        return array.cast(pa.decimal256(60, array.type.scale))
    if kind == "bytes" and variant % 2:
        return array.cast(pa.large_binary())
    return array


def _text_bytes(value: Any) -> bytes:
    return bytes.fromhex(value["wtf8"]) if isinstance(value, dict) else str(value).encode()


@dataclass
class MemorySide:
    """A ``Side`` over rows of canonical values.

    Shape: ``types`` names the columns in order. ``batch_rows``: rows of each batch. ``order_of`` and ``cost`` are what it
    says of itself; with PROMISED it sorts by canonical keys, else rows come as they stand. ``exact``: deliver no row
    outside the range that was asked for. ``mixed``: change the carriers from batch to batch.
    ``before_batch`` is called with the number of each batch before it is made, and may raise.
    """

    types: Mapping[str, LogicalType]
    rows: list[Row]
    order_of: Order = Order.PROMISED
    cost: RangeCost = RangeCost.INDEX
    batch_rows: int = 1000
    exact: bool = True
    mixed: bool = False
    key_columns: tuple[str, ...] = ()
    estimate: int | None = None
    before_batch: Callable[[int], None] = lambda number: None
    kind: str = "memory"
    where: str = "table twin"
    untyped: tuple[str, ...] = ()
    requests: list[Request] = field(default_factory=list)
    opened: int = 0
    finished: int = 0
    closed: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            Column(name, kind, kind.text if kind else "mystery", untyped=name in self.untyped, advice="Cast it.")
            for name, kind in self.types.items()
        )

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self.key_columns

    def resolve(self, types: Mapping[str, LogicalType]) -> Side:
        self.types = {**self.types, **{name: kind for name, kind in types.items() if name in self.untyped}}
        return self

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        return self.order_of

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        return self.cost

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        self.requests.append(request)
        self.opened += 1
        try:
            yield from self._batches(request)
        finally:
            self.finished += 1

    def _batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        rows = self.rows
        if request.key and self.exact and (request.lower is not None or request.upper is not None):
            rows = [row for row in rows if self._inside(row, request)]
        if request.ordered and self.order_of is Order.PROMISED:
            rows = sorted(rows, key=lambda row: self.key_bytes(row, request.key, request.key_types))
        for number, start in enumerate(range(0, len(rows), self.batch_rows)):
            self.before_batch(number)
            yield self._batch(rows[start : start + self.batch_rows], request, number if self.mixed else 0)

    def _inside(self, row: Row, request: Request) -> bool:
        key = self.key_bytes(row, request.key, request.key_types)
        return (request.lower is None or request.lower <= key) and (request.upper is None or key < request.upper)

    def key_bytes(self, row: Row, key: tuple[str, ...], key_types: Sequence[LogicalType]) -> bytes:
        """Return the key bytes of one row."""
        values = dict(zip(self.types, row, strict=True))
        canonical = [
            widened(values[name], self.types[name].kind, kind.kind) for name, kind in zip(key, key_types, strict=True)
        ]
        return encode_key(canonical, key_types)

    def _batch(self, rows: list[Row], request: Request, variant: int) -> pa.RecordBatch:
        columns = dict(zip(self.types, zip(*rows, strict=True), strict=True)) if rows else {}
        arrays = [carrier(columns[name], self.types[name], variant) for name in request.columns]
        names = list(request.columns)
        if request.filter is not None:
            whole = pa.RecordBatch.from_arrays(
                [carrier(columns[name], self.types[name], variant) for name in self.types], names=list(self.types)
            )
            arrays.append(request.filter.evaluate(whole, dict(self.types)))
            names.append(KEEP_COLUMN)
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def sample(self, key: tuple[str, ...], rows: int = 10_000) -> pa.Table:
        step = max(1, len(self.rows) // max(rows, 1))
        places = [list(self.types).index(name) for name in key]
        kept = self.rows[::step]
        arrays = [
            carrier([row[place] for row in kept], self.types[name]) for name, place in zip(key, places, strict=True)
        ]
        return pa.table(arrays, names=list(key))

    def estimate_rows(self) -> int | None:
        return len(self.rows) if self.estimate is None else self.estimate

    def facts(self) -> dict[str, Any]:
        return {"rows": len(self.rows)}

    def close(self) -> None:
        self.closed += 1


def typed(**kinds: str) -> dict[str, LogicalType]:
    """Return columns with types, in order."""
    return {name: LogicalType(kind) for name, kind in kinds.items()}


def opener(source: Any, target: Any) -> Callable[[SideSpec], Side]:
    """Return what opens the twins under the paths ``source`` and ``target``."""
    sides = {"source": source, "target": target}
    return lambda spec: sides[str(spec.path)]


def spec_form(**members: Any) -> dict[str, Any]:
    """Return a specification over the twins."""
    return {"name": "pair", "source": {"path": "source"}, "target": {"path": "target"}, **members}
