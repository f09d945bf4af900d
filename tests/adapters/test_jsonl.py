"""JSON Lines sides: the readers' suite, strict lines, exact numbers, and types told by the values."""

from decimal import Decimal

import pyarrow as pa
import pytest
from adapters.file_tables import KEY_KINDS, KINDS, jsonl_text
from adapters.reader_suite import ReaderSuite

from airflow_delta_provider.adapters.files import open_file_side
from airflow_delta_provider.adapters.side import Order, RangeCost, Request
from airflow_delta_provider.core.errors import SideColumnTypeError, SideLineError, SideMissingError, ValueTextError
from airflow_delta_provider.core.types import LogicalType

INT, TEXT, DECIMAL = LogicalType("int"), LogicalType("text"), LogicalType("decimal")


class TestJsonlReaders(ReaderSuite):
    """JSON Lines passes the readers' suite; an empty file has the columns that are declared."""

    kinds = KINDS
    key_kinds = KEY_KINDS
    ordered = False

    @pytest.fixture
    def build(self, tmp_path):
        """Write one file a table."""

        def make(columns, rows, key=(), table="readings"):
            path = tmp_path / f"{table}.jsonl"
            path.write_text(jsonl_text(columns, rows), encoding="utf-8", newline="")
            return open_file_side(str(path), {"jsonl": {"types": dict(columns)}})

        return make

    @pytest.mark.parametrize("absent", [None])
    def test_a_missing_table_is_refused_by_name(self, absent, tmp_path):
        """Files are looked for when the side is opened."""
        with pytest.raises(SideMissingError, match="nowhere"):
            open_file_side(str(tmp_path / "nowhere.jsonl"))


@pytest.fixture
def opened(tmp_path):
    """Open a JSON Lines file with these bytes."""

    def make(raw, **options):
        (tmp_path / "t.jsonl").write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return open_file_side(str(tmp_path / "t.jsonl"), {"jsonl": options})

    return make


def rows_of(side, *names):
    """Return rows as tuples."""
    names = names or tuple(column.name for column in side.columns)
    return [tuple(row.values()) for batch in side.read(Request(columns=names)) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('{"id": 1, "v": 1.5}\n{"id": 2, "v": NaN}\n', "line 2: NaN is not valid JSON"),
        ('{"v": [-Infinity]}\n', "line 1: -Infinity is not valid JSON"),
        ('{"a":1}\n[1]\n', "line 2: the line is no JSON object"),
        ('{"a":1}\n{"a":1,"a":2}\n', "line 2: member a occurs twice"),
        ('{"a":{"b":[{"c":1,"c":2}]}}\n', "line 1: member c occurs twice"),
        ('{"a":1} {"a":2}\n', "line 1: not valid JSON: Extra data"),
        ('{"a":1}\n\n', "line 2: the line is blank"),
        ('{"a":01}\n', "line 1: not valid JSON"),
        ('{"a":+1}\n', "line 1: not valid JSON"),
        ("{'a':1}\n", "line 1: not valid JSON"),
        ('{"a":1,}\n', "line 1: not valid JSON"),
        ('{"a":"\x01"}\n', "line 1: not valid JSON: Invalid control character"),
        ('{"a":1}\n{"a":', "line 2: not valid JSON"),
        (b'{"a":1}\n{"a":"\xff"}\n', "line 2: the bytes are not valid UTF-8"),
        (b'{"a":"\xed\xa0\x80"}\n', "line 1: the bytes are not valid UTF-8"),
        ('{"\\ud800":1}\n', "line 1: the name of a member is not valid Unicode"),
        ("[" * 100_000 + "\n", "line 1: arrays and objects are nested too deep"),
    ],
)
def test_anything_but_strict_json_is_refused_with_its_line(opened, raw, words):
    """Parsers differ in what they let through; a comparison must not depend on that."""
    with pytest.raises(SideLineError, match=rf"\[DELTA_SIDE_LINE\] t\.jsonl, {words}"):
        rows_of(opened(raw))


def test_columns_are_the_union_of_members_in_order_of_first_appearance(opened):
    """A member that is missing is NULL, as one that is null."""
    side = opened('{"b":1}\r\n{"a":"x","b":null}\n {"c":true} ')
    assert rows_of(side) == [(1, None, None), (None, "x", None), (None, None, True)]
    assert [(column.name, sorted(column.forms), column.untyped) for column in side.columns] == [
        ("b", ["number"], True),
        ("a", ["text"], True),
        ("c", ["bool"], True),
    ]


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        (["1", "-0", "123456789012345678901234567890"], "int", [1, 0, Decimal("123456789012345678901234567890")]),
        (["1.10", "2"], "decimal", None),
        (["1e3"], "decimal", None),
        (["true", "null"], "bool", [True, None]),
        (['"1"'], "text", ["1"]),
        (['{"x" : [1, 2.50]}', "[ ]", "null"], "json_text", ['{"x" : [1, 2.50]}', "[ ]", None]),
        (["null"], "text", [None]),
    ],
)
def test_a_type_that_nobody_declares_is_told_by_all_values(opened, values, kind, read):
    """Numbers are taken by their text: no digit is lost on the way through a float."""
    side = opened("".join(f'{{"v":{value}}}\n' for value in values))
    assert side.columns[0].type == LogicalType(kind)
    if read is not None:
        assert [value for (value,) in rows_of(side)] == read


