"""A side that knows whether it is the source or the target, and says so in every refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.fingerprints import Fingerprinting, Form
from airflow_delta_provider.adapters.load import Server
from airflow_delta_provider.adapters.side import (
    SAMPLE_ROWS,
    Admitting,
    Cancellable,
    Column,
    Order,
    Packing,
    Proving,
    RangeCost,
    Request,
    Side,
    Threaded,
    Together,
)
from airflow_delta_provider.core.errors import DeltaError, SideReadError
from airflow_delta_provider.core.stream import Unpack
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.engine.paced import paced, paced_rows


class NamedSide:
    """Passes everything on to a side; a refusal's message then begins with ``source:`` or ``target:``.

    ``rows_per_second``: how fast it may be read, None as fast as it goes.
    """

    def __init__(self, name: str, side: Side, rows_per_second: int | None = None) -> None:
        self.name = name
        self.rows_per_second = rows_per_second
        self.inner = side
        self.kind = side.kind
        self.where = side.where
        # asked of every shard, and a look at a protocol costs more than a small shard's comparison
        self.cancels = side if isinstance(side, Cancellable) else None
        self.prints = side if isinstance(side, Fingerprinting) else None

    @property
    def columns(self) -> tuple[Column, ...]:
        """As ``Side.columns``."""
        with named(self.name):
            return self.inner.columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """As ``Side.primary_key``."""
        with named(self.name):
            return self.inner.primary_key

    def resolve(self, types: Mapping[str, LogicalType]) -> Side:
        """As ``Side.resolve``."""
        with named(self.name):
            return NamedSide(self.name, self.inner.resolve(types), self.rows_per_second)

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        """As ``Side.order``."""
        with named(self.name):
            return self.inner.order(key, key_types)

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        """As ``Side.range_cost``."""
        with named(self.name):
            return self.inner.range_cost(key)

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        """As ``Side.read``."""
        rate = self.rows_per_second
        with named(self.name):
            if rate is None:
                yield from self.inner.read(request)
            else:
                slow = replace(request, batch_rows=paced_rows(rate, request.batch_rows))
                with closing(paced(self.inner.read(slow), rate)) as batches:
                    yield from batches

    def sample(self, key: tuple[str, ...], rows: int = SAMPLE_ROWS) -> pa.Table:
        """As ``Side.sample``."""
        with named(self.name):
            return self.inner.sample(key, rows)

    def estimate_rows(self) -> int | None:
        """As ``Side.estimate_rows``."""
        with named(self.name):
            return self.inner.estimate_rows()

    def facts(self) -> dict[str, Any]:
        """As ``Side.facts``."""
        with named(self.name):
            return self.inner.facts()

    def admit(self, names: frozenset[str]) -> None:
        """As ``Admitting.admit``; a side that stores no such values does nothing."""
        if isinstance(self.inner, Admitting):
            with named(self.name):
                self.inner.admit(names)

    def fingerprints(self) -> bool:
        """As ``Fingerprinting.fingerprints``; a side that has no fingerprints takes none."""
        return self.prints is not None and self.prints.fingerprints()

    def writes(self, form: Form) -> bool:
        """As ``Fingerprinting.writes``."""
        with named(self.name):
            return self._fingerprinting().writes(form)

    def unique_key(self) -> tuple[str, ...]:
        """As ``Fingerprinting.unique_key``."""
        with named(self.name):
            return self._fingerprinting().unique_key()

    def canary(self, function: str) -> tuple[int, int] | None:
        """As ``Fingerprinting.canary``."""
        with named(self.name):
            return self._fingerprinting().canary(function)

    def link(self, values: Sequence[Form], payload_bytes: int) -> tuple[float, float] | None:
        """As ``Fingerprinting.link``."""
        with named(self.name):
            return self._fingerprinting().link(values, payload_bytes)

    def exact(self, request: Request) -> bool:
        """As ``Fingerprinting.exact``."""
        with named(self.name):
            return self._fingerprinting().exact(request)

    def key_span(self, request: Request) -> tuple[int, int] | None:
        """As ``Fingerprinting.key_span``."""
        with named(self.name):
            return self._fingerprinting().key_span(request)

    def fingerprint(self, request: Request, values: Sequence[Form], function: str) -> Iterator[pa.RecordBatch]:
        """As ``Fingerprinting.fingerprint``."""
        with named(self.name):
            yield from self._fingerprinting().fingerprint(request, values, function)

    def _fingerprinting(self) -> Fingerprinting:
        if self.prints is None:
            raise SideReadError(f"{self.where} takes no fingerprints.", where=self.where)
        return self.prints

    def close(self) -> None:
        """As ``Side.close``."""
        self.inner.close()


def canceller(side: Side) -> Callable[[bool], None] | None:
    """Return what ends the running read of a side from another thread, or None where nothing does."""
    if isinstance(side, NamedSide):
        return None if side.cancels is None else side.cancels.cancel
    return side.cancel if isinstance(side, Cancellable) else None


def proving(side: Side) -> Proving | None:
    """Return the side that proves what it holds, or None where it cannot."""
    inner = side.inner if isinstance(side, NamedSide) else side
    return inner if isinstance(inner, Proving) else None


def server(side: Side) -> Server | None:
    """Return the side as a server with other users, or None where it is none."""
    inner = side.inner if isinstance(side, NamedSide) else side
    return inner if isinstance(inner, Server) else None


def decodes_in_threads(side: Side) -> bool:
    """Tell whether a side keeps more than one core busy by itself."""
    inner = side.inner if isinstance(side, NamedSide) else side
    return isinstance(inner, Threaded) and inner.decodes_in_threads


def together(source: Side, target: Side, requests: tuple[Request, Request]) -> tuple[Request, Request]:
    """Return the requests of both sides, made to share work where the sides can."""
    one, other = (side.inner if isinstance(side, NamedSide) else side for side in (source, target))
    found = one.together(requests[0], other, requests[1]) if isinstance(one, Together) else None
    return found or requests


def packed(source: Side, target: Side, requests: tuple[Request, Request]) -> tuple[Request, Request]:
    """Return the requests of both sides, with packed values where both sides can leave them so."""
    one, other = (side.inner if isinstance(side, NamedSide) else side for side in (source, target))
    found = one.packed(requests[0], other, requests[1]) if isinstance(one, Packing) else None
    return found or requests


def unpacker(name: str, side: Side, request: Request) -> Unpack | None:
    """Return what unpacks the rows of a read, or None where they are not packed."""
    inner = side.inner if isinstance(side, NamedSide) else side
    if not request.packed or not isinstance(inner, Packing):
        return None

    def unpack(rows: pa.Array) -> list[pa.Array]:
        with named(name):
            return inner.unpack(request, rows)

    return unpack


@contextmanager
def named(name: str) -> Iterator[None]:
    """Name the side in every refusal raised inside."""
    try:
        yield
    except DeltaError as error:
        if error.message.startswith(f"{name}:"):
            raise
        raise type(error)(f"{name}: {error.message}", where=error.where or name) from error
