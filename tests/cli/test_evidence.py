"""``anchor``, ``retire`` and ``trust``: what the keeper of a log does, and what it protects against."""

import pytest
from cli_store import MANIFEST
from cryptography.hazmat.primitives.asymmetric import ed25519
from signers import fresh_signer, pem

from airflow_delta_provider.core import log
from airflow_delta_provider.core.signing.keys import keyid_of, pem_of_spki
from airflow_delta_provider.core.trust import parse_trust

BODY = "601e47be91292204d443ade2adb1475e7e4c06fca24c3a28953b582d52860c57"


@pytest.fixture
def key(tmp_path):
    """The file of a private key, and beside it the one of its public key."""
    path = tmp_path / "anchor.pem"
    path.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    return path


def test_an_anchor_kept_elsewhere_holds_until_the_log_is_cut(delta, signed, key, tmp_path):
    """A store that someone rolled back whole is found by what was kept outside of it."""
    kept = tmp_path / "kept.json"
    made = delta("anchor", "orders", "--store", signed, "--sign", key, "-o", kept, "--json").json
    assert (made["size"], made["consistency"], made["origin"]) == (3, None, signed.pair_id)
    assert delta("verify", "orders", "--store", signed, "--anchor", kept).code == 0
    signed.log(signed.pair_id, 2).unlink()
    answer = delta("verify", "orders", "--store", signed, "--anchor", kept)
    assert answer.code == 1
    assert "[DELTA_LOG_ANCHOR] kept anchor 0: The log has 2 entries, the anchor saw 3." in answer.out


def test_a_newer_anchor_proves_that_it_extends_the_older(delta, signed, key, tmp_path):
    """Two anchors of one log, and nothing but hashes between them."""
    kept = tmp_path / "kept.json"
    delta("anchor", "orders", "--store", signed, "--sign", key, "-o", kept, "--origin", "ours/orders")
    log.append(signed.store, signed.pair_id, "sidecar", "1" * 64)
    answer = delta("anchor", "orders", "--store", signed, "--sign", key, "--since", kept, "--json").json
    assert (answer["origin"], answer["size"], answer["consistency"]["from"]) == ("ours/orders", 4, 3)
    assert (
        "extends    the anchor over 3"
        in delta("anchor", "orders", "--store", signed, "--sign", key, "--since", kept).out
    )


def test_a_forked_log_gets_no_newer_anchor(delta, signed, key, tmp_path):
    """Whoever signs the branch would vouch for it."""
    kept = tmp_path / "kept.json"
    delta("anchor", "orders", "--store", signed, "--sign", key, "-o", kept)
    older = log.read_log(signed.store, signed.pair_id)
    forged = log.Entry("manifest", older[1].digest_hex, "2" * 64, 2)
    signed.change(signed.log(signed.pair_id, 2), lambda data: forged.data)
    answer = delta("anchor", "orders", "--store", signed, "--sign", key, "--since", kept)
    assert (answer.code, "[DELTA_LOG_ANCHOR]" in answer.err) == (2, True)


def test_an_older_anchor_by_a_stranger_is_not_believed(delta, signed, key, tmp_path):
    """With a trust file, signatures decide."""
    kept = tmp_path / "kept.json"
    delta("anchor", "orders", "--store", signed, "--sign", key, "-o", kept)
    words = ["anchor", "orders", "--store", signed, "--sign", key, "--since", kept, "--trust", signed.trust]
    answer = delta(*words)
    assert "[DELTA_SIGNATURE_UNTRUSTED]" in answer.err


def test_an_anchor_is_never_written_over_another_file(delta, signed, key):
    """The kept one is the only witness."""
    answer = delta("anchor", "orders", "--store", signed, "--sign", key, "-o", key)
    assert answer.code == 3
    assert b"PRIVATE KEY" in key.read_bytes()


