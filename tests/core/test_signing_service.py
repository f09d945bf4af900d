"""A key that stays in its service signs as one in a file does, over the real client of one service and a twin of it."""

import sys

import pytest
import transit_twin
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from publications import EXAMPLE

from airflow_delta_provider.cli.files import read_signer
from airflow_delta_provider.core.errors import KeyServiceError, SignKeyError
from airflow_delta_provider.core.signing import keys, service, sign_manifest
from airflow_delta_provider.core.trust import trust_key, verify_manifest_envelope

MANIFEST = (EXAMPLE / "manifest.json").read_bytes()


@pytest.fixture
def vault(monkeypatch):
    with transit_twin.transit_twin() as twin:
        monkeypatch.setenv("VAULT_ADDR", twin.url)
        monkeypatch.setenv("VAULT_TOKEN", transit_twin.TOKEN)
        yield twin


def test_a_key_in_a_service_signs_a_manifest(vault):
    """Under the newest version of the key, and under the id that everybody computes."""
    signer = read_signer("hv:deltas")
    spki = vault.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert (signer.alg, signer.keyid) == ("ed25519", keys.keyid_of(spki))
    trust = trust_key(keys.pem_of_spki(spki).encode())
    assert verify_manifest_envelope(sign_manifest(MANIFEST, signer), MANIFEST, trust, "0" * 32, 0) == signer.keyid
    assert repr(signer) == f"ServiceSigner(hv, ed25519, {signer.keyid})"


def test_a_signature_by_another_key_is_not_given_out(vault):
    """The key was rotated in between, or somebody sits between us and the service."""
    signer = service.ServiceSigner("hv:deltas")
    vault.signs_by = Ed25519PrivateKey.generate()
    with pytest.raises(KeyServiceError, match=r"\[DELTA_SIGN_SERVICE\] The signature that hv gave is not by the key"):
        signer.sign(b"message")


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_service_that_refuses_is_named_and_tried_again(vault, status):
    """Airflow repeats the task; the text shows neither token nor address."""
    vault.status = status
    with pytest.raises(KeyServiceError, match=r"\[DELTA_SIGN_SERVICE\] hv: \w+\.") as caught:
        service.ServiceSigner("hv:deltas")
    assert caught.value.retryable
    assert transit_twin.TOKEN not in str(caught.value)
    assert vault.url not in str(caught.value)


def test_a_service_that_is_not_there_is_named(vault, monkeypatch):
    """Nothing listens."""
    monkeypatch.setenv("VAULT_ADDR", "http://127.0.0.1:9")
    with pytest.raises(KeyServiceError, match="hv: ConnectionError"):
        service.ServiceSigner("hv:deltas")


def test_a_wrong_token_is_refused(vault, monkeypatch):
    """By the service."""
    monkeypatch.setenv("VAULT_TOKEN", "s.another")
    with pytest.raises(KeyServiceError, match="hv: Forbidden"):
        service.ServiceSigner("hv:deltas")


@pytest.mark.parametrize(
    "uri",
    [
        "hv:",
        "pkcs11:deltas",
        "azurekms:deltas",
        "azurekms://vault.example/keys/deltas",
        "azurekms://v.vault.azure.net/secrets/deltas",
        "azurekms://v.vault.azure.net/keys/",
    ],
)
def test_what_is_no_address_of_a_key_is_refused(uri):
    """Before anything is asked."""
    with pytest.raises(SignKeyError, match=r"\[DELTA_SIGN_KEY\] A key of"):
        service.ServiceSigner(uri)


@pytest.mark.parametrize(
    ("uri", "missing"),
    [("awskms:alias/deltas", "boto3"), ("gcpkms:projects/p", "google.cloud"), ("hv:deltas", "securesystemslib.signer")],
)
def test_a_missing_library_is_named(uri, missing, monkeypatch):
    """Which extra to install."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SignKeyError, match="needs"):
        service.ServiceSigner(uri)


def test_a_file_is_not_taken_for_a_service():
    """The address decides, and a path has none of these beginnings."""
    assert [service.is_service(text) for text in ("hv:deltas", "awskms:x", "./hv:x", "key.pem", "C:/key.pem")] == [
        True,
        True,
        False,
        False,
        False,
    ]
