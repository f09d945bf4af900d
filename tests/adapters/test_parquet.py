"""Parquet sides: the readers' suite, the type map, row groups by statistics, sets of files, damaged files."""

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adapters.file_tables import KEY_KINDS, KINDS, carrier_table
from adapters.reader_suite import ReaderSuite

from airflow_delta_provider.adapters.files import open_file_side
from airflow_delta_provider.adapters.files.common import unified
from airflow_delta_provider.adapters.files.paths import reading
from airflow_delta_provider.adapters.side import KEEP_COLUMN, Order, RangeCost, Request
from airflow_delta_provider.core.errors import (
    InputPathError,
    SideChangedError,
    SideColumnTypeError,
    SideFileError,
    SideMissingError,
    SideSchemeError,
    ValueTextError,
)
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.types import LogicalType, carrier_allowed

INT = LogicalType("int")
TEXT = LogicalType("text")
MIN64, MAX64 = -(2**63), 2**63 - 1


def write(folder, name="t.parquet", row_group_size=None, **columns):
    """Write one Parquet file and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return str(path)


def rows_of(side, *names, **request):
    """Return the rows that a side delivers, as tuples."""
    names = names or tuple(column.name for column in side.columns)
    batches = side.read(Request(columns=names, **request))
    return [tuple(row[name] for name in batch.schema.names) for batch in batches for row in batch.to_pylist()]


def ints_of(side, name, **request):
    """Return the bits of one column as integers."""
    return [value for batch in side.read(Request(columns=(name,), **request)) for value in _bits(batch.column(0))]


def _bits(array):
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


class TestParquetReaders(ReaderSuite):
    """Parquet passes the readers' suite; row groups are small, so that statistics have a say."""

    kinds = KINDS
    key_kinds = KEY_KINDS
    ordered = False

    @pytest.fixture
    def build(self, tmp_path):
        """Write one file a table."""

        def make(columns, rows, key=(), table="readings"):
            path = tmp_path / f"{table}.parquet"
            pq.write_table(carrier_table(columns, rows), path, row_group_size=3 if len(rows) < 100 else 1000)
            return open_file_side(str(path))

        return make

    @pytest.mark.parametrize("absent", [None])
    def test_a_missing_table_is_refused_by_name(self, absent, tmp_path):
        """Files are looked for when the side is opened."""
        with pytest.raises(SideMissingError, match="nowhere"):
            open_file_side(str(tmp_path / "nowhere.parquet"))


TYPES = [
    (pa.bool_(), [True], "bool", True),
    (pa.int8(), [-128], "int(8)", -128),
    (pa.int64(), [MIN64], "int(64)", MIN64),
    (pa.uint8(), [255], "int(8,unsigned)", 255),
    (pa.uint64(), [2**64 - 1], "int(64,unsigned)", 2**64 - 1),
    (pa.float16(), None, "float32", None),
    (pa.float32(), [0.1], "float32", 0.10000000149011612),
    (pa.float64(), [0.1], "float64", 0.1),
    (pa.decimal128(5, 2), [Decimal("1.10")], "decimal(5,2)", Decimal("1.10")),
    (pa.decimal256(76, 0), [Decimal(10**75)], "decimal(76,0)", Decimal(10**75)),
    (pa.string(), ["\x00é"], "text", "\x00é"),
    (pa.large_string(), [""], "text", ""),
    (pa.binary(), [b"\x00\xff"], "bytes", b"\x00\xff"),
    (pa.binary(16), [b"0123456789abcdef"], "bytes(16)", b"0123456789abcdef"),
    (pa.uuid(), [b"0123456789abcdef"], "uuid", b"0123456789abcdef"),
    (pa.json_(), ['{"b":1, "a":2}'], "json_text", '{"b":1, "a":2}'),
    (pa.date32(), [datetime.date(2024, 2, 29)], "date", datetime.date(2024, 2, 29)),
    (pa.time32("ms"), [datetime.time(1, 2, 3, 4000)], "time(3)", datetime.time(1, 2, 3, 4000)),
    (pa.time64("us"), [datetime.time(23, 59, 59, 999999)], "time(6)", datetime.time(23, 59, 59, 999999)),
    (pa.list_(pa.int32()), [[1, None]], "array<int(32)>", [1, None]),
    (pa.struct([("x", pa.string())]), [{"x": "é"}], 'struct<"x":text>', {"x": "é"}),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)]], "map<text,int(64)>", [("a", 1)]),
]


