"""Raw comparisons: what was written is what is read, and a cut one is no comparison."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from airflow_delta_provider.core import rawcompare
from airflow_delta_provider.core.arrays import binary_list
from airflow_delta_provider.core.errors import InputShardError, RecordLimitError
from airflow_delta_provider.core.rawcompare import RawReader, RawWriter, raw_batch


def record(number: int, size: int = 1) -> pa.RecordBatch:
    row = binary_list([b'["' + b"x" * size + b'"]'])
    return raw_batch(binary_list([number.to_bytes(4, "big")]), "added", None, None, row, None, None)


def written(records: list[pa.RecordBatch], **options: int) -> bytes:
    file = io.BytesIO()
    writer = RawWriter(file, "identity", (b"\x01", None), **options)
    for one in records:
        writer.add(one)
    writer.close({"records": writer.records})
    return file.getvalue()


def test_records_facts_and_head_come_back():
    """The next step starts from the artifact alone."""
    reader = RawReader(io.BytesIO(written([record(1), record(2)])))
    assert (reader.identity, reader.key_range, reader.facts) == ("identity", (b"\x01", None), None)
    batches = list(reader.batches())
    assert [key for batch in batches for key in batch.column("sort_key").to_pylist()] == [b"\0\0\0\1", b"\0\0\0\2"]
    assert batches[0].column("target_value").to_pylist() == ['["x"]', '["x"]']
    assert reader.facts == {"records": 2}


def test_no_record_is_a_comparison_too():
    """Equal tables have one."""
    reader = RawReader(io.BytesIO(written([])))
    assert list(reader.batches()) == []
    assert reader.facts == {"records": 0}


def test_a_comparison_cut_anywhere_is_refused():
    """A worker that died in the middle must not look like one that found less."""
    whole = written([record(number) for number in range(3)])
    uncut = 0
    for size in range(len(whole)):
        try:
            list(RawReader(io.BytesIO(whole[:size])).batches())
        except InputShardError as error:
            assert error.code == "DELTA_INPUT_SHARD"
        else:
            uncut += 1
            assert len(whole) - size <= 8, "only the end-of-stream mark after the facts may be missing"
    assert uncut <= 8


def test_another_arrow_stream_is_no_comparison():
    """Neither is text."""
    file = io.BytesIO()
    with pa.ipc.new_stream(file, pa.schema([("a", pa.int64())])):
        pass
    for data in (file.getvalue(), b"", b"text", b"\xff" * 64):
        with pytest.raises(InputShardError, match="this is no raw comparison"):
            RawReader(io.BytesIO(data))


def test_the_limit_of_records_is_the_last_number_that_passes():
    """``max_discrepancies: 2`` takes two."""
    written([record(1), record(2)], records_max=2)
    with pytest.raises(RecordLimitError, match=r"\[DELTA_RECORD_LIMIT\] more than 2 records differ") as caught:
        written([record(1), record(2), record(3)], records_max=2)
    assert caught.value.where == "limits.max_discrepancies"
    written([], records_max=0)
    with pytest.raises(RecordLimitError):
        written([record(1)], records_max=0)


@pytest.mark.parametrize(("rows", "size", "batches"), [(10, 1, 4), (10, 1000, 10)])
def test_what_is_held_is_bounded_by_rows_and_by_bytes(rows, size, batches, monkeypatch):
    """Thousands of records may be megabytes each."""
    monkeypatch.setattr(rawcompare, "FLUSH_ROWS", 3)
    monkeypatch.setattr(rawcompare, "FLUSH_BYTES", 500)
    reader = RawReader(io.BytesIO(written([record(number, size) for number in range(rows)])))
    found = list(reader.batches())
    assert (len(found), sum(batch.num_rows for batch in found)) == (batches, rows)
