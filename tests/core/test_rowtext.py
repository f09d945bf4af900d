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


@pytest.mark.parametrize("kind", [*rowtext._MAKERS, "float32", "json_text"])
@given(data=st.data())
@settings(max_examples=150)
def test_a_column_has_the_text_that_its_values_have(kind, data):
    """Row digests of a large sweep and a small one must agree, so the fast way may never differ by a byte."""
    array = data.draw(carriers.carriers(kind, data.draw(st.integers(1, 6))))
    schema = LogicalType("decimal" if kind == "int" and data.draw(st.booleans()) else kind)
    made = rowtext.json_texts(array, LogicalType(kind), schema, LIMIT)
    if made is None:
        return
    assert made.array.null_count == 0
    for row in range(len(array)):
        if made.doubtful is not None and made.doubtful[row]:
            continue
        try:
            (value,) = canonical_values(array.slice(row, 1), LogicalType(kind), schema)
        except DeltaError as error:
            raise AssertionError("the fast way passes what is refused") from error
        assert made.array[row].as_py() == orjson.dumps(inlined(value, LIMIT))


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("int", pa.array([1, None, -7])),
        ("decimal", pa.array(["1.5", "-7", "0.000001", None]).cast(pa.decimal128(38, 12))),
        ("bytes", pa.array([b"\x00\xff", b"", None, b"a"])),
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
    expected = [orjson.dumps(value) for value in canonical_values(array, LogicalType(kind), LogicalType(kind))]
    assert made.array.to_pylist() == expected
    assert made.doubtful is None


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        *(("text", pa.array(["", "a", text, None, "b"])) for text in ('a"b', "a\\b", "a\nb", "\x1f", "x" * 64)),
        ("float64", pa.array([0.0, 1.5, 1e21, None, -1.0])),
        ("float64", pa.array([0.0, 1.5, float("nan"), None, -1.0])),
        ("decimal", pa.array(["1.5", "0", "0.000000001", None, "2"]).cast(pa.decimal128(20, 9))),
        ("date", pa.array([0, 1, 2_932_897, None, 2], pa.int32()).cast(pa.date32())),
        ("timestamp", pa.array([0, 1, 2**62, None, 2], pa.int64()).cast(pa.timestamp("us"))),
    ],
)
def test_only_the_value_that_is_not_common_goes_the_slow_way(kind, array):
    """One quote in a column of texts must not slow down all of them."""
    assert rowtext.json_texts(array, LogicalType(kind), LogicalType(kind), 60).doubtful.tolist() == [
        False, False, True, False, False,
    ]  # fmt: skip


def test_text_that_is_no_unicode_goes_the_slow_way():
    """It has a form of its own."""
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xed\xa0\x80"]).buffers())
    assert rowtext.json_texts(broken, LogicalType("text"), LogicalType("text"), 65536) is None
