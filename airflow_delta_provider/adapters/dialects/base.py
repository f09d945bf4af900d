"""What one database must say so that a table of it can be a side: the seam under adapters/sql.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.spelling import ALIAS, Spelling
from airflow_delta_provider.adapters.dialects.statement import Statement
from airflow_delta_provider.adapters.load import Explained, Load
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.errors import DeltaError, SideReadError
from airflow_delta_provider.core.types import LogicalType

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.dialects.digests import Digests

__all__ = [
    "ALIAS",
    "CANCEL_TIMEOUT_S",
    "DRAIN_TIMEOUT_S",
    "Bound",
    "Decoder",
    "Dialect",
    "ReadColumn",
    "Relation",
    "gathered",
    "row_batches",
    "split_name",
    "text_column",
]

CANCEL_TIMEOUT_S = 3
"""How long an engine has to take a cancellation; then its connection is cut."""
DRAIN_TIMEOUT_S = 5
"""How long it then has to end what it was sending."""
ONE_PART_MAX = 8
"""Most parts into which a dotted table name is split."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What a side reads.

    ``source`` is a FROM item without alias: a quoted name, or a query in brackets. ``where`` names it in errors.
    ``parts`` is the catalog path of a table, last its own name; empty for a query.
    """

    source: str
    where: str
    parts: tuple[str, ...] = ()

    @property
    def is_query(self) -> bool:
        """True where a query is read and no catalog knows it."""
        return not self.parts


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """One column and how it is read.

    ``select``: the expression whose value the driver fetches. ``arrow``: the carrier that ``fetch`` gives for it.
    ``sort``: an expression whose order in this engine, NULL aside, is the order of canonical keys; "" where it has none.
    ``native``: whatever the dialect needs to decode and to bind (a type number, a scale); nobody else reads it.
    A column without a logical type has "" and null throughout and is never read.
    """

    column: Column
    select: str = ""
    arrow: pa.DataType | None = None
    sort: str = ""
    native: Any = None


@dataclass(frozen=True, slots=True)
class Bound:
    """One component of a key bound as this engine can hold it.

    ``exact`` is False where the value was moved outward, to the next one that the column's type has.
    """

    term: Statement
    exact: bool


@runtime_checkable
class PackingDialect(Protocol):
    """A dialect whose rows can stay the bytes in which they came, as ``Packing`` says of sides."""

    def packs(self, mine: ReadColumn, theirs: ReadColumn) -> bool:
        """Tell whether equal bytes of two columns are equal values, and no value of them is ever refused."""

    def fetch_packed(
        self,
        connection: Any,
        statement: Statement,
        columns: tuple[ReadColumn, ...],
        heads: int,
        rows: int,
        payload_bytes: int,
    ) -> Iterator[list[pa.Array]]:
        """As ``Dialect.fetch``, with all columns behind the first ``heads`` as one binary array."""

    def unpack(self, columns: tuple[ReadColumn, ...], rows: pa.Array) -> list[pa.Array]:
        """Return the columns of such a binary array. Raises: UnpackError, and the driver's own errors."""