def test_fractions_keep_every_digit(opened):
    """0.1 is a tenth and not the nearest double."""
    side = opened('{"v":0.1}\n{"v":12345678901234567890.123456789}\n')
    from airflow_delta_provider.core.values import canonical_values

    batches = list(side.read(Request(columns=("v",))))
    assert [canonical_values(batch.column(0), DECIMAL, DECIMAL) for batch in batches] == [
        ["0.1", "12345678901234567890.123456789"]
    ]


def test_mixed_values_have_no_type_until_one_is_named(opened):
    """A number is not silently text, nor a text a number."""
    side = opened('{"v":1}\n{"v":"x"}\n{"v":{"b": 1}}\n')
    assert side.columns[0].type is None
    assert "json" in side.columns[0].advice
    with pytest.raises(SideColumnTypeError, match="column v has type json or number or text"):
        rows_of(side)
    assert rows_of(side.resolve({"v": LogicalType("json_text")})) == [("1",), ('"x"',), ('{"b": 1}',)]


@pytest.mark.parametrize(
    ("value", "type", "words"),
    [
        ("7", TEXT, '"7" is no text but a number'),
        ("true", TEXT, '"true" is no text but a boolean'),
        ("true", INT, '"true" is no int but a boolean'),
        ("1", LogicalType("bool"), '"1" is no bool but a number'),
        ("1.5", INT, '"1.5" is no int'),
        ("20240101", LogicalType("date"), '"20240101" is no date but a number'),
        ('{"a": 1}', INT, "is no int but a document"),
        ('"\\ud800"', INT, r'"\\xd800" is no int'),
        ("[1]", LogicalType("struct", fields=(("x", INT),)), "is no struct<.*> but a document"),
        ('{"x":1,"y":2}', LogicalType("struct", fields=(("x", INT),)), "is no struct"),
        ('[1,"x"]', LogicalType("array", item=INT), '"x" is no int'),
    ],
)
def test_a_form_that_the_partners_type_does_not_mean_is_refused(opened, value, type, words):
    """The line, the column and what stands there are named."""
    side = opened(f'{{"k":1}}\n{{"v":{value}}}\n').resolve({"v": type})
    with pytest.raises(ValueTextError, match=rf"\[DELTA_VALUE_TEXT\] t\.jsonl, line 2, column v: .*{words}"):
        rows_of(side, "v")


@pytest.mark.parametrize(
    ("values", "type", "read"),
    [
        (['"12"', "7"], INT, [12, 7]),
        (["1", '"NaN"', "0.1"], LogicalType("float64"), [1.0, pytest.approx(float("nan"), nan_ok=True), 0.1]),
        (["[1,null,3]", "[]", "null"], LogicalType("array", item=INT), [[1, None, 3], [], None]),
        (['{"x":1}', "null", "{}"], LogicalType("struct", fields=(("x", INT),)), [{"x": 1}, None, {"x": None}]),
        (['{"a":1,"b":null}'], LogicalType("map", map_key=TEXT, item=INT), [[("a", 1), ("b", None)]]),
        (['"2024-02-29"'], LogicalType("date"), None),
        (['"{\\"a\\": 1}"'], LogicalType("json_text"), ['{"a": 1}']),
        (['{"b":1, "a":[2.50]}'], LogicalType("json"), ['{"a":[2.5],"b":1}']),
    ],
)
def test_values_are_read_strictly_as_their_partners_type(opened, values, type, read):
    """Numbers parse from their text; texts parse as those of a CSV file; a column of texts may hold documents."""
    side = opened("".join(f'{{"v":{value}}}\n' for value in values)).resolve({"v": type})
    assert side.columns[0].type == type
    found = [value for (value,) in rows_of(side)]
    assert found == read if read is not None else len(found) == 1


def test_a_number_under_a_declared_text_is_its_text(opened):
    """Who declares text means the characters that stand there."""
    assert rows_of(opened('{"v":1.50}\n{"v":true}\n{"v":"x"}\n', types={"v": "text"})) == [("1.50",), ("true",), ("x",)]


def test_lone_surrogates_are_kept(opened):
    """They are no valid Unicode, but they are in the file; two of them that pair are one character."""
    side = opened('{"v":"\\ud800x"}\n{"v":"\\ud83d\\ude00"}\n')
    batch = next(side.read(Request(columns=("v",))))
    assert batch.column(0).type == pa.binary()
    assert batch.column(0).to_pylist() == [b"\xed\xa0\x80x", "\U0001f600".encode()]


def test_lines_are_counted_over_blocks(opened):
    """Files are read block by block; the number in an error is that of the file."""
    good = "".join(f'{{"id":{n},"t":"{"x" * 100}"}}\n' for n in range(30_000))
    side = opened(good)
    assert (side.estimate_rows(), len(rows_of(side, "id"))) == (30_000, 30_000)
    with pytest.raises(SideLineError, match="line 30001: "):
        opened(good + "{").columns  # noqa: B018


def test_a_file_promises_no_order_and_no_index(opened):
    """A range costs the whole file, so the engine sorts once."""
    side = opened('{"a":1}\n')
    assert (side.order(("a",), (INT,)), side.range_cost(("a",))) == (Order.NONE, RangeCost.SCAN)
