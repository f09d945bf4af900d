"""A table or query of a database as a side: one class over all dialects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import PackingDialect, ReadColumn, Relation
from airflow_delta_provider.adapters.dialects.statement import Statement, joined, sql
from airflow_delta_provider.adapters.load import Explained, Load
from airflow_delta_provider.adapters.ranges import sortable
from airflow_delta_provider.adapters.side import KEEP_COLUMN, SAMPLE_ROWS, Column, Order, RangeCost, Request, Side
from airflow_delta_provider.adapters.sqlprints import SqlFingerprints
from airflow_delta_provider.core.errors import (
    SideColumnTypeError,
    SideReadError,
    SpecValueError,
    shown,
)
from airflow_delta_provider.core.types import PACKED_COLUMN, LogicalType


class SqlSide(SqlFingerprints):
    """One table, view or query, opened when first asked and held in one snapshot where the engine has snapshots.

    ``connect`` gives an open connection of the dialect's driver; the side closes it. It may raise ConnectError and
    SideMissingError. Exactly one of ``table`` and ``query`` is set.
    """

    def __enter__(self) -> SqlSide:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in table order."""
        return tuple(each.column for each in self._described())

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The declared primary key, or an empty tuple."""
        relation = self._opened()
        if relation.is_query:
            return ()
        with self._refusals():
            return self._dialect.primary_key(self._connection, relation)

    def resolve(self, types: Mapping[str, LogicalType]) -> Side:
        """Give columns without any value the type of their partner, and read columns of unmapped types as text.

        A column whose engine cannot write it as text without loss keeps no type, and is refused when it is read.
        """
        resolved = []
        for each in self._described():
            wanted = types.get(each.column.name)
            if wanted is not None and each.column.untyped:
                each = retyped(each, wanted)
            elif wanted is not None and each.column.type is None and wanted.kind == "text":
                each = self._dialect.as_text(each) or each
            resolved.append(each)
        self._read_columns = tuple(resolved)
        return self

    def admit(self, names: frozenset[str]) -> None:
        """Deliver zero dates and times beyond a day of these columns."""
        self._read_columns = tuple(
            self._dialect.admitting(each) if each.column.name in names else each for each in self._described()
        )

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        """Say PROMISED where the engine orders every key column as canonical keys are ordered, else NONE."""
        columns = self._picked(key)
        if all(sortable(column, kind) for column, kind in zip(columns, key_types, strict=True)):
            return Order.PROMISED
        return Order.NONE

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        """Say INDEX where an index serves the canonical order of the first key column."""
        relation = self._opened()
        first = self._picked(key)[0]
        if relation.is_query or not first.sort:
            return RangeCost.SCAN
        with self._refusals():
            served = self._dialect.indexed(self._connection, relation, first)
        return RangeCost.INDEX if served else RangeCost.SCAN

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield batches of ``request.columns``, and KEEP_COLUMN where there is a filter.

        The carrier of a text column may change from string to binary in a batch that holds invalid Unicode.
        """
        if request.filter is not None and self._dialect.local_filters:
            yield from self._filtered_here(request)
            return
        relation = self._opened()
        columns = self._readable(request.columns)
        names = list(request.columns)
        terms = [sql(column.select) for column in columns]
        if request.filter is not None:
            terms.append(request.filter.render(self._dialect, {each.column.name: each for each in self._described()}))
            columns = (*columns, self._dialect.keep_column(""))
            names.append(KEEP_COLUMN)
        statement = self._select(relation, terms, request)
        with self._refusals():
            limits = (request.batch_rows, request.batch_bytes)
            if request.packed:
                heads = len(request.key)
                names = [*names[:heads], PACKED_COLUMN]
                batches = self._packing().fetch_packed(self._connection, statement, columns, heads, *limits)
            else:
                batches = self._dialect.fetch(self._connection, statement, columns, *limits)
            for arrays in batches:
                yield pa.RecordBatch.from_arrays(arrays, names)

    def packed(self, mine: Request, other: Side, theirs: Request) -> tuple[Request, Request] | None:
        """As ``Packing.packed``: values of one dialect whose columns pair by pair come in one form."""
        dialect = self._dialect
        if not isinstance(other, SqlSide) or not isinstance(dialect, PackingDialect) or dialect.kind != other.kind:
            return None
        if mine.filter is not None or theirs.filter is not None or not (mine.ordered and theirs.ordered):
            return None
        values = self._readable(mine.columns[len(mine.key) :]), other._readable(theirs.columns[len(theirs.key) :])
        alike = all(
            one.column.type == two.column.type and dialect.packs(one, two) for one, two in zip(*values, strict=True)
        )
        return (replace(mine, packed=True), replace(theirs, packed=True)) if alike and values[0] else None

    def unpack(self, request: Request, rows: pa.Array) -> list[pa.Array]:
        """As ``Packing.unpack``."""
        columns = self._readable(request.columns[len(request.key) :])
        with self._refusals():
            return self._packing().unpack(columns, rows)

    def _packing(self) -> PackingDialect:
        if not isinstance(self._dialect, PackingDialect):
            raise SideReadError(f"{self.where}: {self.kind} packs no rows.", where=self.where)
        return self._dialect

    def _filtered_here(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Read what the filter uses too, and evaluate it over each batch."""
        names = tuple(dict.fromkeys((*request.columns, *request.filter.columns)))
        kinds = {each.column.name: each.column.type for each in self._readable(names)}
        for batch in self.read(replace(request, columns=names, filter=None)):
            keep = request.filter.evaluate(batch, kinds)
            arrays = [batch.column(name) for name in request.columns]
            yield pa.RecordBatch.from_arrays([*arrays, keep], [*request.columns, KEEP_COLUMN])

    def sample(self, key: tuple[str, ...], rows: int = SAMPLE_ROWS) -> pa.Table:
        """Return up to about ``rows`` key rows from all over the relation, unsorted."""
        relation = self._opened()
        columns = self._readable(key)
        terms = tuple(column.select for column in columns)
        with self._refusals():
            statement = self._dialect.sampled(self._connection, relation, terms, rows)
            parts = list(self._dialect.fetch(self._connection, statement, columns, rows, 1 << 28))
        if not parts:
            return pa.table([pa.array([], column.arrow) for column in columns], names=list(key))
        chunked = [pa.chunked_array(list(arrays)) for arrays in zip(*parts, strict=True)]
        return pa.table(chunked, names=list(key))

    def estimate_rows(self) -> int | None:
        """Return about how many rows there are, or None."""
        relation = self._opened()
        with self._refusals():
            return self._dialect.estimate_rows(self._connection, relation)

    def facts(self) -> dict[str, Any]:
        """Return engine, version and snapshot token."""
        self._opened()
        with self._refusals():
            return {"engine": self.kind, **self._dialect.facts(self._connection)}

    def limit_statements(self, seconds: float) -> None:
        """Let no statement run longer, from the next opening on."""
        self._statement_s = seconds

    def load(self) -> Load:
        """Return how busy the server is, over a connection of its own that sees the moment and not the snapshot."""
        connection = self._connect()
        try:
            with self._refusals():
                found = self._dialect.load(connection)
        finally:
            self._dialect.close(connection)
        if found is None:
            raise SpecValueError(f"{self.kind} tells neither sessions nor lag.", where="manners")
        return found

    def explained(self, request: Request) -> Explained | None:
        """Return what the planner says of a read."""
        relation = self._opened()
        terms = [sql(column.select) for column in self._readable(request.columns)]
        statement = self._select(relation, terms, request)
        with self._refusals():
            return self._dialect.explained(self._connection, statement)

    def cancel(self, cut: bool = False) -> None:
        """End the read that runs, from another thread."""
        connection = self._connection
        if connection is not None:
            self._dialect.cancel(connection, cut)

    def close(self) -> None:
        """End the snapshot and close the connection; a second call does nothing."""
        connection, self._connection = self._connection, None
        self._relation = None
        if connection is None:
            return
        try:
            self._dialect.close(connection)
        except self._dialect.driver_errors():
            return  # a connection that is already gone is closed

    def _select(self, relation: Relation, terms: list[Statement], request: Request) -> Statement:
        named = joined(", ", (sql(term, f" AS c{at}") for at, term in enumerate(terms)))
        statement = sql("SELECT ", named, f" FROM {self._dialect.aliased(relation.source)}")
        key = self._picked(request.key)
        predicates = [each for each in (self._range(request), self._chosen(request)) if each is not None]
        if predicates:
            statement = sql(statement, " WHERE ", joined(" AND ", predicates))
        if request.ordered:
            if self.order(request.key, request.key_types) is Order.NONE:
                raise SideReadError(f"{self.where}: this engine cannot order by {', '.join(request.key)}.")
            order = ", ".join(self._dialect.order_term(column) for column in key)
            statement = sql(statement, f" ORDER BY {order}")
        return statement

    def _readable(self, names: tuple[str, ...]) -> tuple[ReadColumn, ...]:
        columns = self._picked(names)
        for each in columns:
            if each.column.type is None:
                raise SideColumnTypeError(
                    f"{self.where}, column {shown(each.column.name)}: {shown(each.column.engine_type)} has no logical "
                    f"type. {each.column.advice}".rstrip(),
                    where=self.where,
                )
        return columns


def retyped(each: ReadColumn, wanted: LogicalType) -> ReadColumn:
    """Return a column of NULLs only, read as another logical type."""
    carrier = null_carrier(wanted)
    column = Column(each.column.name, wanted, each.column.engine_type, each.column.nullable)
    return ReadColumn(column, each.select, carrier, each.sort, each.native)


def null_carrier(kind: LogicalType) -> pa.DataType:
    """Return an Arrow type that carries a logical type, for arrays that hold nothing but NULL."""
    if kind.kind == "array" and kind.item:
        return pa.list_(null_carrier(kind.item))
    if kind.kind == "map" and kind.item and kind.map_key:
        return pa.map_(null_carrier(kind.map_key), null_carrier(kind.item))
    if kind.kind == "struct":
        return pa.struct([(name, null_carrier(part)) for name, part in kind.fields])
    return _NULL_CARRIERS[kind.kind]


_NULL_CARRIERS = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "decimal": pa.string(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "uuid": pa.binary(16),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamp_tz": pa.timestamp("us", tz="UTC"),
    "interval": pa.month_day_nano_interval(),
    "json": pa.string(),
    "json_text": pa.string(),
}
