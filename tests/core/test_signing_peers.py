"""Our envelopes before a DSSE implementation that others wrote, and theirs before ours, over all that a signature can be."""

import json

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key
from publications import EXAMPLE
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey
from signers import example_signer, fresh_signer

from airflow_delta_provider.core.anchor import ANCHOR_TYPE, make_anchor
from airflow_delta_provider.core.errors import (
    EnvelopeError,
    SignatureInvalidError,
    SignatureUntrustedError,
    StatementMismatchError,
)
from airflow_delta_provider.core.log import Entry
from airflow_delta_provider.core.signing import dsse, keys, sign_manifest, statement
from airflow_delta_provider.core.trust import trust_key, verify_manifest_envelope

MANIFEST = (EXAMPLE / "manifest.json").read_bytes()
ALGORITHMS = ("ed25519", "ecdsa-p256-sha256")


def their_key(spki: bytes) -> SSlibKey:
    """A public key as they hold it, under our id."""
    return SSlibKey.from_crypto(load_der_public_key(spki), keyid=keys.keyid_of(spki))


def theirs(data: bytes) -> Envelope:
    return Envelope.from_dict(json.loads(data))


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_another_implementation_accepts_our_envelopes(alg):
    """Under the key that signed, and under no other."""
    signer, other = fresh_signer(alg), fresh_signer(alg)
    envelope = theirs(sign_manifest(MANIFEST, signer))
    assert (envelope.payload_type, envelope.payload) == (statement.PAYLOAD_TYPE, statement.statement_bytes(MANIFEST))
    assert list(envelope.verify([their_key(signer.spki)], 1)) == [signer.keyid]
    with pytest.raises(VerificationError):
        envelope.verify([their_key(other.spki)], 1)


def test_another_implementation_accepts_the_published_example():
    """Which was not made by us here and now."""
    signer = example_signer()
    envelope = theirs((EXAMPLE / "manifest.dsse.json").read_bytes())
    assert list(envelope.verify([their_key(signer.spki)], 1)) == [signer.keyid]


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_another_implementation_accepts_our_anchors(alg):
    """An anchor is an envelope of another type."""
    signer = fresh_signer(alg)
    made = make_anchor("orders", [Entry("manifest", None, "1" * 64, 0)])
    envelope = theirs(dsse.sign_envelope(ANCHOR_TYPE, made.payload, [signer]).data)
    assert list(envelope.verify([their_key(signer.spki)], 1)) == [signer.keyid]


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_both_need_every_byte_of_type_and_payload(alg):
    """What the one refuses, the other does."""
    signer = fresh_signer(alg)
    ours = dsse.parse_envelope(sign_manifest(MANIFEST, signer))
    sig = ours.signatures[0].sig
    for changed in (
        dsse.Envelope("application/vnd.in-toto+jsom", ours.payload, ours.signatures),
        dsse.Envelope(ours.payload_type, ours.payload + b" ", ours.signatures),
        dsse.Envelope(
            ours.payload_type, ours.payload, (dsse.Signature(signer.keyid, sig[:-1] + bytes([sig[-1] ^ 1])),)
        ),
    ):
        with pytest.raises(VerificationError):
            theirs(changed.data).verify([their_key(signer.spki)], 1)
        with pytest.raises((EnvelopeError, SignatureInvalidError, StatementMismatchError)):
            verify_manifest_envelope(
                changed.data, MANIFEST, trust_key(keys.pem_of_spki(signer.spki).encode()), "0" * 32, 0
            )


@pytest.mark.parametrize("make", [CryptoSigner.generate_ed25519, CryptoSigner.generate_ecdsa], ids=ALGORITHMS)
def test_we_accept_what_another_implementation_signs(make):
    """Its key ids are others: a hint that we do not need."""
    signer, stranger = make(), make()
    envelope = Envelope(statement.statement_bytes(MANIFEST), statement.PAYLOAD_TYPE, {})
    envelope.sign(signer)
    data = json.dumps(envelope.to_dict()).encode()
    pems = [one._private_key.public_key() for one in (signer, stranger)]
    trust, other = (trust_key(keys.pem_of_spki(der(public)).encode()) for public in pems)
    assert verify_manifest_envelope(data, MANIFEST, trust, "0" * 32, 0) == trust.keys[0].keyid
    with pytest.raises(SignatureUntrustedError):
        verify_manifest_envelope(data, MANIFEST, other, "0" * 32, 0)


def der(public) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
