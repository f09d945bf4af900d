"""A side read and sorted once into a local file, from which every shard then reads its range."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from airflow_delta_provider.adapters.side import Order
from airflow_delta_provider.core import stream
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.spill import sort_batches
from airflow_delta_provider.core.types import KEY_BYTES
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.prefetch import Prefetched

SPILL_ROWS = 16_384


def spill_side(opened: Opened, name: str, folder: Path) -> Path:
    """Read one side's whole key range once, sort it, and return the file that holds it; its index stands beside it.

    Disk: about the size of the compared columns. Raises: what the side raises.
    """
    layout = opened.layout(name, opened.key_range)
    ordered = opened.order(name) is Order.PROMISED
    request = opened.request(name, opened.key_range, ordered=ordered)
    path = folder / f"{name}.arrow"
    index: list[str] = []
    with closing(Prefetched(lambda: opened.side(name).read(request), name)) as batches:
        keyed = stream.keyed_batches(batches, layout)
        rows = keyed if ordered else sort_batches(keyed, folder=str(folder))
        writer = None
        with pa.OSFile(str(path), "wb") as file:
            for batch in rows:
                writer = writer or pa.ipc.new_file(file, batch.schema)
                for start in range(0, batch.num_rows, SPILL_ROWS):
                    part = batch.slice(start, SPILL_ROWS)
                    index.append(part.column(KEY_BYTES)[0].as_py().hex())
                    writer.write_batch(part)
            if writer is not None:
                writer.close()
    path.with_suffix(".index").write_text(json.dumps(index))
    return path


def read_spilled(path: Path, key_range: KeyRange) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a spilled side that may hold keys of a range, in order."""
    firsts = [bytes.fromhex(first) for first in json.loads(path.with_suffix(".index").read_text())]
    start = 0 if key_range.lower is None else max(0, bisect.bisect_left(firsts, key_range.lower) - 1)
    stop = len(firsts) if key_range.upper is None else bisect.bisect_left(firsts, key_range.upper)
    if start >= stop:
        return
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for number in range(start, stop):
            yield reader.get_batch(number)
