"""Secrets and trust that a specification refers to: the key of keyed digests, and who is trusted to sign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_delta_provider._compat import BaseHook
from airflow_delta_provider.core.errors import HmacKeyError, InputPathError

if TYPE_CHECKING:
    from airflow_delta_provider.core.recorded import HmacKey
    from airflow_delta_provider.core.spec import Spec
    from airflow_delta_provider.core.trust import Trust


def hmac_key_for(spec: Spec) -> HmacKey | None:
    """Return the key of keyed digests that ``hmac: {conn_id: ...}`` names, None where the specification names none.

    The key is the password of the connection, hex or text; its id is the connection's, in lower case, so that
    ``hmac: {env: NAME}`` on the command line gives the same digests where the names agree.
    Raises: HmacKeyError (DELTA_HMAC_KEY).
    """
    conn_id = spec.hmac.get("conn_id")
    if conn_id is None:
        return None
    from airflow_delta_provider.engine.opened import hmac_key_of

    secret = BaseHook.get_connection(conn_id).password
    if not secret:
        raise HmacKeyError(f"connection {conn_id} has no password.", where="hmac.conn_id")
    return hmac_key_of(conn_id.lower().replace(" ", "-"), secret)


def read_trust(path: str) -> Trust:
    """Return the trust document in a file, or the one that a single public key in PEM stands for.

    Raises: TrustError, SignKeyError, InputPathError.
    """
    from airflow_delta_provider.core.trust import TRUST_BYTES_MAX
    from airflow_delta_provider.core.verify_signature import load_trust

    try:
        with Path(path).open("rb") as file:
            data = file.read(TRUST_BYTES_MAX + 1)
    except OSError as error:
        raise InputPathError(f"trust document {path}: {error.strerror}.", where=path) from error
    return load_trust(data)
