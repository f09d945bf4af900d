"""The connection to a store of manifests."""

from __future__ import annotations

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
            "hidden_fields": ["schema", "login", "password", "port"],
            "relabeling": {"host": "Address"},
            "placeholders": {"host": "file:///srv/deltas"},
        }

    def get_conn(self) -> Store:
        """Return the store; nothing is read or written yet.

        Raises: SpecFieldError where the connection has no address, StoreSchemeError where no store answers to it.
        """
        from airflow_delta_provider.core.store import open_store

        address = self.get_connection(self.store_conn_id).host
        if not address:
            where = f"connection {self.store_conn_id}"
            raise SpecFieldError(f"{where} has no address: its host is a folder or a URI.", where=where)
        return open_store(address)

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
