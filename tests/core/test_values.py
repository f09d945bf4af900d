"""Canonical values of Arrow carriers: one JSON value for equal values, whatever carried them."""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal

import pyarrow as pa
import pytest
from carriers import UNITS, build, carriers
from hypothesis import given
from hypothesis import strategies as st
from vectors_at import vectors

from airflow_delta_provider.core import times
from airflow_delta_provider.core.errors import ValueLossyError, ValueRangeError, ValueTextError, ValueTypeError
from airflow_delta_provider.core.notation import canonical_scalar
from airflow_delta_provider.core.types import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
    from_schema,
)
from airflow_delta_provider.core.values import canonical_ok, canonical_values, inlined

NAN, INF = float("nan"), float("inf")


def canonical(array, carrier, schema=None):
    """Canonical values of an array whose types are given as a schema document writes them."""
    return canonical_values(array, from_schema(carrier), from_schema(schema or carrier))


@pytest.mark.parametrize("vector", vectors("value_vectors.json"), ids=lambda v: f"{v['type']} {v['input']!a}"[:60])
def test_published_inputs_have_the_published_values(vector):
    """The golden values of the format; each is also recognised as canonical."""
    found = canonical_scalar(vector["type"], vector["input"])
    assert found == vector["canonical"]
    assert type(found) is type(vector["canonical"])
    assert canonical_ok(found, from_schema(vector["type"]))


@pytest.mark.parametrize(
    ("array", "carrier", "schema", "expected"),
    [
        (pa.array([True, None]), "bool", "bool", [True, None]),
        (pa.array([-1, 0], pa.int8()), "int", "int", ["-1", "0"]),
        (pa.array([2**64 - 1], pa.uint64()), "int", "int", ["18446744073709551615"]),
        (pa.array([Decimal(2**127)], pa.decimal256(76, 0)), "int", "int", ["170141183460469231731687303715884105728"]),
        (pa.array([7, None]), "int", "decimal", ["7", None]),
        (pa.array([Decimal("1.10"), Decimal("0.00"), Decimal("-0.05")]), "decimal", "decimal", ["1.1", "0", "-0.05"]),
        (pa.array([Decimal("0.0000001")], pa.decimal128(20, 10)), "decimal", "decimal", ["0.0000001"]),
        (pa.array(["NaN", "1" * 2000]), "decimal", "decimal", ["NaN", "1" * 2000]),
        (build(pa.decimal128(5, -2), [Decimal(1200), Decimal(0)]), "decimal", "decimal", ["1200", "0"]),
        (pa.array([0.1, NAN, -INF, -0.0]), "float64", "decimal",
         ["0.1000000000000000055511151231257827021181583404541015625", "NaN", "-Infinity", "0"]),
        (pa.array([0.1], pa.float32()), "float32", "decimal", ["0.100000001490116119384765625"]),
        (pa.array([0.1], pa.float32()), "float32", "float64", ["0.10000000149011612"]),
        (pa.array([0.1, 2.0**-96, 1e-45, -0.0, NAN, INF], pa.float32()), "float32", "float32",
         ["0.1", "1.2621775e-29", "1e-45", "0", "NaN", "Infinity"]),
        (pa.array([1e21, 1e16, -0.0, 1e-7, None]), "float64", "float64", ["1e+21", "10000000000000000", "0", "1e-7", None]),
        (pa.array(["", "a\x00"], pa.large_string()), "text", "text", ["", "a\x00"]),
        (pa.array([b"ok", b"\xed\xa0\x80", b"\xff", None]), "text", "text", ["ok", {"wtf8": "eda080"}, {"wtf8": "ff"}, None]),
        (pa.array([b"\x00\xff", b""]), "bytes", "bytes", ["00ff", ""]),
        (pa.array([bytes(range(16))], pa.binary(16)), "uuid", "uuid", ["00010203-0405-0607-0809-0a0b0c0d0e0f"]),
        (build(pa.date32(), [0, DATE_INFINITY, DATE_MINUS_INFINITY, 2_932_897, -719_529]), "date", "date",
         ["1970-01-01", "infinity", "-infinity", "+010000-01-01", "-000001-12-31"]),
        (build(pa.date32(), [-719_528, 2_932_896, None]), "date", "date", ["0000-01-01", "9999-12-31", None]),
        (build(pa.time64("us"), [0, 86_400_000_000, 500_000]), "time", "time", ["00:00:00", "24:00:00", "00:00:00.5"]),
        (build(pa.time64("ns"), [1, 3_600_000_000_000]), "time", "time", ["00:00:00.000000001", "01:00:00"]),
        (build(pa.timestamp("us"), [-1, 0, 10_000_000]), "timestamp", "timestamp",
         ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "1970-01-01T00:00:10"]),
        (build(pa.timestamp("s", "UTC"), [100]), "timestamp_tz", "timestamp_tz", ["1970-01-01T00:01:40Z"]),
        (build(pa.timestamp("us"), [TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY, 0]), "timestamp", "timestamp",
         ["infinity", "-infinity", "1970-01-01T00:00:00"]),
        (build(pa.timestamp("ns", "UTC"), [TIMESTAMP_INFINITY, TIMESTAMP_INFINITY - 1]), "timestamp_tz", "timestamp_tz",
         ["infinity", "2262-04-11T23:47:16.854775806Z"]),
        (pa.array([Decimal(253402300800000000001)], pa.decimal128(38, 0)), "timestamp", "timestamp",
         ["+010000-01-01T00:00:00.000000001"]),
        (pa.array([(14, 3, -4_500_000_000), (0, 0, 0), (-1, 2, -1)], pa.month_day_nano_interval()), "interval", "interval",
         ["P14M3DT-4.5S", "P0M0DT0S", "P-1M2DT-0.000000001S"]),
        (pa.array(['{"a":1}']), "json", "json", ['{"a":1}']),
        (pa.array(['{"a": 1.0}']), "json_text", "json_text", ['{"a": 1.0}']),
    ],
)  # fmt: skip
def test_carriers_have_canonical_values(array, carrier, schema, expected):
    """Every kind of carrier, with the values at which drivers and casts go wrong."""
    assert canonical(array, carrier, schema) == expected
    assert canonical(array.slice(1), carrier, schema) == expected[1:]
    assert all(canonical_ok(value, from_schema(schema)) for value in expected)


