"""Readers of texts: exact for every logical type, and nothing guessed."""

from __future__ import annotations

import base64
import math
import struct
import uuid
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.errors import ValueTypeError
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import SCALARS, LogicalType, carrier_allowed


def read(kind, *texts, options=None, **bounds):
    carrier, bad = parse_text(pa.array(texts, pa.string()), LogicalType(kind, **bounds), options=options)
    assert len(carrier) == len(bad) == len(texts)
    return carrier, bad.to_pylist()


def values(kind, *texts, options=None, **bounds):
    carrier, bad = read(kind, *texts, options=options, **bounds)
    return ["bad" if wrong else value for value, wrong in zip(carrier.to_pylist(), bad, strict=True)]


FOREIGN = ["", " 1", "1 ", "1\n", "1_000", "1,5", "1.000,5", "٣", "１", "0x1F", "−1", "1e", "e1", "+-1", "--1", "1\x00"]
"""Texts that some reader somewhere takes for a number, and that none here does."""


@pytest.mark.parametrize("kind", ["int", "decimal", "float32", "float64"])
@pytest.mark.parametrize("text", FOREIGN)
def test_what_only_resembles_a_number_is_bad(kind, text):
    """A blank, a digit of another script or a locale's comma must never be guessed into a number."""
    assert values(kind, text, "7") in (["bad", 7], ["bad", "7"], ["bad", 7.0])


def test_ints_are_read_exactly_to_128_bits():
    """Keys beyond 64 bits occur; one bit lost would pair two rows that are not one."""
    assert values("int", "0", "-0", "+5", "007", "-9223372036854775808", None) == [0, 0, 5, 7, -(2**63), None]
    wide = [
        "9223372036854775808",
        "-170141183460469231731687303715884105728",
        "340282366920938463463374607431768211455",
    ]
    assert values("int", *wide) == [2**63, -(2**127), 2**128 - 1]
    assert values("int", "340282366920938463463374607431768211456", "-170141183460469231731687303715884105729") == [
        "bad",
        "bad",
    ]
    assert values("int", "1.0", "1e3", "NaN") == ["bad", "bad", "bad"]


@pytest.mark.parametrize(
    ("texts", "bounds", "arrow"),
    [
        (["1"], {}, pa.int64()),
        ([], {}, pa.int64()),
        (["1"], {"bits": 64, "unsigned": True}, pa.uint64()),
        (["18446744073709551615"], {"bits": 64, "unsigned": True}, pa.uint64()),
        (["-1"], {"bits": 64, "unsigned": True}, pa.decimal256(39, 0)),
        (["1"], {"bits": 128}, pa.decimal256(39, 0)),
        (["9223372036854775808"], {}, pa.decimal256(39, 0)),
    ],
)
def test_the_carrier_of_ints_is_as_wide_as_the_type_and_wider_only_where_a_value_needs_it(texts, bounds, arrow):
    """Batches of ordinary values must be alike, so that they can stand in one stream."""
    assert read("int", *texts, **bounds)[0].type == arrow


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.10", "1.1"),
        ("1E+3", "1000"),
        ("-0.00", "0"),
        ("00.50", "0.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
        ("100", "100"),
        ("1e-3", "0.001"),
        ("0e99999999999999999999", "0"),
        ("NaN", "NaN"),
        ("inf", "Infinity"),
        ("-INFINITY", "-Infinity"),
        ("-NaN", "bad"),
        ("1e99999999999999999999", "bad"),
        ("1e2000", "bad"),
    ],
)
def test_decimals_are_carried_as_their_canonical_text(text, canonical):
    """Two notations of one number must give one value, and nothing may be rounded on the way."""
    assert values("decimal", text) == [canonical]


def test_decimals_reach_2000_digits_and_no_further():
    """The bound of the format holds for readers too."""
    assert values("decimal", "9" * 2000, "9" * 2001, "1e1999", "0." + "0" * 1998 + "1", "0." + "0" * 1999 + "1") == [
        "9" * 2000,
        "bad",
        "1" + "0" * 1999,
        "0." + "0" * 1998 + "1",
        "bad",
    ]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=None), max_size=5))
