"""Canonical JSON: one form of bytes, and the refusal of every other."""

from __future__ import annotations

import datetime
import enum
import json
import uuid

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from vectors_at import third_party

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import (
    JsonDomainError,
    JsonNotCanonicalError,
    JsonSyntaxError,
    LimitError,
    ValueJsonError,
    ValueRangeError,
)
from airflow_delta_provider.core.jsontext import JSON_DEPTH_MAX, canonical_json

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('\x00\x1f\x7f\u2028\ud7ff\ue000"\\/\b\f\n\r\t')
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True) | st.sampled_from(["_type", "predicateType"])
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_documents_have_the_bytes_that_rfc_8785_gives_them(document):
    """The fast encoder is only a shortcut: another library's reading of the standard is the judge."""
    assert jsonc.dumps(document) == rfc8785.dumps(document)


@given(DOCUMENTS)
def test_a_document_reads_back_as_itself(document):
    """Reading takes nothing away and adds nothing."""
    assert jsonc.loads(jsonc.dumps(document)) == document


def test_strings_are_escaped_as_the_standard_says():
    """Short forms for five control characters, lower-case hex for the rest, all else as it is."""
    assert jsonc.dumps('\x00\x1f\b\t\n\f\r"\\/\x7f\u2028é') == (
        b'"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\/\x7f\xe2\x80\xa8\xc3\xa9"'
    )


class Colour(enum.Enum):
    """An enum, which a fast encoder would write without asking."""

    RED = 1


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), 2**53, -(2**53), b"x", "\ud800", {"A": 1}, {"": 1}, {"a-b": 1}, {1: 2}, {"é": 1}, {"_x": 1},
     datetime.date(2024, 1, 1), uuid.UUID(int=0), Colour.RED, {1, 2}, object(), [1.5], {"a": {"b": [0.0]}}],
)  # fmt: skip
def test_values_outside_the_profile_are_not_written(value):
    """Floats lose digits, big integers lose them elsewhere, and column names must never become member names."""
    with pytest.raises(JsonDomainError, match=r"\[DELTA_JSON_DOMAIN\]"):
        jsonc.dumps(value)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1,]", b"NaN", b"[Infinity]", b"'a'", b"\xef\xbb\xbf{}", b'"\xff"', b'"\xed\xa0\x80"', b'"a\nb"', b"01", b"{}{}",
     b'{"a":1', b"nul", b'"\\x"'],
)  # fmt: skip
def test_bytes_that_are_no_json_are_refused_as_such(data):
    """A cut or overwritten artifact is told from one that another tool wrote."""
    with pytest.raises(JsonSyntaxError, match=r"\[DELTA_JSON_SYNTAX\]"):
        jsonc.loads(data)


@pytest.mark.parametrize(
    "data",
    [b"1.0", b"1e2", b"1e999", b"9007199254740992", b"-9007199254740992", b"18446744073709551616", b"1" * 5000, b'"\\ud800"',
     b'{"\\udc00":1}', b'{"A":1}', b'{"a b":1}', b"[[0.5]]"],
)  # fmt: skip
def test_json_outside_the_profile_is_refused(data):
    """JSON that two readers may read differently never gets a digest."""
    with pytest.raises(JsonDomainError, match=r"\[DELTA_JSON_DOMAIN\]"):
        jsonc.loads(data)


@pytest.mark.parametrize(
    "data",
    [b" {}", b"{}\n", b"{}\r\n", b'{"a": 1}', b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'{"a":1,"a":2}', b'"\\u0061"', b'"\\/"',
     b'"\\u000A"', b'"\\u001F"', b"-0", b'"\\ud83d\\ude00"', b'{"\\u0061":1}'],
)  # fmt: skip
def test_json_in_another_form_than_its_own_is_refused(data):
    """White space, order, repeated members and escapes: one comparison finds them all."""
    with pytest.raises(JsonNotCanonicalError, match=r"\[DELTA_JSON_NOT_CANONICAL\]"):
        jsonc.loads(data)


def test_depth_and_size_have_limits():
    """A hostile artifact ends in a refusal, not in a crash of the reader."""
    assert jsonc.loads(b"[" * 128 + b"]" * 128)
    for depth in (129, 1000, 2000, 100_000):
        with pytest.raises(LimitError, match="128 levels"):
            jsonc.loads(b"[" * depth + b"]" * depth)
    with pytest.raises(LimitError, match="over the limit of 10"):
        jsonc.loads(b'"123456789"', bytes_max=10)
    nested: list = []
    for _ in range(200):
        nested = [nested]
    with pytest.raises(LimitError):
        jsonc.dumps(nested)


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_published_documents_of_the_standard_have_its_order_and_escapes(name):
    """These documents hold names and floats outside our profile; strings and structure must still agree."""
    document = json.loads(third_party(f"rfc8785/input/{name}.json").read_bytes())
    expected = third_party(f"rfc8785/output/{name}.json").read_bytes()
    for text in _strings(document):
        assert jsonc.dumps(text) == rfc8785.dumps(text)
        assert jsonc.dumps(text) in expected
    try:
        written = jsonc.dumps(document)
    except JsonDomainError:
        return
    assert written == expected


def _strings(value):
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, dict):
        return [text for name, item in value.items() for text in [name, *_strings(item)]]
    return []


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{"b":1,"a":2}', '{"a":2,"b":1}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"\\ud83d\\ude00":1,"\\ufb33":2,"a":null}', '{"a":null,"\ufb33":2,"\U0001f600":1}'),
        (" [ 1.50 , 1e2 , -0.0, 0.000001 ] ", "[1.5,100,0,0.000001]"),
        ('"\\u00e9\\/\\u001F"', '"é/\\u001f"'),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e400", "1" + "0" * 400),
        ('{"":{},"A":[]}', '{"":{},"A":[]}'),
        ("true", "true"),
        ('[{"a":[false,null]}]', '[{"a":[false,null]}]'),
    ],
)
def test_stored_json_has_one_canonical_text(text, canonical):
    """Equal JSON values, whatever engine wrote them, become equal texts."""
    assert canonical_json(text) == canonical
    assert canonical_json(canonical) == canonical


@pytest.mark.parametrize(
    "text", ["", "NaN", "[Infinity]", "-Infinity", "{", "[1,]", "'a'", '"\\ud800"', '"\ud800"', '{"\\udfff":1}', "01", "1.", "\ufeff1", '"a\nb"', "1 2"],
)  # fmt: skip
def test_stored_json_that_is_none_is_refused(text):
    """A JSON column read as JSON never falls back to text."""
    with pytest.raises(ValueJsonError, match=r"\[DELTA_VALUE_JSON\]"):
        canonical_json(text)


def test_stored_json_has_limits():
    """Depth is bounded for the reader's sake, digits by the format."""
    deep = "[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX
    assert canonical_json(deep) == deep
    assert canonical_json('"' + "[" * 1000 + '"') == '"' + "[" * 1000 + '"'
    with pytest.raises(ValueJsonError, match="256 levels"):
        canonical_json("[" + deep + "]")
    with pytest.raises(ValueRangeError):
        canonical_json("[1e2000]")
    with pytest.raises(ValueRangeError):
        canonical_json("1e-99999999999999999999")
