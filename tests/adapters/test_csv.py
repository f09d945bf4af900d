"""CSV sides: the readers' suite, and one strict form in which no field is guessed and no line is repaired."""

import bz2
import gzip
import lzma
import random
import zipfile

import pyarrow as pa
import pytest
from adapters.file_tables import KEY_KINDS, KINDS, csv_text
from adapters.reader_suite import ReaderSuite

from airflow_delta_provider.adapters.files import csvscan, open_file_side
from airflow_delta_provider.adapters.files.paths import SideFile
from airflow_delta_provider.adapters.side import Order, RangeCost, Request
from airflow_delta_provider.core.errors import (
    SideFileError,
    SideLineError,
    SideMissingError,
    SpecValueError,
    ValueTextError,
)
from airflow_delta_provider.core.types import LogicalType

INT = LogicalType("int")


class TestCsvReaders(ReaderSuite):
    """CSV passes the readers' suite; NUL and line ends are data inside quotes."""

    kinds = KINDS
    key_kinds = KEY_KINDS
    ordered = False

    @pytest.fixture
    def build(self, tmp_path):
        """Write one file a table."""

        def make(columns, rows, key=(), table="readings"):
            path = tmp_path / f"{table}.csv"
            path.write_text(csv_text(columns, rows), encoding="utf-8", newline="")
            return open_file_side(str(path))

        return make

    @pytest.mark.parametrize("absent", [None])
    def test_a_missing_table_is_refused_by_name(self, absent, tmp_path):
        """Files are looked for when the side is opened."""
        with pytest.raises(SideMissingError, match="nowhere"):
            open_file_side(str(tmp_path / "nowhere.csv"))


@pytest.fixture
def opened(tmp_path):
    """Open a CSV file with these bytes."""

    def make(raw, name="t.csv", **options):
        (tmp_path / name).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return open_file_side(str(tmp_path / name), {"csv": options})

    return make


def rows_of(side):
    """Return all rows as tuples."""
    names = tuple(column.name for column in side.columns)
    return [tuple(row.values()) for batch in side.read(Request(columns=names)) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("raw", "rows"),
    [
        ('a,b\n1,""\n,"x\ny"\n', [("1", ""), (None, "x\ny")]),
        ("a,b\r\n1,2\r\n3,4", [("1", "2"), ("3", "4")]),
        ('a,b\n1,"x""y"\n2,""""\n', [("1", 'x"y'), ("2", '"')]),
        ('a,b\n1,"\r"\r\n', [("1", "\r")]),
        ("a,b\n1, x \n", [("1", " x ")]),
        ("a\n1\n\n2\n", [("1",), (None,), ("2",)]),
        ("a,b\n1,x\x00y\n", [("1", "x\x00y")]),
        ("a,b\n", []),
        ("a,b", []),
        (b'\xef\xbb\xbf"a",b\n1,2\n', [("1", "2")]),
    ],
)
def test_a_field_is_what_stands_there(opened, raw, rows):
    """NULL is the unquoted empty field alone; blanks, NUL and line ends inside quotes are data."""
    assert rows_of(opened(raw)) == rows


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("a,b\n1,2\n1,2,3\n", "line 3: 3 fields where the header has 2"),
        ("a,b\n1\n", "line 2: 1 field where the header has 2"),
        ("a,b\n1,2\n\n", "line 3: 1 field where the header has 2"),
        ('a,b\n"x\n\ny",1\n2\n', "line 5: 1 field where the header has 2"),
        ('a,b\n"1"x,2\n', "line 2: a quote stands inside a field"),
        ('a,b\n1"x",2\n', "line 2: a quote stands inside a field"),
        ('a,b\n1,"x" \n', "line 2: a quote stands inside a field"),
        ('a,b\n1,2\n3,"4\n5,6\n', "line 3: a quoted field has no closing quote"),
        ("a,b\r1,2\r", "line 1: a carriage return stands alone"),
        ("a,b\n1,2\n3\r,4\n", "line 3: a carriage return stands alone"),
        (b"a,b\n1,2\n3,\xff\n", "line 3: the bytes are not valid UTF-8"),
        ("a,a\n1,2\n", "line 1: two columns are called a"),
        ("", "line 1: there is no header"),
    ],
)
def test_what_breaks_the_form_is_refused_with_its_line(opened, raw, words):
    """A line that is shifted or cut must not be read as another row."""
    with pytest.raises(SideLineError, match=rf"\[DELTA_SIDE_LINE\] t\.csv, {words}"):
        rows_of(opened(raw))


