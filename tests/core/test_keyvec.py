"""Key bytes of whole arrays equal the key bytes of their rows, one by one."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from carriers import build, carriers
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.errors import KeyRangeError, KeyTextError, KeyTypeError, ValueTypeError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.keyvec import encode_int64, encode_keys, order_int64
from airflow_delta_provider.core.types import KEY_KINDS, TIMESTAMP_INFINITY, LogicalType
from airflow_delta_provider.core.values import canonical_values

WIDER = {"int": ["int", "decimal"], "float32": ["float32", "float64", "decimal"], "float64": ["float64", "decimal"]}


@st.composite
def columns(draw):
    """Key columns of one length: arrays, carrier types and key types."""
    length = draw(st.integers(0, 5))
    kinds = draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3))
    arrays = [draw(carriers(kind, length, finite=True)) for kind in kinds]
    keys = [draw(st.sampled_from(WIDER.get(kind, [kind]))) for kind in kinds]
    return arrays, [LogicalType(kind) for kind in kinds], [LogicalType(kind) for kind in keys]


@given(columns())
def test_arrays_encode_as_their_rows_do(drawn):
    """The scalar encoder is the definition; kernels may only be faster."""
    arrays, carrier_types, key_types = drawn
    found = encode_keys(arrays, carrier_types, key_types)
    assert found.type == pa.large_binary()
    assert found.null_count == 0
    parts = zip(arrays, carrier_types, key_types, strict=True)
    rows = zip(*(canonical_values(*part) for part in parts), strict=True)
    assert found.to_pylist() == [encode_key(row, key_types) for row in rows]


@given(st.data(), st.sampled_from(["int", "date", "time", "timestamp", "timestamp_tz"]))
def test_int64_order_values_stand_for_the_key_bytes(data, kind):
    """The merge compares plain integers and makes key bytes of the few rows that it needs."""
    array = data.draw(carriers(kind, 4, finite=True))
    types = [LogicalType(kind)]
    values = order_int64([array], types, types)
    if values is None:
        return
    assert array.null_count == 0
    assert encode_int64(values, types[0]).to_pylist() == encode_keys([array], types, types).to_pylist()


def test_int64_order_values_are_refused_where_they_do_not_fit():
    """Then the merge compares key bytes."""
    int_, text, decimal, stamp = (LogicalType(kind) for kind in ("int", "text", "decimal", "timestamp"))
    assert order_int64([pa.array([3, -1], pa.int8())], [int_], [int_]).tolist() == [3, -1]
    assert order_int64([pa.array([3, 2**63], pa.uint64())], [int_], [int_]) is None
    assert order_int64([pa.array([3, 2**62], pa.uint64())], [int_], [int_]).tolist() == [3, 2**62]
    assert order_int64([pa.array([3, None])], [int_], [int_]) is None
    assert order_int64([pa.array([3]), pa.array([3])], [int_, int_], [int_, int_]) is None
    assert order_int64([pa.array(["a"])], [text], [text]) is None
    assert order_int64([pa.array([3])], [int_], [decimal]) is None
    assert order_int64([build(pa.timestamp("us"), [5])], [stamp], [stamp]).tolist() == [5000]
    assert order_int64([build(pa.timestamp("us"), [2**62])], [stamp], [stamp]) is None
    assert order_int64([pa.array([Decimal(2**63)], pa.decimal128(38, 0))], [int_], [int_]) is None
    assert order_int64([pa.array([], pa.int64())], [int_], [int_]).tolist() == []


@pytest.mark.parametrize(
    ("array", "kind", "error"),
    [
        (build(pa.date32(), [2**31 - 1]), "date", KeyRangeError),
        (build(pa.timestamp("us"), [0, TIMESTAMP_INFINITY]), "timestamp", KeyRangeError),
        (build(pa.timestamp("ns", "UTC"), [-(2**63)]), "timestamp_tz", KeyRangeError),
        (pa.array([Decimal(2**128)], pa.decimal256(76, 0)), "int", KeyRangeError),
        (pa.array([b"ok", b"\xff"]), "text", KeyTextError),
        (pa.array([b"\xed\xa0\x80"], pa.large_binary()), "text", KeyTextError),
        (pa.array(["1"]), "json", KeyTypeError),
        (pa.array([1.5]), "int", ValueTypeError),
        (pa.array([Decimal("1.5")]), "int", ValueTypeError),
        (pa.array([1]), "bytes", ValueTypeError),
        (pa.array(["x"]), "uuid", ValueTypeError),
    ],
)  # fmt: skip
def test_values_that_have_no_key_are_refused(array, kind, error):
    """The same refusals as one by one."""
    with pytest.raises(error):
        encode_keys([array], [LogicalType(kind)], [LogicalType(kind)])


def test_infinite_dates_are_refused_by_the_fast_order_too():
    """No path orders what has no key."""
    kind = [LogicalType("date")]
    with pytest.raises(KeyRangeError):
        order_int64([build(pa.date32(), [1, -(2**31)])], kind, kind)


def test_chunked_columns_are_joined():
    """Tables give chunks."""
    kind = [LogicalType("int")]
    assert encode_keys([pa.chunked_array([[1], [None, 2]])], kind, kind).to_pylist() == [
        b"\x20\x21\x01",
        b"\x00",
        b"\x20\x21\x02",
    ]