@pytest.mark.parametrize(("arrow", "values", "text", "seen"), TYPES, ids=[str(case[0]) for case in TYPES])
def test_each_type_has_its_logical_type_and_carrier(tmp_path, arrow, values, text, seen):
    """A type is never read as another in silence, and NULL stays NULL."""
    array = pa.array([*values, None], arrow) if values else pa.nulls(2, arrow)
    side = open_file_side(write(tmp_path, c=array))
    assert side.columns[0].type.text == text
    batch = next(side.read(Request(columns=("c",))))
    assert carrier_allowed(side.columns[0].type.kind, batch.schema.field("c").type)
    assert batch.column(0).to_pylist() == [seen, None]


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.timestamp("ms"), "timestamp(3)"),
        (pa.timestamp("us"), "timestamp(6)"),
        (pa.timestamp("ns"), "timestamp(9)"),
        (pa.timestamp("us", "Europe/Rome"), "timestamp_tz(6)"),
    ],
    ids=str,
)
def test_time_stamps_keep_unit_and_count(tmp_path, arrow, text):
    """Years 0001 and 9999 in microseconds are not forced into nanoseconds, where they would wrap."""
    far = {"ms": 253402300799999, "us": 253402300799999999, "ns": 66277376}[arrow.unit]
    side = open_file_side(write(tmp_path, t=pa.array([far, 1], pa.int64()).view(arrow)))
    assert side.columns[0].type.text == text
    batch = next(side.read(Request(columns=("t",))))
    assert batch.column(0).type == pa.timestamp(arrow.unit, "UTC" if arrow.tz else None)
    assert _bits(batch.column(0)) == [far, 1]


def test_the_last_nanosecond_of_64_bits_is_no_infinity(tmp_path):
    """2262-04-11 is a date that some tools use as the end of time; its bits mean infinity elsewhere in this package."""
    side = open_file_side(write(tmp_path, t=pa.array([MAX64, 5], pa.int64()).view(pa.timestamp("ns"))))
    batch = next(side.read(Request(columns=("t",))))
    assert batch.column(0).type == pa.decimal128(38, 0)
    assert batch.column(0).to_pylist() == [Decimal(MAX64), Decimal(5)]


def test_int96_beyond_64_bits_is_not_wrapped(tmp_path):
    """A writer of old keeps any year with nanoseconds; read as int64 nanoseconds, year 9999 becomes 1816."""
    path = tmp_path / "t.parquet"
    micros = [253402300799999999, -62135596800000000, 1]
    old = {"use_deprecated_int96_timestamps": True}
    pq.write_table(pa.table({"t": pa.array([7, None], pa.timestamp("ns"))}), tmp_path / "ns.parquet", **old)
    assert ints_of(open_file_side(str(tmp_path / "ns.parquet")), "t") == [7, None]
    pq.write_table(pa.table({"t": pa.array([micros[2]], pa.timestamp("us"))}), path, **old)
    side = open_file_side(str(path))
    assert (side.columns[0].engine_type, side.columns[0].type.text) == ("INT96", "timestamp(9)")
    assert ints_of(side, "t") == [1000]