def test_decimals_keep_their_exact_value(numbers):
    """The vectorised way and the slow way agree with Python's decimal, whatever the notation."""
    texts = [str(number) for number in numbers if abs(number.adjusted()) < 900]
    carrier, bad = read("decimal", *texts)
    assert not any(bad)
    assert [Fraction(text) for text in carrier.to_pylist()] == [Fraction(text) for text in texts]


def test_floats_are_bad_beyond_their_range_and_never_become_infinite():
    """A text of 1e400 is no infinity: taking it for one would equal every other overflow."""
    assert values("float64", "1e400", "-1e400", "1e39", "inf", "-Infinity") == ["bad", "bad", 1e39, math.inf, -math.inf]
    assert values("float32", "1e39", "-1e39", "+INF") == ["bad", "bad", math.inf]
    assert math.isnan(read("float64", "nan")[0][0].as_py())


def test_float32_is_rounded_once():
    """Rounding to binary64 first and then to binary32 gives the wrong neighbour here."""
    assert values("float32", "16777217.0000000000000000000001", "0.1") == [16777218.0, 0.10000000149011612]


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["repr", ".30e", ".60f"]))
def test_float64_is_the_nearest_to_its_text(number, form):
    """Correct rounding, for short and for very long texts."""
    text = repr(number) if form == "repr" else format(number, form)
    assert struct.pack(">d", values("float64", text)[0]) == struct.pack(">d", float(text))


def test_bools_know_their_words_and_no_other():
    """Yes, on, 2 and an empty text are no booleans unless the rule says so."""
    assert values("bool", "true", "t", "1", "TRUE", "false", "f", "0", None) == [True] * 4 + [False] * 3 + [None]
    assert values("bool", "yes", "on", "2", "", "tRuE", " true") == ["bad"] * 6
    words = {"true_values": ["Y"], "false_values": ["N"]}
    assert values("bool", "Y", "N", "y", "true", options=words) == [True, False, "bad", "bad"]


def test_bytes_are_pairs_of_hexadecimal_digits():
    """Case and a leading mark are no difference; a blank or half a byte is bad."""
    assert values("bytes", "68656C", "68656c", "\\x00ff", "0x00FF", "", "0x", None) == [
        b"hel",
        b"hel",
        b"\x00\xff",
        b"\x00\xff",
        b"",
        b"",
        None,
    ]
    assert values("bytes", "6", "zz", "68 65", "x68", "68\n") == ["bad"] * 5


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=8), st.integers(0, 3))
def test_bytes_come_back_from_hexadecimal_and_base64(parts, skip):
    """All values are decoded in one pass over the buffer, also of a slice of it."""
    for encoding, form in (("hex", bytes.hex), ("base64", lambda part: base64.b64encode(part).decode())):
        texts = pa.array([None if part is None else form(part) for part in parts], pa.string()).slice(skip)
        carrier, bad = parse_text(texts, LogicalType("bytes"), options={"encoding": encoding})
        assert carrier.to_pylist() == parts[skip:]
        assert not any(bad.to_pylist())


@pytest.mark.parametrize("text", ["aGk", "aGl=", "aG k=", "aGk=\n", "aGk-", "====", "é"])
def test_base64_that_is_not_canonical_is_bad(text):
    """Bits that are dropped in silence would make two texts one value."""
    assert values("bytes", text, options={"encoding": "base64"}) == ["bad"]


ID = uuid.UUID("0b1f6d2e-9c3a-4f77-8a55-1d2e3f405162")


@pytest.mark.parametrize("form", [str(ID), str(ID).upper(), ID.hex, "{" + str(ID) + "}"])
def test_a_uuid_is_its_128_bits_in_every_usual_form(form):
    """Engines print UUIDs in several ways; the value is one."""
    assert values("uuid", form, None) == [ID.bytes, None]


