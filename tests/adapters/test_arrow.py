"""Arrow files and streams as sides: the readers' suite, and files that end too early."""

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from adapters.file_tables import KEY_KINDS, KINDS, carrier_table
from adapters.reader_suite import ReaderSuite

from airflow_delta_provider.adapters.files import open_file_side
from airflow_delta_provider.adapters.side import Order, RangeCost, Request
from airflow_delta_provider.core.errors import SideFileError, SideMissingError, ValueRangeError
from airflow_delta_provider.core.types import LogicalType

INT = LogicalType("int")


def write(path, table, rows=1000):
    """Write a file, or a stream where the name ends in ``arrows``."""
    new = ipc.new_stream if path.suffix == ".arrows" else ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return str(path)


def rows_of(side):
    """Return all rows as tuples."""
    names = tuple(column.name for column in side.columns)
    return [tuple(row.values()) for batch in side.read(Request(columns=names)) for row in batch.to_pylist()]


class _Readers(ReaderSuite):
    kinds = KINDS
    key_kinds = KEY_KINDS
    ordered = False
    suffix = "arrow"

    @pytest.fixture
    def build(self, tmp_path):
        """Write one file a table."""

        def make(columns, rows, key=(), table="readings"):
            path = tmp_path / f"{table}.{self.suffix}"
            return open_file_side(write(path, carrier_table(columns, rows)))

        return make

    @pytest.mark.parametrize("absent", [None])
    def test_a_missing_table_is_refused_by_name(self, absent, tmp_path):
        """Files are looked for when the side is opened."""
        with pytest.raises(SideMissingError, match="nowhere"):
            open_file_side(str(tmp_path / f"nowhere.{self.suffix}"))


class TestFileReaders(_Readers):
    """Arrow files pass the readers' suite."""


class TestStreamReaders(_Readers):
    """Arrow streams pass the readers' suite."""

    suffix = "arrows"


@pytest.mark.parametrize(
    ("array", "text", "seen"),
    [
        (pa.array([86_400_000, None], pa.int64()).view(pa.date64()), "date", 1),
        (pa.array([5, None], pa.int32()).view(pa.time32("s")), "time(0)", 5_000_000),
        (pa.array([5, None], pa.int64()).view(pa.timestamp("s", "Asia/Tokyo")), "timestamp_tz(0)", 5),
    ],
    ids=["date64", "time32", "zoned seconds"],
)
def test_types_that_only_arrow_has_are_brought_to_their_carriers(tmp_path, array, text, seen):
    """A unit or a zone is a way of writing, not a value."""
    side = open_file_side(write(tmp_path / "t.arrow", pa.table({"v": array})))
    assert side.columns[0].type.text == text
    column = next(side.read(Request(columns=("v",)))).column(0)
    assert column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist() == [seen, None]


@pytest.mark.parametrize(
    ("array", "text", "seen"),
    [
        (pa.array([1.5, None], pa.float16()), "float32", [1.5, None]),
        (pa.array(["x", None], pa.string_view()), "text", ["x", None]),
        (pa.array([b"\xff", None], pa.binary_view()), "bytes", [b"\xff", None]),
        (pa.array([[1], None], pa.list_(pa.int8(), 1)), "array<int(8)>", [[1], None]),
        (pa.array([[1], None], pa.large_list(pa.int8())), "array<int(8)>", [[1], None]),
        (pa.array([1200, None], pa.decimal128(3, -2)), "decimal(5,0)", [1200, None]),
        (pa.array([1, None], pa.duration("s")), "interval", [(0, 0, 10**9), None]),
        (pa.RunEndEncodedArray.from_arrays([2], ["x"]), "text", ["x", "x"]),
        (pa.array([{"a": ["x"]}, None]), 'struct<"a":array<text>>', [{"a": ["x"]}, None]),
    ],
    ids=lambda case: str(case.type) if isinstance(case, pa.Array) else "",
)
def test_ways_of_storing_are_no_types(tmp_path, array, text, seen):
    """Views, run ends, fixed sizes and half floats hold the same values as the plain types."""
    side = open_file_side(write(tmp_path / "t.arrow", pa.table({"v": array})))
    assert side.columns[0].type.text == text
    found = [value for (value,) in rows_of(side)]
    assert [tuple(value) if isinstance(value, tuple) else value for value in found] == seen


def test_nested_slices_keep_their_rows(tmp_path):
    """A slice shares memory with the rows that it leaves out."""
    lists = pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int64())).slice(1)
    structs = pa.array([{"x": 1}, None, {"x": 3}, {"x": None}]).slice(1)
    maps = pa.array([[("a", 1)], [], None, [("b", 2)]], pa.map_(pa.string(), pa.int64())).slice(1)
    from airflow_delta_provider.adapters.files.common import logical_type, to_carrier

    for array in (lists, structs, maps):
        assert to_carrier(array, logical_type(array.type)).to_pylist() == array.to_pylist()


def test_a_date64_within_a_day_is_refused(tmp_path):
    """Arrow demands whole days; what the rest means is not for us to guess."""
    array = pa.array([86_400_001], pa.int64()).view(pa.date64())
    with pytest.raises(SideFileError, match=r"t\.arrow, column v"):
        rows_of(open_file_side(write(tmp_path / "t.arrow", pa.table({"v": array}))))


def test_a_duration_that_an_interval_cannot_hold_is_refused(tmp_path):
    """64 bits of seconds do not fit 64 bits of nanoseconds."""
    array = pa.array([10**12], pa.duration("s"))
    with pytest.raises(ValueRangeError, match=r"t\.arrow, column v: A duration"):
        rows_of(open_file_side(write(tmp_path / "t.arrow", pa.table({"v": array}))))


@pytest.mark.parametrize("suffix", ["arrow", "arrows"])
def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path, suffix):
    """A stream that is cut between two batches reads well, and would look like a shorter table."""
    path = tmp_path / f"t.{suffix}"
    write(path, pa.table({"k": list(range(100))}), rows=10)
    whole = path.read_bytes()
    for size in range(0, len(whole), 8):
        path.write_bytes(whole[:size])
        with pytest.raises(SideFileError, match=rf"t\.{suffix}"):
            rows_of(open_file_side(str(path)))


def test_a_stream_that_goes_on_behind_its_end_is_refused(tmp_path):
    """Two streams in one file: the second would be left out."""
    path = tmp_path / "t.arrows"
    write(path, pa.table({"k": [4294967295]}))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(SideFileError, match=r"t\.arrows goes on"):
        rows_of(open_file_side(str(path)))


def test_offsets_that_point_nowhere_are_refused(tmp_path):
    """They would be followed into memory that is not the file's."""
    table = pa.table({"v": ["abc", "def"]})
    path = tmp_path / "t.arrow"
    write(path, table)
    whole = path.read_bytes()
    offsets = b"\x00\x00\x00\x00\x03\x00\x00\x00\x06\x00\x00\x00"
    assert whole.count(offsets) == 1
    path.write_bytes(whole.replace(offsets, b"\x00\x00\x00\x00\x03\x00\x00\x00\xff\xff\xff\x7f"))
    with pytest.raises(SideFileError, match=r"t\.arrow"):
        rows_of(open_file_side(str(path)))


def test_a_file_promises_no_order(tmp_path):
    """Arrow files hold no statistics."""
    side = open_file_side(write(tmp_path / "t.arrow", pa.table({"k": [1]})))
    assert (side.order(("k",), (INT,)), side.range_cost(("k",))) == (Order.NONE, RangeCost.SCAN)