def test_int96_values_are_put_together_from_two_readings():
    """Both readings are wrong alone: one is cut to microseconds, the other wraps."""
    from airflow_delta_provider.adapters.files.int96 import merged_int96

    def both(nanos):
        wrapped = [(ns + 2**63) % 2**64 - 2**63 if ns is not None else None for ns in nanos]
        coarse = [ns // 1000 if ns is not None else None for ns in nanos]
        fine = pa.record_batch({"t": pa.array(wrapped, pa.int64()).view(pa.timestamp("ns"))})
        rough = pa.record_batch({"t": pa.array(coarse, pa.int64()).view(pa.timestamp("us"))})
        return merged_int96(fine, rough).column(0)

    assert both([1, None]).type == pa.timestamp("ns")
    assert _bits(both([253402300799999999000, None])) == [253402300799999999, None]
    assert both([253402300799999999001, None, -3]).to_pylist() == [Decimal(253402300799999999001), None, Decimal(-3)]


def test_duckdb_infinities_keep_their_meaning(tmp_path):
    """DuckDB writes -infinity as other bits than PostgreSQL does."""
    import duckdb

    path = str(tmp_path / "t.parquet")
    duckdb.connect().execute(
        f"copy (select 'infinity'::timestamp a, '-infinity'::timestamp b, '-infinity'::date d,"
        f" interval '1 month 2 days 3 seconds' i) to '{path}'"
    )
    side = open_file_side(path)
    assert (ints_of(side, "a"), ints_of(side, "b"), ints_of(side, "d")) == ([MAX64], [MIN64], [-(2**31)])
    assert side.columns[3].type.text == "interval"
    assert tuple(rows_of(side, "i")[0][0]) == (1, 2, 3_000_000_000)


def test_text_that_is_not_utf8_comes_as_its_bytes(tmp_path):
    """A writer may put any bytes under a text column; they differ from every valid text."""
    raw = pa.array([b"\xff", b"a"], pa.binary())
    side = open_file_side(write(tmp_path, t=pa.Array.from_buffers(pa.string(), 2, raw.buffers())))
    assert side.columns[0].type.text == "text"
    assert rows_of(side) == [(b"\xff",), (b"a",)]


def test_a_dictionary_is_its_values_and_not_its_codes(tmp_path):
    """Two files may number the same texts otherwise."""
    side = open_file_side(write(tmp_path, k=pa.array(["b", "a", None, "b"]).dictionary_encode()))
    assert side.columns[0].type.text == "text"
    assert rows_of(side) == [("b",), ("a",), (None,), ("b",)]


def test_a_column_of_nothing_but_null_takes_its_partners_type(tmp_path):
    """pandas writes such a column without type; it is no type difference in the values."""
    side = open_file_side(write(tmp_path, k=[1, 2], n=pa.nulls(2)))
    assert side.columns[1].untyped
    batch = next(side.resolve({"n": LogicalType("date")}).read(Request(columns=("n",))))
    assert (batch.column(0).type, batch.column(0).null_count) == (pa.date32(), 2)


def test_a_type_without_mapping_is_refused_by_column(tmp_path):
    """It is never read as something else; other columns of the file can be compared."""
    import pyarrow.ipc as ipc

    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    table = pa.table({"k": [1], "u": union})
    with ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write(table)
    side = open_file_side(str(tmp_path / "t.arrow"))
    assert side.columns[1].type is None
    assert "exclude" in side.columns[1].advice
    assert rows_of(side, "k") == [(1,)]
    with pytest.raises(SideColumnTypeError, match="column u has type dense_union"):
        rows_of(side, "u")


def test_a_dot_in_a_name_is_part_of_the_name(tmp_path):
    """Parquet writes paths of structs with dots too."""
    side = open_file_side(write(tmp_path, **{"s": pa.array([{"x": 1, "y": 2}]), "s.x": pa.array([7])}))
    assert rows_of(side) == [({"x": 1, "y": 2}, 7)]
    assert rows_of(side, "s.x") == [(7,)]


def test_batches_stay_within_rows_and_bytes(tmp_path):
    """Memory follows bytes: wide values make short batches, also under dictionary encoding."""
    side = open_file_side(write(tmp_path, k=list(range(1000)), v=["x" * 5000] * 1000))
    sizes = [batch.num_rows for batch in side.read(Request(columns=("k", "v"), batch_bytes=100_000))]
    assert (sum(sizes), max(sizes) <= 20) == (1000, True)
    assert [batch.num_rows for batch in side.read(Request(columns=("k",), batch_rows=400))] == [400, 400, 200]


def key(*values, types=(INT,)):
    """Return the key bytes of canonical values."""
    return encode_key(list(values), list(types))


@pytest.fixture
def grouped(tmp_path):
    """Rows 0 to 99 in ten row groups, cut over two files whose names run against their keys."""
    write(tmp_path, "b.parquet", 10, k=pa.array(range(50)), v=[str(n) for n in range(50)])
    write(tmp_path, "a.parquet", 10, k=pa.array(range(50, 100)), v=[str(n) for n in range(50, 100)])
    return open_file_side(str(tmp_path / "*.parquet"))


def test_sorted_row_groups_are_read_in_key_order_across_files(grouped):
    """The order of names is no order of keys."""
    assert grouped.order(("k",), (INT,)) is Order.HOPED
    assert grouped.range_cost(("k",)) is RangeCost.INDEX
    read = rows_of(grouped, "k", key=("k",), key_types=(INT,), ordered=True)
    assert [row[0] for row in read] == list(range(100))


@pytest.mark.parametrize(
    ("lower", "upper", "read"),
    [(12, 18, range(10, 20)), (20, 30, range(20, 30)), (99, 100, range(90, 100)), (100, 200, ()), (-5, 0, ())],
)
def test_a_range_reads_the_row_groups_that_may_hold_it(grouped, lower, upper, read):
    """Statistics leave groups out; the caller cuts the rest exactly."""
    bounds = {"lower": key(str(lower)), "upper": key(str(upper))}
    found = rows_of(grouped, "k", key=("k",), key_types=(INT,), **bounds)
    assert sorted(row[0] for row in found) == list(read)


def test_groups_with_null_keys_are_read_for_ranges_that_begin_at_null(tmp_path):
    """NULL sorts first and stands in no minimum."""
    side = open_file_side(write(tmp_path, row_group_size=2, k=pa.array([1, 2, 3, None, None, None], pa.int64())))
    found = rows_of(side, "k", key=("k",), key_types=(INT,), upper=key("0"))
    assert found == [(3,), (None,), (None,), (None,)]
    assert side.order(("k",), (INT,)) is Order.NONE


def test_floats_are_never_left_out_by_statistics(tmp_path):
    """NaN is in no statistics, and sorts last."""
    double = LogicalType("float64")
    side = open_file_side(write(tmp_path, row_group_size=1, x=[float("nan"), 2.0]))
    found = rows_of(side, "x", key=("x",), key_types=(double,), lower=key("3", types=(double,)))
    assert len(found) == 2
    assert side.order(("x",), (double,)) is Order.NONE


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (pa.array(["a", "é" * 60, "b", "z"]), "b", "c"),
        (pa.array([b"a", b"\xff", b"b", b"bb"]), "62", "63"),
        (pa.array([1, 2**63, 2**64 - 2, 2**64 - 1], pa.uint64()), "18446744073709551614", "18446744073709551615"),
        (pa.array([Decimal("-1.5"), Decimal("0.1"), Decimal("1.2"), Decimal(9)], pa.decimal128(9, 2)), "1", "2"),
        (pa.array([datetime.date(1, 1, 1), None, datetime.date(2000, 1, 1), None]), "1999-12-31", "2000-01-02"),
        (
            pa.array([-1, 0, 1_000_000_000, 1_000_000_001], pa.int64()).view(pa.timestamp("us")),
            "1970-01-01T00:16:40",
            "1970-01-01T00:16:41",
        ),
        (pa.array([1, 2, 3_600_000, 3_600_001], pa.int32()).view(pa.time32("ms")), "01:00:00", "01:00:01"),
        (
            pa.array([bytes(16), bytes(15) + b"\x01", b"\x80" + bytes(15), b"\xff" * 16], pa.uuid()),
            "80000000-0000-0000-0000-000000000000",
            "90000000-0000-0000-0000-000000000000",
        ),
        (pa.array([False, False, True, None]), False, True),
    ],
    ids=["text", "bytes", "uint64", "decimal", "date", "timestamp", "time", "uuid", "bool"],
)
def test_leaving_row_groups_out_never_loses_a_row(tmp_path, values, low, high):
    """Whatever the type: all rows of the range are read, whether or not their group was sure to hold them."""
    from airflow_delta_provider.core.keyvec import encode_keys

    side = open_file_side(write(tmp_path, row_group_size=2, k=values))
    kind = LogicalType(side.columns[0].type.kind)
    everything = [batch.column(0) for batch in side.read(Request(columns=("k",)))]
    for lower, upper in ((low, high), (None, low), (high, None)):
        bounds = [None if bound is None else key(bound, types=(kind,)) for bound in (lower, upper)]
        request = Request(columns=("k",), key=("k",), key_types=(kind,), lower=bounds[0], upper=bounds[1])

        def inside(arrays, bounds=bounds):
            keys = [k for array in arrays for k in encode_keys([array], [side.columns[0].type], [kind]).to_pylist()]
            return sorted(k for k in keys if (bounds[0] or b"") <= k and (bounds[1] is None or k < bounds[1]))

        assert inside([batch.column(0) for batch in side.read(request)]) == inside(everything)


