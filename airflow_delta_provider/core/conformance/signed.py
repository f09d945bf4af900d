"""Envelopes: the signature, the statement, and the bytes that the public test key gives again."""

from __future__ import annotations

from collections.abc import Callable

from airflow_delta_provider.core import ids, trust
from airflow_delta_provider.core.conformance.cases import Case, Mismatch, demand
from airflow_delta_provider.core.conformance.files import Files
from airflow_delta_provider.core.documents import pair_id, parse_manifest
from airflow_delta_provider.core.errors import SignatureUntrustedError
from airflow_delta_provider.core.signing import dsse, statement
from airflow_delta_provider.core.signing.keys import PemSigner
from airflow_delta_provider.core.signing.sign import sign_manifest

TEST_SEED_TEXT = b"delta-manifest-v1 test key ed25519"
"""The seed of the public test key is the SHA-256 of this text; it is for vectors only."""


def signed_cases(files: Files) -> list[Case]:
    """Return the cases of all envelopes over manifests in the folder."""
    cases = []
    for name in files.names(".json"):
        document = files.parsed(name)
        if isinstance(document, dict) and document.get("payloadType") == statement.PAYLOAD_TYPE:
            cases.append(Case(name, "signature and statement", _envelope(files, name)))
            cases.append(Case(name, "signed again with the test key", _signed_again(files, name)))
    return cases


def _subject(files: Files, name: str) -> bytes:
    """Return the manifest that an envelope is over."""
    subject = statement.subject_of(dsse.parse_envelope(files.contents[name]).payload)
    return files.read(str(subject))


def _envelope(files: Files, name: str) -> Callable[[], None]:
    def check() -> None:
        manifest = _subject(files, name)
        pair = pair_id(**parse_manifest(manifest)["pair"])
        keys = [other for other in files.names(".pem") if b"PUBLIC KEY" in files.contents[other]]
        if not keys:
            raise Mismatch("the folder has no public key")
        for key in keys:
            trusted = trust.trust_key(files.contents[key])
            try:
                trust.verify_manifest_envelope(files.contents[name], manifest, trusted, pair, None)
            except SignatureUntrustedError:
                continue
            files.used.add(key)
            return
        raise Mismatch("no public key of the folder verifies it")

    return check


def public_test_signer() -> PemSigner:
    """Return a signer with the public test key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    seed = bytes.fromhex(ids.sha256_hex(TEST_SEED_TEXT))
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return PemSigner(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _signed_again(files: Files, name: str) -> Callable[[], None]:
    """Check the bytes of an envelope of the test key; one by another key has no private half here."""

    def check() -> None:
        signer = public_test_signer()
        if [one.keyid for one in dsse.parse_envelope(files.contents[name]).signatures] == [signer.keyid]:
            demand(sign_manifest(_subject(files, name), signer), files.contents[name], "the envelope")

    return check
