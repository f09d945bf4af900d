"""Canonical JSON text of whole columns: the same as value by value, or nothing."""

import hashlib

import carriers
import hypothesis.strategies as st
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings

from airflow_delta_provider.core import rowtext
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.values import canonical_values, inlined

LIMIT = 60


@pytest.mark.parametrize("kind", [*rowtext._MAKERS, "float32", "bytes", "json_text"])
@given(data=st.data())
@settings(max_examples=150)
def test_a_column_has_the_text_that_its_values_have(kind, data):
    """Row digests of a large sweep and a small one must agree, so the fast way may never differ by a byte."""
    array = data.draw(carriers.carriers(kind, data.draw(st.integers(1, 6))))
    schema = LogicalType("decimal" if kind == "int" and data.draw(st.booleans()) else kind)
    made = rowtext.json_texts(array, LogicalType(kind), schema, LIMIT)
    if made is None:
        return
    try:
        values = canonical_values(array, LogicalType(kind), schema)
    except DeltaError as error:
        raise AssertionError("the fast way passes what is refused") from error
    assert made.null_count == 0
    assert made.cast(pa.large_binary()).to_pylist() == [orjson.dumps(inlined(value, LIMIT)) for value in values]


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("int", pa.array([1, None, -7])),
        ("decimal", pa.array(["1.50", "0.00", "-0.000001"]).cast(pa.decimal128(20, 6))),
        ("text", pa.array(["a", "\u00e9\U0001f600", None])),
        ("float64", pa.array([0.1, -0.0, 999999999.75, 0.00001, 123456789.0])),
        ("uuid", pa.array([hashlib.sha256(b"x").digest()[:16], None], pa.binary(16))),
        ("timestamp_tz", pa.array([0, 1_700_000_000_123_000], pa.int64()).cast(pa.timestamp("us", "UTC"))),
        ("date", pa.array([0, -719_000, None], pa.int32()).cast(pa.date32())),
        ("bool", pa.array([True, None, False])),
    ],
)
def test_common_columns_go_the_fast_way(kind, array):
    """Else the speed of a sweep would be gone without a test that fails."""
    made = rowtext.json_texts(array, LogicalType(kind), LogicalType(kind), 65536)
    expected = [orjson.dumps(value).decode() for value in canonical_values(array, LogicalType(kind), LogicalType(kind))]
    assert made.to_pylist() == expected


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "\x1f"])
def test_texts_with_escapes_go_the_slow_way(text):
    """Their JSON is longer than the text."""
    kind = LogicalType("text")
    assert rowtext.json_texts(pa.array(["a", text]), kind, kind, 65536) is None


def test_text_that_is_no_unicode_goes_the_slow_way():
    """It has a form of its own."""
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xed\xa0\x80"]).buffers())
    assert rowtext.json_texts(broken, LogicalType("text"), LogicalType("text"), 65536) is None
