"""One shard of a sweep: the side's rows against the predecessor's entries; packs go out as they fill, changes to a body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from airflow_delta_provider.adapters.side import Order
from airflow_delta_provider.core import documents, stream
from airflow_delta_provider.core.body import BodyFacts, BodyWriter
from airflow_delta_provider.core.bulk_sweep import sweep_batches
from airflow_delta_provider.core.errors import (
    DeltaError,
    DenominatorError,
    DiskLimitError,
    KeyDuplicateError,
    KeyNullError,
    RecordLimitError,
    UnsortedStreamError,
    shown,
)
from airflow_delta_provider.core.generation import Change, Tally, change_lines
from airflow_delta_provider.core.generations import generation_header
from airflow_delta_provider.core.ids import sha256_hex
from airflow_delta_provider.core.keytexts import key_texts
from airflow_delta_provider.core.manifest import build_manifest
from airflow_delta_provider.core.packs import PackWriter, index_bytes
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.sweeprows import RowEncoder
from airflow_delta_provider.core.types import KEEP_COLUMN, REFUSED_COLUMN
from airflow_delta_provider.engine.named import canceller
from airflow_delta_provider.engine.prefetch import Prefetched
from airflow_delta_provider.engine.spilled import read_spilled
from airflow_delta_provider.engine.sweep_open import OpenedSweep

WRITTEN_CHANGES = 1024
"""Changes that are written to the body at a time."""
KEPT_COLUMN = "\x00kept"
"""Name under which the filter's value travels beside a row; `stream` would drop rows by its usual name."""
SUMMARY = documents.build_summary([], [])
"""The summary of every sweep: no pairs of values were compared."""


@dataclass(frozen=True, slots=True)
class SweptShard:
    """What a sweep of one key range gives, besides its body and its packs.

    Units: ``pack_bytes`` written. ``header`` and ``manifest`` are of this range alone.
    """

    manifest: bytes
    header: bytes
    index: bytes
    facts: BodyFacts
    pack_bytes: int

    @property
    def document(self) -> documents.Document:
        """The header, parsed."""
        return documents.parse_generation(self.header)


@dataclass(frozen=True, slots=True)
class Packs:
    """Where packs come from and go to: ``read`` by digest, ``put`` in order."""

    read: Callable[[str], bytes]
    put: Callable[[bytes], object]


def sweep_shard(
    opened: OpenedSweep,
    key_range: KeyRange,
    body: BinaryIO,
    packs: Packs,
    *,
    watch: Callable[[int], None] | None = None,
    folder: str | None = None,
    spilled: Path | None = None,
) -> SweptShard:
    """Sweep one key range: the predecessor is read once, a pack at a time.

    ``watch`` is told the rows read so far and may raise. ``spilled`` is the sorted file to read instead of the side.
    A side whose rows only look sorted and are not is read again and sorted; packs put before are then orphans.
    Raises: KeyNullError, KeyDuplicateError, RecordLimitError, DiskLimitError, DenominatorError, PackDigestError, and what
    the side raises.
    """
    order = opened.order("target")
    ordered = spilled is not None or order is not Order.NONE
    start = body.tell()
    while True:
        try:
            return _sweep_once(opened, key_range, body, packs, ordered, watch, folder, spilled)
        except UnsortedStreamError as error:
            if not ordered or error.where != "target" or spilled is not None or order is not Order.HOPED:
                raise
        except RecordLimitError:
            if not ordered or order is not Order.HOPED:
                raise
        except stream.RefusedKeyError as error:
            raise refused_key(opened, error) from None
        ordered = False
        body.seek(start)
        body.truncate()


def _sweep_once(
    opened: OpenedSweep,
    key_range: KeyRange,
    body: BinaryIO,
    packs: Packs,
    ordered: bool,
    watch: Callable[[int], None] | None,
    folder: str | None,
    spilled: Path | None,
) -> SweptShard:
    bounds = (key_range.lower, key_range.upper)
    tally, counts = Tally(), stream.SideCounts()
    changes = _ChangeWriter(opened, BodyWriter(body, bounds))
    writer = PackWriter(changes.limited(packs.put))
    layout = opened.layout("target", key_range)
    kept_too = (KEPT_COLUMN,) if opened.filtered else ()
    layout = replace(layout, values=(*layout.values, *kept_too, REFUSED_COLUMN))
    encoder = RowEncoder(opened.comparison, opened.spec.schema_version)
    before = iter(()) if opened.predecessor is None else opened.predecessor.batches(packs.read, bounds)
    with closing(_read(opened, key_range, ordered, spilled)) as batches:
        kept = _kept(batches, counts, watch)
        blocks = stream.guarded_blocks(kept, layout, counts, ordered=ordered, folder=folder)
        seen = encoder.seen_batches(blocks, filtered=opened.filtered)
        for found in sweep_batches(before, seen, key_texts(opened.shared.key_types), tally, writer):
            changes.add(found)
    tally.add_null_keys(counts.null_key)
    tally.add_repeated(counts.duplicate_key)
    if tally.counts["read"] != counts.rows:
        sentence = f"target: {counts.rows} rows were read and {tally.counts['read']} accounted for."
        raise DenominatorError(sentence, where="target")
    block, facts = writer.close(), changes.close()
    predecessor = None if opened.predecessor is None else opened.predecessor.header_id
    sweep = {"failed": tally.counts["failed"], "predecessor": predecessor}
    manifest = build_manifest(opened.shared.context, bounds, facts, tally.population(), sha256_hex(SUMMARY), sweep)
    document = documents.parse_manifest(manifest)
    header = generation_header(document, sha256_hex(manifest), block, tally, opened.number, opened.hmac_key_id)
    return SweptShard(manifest, header, index_bytes(writer.rows), facts, block["bytes"])


