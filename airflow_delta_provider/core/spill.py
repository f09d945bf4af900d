"""Sort a stream of batches by their key bytes, in bounded memory: sorted runs on disk, then one merge."""

from __future__ import annotations

import bisect
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.carriers import unified_batches
from airflow_delta_provider.core.types import KEY_BYTES

SORT_BYTES = 192 * 1024 * 1024
"""Bytes of one run in memory; sorting needs about twice as much for a moment."""
RUN_BATCH_BYTES = 1024 * 1024
OUT_ROWS = 65_536


def sort_batches(
    batches: Iterable[pa.RecordBatch], *, memory_bytes: int = SORT_BYTES, folder: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows ascending by KEY_BYTES.

    Units: ``memory_bytes`` bounds the rows held at once; what is over goes to temporary files under ``folder``,
    removed when the generator ends or is closed.
    """
    with tempfile.TemporaryDirectory(prefix="delta-sort-", dir=folder, ignore_cleanup_errors=True) as space:
        runs: list[Path] = []
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in batches:
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= memory_bytes:
                runs.append(_write_run(_sorted(held), Path(space) / f"{len(runs):06d}"))
                held, held_bytes = [], 0
        if not runs:
            if held:
                yield from _sorted(held).to_batches(max_chunksize=OUT_ROWS)
            return
        if held:
            runs.append(_write_run(_sorted(held), Path(space) / f"{len(runs):06d}"))
            held = []
        yield from _merge_runs(runs)


def _sorted(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(unified_batches(batches))
    return table.take(pc.sort_indices(table, sort_keys=[(KEY_BYTES, "ascending")])).combine_chunks()


def _write_run(table: pa.Table, path: Path) -> Path:
    rows = max(1, RUN_BATCH_BYTES * table.num_rows // max(table.nbytes, 1))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


class _Run:
    """One sorted run being merged: its current batch and how much of it is taken."""

    def __init__(self, path: Path) -> None:
        self.file = pa.memory_map(str(path))
        self.reader = pa.ipc.open_file(self.file)
        self.number = -1
        self.batch: Any = None
        self.advance()

    def advance(self) -> None:
        self.number += 1
        self.batch = self.reader.get_batch(self.number) if self.number < self.reader.num_record_batches else None

    def last(self) -> bytes:
        return bytes(self.batch.column(KEY_BYTES)[-1].as_py())

    def take_upto(self, bound: bytes) -> pa.RecordBatch:
        keys = self.batch.column(KEY_BYTES)
        rows = bisect.bisect_right(range(len(keys)), bound, key=lambda row: keys[row].as_py())
        part, rest = self.batch.slice(0, rows), self.batch.slice(rows)
        self.batch = rest
        if rest.num_rows == 0:
            self.advance()
        return part


def _merge_runs(paths: list[Path]) -> Iterator[pa.RecordBatch]:
    runs = [_Run(path) for path in paths]
    try:
        while live := [run for run in runs if run.batch is not None]:
            bound = min(run.last() for run in live)
            parts = [part for run in live if (part := run.take_upto(bound)).num_rows]
            yield from _sorted(parts).to_batches(max_chunksize=OUT_ROWS)
    finally:
        for run in runs:
            run.file.close()