@pytest.mark.parametrize(
    ("nulls", "values"),
    [
        ("unquoted_empty", [None, "", "NA", "NA"]),
        ("empty", [None, None, "NA", "NA"]),
        ("never", ["", "", "NA", "NA"]),
        (["NA"], ["", "", None, None]),
        (["NA", ""], [None, None, None, None]),
    ],
)
def test_nulls_are_those_that_are_declared(opened, nulls, values):
    """A list names texts, quoted or not, as files with every field quoted need it."""
    assert [row[1] for row in rows_of(opened('k,v\n1,\n2,""\n3,NA\n4,"NA"\n', nulls=nulls))] == values


def test_delimiter_quote_and_header_follow_the_options(opened):
    """What a file's writer chose is said, not sniffed."""
    assert rows_of(opened("a;b\n'x;y';1,5\n", delimiter=";", quote="'")) == [("x;y", "1,5")]
    assert rows_of(opened('a,b\n1,"x\n', quote="")) == [("1", '"x')]
    assert rows_of(opened("a\tb\n1,2\t3\n", name="t.tsv")) == [("1,2", "3")]
    trimmed = opened(" a ,b\t\n1,2\n", trim_header=True)
    assert [column.name for column in trimmed.columns] == ["a", "b"]
    assert [column.name for column in opened(" a ,b\n1,2\n").columns] == [" a ", "b"]