def test_rows_that_do_not_ascend_are_not_hoped_to(tmp_path):
    """One row group has statistics that always look sorted; the first rows say more."""
    assert open_file_side(write(tmp_path, "a.parquet", k=[3, 1, 2])).order(("k",), (INT,)) is Order.NONE
    assert open_file_side(write(tmp_path, "b.parquet", k=[1, 1, 2])).order(("k",), (INT,)) is Order.HOPED
    overlap = open_file_side(write(tmp_path, "c.parquet", 2, k=[1, 5, 2, 6]))
    assert (overlap.order(("k",), (INT,)), overlap.range_cost(("k",))) == (Order.NONE, RangeCost.SCAN)


def test_a_key_that_a_rule_reads_as_another_type_has_no_order_here(tmp_path):
    """Numbers kept as text sort otherwise."""
    side = open_file_side(write(tmp_path, k=["1", "10", "9"]))
    assert side.order(("k",), (INT,)) is Order.NONE


class Halves:
    """Stands for a parsed filter: v < 50."""

    columns = ("v",)

    def evaluate(self, batch, types):
        """Say which rows are in."""
        assert types["v"].kind == "int"
        return pa.array([value < 50 for value in batch.column("v").to_pylist()])


def test_a_filter_marks_rows_and_drops_none(tmp_path):
    """Rows that it leaves out are counted as skipped; its own columns are read besides the wanted ones."""
    side = open_file_side(write(tmp_path, k=[1, 2], v=[10, 90]))
    batch = next(side.read(Request(columns=("k",), filter=Halves())))
    assert batch.schema.names == ["k", KEEP_COLUMN]
    assert batch.column(1).to_pylist() == [True, False]


