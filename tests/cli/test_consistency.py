"""``prove --between``: that a log was only extended is proved to somebody who has two anchors and not the log."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from signers import example_signer, fresh_signer, pem

from airflow_delta_provider.core import log
from airflow_delta_provider.core.anchor import ANCHOR_TYPE, Anchor, make_anchor, publish_anchor
from airflow_delta_provider.core.signing.dsse import sign_envelope
from airflow_delta_provider.core.signing.keys import pem_of_spki


@pytest.fixture
def grown(signed, tmp_path):
    """The signed store, whose log grew to eight entries; anchors over 3, 5 and 8 of them, the first one kept outside."""
    signed.kept = tmp_path / "kept.json"
    for size in (3, 5, 8):
        while len(entries := log.read_log(signed.store, signed.pair_id)) < size:
            log.append(signed.store, signed.pair_id, "sidecar", f"{len(entries):064x}")
        data = publish_anchor(signed.store, signed.pair_id, make_anchor("orders", entries), example_signer())
        if size == 3:
            signed.kept.write_bytes(data)
    return signed


@pytest.fixture
def bundle(delta, grown, tmp_path):
    path = tmp_path / "grew.json"
    assert delta("prove", "orders", "--between", grown.kept, "8", "--store", grown, "-o", path).code == 0
    return path


@pytest.mark.parametrize("between", [("KEPT", "5"), ("KEPT", "8"), ("5", "8"), ("8", "5"), ("5", "5")])
def test_any_two_anchors_are_proved_to_be_of_one_log(delta, grown, tmp_path, between):
    """In whatever order they are given, from files or from the store; the store may be gone then."""
    path = tmp_path / "grew.json"
    words = [grown.kept if word == "KEPT" else word for word in between]
    assert delta("prove", "orders", "--between", *words, "--store", grown, "-o", path).code == 0
    answer = delta("check-proof", path, "--trust", grown.trust, "--json")
    older, newer = sorted(3 if word == "KEPT" else int(word) for word in between)
    assert (answer.code, answer.json) == (
        0,
        {
            "findings": [],
            "newer": newer,
            "older": older,
            "origin": "orders",
            "pair": grown.pair_id,
            "untrusted": "",
            "verdict": "verified",
        },
    )


def test_the_proof_is_told_in_words(delta, grown, bundle):
    """A person reads how long the log was and is."""
    assert delta("check-proof", bundle, "--trust", grown.trust).out.splitlines() == [
        f"log       orders, pair {grown.pair_id}",
        "  proves     its 8 entries extend the 3 that the older anchor saw",
        "verdict   proved",
    ]


def test_anchors_by_a_stranger_are_proved_but_untrusted(delta, bundle, tmp_path):
    """Hashes hold for anybody; the word for them is the signer's."""
    other = tmp_path / "other.pem"
    other.write_text(pem_of_spki(fresh_signer("ed25519").spki))
    answer = delta("check-proof", bundle, "--trust", other)
    assert (answer.code, answer.out.splitlines()[-1]) == (4, "verdict   proved, but untrusted")


def replaced(document, name, anchor, signer=None):
    document[name] = sign_envelope(ANCHOR_TYPE, anchor.payload, [signer or example_signer()]).data.decode()


def drop_a_node(document):
    document["nodes"].pop()


def change_a_node(document):
    document["nodes"][0] = "0" * 64


def fork(document):
    replaced(document, "newer", Anchor("orders", 8, b"\1" * 32))


def other_log(document):
    replaced(document, "older", Anchor("others", 3, b"\1" * 32))


def forge(document):
    envelope = json.loads(document["older"])
    envelope["signatures"][0]["sig"] = "AAAA" + envelope["signatures"][0]["sig"][4:]
    document["older"] = json.dumps(envelope)


def swap(document):
    document["older"], document["newer"] = document["newer"], document["older"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (drop_a_node, "DELTA_LOG_CONSISTENCY"),
        (change_a_node, "DELTA_LOG_CONSISTENCY"),
        (fork, "DELTA_LOG_CONSISTENCY"),
        (other_log, "DELTA_LOG_CONSISTENCY"),
        (swap, "DELTA_LOG_CONSISTENCY"),
        (forge, "DELTA_SIGNATURE_INVALID"),
        (lambda document: document.update(more=1), "DELTA_PROOF"),
        (lambda document: document.update(nodes=["x"]), "DELTA_PROOF"),
        (lambda document: document.update(nodes=["0" * 64] * 200), "DELTA_PROOF"),
        (lambda document: document.update(pair="orders"), "DELTA_PROOF"),
        (lambda document: document.update(newer="{}"), "DELTA_ENVELOPE"),
    ],
)
def test_a_changed_bundle_proves_nothing(delta, grown, bundle, change, code):
    """Whoever carries it is not trusted."""
    document = json.loads(bundle.read_bytes())
    change(document)
    bundle.write_text(json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
    answer = delta("check-proof", bundle, "--trust", grown.trust)
    assert (answer.code, answer.out.splitlines()[-1]) == (1, "verdict   proves NOTHING")
    assert f"[{code}]" in answer.out


def test_a_log_that_was_forked_since_proves_nothing(delta, grown):
    """The kept anchor does not fit any more."""
    older = log.read_log(grown.store, grown.pair_id)
    grown.change(grown.log(grown.pair_id, 2), lambda _: log.Entry("manifest", older[1].digest_hex, "2" * 64, 2).data)
    answer = delta("prove", "orders", "--between", grown.kept, "8", "--store", grown)
    assert (answer.code, "[DELTA_LOG_" in answer.err) == (2, True)


def test_anchors_of_two_origins_are_of_two_logs(delta, grown, tmp_path):
    """Though their hashes fit."""
    key, kept = tmp_path / "key.pem", tmp_path / "other.json"
    key.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    log.append(grown.store, grown.pair_id, "sidecar", "9" * 64)
    delta("anchor", "orders", "--store", grown, "--sign", key, "--origin", "another", "-o", kept)
    answer = delta("prove", "orders", "--between", grown.kept, kept, "--store", grown)
    assert (answer.code, "[DELTA_LOG_CONSISTENCY]" in answer.err) == (2, True)


@pytest.mark.parametrize("words", [("--between", "3", "8", "--category", "added"), ("1" * 64, "--between", "3", "8")])
def test_records_and_anchors_are_proved_apart(delta, grown, words):
    """One file, one claim."""
    answer = delta("prove", "orders", *words, "--store", grown)
    assert (answer.code, "--between takes a pair and two anchors" in answer.err) == (2, True)


def test_an_anchor_that_the_store_does_not_have_is_missing(delta, grown):
    """By its size."""
    answer = delta("prove", "orders", "--between", "3", "7", "--store", grown)
    assert (answer.code, "[DELTA_STORE_MISSING]" in answer.err) == (3, True)
