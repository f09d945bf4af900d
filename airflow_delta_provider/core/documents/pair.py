"""The pair document: what a log belongs to (docs/format.md, S10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import StoreFileError
from airflow_delta_provider.core.ids import sha256_hex

PAIR_ID_CHARS: Final = 32
_SHAPE = Shape("pair document", StoreFileError)


def pair_bytes(pair: Mapping[str, str]) -> bytes:
    """Return the pair document of a name, a source label and a target label; other members are left out."""
    return jsonc.dumps({member: pair[member] for member in ("name", "source", "target")})


def pair_id(pair: Mapping[str, str]) -> str:
    """Return the id of a pair: the first 32 hex digits of the SHA-256 of its document."""
    return sha256_hex(pair_bytes(pair))[:PAIR_ID_CHARS]


def parse_pair(data: bytes) -> Document:
    """Return a pair document, checked.

    Raises: StoreFileError (DELTA_STORE_FILE) and the errors of canonical JSON.
    """
    return _SHAPE.pair(jsonc.loads(data), "document")
