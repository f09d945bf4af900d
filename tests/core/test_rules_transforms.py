"""Rules for one side: reading, rounding, bringing to a unit, values that count as NULL, arrays without order."""

from __future__ import annotations

import math
import struct
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.decimals import canonical_decimal, decimal_of_float
from airflow_delta_provider.core.errors import (
    RuleFitError,
    RuleZoneError,
    ValueJsonError,
    ValueRangeError,
    ValueTextError,
)
from airflow_delta_provider.core.rules import Typed, UnparsedValue, apply, apply_key_rules
from airflow_delta_provider.core.rules.convert import READABLE
from airflow_delta_provider.core.rules.parameters import rule_document
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.rules.rounding import rounded_text
from airflow_delta_provider.core.types import LogicalType, carrier_allowed
from airflow_delta_provider.core.values import canonical_values


def typed(kind, *texts, **bounds):
    """Return a column of canonical texts, read by the readers that have tests of their own."""
    type = LogicalType(kind, **bounds)
    array, bad = parse_text(pa.array(texts, pa.string()), type)
    assert not any(bad.to_pylist())
    return Typed(type, array)


def shown(column):
    return canonical_values(column.array, column.type, column.type)


def read(column, wanted, side="source", **parameters):
    return apply(rule_document("read_as", {"type": wanted, **parameters}, "c"), column, side)


@pytest.mark.parametrize(
    ("kind", "text", "wanted", "expected"),
    [
        ("text", "42", "int", "42"),
        ("text", "1.50", "decimal", "1.5"),
        ("text", "0.1", "float32", "0.1"),
        ("json_text", '{"b":1.0}', "json", '{"b":1}'),
        ("json_text", "{ }", "text", "{ }"),
        ("json", '{"a":1}', "text", '{"a":1}'),
        ("bool", "true", "int", "1"),
        ("bool", "false", "text", "false"),
        ("int", "1", "bool", True),
        ("int", "9223372036854775808", "decimal", "9223372036854775808"),
        ("int", "-3", "decimal", "-3"),
        ("int", "3", "float64", "3"),
        ("int", "3", "text", "3"),
        ("decimal", "3", "int", "3"),
        ("decimal", "0.1", "float64", "0.1"),
        ("decimal", "1", "bool", True),
        ("decimal", "1.5", "text", "1.5"),
        ("float64", "3", "int", "3"),
        ("float64", "1", "bool", True),
        ("float64", "1e+21", "int", "1000000000000000000000"),
        ("float64", "0.1", "decimal", "0.1000000000000000055511151231257827021181583404541015625"),
        ("float64", "NaN", "decimal", "NaN"),
        ("float64", "0.1", "float32", "0.1"),
        ("float64", "0.1", "text", "0.1"),
        ("float32", "0.1", "float64", "0.10000000149011612"),
        ("bytes", "01", "bool", True),
        ("bytes", "c3a9", "text", "é"),
        ("bytes", "00112233445566778899aabbccddeeff", "uuid", "00112233-4455-6677-8899-aabbccddeeff"),
        ("uuid", "00112233-4455-6677-8899-aabbccddeeff", "bytes", "00112233445566778899aabbccddeeff"),
        ("uuid", "00112233-4455-6677-8899-aabbccddeeff", "text", "00112233-4455-6677-8899-aabbccddeeff"),
        ("date", "2020-06-03", "timestamp", "2020-06-03T00:00:00"),
        ("date", "infinity", "timestamp", "infinity"),
        ("date", "-004712-01-01", "timestamp", "-004712-01-01T00:00:00"),
        ("date", "+400000-01-01", "timestamp", "+400000-01-01T00:00:00"),
        ("timestamp", "2020-06-03T00:00:00", "date", "2020-06-03"),
        ("timestamp", "-infinity", "date", "-infinity"),
        ("timestamp", "2020-06-03T00:00:00.5", "text", "2020-06-03T00:00:00.5"),
        ("time", "24:00:00", "interval", "P0M0DT86400S"),
        ("time", "01:02:03.000000004", "interval", "P0M0DT3723.000000004S"),
        ("interval", "P1M2DT3S", "text", "P1M2DT3S"),
    ],
)
def test_a_value_is_read_as_another_type_exactly(kind, text, wanted, expected):
    """What can be read is the same value in another family; NULL stays NULL."""
    column = read(typed(kind, text, None), wanted)
    assert column.type.kind == wanted
    assert carrier_allowed(wanted, column.array.type)
    assert shown(column) == [expected, None]
    assert column.unparsed is None


