"""The trust document: what it may say, and what it lets a signature prove."""

import json
from pathlib import Path

import pytest
from signers import example_signer, fresh_signer

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import (
    EnvelopeError,
    SignatureInvalidError,
    SignatureUntrustedError,
    SignKeyError,
    StatementMismatchError,
    TrustError,
)
from airflow_delta_provider.core.signing import dsse, keys, sign_manifest, statement
from airflow_delta_provider.core.trust import (
    Trust,
    TrustedKey,
    parse_trust,
    trust_key,
    verify_manifest_envelope,
)

EXAMPLE = Path(__file__).parents[1] / "vectors" / "example"
MANIFEST = (EXAMPLE / "manifest.json").read_bytes()
OTHER = (EXAMPLE / "shard0.manifest.json").read_bytes()
ENVELOPE = (EXAMPLE / "manifest.dsse.json").read_bytes()
KEYID = "cf15caf871b59e3c0918329f0970a44c69a5806827184926668d2d48a6d18c52"
PEM = (EXAMPLE / "ed25519.pub.pem").read_text()
PAIR = "0123456789abcdef" * 2
ELSEWHERE = "f" * 32


def listed(**changes) -> dict:
    members = {"alg": "ed25519", "from_seq": 0, "keyid": KEYID, "pairs": None, "spki_pem": PEM, "to_seq": None}
    return {**members, **changes}


def document(*trusted: dict) -> bytes:
    return jsonc.dumps({"format": "delta-trust/1", "keys": list(trusted)})


def trusted(signer: keys.PemSigner, **changes) -> TrustedKey:
    members = {"alg": signer.alg, "from_seq": 0, "keyid": signer.keyid, "pairs": None, "spki": signer.spki}
    return TrustedKey(**{**members, "spki_pem": keys.pem_of_spki(signer.spki), "to_seq": None, **changes})


def trust_of(*found: TrustedKey) -> Trust:
    return Trust(tuple(sorted(found, key=lambda key: key.keyid)))


def test_the_published_envelope_verifies():
    """Under a document with its key, and under its key alone."""
    for trust in (parse_trust(document(listed())), trust_key(PEM.encode())):
        assert verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, 0) == KEYID
        assert verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, None) == KEYID


def test_a_document_is_written_as_it_was_read():
    """Its digest is what the log names."""
    ecdsa = fresh_signer("ecdsa-p256-sha256")
    one = listed(pairs=[PAIR, ELSEWHERE], from_seq=3, to_seq=9)
    two = listed(alg=ecdsa.alg, keyid=ecdsa.keyid, spki_pem=keys.pem_of_spki(ecdsa.spki))
    data = document(*sorted([one, two], key=lambda key: key["keyid"]))
    assert parse_trust(data).data == data
    assert parse_trust(document()).keys == ()


@pytest.mark.parametrize("alg", ["ed25519", "ecdsa-p256-sha256"])
def test_a_fresh_signature_verifies(alg):
    """Both algorithms, whatever the order of the keys."""
    signer, other = fresh_signer(alg), fresh_signer("ed25519")
    trust = trust_of(trusted(signer), trusted(other), trusted(fresh_signer("ecdsa-p256-sha256")))
    data = sign_manifest(MANIFEST, signer)
    assert verify_manifest_envelope(data, MANIFEST, trust, PAIR, 5) == signer.keyid


@pytest.mark.parametrize(
    ("window", "seq", "holds"),
    [
        ((0, None), 0, True),
        ((3, 6), 2, False),
        ((3, 6), 3, True),
        ((3, 6), 5, True),
        ((3, 6), 6, False),
        ((3, None), 2**53 - 1, True),
        ((3, None), None, True),
        ((0, 6), None, False),
    ],
)
def test_a_key_vouches_inside_its_window_of_the_log(window, seq, holds):
    """Rotation leaves old manifests verifiable, and a revoked key signs nothing new, logged or not."""
    trust = parse_trust(document(listed(from_seq=window[0], to_seq=window[1])))
    if holds:
        assert verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, seq) == KEYID
    else:
        with pytest.raises(SignatureUntrustedError, match=r"\[DELTA_SIGNATURE_UNTRUSTED\] Key cf15.* not trusted for"):
            verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, seq)


