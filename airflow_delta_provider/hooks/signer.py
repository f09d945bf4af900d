"""The connection to a signing key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import BaseHook
from airflow_delta_provider.core.errors import DeltaError, SignKeyError

if TYPE_CHECKING:
    from airflow_delta_provider.core.signing.keys import Signer


class DeltaSignerHook(BaseHook):
    """Open the private key that a connection of type ``delta_signer`` holds.

    The key is PEM text (Ed25519 or ECDSA P-256): the password of the connection, or its field ``private_key``. A key under
    a passphrase has it in the field ``passphrase``. Line breaks may be written as ``\\n``. Where the connection has a host,
    that is the address of a key that stays in its service (``core.signing.service``), whose client finds its credentials
    in the environment of the worker.

    :param signer_conn_id: the connection.
    """

    conn_name_attr = "signer_conn_id"
    default_conn_name = "delta_signer_default"
    conn_type = "delta_signer"
    hook_name = "Delta signer"

    def __init__(self, signer_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.signer_conn_id = signer_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which of Airflow's fields the form shows, and under which names."""
        return {
            "hidden_fields": ["schema", "login", "port"],
            "relabeling": {"host": "Key in a service", "password": "Private key (PEM)"},
            "placeholders": {"host": "awskms:alias/deltas", "password": "-----BEGIN PRIVATE KEY-----\\n..."},
        }

    def get_conn(self) -> Signer:
        """Return the signer. Raises: SignKeyError, whose text shows no key; KeyServiceError."""
        from airflow_delta_provider.core.signing import load_signer
        from airflow_delta_provider.core.signing.service import ServiceSigner

        connection = self.get_connection(self.signer_conn_id)
        if connection.host:
            return ServiceSigner(connection.host)
        extra = connection.extra_dejson
        pem = connection.password or extra.get("private_key")
        if not pem:
            raise SignKeyError(f"Connection {self.signer_conn_id} has no private key in its password or private_key.")
        passphrase = extra.get("passphrase")
        text = pem if "\n" in pem.strip() else pem.replace("\\n", "\n")
        return load_signer(text.encode(), passphrase.encode() if passphrase else None)

    def test_connection(self) -> tuple[bool, str]:
        """Tell whether the key can be read."""
        try:
            signer = self.get_conn()
        except DeltaError as error:
            return False, str(error)
        return True, f"{signer.alg} key {signer.keyid}"
