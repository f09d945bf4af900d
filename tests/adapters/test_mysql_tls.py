"""Encrypted connections to MariaDB: what an address asks for is done, or the connection is refused."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_delta_provider.adapters.dialects.mysql_connect import connector
from airflow_delta_provider.core.errors import ConnectError
from airflow_delta_provider.demo.servers import server_folder


def _certificate(folder: Path, name: str, signer: tuple[Any, Any] | None, address: str) -> tuple[Any, Any]:
    """Write ``<name>.pem`` and ``<name>.key``; return certificate and key. Without a signer it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(subject).issuer_name(signer[0].subject if signer else subject)
    built = built.public_key(key.public_key()).serial_number(x509.random_serial_number())
    built = built.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    built = built.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    named = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    made = built.add_extension(named, critical=False).sign(signer[1] if signer else key, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / f"{name}.key").write_bytes(plain)
    (folder / f"{name}.key").chmod(0o644)
    return made, key


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """Two authorities, and certificates of the first for this host and for another one, where a server may read them."""
    with server_folder("mysql") as (folder, _):
        authority = _certificate(folder, "authority", None, "127.0.0.1")
        _certificate(folder, "stranger", None, "127.0.0.1")
        _certificate(folder, "here", authority, "127.0.0.1")
        _certificate(folder, "elsewhere", authority, "127.0.0.2")
        yield folder


def _server(folder: Path, name: str) -> Iterator[str]:
    with servers.mariadb(options=(f"--ssl-cert={folder / name}.pem", f"--ssl-key={folder / name}.key")) as server:
        yield server.create_database()


@pytest.fixture(scope="module")
def here(certificates: Path) -> Iterator[str]:
    """A server whose certificate is for its own address."""
    yield from _server(certificates, "here")


@pytest.fixture(scope="module")
def elsewhere(certificates: Path) -> Iterator[str]:
    """A server with the certificate of another address."""
    yield from _server(certificates, "elsewhere")


def cipher(uri: str, asked: str) -> str:
    """Connect; return the cipher of the line, empty where it is not encrypted."""
    connection = connector(f"{uri}?{asked}" if asked else uri)()
    with connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        found = cursor.fetchone()[1]
    connection.close()
    return str(found)


@pytest.mark.parametrize(
    ("asked", "encrypted"),
    [("", True), ("ssl_mode=disabled", False), ("ssl=true", True), ("ssl_mode=REQUIRED", True),
     ("ssl_ca={0}/authority.pem", True), ("ssl_ca={0}/authority.pem&ssl_mode=verify_identity", True)],
)  # fmt: skip
def test_a_line_is_encrypted_as_the_address_says(asked, encrypted, here, certificates):
    """A server that offers encryption gets it, unless the address says no."""
    assert bool(cipher(here, asked.format(certificates))) is encrypted


@pytest.mark.parametrize(
    "asked", ["ssl_ca={0}/stranger.pem", "ssl_mode=verify_ca", "ssl_mode=verify_identity", "ssl_ca={0}/none.pem"]
)
def test_a_certificate_that_nobody_vouches_for_is_refused(asked, here, certificates):
    """Naming an authority means checking against it; without one those of the system are asked."""
    with pytest.raises(ConnectError):
        connector(f"{here}?{asked.format(certificates)}")()


def test_a_certificate_of_another_host_is_told_from_the_right_one(elsewhere, certificates):
    """An authority vouches for it all the same: only the check of the name finds it."""
    authority = f"ssl_ca={certificates}/authority.pem"
    assert cipher(elsewhere, authority)
    for asked in ("ssl_mode=verify_identity", "ssl_verify_identity=true"):
        with pytest.raises(ConnectError):
            connector(f"{elsewhere}?{authority}&{asked}")()


@pytest.mark.parametrize("asked", ["ssl=true", "ssl_mode=required", "ssl_mode=verify_ca"])
def test_encryption_that_is_asked_for_is_insisted_on(asked, mariadb_server):
    """A server without encryption is refused, and the password is not sent to it in the clear."""
    with pytest.raises(ConnectError):
        connector(f"{mariadb_server.create_database()}?{asked}")()


@pytest.mark.parametrize(
    ("asked", "named"),
    [("sslmode=require", "known are ssl, ssl_mode"), ("ssl_mode=always", "ssl_mode"), ("read_timeout=soon", "read_timeout"),
     ("connect_timeout=0", "connect_timeout")],
)  # fmt: skip
def test_what_an_address_may_not_say_is_refused(asked, named):
    """A parameter that is dropped in silence may be the one that was to protect the line."""
    with pytest.raises(ConnectError, match=named):
        connector(f"mysql://me@127.0.0.1:1/shop?{asked}")()


def test_a_read_that_takes_longer_than_its_limit_is_refused(mariadb_server):
    """``read_timeout`` reaches the driver, as a number."""
    import pymysql

    connection = connector(f"{mariadb_server.create_database()}?read_timeout=1&connect_timeout=9&charset=latin1")()
    with connection.cursor() as cursor, pytest.raises(pymysql.err.OperationalError, match="timed out"):
        cursor.execute("SELECT sleep(9)")