@pytest.mark.parametrize(
    ("kind", "text", "wanted", "error"),
    [
        ("text", "4 2", "int", ValueTextError),
        ("text", "{", "json", ValueJsonError),
        ("json_text", "[1", "json", ValueJsonError),
        ("int", "2", "bool", ValueTextError),
        ("decimal", "1.5", "int", ValueTextError),
        ("decimal", "NaN", "int", ValueTextError),
        ("float64", "1.5", "int", ValueTextError),
        ("float64", "1e+308", "float32", ValueTextError),
        ("decimal", "1" + "0" * 400, "float64", ValueTextError),
        ("bytes", "ff", "text", ValueTextError),
        ("bytes", "02", "bool", ValueTextError),
        ("bytes", "0001", "bool", ValueTextError),
        ("bytes", "0011", "uuid", ValueTextError),
        ("timestamp", "2020-06-03T00:00:01", "date", ValueTextError),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_with_its_row(kind, text, wanted, error):
    """The caller turns the row into a key; the value goes into the message."""
    with pytest.raises(UnparsedValue) as caught:
        read(typed(kind, None, text), wanted, side="target")
    assert (caught.value.row, caught.value.side, caught.value.error) == (1, "target", error)
    assert (caught.value.text, caught.value.reason) == (text, f"cannot be read as {wanted}")
    assert caught.value.moved(7).row == 7


def test_what_cannot_be_read_may_be_different_from_everything():
    """Its text is kept beside the array, for the record; a second reading rule keeps it."""
    column = read(typed("text", "1", "x", None, "2.5"), "decimal", otherwise="different")
    assert shown(column) == ["1", None, None, "2.5"]
    assert column.unparsed.to_pylist() == [None, "x", None, None]
    column = read(column, "int", otherwise="different")
    assert shown(column) == ["1", None, None, None]
    assert column.unparsed.to_pylist() == [None, "x", None, "2.5"]


def test_a_bool_may_be_true_or_false_otherwise():
    """A tinyint with 2 and -1 in it, read as the application reads it."""
    column = typed("int", "1", "0", "2", "-1", None)
    assert shown(read(column, "bool", otherwise=True, false_values=[0])) == [True, False, True, True, None]
    assert shown(read(column, "bool", otherwise="false")) == [True, False, False, False, None]


def test_text_that_is_not_unicode_cannot_be_read():
    """Its bytes are shown escaped; the valid rows beside it are read."""
    column = Typed(LogicalType("text"), pa.array([b"1", b"\xff", None], pa.binary()))
    found = read(column, "int", otherwise="different")
    assert (shown(found), found.unparsed.to_pylist()) == (["1", None, None], [None, "\\xff", None])


def test_reading_a_column_as_what_it_is_changes_nothing():
    """Not even the array is another."""
    for kind in READABLE:
        column = Typed(LogicalType(kind), typed(kind, None).array)
        assert read(column, kind) is column


def test_a_rule_for_the_other_side_changes_nothing():
    """``side: target`` leaves the source alone."""
    column = typed("text", "x")
    rule = rule_document("read_as", {"type": "int", "side": "target"}, "c")
    assert apply(rule, column, "source") is column
    with pytest.raises(UnparsedValue):
        apply(rule, column, "target")
    rule = rule_document("normalize", {"steps": ["casefold"], "side": "source"}, "c")
    assert apply(rule, typed("text", "A"), "source").array.to_pylist() == ["a"]
    assert apply(rule, typed("text", "A"), "target").array.to_pylist() == ["A"]


def test_a_type_that_cannot_be_read_so_is_refused():
    """The plan refuses it first; a contract from elsewhere meets this."""
    with pytest.raises(RuleFitError, match="int cannot be read as uuid"):
        read(typed("int", "1"), "uuid")


def test_an_ambiguous_time_is_refused_whatever_happens_to_others():
    """``otherwise`` is about values that are none; this is a value that is two."""
    for column in (typed("timestamp", None, "2026-11-01T01:30:00"), typed("text", None, "2026-11-01 01:30:00")):
        for otherwise in ("refuse", "different"):
            with pytest.raises(UnparsedValue, match="is ambiguous in America/New_York") as caught:
                read(column, "timestamp_tz", zone="America/New_York", otherwise=otherwise)
            assert (caught.value.row, caught.value.error) == (1, RuleZoneError)
            assert caught.value.text.replace("T", " ") == "2026-11-01 01:30:00"
    with pytest.raises(UnparsedValue, match="is skipped in Europe/Rome"):
        read(typed("timestamp", "2024-03-31T02:30:00"), "timestamp_tz", zone="Europe/Rome")
    column = read(typed("text", "x", "2024-03-31 02:30:00"), "timestamp_tz", zone="UTC", otherwise="different")
    assert (shown(column), column.unparsed.to_pylist()) == ([None, "2024-03-31T02:30:00Z"], ["x", None])


def rounded(column, places, mode="half_even"):
    return apply(rule_document("round", {"places": places, "mode": mode}, "c"), column, "source")


@pytest.mark.parametrize(
    ("text", "places", "half_even", "half_up", "down"),
    [
        ("4.025", 2, "4.02", "4.03", "4.02"),
        ("4.035", 2, "4.04", "4.04", "4.03"),
        ("-2.345", 2, "-2.34", "-2.35", "-2.34"),
        ("0.005", 2, "0", "0.01", "0"),
        ("-0.004", 2, "0", "0", "0"),
        ("99.995", 2, "100", "100", "99.99"),
        ("1234.5", 0, "1234", "1235", "1234"),
        ("1250", -2, "1200", "1300", "1200"),
        ("49", -2, "0", "0", "0"),
        ("7", 5, "7", "7", "7"),
        ("0.1", 30, "0.1", "0.1", "0.1"),
    ],
)
def test_rounding_is_decimal_and_done_by_us(text, places, half_even, half_up, down):
    """Each carrier gives the same digits; half up is away from zero."""
    for mode, expected in (("half_even", half_even), ("half_up", half_up), ("down", down)):
        scale = max(-Decimal(text).as_tuple().exponent, 0)
        arrays = [pa.array([text, None], pa.string())]
        arrays += [pa.array([Decimal(text), None], kind(30, scale)) for kind in (pa.decimal128, pa.decimal256)]
        arrays += [
            pa.array([Decimal(text), None], pa.decimal128(max(len(text.strip("-").replace(".", "")), scale), scale))
        ]
        for array in arrays:
            column = rounded(Typed(LogicalType("decimal"), array), places, mode)
            assert (shown(column), column.type.kind) == ([expected, None], "decimal")


def test_a_float_is_rounded_from_its_exact_value():
    """2.675 as float64 is a little less than that, so it goes down; an integer and the specials stay."""
    column = Typed(LogicalType("float64"), pa.array([2.675, 0.125, math.nan, math.inf, -math.inf, 1e300]))
    assert shown(rounded(column, 2, "half_up")) == [
        "2.67",
        "0.13",
        "NaN",
        "Infinity",
        "-Infinity",
        format(Decimal.from_float(1e300), "f"),
    ]
    assert shown(rounded(Typed(LogicalType("int"), pa.array([17, -25], pa.int8())), 0)) == ["17", "-25"]
    assert shown(rounded(Typed(LogicalType("int"), pa.array([17, -25], pa.int8())), -1)) == ["20", "-20"]


MODES = {"half_even": ROUND_HALF_EVEN, "half_up": ROUND_HALF_UP, "down": ROUND_DOWN}


@given(
    st.lists(st.decimals(-(10**20), 10**20, places=6), min_size=1, max_size=5),
    st.integers(-3, 8),
    st.sampled_from(sorted(MODES)),
)
def test_the_kernel_rounds_as_python_does(numbers, places, mode):
    """Arrow's rounding of decimals against Python's, and against the way of texts."""
    array = pa.array(numbers, pa.decimal128(38, 6))
    with localcontext() as context:
        context.prec = 100
        expected = [number.quantize(Decimal(1).scaleb(-places), MODES[mode]) for number in numbers]
    found = [Decimal(text) for text in shown(rounded(Typed(LogicalType("decimal"), array), places, mode))]
    assert found == expected
    texts = [format(number.normalize(), "f") for number in numbers]
    assert [Decimal(rounded_text(text, places, mode)) for text in texts] == expected


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.floats(),
            st.integers(-(10**6), 10**6).map(lambda number: number / 1000),
            st.integers(-4000, 4000).map(lambda number: number / 16),
        ),
        max_size=6,
    ),
    st.integers(-3, 25),
    st.sampled_from(sorted(MODES)),
    st.sampled_from([pa.float64(), pa.float32()]),
)
def test_floats_are_rounded_from_their_exact_value_on_every_way(numbers, places, mode, arrow):
    """Float arithmetic may only speak where it is sure; halves that are exact in binary are the test of that."""
    array = pa.array(numbers, pa.float64()).cast(arrow)
    expected = []
    for number in array.to_pylist():
        if number is None or number - number != 0:
            expected.append(None if number is None else decimal_of_float(number))
            continue
        with localcontext() as context:
            context.prec = 2000
            exact = Decimal(number)
            if -exact.as_tuple().exponent > places:
                exact = exact.quantize(Decimal(1).scaleb(-places), MODES[mode])
        expected.append(canonical_decimal(format(exact, "f")))
    kind = "float64" if arrow == pa.float64() else "float32"
    assert shown(rounded(Typed(LogicalType(kind), array), places, mode)) == expected


