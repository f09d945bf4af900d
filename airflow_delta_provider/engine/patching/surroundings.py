"""The rows around those that a patch touches, as they were before it: kept where ``checkpoint_scope`` is ``ranges``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.dialects.statement import sql
from airflow_delta_provider.adapters.ranges import range_predicate
from airflow_delta_provider.core import checkpoint
from airflow_delta_provider.core.body import BodyFacts, read_lines
from airflow_delta_provider.core.errors import CheckpointMismatchError
from airflow_delta_provider.core.log import head, walk_back
from airflow_delta_provider.core.spill import sort_batches
from airflow_delta_provider.core.store import slots
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.types import KEY_BYTES
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.rows import TouchedRows

SURROUNDINGS = "surroundings"


class Surroundings:
    """Every row of the written side in the key ranges around the touched rows, in a local file and then in the store.

    A range goes from the first to the last touched key of each batch of records, so that rows which differ far apart
    take in what lies between them. The lines are those of a restore body, ascending by key; a repeated key has several.
    """

    def __init__(self, context: Context, rows: TouchedRows, patch_id: str, folder: Path) -> None:
        self._context = context
        self._rows = rows
        self._patch_id = patch_id
        self._path = folder / "surroundings.jsonl"
        self._facts: BodyFacts | None = None
        self.digest: str | None = None

    def take(self) -> None:
        """Read the rows inside the open transaction of the caller."""
        lines = checkpoint.LineFile(self._path)
        types, names = self._rows.types, self._rows.names
        for first, last in self._ranges():
            for batch in sort_batches(self._keyed(first, last), folder=str(self._path.parent)):
                keys = batch.column(KEY_BYTES).to_pylist()
                rows = self._rows.forms.rows(batch.select(names), types)
                lines.write(
                    [
                        checkpoint.restore_line(
                            [[name, types[name].schema, row.raw[name]] for name in names], key.hex()
                        )
                        for key, (_, row) in zip(keys, rows, strict=True)
                    ]
                )
        self._facts = lines.close()

    def resume(self, checkpoint_id: str) -> bool:
        """Find what an earlier try published; return False where nothing was, and nothing can have been written yet.

        Raises: CheckpointMismatchError where that try kept the touched rows alone and may have written since.
        """
        context = self._context
        self.digest = slots.read_slot(context.store, context.pair_id, SURROUNDINGS, self._patch_id)
        if self.digest is not None:
            return True
        entries = walk_back(context.store, context.pair_id, head(context.store, context.pair_id))
        if any(entry.kind == "checkpoint" and entry.ref == checkpoint_id for entry in entries):
            raise CheckpointMismatchError(
                "This patch was begun with checkpoint_scope touched, and the rows around may be other ones by now: go on"
                " with touched.",
                where="checkpoint_scope",
            )
        return False

    def publish(self) -> None:
        """Put the rows into the store and into slot ``surroundings/<patch id>``; an earlier try's stand."""
        if self.digest is not None or self._facts is None:
            return
        context, sha256 = self._context, self._facts.sha256
        checkpoint.put_body(context.store, context.pair_id, SURROUNDINGS, self._path, sha256, context.seal_key)
        earlier = slots.claim(context.store, context.pair_id, SURROUNDINGS, self._patch_id, sha256)
        self.digest = earlier or sha256

    def _ranges(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield first and last touched key of each batch; of all where a read is one of the whole table anyway."""
        bounds = [
            (bytes.fromhex(records[0]["sort_key"]), bytes.fromhex(records[-1]["sort_key"]))
            for records in self._context.records()
            if records
        ]
        if bounds and self._context.ruled_key:
            bounds = [(bounds[0][0], bounds[-1][1])]
        yield from bounds

    def _keyed(self, first: bytes, last: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range, with their key bytes."""
        rows, lower, upper = self._rows, pa.scalar(first, pa.large_binary()), pa.scalar(last, pa.large_binary())
        for batch in self._read(first, last):
            keys = pa.array(rows.forms.key_bytes(batch, rows.types), pa.large_binary())
            inside = pc.and_(pc.greater_equal(keys, lower), pc.less_equal(keys, upper))
            yield batch.append_column(KEY_BYTES, keys).filter(inside)

    def _read(self, first: bytes, last: bytes) -> Iterator[pa.RecordBatch]:
        context, writer, names = self._context, self._rows.writer, self._rows.names
        if context.ruled_key:
            return writer.scan(names, lock=False)
        key = tuple(writer.columns[column.own(context.side)].read for column in context.key)
        term = range_predicate(writer.dialect, key, tuple(context.key_types), first, last + b"\x00")
        return writer.fetched(sql("") if term is None else sql(" WHERE ", term), names, False)


def read_surroundings(
    store: Store, pair_id: str, patch_id: str, seal_key: bytes | None, path: Path
) -> Iterator[Sequence[bytes]]:
    """Copy the rows around a patch to a local file, opened and checked, and yield its lines in batches.

    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH) where none were kept, or they are damaged.
    """
    digest = slots.read_slot(store, pair_id, SURROUNDINGS, patch_id)
    if digest is None:
        raise CheckpointMismatchError(f"Patch {patch_id} kept the touched rows alone.", where=patch_id)
    checkpoint.fetch_body(store, pair_id, SURROUNDINGS, digest, seal_key, path)
    with closing(path.open("rb")) as file:
        yield from read_lines(file)
