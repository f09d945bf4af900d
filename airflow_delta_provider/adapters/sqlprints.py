"""A database as a side that digests its own rows: the statements that ask it, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.digests import Digests
from airflow_delta_provider.adapters.dialects.statement import Statement, sql
from airflow_delta_provider.adapters.fingerprints import CANARY, FINGERPRINT, Buckets, Form
from airflow_delta_provider.adapters.ranges import range_is_exact, range_predicate
from airflow_delta_provider.adapters.side import Request
from airflow_delta_provider.adapters.sqlbase import SqlRelation
from airflow_delta_provider.core.errors import FingerprintDeclinedError, SideReadError

WEIGHED_ROWS = 1000
"""Rows whose mean size says what a row weighs."""
PROBES = 3
"""How often a payload is timed; the quickest counts, as a busy machine only ever makes it slower."""


class SqlFingerprints(SqlRelation):
    """What ``Fingerprinting`` asks, over a dialect."""

    def fingerprints(self) -> bool:
        """Tell whether the engine digests its rows."""
        return self._dialect.digests is not None

    def writes(self, form: Form) -> bool:
        """Tell whether the engine writes this column in this form."""
        self._opened()
        with self._refusals():
            return self._digests().write(self._connection, self._picked((form.column,))[0], form.form) is not None

    def unique_key(self) -> tuple[str, ...]:
        """Return the primary key where the engine keeps it over all rows that a read sees."""
        relation = self._opened()
        if relation.is_query:
            return ()
        with self._refusals():
            return self._dialect.unique_key(self._connection, relation)

    def canary(self, function: str) -> tuple[int, int] | None:
        """Digest one text of ours; an engine that refuses to has no such function."""
        digests = self._digests()
        lanes = digests.lanes(function)
        if lanes is None:
            return None
        self._opened()
        text = digests.row([digests.literal(CANARY)], "")
        statement = sql(
            f"SELECT COUNT(*) AS c0, SUM({lanes[0]}) AS c1, SUM({lanes[1]}) AS c2 FROM (SELECT ",
            digests.inner(text, function),
            " AS h) AS delta_rows",
        )
        columns = (digests.whole(), digests.total(), digests.total())
        try:
            (row,) = self._rows(statement, columns)
        except FingerprintDeclinedError:
            return None  # an engine without MD5 says so here, before anything depends on it
        return int(row[1]), int(row[2])

    def link(self, values: Sequence[Form], payload_bytes: int) -> tuple[float, float] | None:
        """Weigh some rows by their texts, and time a payload that costs the engine nothing.

        Raises: FingerprintDeclinedError, also where the engine makes no text of that size.
        """
        digests = self._digests()
        if not digests.remote:
            return None
        source = self._dialect.aliased(self._opened().source)
        with self._refusals():
            text = digests.row(self._terms(values, ""), "") if values else digests.literal("")
        rows = sql("SELECT ", text, f" AS t FROM {source} LIMIT {WEIGHED_ROWS}")
        weighed = sql("SELECT COUNT(*) AS c0, SUM(OCTET_LENGTH(t)) AS c1 FROM (", rows, ") AS delta_rows")
        (row,) = self._rows(weighed, (digests.whole(), digests.whole()))
        least, sent = (min(self._took_s(size) for _ in range(PROBES)) for size in (1, payload_bytes))
        return float(row[1] or 0) / max(int(row[0]), 1), payload_bytes / max(sent - least, sent / 10)

    def _took_s(self, size: int) -> float:
        """Return the seconds that a text of so many bytes takes to arrive."""
        began = time.perf_counter()
        (row,) = self._rows(sql(f"SELECT REPEAT('x', {size}) AS c0"), (self._digests().payload(),))
        took_s = time.perf_counter() - began
        if row[0] is None:  # beyond what MySQL and MariaDB send as one value
            raise FingerprintDeclinedError(f"{self.where}: a text of {size} bytes is not sent.", where=self.where)
        return took_s

    def exact(self, request: Request) -> bool:
        """Tell whether the predicate of a range holds exactly its keys."""
        key = self._picked(request.key)
        return range_is_exact(self._dialect, key, request.key_types, request.lower, request.upper)

    def key_span(self, request: Request) -> tuple[int, int] | None:
        """Return least and greatest key of a range; an index gives both at once."""
        relation = self._opened()
        field = self._picked(request.key[:1])[0].select
        least, greatest = (self._digests().big(f"{name}({field})") for name in ("MIN", "MAX"))
        statement = sql(f"SELECT {least} AS c0, {greatest} AS c1 FROM {self._dialect.aliased(relation.source)}")
        where = self._range(request)
        if where is not None:
            statement = sql(statement, " WHERE ", where)
        whole = self._digests().whole()
        (row,) = self._rows(statement, (whole, whole))
        return None if row[0] is None else (int(row[0]), int(row[1]))

    def fingerprint(self, request: Request, values: Sequence[Form], function: str) -> Iterator[pa.RecordBatch]:
        """Yield the fingerprint of the range, bucket by bucket."""
        relation, digests, buckets = self._opened(), self._digests(), request.buckets
        if buckets is None:
            raise SideReadError(f"{self.where}: a fingerprint needs buckets.", where=self.where)
        with self._declining():
            key = self._terms(buckets.key, buckets.mark)
            terms = [*key, *self._terms(values, buckets.mark)]
            keep = None
            if request.filter is not None:
                keep = request.filter.render(self._dialect, {each.column.name: each for each in self._described()})
            statement = digests.grouped(
                self._dialect.aliased(relation.source),
                self._range(request),
                digests.bucket(buckets, key, self._picked(request.key)[0].select),
                keep,
                digests.row(terms, buckets.mark),
                function,
            )
            whole, total = digests.whole(), digests.total()
            columns = (whole, whole, whole, total, total)
            fetched = self._dialect.fetch(self._connection, statement, columns, request.batch_rows, request.batch_bytes)
            for arrays in fetched:
                yield pa.RecordBatch.from_arrays(
                    [array.cast(field.type) for array, field in zip(arrays, FINGERPRINT, strict=True)],
                    schema=FINGERPRINT,
                )

    def _chosen(self, request: Request) -> Statement | None:
        """Return the predicate of the buckets that a read is confined to, or None."""
        buckets = request.buckets
        if buckets is None or buckets.chosen is None:
            return None
        return self._digests().chosen(buckets, self._key_terms(buckets), self._picked(request.key)[0].select)

    def _key_terms(self, buckets: Buckets) -> list[Statement]:
        return self._terms(buckets.key, buckets.mark)

    def _terms(self, forms: Sequence[Form], mark: str) -> list[Statement]:
        digests, terms = self._digests(), []
        for form in forms:
            column = self._picked((form.column,))[0]
            written = digests.write(self._connection, column, form.form)
            if written is None:
                raise SideReadError(f"{self.where}: {form.column} is not written as {form.form}.", where=self.where)
            terms.append(digests.term(column.select, written, mark))
        return terms

    def _range(self, request: Request) -> Statement | None:
        key = self._picked(request.key)
        return range_predicate(self._dialect, key, request.key_types, request.lower, request.upper)

    def _rows(self, statement: Statement, columns: tuple[ReadColumn, ...]) -> list[tuple[Any, ...]]:
        with self._declining():
            parts = list(self._dialect.fetch(self._connection, statement, columns, 1024, 1 << 20))
        return [row for arrays in parts for row in zip(*(array.to_pylist() for array in arrays), strict=True)]

    @contextmanager
    def _declining(self) -> Iterator[None]:
        """As ``_refusals``, but tell apart what the engine declines and would go on after."""
        began = time.monotonic()
        with self._refusals():
            try:
                yield
            except self._dialect.driver_errors() as error:
                if not self._digests().declined(self._connection, error, time.monotonic() - began):
                    raise
                failure = self._dialect.failure(error, self.where)
                raise FingerprintDeclinedError(failure.message, where=self.where) from None

    def _digests(self) -> Digests:
        if self._dialect.digests is None:
            raise SideReadError(f"{self.where}: this engine digests no rows.", where=self.where)
        return self._dialect.digests
