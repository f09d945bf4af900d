"""Fingerprints as SQL: rows of a range grouped by bucket of their key, their digests summed; the seam under each engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, joined, sql
from airflow_delta_provider.adapters.fingerprints import Buckets
from airflow_delta_provider.core.types import LogicalType

DECIMAL = "decimal:"
"""What the form of a decimal begins with; its scale follows."""
NULL = "'N'"
"""What stands for NULL; no form writes it for a value."""
Written = tuple[str, str]
"""SQL of a column's text, and of a condition true for values that the form is not proved for, or ""."""


class Digests(ABC):
    """How one engine digests rows.

    A row's text is its columns' texts with ``;`` between them. No text holds a ``;`` but those that begin with their
    length, so different rows have different texts.
    """

    remote = True
    """Whether rows of this engine come over a network at all."""
    fence: str
    """What keeps an engine from computing an inner expression once for each use outside."""

    def write(self, connection: Any, column: ReadColumn, form: str) -> Written | None:
        """Return the text of a column in a form of ``fingerprints.forms_of``, or None where it is not written so."""
        kind, select = column.column.type, f"({column.select})"
        if kind is None:
            return None
        if form.startswith(DECIMAL):
            return self.decimal(kind, select, int(form.removeprefix(DECIMAL)))
        return self.text(connection, column, kind, select, form)

    @abstractmethod
    def text(self, connection: Any, column: ReadColumn, kind: LogicalType, select: str, form: str) -> Written | None:
        """Return the text of a column of this type, that ``select`` reads, in a form other than a decimal's."""

    @abstractmethod
    def decimal(self, kind: LogicalType, select: str, scale: int) -> Written | None:
        """Return the text of a number with so many decimal places, or None where the engine may not hold it exactly."""

    @abstractmethod
    def lanes(self, function: str) -> tuple[str, str] | None:
        """Return both signed 64-bit halves of the digest of ``h``, which ``inner`` made, or None for no such function."""

    @abstractmethod
    def inner(self, text: Statement, function: str) -> Statement:
        """Return what ``lanes`` takes of a row's text."""

    @abstractmethod
    def by_width(self, field: str, base: Value, width: Value) -> Statement:
        """Return ``(field - base) // width`` for a field that is not below base."""

    @abstractmethod
    def by_hash(self, text: Statement, count: Value) -> Statement:
        """Return the first 32 bits of the MD5 of a text modulo a power of two."""

    @abstractmethod
    def big(self, number: str) -> str:
        """Return a whole number as one of 64 bits."""

    @abstractmethod
    def whole(self) -> ReadColumn:
        """Return a computed column of 64-bit numbers."""

    @abstractmethod
    def payload(self) -> ReadColumn:
        """Return a computed column of text."""

    @abstractmethod
    def total(self) -> ReadColumn:
        """Return a computed column of sums of 64-bit numbers, as decimal128(38, 0)."""

    @abstractmethod
    def declined(self, connection: Any, error: BaseException, took_s: float) -> bool:
        """Tell whether a driver's error is the engine's no to the statement itself, over a connection that goes on.

        A statement that somebody cancelled, and one whose connection was cut, were not declined; one that ran into a
        limit of the engine was. ``took_s``: how long it ran at most.
        """

    def literal(self, text: str) -> Statement:
        """Write a text of ours as the engine's text."""
        return sql(Value(text))

    def term(self, select: str, written: Written, mark: str) -> Statement:
        """Return a column's text, NULL and unproved values included."""
        text, bad = written
        if not bad:
            return sql(f"COALESCE({text}, {NULL})")
        return sql(f"CASE WHEN {select} IS NULL THEN {NULL} WHEN {bad} THEN ", self.literal(mark), f" ELSE {text} END")

    def row(self, terms: Sequence[Statement], mark: str) -> Statement:
        """Return the text of a row."""
        return sql("CONCAT_WS(';', ", joined(", ", terms), ")")

    def bucket(self, buckets: Buckets, key: Sequence[Statement], field: str) -> Statement:
        """Return the bucket of a row, NULL where a whole number is; ``field`` is the first key column, ``key`` the texts.

        Keys beyond both ends, which a live table may have by now, belong to the first and the last bucket.
        """
        if not buckets.width:
            return self.by_hash(self.row(key, buckets.mark), Value(buckets.count))
        least, top = Value(buckets.base), Value(buckets.base + buckets.width * (buckets.count - 1))
        ends = sql(f"CASE WHEN {field} < ", least, f" THEN 0 WHEN {field} >= ", top, f" THEN {buckets.count - 1} ELSE ")
        return sql(ends, self.by_width(field, least, Value(buckets.width)), " END")

    def chosen(self, buckets: Buckets, key: Sequence[Statement], field: str) -> Statement:
        """Return a condition true for the rows of the chosen buckets: ranges of the key, or a list of hashes."""
        if not buckets.width:
            numbers = ", ".join(str(int(number)) for number in buckets.chosen or ())
            return sql("(", self.bucket(buckets, key, field), f") IN ({numbers})")
        return sql("(", joined(" OR ", (_inside(field, *ends) for ends in merged_ranges(buckets))), ")")

    def grouped(
        self,
        source: str,
        where: Statement | None,
        bucket: Statement,
        keep: Statement | None,
        text: Statement,
        function: str,
    ) -> Statement:
        """Return the whole statement; ``source`` is a FROM item with its alias."""
        low, high = self.lanes(function) or ("", "")
        kept = "COUNT(*)"
        if keep is not None:
            kept = "COUNT(CASE WHEN k = 1 THEN 1 END)"
            low, high = (f"CASE WHEN k = 1 THEN {lane} ELSE 0 END" for lane in (low, high))
        inner = sql("SELECT ", bucket, " AS b, ", self.inner(text, function), " AS h")
        if keep is not None:
            inner = sql(inner, ", CASE WHEN ", keep, " THEN 1 ELSE 0 END AS k")
        condition = sql() if where is None else sql(" WHERE ", where)
        inner = sql(inner, f" FROM {source}", condition, f" {self.fence}")
        return sql(
            f"SELECT b AS c0, COUNT(*) AS c1, {kept} AS c2, SUM({low}) AS c3, SUM({high}) AS c4 FROM (", inner,
            ") AS delta_rows GROUP BY b",
        )  # fmt: skip


def merged_ranges(buckets: Buckets) -> list[tuple[int | None, int | None]]:
    """Return the chosen buckets of a width as half-open key ranges, neighbours as one; None is open."""
    runs: list[list[int]] = []
    for number in buckets.chosen or ():
        if runs and runs[-1][1] == number:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    return [
        (
            None if first == 0 else buckets.base + first * buckets.width,
            None if end == buckets.count else buckets.base + end * buckets.width,
        )
        for first, end in runs
    ]


def _inside(field: str, lower: int | None, upper: int | None) -> Statement:
    terms = [] if lower is None else [sql(f"{field} >= ", Value(lower))]
    terms += [] if upper is None else [sql(f"{field} < ", Value(upper))]
    return sql("(", joined(" AND ", terms), ")") if terms else sql(f"({field} IS NOT NULL)")