class Dialect(Spelling, ABC):
    """One database engine. Stateless: the connection is handed in, so one dialect serves any number of sides.

    Every method may raise the driver's own errors (``driver_errors``); SqlSide turns them into refusals.
    """

    kind: str
    """Name of the engine, as ``Side.kind``."""
    parser: str
    """Name of the SQL dialect for the filter's parser and writer."""
    paramstyle: str = "qmark"
    local_filters: bool = False
    """True where filters are evaluated here, over the batches."""
    digests: Digests | None = None
    """How the engine digests its rows; None where it does not (filters of such rows are never evaluated here)."""

    @abstractmethod
    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Return what the driver raises; called only while one is handled or a read runs."""

    @abstractmethod
    def begin(self, connection: Any) -> None:
        """Make the session read-only, in UTC, and hold one snapshot where the engine has it."""

    @abstractmethod
    def find(self, connection: Any, table: str) -> Relation | None:
        """Return the table or view of this name, or None: the name as it stands first, then split at its dots."""

    @abstractmethod
    def describe(self, connection: Any, relation: Relation) -> tuple[ReadColumn, ...]:
        """Return the columns in table order."""

    @abstractmethod
    def primary_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the declared primary key in key order, or an empty tuple."""

    @abstractmethod
    def indexed(self, connection: Any, relation: Relation, column: ReadColumn) -> bool:
        """Tell whether an index that starts with this column serves its canonical order."""

    @abstractmethod
    def bound(self, column: ReadColumn, value: Any, upward: bool) -> Bound | None:
        """Return a value as an operand that compares with ``column.sort``, or None where the engine cannot hold it.

        ``value`` by the column's logical kind: bool, str (text, uuid), bytes, int, Decimal, float (finite or not), days
        since 1970-01-01 (date), nanoseconds (time; timestamps since 1970-01-01). A value that the column's type cannot hold
        exactly moves to the nearest one above (``upward``) or below, with ``exact`` False.
        """

    @abstractmethod
    def fetch(
        self, connection: Any, statement: Statement, columns: tuple[ReadColumn, ...], rows: int, payload_bytes: int
    ) -> Iterator[list[pa.Array]]:
        """Run a SELECT of these columns and yield their arrays, at most about ``rows`` rows and ``payload_bytes`` a batch.

        Closing the iterator cancels the statement.
        """

    @abstractmethod
    def estimate_rows(self, connection: Any, relation: Relation) -> int | None:
        """Return about how many rows there are, from statistics where there are some."""

    @abstractmethod
    def sampled(self, connection: Any, relation: Relation, terms: tuple[str, ...], rows: int) -> Statement:
        """Return a SELECT of ``terms`` over about ``rows`` rows from all over the relation, without a sort of it.

        The same rows each time where the engine can, so that a plan made twice is one plan.
        """

    @abstractmethod
    def facts(self, connection: Any) -> dict[str, Any]:
        """Return the engine's version and, where it has one, the token of the snapshot."""

    def unique_key(self, connection: Any, relation: Relation) -> tuple[str, ...]:
        """Return the primary key where it holds for all rows of a read, else an empty tuple."""
        return self.primary_key(connection, relation)

    def query(self, text: str) -> Relation:
        """Wrap a query; the line breaks keep a comment at its end from reaching our text."""
        return Relation("(\n" + text.strip().rstrip(";") + "\n)", "query")

    def order_term(self, column: ReadColumn) -> str:
        """Write one term of ORDER BY: canonical order, NULL first."""
        return f"{column.sort} ASC NULLS FIRST"

    def as_text(self, column: ReadColumn) -> ReadColumn | None:
        """Return a column of an unmapped type read as the text that the engine writes for it, or None where that loses something.

        It has no order that a read may ask for.
        """
        return None

    def admitting(self, column: ReadColumn) -> ReadColumn:
        """Return a column that also delivers what its logical type has not, because a rule takes it away first.

        Zero dates come as ``DATE_ZERO`` and ``TIMESTAMP_ZERO``, lengths of time as ``time64`` outside of one day.
        """
        return column

    def keep_column(self, expression: str) -> ReadColumn:
        """Return the column that holds a filter's verdict."""
        return ReadColumn(Column("", LogicalType("bool"), "boolean"), expression, pa.bool_())

    def failure(self, error: BaseException, where: str) -> DeltaError:
        """Return the refusal for a driver's error during a read; it must hold no credentials and no cell values."""
        return SideReadError(f"{where}: {type(error).__name__} while reading.", where=where)

    def limit(self, connection: Any, seconds: float) -> bool:
        """Let no statement of the session run longer; False where the engine has no such limit."""
        return False

    def load(self, connection: Any) -> Load | None:
        """Return how busy the server is, None where it does not tell."""
        return None

    def explained(self, connection: Any, statement: Statement) -> Explained | None:
        """Return what the planner says of a statement, None where it says nothing."""
        return None

    def cancel(self, connection: Any, cut: bool) -> None:
        """End the statement that runs, from another thread; with ``cut`` end the connection.

        Returns within ``CANCEL_TIMEOUT_S`` and never raises what the driver does.
        """

    def close(self, connection: Any) -> None:
        """Give the snapshot back and close the connection."""
        connection.close()


