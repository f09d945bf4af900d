"""From canonical values to the texts that PostgreSQL reads as exactly these values, and the types they are cast to."""

from __future__ import annotations

import re
from typing import Any

from airflow_delta_provider.adapters.dialects.postgresql_literals import literal_of
from airflow_delta_provider.adapters.ranges import native_value
from airflow_delta_provider.adapters.writers.changes import WriteColumn
from airflow_delta_provider.core.errors import ValueLossyError
from airflow_delta_provider.core.types import LogicalType

_COARSE = ("text", "json_text", "interval")
_MODIFIER = re.compile(r"\(\d+(,-?\d+)?\)")
_BARE = {"character": "bpchar", "bit": "bit varying", "character[]": "bpchar[]", "bit[]": "bit varying[]"}


def bare_type(column: WriteColumn) -> str:
    """Return the column's type without length, so that a cast neither cuts nor rounds: the assignment then decides."""
    bare = _MODIFIER.sub("", column.read.column.engine_type)
    if bare.startswith("interval"):
        return "interval[]" if bare.endswith("[]") else "interval"
    return _BARE.get(bare, bare)


def compared_as_text(column: WriteColumn) -> bool:
    """Tell whether the engine's own equality of a column is none, or may be coarser than ours: of it, or of its items."""
    kind = column.type
    item = kind.item if kind is not None and kind.kind == "array" else kind
    return item is not None and item.kind in _COARSE


def text_of(column: WriteColumn, value: Any) -> str:
    """Return the text that PostgreSQL reads as exactly this value. Raises: ValueLossyError where there is none."""
    return _scalar_or_list(value, column.type or LogicalType("text"))


def _scalar_or_list(value: Any, kind: LogicalType) -> str:
    if kind.kind == "array" and kind.item is not None:
        return "{" + ",".join(_element(part, kind.item) for part in value) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict) or kind.nested or "\x00" in value:
        raise ValueLossyError("PostgreSQL has no such text.")
    if kind.kind == "bytes":
        return "\\x" + str(value)
    if kind.kind in ("date", "time", "timestamp", "timestamp_tz") and value not in ("infinity", "-infinity"):
        return _moment(value, kind.kind)
    return str(value)


def _moment(value: str, kind: str) -> str:
    cast = {"timestamp_tz": "timestamptz"}.get(kind, kind)
    found, _ = native_value(value, kind, kind, True)
    literal = literal_of(kind, cast, found, True) if found is not None else None
    if literal is None or not literal[1]:
        raise ValueLossyError(f"PostgreSQL has no such {kind}.")
    return literal[0]


def _element(value: Any, kind: LogicalType) -> str:
    if value is None:
        return "NULL"
    text = _scalar_or_list(value, kind).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
