"""A fresh, empty store of each kind, for suites that hold all of them to the same."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.objects import ObjectStorage
from airflow_delta_provider.core.store.store import Store

KINDS = ("local", "memory", "s3", "az", "gs")


def fresh(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return an empty store; the server of its kind is started by the first that asks for one."""
    if kind == "local":
        return LocalStore(tmp_path / "store")
    if kind == "memory":
        return MemoryStore()
    if kind == "gs":
        return ObjectStorage(f"gs://bucket/{secrets.token_hex(8)}", request.getfixturevalue("gs_fake").gs_options)
    server, bucket = request.getfixturevalue(f"{kind}_server"), request.getfixturevalue(f"{kind}_bucket")
    return ObjectStorage(f"{kind}://{bucket}/{secrets.token_hex(8)}", server.options)
