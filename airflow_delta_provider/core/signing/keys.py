"""Signing keys: Ed25519 and ECDSA over P-256 with SHA-256, and nothing else."""

import hashlib
from typing import Any, Protocol

from airflow_delta_provider.core.errors import SignKeyError

ED25519 = "ed25519"
ECDSA_P256 = "ecdsa-p256-sha256"
ALGORITHMS = (ECDSA_P256, ED25519)
PEM_BYTES_MAX = 16 * 1024


class Signer(Protocol):
    """Whoever holds a private key: a PEM, or a key service.

    Shape: ``alg`` one of ``ALGORITHMS``; ``spki`` the public key as SubjectPublicKeyInfo in DER;
    ``keyid`` = ``keyid_of(spki)``. ``sign`` takes the whole message, never a hash of it.
    """

    @property
    def alg(self) -> str:
        """The algorithm of this key."""

    @property
    def spki(self) -> bytes:
        """The public key, DER."""

    @property
    def keyid(self) -> str:
        """The id of the key, 64 hex digits."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature over ``message``: 64 bytes for Ed25519, DER for ECDSA."""


class PemSigner:
    """A ``Signer`` over a private key in PEM (PKCS#8, or SEC 1 for ECDSA).

    Raises: SignKeyError (DELTA_SIGN_KEY) for anything else, and for a wrong password; its text shows no key.
    """

    def __init__(self, pem: bytes, password: bytes | None = None) -> None:
        self._key = _private_key(pem, password)
        self.spki = _der(self._key.public_key())
        self.alg = algorithm_of(self.spki)
        self.keyid = keyid_of(self.spki)

    def sign(self, message: bytes) -> bytes:
        """Return the signature over ``message``."""
        if self.alg == ED25519:
            return bytes(self._key.sign(message))
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        return bytes(self._key.sign(message, ec.ECDSA(SHA256())))

    def __repr__(self) -> str:
        return f"PemSigner({self.alg}, {self.keyid})"


def keyid_of(spki: bytes) -> str:
    """Return the id of a public key: the SHA-256 of its SubjectPublicKeyInfo in DER, in hex."""
    return hashlib.sha256(spki).hexdigest()


def algorithm_of(spki: bytes) -> str:
    """Return the one algorithm that a public key is used with.

    Raises: SignKeyError (DELTA_SIGN_KEY) for other keys and curves, and for DER that is not the key's own form.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(spki)
        same = _der(key) == spki
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignKeyError("The public key cannot be read.") from error
    if same and isinstance(key, ed25519.Ed25519PublicKey):
        return ED25519
    if same and isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return ECDSA_P256
    raise SignKeyError("The public key is neither an Ed25519 nor an ECDSA P-256 key in its plain form.")


def verify(alg: str, spki: bytes, message: bytes, sig: bytes) -> bool:
    """Tell whether ``sig`` is a signature over ``message`` by this key under this algorithm.

    Shape: Ed25519 signatures are 64 bytes, ECDSA ones DER; any other form is no signature.
    Raises: SignKeyError (DELTA_SIGN_KEY) where the key is not one for this algorithm.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if algorithm_of(spki) != alg:
        raise SignKeyError(f"The public key is none for {alg!r}.")
    key: Any = load_der_public_key(spki)
    try:
        if alg == ED25519:
            key.verify(sig, message)
        else:
            key.verify(sig, message, ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def spki_of_pem(pem: bytes) -> bytes:
    """Return the DER of a public key in PEM (``BEGIN PUBLIC KEY``).

    Raises: SignKeyError (DELTA_SIGN_KEY).
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if len(pem) > PEM_BYTES_MAX or b"-----BEGIN PUBLIC KEY-----" not in pem:
        raise SignKeyError("This is no public key in PEM.")
    try:
        return _der(load_pem_public_key(pem))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignKeyError("The public key cannot be read.") from error


def pem_of_spki(spki: bytes) -> str:
    """Return a public key as the PEM text that a trust document holds."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

    return load_der_public_key(spki).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _private_key(pem: bytes, password: bytes | None) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if len(pem) > PEM_BYTES_MAX:
        raise SignKeyError(f"A private key in PEM has at most {PEM_BYTES_MAX} bytes.")
    try:
        return load_pem_private_key(pem, password)
    except TypeError as error:
        needs = "needs a password" if password is None else "has no password, but one was given"
        raise SignKeyError(f"The private key {needs}.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SignKeyError("The private key cannot be read; it is no PEM, or the password is wrong.") from error


def _der(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