def test_files_with_the_same_columns_in_another_order_are_one_data_set(tmp_path):
    """Columns pair by name, and narrower types widen exactly."""
    write(tmp_path, "a.parquet", k=pa.array([1], pa.int32()), v=pa.array([1.5], pa.float32()), n=pa.nulls(1))
    write(tmp_path, "b.parquet", n=pa.array(["x"]), v=pa.array([0.1], pa.float64()), k=pa.array([2], pa.int64()))
    side = open_file_side(str(tmp_path / "*.parquet"))
    assert [column.type.text for column in side.columns] == ["int(64)", "float64", "text"]
    assert rows_of(side) == [(1, 1.5, None), (2, 0.1, "x")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"k": ["x"]}, "b.parquet: column k is string, but int64"),
        ({"k": [1], "more": [1]}, "b.parquet has a column more"),
        ({"other": [1]}, "b.parquet lacks the column k"),
    ],
)
def test_a_file_with_other_columns_is_refused_by_name(tmp_path, columns, words):
    """A hole in one file is no NULL."""
    write(tmp_path, "a.parquet", k=[1])
    write(tmp_path, "b.parquet", **columns)
    with pytest.raises(SideFileError, match=words):
        open_file_side(str(tmp_path)).columns  # noqa: B018


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (LogicalType("int", bits=64), LogicalType("int", bits=64, unsigned=True), "int(128)"),
        (LogicalType("int", bits=64), LogicalType("int", bits=32, unsigned=True), "int(64)"),
        (LogicalType("int", bits=8, unsigned=True), LogicalType("int", bits=16, unsigned=True), "int(16,unsigned)"),
        (LogicalType("decimal", precision=5, scale=2), LogicalType("decimal", precision=9, scale=0), "decimal(11,2)"),
        (LogicalType("timestamp", digits=3), LogicalType("timestamp", digits=9), "timestamp(9)"),
        (LogicalType("bytes", length=16), LogicalType("bytes"), "bytes"),
    ],
)
def test_types_of_several_files_widen_exactly(first, second, text):
    """No value of either file is outside the joined type."""
    assert unified(first, second).text == unified(second, first).text == text
    assert unified(first, TEXT) is None