@pytest.mark.parametrize(
    "options",
    [
        {"nulls": "sometimes"},
        {"nulls": [1]},
        {"delimiter": ",,"},
        {"delimiter": "é"},
        {"delimiter": '"'},
        {"quote": "\n"},
        {"encoding": "no-such"},
        {"encoding": "base64"},
        {"compression": "rar"},
        {"types": {"a": "integer"}},
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(opened, options):
    """An option that is not understood is never passed over."""
    with pytest.raises(SpecValueError, match="DELTA_SPEC_VALUE"):
        opened("a,b\n1,2\n", **options)


def test_other_encodings_are_decoded_strictly(opened):
    """A byte that means nothing in the encoding stops the read at its line."""
    assert rows_of(opened("a\nä€\n".encode("cp1252"), encoding="cp1252")) == [("ä€",)]
    assert rows_of(opened("a\nä\n".encode("utf-16"), encoding="utf-16")) == [("ä",)]
    with pytest.raises(SideLineError, match=r"line 3: the bytes are not valid CP1252"):
        rows_of(opened(b"a\nx\n\x81\n", encoding="cp1252"))
    with pytest.raises(SideLineError, match=r"line 2: the bytes are not valid UTF-16"):
        rows_of(opened("a\nä".encode("utf-16") + b"x", encoding="utf-16"))


def _zipped(raw, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.csv", raw)
    return path.read_bytes()


RAW = b"a,b\n" + b"".join(b"%d,text %d\n" % (n, n * n) for n in range(20_000))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst", "zip"])
def test_compressed_files_are_read_whole_or_refused(opened, tmp_path, suffix):
    """A file that was cut in transfer must not look like a shorter table."""
    packed = {
        "gz": lambda: gzip.compress(RAW),
        "bz2": lambda: bz2.compress(RAW),
        "xz": lambda: lzma.compress(RAW),
        "zst": lambda: pa.compress(RAW, "zstd", asbytes=True),
        "zip": lambda: _zipped(RAW, tmp_path / "packed"),
    }[suffix]()
    assert len(rows_of(opened(packed, name=f"t.csv.{suffix}"))) == 20_000
    assert len(rows_of(opened(packed, name="t.csv", compression={"gz": "gzip", "zst": "zstd"}.get(suffix, suffix))))
    for cut in (len(packed) // 2, len(packed) - 5):
        with pytest.raises(SideFileError, match=r"t\.csv\.\w+ cannot be read"):
            rows_of(opened(packed[:cut], name=f"t.csv.{suffix}"))
    with pytest.raises(SideFileError):
        rows_of(opened(RAW, name=f"t.csv.{suffix}"))
    assert len(rows_of(opened(RAW, name=f"t.csv.{suffix}", compression="none"))) == 20_000


def test_a_zip_of_two_files_is_refused(opened, tmp_path):
    """Which of them is the table is not for us to guess."""
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("1.csv", "a\n")
        archive.writestr("2.csv", "a\n")
    with pytest.raises(SideFileError, match="holds 2 files"):
        rows_of(opened((tmp_path / "z").read_bytes(), name="t.csv.zip"))


def test_declared_types_win_and_others_wait_for_their_partner(opened):
    """007 is text where text is declared, and 7 where the partner is a number."""
    side = opened('id,code,n\n1,"007",010\n', types={"id": "int", "code": "text", "elsewhere": "int"})
    assert [(column.name, column.type.kind, column.untyped) for column in side.columns] == [
        ("id", "int", False),
        ("code", "text", False),
        ("n", "text", True),
    ]
    assert rows_of(side) == [(1, "007", "010")]
    typed = side.resolve({"n": INT, "code": INT})
    assert rows_of(typed) == [(1, "007", 10)]
    assert not typed.columns[2].untyped
    assert rows_of(side) == [(1, "007", "010")]


def test_a_value_that_does_not_parse_is_refused_with_line_and_column(opened):
    """The line counts line ends inside quotes, as an editor does."""
    side = opened('id,v\n1,"1\n"\n2,1.50\n3,1.5.0\n').resolve({"id": INT})
    assert rows_of(side)[2] == (3, "1.5.0")
    with pytest.raises(ValueTextError, match=r'\[DELTA_VALUE_TEXT\] t\.csv, line 2, column v: "1\\x0a" is no decimal'):
        rows_of(side.resolve({"v": LogicalType("decimal")}))
    with pytest.raises(ValueTextError, match=r't\.csv, line 3, column v: "x{63}…" is no int'):
        rows_of(opened("id,v\n1,1\n2," + "x" * 100 + "\n").resolve({"v": INT}))


def test_values_of_hidden_columns_stay_out_of_errors(opened, tmp_path):
    """A sensitive value must not get into a log because it does not parse."""
    opened("id,v\n1,SECRET\n")
    side = open_file_side(str(tmp_path / "t.csv"), {"csv": {}, "hidden": ["v"]}).resolve({"v": INT})
    with pytest.raises(ValueTextError) as caught:
        rows_of(side)
    assert "SECRET" not in str(caught.value.document())


def test_several_files_are_one_data_set_by_column_name(opened):
    """Each has its header; the order of columns is no data, another column is a refusal."""
    opened("a,b\n1,2\n", name="1.csv")
    opened("b,a\n4,3\n", name="2.csv")
    pattern = opened("b,a\n", name="3.csv").files[0].path.replace("3.csv", "*.csv")
    assert rows_of(open_file_side(pattern)) == [("1", "2"), ("3", "4")]
    opened("b,a,c\n", name="4.csv")
    with pytest.raises(SideFileError, match=r"4\.csv has a column c, other than 1\.csv"):
        rows_of(open_file_side(pattern))


def test_a_file_promises_no_order_and_no_index(opened):
    """A range costs the whole file, so the engine sorts once."""
    side = opened("a\n1\n2\n")
    assert (side.order(("a",), (INT,)), side.range_cost(("a",))) == (Order.NONE, RangeCost.SCAN)


def _expected(raw):
    """Read CSV one byte at a time: the obvious oracle. None where the form is broken."""
    raw = raw if raw.endswith(b"\n") or not raw else raw + b"\n"
    rows, row, at = [], [], 0
    while at < len(raw):
        value, quoted = b"", raw[at : at + 1] == b'"'
        at += quoted
        while quoted or raw[at : at + 1] not in (b",", b"\n", b"\r"):
            byte = raw[at : at + 1]
            if byte == b'"' and quoted and raw[at + 1 : at + 2] == b'"':
                at += 1
            elif byte == b'"' and quoted:
                at += 1
                break
            elif byte == b'"' or not byte:
                return None
            value += byte
            at += 1
        row.append((value.decode(), quoted))
        if raw[at : at + 2] == b"\r\n":
            at += 1
        if raw[at : at + 1] == b"\n":
            rows.append(row)
            row = []
        elif raw[at : at + 1] != b",":
            return None
        at += 1
    return rows if len({len(found) for found in rows}) <= 1 else None


def _scanned(raw, size):
    file = SideFile(None, "t.csv", 0, None)
    rows = []
    try:
        for found in csvscan.scan([raw[at : at + size] for at in range(0, len(raw), size)], csvscan.Form(), file):
            cells = list(zip(found.values.to_pylist(), map(bool, found.quoted), strict=True))
            rows += [cells[at : at + found.width] for at in range(0, len(cells), found.width)]
    except SideLineError:
        return None
    return rows


def test_the_scanner_agrees_with_a_slow_one_wherever_blocks_are_cut():
    """3,000 short files of the bytes that matter, cut into blocks of 1 to 16 bytes; the seed is 5."""
    chance = random.Random(5)
    fields = [b"", b"a", b'""', b'"x"', b'"a""b"', b'"\n"', b'"\r,"', b'""""']
    good = 0
    for trial in range(3_000):
        if trial % 2:
            raw = bytes(chance.choice(b'ab,,"""\n\n\r') for _ in range(chance.randint(0, 14)))
        else:
            width = chance.randint(1, 3)
            lines = [b",".join(chance.choices(fields, k=width)) for _ in range(chance.randint(1, 4))]
            raw = b"".join(line + chance.choice([b"\n", b"\r\n"]) for line in lines)
        expected = _expected(raw)
        good += expected is not None
        assert _scanned(raw, chance.randint(1, 16)) == expected, raw
    assert good > 1_500