def _read(opened: OpenedSweep, key_range: KeyRange, ordered: bool, spilled: Path | None) -> Prefetched[pa.RecordBatch]:
    if spilled is not None:
        return Prefetched(lambda: read_spilled(spilled, key_range), "target")
    request = opened.request("target", key_range, ordered=ordered)
    return Prefetched(lambda: opened.target.read(request), "target", canceller(opened.target))


def _kept(
    batches: Iterator[pa.RecordBatch], counts: stream.SideCounts, watch: Callable[[int], None] | None
) -> Iterator[pa.RecordBatch]:
    """Rename the filter's column, so that no row is dropped for it, and let every batch say which rows were refused.

    ``watch`` looks at the clock for each batch.
    """
    for batch in batches:
        if watch is not None:
            watch(counts.rows)
        names = batch.schema.names
        if KEEP_COLUMN in names:
            batch = batch.rename_columns([KEPT_COLUMN if name == KEEP_COLUMN else name for name in names])
        if REFUSED_COLUMN not in names:
            batch = batch.append_column(pa.field(REFUSED_COLUMN, pa.string()), pa.nulls(batch.num_rows, pa.string()))
        yield batch


class _ChangeWriter:
    """Writes changes to the delta body, some at a time, within the limits of the specification."""

    def __init__(self, opened: OpenedSweep, body: BodyWriter) -> None:
        self._version = opened.spec.schema_version
        self._ruled = opened.comparison.raw_keys
        self._limits = opened.spec.limits
        self._body = body
        self._held: list[Change] = []
        self._records = 0
        self._bytes = 0

    def add(self, changes: list[Change]) -> None:
        """Add changes in key order. Raises: RecordLimitError."""
        self._held += changes
        self._records += len(changes)
        limit = self._limits.max_discrepancies
        if limit is not None and self._records > limit:
            raise RecordLimitError(f"more than {limit} records differ.", where="limits.max_discrepancies")
        if len(self._held) >= WRITTEN_CHANGES:
            self._write()

    def limited(self, put: Callable[[bytes], object]) -> Callable[[bytes], None]:
        """Return ``put`` for packs, whose bytes count beside those of the body. It raises: DiskLimitError."""

        def put_within(pack: bytes) -> None:
            self._grow(len(pack))
            put(pack)

        return put_within

    def _grow(self, size: int) -> None:
        self._bytes += size
        limit = self._limits.max_bytes
        if limit is not None and self._bytes > limit:
            raise DiskLimitError(f"body and packs are larger than {limit} bytes.", where="limits.max_bytes")

    def close(self) -> BodyFacts:
        """Write what is left and return what a manifest says about the body."""
        self._write()
        return self._body.close()

    def _write(self) -> None:
        lines = change_lines(self._version, self._held, self._ruled)
        self._grow(sum(map(len, lines)) + len(lines))
        self._body.write(lines, [one.sort_key for one in self._held], [one.category for one in self._held])
        self._held = []


def refused_key(opened: OpenedSweep, error: stream.RefusedKeyError) -> DeltaError:
    """Return the public refusal of a NULL or repeated key, counted over the whole side; NULLs come first.

    A sweep keeps an entry for every key, so rows count here whatever the filter says of them.
    """
    names = ", ".join(repr(shown(pair.target)) for pair in opened.pairing.key)
    if opened.spec.nulls == "refuse":
        nulls = stream.count_null_keys(
            _key_batches(opened, opened.key_range), opened.layout("target", opened.key_range)
        )
        if nulls or error.reason == "null":
            return KeyNullError(f"target: key column {names} is NULL in {nulls} rows.", where="key")
    one = KeyRange(error.key, error.key + b"\x00")
    rows, _ = stream.rows_of_key(_key_batches(opened, one), opened.layout("target", one), error.key)
    text = stream.key_text(error.key, opened.shared.key_types)
    return KeyDuplicateError(f"target: key {text} occurs in {rows} rows.", where=text)


def _key_batches(opened: OpenedSweep, key_range: KeyRange) -> Iterator[pa.RecordBatch]:
    request = opened.request("target", key_range, ordered=False, values=False)
    return opened.target.read(replace(request, filter=None))
