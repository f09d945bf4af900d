"""Read JSON texts as canonical JSON: members in byte order, no white space, numbers by exact value (S2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core.errors import ValueJsonError, ValueRangeError
from airflow_delta_provider.core.jsontext import canonical_json
from airflow_delta_provider.core.rules.distinct import mapped
from airflow_delta_provider.core.types import LogicalType


def documents(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read strict JSON (RFC 8259); the last of repeated members wins, a lone surrogate is bad."""
    return mapped(values, _document, values.type)


def _document(text: str) -> str | None:
    try:
        return canonical_json(text)
    except (ValueJsonError, ValueRangeError):
        return None
