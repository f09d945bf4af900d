"""A filter's tree as SQL of one dialect: every operand typed, texts by code points, literals bound."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from airflow_delta_provider.adapters.dialects.spelling import Spelling
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, joined, sql
from airflow_delta_provider.adapters.filterparse import Node
from airflow_delta_provider.core.errors import FilterError, shown
from airflow_delta_provider.core.times import parse_date, parse_time
from airflow_delta_provider.core.types import NUMBERS, TIMES

Written = tuple[Statement, str | None]
"""SQL and the family of its value: ``number``, a logical kind, ``null``, or None where nobody knows yet."""
_ORDERED = ("number", "text", "bytes", "uuid", "bool", *TIMES)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?(Z|[+-]\d\d(?::?\d\d)?)?")


class Writer:
    """Writes nodes for one dialect.

    ``column(name)`` returns the SQL of a column, ready to be compared, and its logical kind (None: not known yet).
    """

    def __init__(self, spelling: Spelling, column: Callable[[str], tuple[str, str | None]]) -> None:
        self._spelling = spelling
        self._column = column

    def condition(self, node: Node) -> Statement:
        """Write a boolean expression.

        Raises: FilterError for one that is not boolean, or that compares values of different families.
        """
        written, kind = self.write(node)
        if kind not in ("bool", "null", None):
            raise FilterError(f"A {kind} stands where the filter needs something true or false.")
        return written

    def write(self, node: Node) -> Written:
        """Write any node and tell its family."""
        written: Written = getattr(self, f"_{node.op}")(node)
        return written

    def _field(self, node: Node) -> Written:
        text, kind = self._column(node.value)
        return sql(text), "number" if kind in NUMBERS else kind

    def _literal(self, kind: str, text: str) -> Statement:
        return self._spelling.literal(kind, literal_text(kind, text))

    def _alike(self, nodes: tuple[Node, ...]) -> tuple[list[Statement], str | None]:
        """Write operands that must be of one family; a quoted literal takes the family of the others."""
        written = [self.write(node) for node in nodes]
        kinds = {kind for node, (_, kind) in zip(nodes, written, strict=True) if node.op != "text"} - {None, "null"}
        if len(kinds) > 1:
            raise FilterError(f"The filter compares {' with '.join(sorted(str(kind) for kind in kinds))}.")
        kind = next(iter(kinds), None)
        if any(node.op == "text" for node in nodes):
            if kind in (*TIMES, "uuid"):
                pairs = zip(nodes, written, strict=True)
                written = [(self._literal(kind, n.value), kind) if n.op == "text" else w for n, w in pairs]
            elif kind not in (None, "text"):
                raise FilterError(f"The filter compares a {kind} with the text {self._shown(nodes)}.")
            elif kind is None and all(known is not None for _, known in written):
                kind = "text"
        return [statement for statement, _ in written], kind

    def _shown(self, nodes: tuple[Node, ...]) -> str:
        return next(shown(repr(node.value)) for node in nodes if node.op == "text")

    def _text(self, node: Node) -> Written:
        return self._spelling.literal("text", node.value), "text"

    def _number(self, node: Node) -> Written:
        return sql(f"({node.value})" if node.value.startswith("-") else node.value), "number"

    def _bytes(self, node: Node) -> Written:
        return sql(Value(node.value)), "bytes"

    def _bool(self, node: Node) -> Written:
        return sql("(1 = 1)" if node.value else "(1 = 0)"), "bool"

    def _null(self, node: Node) -> Written:
        return sql("NULL"), "null"

    def _typed(self, node: Node) -> Written:
        kind, text = node.value
        return self._literal(kind, text), kind

    def _and(self, node: Node) -> Written:
        return sql("(", joined(" AND ", [self.condition(part) for part in node.args]), ")"), "bool"

    def _or(self, node: Node) -> Written:
        return sql("(", joined(" OR ", [self.condition(part) for part in node.args]), ")"), "bool"

    def _not(self, node: Node) -> Written:
        return sql("(NOT ", self.condition(node.args[0]), ")"), "bool"

    def _compare(self, node: Node) -> Written:
        (left, right), kind = self._alike(node.args)
        if kind is not None and kind not in _ORDERED:
            raise FilterError(f"The filter compares values of the type {kind}, which it can only test for NULL.")
        return sql("(", left, f" {node.value} ", right, ")"), "bool"

    def _same(self, node: Node) -> Written:
        (left, right), _ = self._alike(node.args)
        nulls = sql(left, " IS NULL AND ", right, " IS NULL")
        some = sql(left, " IS NULL OR ", right, " IS NULL")
        return sql("(CASE WHEN ", some, " THEN (", nulls, ") ELSE (", left, " = ", right, ") END)"), "bool"

    def _in(self, node: Node) -> Written:
        (first, *rest), kind = self._alike(node.args)
        if kind is not None and kind not in _ORDERED:
            raise FilterError(f"The filter compares values of the type {kind}, which it can only test for NULL.")
        return sql("(", first, " IN (", joined(", ", rest), "))"), "bool"

    def _like(self, node: Node) -> Written:
        operand, kind = self.write(node.args[0])
        if kind not in ("text", None):
            raise FilterError(f"The filter uses LIKE on a {kind}.")
        pattern, escape = (self._spelling.literal("text", part) for part in node.value)
        return sql("(", operand, " LIKE ", pattern, " ESCAPE ", escape, ")"), "bool"

    def _is_null(self, node: Node) -> Written:
        return sql("(", self.write(node.args[0])[0], " IS NULL)"), "bool"

    def _is_true(self, node: Node) -> Written:
        return sql("(CASE WHEN ", self.condition(node.args[0]), " THEN (1 = 1) ELSE (1 = 0) END)"), "bool"

    def _is_false(self, node: Node) -> Written:
        return self._is_true(Node("is_true", (Node("not", node.args),)))

    def _numbers(self, nodes: tuple[Node, ...], what: str) -> list[Statement]:
        written = [self.write(node) for node in nodes]
        for _, kind in written:
            if kind not in ("number", "null", None):
                raise FilterError(f"The filter uses {what} on a {kind}.")
        return [statement for statement, _ in written]

    def _arithmetic(self, node: Node) -> Written:
        left, right = self._numbers(node.args, node.value)
        return sql("(", left, f" {node.value} ", right, ")"), "number"

    def _modulo(self, node: Node) -> Written:
        left, right = self._numbers(node.args, "%")
        if node.args[0].op != "field" or self._column(node.args[0].value)[1] not in ("int", None):
            raise FilterError("The filter uses % on something else than a column of whole numbers.")
        return sql("(", left, " % ", right, ")"), "number"

    def _negate(self, node: Node) -> Written:
        return sql("(-", *self._numbers(node.args, "-"), ")"), "number"

    def _abs(self, node: Node) -> Written:
        return sql("ABS(", *self._numbers(node.args, "ABS"), ")"), "number"

    def _concat(self, node: Node) -> Written:
        parts = [self.write(part) for part in node.args]
        if any(kind not in ("text", "null", None) for _, kind in parts):
            raise FilterError("The filter joins something else than texts with ||.")
        return self._spelling.concatenated([statement for statement, _ in parts]), "text"

    def _coalesce(self, node: Node) -> Written:
        parts, kind = self._alike(node.args)
        return sql("COALESCE(", joined(", ", parts), ")"), kind

    def _nullif(self, node: Node) -> Written:
        parts, kind = self._alike(node.args)
        return sql("NULLIF(", joined(", ", parts), ")"), kind

    def _case(self, node: Node) -> Written:
        tests, results = node.args[:-1:2], (*node.args[1:-1:2], node.args[-1])
        written, kind = self._alike(results)
        pieces: list[str | Statement] = ["(CASE"]
        for test, result in zip(tests, written, strict=False):
            pieces += [" WHEN ", self.condition(test), " THEN ", result]
        return sql(*pieces, " ELSE ", written[-1], " END)"), kind


def literal_text(kind: str, text: str) -> str:
    """Check a literal of a kind and return it as engines read it alike: ``2026-01-31 09:30:00.5``, instants in UTC.

    Raises: FilterError for a text that is no value of the kind, and for fractions finer than a microsecond.
    """
    if kind == "uuid":
        return _uuid(text)
    if kind == "date":
        if parse_date(text) is None or len(text) != 10:
            raise FilterError(f"{shown(text)} is no date: write YYYY-MM-DD.")
        return text
    if kind == "time":
        full = text if len(text) > 5 else text + ":00"
        if parse_time(full.rstrip("0") if "." in full else full) is None and parse_time(full) is None:
            raise FilterError(f"{shown(text)} is no time of day.")
        return full
    return _stamp(kind, text)


def _uuid(text: str) -> str:
    digits = text.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{32}", digits):
        raise FilterError(f"{shown(text)} is no UUID.")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _stamp(kind: str, text: str) -> str:
    match = _STAMP.fullmatch(text)
    if match is None or (match[3] and kind == "timestamp"):
        raise FilterError(f"{shown(text)} is no {kind}: write YYYY-MM-DD HH:MM:SS, with an offset only for instants.")
    clock = match[2] or "00:00:00"
    clock = clock if len(clock) > 5 else clock + ":00"
    try:
        moment = datetime.fromisoformat(f"{match[1]} {clock}")
        if match[3] and match[3] != "Z":
            digits = match[3][1:].replace(":", "").ljust(4, "0")
            offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
            moment = moment - offset if match[3][0] == "+" else moment + offset
    except (ValueError, OverflowError):
        raise FilterError(f"{shown(text)} is no {kind}.") from None
    return moment.isoformat(" ") + ("+00:00" if kind == "timestamp_tz" else "")


def column_text(spelling: Spelling, read: Any) -> str:
    """Write a column of a side for a filter: a text by code points, a single-precision number as a double."""
    kind = read.column.type.kind if read.column.type else None
    if kind == "text":
        return f"({read.sort or read.select})"
    field = spelling.field(read.column.name)
    return spelling.double(field) if kind == "float32" else field
