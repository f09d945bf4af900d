"""Key bytes: their order is the order of the values, and no other bytes decode."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from vectors_at import vectors

from airflow_delta_provider.core import decimals, times
from airflow_delta_provider.core.errors import (
    KeyEncodingError,
    KeyRangeError,
    KeyTextError,
    KeyTypeError,
    ValueTypeError,
)
from airflow_delta_provider.core.keys import TAGS, decode_key, decode_prefix, encode_key
from airflow_delta_provider.core.types import KEY_KINDS, LogicalType, from_schema

NS_128 = st.integers(-(2**128) + 1, 2**128 - 1) | st.integers(-300, 300)


def types(*kinds):
    """Logical types of a key."""
    return [LogicalType(kind) for kind in kinds]


def values_of(kind):
    """Pairs of a canonical value and something that Python orders as the key must be ordered."""
    match kind:
        case "bool":
            return st.booleans().map(lambda value: (value, value))
        case "int":
            return NS_128.map(lambda value: (str(value), value))
        case "date":
            return st.integers(-(10**7), 10**7).map(lambda value: (times.date_text(value), value))
        case "time":
            return st.integers(0, times.DAY_NS).map(lambda value: (times.time_text(value), value))
        case "timestamp" | "timestamp_tz":
            return NS_128.map(lambda value: (times.timestamp_text(value, kind == "timestamp_tz"), value))
        case "decimal":
            number = st.tuples(st.integers(-(10**25), 10**25) | st.integers(-99, 99), st.integers(-30, 30))
            finite = number.map(lambda pair: decimals.canonical_decimal(f"{pair[0]}e{pair[1]}"))
            texts = finite | st.sampled_from(["NaN", "Infinity", "-Infinity"])
            return texts.map(lambda text: (text, _rank(Decimal(text))))
        case "float64":
            return st.floats().map(lambda value: (decimals.float64_text(value), _rank(value)))
        case "float32":
            return st.floats(width=32).map(lambda value: (decimals.float32_text(value), _rank(value)))
        case "uuid":
            return st.uuids().map(lambda value: (str(value), value.bytes))
        case "bytes":
            return st.binary(max_size=6).map(lambda value: (value.hex(), value))
    return st.text(max_size=5).map(lambda value: (value, value.encode()))


def _rank(value):
    return (math.isnan(value), 0 if math.isnan(value) else value)


@given(st.data(), st.sampled_from(KEY_KINDS))
def test_byte_order_is_value_order(data, kind):
    """A merge by memcmp walks both sides in one order; NULL stands first, NaN last."""
    (value, rank), (other, other_rank) = data.draw(values_of(kind)), data.draw(values_of(kind))
    key, other_key = encode_key([value], types(kind)), encode_key([other], types(kind))
    assert (key < other_key, key == other_key) == (rank < other_rank, rank == other_rank)
    assert encode_key([None], types(kind)) < key


@given(st.data(), st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3))
def test_keys_read_back(data, kinds):
    """Decoding gives the canonical values again, with the types given or told by the tags."""
    values = [data.draw(st.none() | values_of(kind).map(lambda pair: pair[0])) for kind in kinds]
    key = encode_key(values, types(*kinds))
    assert decode_key(key, types(*kinds)) == values
    assert decode_key(key, None) == values
    assert decode_prefix(key, types(*kinds)) == (values, True)


@given(st.data(), st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=2))
def test_composite_keys_are_ordered_by_their_parts(data, kinds):
    """No value of one column can run over into the next: ("a", "b|c") and ("a|b", "c") are two keys."""
    keys = []
    for _ in range(2):
        pairs = [data.draw(values_of(kind)) for kind in kinds]
        keys.append((encode_key([value for value, _ in pairs], types(*kinds)), [rank for _, rank in pairs]))
    assert (keys[0][0] < keys[1][0]) == (keys[0][1] < keys[1][1])
    assert (keys[0][0] == keys[1][0]) == (keys[0][1] == keys[1][1])


@given(st.binary(max_size=14), st.sampled_from(KEY_KINDS))
@example(b",\x0c" + bytes(11), "date")
def test_what_decodes_encodes_back(data, kind):
    """Any bytes at all: refused by code, or the one encoding of what they decode to."""
    for bytes_ in (data, bytes((TAGS[kind],)) + data):
        for kinds in (types(kind), None):
            try:
                values = decode_key(bytes_, kinds)
            except KeyEncodingError:
                continue
            if kinds:
                assert encode_key(values, kinds) == bytes_


@pytest.mark.parametrize("vector", vectors("id_vectors.json"), ids=lambda vector: vector["sort_key"][:40])
def test_published_keys_have_the_published_bytes(vector):
    """The golden keys, both ways."""
    kinds = [from_schema(kind) for kind in vector["key_types"]]
    assert encode_key(vector["key"], kinds).hex() == vector["sort_key"]
    assert decode_key(bytes.fromhex(vector["sort_key"]), kinds) == vector["key"]
    assert decode_key(bytes.fromhex(vector["sort_key"]), None) == vector["key"]


def test_published_keys_sort_as_published():
    """Bytewise order is value order."""
    found = vectors("order_vectors.json")
    for vector in found if isinstance(found, list) else [found]:
        kinds = [from_schema(kind) for kind in vector["key_types"]]
        ordered = sorted(bytes.fromhex(key) for key in vector["shuffled"])
        assert [key.hex() for key in ordered] == vector["sorted"]
        assert [decode_key(key, kinds) for key in ordered] == vector["decoded_sorted"]


@pytest.mark.parametrize("key", vectors("malformed_keys.json"))
def test_published_malformed_keys_decode_under_no_type(key):
    """Nor when no type is given."""
    for kinds in [None, *([LogicalType(kind)] for kind in KEY_KINDS)]:
        with pytest.raises(KeyEncodingError, match=r"\[DELTA_KEY_ENCODING\]"):
            decode_key(bytes.fromhex(key), kinds)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("202100", "int"), ("20220001", "int"), ("201fff", "int"), ("2031" + "01" * 17, "int"), ("20", "int"), ("202101ff", "int"),
        ("1002", "bool"), ("10", "bool"), ("300281800000011000", "decimal"), ("3002818000000100", "decimal"),
        ("300281800000010200ff", "decimal"), ("3002818000000101" + "02" + "00", "decimal"), ("30028180000001020100", "decimal"),
        ("300281ffffffff0200", "decimal"), ("300281000000000200", "decimal"), ("30027f7ffffffefd", "decimal"),
        ("387fffffffffffffff", "float64"), ("38fff8000000000001", "float64"), ("380007ffffffffffff", "float64"),
        ("3cbfb999999999999a", "float32"), ("38bf", "float64"), ("60" + "00" * 15, "uuid"), ("7000", "bytes"), ("700000", "bytes"),
        ("70000200", "bytes"), ("78ff0001", "text"), ("78eda0800001", "text"), ("78c0800001", "text"), ("48264e94914f0001", "time"),
        ("481ffe", "time"), ("0000", "int"), ("0001", "int"), ("202101", "decimal"), ("1001", "int"),
    ],
)  # fmt: skip
def test_bytes_that_are_not_the_encoding_of_their_value_are_refused(key, kind):
    """Not minimal, cut, too long, minus zero, another NaN, a float32 that is none, a time past 24 hours."""
    with pytest.raises(KeyEncodingError, match=r"\[DELTA_KEY_ENCODING\]"):
        decode_key(bytes.fromhex(key), types(kind))


def test_a_key_has_one_component_for_each_column():
    """Too few and too many are both refused."""
    with pytest.raises(KeyEncodingError):
        decode_key(bytes.fromhex("202101"), types("int", "int"))
    with pytest.raises(KeyEncodingError):
        decode_key(bytes.fromhex("202101202102"), types("int"))
    with pytest.raises(ValueTypeError):
        encode_key(["1"], types("int", "int"))


@pytest.mark.parametrize("kind", ["json", "json_text", "interval"])
def test_some_types_cannot_be_keys(kind):
    """They have no order that all sides share."""
    with pytest.raises(KeyTypeError, match=r"\[DELTA_KEY_TYPE\]"):
        encode_key(["1"], types(kind))
    with pytest.raises(KeyTypeError):
        decode_key(b"\x00", types(kind))
    with pytest.raises(KeyTypeError):
        encode_key([["1"]], [from_schema(["array", "int"])])


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [
        ("infinity", "date", KeyRangeError), ("-infinity", "timestamp_tz", KeyRangeError), ("\ud800", "text", KeyTextError),
        ({"wtf8": "ff"}, "text", KeyTextError), (str(2**128), "int", ValueTypeError), ("01", "int", ValueTypeError),
        (1, "int", ValueTypeError), ("1.0", "decimal", ValueTypeError), ("-0", "float64", ValueTypeError), ("true", "bool", ValueTypeError),
        ({"bytes": 1}, "text", ValueTypeError),
    ],
)  # fmt: skip
def test_values_that_have_no_key_are_refused(value, kind, error):
    """Infinite dates, more than 128 bits, invalid Unicode, and anything not canonical."""
    with pytest.raises(error):
        encode_key([value], types(kind))


@pytest.mark.parametrize(
    ("bound", "values", "whole"),
    [
        ("", [], True), ("202101", ["1"], True), ("20210178610001", ["1", "a"], True), ("2021017861", ["1"], False),
        ("2022", [], False), ("ff", [], False), ("00", [None], True), ("2021017861000100", ["1", "a"], False),
    ],
)  # fmt: skip
def test_a_bound_gives_the_components_that_are_whole(bound, values, whole):
    """Any bytes may bound a range; what decodes of them can be pushed down to an engine."""
    assert decode_prefix(bytes.fromhex(bound), types("int", "text")) == (values, whole)
