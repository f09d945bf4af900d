"""Identities: golden digests of the format."""

import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import ids
from airflow_delta_provider.core.errors import HmacKeyError, InputDigestError, PatchRuleError

VECTORS = Path(__file__).resolve().parents[1] / "vectors"


def load(name):
    return json.loads((VECTORS / name).read_text())


def test_record_ids_are_the_golden_ones():
    """The id is what recurring differences are followed by, for years."""
    for case in load("id_vectors.json"):
        key = bytes.fromhex(case["sort_key"])
        assert ids.record_id(case["schema_version"], case["category"], key) == case["id"]


def test_an_id_does_not_come_from_joined_texts():
    """("a|b","c") and ("a","b|c") are different keys, and so are shifted lengths."""
    assert ids.record_id("a", "added", b"\x01") != ids.record_id("aa", "dded", b"\x01")


def test_keyed_digests_are_the_golden_ones():
    """An auditor with the key can recompute each sensitive value."""
    vectors = load("digest_vectors.json")
    key = bytes.fromhex(vectors["hmac_key"])
    for case in vectors["hmac"]:
        text = json.dumps(case["value"], ensure_ascii=False).encode()
        assert ids.hmac_value(key, case["column"], text) == case["hmac"]


def test_equal_values_of_two_columns_have_unlinked_digests():
    """Otherwise a digest would tell that two columns hold the same."""
    assert ids.hmac_value(b"k", "name", b'"x"') != ids.hmac_value(b"k", "city", b'"x"')


def test_no_key_is_a_refusal():
    """A digest under an empty key is guessed like a plain one."""
    with pytest.raises(HmacKeyError, match=r"\[DELTA_HMAC_KEY\]"):
        ids.hmac_value(b"", "name", b'"x"')


def test_row_digests_are_the_golden_ones():
    """Tomorrow's sweep compares with today's digest."""
    for case in load("digest_vectors.json")["row"]:
        row = json.dumps(case["row"], ensure_ascii=False, separators=(",", ":")).encode()
        assert ids.row_digest(case["schema_version"], bytes.fromhex(case["sort_key"]), row) == case["row_digest"]


def test_patch_ids_are_the_golden_ones_and_other_combinations_are_refused():
    """A patch is named by what it does; what is not defined has no name."""
    for case in load("patch_vectors.json"):
        arguments = (case["manifest"], case["rule"], case["column"], case["side"])
        if "refused" in case:
            with pytest.raises(PatchRuleError) as caught:
                ids.patch_id(*arguments)
            assert caught.value.code == case["refused"]
        else:
            assert ids.patch_id(*arguments) == case["patch_id"]


@pytest.mark.parametrize(
    ("rule", "column", "side"),
    [
        ("source_authoritative", None, "source"),
        ("source_authoritative", "seen_at", "target"),
        ("flag_for_review", "seen_at", "target"),
        ("last_writer_wins", "", "target"),
        ("newest", None, "target"),
    ],
)
def test_a_patch_that_is_not_defined_is_refused(rule, column, side):
    """No rule is guessed from half of one."""
    with pytest.raises(PatchRuleError, match=r"\[DELTA_PATCH_RULE\]"):
        ids.patch_id("00" * 32, rule, column, side)


@pytest.mark.parametrize("digest", ["", "00", "AB" * 32, "0x" + "0" * 62, "00" * 32 + "\n", None])
def test_what_is_no_digest_is_refused(digest):
    """Digests become paths in a store, so nothing else may pass for one."""
    with pytest.raises(InputDigestError, match=r"\[DELTA_INPUT_DIGEST\]"):
        ids.digest_bytes(digest)


def test_a_rollback_is_named_by_patch_and_ledger():
    """Preimage: the tag, 00, and two length-prefixed digests of 32 bytes."""
    expected = ids.sha256_hex(
        b"delta-rollback/v1\x00\x00\x00\x00\x20" + b"\x11" * 32 + b"\x00\x00\x00\x20" + b"\x22" * 32
    )
    assert ids.rollback_id("11" * 32, "22" * 32) == expected
