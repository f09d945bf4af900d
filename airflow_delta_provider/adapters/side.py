"""The seam between a data set and the comparison: a side gives typed columns and Arrow batches, in key order if it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from airflow_delta_provider.adapters.fingerprints import Buckets
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import KEEP_COLUMN, LogicalType

__all__ = [
    "BATCH_BYTES_MAX",
    "BATCH_ROWS",
    "KEEP_COLUMN",
    "Admitting",
    "Cancellable",
    "Column",
    "Order",
    "Packing",
    "Proving",
    "RangeCost",
    "Request",
    "Side",
    "SideSpec",
    "Threaded",
    "Together",
]

BATCH_ROWS = 65_536
BATCH_BYTES_MAX = 16 * 1024 * 1024
SAMPLE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a side.

    ``type`` is None where the engine type has no logical type; ``advice`` then says which read_as would help.
    ``untyped`` marks a column of a text file whose type nobody declared: it takes the type of its partner, read strictly.
    ``forms`` names for an untyped column what JSON values it holds: ``bool``, ``number``, ``text``, ``json``.
    """

    name: str
    type: LogicalType | None
    engine_type: str
    nullable: bool = True
    untyped: bool = False
    forms: frozenset[str] = frozenset()
    advice: str = ""


class Order(Enum):
    """What a side can promise about the order of its rows by given key columns."""

    PROMISED = "promised"
    """The engine sorts by canonical key order; a descent is a failure."""
    HOPED = "hoped"
    """The rows look sorted (file statistics); a descent means: sort them here and start over."""
    NONE = "none"
    """The rows come in any order and must be sorted here."""


class RangeCost(Enum):
    """What reading one key range costs a side."""

    INDEX = "index"
    """About the rows of the range."""
    SCAN = "scan"
    """The whole data set, each time."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one read asks of a side.

    ``columns``: names to deliver, in this order (key columns among them).
    ``key``, ``key_types``: key columns and the canonical types of the key; both empty where no range or order is wanted.
    ``lower``, ``upper``: canonical key bytes, half-open, None is open. The side may deliver more rows than the range
    holds, never fewer: the caller cuts exactly.
    ``filter``: a parsed boolean expression of this side, or None; it never drops rows, it fills ``KEEP_COLUMN``.
    ``ordered``: True where rows are wanted in canonical key order (only asked of a side whose order is not NONE).
    ``buckets``: how a fingerprint groups the range, or the buckets that a read is confined to; only of a side that
    takes fingerprints.
    ``refusable``: columns of which a value that the side refuses comes as NULL, while the row's REFUSED_COLUMN says why. A
    side that finds such values only in whole batches ends the read, as every side does for the other columns.
    ``packed``: the columns behind the key come as one, PACKED_COLUMN (binary without NULLs), as ``Packing.packed`` asked.
    ``shared``: what this read shares with that of the other side, from ``Together.together``, or None.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    key_types: tuple[LogicalType, ...] = ()
    lower: bytes | None = None
    upper: bytes | None = None
    filter: Any = None
    ordered: bool = False
    buckets: Buckets | None = None
    refusable: tuple[str, ...] = ()
    shared: Any = None
    packed: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES_MAX


class Side(Protocol):
    """One opened data set. Sides open lazily, hold read-only rights and never write.

    Raises, from every method: SideMissingError, ConnectError, SideReadError, SideFileError, SideLineError.
    """

    kind: str
    """Engine or file kind: ``postgresql``, ``sqlite``, ``duckdb``, ``parquet``, ``csv``, ``jsonl``, ..."""
    where: str
    """How errors name the side's data set, without credentials: ``table public.orders``."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in table order."""
        ...

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The declared primary key, or an empty tuple."""
        ...

    def resolve(self, types: Mapping[str, LogicalType]) -> Side:
        """Return the side with its untyped columns read strictly as these types (values that don't parse are refused)."""
        ...

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        """Say what order this side can deliver for these key columns, whose canonical types are ``key_types``."""
        ...

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        """Say what one key range costs."""
        ...

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield batches whose columns are ``request.columns`` (and KEEP_COLUMN if there is a filter), as carriers.

        Closing the generator cancels the read. Peak memory is a few batches.
        """
        ...

    def sample(self, key: tuple[str, ...], rows: int = SAMPLE_ROWS) -> pa.Table:
        """Return up to about ``rows`` key rows spread over the data set, in any order, without sorting the data set."""
        ...

    def estimate_rows(self) -> int | None:
        """Return about how many rows there are, from statistics where possible, or None."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the sidecar should hold of this side: engine version, snapshot token, file identities. No secrets."""
        ...

    def close(self) -> None:
        """Release connections and files; a second call does nothing."""
        ...


@runtime_checkable
class Admitting(Protocol):
    """A side whose engine stores values that their own types have not: zero dates, times of day beyond a day."""

    def admit(self, names: frozenset[str]) -> None:
        """Deliver such values of these columns, because a rule takes them away before anything else sees them."""
        ...


@runtime_checkable
class Threaded(Protocol):
    """A side that decodes what it reads in threads of its own, so that one process keeps more than one core busy."""

    decodes_in_threads: bool


@runtime_checkable
class Together(Protocol):
    """A side that can read what is stored alike in another one for both of them."""

    def together(self, mine: Request, other: Side, theirs: Request) -> tuple[Request, Request] | None:
        """Return both requests such that, read at the same time, they share work, or None where there is none to share.

        What each read delivers stays the same. ``close`` of either ``shared`` lets go of what was shared.
        """
        ...


@runtime_checkable
class Packing(Protocol):
    """A side that can leave the values of a row in the bytes in which they came, until somebody needs them."""

    def packed(self, mine: Request, other: Side, theirs: Request) -> tuple[Request, Request] | None:
        """Return both requests with packed values, or None where equal bytes of both sides might not be equal values.

        Both name the columns behind their key in the same order, pair by pair. A value that this side would refuse is
        never packed.
        """
        ...

    def unpack(self, request: Request, rows: pa.Array) -> list[pa.Array]:
        """Return the values of packed rows as carriers. Raises: UnpackError where no single carrier holds a column."""
        ...


@runtime_checkable
class Cancellable(Protocol):
    """A side whose running read another thread can end."""

    def cancel(self, cut: bool = False) -> None:
        """End the read that runs, from another thread: ask the engine; with ``cut`` give up its connection at once.

        Never raises for an engine that is gone, and returns within a few seconds.
        """
        ...


@runtime_checkable
class Proving(Protocol):
    """A side that can prove what it holds, so that a result over the same content need not be computed again."""

    def state(self) -> tuple[tuple[str, str], ...]:
        """Return each part of the content and its proof: a file and its SHA-256, a table and its snapshot.

        Equal proofs mean equal rows. A size, a time of change or a name proves nothing and is never one.
        """
        ...

    def needs(self, request: Request) -> tuple[int, ...]:
        """Return the places in ``state`` of all parts on which this read depends."""
        ...