def test_nested_values_are_arrays():
    """Struct fields stand in the schema's order, map entries in the order of their keys."""
    struct = pa.array([{"a": "x", "b": 1}, None, {"a": None, "b": None}])
    carrier = ["struct", [["a", "text"], ["b", "int"]]]
    schema = ["struct", [["b", "decimal"], ["a", "text"]]]
    assert canonical(struct, carrier, schema) == [["1", "x"], None, [None, None]]
    lists = pa.array([[1, None], [], None, [2]])
    assert canonical(lists, ["array", "int"]) == [["1", None], [], None, ["2"]]
    assert canonical(lists.slice(1, 3), ["array", "int"]) == [[], None, ["2"]]
    maps = pa.array([[(300, "b"), (-1, None)], None, [], [(2, "z")]], pa.map_(pa.int64(), pa.string()))
    assert canonical(maps, ["map", "int", "text"]) == [[["-1", None], ["300", "b"]], None, [], [["2", "z"]]]
    assert canonical(maps.slice(3), ["map", "int", "text"]) == [[["2", "z"]]]
    deep = pa.array([[[{"n": [b"\xff"]}]], [None]])
    assert canonical(deep, ["array", ["array", ["struct", [["n", ["array", "text"]]]]]]) == [
        [[[[{"wtf8": "ff"}]]]],
        [None],
    ]


@pytest.mark.parametrize(
    ("array", "carrier", "schema", "error"),
    [
        (pa.array([86_400_000_001]).cast(pa.time64("us")), "time", "time", ValueRangeError),
        (pa.array([-1]).cast(pa.time64("us")), "time", "time", ValueRangeError),
        (pa.array([Decimal(2**128)], pa.decimal256(76, 0)), "int", "int", ValueRangeError),
        (pa.array([Decimal("1.5")]), "int", "int", ValueLossyError),
        (pa.array(["1.50"]), "decimal", "decimal", ValueTypeError),
        (pa.array([0.1]), "float64", "float32", ValueTypeError),
        (pa.array([1]), "int", "text", ValueTypeError),
        (pa.array(["1"]), "int", "int", ValueTypeError),
        (pa.array([1]), "date", "date", ValueTypeError),
        (pa.array([{"a": 1}]), ["struct", [["b", "int"]]], ["struct", [["b", "int"]]], ValueTypeError),
        (pa.array([{"a": 1}]), ["struct", [["a", "int"]]], ["struct", [["a", "int"], ["b", "int"]]], ValueTypeError),
    ],
)  # fmt: skip
def test_values_that_the_type_does_not_hold_are_refused(array, carrier, schema, error):
    """Nothing is rounded, cut or read as another type in silence."""
    with pytest.raises(error):
        canonical(array, carrier, schema)


@given(st.sampled_from(UNITS), st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 2), max_size=5), st.booleans())
def test_time_stamps_by_the_fast_and_the_slow_way_agree(unit, counts, zoned):
    """Arrow writes the years 0 to 9999, Python integers the others; the seam must not show."""
    kind = "timestamp_tz" if zoned else "timestamp"
    array = build(pa.timestamp(unit, "UTC" if zoned else None), counts)
    ns = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    expected = [None if count is None else times.timestamp_text(count * ns, zoned) for count in counts]
    assert canonical(array, kind) == expected