def test_a_key_vouches_for_its_pairs_alone():
    """The key of one team says nothing about another's tables."""
    trust = parse_trust(document(listed(pairs=[PAIR])))
    assert verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, 0) == KEYID
    with pytest.raises(SignatureUntrustedError, match=f"not trusted for pair {ELSEWHERE}"):
        verify_manifest_envelope(ENVELOPE, MANIFEST, trust, ELSEWHERE, 0)
    with pytest.raises(SignatureUntrustedError):
        verify_manifest_envelope(ENVELOPE, MANIFEST, parse_trust(document(listed(pairs=[]))), PAIR, 0)


def test_one_key_may_have_two_windows():
    """A key that was set aside may come back."""
    trust = parse_trust(document(listed(to_seq=3), listed(from_seq=7)))
    for seq in (2, 7):
        assert verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, seq) == KEYID
    with pytest.raises(SignatureUntrustedError):
        verify_manifest_envelope(ENVELOPE, MANIFEST, trust, PAIR, 5)


def forged(**changes) -> bytes:
    return json.dumps({**json.loads(ENVELOPE), **changes}).encode()


def test_an_unknown_key_is_untrusted():
    """Whatever it signs, and whatever its hint."""
    stranger = fresh_signer("ed25519")
    trust = trust_key(PEM.encode())
    with pytest.raises(SignatureUntrustedError, match=f"names '{stranger.keyid}'"):
        verify_manifest_envelope(sign_manifest(MANIFEST, stranger), MANIFEST, trust, PAIR, 0)
    with pytest.raises(SignatureUntrustedError, match="No trusted key signed"):
        verify_manifest_envelope(ENVELOPE, MANIFEST, Trust(()), PAIR, 0)


def test_the_right_key_id_with_another_key_is_invalid():
    """The key id is a hint; the key itself must have signed."""
    signed = dsse.parse_envelope(sign_manifest(MANIFEST, fresh_signer("ed25519")))
    lying = dsse.Envelope(signed.payload_type, signed.payload, (dsse.Signature(KEYID, signed.signatures[0].sig),))
    with pytest.raises(SignatureInvalidError, match=r"\[DELTA_SIGNATURE_INVALID\] .*cf15"):
        verify_manifest_envelope(lying.data, MANIFEST, trust_key(PEM.encode()), PAIR, 0)


@pytest.mark.parametrize("hint", ["", "0" * 64, None])
def test_a_wrong_hint_does_not_hide_a_valid_signature(hint):
    """Verification never depends on the hint."""
    signature = {"keyid": hint, "sig": json.loads(ENVELOPE)["signatures"][0]["sig"]}
    if hint is None:
        del signature["keyid"]
    data = forged(signatures=[signature])
    assert verify_manifest_envelope(data, MANIFEST, trust_key(PEM.encode()), PAIR, 0) == KEYID


def test_a_changed_payload_or_signature_is_invalid():
    """One bit is enough."""
    envelope = dsse.parse_envelope(ENVELOPE)
    sig = bytearray(envelope.signatures[0].sig)
    sig[0] ^= 1
    wrong_sig = dsse.Envelope(envelope.payload_type, envelope.payload, (dsse.Signature(KEYID, bytes(sig)),))
    wrong_payload = dsse.Envelope(envelope.payload_type, envelope.payload[:-1] + b" ", envelope.signatures)
    for changed in (wrong_sig, wrong_payload):
        with pytest.raises(SignatureInvalidError, match=r"\[DELTA_SIGNATURE_INVALID\]"):
            verify_manifest_envelope(changed.data, MANIFEST, trust_key(PEM.encode()), PAIR, 0)


def test_a_valid_signature_over_another_manifest_is_a_mismatch():
    """Envelopes can be swapped between manifests; the statement is compared whole."""
    trust = trust_key(PEM.encode())
    with pytest.raises(StatementMismatchError, match=r"\[DELTA_STATEMENT_MISMATCH\]"):
        verify_manifest_envelope(ENVELOPE, OTHER, trust, PAIR, 0)
    signer = example_signer()
    swapped = statement.statement_bytes(MANIFEST).replace(b'"rows":1000', b'"rows":9999')
    data = dsse.sign_envelope(statement.PAYLOAD_TYPE, swapped, [signer]).data
    with pytest.raises(StatementMismatchError):
        verify_manifest_envelope(data, MANIFEST, trust, PAIR, 0)


