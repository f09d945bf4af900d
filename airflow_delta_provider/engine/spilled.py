"""A side read and sorted once into a local file, from which every shard then reads its range."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa

from airflow_delta_provider.adapters.side import Order
from airflow_delta_provider.core import stream
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.spill import sort_batches
from airflow_delta_provider.core.types import KEY_BYTES
from airflow_delta_provider.engine.named import canceller
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.prefetch import Prefetched

SPILL_ROWS = 16_384


def watched(batches: Iterable[pa.RecordBatch], watch: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Pass on batches, calling ``watch`` before each: it may end a sort that takes too long."""
    for batch in batches:
        watch()
        yield batch


def spill_side(opened: Opened, name: str, folder: Path, *, watch: Callable[[], None] = lambda: None) -> Path:
    """Read one side's whole key range once, sort it, and return the index of the files that hold it.

    Disk: about the size of the compared columns. ``watch`` is called for each batch read, and may end it by raising.
    Raises: what the side raises, and UnsortedStreamError where a side that
    promises order does not keep it: the index would miss rows.
    """
    layout = opened.layout(name, opened.key_range)
    ordered = opened.order(name) is Order.PROMISED
    request = opened.request(name, opened.key_range, ordered=ordered)
    path = folder / f"{name}.index"
    index: list[tuple[str, str, int]] = []
    with (
        closing(Prefetched(lambda: opened.side(name).read(request), name, canceller(opened.side(name)))) as batches,
        ExitStack() as files,
    ):
        keyed = stream.keyed_batches(watched(batches, watch), layout)
        rows = stream.ascending_batches(keyed, layout) if ordered else sort_batches(keyed, folder=str(folder))
        writers: dict[pa.Schema, tuple[str, pa.ipc.RecordBatchFileWriter, list[int]]] = {}
        for batch in rows:
            if batch.schema not in writers:
                part = f"{name}-{len(writers)}.arrow"
                writer = files.enter_context(pa.ipc.new_file(str(folder / part), batch.schema))
                writers[batch.schema] = (part, writer, [0])
            part, writer, written = writers[batch.schema]
            for start in range(0, batch.num_rows, SPILL_ROWS):
                rows_part = batch.slice(start, SPILL_ROWS)
                index.append((rows_part.column(KEY_BYTES)[0].as_py().hex(), part, written[0]))
                writer.write_batch(rows_part)
                written[0] += 1
    path.write_text(json.dumps(index))
    return path


def read_spilled(path: Path, key_range: KeyRange) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a spilled side that may hold keys of a range, in order."""
    index = json.loads(path.read_text())
    firsts = [bytes.fromhex(first) for first, _, _ in index]
    start = 0 if key_range.lower is None else max(0, bisect.bisect_left(firsts, key_range.lower) - 1)
    stop = len(firsts) if key_range.upper is None else bisect.bisect_left(firsts, key_range.upper)
    with ExitStack() as files:
        readers: dict[str, pa.ipc.RecordBatchFileReader] = {}
        for _, part, number in index[start:stop]:
            if part not in readers:
                file = files.enter_context(pa.memory_map(str(path.parent / part)))
                readers[part] = pa.ipc.open_file(file)
            yield readers[part].get_batch(number)
