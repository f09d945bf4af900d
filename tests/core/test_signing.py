"""Envelopes, statements and keys, against the worked example and vectors that others published."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, utils, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from signers import example_signer, fresh_signer, pem
from third_party import published

from airflow_delta_provider.core.errors import EnvelopeError, SignKeyError, SignSizeError, StatementMismatchError
from airflow_delta_provider.core.signing import dsse, keys, load_signer, sign_manifest, statement

EXAMPLE = Path(__file__).parents[1] / "vectors" / "example"
MANIFEST = (EXAMPLE / "manifest.json").read_bytes()
ENVELOPE = (EXAMPLE / "manifest.dsse.json").read_bytes()
KEYID = "cf15caf871b59e3c0918329f0970a44c69a5806827184926668d2d48a6d18c52"
SIG = (
    "1eb28aadb457debcf1f36c9ffcd54e53bd0a856a994309e9ee189b7dfe34f87f"
    "81d3c95baec6e787c266e3a68aaa1816583c4d0b01758269ddbfd8853b482f01"
)


def spki(key) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def test_the_example_signs_to_the_published_envelope():
    """Ed25519 is deterministic, so the whole envelope is."""
    assert sign_manifest(MANIFEST, example_signer()) == ENVELOPE
    assert len(ENVELOPE) == 2268


def test_the_published_envelope_reads_as_published():
    """Lengths, key id and signature of the worked example."""
    envelope = dsse.parse_envelope(ENVELOPE)
    assert (len(envelope.payload), len(envelope.pae)) == (1515, 1559)
    assert envelope.signatures == (dsse.Signature(KEYID, bytes.fromhex(SIG)),)
    assert envelope.data == ENVELOPE
    assert envelope.payload == statement.statement_bytes(MANIFEST)
    public = keys.spki_of_pem((EXAMPLE / "ed25519.pub.pem").read_bytes())
    assert keys.keyid_of(public) == KEYID == example_signer().keyid
    assert keys.verify("ed25519", public, envelope.pae, bytes.fromhex(SIG))
    assert not keys.verify("ed25519", public, envelope.pae + b" ", bytes.fromhex(SIG))
    assert keys.pem_of_spki(public).encode() == (EXAMPLE / "ed25519.pub.pem").read_bytes()


def test_lengths_of_the_encoding_count_bytes():
    """A type or payload beyond ASCII must not shift the border between them."""
    assert dsse.pae("é", "ü ".encode()) == b"DSSEv1 2 \xc3\xa9 3 \xc3\xbc "
    assert dsse.pae("", b"") == b"DSSEv1 0  0 "


def test_published_encodings_are_ours():
    """The reference implementation's."""
    for case in published("dsse/reference_vectors.json")["pae"]:
        assert dsse.pae(case["payload_type"], case["payload_utf8"].encode()) == case["pae_utf8"].encode()


def test_the_published_ecdsa_envelope_holds_after_conversion_alone():
    """Version 1 fixes DER: the raw form of the same signature is none."""
    case = published("dsse/reference_vectors.json")["ecdsa_p256_sha256"]
    numbers = ec.EllipticCurvePublicNumbers(int(case["public_x"]), int(case["public_y"]), ec.SECP256R1())
    envelope = dsse.parse_envelope(json.dumps(case["envelope"]).encode())
    raw = envelope.signatures[0].sig
    der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = spki(numbers.public_key())
    assert not keys.verify("ecdsa-p256-sha256", key, envelope.pae, raw)
    assert keys.verify("ecdsa-p256-sha256", key, envelope.pae, der)


def test_published_statements_are_read_and_refused():
    """Four ways to be no statement of version 1."""
    vectors = published("in-toto/statement_vectors.json")
    for text in vectors["valid"]:
        assert statement.parse_statement(text.encode())["predicateType"] == "thePredicate"
    for name, text in vectors["invalid"].items():
        with pytest.raises(EnvelopeError, match=r"\[DELTA_ENVELOPE\]"):
            statement.parse_statement(text.encode())
            pytest.fail(name)


def judged(file: str, alg: str, convert) -> tuple[int, list[int]]:
    """Return how many cases a published file has and which of them we judge otherwise."""
    wrong, count = [], 0
    for group in published(f"wycheproof/{file}")["testGroups"]:
        key = bytes.fromhex(group["publicKeyDer"])
        for case in group["tests"]:
            count += 1
            sig = convert(bytes.fromhex(case["sig"]))
            found = sig is not None and keys.verify(alg, key, bytes.fromhex(case["msg"]), sig)
            if found is not (case["result"] == "valid"):
                wrong.append(case["tcId"])
    return count, wrong