def test_folders_name_partition_columns_that_take_their_partners_type(tmp_path):
    """A folder's text has no type of its own; blanks and slashes are escaped in it."""
    write(tmp_path, "year=2024/city=A%20B/1.parquet", k=[1])
    write(tmp_path, "year=2025/city=__HIVE_DEFAULT_PARTITION__/2.parquet", k=[2])
    (tmp_path / "_SUCCESS").touch()
    side = open_file_side(str(tmp_path))
    assert [(column.name, column.untyped) for column in side.columns] == [("k", False), ("year", True), ("city", True)]
    assert rows_of(side) == [(1, "2024", "A B"), (2, "2025", None)]
    typed = side.resolve({"year": INT})
    assert rows_of(typed, "year", "k") == [(2024, 1), (2025, 2)]
    assert rows_of(typed, "year") == [(2024,), (2025,)]
    with pytest.raises(ValueTextError, match=r"in its folder.s name, column city: .A B. is no int"):
        rows_of(side.resolve({"city": INT}))
    assert rows_of(open_file_side(str(tmp_path / "year=*" / "**" / "*.parquet")), "k") == [(1,), (2,)]


def test_partition_columns_must_agree(tmp_path):
    """A file outside the folders would have no value for the column."""
    write(tmp_path, "year=2024/1.parquet", k=[1])
    write(tmp_path, "2.parquet", k=[2])
    with pytest.raises(SideFileError, match="other partition columns"):
        open_file_side(str(tmp_path)).columns  # noqa: B018
    write(tmp_path / "b", "k=1/1.parquet", k=[1])
    with pytest.raises(SideFileError, match="both in the files and in their folders"):
        open_file_side(str(tmp_path / "b")).columns  # noqa: B018


def test_what_no_path_names_is_refused(tmp_path):
    """A typing error is no empty table."""
    write(tmp_path, "a.parquet", k=[1])
    for path in ("none.parquet", "none-*.parquet", "none/"):
        with pytest.raises(SideMissingError, match="none"):
            open_file_side(str(tmp_path / path))
    with pytest.raises(SideSchemeError, match="none of the endings"):
        (tmp_path / "t.doc").touch()
        open_file_side(str(tmp_path / "t.doc"))
    with pytest.raises(SideSchemeError):
        open_file_side("ftp-like://host/t.parquet")
    with pytest.raises(InputPathError, match=r"t\.parquet cannot be read"), reading("t.parquet"):
        raise PermissionError("no right")