@given(st.datetimes())
def test_time_stamps_agree_with_the_standard_library(moment):
    """An independent calendar, where it reaches."""
    delta = moment - datetime.datetime(1970, 1, 1)
    count = (delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds
    text = canonical(build(pa.timestamp("us"), [count]), "timestamp")[0]
    assert datetime.datetime.fromisoformat(text) == moment
    assert times.parse_timestamp(text, False) == count * 1000


@given(st.integers(-(10**30), 10**30))
def test_any_instant_reads_back(ns):
    """No year is out of reach, and the text is canonical."""
    text = times.timestamp_text(ns, True)
    assert times.parse_timestamp(text, True) == ns
    assert canonical_ok(text, LogicalType("timestamp_tz"))


@given(st.data(), st.sampled_from(["int", "decimal"]))
def test_numbers_have_their_exact_value(data, kind):
    """Arrow's own texts turn to exponents for small numbers; ours must not, and lose no digit."""
    array = data.draw(carriers(kind, 4))
    found = canonical(array, kind)
    if pa.types.is_decimal(array.type) and array.type.scale < 0:
        return
    for value, text in zip(array.to_pylist(), found, strict=True):
        assert (value is None) == (text is None)
        if text not in (None, "NaN"):
            assert Decimal(value) == Decimal(text)
            assert canonical_ok(text, LogicalType(kind))


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("1.0", "decimal"), (1, "int"), ("01", "int"), (str(2**128), "int"), (True, "int"), ("true", "bool"), (1, "bool"),
        ("1e21", "float64"), ("0.10000000149011612", "float32"), ("\ud800", "text"), ({"wtf8": "61"}, "text"),
        ({"wtf8": "f"}, "text"), ({"wtf8": "ff", "a": 1}, "text"), ({"wtf8": "ff"}, "bytes"), ("FF", "bytes"), ("f", "bytes"),
        ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "uuid"), ("2024-02-30", "date"), ("2024-13-01", "date"), ("10000-01-01", "date"),
        ("+002024-01-01", "date"), ("-000000-01-01", "date"), ("24:00:00.5", "time"), ("00:00:00.10", "time"), ("23:60:00", "time"),
        ("1970-01-01T24:00:00", "timestamp"), ("1970-01-01T00:00:00Z", "timestamp"), ("1970-01-01T00:00:00", "timestamp_tz"),
        ("1970-01-01 00:00:00", "timestamp"), ("Infinity", "timestamp"), ("infinity", "time"), ("P1M2DT3.0S", "interval"),
        ("P1MT3S", "interval"), ("P0M0DT-0S", "interval"), ('{"b":1,"a":1}', "json"), ("[1.0]", "json"), ("[", "json"),
        (["1", 2], ["array", "int"]), ("1", ["array", "int"]), (["1"], ["struct", []]), (["x"], ["struct", [["a", "int"]]]),
        ([["2", "x"], ["1", "y"]], ["map", "int", "text"]), ([["1"]], ["map", "int", "text"]), ([[None, "x"]], ["map", "int", "text"]),
        ({}, "text"), (1.5, "float64"),
    ],
)  # fmt: skip
def test_other_forms_are_not_canonical(value, form):
    """A verifier recognises exactly what a writer writes."""
    assert not canonical_ok(value, from_schema(form))


def test_long_values_are_recorded_by_length_and_digest():
    """The limit counts bytes of canonical JSON, quotes and escapes included."""
    assert inlined("é" * 4, 10) == "é" * 4
    form = b'"' + "é".encode() * 4 + b'x"'
    assert inlined("é" * 4 + "x", 10) == {"bytes": 11, "sha256": hashlib.sha256(form).hexdigest()}
    assert inlined("\x00", 8) == "\x00"
    assert inlined("\x00", 7)["bytes"] == 8
    assert inlined(["1", None], 10) == ["1", None]
    assert inlined(["1", None], 9)["bytes"] == 10
    assert inlined(None, 1) is None
    assert inlined({"wtf8": "ff"}, 100) == {"wtf8": "ff"}


@pytest.mark.parametrize(
    ("form", "notation"), [("int", "1.5"), ("uuid", "zz"), ("bytes", "hex:f"), ("date", "ns:1"), ("time", "days:1"), ("float64", "ieee754:00ff")]
)  # fmt: skip
def test_a_bad_vector_is_told_from_a_failed_one(form, notation):
    """The conformance runner reports a notation that it cannot read."""
    with pytest.raises(ValueTextError):
        canonical_scalar(form, notation)