def to_der(raw: bytes) -> bytes | None:
    if len(raw) != 64:
        return None
    return utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))


@pytest.mark.parametrize(
    ("file", "alg", "convert", "count"),
    [
        ("ed25519_test.json", "ed25519", bytes, 151),
        ("ecdsa_secp256r1_sha256_test.json", "ecdsa-p256-sha256", bytes, 484),
        ("ecdsa_secp256r1_sha256_p1363_test.json", "ecdsa-p256-sha256", to_der, 262),
    ],
)
def test_signatures_are_judged_as_published(file, alg, convert, count):
    """Forgeries that other verifiers took, malleable forms that they refused."""
    assert judged(file, alg, convert) == (count, [])


def test_no_raw_ecdsa_signature_is_taken_for_der():
    """One signature has one accepted form."""
    for group in published("wycheproof/ecdsa_secp256r1_sha256_p1363_test.json")["testGroups"]:
        key = bytes.fromhex(group["publicKeyDer"])
        for case in group["tests"]:
            assert not keys.verify("ecdsa-p256-sha256", key, bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"]))


@pytest.mark.parametrize("alg", ["ed25519", "ecdsa-p256-sha256"])
def test_what_a_signer_signs_verifies_under_its_key_alone(alg):
    """And under its algorithm alone."""
    signer, other = fresh_signer(alg), fresh_signer(alg)
    sig = signer.sign(b"message")
    assert signer.alg == alg
    assert keys.verify(alg, signer.spki, b"message", sig)
    assert not keys.verify(alg, signer.spki, b"massage", sig)
    assert not keys.verify(alg, other.spki, b"message", sig)
    assert not keys.verify(alg, signer.spki, b"message", b"")
    with pytest.raises(SignKeyError, match=r"\[DELTA_SIGN_KEY\]"):
        keys.verify("rsa" if alg == "ed25519" else "ed25519", signer.spki, b"message", sig)


def test_a_key_with_a_password_needs_it():
    """And the error shows neither."""
    locked = pem(ed25519.Ed25519PrivateKey.generate(), b"correct horse")
    assert keys.PemSigner(locked, b"correct horse").alg == "ed25519"
    for password in (None, b"battery staple"):
        with pytest.raises(SignKeyError, match=r"\[DELTA_SIGN_KEY\]") as caught:
            keys.PemSigner(locked, password)
        assert "staple" not in str(caught.value)
    with pytest.raises(SignKeyError, match="has no password"):
        keys.PemSigner(pem(ed25519.Ed25519PrivateKey.generate()), b"correct horse")


def test_an_old_style_ecdsa_key_signs_too():
    """openssl ecparam writes SEC 1."""
    key = ec.generate_private_key(ec.SECP256R1())
    old = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert keys.PemSigner(old).keyid == load_signer(pem(key)).keyid
    assert "PRIVATE" not in repr(keys.PemSigner(old))


@pytest.mark.parametrize(
    "made",
    [
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: ec.generate_private_key(ec.SECP256K1()),
        lambda: rsa.generate_private_key(65537, 2048),
        x25519.X25519PrivateKey.generate,
    ],
    ids=["P-384", "secp256k1", "RSA", "X25519"],
)
def test_other_keys_sign_nothing(made):
    """Two algorithms, no choice in band."""
    key = made()
    with pytest.raises(SignKeyError, match="neither an Ed25519 nor an ECDSA P-256"):
        keys.PemSigner(pem(key))
    with pytest.raises(SignKeyError, match="neither an Ed25519 nor an ECDSA P-256"):
        keys.algorithm_of(spki(key.public_key()))


@pytest.mark.parametrize(
    "text", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", b"x" * 20_000]
)
def test_what_is_no_key_is_refused(text):
    """The answer is a code, not a traceback of a library."""
    with pytest.raises(SignKeyError):
        keys.PemSigner(text)
    with pytest.raises(SignKeyError):
        keys.spki_of_pem(text)
    with pytest.raises(SignKeyError):
        keys.algorithm_of(text)


def test_a_private_key_is_not_read_as_a_public_one():
    """A private key in a trust document would be a leak."""
    with pytest.raises(SignKeyError, match="no public key"):
        keys.spki_of_pem(pem(ed25519.Ed25519PrivateKey.generate()))


def test_a_public_key_in_another_der_form_is_refused():
    """The key id is over the bytes, so there must be one form of them."""
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key()
    point = numbers.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    compressed = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + point
    with pytest.raises(SignKeyError):
        keys.algorithm_of(compressed)


def test_more_than_key_services_sign_is_refused():
    """The least limit of services that sign Ed25519 is 4,096 bytes."""
    signer = example_signer()
    fits = b"x" * (4096 - len(dsse.pae("t", b"")) - 3)
    assert len(dsse.pae("t", fits)) == 4096
    assert dsse.sign_envelope("t", fits, [signer]).payload == fits
    with pytest.raises(SignSizeError, match=r"\[DELTA_SIGN_SIZE\] There are 4097 bytes"):
        dsse.sign_envelope("t", fits + b"x", [signer])


def envelope(**changes) -> bytes:
    document = json.loads(ENVELOPE)
    document.update(changes)
    return json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


def test_an_envelope_of_another_writer_is_read():
    """DSSE fixes no white space, allows the URL-safe alphabet, more members and a missing keyid."""
    ours = dsse.parse_envelope(ENVELOPE)
    urlsafe = base64.urlsafe_b64encode(b"\xfb\xff\xfe").decode()
    theirs = dsse.parse_envelope(envelope(payload=urlsafe, more=1, signatures=[{"sig": urlsafe, "cert": "x"}]))
    assert theirs == dsse.Envelope(ours.payload_type, b"\xfb\xff\xfe", (dsse.Signature("", b"\xfb\xff\xfe"),))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 60_000,
        ENVELOPE + b" " * 65_536,
        envelope(payload=...),
        envelope(payloadType=...),
        envelope(signatures=...),
        envelope(payload=1),
        envelope(payload="AB"),
        envelope(payload="AB=="),
        envelope(payload="+_=="),
        envelope(payload="AAAA\n"),
        envelope(payloadType=1),
        envelope(payloadType="\ud800"),
        envelope(signatures=[]),
        envelope(signatures={}),
        envelope(signatures=[1]),
        envelope(signatures=[{"keyid": "x"}]),
        envelope(signatures=[{"keyid": 1, "sig": "AAAA"}]),
        envelope(signatures=[{"sig": "*"}]),
        envelope(signatures=[{"sig": "AAAA"}] * 17),
        ENVELOPE[:-1] + b',"payload":"AAAA"}',
        ENVELOPE.replace(b'{"keyid"', b'{"sig":"AAAA","keyid"'),
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused(data):
    """Two readings of one envelope are one too many."""
    with pytest.raises(EnvelopeError, match=r"\[DELTA_ENVELOPE\]"):
        dsse.parse_envelope(data)


def test_a_statement_is_about_one_manifest_to_the_byte():
    """A valid signature over another statement proves nothing about this manifest."""
    payload = statement.statement_bytes(MANIFEST)
    assert statement.subject_of(payload) == "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
    statement.check_statement(payload, MANIFEST)
    other = (EXAMPLE / "shard0.manifest.json").read_bytes()
    document = json.loads(payload)
    for changed in (
        statement.statement_bytes(other),
        payload.replace(b'"rows":1000', b'"rows":1001'),
        payload.replace(b"delta-manifest.example/v1", b"delta-manifest.example/v2"),
        payload.replace(b'"name":"manifest.json"', b'"name":"other.json"'),
        json.dumps(document, separators=(", ", ":"), sort_keys=True).encode(),
        json.dumps({**document, "x": 1}, separators=(",", ":"), sort_keys=True).encode(),
        json.dumps({**document, "subject": document["subject"] * 2}, separators=(",", ":")).encode(),
    ):
        with pytest.raises(StatementMismatchError, match=r"\[DELTA_STATEMENT_MISMATCH\]"):
            statement.check_statement(changed, MANIFEST)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'{"_type":"https://in-toto.io/Statement/v1","_type":"https://in-toto.io/Statement/v1"}',
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{}}],"predicateType":"x"}',
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":1}}],"predicateType":"x"}',
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"x"}}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_statement_is_refused(payload):
    """Signed or not."""
    with pytest.raises(EnvelopeError):
        statement.parse_statement(payload)


def test_a_statement_about_something_else_has_no_manifest():
    """Envelopes of other tools may lie in one store."""
    other = b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha512":"x"}}],"predicateType":"x"}'
    assert statement.subject_of(other) is None


def test_the_seed_of_the_example_is_public():
    """Nobody may take the example key for a secret."""
    seed = hashlib.sha256(b"delta-manifest-v1 test key ed25519").digest()
    assert spki(ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key()) == example_signer().spki
