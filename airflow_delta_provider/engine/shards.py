"""One shard: read both sides, compare, write the raw comparison; and the counted refusal of NULL and repeated keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from airflow_delta_provider.adapters.side import Order, Request
from airflow_delta_provider.core import stream
from airflow_delta_provider.core.compare import Progress, Tally, compare_blocks
from airflow_delta_provider.core.errors import (
    DeltaError,
    KeyDuplicateError,
    KeyNullError,
    RecordLimitError,
    UnsortedStreamError,
    shown,
)
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.rawcompare import RawWriter
from airflow_delta_provider.core.recorded import canonical
from airflow_delta_provider.core.rules import Typed
from airflow_delta_provider.engine.manners import records_at_most, too_different
from airflow_delta_provider.engine.named import canceller, packed, together, unpacker
from airflow_delta_provider.engine.narrow import Narrowed
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.prefetch import Nothing, Prefetched
from airflow_delta_provider.engine.spilled import read_spilled, watched

SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class _Read:
    """Where the rows of a shard come from: a sorted file, the buckets that fingerprints left, or the whole range.

    ``packs``: values may stay the bytes in which they came until they are seen to differ.
    """

    spilled: Mapping[str, Path]
    narrowed: Narrowed | None = None
    packs: bool = True

    def requests(self, opened: Opened, key_range: KeyRange, unsorted: set[str]) -> dict[str, Request]:
        """Return what is asked of both sides, which share work and leave values packed where they can."""
        asked = tuple(opened.request(name, key_range, ordered=name not in unsorted) for name in SIDES)
        if self.spilled or unsorted:
            return dict(zip(SIDES, asked, strict=True))
        if self.narrowed is None:
            asked = together(opened.source, opened.target, (asked[0], asked[1]))
        columns = opened.comparison.columns
        behind = {len(each.columns) - len(each.key) for each in asked}
        if self.packs and behind == {len(columns)} and not any(column.rules for column in columns):
            asked = packed(opened.source, opened.target, (asked[0], asked[1]))
        return dict(zip(SIDES, asked, strict=True))

    def started(
        self, opened: Opened, name: str, key_range: KeyRange, request: Request
    ) -> Prefetched[pa.RecordBatch] | Nothing:
        if name in self.spilled:
            return Prefetched(lambda: read_spilled(self.spilled[name], key_range), name)
        side = opened.side(name)
        requests = [request] if self.narrowed is None else self.narrowed.requests(request, name)
        if not requests:
            return Nothing()
        return Prefetched(lambda: (batch for each in requests for batch in side.read(each)), name, canceller(side))


def compare_shard(
    opened: Opened,
    key_range: KeyRange,
    file: BinaryIO,
    *,
    progress: Progress | None = None,
    folder: str | None = None,
    records_max: int | None = None,
    spilled: Mapping[str, Path] | None = None,
    narrowed: Narrowed | None = None,
) -> dict[str, Any]:
    """Compare one key range of both sides and write the raw comparison to ``file``; return its facts.

    Beyond what is written they count ``read_ms``, how long the comparison waited for rows. ``narrowed``: what
    fingerprints of this range left to be read.
    A side whose rows only look sorted and are not is read again and sorted here. ``folder`` takes the temporary files.
    ``spilled`` names for a side the sorted file to read instead (``spilled.spill_side``).
    Raises: KeyNullError, KeyDuplicateError, RecordLimitError, TooDifferentError, DenominatorError, ValueTextError and what
    sides raise.
    """
    spilled = spilled or {}
    most = records_at_most(opened)
    stops = most is not None and (records_max is None or most < records_max)
    records_max = most if stops else records_max
    hoped = {name for name in SIDES if name not in spilled and opened.order(name) is Order.HOPED}
    unsorted = {name for name in SIDES if name not in spilled and opened.order(name) is Order.NONE}
    packs = True
    while True:
        start, read = file.tell(), _Read(spilled, narrowed, packs)
        try:
            return _compare_once(opened, key_range, file, unsorted, read, progress, folder, records_max)
        except stream.UnpackError:
            packs = False
        except UnsortedStreamError as error:
            if error.where not in hoped - unsorted:
                raise
            unsorted.add(error.where)
        except RecordLimitError:
            if not hoped - unsorted and stops:
                raise too_different(opened.spec.limits, records_max or 0) from None
            if not hoped - unsorted:
                raise
            unsorted |= hoped  # rows out of order look like rows that differ
        except stream.RefusedKeyError as error:
            raise refused_key(opened, error) from None
        file.seek(start)
        file.truncate()


def _compare_once(
    opened: Opened,
    key_range: KeyRange,
    file: BinaryIO,
    unsorted: set[str],
    read: _Read,
    progress: Progress | None,
    folder: str | None,
    records_max: int | None,
) -> dict[str, Any]:
    tally = Tally()
    if read.narrowed is not None:
        read.narrowed.count_into(tally)
    writer = RawWriter(file, opened.shared.identity, (key_range.lower, key_range.upper), records_max)
    requests = read.requests(opened, key_range, unsorted)
    with ExitStack() as stack:
        for request in requests.values():
            if request.shared is not None:
                stack.callback(request.shared.close)
        source, target = (
            stack.enter_context(closing(read.started(opened, name, key_range, requests[name]))) for name in SIDES
        )

        def blocks(name: str, batches: Iterator[pa.RecordBatch], counts: stream.SideCounts) -> Iterator[stream.Block]:
            layout = replace(opened.layout(name, key_range), unpack=unpacker(name, opened.side(name), requests[name]))
            if progress is not None and name in unsorted:
                batches = watched(batches, lambda: progress(tally.source.rows, tally.target.rows))
            return stream.guarded_blocks(batches, layout, counts, ordered=name not in unsorted, folder=folder)

        compare_blocks(
            blocks("source", source, tally.source),
            blocks("target", target, tally.target),
            opened.comparison,
            tally,
            writer,
            progress,
        )
        waited_s = source.waited_s + target.waited_s
    facts = facts_of(tally)
    writer.close(facts)
    return {**facts, "read_ms": round(waited_s * 1000)}


def facts_of(tally: Tally) -> dict[str, Any]:
    """Return the counts of one comparison as its raw form holds them, the sums checked. Raises: DenominatorError."""
    return {
        "population": tally.population(),
        "categories": tally.categories,
        "diverged": tally.diverged,
        "rules": tally.rules,
        "key_rules": tally.key_rules,
        "rules_recorded": tally.rules_recorded,
        "key_rules_recorded": tally.key_rules_recorded,
        "records": sum(tally.categories.values()),
    }


def refused_key(opened: Opened, error: stream.RefusedKeyError) -> DeltaError:
    """Return the public refusal of a NULL or repeated key, counted over both whole sides; NULLs come first."""
    names = ", ".join(repr(shown(pair.source)) for pair in opened.pairing.key)
    if opened.spec.nulls == "refuse":
        nulls = {name: _count_nulls(opened, name) for name in SIDES}
        if any(nulls.values()) or error.reason == "null":
            return KeyNullError(
                f"key column {names} is NULL in {_rows(nulls['source'])} of the source"
                f" and {_rows(nulls['target'])} of the target.",
                where="key",
            )
    return _repeated(opened, error.key)


def _repeated(opened: Opened, key: bytes) -> KeyDuplicateError:
    types = [column.key_type for column in opened.typed.target_key]
    text = stream.key_text(key, types)
    parts = []
    for name in SIDES:
        rows, first = _rows_of_key(opened, name, key)
        if rows > 1 and opened.comparison.raw_keys and first is not None:
            parts.append(
                f"{name}: keys {_raw_texts(opened, name, first)} are equal under the key's rules ({_rows(rows)})"
            )
        elif rows > 1:
            parts.append(f"{name}: key {text} occurs in {_rows(rows)}")
    found = "; ".join(parts) or f"key {text} occurred more than once and does no longer: a side changed"
    return KeyDuplicateError(f"{found}.", where=text)


def _raw_texts(opened: Opened, name: str, first: pa.Table) -> str:
    columns = [
        canonical(Typed(column.carrier, first.column(column.name).combine_chunks(), None), column.carrier)
        for column in opened.key_columns(name)
    ]
    rows = ["NULL" if None in row else ", ".join(shown(part) for part in row) for row in zip(*columns, strict=True)]
    return " and ".join(row if len(columns) == 1 else f"({row})" for row in dict.fromkeys(rows))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _key_batches(opened: Opened, name: str, key_range: KeyRange) -> Iterator[pa.RecordBatch]:
    return opened.side(name).read(opened.request(name, key_range, ordered=False, values=False))


def _count_nulls(opened: Opened, name: str) -> int:
    whole = opened.key_range
    return stream.count_null_keys(_key_batches(opened, name, whole), opened.layout(name, whole))


def _rows_of_key(opened: Opened, name: str, key: bytes) -> tuple[int, pa.Table | None]:
    one = KeyRange(key, key + b"\x00")
    return stream.rows_of_key(_key_batches(opened, name, one), opened.layout(name, one), key)