def single(column):
    return apply(rule_document("single_precision", {}, "c"), column, "source")


@given(st.lists(st.floats(-3e38, 3e38), max_size=5))
def test_single_precision_is_the_nearest_float32_of_any_number(numbers):
    """From a float64, and from the decimal that has the same value."""
    expected = [struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers]
    assert single(Typed(LogicalType("float64"), pa.array(numbers, pa.float64()))).array.to_pylist() == expected
    texts = pa.array([format(Decimal(number), "f") for number in numbers], pa.string())
    decimals, _ = parse_text(texts, LogicalType("decimal"))
    assert single(Typed(LogicalType("decimal"), decimals)).array.to_pylist() == expected


def test_single_precision_rounds_ints_once_and_keeps_the_specials():
    """2**24 + 1 lies between two float32; an int64 has more digits than a float64."""
    assert single(typed("int", "16777217", "9007199791611905", None)).array.to_pylist() == [
        16777216.0,
        9007200328482816.0,
        None,
    ]
    assert shown(single(typed("float64", "Infinity", "-Infinity", "NaN"))) == ["Infinity", "-Infinity", "NaN"]
    assert shown(single(typed("decimal", "Infinity", "NaN"))) == ["Infinity", "NaN"]


def test_single_precision_refuses_what_is_beyond_float32():
    """Both 1e39 and 2e39 would become infinite, and so equal, which they are not."""
    for kind in ("float64", "decimal"):
        with pytest.raises(UnparsedValue, match="is beyond the range of float32") as caught:
            single(typed(kind, None, "1" + "0" * 39) if kind == "decimal" else typed(kind, None, "1e+39"))
        assert (caught.value.row, caught.value.error) == (1, ValueRangeError)


