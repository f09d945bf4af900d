"""Anchors: what a signed log head proves about a log that someone else keeps."""

import hashlib
from pathlib import Path

import pytest
from signers import example_signer, fresh_signer

from airflow_delta_provider.core import anchor, log
from airflow_delta_provider.core.errors import (
    EnvelopeError,
    LogAnchorError,
    LogConsistencyError,
    SignatureInvalidError,
    SignatureUntrustedError,
)
from airflow_delta_provider.core.signing import dsse, sign_manifest
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.trust import Trust, TrustedKey, trust_key

EXAMPLE = Path(__file__).parents[1] / "vectors" / "example"
PEM = (EXAMPLE / "ed25519.pub.pem").read_bytes()
PAIR = "0123456789abcdef" * 2
ORIGIN = "delta-store.example/orders"


def example_entries() -> list[log.Entry]:
    return [log.parse_entry((EXAMPLE / f"log-{seq}.json").read_bytes(), seq) for seq in range(3)]


def entries_of(count: int, fork_at: int | None = None) -> list[log.Entry]:
    entries: list[log.Entry] = []
    for seq in range(count):
        text = f"{seq} forked" if fork_at is not None and seq >= fork_at else f"{seq}"
        prev = entries[-1].digest_hex if entries else None
        entries.append(log.Entry("manifest", prev, hashlib.sha256(text.encode()).hexdigest(), seq))
    return entries


def test_the_example_log_has_the_published_anchor():
    """Three lines, to the byte."""
    made = anchor.make_anchor(ORIGIN, example_entries())
    assert made.payload == (EXAMPLE / "anchor.txt").read_bytes()
    assert made.payload == b"delta-store.example/orders\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n"
    assert anchor.parse_anchor(made.payload) == made


def test_a_stored_anchor_is_signed_and_verifies():
    """It lies under the size of the log that it saw."""
    store = MemoryStore()
    made = anchor.make_anchor(ORIGIN, example_entries())
    data = anchor.publish_anchor(store, PAIR, made, example_signer())
    assert store.read(layout.anchor_path(PAIR, 3)) == data
    assert list(store.list("pairs")) == [f"pairs/{PAIR}/anchors/00000000000000000003.json"]
    assert anchor.publish_anchor(store, PAIR, made, fresh_signer("ed25519")) == data
    assert anchor.verify_anchor(data, trust_key(PEM), PAIR) == made
    anchor.check_log(example_entries(), made)


def test_an_anchor_is_no_manifest_and_a_manifest_no_anchor():
    """One key signs both; the payload type keeps them apart."""
    manifest = sign_manifest((EXAMPLE / "manifest.json").read_bytes(), example_signer())
    with pytest.raises(EnvelopeError, match=r"\[DELTA_ENVELOPE\]"):
        anchor.verify_anchor(manifest, trust_key(PEM), PAIR)


def test_an_anchor_by_another_key_is_not_believed():
    """Whoever can write the store can write an anchor, but not sign it."""
    made = anchor.make_anchor(ORIGIN, example_entries())
    stranger = anchor.publish_anchor(MemoryStore(), PAIR, made, fresh_signer("ed25519"))
    with pytest.raises(SignatureUntrustedError, match=r"\[DELTA_SIGNATURE_UNTRUSTED\]"):
        anchor.verify_anchor(stranger, trust_key(PEM), PAIR)
    good = dsse.parse_envelope(anchor.publish_anchor(MemoryStore(), PAIR, made, example_signer()))
    longer = dsse.Envelope(good.payload_type, good.payload.replace(b"\n3\n", b"\n4\n"), good.signatures)
    with pytest.raises(SignatureInvalidError, match=r"\[DELTA_SIGNATURE_INVALID\]"):
        anchor.verify_anchor(longer.data, trust_key(PEM), PAIR)