def test_another_payload_type_is_no_statement():
    """The type is signed too, so this signature was made for something else."""
    data = dsse.sign_envelope("application/json", statement.statement_bytes(MANIFEST), [example_signer()]).data
    with pytest.raises(EnvelopeError, match=r"\[DELTA_ENVELOPE\] .*application/json"):
        verify_manifest_envelope(data, MANIFEST, trust_key(PEM.encode()), PAIR, 0)
    with pytest.raises(EnvelopeError, match="no JSON"):
        signed = dsse.sign_envelope(statement.PAYLOAD_TYPE, b"x", [example_signer()]).data
        verify_manifest_envelope(signed, MANIFEST, trust_key(PEM.encode()), PAIR, 0)


def test_one_of_several_signatures_is_enough():
    """A signature by a key that we do not know harms nobody."""
    signers = [fresh_signer("ecdsa-p256-sha256"), example_signer()]
    data = dsse.sign_envelope(statement.PAYLOAD_TYPE, statement.statement_bytes(MANIFEST), signers).data
    assert verify_manifest_envelope(data, MANIFEST, trust_key(PEM.encode()), PAIR, 0) == KEYID


def test_the_envelope_cannot_choose_the_algorithm():
    """A member that asks for another one is ignored, as DSSE demands, and changes nothing."""
    data = forged(alg="none", signatures=[{"keyid": KEYID, "sig": "", "alg": "none"}])
    with pytest.raises(SignatureInvalidError):
        verify_manifest_envelope(data, MANIFEST, trust_key(PEM.encode()), PAIR, 0)


P256 = fresh_signer("ecdsa-p256-sha256")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        document(listed()) + b"\n",
        jsonc.dumps({"format": "delta-trust/2", "keys": []}),
        jsonc.dumps({"format": "delta-trust/1", "keys": {}}),
        jsonc.dumps({"format": "delta-trust/1", "keys": [], "x": 1}),
        document("x"),
        document({**listed(), "x": 1}),
        document({name: value for name, value in listed().items() if name != "to_seq"}),
        document(listed(alg="ecdsa-p256-sha256")),
        document(listed(alg="none")),
        document(listed(alg="ed25519", keyid=P256.keyid, spki_pem=keys.pem_of_spki(P256.spki))),
        document(listed(keyid="0" * 64)),
        document(listed(keyid=None)),
        document(listed(spki_pem="")),
        document(listed(spki_pem=1)),
        document(listed(spki_pem="-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")),
        document(listed(from_seq=-1)),
        document(listed(from_seq=True)),
        document(listed(from_seq="0")),
        document(listed(from_seq=5, to_seq=5)),
        document(listed(from_seq=5, to_seq=4)),
        document(listed(to_seq=True)),
        document(listed(pairs="x")),
        document(listed(pairs=["orders"])),
        document(listed(pairs=[ELSEWHERE, PAIR])),
        document(listed(pairs=[PAIR, PAIR])),
        b'{"format":"delta-trust/1","keys":[],"keys":[]}',
        b" " * 2**21,
    ],
)
def test_a_trust_document_says_exactly_what_it_may(data):
    """What it does not say in its one form, it does not say."""
    with pytest.raises(TrustError, match=r"\[DELTA_TRUST\]"):
        parse_trust(data)


def test_keys_stand_in_order():
    """One set of keys is one document."""
    two = listed(alg=P256.alg, keyid=P256.keyid, spki_pem=keys.pem_of_spki(P256.spki))
    rows = sorted([listed(), two], key=lambda key: key["keyid"])
    parse_trust(document(*rows))
    with pytest.raises(TrustError, match="not sorted by keyid"):
        parse_trust(document(*reversed(rows)))


def test_a_file_that_is_no_key_gives_no_trust():
    """A mistyped file must not verify anything."""
    with pytest.raises(SignKeyError, match=r"\[DELTA_SIGN_KEY\]"):
        trust_key(b"nothing")