def precise(column, unit, mode="truncate"):
    return shown(apply(rule_document("precision", {"unit": unit, "mode": mode}, "c"), column, "source"))


@pytest.mark.parametrize(
    ("text", "unit", "truncated", "half_up"),
    [
        ("2024-01-01T00:00:00.9995", "ms", "2024-01-01T00:00:00.999", "2024-01-01T00:00:01"),
        ("2024-01-01T00:00:00.9994", "ms", "2024-01-01T00:00:00.999", "2024-01-01T00:00:00.999"),
        ("1969-12-31T23:59:59.9", "s", "1969-12-31T23:59:59", "1970-01-01T00:00:00"),
        ("1969-12-31T23:59:59.5", "s", "1969-12-31T23:59:59", "1970-01-01T00:00:00"),
        ("1969-12-31T23:59:59.4", "s", "1969-12-31T23:59:59", "1969-12-31T23:59:59"),
        ("2024-01-01T00:00:00.123456789", "us", "2024-01-01T00:00:00.123456", "2024-01-01T00:00:00.123457"),
        ("2024-12-31T23:59:59.999999999", "us", "2024-12-31T23:59:59.999999", "2025-01-01T00:00:00"),
        ("9999-12-31T23:59:59.999999999", "us", "9999-12-31T23:59:59.999999", "+010000-01-01T00:00:00"),
        ("2262-04-11T23:47:16.854775806", "s", "2262-04-11T23:47:16", "2262-04-11T23:47:17"),
        ("1677-09-21T00:12:43.145224194", "s", "1677-09-21T00:12:43", "1677-09-21T00:12:43"),
        ("infinity", "s", "infinity", "infinity"),
    ],
)
def test_a_timestamp_is_brought_to_a_unit(text, unit, truncated, half_up):
    """The digits behind the unit are dropped, before 1970 too; a carrier's edge is no obstacle."""
    assert precise(typed("timestamp", text, None), unit) == [truncated, None]
    assert precise(typed("timestamp", text, None), unit, "half_up") == [half_up, None]


def test_a_time_of_day_is_brought_to_a_unit():
    """Half a second before midnight is rounded to 24:00:00, which is a time of day."""
    column = typed("time", "23:59:59.5", "12:00:00.4999", None)
    assert precise(column, "s") == ["23:59:59", "12:00:00", None]
    assert precise(column, "s", "half_up") == ["24:00:00", "12:00:00", None]
    assert precise(typed("timestamp_tz", "2024-01-01T00:00:00.5Z"), "s") == ["2024-01-01T00:00:00Z"]


def nulled(column, listed):
    return shown(apply(rule_document("null_equals", listed, "c"), column, "source"))


