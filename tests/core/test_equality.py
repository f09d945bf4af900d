"""Equality of whole arrays equals equality of canonical values, row by row."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from carriers import KINDS, build, carriers
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta_provider.core.equality import equal_mask, schema_type
from airflow_delta_provider.core.errors import SideIncomparableError, ValueTypeError
from airflow_delta_provider.core.types import NUMBERS, TIMESTAMP_INFINITY, LogicalType, from_schema
from airflow_delta_provider.core.values import canonical_values

PAIRS = [(kind, kind) for kind in KINDS] + [(one, other) for one in NUMBERS for other in NUMBERS if one != other]
NAN, INF = float("nan"), float("inf")


def masked(source, target, source_form, target_form):
    """The mask of two arrays whose types are given as a schema document writes them."""
    source_type, target_type = from_schema(source_form), from_schema(target_form)
    schema = schema_type(source_type, target_type)
    assert schema is not None
    mask = equal_mask(source, target, source_type, target_type, schema)
    assert mask.null_count == 0
    return mask.to_pylist()


@settings(max_examples=300)
@given(st.data(), st.sampled_from(PAIRS), st.integers(0, 5))
def test_kernels_agree_with_canonical_values(data, pair, length):
    """A kernel that says "equal" where the canonical values differ would be the worst fault of all."""
    source, target = (data.draw(carriers(kind, length)) for kind in pair)
    source_type, target_type = (LogicalType(kind) for kind in pair)
    schema = schema_type(source_type, target_type)
    ours, theirs = canonical_values(source, source_type, schema), canonical_values(target, target_type, schema)
    expected = [one == other for one, other in zip(ours, theirs, strict=True)]
    assert masked(source, target, *pair) == expected


@st.composite
def nested(draw, length):
    """One nested type for two sides, with arrays of it."""
    one, other = draw(st.sampled_from([pair for pair in PAIRS if "interval" not in pair]))
    sides = [[draw(carriers(kind, length * 2)) for kind in (one, other)] for _ in range(2)]
    shape = draw(st.sampled_from(["array", "struct", "map"]))
    if shape == "struct":
        source = pa.StructArray.from_arrays([sides[0][0], sides[1][0]], ["a", "b"])
        target = pa.StructArray.from_arrays([sides[1][1], sides[0][1]], ["b", "a"])
        return source, target, ["struct", [["a", one], ["b", one]]], ["struct", [["b", other], ["a", other]]]
    arrays = []
    for child in sides[0]:
        cuts = sorted(draw(st.lists(st.integers(0, length * 2), min_size=length + 1, max_size=length + 1)))
        offsets = pa.array(cuts, pa.int32())
        if shape == "array":
            arrays.append(pa.ListArray.from_arrays(offsets, child))
        else:
            keys = pa.array([number % 3 for number in range(length * 2)])
            arrays.append(pa.MapArray.from_arrays(offsets, keys, child))
    forms = [["array", one], ["array", other]] if shape == "array" else [["map", "int", one], ["map", "int", other]]
    return arrays[0], arrays[1], *forms


@settings(max_examples=200)
@given(st.data(), st.integers(0, 3))
def test_nested_kernels_agree_with_canonical_values(data, length):
    """Arrays element by element, structs by name, maps by key; slices and NULLs at every level."""
    source, target, source_form, target_form = data.draw(nested(length))
    start = data.draw(st.integers(0, length))
    source, target = source.slice(start), target.slice(start)
    source_type, target_type = from_schema(source_form), from_schema(target_form)
    schema = schema_type(source_type, target_type)
    ours, theirs = canonical_values(source, source_type, schema), canonical_values(target, target_type, schema)
    assert masked(source, target, source_form, target_form) == [a == b for a, b in zip(ours, theirs, strict=True)]


@pytest.mark.parametrize(
    ("source", "target", "forms", "expected"),
    [
        (pa.array([0.1, 0.5, NAN, -0.0]), pa.array([Decimal("0.10"), Decimal("0.50"), None, Decimal(0)]), ("float64", "decimal"),
         [False, True, False, True]),
        (pa.array([NAN, INF, INF, -0.0]), pa.array([NAN, INF, -INF, 0.0]), ("float64", "float64"), [True, True, False, True]),
        (pa.array([NAN, INF]), pa.array(["NaN", "Infinity"]), ("float64", "decimal"), [True, True]),
        (pa.array([0.1, 0.5], pa.float32()), pa.array([0.1, 0.5]), ("float32", "float64"), [False, True]),
        (pa.array([2**53 + 1, 2**53]), pa.array([2.0**53, 2.0**53]), ("int", "float64"), [False, True]),
        (pa.array([2**63 - 1, -(2**63)]), pa.array([2.0**63, -(2.0**63)]), ("int", "float64"), [False, True]),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([-1]), ("int", "int"), [False]),
        (pa.array([Decimal("1.10")]), pa.array([Decimal("1.1")]), ("decimal", "decimal"), [True]),
        (pa.array([1, 1]), pa.array([Decimal("1.00"), Decimal("1.01")]), ("int", "decimal"), [True, False]),
        (pa.array(["", None, "a ", "e\u0301"]), pa.array([None, None, "a", "é"]), ("text", "text"), [False, True, False, False]),
        (pa.array(["a", "é"]), pa.array([b"a", b"\xff"]), ("text", "text"), [True, False]),
        (build(pa.timestamp("us"), [TIMESTAMP_INFINITY, 1]), build(pa.timestamp("ns"), [TIMESTAMP_INFINITY, 1000]),
         ("timestamp", "timestamp"), [True, True]),
        (build(pa.timestamp("s"), [2**62, 18446744074]), build(pa.timestamp("ns"), [0, 290448384]), ("timestamp", "timestamp"),
         [False, False]),
        (build(pa.timestamp("ns"), [TIMESTAMP_INFINITY, 5]), pa.array([Decimal(TIMESTAMP_INFINITY), Decimal(5)], pa.decimal128(38, 0)),
         ("timestamp", "timestamp"), [False, True]),
        (pa.array([(1, 0, 0)], pa.month_day_nano_interval()), pa.array([(0, 30, 0)], pa.month_day_nano_interval()),
         ("interval", "interval"), [False]),
        (pa.array(['{"a":1}']), pa.array(['{"a": 1}']), ("json_text", "json_text"), [False]),
        (pa.array([[1, 2], [1], None]), pa.array([[2, 1], [1], []]), (["array", "int"], ["array", "int"]), [False, True, False]),
    ],
)  # fmt: skip
def test_equality_is_by_exact_value(source, target, forms, expected):
    """The cases that casts and drivers get wrong."""
    assert masked(source, target, *forms) == expected
    assert masked(target, source, *reversed(forms)) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("int", "int", "int"), ("int", "decimal", "decimal"), ("int", "float32", "decimal"), ("decimal", "float64", "decimal"),
        ("float32", "float64", "float64"), ("float32", "float32", "float32"), ("text", "text", "text"), ("text", "bytes", None),
        ("bool", "int", None), ("date", "timestamp", None), ("timestamp", "timestamp_tz", None), ("json", "json_text", None),
        ("json_text", "text", None), ("uuid", "text", None), (["array", "int"], ["array", "decimal"], ["array", "decimal"]),
        (["array", "int"], ["array", "text"], None), (["array", "int"], "int", None),
        (["struct", [["a", "int"], ["b", "text"]]], ["struct", [["b", "text"], ["a", "float64"]]],
         ["struct", [["b", "text"], ["a", "decimal"]]]),
        (["struct", [["a", "int"]]], ["struct", [["b", "int"]]], None), (["struct", [["a", "int"]]], ["struct", [["a", "text"]]], None),
        (["map", "int", "float32"], ["map", "decimal", "float64"], ["map", "decimal", "float64"]),
        (["map", "int", "int"], ["map", "text", "int"], None),
    ],
)  # fmt: skip
def test_the_schema_type_is_the_narrowest_that_holds_both(source, target, expected):
    """None stands for different families, which only a rule makes comparable."""
    found = schema_type(from_schema(source), from_schema(target))
    assert (found.schema if found else None) == expected


def test_what_cannot_be_compared_is_refused():
    """Lengths that differ, carriers of another type, types of two families."""
    int_, text = LogicalType("int"), LogicalType("text")
    with pytest.raises(ValueTypeError):
        equal_mask(pa.array([1]), pa.array([1, 2]), int_, int_, int_)
    with pytest.raises(ValueTypeError):
        equal_mask(pa.array(["1"]), pa.array([1]), int_, int_, int_)
    stamp, hundredths = LogicalType("timestamp"), pa.array([Decimal("1.50")])
    with pytest.raises(ValueTypeError):
        equal_mask(hundredths, build(pa.timestamp("ns"), [150]), stamp, stamp, stamp)
    with pytest.raises(SideIncomparableError):
        equal_mask(pa.array(["1"]), pa.array([1]), text, int_, text)