def text_column(each: ReadColumn, select: str, native: Any = None) -> ReadColumn:
    """Return a column of an unmapped type, read as text by an expression."""
    column = Column(each.column.name, LogicalType("text"), each.column.engine_type, each.column.nullable)
    return ReadColumn(column, select, pa.string(), "", native)


def split_name(table: str) -> list[tuple[str, ...]]:
    """Return the ways to read a table name, the likeliest first.

    The whole text as one name comes first, so that a table called ``a.b`` is found; then the text cut at its dots, with
    double quotes or backticks around a part; then the cuts at single dots, so that ``s.a.b`` can be ``a.b`` in ``s``.
    """
    ways: list[tuple[str, ...]] = [(table,)]
    quoted = _unquoted(table)
    if quoted:
        ways.append(quoted)
    pieces = table.split(".")
    if 2 <= len(pieces) <= ONE_PART_MAX:
        ways += [(".".join(pieces[:at]), ".".join(pieces[at:])) for at in range(1, len(pieces))]
        if len(pieces) >= 3:
            ways.append((pieces[0], pieces[1], ".".join(pieces[2:])))
    seen: list[tuple[str, ...]] = []
    for way in ways:
        if all(way) and way not in seen:
            seen.append(way)
    return seen


def _unquoted(table: str) -> tuple[str, ...] | None:
    parts: list[str] = []
    at = 0
    while at <= len(table):
        mark = table[at : at + 1]
        if mark in ('"', "`"):
            part, after = _quoted_part(table, at, mark)
            if part is None:
                return None
        else:
            after = table.find(".", at)
            after = len(table) if after < 0 else after
            part = table[at:after]
        parts.append(part)
        if after >= len(table):
            return tuple(parts)
        if table[after] != ".":
            return None
        at = after + 1
    return None


def _quoted_part(table: str, at: int, mark: str) -> tuple[str | None, int]:
    text = ""
    index = at + 1
    while index < len(table):
        if table[index] == mark:
            if table[index + 1 : index + 2] != mark:
                return text, index + 1
            index += 1
        text += table[index]
        index += 1
    return None, index


Decoder = Callable[[list[Any]], pa.Array]
CHUNK_ROWS_FIRST = 1
"""One row tells what rows weigh, before many of them are held at once."""


def row_batches(
    fetchmany: Callable[[int], list[tuple[Any, ...]]], decoders: list[Decoder], rows: int, payload_bytes: int
) -> Iterator[list[pa.Array]]:
    """Turn the rows of a DB-API cursor into arrays, bounded by rows and by bytes.

    Chunks start small and grow with what the values weigh, so that a table of megabyte texts is never fetched by the
    ten thousand.
    """
    parts: list[list[pa.Array]] = []
    held = weight = 0
    chunk = min(CHUNK_ROWS_FIRST, rows)
    while fetched := fetchmany(chunk):
        arrays = [decode(list(values)) for decode, values in zip(decoders, zip(*fetched, strict=True), strict=True)]
        parts.append(arrays)
        size = sum(array.nbytes for array in arrays)
        held, weight = held + len(fetched), weight + size
        if held >= rows or weight >= payload_bytes:
            yield gathered(parts)
            parts, held, weight = [], 0, 0
        each = max(1, size // len(fetched))
        chunk = max(1, min(rows - held, chunk * 4, payload_bytes // each // 4))
    if held:
        yield gathered(parts)


def gathered(parts: list[list[pa.Array]]) -> list[pa.Array]:
    """Put the arrays of several chunks together, column by column; a text column with one binary chunk becomes binary."""
    if len(parts) == 1:
        return parts[0]
    columns: list[pa.Array] = []
    for chunks in zip(*parts, strict=True):
        kinds = {chunk.type for chunk in chunks}
        wide = max(kinds, key=lambda kind: ("binary" in str(kind), str(kind))) if len(kinds) > 1 else None
        columns.append(pa.concat_arrays([chunk.cast(wide) for chunk in chunks] if wide else list(chunks)))
    return columns
