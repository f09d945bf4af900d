"""Statements that would repair the target, to be read and not to be run: a patch checks before it writes, this does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from airflow_delta_provider.core.errors import DetailError, InputManifestError
from airflow_delta_provider.report.material import Material

_HEAD = """\
-- PREVIEW ONLY. Nothing here was run, and nothing here checks what else has changed since the comparison.
-- `airflow-delta patch` writes the same changes under compare-and-set, with a checkpoint and a rollback.
-- Standard SQL: identifiers in double quotes, a backslash in a text is an ordinary character.
-- manifest {manifest}
"""
_NUMBERS = ("int", "decimal")
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_CAST = {
    "float32": "REAL",
    "float64": "DOUBLE PRECISION",
    "decimal": "DECIMAL",
    "uuid": "UUID",
    "json": "JSON",
    "json_text": "JSON",
}
_TYPED = {"date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamp_tz": "TIMESTAMP WITH TIME ZONE"}


class _Refused(Exception):
    """A value has no literal; the text says why and shows no value."""


def write_sql(material: Material, file: BinaryIO, table: str | None = None) -> int:
    """Write one statement for each record, in key order; return how many records were refused.

    A record with a value that is not in clear, too long to be recorded, or without a literal stands as a comment.
    Raises: DetailError (DELTA_DETAIL) where the contract records no values at all; InputManifestError
    (DELTA_INPUT_MANIFEST) for a sweep, whose source is known by digests only.
    """
    if material.contract["detail"] != "values":
        detail = material.contract["detail"]
        raise DetailError(f"The contract records {detail}, no values: no statement can be written.", where="detail")
    if material.sweep:
        raise InputManifestError("The source of a sweep is known by its digests only: it repairs nothing.")
    name = _table(table or _from_label(material.manifest["pair"]["target"]))
    file.write(_HEAD.format(manifest=material.manifest_id).encode())
    refused = 0
    for record in material.records():
        try:
            text = _statement(material, name, record)
        except _Refused as reason:
            refused += 1
            text = f"-- refused: record {record['id']}: {reason}"
        file.write(f"{text}\n".encode())
    file.write(f"-- {refused} records refused\n".encode())
    return refused


def _statement(material: Material, table: str, record: dict[str, Any]) -> str:
    where = " AND ".join(_equals(material, name, value) for name, value in _key(material, record))
    if record["category"] == "added":
        return f"DELETE FROM {table} WHERE {where};"
    if record["category"] == "dropped":
        names = [*material.manifest["key"]["columns"], *material.columns]
        values = [*record.get("source_key", record["key"]), *record["source_value"]]
        literals = ", ".join(_literals(material, names, values))
        return f"INSERT INTO {table} ({', '.join(map(_name, names))}) VALUES ({literals});"
    names = record["columns"]
    changes = zip(names, _literals(material, names, record["source_value"]), strict=True)
    guards = [_equals(material, name, value) for name, value in zip(names, record["target_value"], strict=True)]
    sets = ", ".join(f"{_name(name)} = {literal}" for name, literal in changes)
    return f"UPDATE {table} SET {sets} WHERE {' AND '.join([where, *guards])};"


def _key(material: Material, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the key by which the target holds the row, before any rule."""
    return zip(material.manifest["key"]["columns"], record.get("target_key") or record["key"], strict=True)


def _equals(material: Material, name: str, value: Any) -> str:
    if value is None:
        return f"{_name(name)} IS NULL"
    return f"{_name(name)} = {literal(value, material.types[name], name)}"


def _literals(material: Material, names: Sequence[str], values: Sequence[Any]) -> list[str]:
    types = material.types
    return [literal(value, types[name], name) for name, value in zip(names, values, strict=True)]


def literal(value: Any, kind: Any, name: str) -> str:
    """Return a canonical value as a literal of standard SQL. Raises: _Refused."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str) or not isinstance(kind, str):
        raise _Refused(f"column {_name(name)} holds {_why(value)}")
    if kind in _NUMBERS and value not in _SPECIAL:
        return value
    if kind == "bytes":
        return f"X'{value}'"
    if kind == "text":
        return _text(value, name)
    if kind in _TYPED:
        if not value[:1].isdigit():
            raise _Refused(f"column {_name(name)} holds a time beyond what standard SQL writes")
        return f"{_TYPED[kind]} {_text(value.replace('T', ' ').replace('Z', '+00:00'), name)}"
    if kind in _CAST:
        return f"CAST({_text(value, name)} AS {_CAST[kind]})"
    raise _Refused(f"column {_name(name)} is of type {kind}, which has no standard literal")


def _why(value: Any) -> str:
    if isinstance(value, dict):
        told = {"hmac": "a keyed digest", "omitted": "no recorded value", "sha256": "a value too long to be recorded"}
        return next(
            (text for member, text in told.items() if member in value), "a text that is not valid or not parsed"
        )
    return "a nested value"


def _text(value: str, name: str) -> str:
    if "\x00" in value:
        raise _Refused(f"column {_name(name)} holds a text with U+0000")
    return "'" + value.replace("'", "''") + "'"


def _name(name: str) -> str:
    """Return an identifier in quotes, on one line: nothing of a name can end a comment or a statement."""
    plain = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in name)
    return '"' + plain.replace('"', '""') + '"'


def _table(name: str) -> str:
    return ".".join(_name(part) for part in name.split("."))


def _from_label(label: str) -> str:
    return label.rpartition(":")[2] or label
