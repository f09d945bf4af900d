"""Write-once pointers: who was first to claim a run, a checkpoint, a restore body or a generation."""

import hashlib

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import DeltaError, StoreConflictError, StoreMissingError
from airflow_delta_provider.core.ids import lp
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import Store

SLOT_BYTES_MAX = 128


def run_slot(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return the digest that names one logical task run, the same for all its tries, in hex."""
    return hashlib.sha256(lp(dag_id) + lp(run_id) + lp(task_id) + lp(str(map_index))).hexdigest()


def claim(store: Store, pair_id: str, kind: str, slot_hex: str, ref: str) -> str | None:
    """Point a slot at ``ref`` and return None; where it points already, return the digest that it points at.

    Raises: StoreConflictError (DELTA_STORE_CONFLICT) where the slot holds no pointer.
    """
    path = layout.slot_path(pair_id, kind, slot_hex)
    if store.create(path, jsonc.dumps({"ref": layout.checked_digest(ref)})):
        return None
    return _pointer(store, path)


def read_slot(store: Store, pair_id: str, kind: str, slot_hex: str) -> str | None:
    """Return the digest that a slot points at, None where nobody has claimed it.

    Raises: StoreConflictError (DELTA_STORE_CONFLICT) where the slot holds no pointer.
    """
    try:
        return _pointer(store, layout.slot_path(pair_id, kind, slot_hex))
    except StoreMissingError:
        return None


def _pointer(store: Store, path: str) -> str:
    data = store.read(path, SLOT_BYTES_MAX)
    try:
        document = jsonc.loads(data)
    except DeltaError as error:
        raise StoreConflictError(f"{path} holds no pointer: {error.message}", where=path) from error
    if not isinstance(document, dict) or list(document) != ["ref"] or not layout.is_digest(document["ref"]):
        raise StoreConflictError(f"{path} holds no pointer.", where=path)
    return str(document["ref"])
