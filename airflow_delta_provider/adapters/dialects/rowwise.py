"""Engines read row by row through SQLAlchemy: values come as texts that lose nothing, filters are evaluated here."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import (
    ALIAS,
    Bound,
    Dialect,
    ReadColumn,
    Relation,
    split_name,
    text_column,
)
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.decimals import canonical_decimal
from airflow_delta_provider.core.errors import DeltaError, SideReadError, ValueRangeError, shown
from airflow_delta_provider.core.times import date_text, time_text
from airflow_delta_provider.core.types import LogicalType

FETCH_ROWS = 1_000
"""Rows that the driver hands over at once."""
VALUE_BYTES = 16
"""What a value that is no text counts for in the size of a batch."""
MARK = "\x00"
"""Stands for the column in the templates of a type's expressions."""
_TYPE = re.compile(r"\s*([^(]+?)\s*(?:\(([^)]*)\))?\s*(with(?: local)? time zone|without time zone)?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mapped:
    """How a type is read.

    ``form``: ``int``, ``float``, ``bool``, ``text``, ``char`` (text whose padding is no part of it), ``bytes``, ``hex``,
    or ``parsed`` (the select gives a text that is read strictly as ``kind``). ``select`` and ``sort`` are expressions
    with ``MARK`` for the column; ``sort`` is "" where the engine's order is not the order of canonical keys.
    ``write`` turns a bound of a key range into an operand that compares with ``sort``; None where there is none.
    """

    kind: LogicalType
    form: str
    select: str = MARK
    sort: str = ""
    write: Callable[[Any], Statement | None] | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """One column as a catalog has it: ``type`` with its bounds, as ``decimal(12,2)``."""

    name: str
    type: str
    nullable: bool = True


class RowDialect(Dialect):
    """A dialect over an SQLAlchemy connection. An engine says how it spells things; nothing of it was run on a server here.

    Names are looked up as they stand, so they are written as the engine stores them.
    """

    local_filters = True
    settings: tuple[str, ...] = ()
    """Statements that every session begins with."""
    parts_max = 3
    """Parts that a table's name may have."""

    @abstractmethod
    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        """Return how a type is read, by its name in lower case and its bounds; None where it has no logical type."""

    @abstractmethod
    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the path of the table or view that one reading of a name means."""

    @abstractmethod
    def described(self, connection: Any, relation: Relation) -> list[Described]:
        """Return the columns of a table or a query."""

    @abstractmethod
    def hashed(self, terms: tuple[str, ...]) -> str:
        """Return an expression of whole numbers that spreads the rows evenly, the same each time."""

    def text_of(self, column: ReadColumn) -> str:
        """Return the engine's own text of a column of an unmapped type, or "" where it has none that loses nothing."""
        return ""

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Return SQLAlchemy's errors, those of sockets, and what values of an unexpected class raise."""
        from sqlalchemy.exc import SQLAlchemyError

        return (SQLAlchemyError, OSError, ValueError, TypeError, OverflowError, pa.ArrowException)

    def begin(self, connection: Any) -> None:
        """Fix the session's settings and, where the engine has one, its read-only snapshot."""
        for setting in self.settings:
            connection.exec_driver_sql(setting)

    def find(self, connection: Any, table: str) -> Relation | None:
        """Return the table or view of this name."""
        for way in split_name(table):
            found = self.located(connection, way) if len(way) <= self.parts_max else None
            if found is not None:
                return Relation(".".join(self.quote(part) for part in found), f"table {shown(table)}", found)
        return None

    def describe(self, connection: Any, relation: Relation) -> tuple[ReadColumn, ...]:
        """Map the types of the columns."""
        return tuple(self._column(each) for each in self.described(connection, relation))

    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return nothing: the key is named in the specification."""
        return ()

    def indexed(self, connection: Any, relation: Relation, column: ReadColumn) -> bool:
        """Say no: a side that costs a scan for a range is read and sorted once."""
        return False

    def bound(self, column: ReadColumn, value: Any, upward: bool) -> Bound | None:
        """Return an operand where the type has one."""
        write = column.native.write
        term = write(value) if write is not None else None
        return None if term is None else Bound(term, True)

    def fetch(
        self, connection: Any, statement: Statement, columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
    ) -> Iterator[list[pa.Array]]:
        """Stream rows; closing the iterator closes the cursor."""
        result = run(connection, statement, stream=True)
        try:
            held: list[Any] = []
            weight = 0
            while fetched := result.fetchmany(min(FETCH_ROWS, rows - len(held))):
                held += fetched
                weight += sum(_weight(value) for row in fetched for value in row)
                if len(held) >= rows or weight >= payload_bytes:
                    yield _arrays(held, columns)
                    held, weight = [], 0
            if held:
                yield _arrays(held, columns)
        finally:
            result.close()

    def estimate_rows(self, connection: Any, relation: Relation) -> int | None:
        """Count."""
        return int(rows_of(connection, sql(f"SELECT COUNT(*) FROM {self.aliased(relation.source)}"))[0][0])

    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Take the rows whose hash falls in a share."""
        head = f"SELECT {', '.join(f'{term} AS c{at}' for at, term in enumerate(terms))}"
        head += f" FROM {self.aliased(relation.source)}"
        step = (self.estimate_rows(connection, relation) or 0) // max(1, rows)
        return sql(head) if step <= 1 else sql(f"{head} WHERE MOD({self.hashed(terms)}, {step}) = 0")

    def facts(self, connection: Any) -> dict[str, Any]:
        """Return the server's version where SQLAlchemy knows it."""
        version = getattr(connection.dialect, "server_version_info", None)
        return {"version": ".".join(str(part) for part in version)} if version else {}

    def as_text(self, column: ReadColumn) -> ReadColumn | None:
        """Return the engine's own text of an unmapped type, where it has one."""
        text = self.text_of(column)
        return text_column(column, text, Mapped(LogicalType("text"), "text")) if text else None

    def failure(self, error: BaseException, where: str) -> DeltaError:
        """Name the class of the error only: drivers' texts hold statements, values and addresses."""
        cause = getattr(error, "orig", None) or error
        return SideReadError(f"{where}: {type(cause).__name__} while reading.", where=where)

    def close(self, connection: Any) -> None:
        """Give the transaction back and close."""
        connection.close()

    def _column(self, each: Described) -> ReadColumn:
        found = self.mapped(*type_parts(each.type))
        if found is None:
            bare = ReadColumn(Column(each.name, None, each.type, each.nullable))
            advice = "Read it as text: read_as: {type: text}." if self.text_of(bare) else "Convert it in a query."
            return ReadColumn(Column(each.name, None, each.type, each.nullable, advice=advice))
        field = self.field(each.name)
        select, sort = (part.replace(MARK, field) for part in (found.select, found.sort))
        column = Column(each.name, found.kind, each.type, each.nullable)
        return ReadColumn(column, select, _carrier(found.kind), sort, found)


def type_parts(text: str) -> tuple[str, tuple[int, ...]]:
    """Split ``timestamp(6) with time zone`` into ``timestamp with time zone`` and (6,)."""
    found = _TYPE.fullmatch(text)
    if found is None:
        return text.lower(), ()
    name = " ".join(part.lower() for part in (found[1], found[3]) if part)
    numbers = [part.strip() for part in (found[2] or "").split(",")]
    if not all(part.lstrip("-").isdigit() for part in numbers if part):
        return (name if found[2] is None else text.lower()), ()
    return name, tuple(int(part) for part in numbers if part)


def clause(statement: Statement) -> Any:
    """Return a statement for SQLAlchemy: a colon of ours is escaped, values are bound by name."""
    import sqlalchemy

    pieces: list[str] = []
    values: dict[str, Any] = {}
    for part in statement.parts:
        if isinstance(part, Value):
            name = f"v{len(values)}"
            values[name] = part.value
            pieces.append(f":{name}")
        else:
            pieces.append(part.replace(":", "\\:"))
    return sqlalchemy.text("".join(pieces)).bindparams(**values)


def run(connection: Any, statement: Statement, stream: bool = False) -> Any:
    """Execute a statement and return its result."""
    return connection.execute(clause(statement), execution_options={"stream_results": stream})


def rows_of(connection: Any, statement: Statement) -> list[tuple[Any, ...]]:
    """Execute a statement of our own and return its rows."""
    return [tuple(row) for row in run(connection, statement).fetchall()]


def bound_value(value: Any) -> Statement:
    """Write a bound as the driver binds it."""
    return sql(Value(value))


def bound_number(value: Any) -> Statement | None:
    """Write a whole or decimal number as a literal: drivers bind long ones as floats."""
    text = f"{value:f}" if hasattr(value, "is_finite") else str(value)
    return sql(f"({text})") if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", text) and len(text) < 40 else None


def bound_int64(value: Any) -> Statement | None:
    """Write a whole number within 64 bits; there are no longer literals."""
    return bound_number(value) if -(2**63) < value < 2**63 else None


def bound_date(template: str) -> Callable[[Any], Statement | None]:
    """Return how a day is written: ``template`` has one question mark for the text ``YYYY-MM-DD``."""
    before, after = template.split("?")

    def write(days: int) -> Statement | None:
        text = date_text(days)
        return sql(before, Value(text), after) if len(text) == 10 else None

    return write


def bound_moment(template: str, digits: int) -> Callable[[Any], Statement | None]:
    """Return how a moment is written, ``YYYY-MM-DD HH:MM:SS`` with fraction digits; finer ones have no operand."""
    before, after = template.split("?")

    def write(nanos: int) -> Statement | None:
        days, clock = divmod(nanos, 86_400 * 10**9)
        day = date_text(days)
        if len(day) != 10 or clock % 10 ** (9 - digits):
            return None
        whole, _, fraction = time_text(clock).partition(".")
        return sql(before, Value(f"{day} {whole}.{fraction.ljust(digits, '0')}" if digits else f"{day} {whole}"), after)

    return write


def _weight(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else VALUE_BYTES


def _arrays(rows: list[Any], columns: tuple[ReadColumn, ...]) -> list[pa.Array]:
    return [decoded(list(values), each) for values, each in zip(zip(*rows, strict=True), columns, strict=True)]


def decoded(values: list[Any], each: ReadColumn) -> pa.Array:
    """Return the carrier of one column's values as the driver gave them. Raises: ValueRangeError, ValueError, TypeError."""
    form, kind = each.native.form, each.native.kind
    if form == "parsed":
        return _parsed(values, kind, each.column.name)
    found = [None if value is None else _FORMS[form](value) for value in values]
    return pa.array(found, each.arrow)


def _whole(value: Any) -> int:
    if int(value) != value:
        raise ValueError("a column of whole numbers holds another one")
    return int(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text comes as something else")
    return value


_FORMS: dict[str, Callable[[Any], Any]] = {
    "int": _whole,
    "float": float,
    "bool": bool,
    "text": _string,
    "char": lambda value: _string(value).rstrip(" "),
    "bytes": bytes,
    "hex": lambda value: bytes.fromhex(_string(value)),
}


def _parsed(values: list[Any], kind: LogicalType, name: str) -> pa.Array:
    """Read texts strictly; numbers keep one carrier whatever their digits."""
    from airflow_delta_provider.core.rules.parse import parse_text

    texts = [None if value is None else str(value).strip() for value in values]
    if kind.kind == "decimal":
        return pa.array([None if text is None else canonical_decimal(text) for text in texts], pa.string())
    array, bad = parse_text(pa.array(texts, pa.string()), kind)
    if any(bad.to_pylist()):
        text = next(text for text, wrong in zip(texts, bad.to_pylist(), strict=True) if wrong)
        raise ValueRangeError(f"Column {shown(name)}: {shown(text)} is no {kind.kind}.", where=f"column {shown(name)}")
    return array


def _carrier(kind: LogicalType) -> pa.DataType:
    from airflow_delta_provider.adapters.sql import null_carrier

    return null_carrier(kind)


__all__ = [
    "ALIAS",
    "MARK",
    "Described",
    "Mapped",
    "RowDialect",
    "bound_date",
    "bound_int64",
    "bound_moment",
    "bound_number",
    "bound_value",
    "clause",
    "rows_of",
    "run",
    "type_parts",
]
