"""The connection to a store of manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import BaseHook
from airflow_delta_provider.core.errors import DeltaError, SpecFieldError

if TYPE_CHECKING:
    from airflow_delta_provider.core.store.store import Store
    from airflow_delta_provider.core.trust import Trust


class DeltaStoreHook(BaseHook):
    """Open the append-only store that a connection of type ``delta_store`` names.

    The host of the connection is the address of the store: a folder or a URI, such as ``file:///srv/deltas``. Its field
    ``trust`` names the file with the trust document, or with one public key in PEM, that signatures are checked against.
    For ``s3://bucket/prefix``, ``gs://bucket/prefix`` and ``az://container/prefix`` every other field of its extras is an
    option of the storage (``endpoint``, ``region``, ...), and login and password are its account: access key and secret,
    or the name and key of the storage account. What they leave open comes from the environment of the worker.

    :param store_conn_id: the connection.
    """

    conn_name_attr = "store_conn_id"
    default_conn_name = "delta_store_default"
    conn_type = "delta_store"
    hook_name = "Delta store"

    def __init__(self, store_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store_conn_id = store_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which of Airflow's fields the form shows, and under which names."""
        return {
            "hidden_fields": ["schema", "port"],
            "relabeling": {"host": "Address", "login": "Access key or account", "password": "Secret or account key"},
            "placeholders": {"host": "file:///srv/deltas", "extra": '{"region": "eu-central-1"}'},
        }

    def get_conn(self) -> Store:
        """Return the store; nothing is read or written yet.

        Raises: SpecFieldError where the connection has no address, StoreSchemeError where no store answers to it.
        """
        from airflow_delta_provider.core.store import open_store

        connection = self.get_connection(self.store_conn_id)
        if not connection.host:
            where = f"connection {self.store_conn_id}"
            raise SpecFieldError(f"{where} has no address: its host is a folder or a URI.", where=where)
        return open_store(connection.host, _options(connection))

    def trust(self, path: str | None = None) -> Trust | None:
        """Return whom signatures are checked against: the file at ``path``, or else the one that the connection names.

        Raises: TrustError, SignKeyError, InputPathError.
        """
        from airflow_delta_provider.hooks.keys import read_trust

        path = path or self.get_connection(self.store_conn_id).extra_dejson.get("trust")
        return read_trust(path) if path else None

    def test_connection(self) -> tuple[bool, str]:
        """Tell whether the store can be reached; nothing is written."""
        from airflow_delta_provider.core.store.store import is_prepared

        try:
            store = self.get_conn()
            ready = is_prepared(store.uri, store.read)
        except DeltaError as error:
            return False, str(error)
        return True, f"{store.uri} is a store." if ready else f"{store.uri} is empty; the first run makes it a store."


ACCOUNT_OPTIONS = {"s3": ("access_key_id", "secret_access_key"), "az": ("account_name", "account_key")}
"""By scheme: what login and password of a connection are to the storage."""


def _options(connection: Any) -> dict[str, str]:
    """Return the options of a storage that a connection holds; a local folder has none."""
    scheme, found, _ = connection.host.lower().partition("://")
    if not found or scheme == "file":
        return {}
    options = {name: _text(value) for name, value in connection.extra_dejson.items() if name != "trust"}
    account = zip(ACCOUNT_OPTIONS.get(scheme, ()), (connection.login, connection.password), strict=False)
    return options | {name: value for name, value in account if value}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
