"""Tables of canonical values for the tests of file sides: as Arrow tables, as CSV and as JSON Lines."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import LogicalType

KINDS = (
    "bool", "int", "decimal", "float32", "float64", "text", "bytes", "uuid",
    "date", "time", "timestamp", "timestamp_tz", "json_text",
)  # fmt: skip
KEY_KINDS = tuple(kind for kind in KINDS if kind != "json_text")

Columns = list[tuple[str, str]]


def carrier_table(columns: Columns, rows: list[Any]) -> pa.Table:
    """Return a table whose Arrow types are those that a careful writer would choose."""
    arrays = [_carrier([row[at] for row in rows], kind) for at, (_, kind) in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _carrier(values: list[Any], kind: str) -> pa.Array:
    if kind == "bool":
        return pa.array(values, pa.bool_())
    array, bad = parse_text(pa.array(values, pa.string()), LogicalType(kind))
    assert not any(bad.to_pylist())
    if kind == "uuid":
        return pa.ExtensionArray.from_storage(pa.uuid(), array)
    if kind == "decimal" and pa.types.is_string(array.type):
        return array.cast(pa.decimal128(38, 4))
    return pa.ExtensionArray.from_storage(pa.json_(), array) if kind == "json_text" else array


def csv_text(columns: Columns, rows: list[Any]) -> str:
    """Return a CSV file: texts quoted, NULL as an unquoted empty field."""
    lines = [",".join(_quoted(name) for name, _ in columns)]
    lines += [",".join(_field(value) for value in row) for row in rows]
    return "".join(line + "\n" for line in lines)


def _field(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else _quoted(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def jsonl_text(columns: Columns, rows: list[Any]) -> str:
    """Return a JSON Lines file: numbers as JSON numbers, documents as they are, the rest as texts, NULL left out."""
    lines = []
    for row in rows:
        members = [
            f"{json.dumps(name)}: {_token(value, kind)}"
            for (name, kind), value in zip(columns, row, strict=True)
            if value is not None
        ]
        lines.append("{" + ", ".join(members) + "}\n")
    return "".join(lines)


def _token(value: Any, kind: str) -> str:
    if kind in ("int", "decimal", "float32", "float64", "json_text"):
        return str(value)
    return json.dumps(value)
