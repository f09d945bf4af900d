"""What a fingerprint of a side is: rows counted and digested by bucket of their key, without being sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from airflow_delta_provider.core.types import NUMBERS, LogicalType

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.side import Request

MD5, FAST = "md5", "fast"
"""How a row's text is digested: by MD5, or by the engine's own hash function, twice with different seeds."""
CANARY = "delta;canary;4294967297;é;N"
"""A text that both sides digest first: two engines that do not agree on it agree on nothing."""
FINGERPRINT = pa.schema(
    [("bucket", pa.int64()), ("rows", pa.int64()), ("kept", pa.int64()), ("low", pa.decimal128(38, 0)),
     ("high", pa.decimal128(38, 0))]
)  # fmt: skip
"""One row for each bucket that holds rows: its number (NULL where a key is), its rows, those that the filter keeps, and
the sums over these of both 64-bit halves of their digests, as signed numbers that never overflow."""
OWN = "own:"
"""Prefix of a form that is only compared with that of the same engine."""


@dataclass(frozen=True, slots=True)
class Form:
    """A column and the text form in which it is digested: one of ``forms_of``."""

    column: str
    form: str


@dataclass(frozen=True, slots=True)
class Buckets:
    """How the rows of a range fall into buckets by their key.

    ``width`` > 0: the only key column is a whole number, and its bucket is ``(key - base) // width``. ``width`` 0: the
    bucket is the MD5 of the key's text, modulo ``count``, a power of two.
    ``key``: the key columns with their forms. ``mark``: what stands for a value outside of what forms are proved for;
    it differs from side to side, so that such a value makes its bucket differ.
    ``chosen``: buckets, ascending, that a read is confined to; None where it is not.
    """

    key: tuple[Form, ...]
    mark: str
    count: int
    base: int = 0
    width: int = 0
    chosen: tuple[int, ...] | None = None


@runtime_checkable
class Fingerprinting(Protocol):
    """A side whose engine digests its own rows. Raises, from every method: as ``Side``."""

    def fingerprints(self) -> bool:
        """Tell whether the engine can; the other methods are only for those that say yes."""
        ...

    def writes(self, form: Form) -> bool:
        """Tell whether the engine writes this column in this form."""
        ...

    def unique_key(self) -> tuple[str, ...]:
        """Return columns of which the engine itself keeps every row's values not NULL and unique, or an empty tuple."""
        ...

    def canary(self, function: str) -> tuple[int, int] | None:
        """Return both halves of the digest of ``CANARY``, or None where the engine has no such function."""
        ...

    def link(self, values: Sequence[Form], payload_bytes: int) -> tuple[float, float] | None:
        """Return bytes of a row and bytes a second of the way here, from a few rows and a payload; None without a network.

        A row counts without its key. Units: bytes, bytes/s.
        """
        ...

    def exact(self, request: Request) -> bool:
        """Tell whether the engine cuts the range of a request exactly."""
        ...

    def key_span(self, request: Request) -> tuple[int, int] | None:
        """Return the least and the greatest whole number of the first key column in a range, None without rows."""
        ...

    def fingerprint(self, request: Request, values: Sequence[Form], function: str) -> Iterator[pa.RecordBatch]:
        """Yield batches of ``FINGERPRINT`` over the range and ``request.buckets``, in any order of buckets."""
        ...


def forms_of(source: LogicalType, target: LogicalType, *, same_engine: bool, key: bool) -> tuple[str, ...]:
    """Return the forms in which equal text of two columns proves equal values, the cheapest first; often none.

    A form gives different texts wherever docs/contract.md calls two values different; where it calls them equal, the
    texts may differ, which costs a read. ``own:`` forms are never those of a key column.
    """
    kinds = {source.kind, target.kind}
    own = same_engine and not key
    if kinds == {"int"}:
        return ("int",)
    if kinds <= {"int", "decimal"}:
        scales = [0 if each.kind == "int" else each.scale for each in (source, target)]
        common = [f"decimal:{max(scale or 0 for scale in scales)}"] if None not in scales else []
        return (*common, *([OWN + "decimal"] if own else []))
    if kinds <= {"float32", "float64"}:
        return (OWN + "float",) if own else ()
    if len(kinds) > 1 or source.kind in NUMBERS:
        return ()
    if source.kind in ("bool", "text", "bytes", "uuid"):
        return (source.kind,)
    if source.kind in ("date", "timestamp", "timestamp_tz"):
        return (*([OWN + source.kind] if own else []), source.kind)
    if source.kind in ("time", "interval", "json_text", "array"):
        return (OWN + source.kind,) if own else ()
    return ()
