"""Values as records hold them: in clear, as keyed digests, or left out."""

from __future__ import annotations

import hashlib
import hmac

import pyarrow as pa
import pytest

from airflow_delta_provider.core.errors import HmacKeyError
from airflow_delta_provider.core.recorded import ComparedColumn, HmacKey, Recorder, canonical
from airflow_delta_provider.core.rules import Typed
from airflow_delta_provider.core.types import LogicalType

TEXT = LogicalType("text")
KEY = HmacKey("k1", b"secret")


def recorder(detail: str, *, sensitive: bool = False, inline_limit: int = 65536, key: HmacKey | None = KEY) -> Recorder:
    return Recorder(ComparedColumn("name", TEXT, TEXT, TEXT, (), sensitive), detail, inline_limit, key)


def texts(*values: str | None) -> Typed:
    return Typed(TEXT, pa.array(values, pa.string()), None)


def keyed(canonical_json: bytes, column: bytes = b"name") -> dict[str, str]:
    message = b"delta-value/v1\x00" + b"".join(len(part).to_bytes(4, "big") + part for part in (column, canonical_json))
    return {"hmac": hmac.new(b"secret", message, hashlib.sha256).hexdigest(), "key": "k1"}


def test_values_stand_in_clear_where_detail_says_so():
    """NULL, the empty text and every code point stay apart."""
    assert recorder("values").record(texts("a", "", None, "\U0001f600")) == ["a", "", None, "\U0001f600"]


@pytest.mark.parametrize("detail", ["keys", "counts"])
def test_keys_and_counts_show_no_value(detail):
    """Not even which are NULL."""
    assert recorder(detail, key=None).record(texts("a", None)) == [{"omitted": True}] * 2


@pytest.mark.parametrize(
    ("detail", "sensitive"), [("digests", False), ("values", True), ("keys", True), ("counts", True)]
)
def test_sensitive_columns_and_digests_are_keyed_in_every_mode(detail, sensitive):
    """NULL included: a plain hash of a short value is guessed."""
    found = recorder(detail, sensitive=sensitive).record(texts('a"', None))
    assert found == [keyed(b'"a\\""'), keyed(b"null")]


def test_long_values_are_digests_only_beyond_the_limit():
    """The limit counts bytes of canonical JSON, quotes and escapes included."""
    assert recorder("values", inline_limit=5).record(texts("abc")) == ["abc"]
    form = b'"abcd"'
    assert recorder("values", inline_limit=5).record(texts("abcd")) == [
        {"bytes": 6, "sha256": hashlib.sha256(form).hexdigest()}
    ]
    assert recorder("values", inline_limit=5).record(texts("é")) == ["é"]
    assert recorder("values", inline_limit=5).record(texts("éé"))[0]["bytes"] == 6


def test_a_keyed_digest_covers_the_whole_of_a_long_value():
    """And not its short form."""
    assert recorder("digests", inline_limit=2).record(texts("abcd")) == [keyed(b'"abcd"')]


@pytest.mark.parametrize(("detail", "sensitive"), [("digests", False), ("keys", True)])
def test_without_a_key_nothing_is_recorded(detail, sensitive):
    """Never an unkeyed digest instead."""
    with pytest.raises(HmacKeyError, match=r"\[DELTA_HMAC_KEY\] column 'name'"):
        recorder(detail, sensitive=sensitive, key=None)


def test_the_secret_is_in_no_text_of_the_key():
    """Objects are logged by mistake."""
    assert repr(KEY) == "HmacKey('k1')"


def test_a_text_that_did_not_parse_is_recorded_as_such():
    """It is no NULL."""
    typed = Typed(LogicalType("int"), pa.array([1, None, None], pa.int64()), pa.array([None, "x", None], pa.string()))
    assert canonical(typed, LogicalType("int")) == ["1", {"unparsed": "x"}, None]
