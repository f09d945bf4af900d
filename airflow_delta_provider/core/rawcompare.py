"""The raw comparison of one shard: only rows that differ, in recorded form, and all counts, as one Arrow IPC stream.

It lives between the compare task and the sub-manifest task and is outside the promise of reproducible bytes
(docs/format.md, S7); what is built from it is inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.arrays import binary_list
from airflow_delta_provider.core.errors import InputShardError, RecordLimitError
from airflow_delta_provider.core.rowtext import repeated

FLUSH_ROWS = 16_384
FLUSH_BYTES = 16 * 1024 * 1024
"""Bytes of values held before they are written."""
HEAD = b"delta_raw"
"""Name of the stream's metadata entry that holds what is known from the start."""
SCHEMA = pa.schema(
    [
        ("sort_key", pa.large_binary()),
        ("category", pa.string()),
        ("columns", pa.large_string()),
        ("source_value", pa.large_string()),
        ("target_value", pa.large_string()),
        ("source_key", pa.large_string()),
        ("target_key", pa.large_string()),
        ("facts", pa.large_string()),
    ]
)
"""One row for each record; values are canonical JSON texts. The last row holds ``facts`` alone."""


class RawWriter:
    """Writes records as they come, in key order; ``close`` adds the facts.

    ``identity`` names the documents that the shard shares with all others; bounds are key bytes.
    Raises: RecordLimitError once more than ``records_max`` records were added.
    """

    def __init__(
        self,
        file: BinaryIO,
        identity: str,
        key_range: tuple[bytes | None, bytes | None],
        records_max: int | None = None,
    ) -> None:
        head = {"identity": identity, "key_range": [None if bound is None else bound.hex() for bound in key_range]}
        self._writer = pa.ipc.new_stream(file, SCHEMA.with_metadata({HEAD: orjson.dumps(head)}))
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self._records_max = records_max
        self.records = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records that follow those added before, as `raw_batch` gives them."""
        self.demand_room(batch.num_rows)
        self.records += batch.num_rows
        rows_most = min(FLUSH_ROWS, max(1, batch.num_rows * FLUSH_BYTES // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows_most):
            part = batch.slice(start, rows_most)
            if self._held_rows + part.num_rows > FLUSH_ROWS or self._held_bytes + part.nbytes > FLUSH_BYTES:
                self._flush()
            self._held.append(part)
            self._held_rows += part.num_rows
            self._held_bytes += part.nbytes

    def demand_room(self, more: int) -> None:
        """Refuse so many more records where they are too many. Raises: RecordLimitError."""
        found = self.records + more
        if self._records_max is not None and found > self._records_max:
            raise RecordLimitError(
                f"more than {self._records_max} records differ; {found} had been counted.",
                where="limits.max_discrepancies",
            )

    def close(self, facts: dict[str, Any]) -> None:
        """Write what is held and the facts, and end the stream."""
        self._flush()
        last: dict[str, list[Any]] = {name: [None] for name in SCHEMA.names}
        last["facts"] = [orjson.dumps(facts, option=orjson.OPT_SORT_KEYS).decode()]
        self._writer.write_batch(pa.record_batch(last, schema=SCHEMA))
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_batch(_joined(self._held))
            self._held = []
            self._held_rows = self._held_bytes = 0


def raw_batch(
    sort_keys: pa.LargeBinaryArray,
    category: str,
    columns: pa.LargeBinaryArray | None,
    source_values: pa.LargeBinaryArray | None,
    target_values: pa.LargeBinaryArray | None,
    source_keys: Sequence[bytes] | None,
    target_keys: Sequence[bytes] | None,
) -> pa.RecordBatch:
    """Return records of one category, in key order, from canonical JSON texts; None where no record has such a member.

    ``columns`` goes with ``value_diverged``; ``source_keys`` and ``target_keys`` where a rule is on a key column.
    """
    count = len(sort_keys)
    members = [columns, source_values, target_values]
    members += [None if keys is None else binary_list(list(keys)) for keys in (source_keys, target_keys)]
    nothing = pa.nulls(count, pa.large_string())
    texts = [nothing if member is None else member.cast(pa.large_string()) for member in members]
    categories = repeated(category.encode(), count).cast(pa.string())
    return pa.RecordBatch.from_arrays([sort_keys, categories, *texts, nothing], schema=SCHEMA)


def in_key_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the records of some batches as one, by their keys."""
    joined = _joined(batches)
    return joined if len(batches) == 1 else joined.take(pc.sort_indices(joined.column("sort_key")))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches()[0]


class RawReader:
    """Reads a raw comparison; ``facts`` is known once the records were read to the end.

    ``identity`` and ``key_range`` (key bytes, half-open, None is open) are known from the start.
    """

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._reader = pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputShardError("this is no raw comparison.") from error
        if not self._reader.schema.equals(SCHEMA):
            raise InputShardError("this is no raw comparison.")
        head = orjson.loads((self._reader.schema.metadata or {}).get(HEAD, b"{}"))
        self.identity: str = head.get("identity", "")
        lower, upper = head.get("key_range", (None, None))
        self.key_range = (
            None if lower is None else bytes.fromhex(lower),
            None if upper is None else bytes.fromhex(upper),
        )
        self.facts: dict[str, Any] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, in key order. Raises: InputShardError where the stream was cut."""
        try:
            for batch in self._reader:
                if batch.num_rows == 1 and batch.column("facts")[0].is_valid:
                    self.facts = orjson.loads(batch.column("facts")[0].as_py())
                    return
                yield batch
        except (pa.ArrowInvalid, OSError) as error:
            raise InputShardError("a raw comparison was cut.") from error
        raise InputShardError("a raw comparison was cut.")
