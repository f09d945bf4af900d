"""Texts of decimals and floats: equal values have exactly one form, and no other text passes for it."""

from __future__ import annotations

import csv
import math
import struct
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors_at import VECTORS, third_party

from airflow_delta_provider.core import decimals
from airflow_delta_provider.core.errors import ValueRangeError, ValueTextError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.10", "1.1"), ("1E+3", "1000"), ("-0", "0"), ("-0.00e5", "0"), ("+7", "7"), (".5", "0.5"), ("5.", "5"),
        ("00012.3400", "12.34"), ("12e-3", "0.012"), ("-120e-1", "-12"), ("NaN", "NaN"), ("-Infinity", "-Infinity"),
        ("0e99999999999999999999999", "0"), ("1e1999", "1" + "0" * 1999), ("1e-1999", "0." + "0" * 1998 + "1"),
    ],
)  # fmt: skip
def test_decimal_texts_have_one_canonical_form(text, canonical):
    """1.10 and 1.1 are one number; a manifest must not tell them apart."""
    assert decimals.canonical_decimal(text) == canonical
    assert decimals.is_canonical_decimal(canonical)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_000", "1,5", "e5", ".", "0x10", "1e", "nan", "inf", "١", "--1", "1\n"]
)
def test_texts_that_are_no_decimals_are_refused(text):
    """Python's own parsers take blanks, underscores and other scripts' digits; this one does not."""
    with pytest.raises(ValueTextError, match=r"\[DELTA_VALUE_TEXT\]"):
        decimals.canonical_decimal(text)
    assert not decimals.is_canonical_decimal(text)


@pytest.mark.parametrize(
    "text", ["1e2000", "1e-2000", "1" * 2001, "0." + "1" * 2000, "1e999999999999", "1e-99999999999999999999"]
)
def test_decimals_of_over_2000_digits_are_refused(text):
    """An exponent must not be able to fill the memory."""
    with pytest.raises(ValueRangeError, match=r"\[DELTA_VALUE_RANGE\]"):
        decimals.canonical_decimal(text)


@pytest.mark.parametrize("text", ["1.0", "01", "-0", "+1", "1e3", ".5", "5.", "0.10", "-0.0", "infinity", "1" * 2001])
def test_other_forms_of_a_decimal_are_not_canonical(text):
    """A verifier takes one form only."""
    assert not decimals.is_canonical_decimal(text)


@given(st.integers(-(10**40), 10**40), st.integers(-60, 60))
def test_the_canonical_text_has_the_exact_value(number, exponent):
    """No digit is lost, whatever the precision of the thread's decimal context."""
    with localcontext(Context(prec=3)):
        text = decimals.canonical_decimal(f"{number}e{exponent}")
        negative, digits, point = decimals.decimal_parts(text)
    assert Fraction(text) == number * Fraction(10) ** exponent
    assert decimals.is_canonical_decimal(text)
    value = Fraction(int(digits or "0"), 10 ** len(digits)) * Fraction(10) ** point
    assert (-value if negative else value) == Fraction(text)
    assert not digits or (digits[0] != "0" and digits[-1] != "0")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_read_as_decimal_is_its_exact_binary_value(value):
    """0.1 as float64 is not 0.1 as decimal."""
    assert Fraction(decimals.decimal_of_float(value)) == Fraction(value)


def test_the_float_0_1_has_55_decimals():
    """The published example."""
    assert decimals.decimal_of_float(0.1) == "0.1000000000000000055511151231257827021181583404541015625"


@given(st.floats())
def test_float64_texts_read_back_and_are_recognised(value):
    """The text holds the value to the bit, but for the sign of zero and the payload of NaN."""
    text = decimals.float64_text(value)
    back = decimals.parse_float(text, 64)
    assert back == value or (math.isnan(back) and math.isnan(value))


@pytest.mark.parametrize(
    "text", ["1.0", "1e21", "1E+21", "01", "-0", "0.10", "1e+20", "1e-6", "0.0000001", " 1", "1_0", "nan", "inf", "+1", "", "1" * 400],
)  # fmt: skip
def test_other_forms_of_a_float_are_not_canonical(text):
    """Each float has one text."""
    assert decimals.parse_float(text, 64) is None


def test_float64_texts_equal_the_published_ones():
    """Ten thousand published pairs of the standard's number form."""
    for line in third_party("rfc8785/es6_10k.txt").read_text().splitlines():
        bits, text = line.split(",")
        assert decimals.float64_text(struct.unpack(">d", bytes.fromhex(bits.zfill(16)))[0]) == text


def test_float32_texts_equal_the_published_ones():
    """Among them powers of two, where the nearest short text does not round-trip."""
    with (VECTORS / "float32_vectors.csv").open(newline="") as file:
        for bits, text in csv.reader(file):
            value = struct.unpack(">f", bytes.fromhex(bits))[0]
            assert decimals.float32_text(value) == text
            assert text == "NaN" or decimals.parse_float(text, 32) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_texts_are_the_shortest_that_read_back(value):
    """The text rounds to the value in exact arithmetic, and no text of one digit less does."""
    text = decimals.float32_text(value)
    assert decimals.float32_of(float(text)) == value
    assert decimals.parse_float(text, 32) == value
    digits = len(Decimal(text).normalize().as_tuple().digits)
    if digits > 1:
        with localcontext(Context(prec=digits - 1)):
            near = +Decimal(value)
            assert decimals.float32_of(float(near)) != value


@pytest.mark.parametrize("text", ["0.10000000149011612", "16777217", "1.0", "1e-46", "3.4028236e+38"])
def test_texts_that_belong_to_no_float32_are_not_canonical(text):
    """A float64's text does not pass for a float32's."""
    assert decimals.parse_float(text, 32) is None
