"""Signing a manifest: the statement about it, in an envelope."""

from collections.abc import Callable

from airflow_delta_provider.core.signing.dsse import sign_envelope
from airflow_delta_provider.core.signing.keys import PemSigner, Signer
from airflow_delta_provider.core.signing.statement import PAYLOAD_TYPE, statement_bytes


def load_signer(pem: bytes, password: bytes | None = None) -> Signer:
    """Return the signer over a private key in PEM.

    Raises: SignKeyError (DELTA_SIGN_KEY).
    """
    return PemSigner(pem, password)


def sign_manifest(manifest: bytes, signer: Signer) -> bytes:
    """Return the envelope over a manifest, given in canonical bytes.

    Raises: SignSizeError (DELTA_SIGN_SIZE).
    """
    return sign_envelope(PAYLOAD_TYPE, statement_bytes(manifest), [signer]).data


def envelope_signer(signer: Signer) -> Callable[[bytes], bytes]:
    """Return what ``publish`` takes to sign: a function from the bytes of a manifest to its envelope."""
    return lambda manifest: sign_manifest(manifest, signer)