@pytest.mark.parametrize(
    ("kind", "texts", "listed", "expected"),
    [
        ("text", ["", " ", "N/A", None], ["", "N/A"], [None, " ", None, None]),
        ("int", ["0", "-1", "10"], ["0", "-1"], [None, None, "10"]),
        ("int", ["1"], ["1.5"], ["1"]),
        ("decimal", ["-999.25", "-999.2", "NaN"], ["-999.25", "NaN"], [None, "-999.2", None]),
        ("float64", ["0.1", "0", "NaN"], ["0.1", "NaN"], [None, "0", None]),
        ("bool", ["true", "false"], [False], [True, None]),
        ("bytes", ["00", ""], ["00"], [None, ""]),
        ("uuid", ["00000000-0000-0000-0000-000000000000"], ["00000000-0000-0000-0000-000000000000"], [None]),
        ("date", ["1900-01-01", "infinity"], ["1900-01-01", "infinity"], [None, None]),
        ("timestamp", ["1900-01-01T00:00:00", "1900-01-01T00:00:00.1"], ["1900-01-01T00:00:00"],
         [None, "1900-01-01T00:00:00.1"]),
        ("time", ["00:00:00"], ["00:00:00"], [None]),
        ("interval", ["P0M0DT0S", "P0M1DT0S"], ["P0M0DT0S"], [None, "P0M1DT0S"]),
        ("json", ["{}", "[]"], ["{}"], [None, "[]"]),
        ("text", ["0000-00-00", "0000-00-00 00:00:00", "0000-00-00 00:00:00.000000", "0000-00-01"], "zero_date",
         [None, None, None, "0000-00-01"]),
        ("date", ["0000-01-01"], "zero_date", ["0000-01-01"]),
    ],
)  # fmt: skip
def test_listed_values_are_null(kind, texts, listed, expected):
    """By value, in every type, whatever carries it; nothing near them."""
    assert nulled(typed(kind, *texts), listed) == expected


def test_values_in_other_carriers_are_null_too():
    """A decimal128 and an int8 hold the same zero."""
    assert nulled(Typed(LogicalType("decimal"), pa.array([Decimal("0.00"), Decimal("1.10")])), ["0", "1.1"]) == [
        None,
        None,
    ]
    assert nulled(Typed(LogicalType("int"), pa.array([0, 5], pa.int8())), ["0"]) == [None, "5"]
    assert nulled(Typed(LogicalType("text"), pa.array([b"", b"\xff"], pa.binary())), [""]) == [None, {"wtf8": "ff"}]


def ordered(array, item, schema=None):
    type = LogicalType("array", item=LogicalType(item))
    rule = rule_document("array_order", "ignored", "c")
    return apply(rule, Typed(type, array), "source", schema).array.to_pylist()


def test_arrays_without_order_are_sorted_by_their_elements():
    """By canonical JSON bytes: so "10" stands before "9", on both sides alike; an empty array is no NULL."""
    assert ordered(pa.array([[10, 9, None], [], None, [1, 1, 2]]), "int") == [[10, 9, None], [], None, [1, 1, 2]]
    assert ordered(pa.array([["b", "a", "é", "A"], None]).slice(0, 1), "text") == [["A", "a", "b", "é"]]
    array = pa.array([[5], [3, 1, 2], None, [2, 1]])
    assert ordered(array.slice(1), "int") == [[1, 2, 3], None, [1, 2]]


def test_arrays_of_two_types_are_sorted_by_what_they_have_in_common():
    """A float64 and a decimal of the same value are written differently; the common form decides the order."""
    common = LogicalType("array", item=LogicalType("decimal"))
    assert ordered(pa.array([[1e-7, 2.0, 1e21]]), "float64", common) == [[1e-7, 1e21, 2.0]]


@given(st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-3, 20)), max_size=6)), max_size=5))
def test_equal_multisets_become_equal_arrays(rows):
    """And unequal ones stay unequal: the elements are the same ones in another order."""
    found = ordered(pa.array(rows, pa.list_(pa.int64())), "int")
    turned = ordered(pa.array([row and row[::-1] for row in rows], pa.list_(pa.int64())), "int")
    assert found == turned
    key = lambda value: (value is None, value or 0)  # noqa: E731
    assert [row and sorted(row, key=key) for row in found] == [row and sorted(row, key=key) for row in rows]


def test_key_rules_apply_one_after_the_other():
    """A key read as UUID from text, after its case was folded."""
    rules = [rule_document("normalize", ["nfkc", "strip"], "k"), rule_document("read_as", {"type": "int"}, "k")]
    assert shown(apply_key_rules(rules, typed("text", " １２ ", None), "source")) == ["12", None]