@pytest.mark.parametrize("form", [ID.hex[:-1], str(ID)[:-1] + "g", "{" + ID.hex + "}", f" {ID}", ID.hex + "0", ""])
def test_other_forms_of_a_uuid_are_bad(form):
    """A misplaced hyphen points at a text that is something else."""
    assert values("uuid", form) == ["bad"]


def test_the_mixed_endian_layout_turns_the_first_three_groups():
    """SQL Server's bytes, taken as they stand, are another value than the one that it prints."""
    assert values("uuid", "6b075b82ec4411e580dc00155d0a0001", options={"layout": "mixed_endian"}) == [
        bytes.fromhex("825b076b44ece51180dc00155d0a0001")
    ]


@given(st.lists(st.one_of(st.none(), st.uuids(), st.just("bad")), max_size=8), st.integers(0, 2))
def test_uuids_stay_in_their_rows(ids, skip):
    """The fast way leaves bad values out of the buffer and must put the others back in place."""
    texts = pa.array([None if one is None else str(one) for one in ids], pa.string()).slice(skip)
    carrier, bad = parse_text(texts, LogicalType("uuid"))
    assert carrier.to_pylist() == [one.bytes if isinstance(one, uuid.UUID) else None for one in ids[skip:]]
    assert bad.to_pylist() == [one == "bad" for one in ids[skip:]]
    mixed, _ = parse_text(texts, LogicalType("uuid"), options={"layout": "mixed_endian"})
    assert mixed.to_pylist() == [one.bytes_le if isinstance(one, uuid.UUID) else None for one in ids[skip:]]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{"b":1.0, "a":[1e2,"\\u00e9\\n"],"b":2}', '{"a":[100,"é\\n"],"b":2}'),
        (" 1 ", "1"),
        ('"\\ud83d\\ude00"', '"😀"'),
        ("12345678901234567890.10", "12345678901234567890.1"),
        ("NaN", "bad"),
        ("01", "bad"),
        ("[1,]", "bad"),
        ("{'a':1}", "bad"),
        ('"\\ud800"', "bad"),
        ('{"a":1}x', "bad"),
        ("", "bad"),
        ("[" * 300 + "]" * 300, "bad"),
    ],
)
def test_json_is_read_strictly_and_carried_in_canonical_form(text, canonical):
    """Order of members, white space and number forms are no difference; what is no JSON is bad."""
    assert values("json", text) == [canonical]


def test_text_is_not_touched():
    """A reader of text changes nothing, not even what other types would refuse."""
    assert values("text", " a\x00 ", "", None) == [" a\x00 ", "", None]
    assert values("json_text", "{ }", None) == ["{ }", None]


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize("width", [pa.string(), pa.large_string()])
def test_every_type_gives_an_allowed_carrier_for_no_rows_nulls_and_any_width(kind, width):
    """Empty batches and columns of NULL come first in many files."""
    for texts in ([], [None, None]):
        carrier, bad = parse_text(pa.array(texts, width), LogicalType(kind))
        assert carrier_allowed(kind, carrier.type)
        assert carrier.null_count == len(texts)
        assert bad.to_pylist() == [False] * len(texts)


def test_chunks_and_dictionaries_are_unpacked():
    """Readers of files hand over both."""
    chunked = pa.chunked_array([["1"], ["2", None]])
    assert parse_text(chunked, LogicalType("int"))[0].to_pylist() == [1, 2, None]
    assert parse_text(pa.array(["1", "1"]).dictionary_encode(), LogicalType("int"))[0].to_pylist() == [1, 1]
    assert parse_text(pa.nulls(2), LogicalType("int"))[0].to_pylist() == [None, None]


def test_nested_types_have_no_text():
    """There is no one notation of arrays and structs, so none is guessed."""
    with pytest.raises(ValueTypeError, match="array<int>"):
        parse_text(pa.array(["{1,2}"]), LogicalType("array", item=LogicalType("int")))


def test_a_decimal_of_python_is_its_own_witness():
    """The oracle of the tests above, once by hand."""
    assert Fraction(Decimal("1.10")) == Fraction(11, 10)
