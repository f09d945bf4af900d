"""``prove`` and ``check-proof``: a record leaves the store with its proof, and any change to it is found."""

import json

import pytest
from cli_store import EXAMPLE, MANIFEST
from signers import example_signer, fresh_signer

from airflow_delta_provider.core import log
from airflow_delta_provider.core.anchor import make_anchor, publish_anchor
from airflow_delta_provider.core.signing.keys import pem_of_spki
from airflow_delta_provider.core.trust import Trust, trust_key

RECORD = "419a8d1b8f33d4097203c8df8c27b4ea23f9fee8e3947e592652ad1a76967598"


@pytest.fixture
def bundle(delta, signed, tmp_path):
    """A bundle of record 2 of the example, in a file."""
    path = tmp_path / "proof.json"
    assert delta("prove", MANIFEST, RECORD, "--store", signed, "-o", path).code == 0
    return path


def test_a_record_is_proved_without_a_store(delta, signed, bundle):
    """The file and the public key are enough."""
    answer = delta("check-proof", bundle, "--trust", signed.trust, "--json")
    assert answer.code == 0
    assert answer.json["verdict"] == "verified"
    assert answer.json["manifest"] == MANIFEST
    assert answer.json["signature"]["keyid"] == example_signer().keyid
    assert [record["id"] for record in answer.json["records"]] == [RECORD]


def test_the_bundle_holds_the_published_proof(bundle):
    """Index 2, size 4: leaf 3, then node 01, as the worked example says."""
    form = json.loads(bundle.read_bytes())
    assert form["records"][0]["index"] == 2
    assert form["records"][0]["path"] == [
        "f78e6ffcba34f61874aaeb0f4cbb4ba46cf8772f7cf8f57cea7b48c8899014a5",
        "50728549c70cdd471c43d3640891aa94492e374ec6e4858c6f2f42f69d7ea2b4",
    ]
    assert form["records"][0]["line"].encode() == (EXAMPLE / "body.jsonl").read_bytes().splitlines()[2]


def test_a_category_is_proved_to_be_complete(delta, signed, tmp_path):
    """Every added record and no other, against the root that the manifest has for the category."""
    path = tmp_path / "added.json"
    assert delta("prove", MANIFEST, "--category", "added", "--store", signed, "-o", path).code == 0
    answer = delta("check-proof", path)
    assert answer.code == 0
    assert "all 2 added records of this manifest" in answer.out
    form = json.loads(path.read_bytes())
    del form["records"][0]
    path.write_text(json.dumps(form, separators=(",", ":"), ensure_ascii=False))
    answer = delta("check-proof", path, "--json")
    assert answer.code == 1
    assert [finding["code"] for finding in answer.json["findings"]] == ["DELTA_COUNT", "DELTA_CATEGORY_ROOT"]
    assert answer.json["records"] == []


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("12.51", "12.61", "DELTA_PROOF"),
        ('"index":2', '"index":1', "DELTA_PROOF"),
        ('"unchanged":995', '"unchanged":996', "DELTA_STATEMENT_MISMATCH"),
        ('"inline_limit":65536', '"inline_limit":65537', "DELTA_SCHEMA"),
        ('"detail":"values"', '"detail":"keys"', "DELTA_CONTRACT"),
    ],
    ids=["value", "index", "manifest", "schema", "contract"],
)
def test_a_changed_bundle_proves_nothing(delta, signed, bundle, old, new, code):
    """Each change is found with its code, and no record is given out."""
    text = bundle.read_text()
    assert old in text
    bundle.write_text(text.replace(old, new, 1))
    answer = delta("check-proof", bundle, "--trust", signed.trust, "--json")
    assert answer.code == 1
    assert code in [finding["code"] for finding in answer.json["findings"]]
    assert answer.json["records"] == []
    assert delta("check-proof", bundle, "--trust", signed.trust).out.endswith("verdict   proves NOTHING\n")


def test_a_stranger_does_not_vouch_for_a_bundle(delta, bundle, tmp_path):
    """The proof holds, but nobody who is trusted signed the manifest: exit 4."""
    trust = tmp_path / "other.pem"
    trust.write_text(pem_of_spki(fresh_signer("ed25519").spki))
    answer = delta("check-proof", bundle, "--trust", trust, "--json")
    assert (answer.code, answer.json["verdict"]) == (4, "untrusted")


