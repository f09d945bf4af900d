"""The pair document: what a log belongs to (docs/format.md, S10)."""

from __future__ import annotations

from typing import Final

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import StoreFileError
from airflow_delta_provider.core.ids import sha256_hex

PAIR_ID_CHARS: Final = 32
_SHAPE = Shape("pair document", StoreFileError)


def pair_bytes(name: str, source: str, target: str) -> bytes:
    """Return the pair document of a name, a source label and a target label."""
    return jsonc.dumps({"name": name, "source": source, "target": target})


def pair_id(name: str, source: str, target: str) -> str:
    """Return the id of a pair: the first 32 hex digits of the SHA-256 of its document."""
    return sha256_hex(pair_bytes(name, source, target))[:PAIR_ID_CHARS]


def parse_pair(data: bytes) -> Document:
    """Return a pair document, checked.

    Raises: StoreFileError (DELTA_STORE_FILE) and the errors of canonical JSON.
    """
    return _SHAPE.pair(jsonc.loads(data), "document")