@pytest.mark.parametrize(("to_seq", "holds"), [(3, True), (2, False)])
def test_an_anchor_is_judged_at_its_last_entry(to_seq, holds):
    """A key that was revoked before entry 2 cannot vouch for a log that holds it."""
    signer = example_signer()
    trust = Trust((TrustedKey(signer.alg, 0, signer.keyid, None, signer.spki, PEM.decode(), to_seq),))
    data = anchor.publish_anchor(MemoryStore(), PAIR, anchor.make_anchor(ORIGIN, example_entries()), signer)
    if holds:
        assert anchor.verify_anchor(data, trust, PAIR).size == 3
    else:
        with pytest.raises(SignatureUntrustedError):
            anchor.verify_anchor(data, trust, PAIR)


def test_a_log_that_was_cut_or_changed_does_not_match_its_anchor():
    """A truncated log, a log rolled back to an older state, a rewritten history."""
    made = anchor.make_anchor(ORIGIN, entries_of(9))
    anchor.check_log(entries_of(9), made)
    anchor.check_log(entries_of(20), made)
    with pytest.raises(LogAnchorError, match=r"\[DELTA_LOG_ANCHOR\] The log has 8 entries, the anchor saw 9"):
        anchor.check_log(entries_of(8), made)
    with pytest.raises(LogAnchorError, match=r"\[DELTA_LOG_ANCHOR\] The first 9 entries"):
        anchor.check_log(entries_of(20, fork_at=8), made)


def test_any_two_anchors_of_one_log_are_consistent():
    """The proof needs no log at hand."""
    whole = entries_of(13)
    anchors = [anchor.make_anchor(ORIGIN, whole[:size]) for size in range(1, 14)]
    for older in anchors:
        for newer in anchors[older.size - 1 :]:
            proof = anchor.consistency_proof(whole, older, newer)
            anchor.check_consistency(older, newer, proof)
            assert all(len(node) == 32 for node in proof)


def test_a_forked_log_is_not_consistent():
    """No proof leads from one branch to the other."""
    older = anchor.make_anchor(ORIGIN, entries_of(9))
    forked = entries_of(13, fork_at=5)
    newer = anchor.make_anchor(ORIGIN, forked)
    with pytest.raises(LogAnchorError):
        anchor.consistency_proof(forked, older, newer)
    own = anchor.consistency_proof(forked, anchor.make_anchor(ORIGIN, forked[:9]), newer)
    for proof in (own, [], own[1:], [*own, own[0]], [node[:31] for node in own]):
        with pytest.raises(LogConsistencyError, match=r"\[DELTA_LOG_CONSISTENCY\]"):
            anchor.check_consistency(older, newer, proof)


def test_anchors_of_two_logs_or_in_the_wrong_order_are_not_consistent():
    """A log extends only itself, and only forwards."""
    whole = entries_of(13)
    older, newer = anchor.make_anchor(ORIGIN, whole[:9]), anchor.make_anchor(ORIGIN, whole)
    proof = anchor.consistency_proof(whole, older, newer)
    with pytest.raises(LogConsistencyError):
        anchor.check_consistency(newer, older, proof)
    other = anchor.make_anchor("elsewhere", whole)
    with pytest.raises(LogConsistencyError, match="not of one log"):
        anchor.check_consistency(older, other, proof)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"a\n3\n",
        b"a\n3\nAAAA\n",
        b"a\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=",
        b"a\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\nx",
        b"a\n03\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"a\n0\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"a\n-3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"a\n9999999999999999\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"a\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ9=\n",
        b"\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"a\r\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"\xff\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
        b"a" * 256 + b"\n3\nIFOTIfFwogRKJICA6lYTdPsyxbohPMtft0ZkrZ3uRQ8=\n",
    ],
)
def test_what_is_no_anchor_is_refused(payload):
    """One log head has one text."""
    with pytest.raises(LogAnchorError, match=r"\[DELTA_LOG_ANCHOR\]"):
        anchor.parse_anchor(payload)


def test_an_empty_log_has_no_anchor():
    """There is nothing to vouch for."""
    with pytest.raises(LogAnchorError, match=r"\[DELTA_LOG_ANCHOR\]"):
        anchor.make_anchor(ORIGIN, [])
