"""Signing by a key that never leaves its service: AWS KMS, Google Cloud KMS, Azure Key Vault, HashiCorp Vault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from airflow_delta_provider.core.errors import KeyServiceError, SignKeyError
from airflow_delta_provider.core.signing.keys import algorithm_of, keyid_of, verify

_FAILURES: Final[Mapping[str, tuple[str, ...]]] = {
    "awskms": ("botocore.exceptions:BotoCoreError", "botocore.exceptions:ClientError"),
    "azurekms": ("azure.core.exceptions:AzureError",),
    "gcpkms": ("google.api_core.exceptions:GoogleAPIError", "google.auth.exceptions:GoogleAuthError"),
    "hv": ("hvac.exceptions:VaultError", "requests.exceptions:RequestException"),
}
"""By scheme, what the client of the service raises where the service does not do what was asked."""

SCHEMES: Final = tuple(_FAILURES)
EXTRA: Final = "key-service"


def is_service(text: str) -> bool:
    """Tell whether a text is the address of a key in a service, and no path of a file."""
    return text.partition(":")[0] in SCHEMES


class ServiceSigner:
    """A ``Signer`` over one key of a service. Each signature is checked under the key before it is given out.

    Shape: ``uri`` is ``awskms:KEY``, ``gcpkms:projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/V``,
    ``azurekms://VAULT.vault.azure.net/keys/KEY`` or ``hv:KEY`` (Vault's transit engine). Credentials are the ones that
    the client of the service finds in its environment; none stand in the address.
    Raises: SignKeyError (DELTA_SIGN_KEY) for an address or a key that is none, and where a library is missing;
    KeyServiceError (DELTA_SIGN_SERVICE) where the service does not answer or refuses.
    """

    def __init__(self, uri: str) -> None:
        self._scheme = uri.partition(":")[0]
        with self._failures():
            self._service = _open(uri)
            self.spki = _spki(self._service.public_key)
        self.alg = algorithm_of(self.spki)
        self.keyid = keyid_of(self.spki)

    def sign(self, message: bytes) -> bytes:
        """Return the signature over ``message``. Raises: KeyServiceError."""
        with self._failures():
            signature = bytes.fromhex(self._service.sign(message).signature)
        if not verify(self.alg, self.spki, message, signature):
            raise KeyServiceError(f"The signature that {self._scheme} gave is not by the key that it showed.")
        return signature

    def __repr__(self) -> str:
        return f"ServiceSigner({self._scheme}, {self.alg}, {self.keyid})"

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except _failures_of(self._scheme) as error:
            # Their texts quote requests, so the kind has to do.
            raise KeyServiceError(f"{self._scheme}: {type(error).__name__}.", where=self._scheme) from error


def _open(uri: str) -> Any:
    """Return the library's signer for an address, which asks the service for the public key."""
    scheme, _, place = uri.partition(":")
    try:
        signers = import_module("securesystemslib.signer")
        errors = import_module("securesystemslib.exceptions")
    except ImportError as error:
        raise SignKeyError(f"A key of {scheme} needs the extra {EXTRA}.", where=scheme) from error
    kinds = {"awskms": "AWSSigner", "azurekms": "AzureSigner", "gcpkms": "GCPSigner", "hv": "VaultSigner"}
    if scheme not in kinds or not place:
        raise SignKeyError(f"A key of a service is one of {', '.join(kinds)}, and its name.", where=scheme[:16])
    kind = getattr(signers, kinds[scheme])
    try:
        private_uri, public = kind.import_(*(_azure_parts(place) if scheme == "azurekms" else (place,)))
        return kind.from_priv_key_uri(private_uri, public)
    except errors.UnsupportedLibraryError as error:
        raise SignKeyError(f"A key of {scheme} needs its client, too: {error}", where=scheme) from error
    except (errors.UnsupportedAlgorithmError, ValueError, KeyError, TypeError) as error:
        raise SignKeyError(f"What {scheme} has under this name signs no manifest.", where=scheme) from error


def _azure_parts(place: str) -> tuple[str, str]:
    """Return vault and key of ``//VAULT.vault.azure.net/keys/KEY``."""
    host, _, path = place.removeprefix("//").partition("/")
    folder, _, name = path.partition("/")
    if not host.endswith(".vault.azure.net") or folder != "keys" or not name or "/" in name:
        raise SignKeyError("A key of azurekms is azurekms://VAULT.vault.azure.net/keys/KEY.", where="azurekms")
    return host.removesuffix(".vault.azure.net"), name


def _spki(public: Any) -> bytes:
    """Return the public key that the library tells, as DER. Ed25519 is raw hex there, all else PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    text = public.keyval["public"]
    try:
        key: Any = (
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
            if public.keytype == "ed25519"
            else load_pem_public_key(text.encode())
        )
    except ValueError as error:
        raise SignKeyError("The public key that the service tells cannot be read.") from error
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def _failures_of(scheme: str) -> tuple[type[BaseException], ...]:
    """Return what a client raises, of the modules that are installed."""
    found: list[type[BaseException]] = [OSError]
    for place in _FAILURES.get(scheme, ()):
        module, _, name = place.partition(":")
        try:
            found.append(getattr(import_module(module), name))
        except ImportError:
            continue  # without its client, nothing of it is raised
    return tuple(found)