def test_a_retired_key_still_vouches_where_an_anchor_proves_when(delta, signed, tmp_path):
    """Trust goes by log number; the anchor in the bundle proves the number without a log at hand."""
    entries = log.read_log(signed.store, signed.pair_id)
    auditor = fresh_signer("ed25519")
    key = trust_key(signed.trust.read_bytes()).keys[0]
    closed = type(key)(key.alg, 0, key.keyid, None, key.spki, key.spki_pem, 1)
    open_key = trust_key(pem_of_spki(auditor.spki).encode()).keys[0]
    trust = tmp_path / "trust.json"
    trust.write_bytes(Trust(tuple(sorted((closed, open_key), key=lambda one: one.keyid))).data)
    path = tmp_path / "proof.json"
    delta("prove", MANIFEST, RECORD, "--store", signed, "-o", path)
    assert delta("check-proof", path, "--trust", trust).code == 4
    publish_anchor(signed.store, signed.pair_id, make_anchor("here", entries), auditor)
    delta("prove", MANIFEST, RECORD, "--store", signed, "-o", path)
    answer = delta("check-proof", path, "--trust", trust, "--json")
    assert (answer.code, answer.json["anchored"]) == (0, True)
    path.write_text(path.read_text().replace('"seq":0', '"seq":1'))
    answer = delta("check-proof", path, "--trust", trust, "--json")
    assert answer.code == 1
    assert answer.json["findings"][0]["code"] == "DELTA_PROOF"


def test_a_record_that_is_not_there_cannot_be_proved(delta, signed):
    """Exit 2, nothing is written."""
    answer = delta("prove", MANIFEST, "0" * 64, "--store", signed)
    assert (answer.code, answer.out) == (2, "")
    assert "[DELTA_PROOF] The manifest has no record 0000" in answer.err
    assert "[DELTA_INPUT_DIGEST]" in delta("prove", MANIFEST, "419a8d1b", "--store", signed).err


def test_a_damaged_body_proves_nothing(delta, signed):
    """The proof is refused where it is made, not only where it is checked."""
    body = "601e47be91292204d443ade2adb1475e7e4c06fca24c3a28953b582d52860c57"
    signed.change(signed.blob(body), lambda data: data.replace(b"12.51", b"12.61"))
    assert "[DELTA_MERKLE_ROOT]" in delta("prove", MANIFEST, RECORD, "--store", signed).err
    assert "[DELTA_CATEGORY_ROOT]" in delta("prove", MANIFEST, "--category", "value_diverged", "--store", signed).err


def test_records_of_several_pages_are_proved(delta, large, tmp_path):
    """One of each page, in body order whatever the order of the question."""
    lines = large.blob(large.body).read_bytes().splitlines()
    asked = [json.loads(lines[n])["id"] for n in (2499, 0, 1500)]
    path = tmp_path / "proof.json"
    assert delta("prove", large.manifest, *asked, "--store", large, "-o", path).code == 0
    answer = delta("check-proof", path, "--json")
    assert answer.code == 0
    assert [record["key"] for record in answer.json["records"]] == [["0"], ["1500"], ["2499"]]
    assert answer.json["signature"]["status"] == "unsigned"


@pytest.mark.parametrize("text", ["", "{}", "[1,2]", '{"format":"delta-proof/2"}', "\x00"])
def test_what_is_no_bundle_is_refused(delta, tmp_path, text):
    """Exit 2 with the code, whatever stands in the file."""
    path = tmp_path / "file"
    path.write_text(text)
    answer = delta("check-proof", path, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "DELTA_PROOF")


def test_a_bundle_that_is_not_there_is_unreadable(delta, tmp_path):
    """Exit 3."""
    assert delta("check-proof", tmp_path / "none").code == 3


def test_either_records_or_a_category(delta, signed):
    """Usage."""
    assert delta("prove", MANIFEST, "--store", signed).code == 2
    assert delta("prove", MANIFEST, RECORD, "--category", "added", "--store", signed).code == 2
