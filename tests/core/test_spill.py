"""Sorting in bounded memory: the same rows, ascending by key bytes, and no file left behind."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core import spill
from airflow_delta_provider.core.spill import sort_batches
from airflow_delta_provider.core.types import KEY_BYTES

TEXT = pa.string()


def batch(keys: list[bytes], kind: pa.DataType = TEXT) -> pa.RecordBatch:
    values = [key.hex() for key in keys]
    columns = [pa.array(values, pa.string()).cast(kind), pa.array(keys, pa.large_binary())]
    return pa.RecordBatch.from_arrays(columns, names=["v", KEY_BYTES])


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[str, bytes]]:
    found = []
    for one in batches:
        texts = [value if isinstance(value, str) else value.decode() for value in one.column("v").to_pylist()]
        found += list(zip(texts, one.column(KEY_BYTES).to_pylist(), strict=True))
    return found


KEYS = st.lists(st.binary(max_size=2), max_size=6)


@given(
    st.lists(KEYS.filter(bool), max_size=8),
    st.sampled_from([1, 60, 200, 1 << 20]),
    st.integers(1, 5),
    st.sampled_from([1, 1 << 20]),
)
def test_every_row_comes_out_once_and_in_order(parts, memory_bytes, out_rows, run_bytes):
    """Rows that a sort loses are rows that no verdict knows of; repeated keys stay repeated."""
    with patch.object(spill, "OUT_ROWS", out_rows), patch.object(spill, "RUN_BATCH_BYTES", run_bytes):
        found = rows_of(sort_batches(map(batch, parts), memory_bytes=memory_bytes))
    assert found == sorted((key.hex(), key) for part in parts for key in part)


def test_runs_of_one_column_in_two_carriers_are_merged():
    """Text in one batch, bytes in the next (where some value is no valid Unicode): one column all the same."""
    parts = [batch([b"b", b"d"]), batch([b"a", b"c"], pa.binary()), batch([b"e"], pa.large_string())]
    for memory_bytes in (1, 1 << 20):
        found = rows_of(sort_batches(parts, memory_bytes=memory_bytes))
        assert found == [("61", b"a"), ("62", b"b"), ("63", b"c"), ("64", b"d"), ("65", b"e")]


def test_no_batch_gives_no_batch(tmp_path):
    """An empty side sorts to nothing."""
    assert list(sort_batches([], folder=str(tmp_path))) == []
    assert list(tmp_path.iterdir()) == []


def test_runs_go_to_disk_beyond_the_limit_and_are_removed_at_the_end(tmp_path):
    """What is over ``memory_bytes`` lies in the given folder, and only while it is needed."""
    parts = [batch([bytes([255 - number])]) for number in range(9)]
    stream = sort_batches(parts, memory_bytes=1, folder=str(tmp_path))
    first = next(stream)
    runs = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (first.column(KEY_BYTES)[0].as_py(), len(runs)) == (bytes([247]), 9)
    stream.close()
    assert list(tmp_path.rglob("*")) == []


def test_a_source_that_fails_leaves_no_file(tmp_path):
    """A full disk is not helped by the runs of a dead run."""

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch([b"b"])
        yield batch([b"a"])
        assert list(tmp_path.rglob("0000*")) != []
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(sort_batches(failing(), memory_bytes=1, folder=str(tmp_path)))
    assert list(tmp_path.rglob("*")) == []


def test_only_a_few_batches_are_in_memory_while_runs_are_merged(tmp_path, monkeypatch):
    """Twenty runs are merged from their maps: what Arrow has allocated stays near one batch a run."""
    monkeypatch.setattr(spill, "RUN_BATCH_BYTES", 4096)
    size = 20_000

    def wide(number: int) -> pa.RecordBatch:
        keys = [(row * 20 + number).to_bytes(4, "big") for row in range(1000)]
        return batch(keys).set_column(0, "v", pa.array(["x" * 20 for _ in keys]))

    before, peak = pa.total_allocated_bytes(), 0
    rows = 0
    for part in sort_batches(map(wide, range(20)), memory_bytes=1, folder=str(tmp_path)):
        rows += part.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
        del part
    assert rows == size
    assert peak < 200_000, f"{peak} bytes for a table of {size * 40}"


def test_a_run_that_does_not_fit_one_batch_is_cut(tmp_path, monkeypatch):
    """Rows of a run are written in batches of about a megabyte, of at least one row."""
    monkeypatch.setattr(spill, "RUN_BATCH_BYTES", 1)
    stream = sort_batches([batch([b"c", b"a", b"b"]), batch([b"a"])], memory_bytes=1, folder=str(tmp_path))
    assert [key for _, key in rows_of(stream)] == [b"a", b"a", b"b", b"c"]