def test_the_files_of_a_table_format_are_no_plain_set(tmp_path):
    """Files that a Delta table has removed still lie in its folder."""
    write(tmp_path, "a.parquet", k=[1])
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(SideSchemeError, match="Delta Lake"):
        open_file_side(str(tmp_path / "*.parquet"))


def test_a_folder_of_several_forms_is_refused(tmp_path):
    """Which of them is the table is not for us to guess."""
    write(tmp_path, "a.parquet", k=[1])
    (tmp_path / "b.csv").write_text("k\n1\n")
    with pytest.raises(SideSchemeError, match="csv and parquet files"):
        open_file_side(str(tmp_path))


def test_names_with_wildcards_that_exist_are_taken_as_they_stand(tmp_path):
    """A file may be called a[1].parquet."""
    write(tmp_path, "a[1].parquet", k=[1])
    write(tmp_path, "a1.parquet", k=[2])
    assert rows_of(open_file_side(str(tmp_path / "a[1].parquet"))) == [(1,)]


def test_a_uri_names_files_as_a_path_does(tmp_path):
    """Object stores come by URI through the same reader."""
    write(tmp_path, "a.parquet", k=[1])
    assert rows_of(open_file_side(f"file://{tmp_path}/*.parquet")) == [(1,)]
    assert rows_of(open_file_side(f"file://{tmp_path}/a.parquet")) == [(1,)]


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_a_cut_file_is_refused_by_name(tmp_path, cut):
    """A verdict needs the whole of it."""
    path = write(tmp_path, k=list(range(1000)))
    Path(path).write_bytes(Path(path).read_bytes()[:cut])
    with pytest.raises(SideFileError, match=r"\[DELTA_SIDE_FILE\] t.parquet cannot be read"):
        open_file_side(path).columns  # noqa: B018


def test_damage_inside_a_file_is_refused(tmp_path):
    """Pages that do not decompress stop the read; nothing is left out."""
    path = write(tmp_path, k=list(range(100_000)))
    whole = bytearray(Path(path).read_bytes())
    whole[5000:5100] = bytes(100)
    Path(path).write_bytes(whole)
    with pytest.raises(SideFileError, match=r"t\.parquet cannot be read"):
        rows_of(open_file_side(path))


def test_a_file_that_is_replaced_between_plan_and_read_is_refused(tmp_path):
    """Row groups were chosen by the statistics of another file."""
    side = open_file_side(write(tmp_path, k=[1, 2]))
    assert side.estimate_rows() == 2
    write(tmp_path, k=[1, 2, 3])
    with pytest.raises(SideChangedError, match=r"t\.parquet was replaced"):
        rows_of(side)


def test_two_columns_of_one_name_are_refused(tmp_path):
    """Which of them is meant cannot be told."""
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["k", "k"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(SideFileError, match="two columns k"):
        open_file_side(str(tmp_path / "t.parquet")).columns  # noqa: B018


def test_a_sample_is_spread_over_the_data_set(grouped):
    """Splits come from it, so it must not be the first rows only."""
    sample = grouped.sample(("k",), 20).column("k").to_pylist()
    assert (len(sample), min(sample) < 10, max(sample) >= 90) == (20, True, True)
    assert grouped.estimate_rows() == 100


def test_facts_name_files_without_folders_and_by_footer(tmp_path, grouped):
    """The sidecar tells which bytes were read; paths of the machine are nobody's business."""
    facts = grouped.facts()["files"]
    assert [fact["name"] for fact in facts] == ["a.parquet", "b.parquet"]
    assert len({fact["footer_sha256"] for fact in facts}) == 2
    assert str(tmp_path) not in str(grouped.facts())


def test_a_uri_in_an_error_has_no_secret():
    """Keys may stand in front of a bucket's name and in the query."""
    with pytest.raises(SideSchemeError) as caught:
        open_file_side("nosuch://user:PASSWORD@bucket/t.parquet?token=TOKEN")
    assert "PASSWORD" not in str(caught.value.document())
    assert "TOKEN" not in str(caught.value.document())