def test_a_retired_body_is_reported_as_retired_and_not_as_tampering(delta, signed):
    """Retention is announced in the log before the bytes go."""
    answer = delta("retire", MANIFEST, "--store", signed, "--json").json
    assert answer == {
        "body": BODY,
        "pair": signed.pair_id,
        "path": f"blobs/sha256/60/1e/{BODY}",
        "seq": 3,
    }
    assert delta("retire", MANIFEST, "--store", signed, "--json").json["seq"] == 3
    assert delta("verify", MANIFEST, "--store", signed).code == 0
    signed.blob(BODY).unlink()
    answer = delta("verify", MANIFEST, "--store", signed)
    assert (answer.code, "retired by log entry 3" in answer.out) == (0, True)
    assert delta("verify", "--audit", signed).code == 0


def test_a_body_that_is_gone_without_a_word_is_a_finding(delta, signed):
    """Only what was said before counts."""
    signed.blob(BODY).unlink()
    answer = delta("verify", MANIFEST, "--store", signed)
    assert (answer.code, "[DELTA_STORE_MISSING]" in answer.out) == (1, True)


def test_what_no_log_names_is_not_retired(delta, signed):
    """A manifest that was never published has no retention."""
    for seq in (2, 1, 0):
        signed.log(signed.pair_id, seq).unlink()
    answer = delta("retire", MANIFEST, "--store", signed)
    assert (answer.code, "[DELTA_INPUT_POLICY]" in answer.err) == (2, True)


def public(path, signer):
    path.write_text(pem_of_spki(signer.spki))
    return path


def test_a_rotated_key_vouches_for_its_time_and_the_new_one_for_the_rest(delta, signed, tmp_path):
    """Old manifests stay verifiable; what the old key signs later does not count."""
    document, new = tmp_path / "trust.json", fresh_signer("ecdsa-p256-sha256")
    assert delta("trust", document, "--add", signed.trust).code == 0
    old = parse_trust(document.read_bytes()).keys[0].keyid
    assert delta("trust", document, "--add", public(tmp_path / "new.pem", new), "--from-seq", 3).code == 0
    assert delta("trust", document, "--revoke", old, "--to-seq", 3).code == 0
    windows = {key.keyid: (key.from_seq, key.to_seq) for key in parse_trust(document.read_bytes()).keys}
    assert windows == {old: (0, 3), keyid_of(new.spki): (3, None)}
    assert delta("verify", MANIFEST, "--store", signed, "--trust", document).code == 0
    delta("trust", document, "--revoke", old, "--to-seq", 1)
    assert delta("verify", MANIFEST, "--store", signed, "--trust", document).code == 0  # the envelope is entry 0
    answer = delta("trust", document, "--revoke", old, "--to-seq", 2)
    assert (answer.code, "[DELTA_TRUST]" in answer.err) == (2, True)


def test_a_revoked_key_vouches_for_nothing(delta, signed, tmp_path):
    """A key that leaked before its first entry: a window of nothing is none, so it is limited to another pair."""
    document = tmp_path / "trust.json"
    delta("trust", document, "--add", signed.trust, "--pair", "0" * 32)
    answer = delta("verify", MANIFEST, "--store", signed, "--trust", document)
    assert (answer.code, "untrusted" in answer.out) == (4, True)


def test_a_version_of_the_trust_document_is_logged(delta, signed, tmp_path):
    """Which keys held when is part of the history."""
    document = tmp_path / "trust.json"
    answer = delta("trust", document, "--add", signed.trust, "--store", signed, "--log", "orders")
    assert (answer.code, "log entry 3 of" in answer.out) == (0, True)
    newest = log.head(signed.store, signed.pair_id)
    assert newest.kind == "trust"
    assert signed.blob(newest.ref).read_bytes() == document.read_bytes()
    assert delta("verify", "--audit", signed).code == 0


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--revoke", "0" * 64, "--to-seq", "3"),
        ("--add", "KEY", "--pair", "orders"),
        ("--add", "KEY", "--log", "orders"),
    ],
    ids=["nothing there", "no such key", "no pair id", "no store"],
)
def test_a_trust_document_is_not_made_of_mistakes(delta, signed, tmp_path, words):
    """Whom one trusts is decided once and read often."""
    given = [str(signed.trust) if word == "KEY" else word for word in words]
    assert delta("trust", tmp_path / "trust.json", *given).code == 2
