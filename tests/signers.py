"""Signing keys for tests: the example's, whose seed is public knowledge, and fresh ones."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from airflow_delta_provider.core.signing.keys import PemSigner

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def pem(key: PrivateKey, password: bytes | None = None) -> bytes:
    """Return a private key as PKCS#8 in PEM."""
    lock: KeySerializationEncryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def example_signer() -> PemSigner:
    """Return the signer of the worked example."""
    seed = hashlib.sha256(b"delta-manifest-v1 test key ed25519").digest()
    return PemSigner(pem(ed25519.Ed25519PrivateKey.from_private_bytes(seed)))


def fresh_signer(alg: str) -> PemSigner:
    """Return a signer with a new key for ``ed25519`` or ``ecdsa-p256-sha256``."""
    made: dict[str, PrivateKey] = {
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "ecdsa-p256-sha256": ec.generate_private_key(ec.SECP256R1()),
    }
    return PemSigner(pem(made[alg]))
