"""The raw comparison of one shard: only rows that differ, in recorded form, and all counts, as one Arrow IPC stream.

It lives between the compare task and the sub-manifest task and is outside the promise of reproducible bytes
(docs/format.md, S7); what is built from it is inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from airflow_delta_provider.core.errors import InputShardError, RecordLimitError

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


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One row that differs; every member but ``sort_key`` and ``category`` is canonical JSON text or None.

    ``source_key`` and ``target_key`` are set where the contract has a rule on a key column.
    """

    sort_key: bytes
    category: str
    columns: bytes | None
    source_value: bytes | None
    target_value: bytes | None
    source_key: bytes | None = None
    target_key: bytes | None = None


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
        self._rows: list[RawRecord] = []
        self._held_bytes = 0
        self._records_max = records_max
        self.records = 0

    def add(self, records: Sequence[RawRecord]) -> None:
        """Add records that follow those added before."""
        self.records += len(records)
        if self._records_max is not None and self.records > self._records_max:
            raise RecordLimitError(
                f"more than {self._records_max} records differ; {self.records} had been counted.",
                where="limits.max_discrepancies",
            )
        for record in records:
            self._rows.append(record)
            self._held_bytes += len(record.sort_key) + len(record.source_value or b"") + len(record.target_value or b"")
            if len(self._rows) >= FLUSH_ROWS or self._held_bytes >= FLUSH_BYTES:
                self._flush()

    def close(self, facts: dict[str, Any]) -> None:
        """Write what is held and the facts, and end the stream."""
        self._flush()
        last: dict[str, list[Any]] = {name: [None] for name in SCHEMA.names}
        last["facts"] = [orjson.dumps(facts, option=orjson.OPT_SORT_KEYS).decode()]
        self._writer.write_batch(pa.record_batch(last, schema=SCHEMA))
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            columns = [
                pa.array([getattr(row, name) for row in self._rows], SCHEMA.field(name).type)
                for name in SCHEMA.names[:-1]
            ]
            columns.append(pa.nulls(len(self._rows), pa.large_string()))
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
            self._rows = []
            self._held_bytes = 0


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
