"""Vector files that list cases: values, float32, ids, order, malformed keys, digests, patch ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from airflow_delta_provider.core import ids, jsonc
from airflow_delta_provider.core.conformance.cases import Case, Mismatch, demand
from airflow_delta_provider.core.conformance.files import Files
from airflow_delta_provider.core.errors import DeltaError, KeyEncodingError
from airflow_delta_provider.core.keys import decode_key, encode_key
from airflow_delta_provider.core.notation import canonical_scalar
from airflow_delta_provider.core.types import KEY_KINDS, LogicalType, from_schema

_FLOAT32 = re.compile(r"([0-9a-f]{8}),([^,\s]+)")


def list_cases(files: Files) -> list[Case]:
    """Return the cases of all list files; the kind of a file is told by the members of its entries."""
    cases = []
    for name in files.names(".json"):
        document = files.parsed(name)
        if isinstance(document, dict) and "sorted" in document and "key_types" in document:
            cases.append(Case(name, "order", _order(document)))
        elif isinstance(document, list) and document:
            cases += _entries(name, document)
        elif isinstance(document, dict) and ("hmac" in document or "row" in document) and "format" not in document:
            cases += _digests(name, document)
    for name in files.names(".csv"):
        cases += _float32s(name, files.contents[name])
    return cases


def _entries(name: str, entries: list[Any]) -> list[Case]:
    if all(isinstance(entry, str) for entry in entries):
        return [Case(name, entry or "empty", _malformed(entry)) for entry in entries]
    checks: tuple[tuple[set[str], Callable[[dict[str, Any]], Callable[[], None]]], ...] = (
        ({"type", "input"}, _value),
        ({"schema_version", "category", "sort_key", "id"}, _identity),
        ({"sorted", "key_types"}, _order),
        ({"manifest", "rule", "side"}, _patch),
    )
    for members, check in checks:
        if isinstance(entries[0], dict) and members <= set(entries[0]):
            return [Case(name, f"{number}", check(entry)) for number, entry in enumerate(entries)]
    return []


def _refusing(expected: dict[str, Any], work: Callable[[], None]) -> Callable[[], None]:
    """Return a check that demands the code in ``refused`` where the entry has one."""

    def check() -> None:
        if "refused" not in expected:
            return work()
        try:
            work()
        except DeltaError as error:
            return demand(error.code, expected["refused"], "the code")
        raise Mismatch(f"it was not refused with {expected['refused']}")

    return check


def _value(entry: dict[str, Any]) -> Callable[[], None]:
    def work() -> None:
        found = canonical_scalar(entry["type"], entry["input"])
        demand(_json(found), _json(entry.get("canonical")), "the canonical value")

    return _refusing(entry, work)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _float32s(name: str, data: bytes) -> list[Case]:
    lines = data.decode("utf-8", "replace").splitlines()
    if not any(_FLOAT32.fullmatch(line) for line in lines[:2]):
        return []
    return [Case(name, f"line {number}", _float32(line)) for number, line in enumerate(lines, 1)]


def _float32(line: str) -> Callable[[], None]:
    def check() -> None:
        bits, text = line.split(",")
        found = canonical_scalar("float32", f"ieee754:{bits}")
        demand(found, text, "the canonical value")

    return check


def _types(names: list[Any]) -> list[LogicalType]:
    return [from_schema(name) for name in names]


def _demand_key(key: list[Any], types: list[LogicalType], sort_key: str) -> None:
    demand(encode_key(key, types).hex(), sort_key, "the encoded key")
    demand(_json(decode_key(bytes.fromhex(sort_key), types)), _json(key), "the decoded key")


def _identity(entry: dict[str, Any]) -> Callable[[], None]:
    def work() -> None:
        if "key" in entry and "key_types" in entry:
            _demand_key(entry["key"], _types(entry["key_types"]), entry["sort_key"])
        found = ids.record_id(entry["schema_version"], entry["category"], bytes.fromhex(entry["sort_key"]))
        demand(found, entry["id"], "the id")

    return _refusing(entry, work)


def _order(document: dict[str, Any]) -> Callable[[], None]:
    def check() -> None:
        types = _types(document["key_types"])
        keys = [bytes.fromhex(text) for text in document["shuffled"]]
        demand([key.hex() for key in sorted(keys)], document["sorted"], "the order")
        decoded = [decode_key(key, types) for key in sorted(keys)]
        demand(_json(decoded), _json(document["decoded_sorted"]), "the decoded order")
        for values, text in zip(document["decoded_sorted"], document["sorted"], strict=True):
            demand(encode_key(values, types).hex(), text, "the encoded key")

    return check


def _malformed(text: str) -> Callable[[], None]:
    def check() -> None:
        data = bytes.fromhex(text)
        for types in (None, *([LogicalType(kind)] for kind in KEY_KINDS)):
            try:
                decode_key(data, types)
            except KeyEncodingError:
                continue
            raise Mismatch(f"it decodes as {'any type' if types is None else types[0].kind}")

    return check


def _digests(name: str, document: dict[str, Any]) -> list[Case]:
    cases = []
    key = bytes.fromhex(document.get("hmac_key", ""))
    for number, entry in enumerate(document.get("hmac", [])):
        cases.append(Case(name, f"hmac {number}", _hmac(key, entry)))
    for number, entry in enumerate(document.get("row", [])):
        cases.append(Case(name, f"row {number}", _row(entry)))
    return cases


def _hmac(key: bytes, entry: dict[str, Any]) -> Callable[[], None]:
    def work() -> None:
        demand(ids.hmac_value(key, entry["column"], jsonc.dumps(entry["value"])), entry["hmac"], "the hmac")

    return _refusing(entry, work)


def _row(entry: dict[str, Any]) -> Callable[[], None]:
    def work() -> None:
        if "key" in entry and "key_types" in entry:
            _demand_key(entry["key"], _types(entry["key_types"]), entry["sort_key"])
        sort_key = bytes.fromhex(entry["sort_key"])
        found = ids.row_digest(entry["schema_version"], sort_key, jsonc.dumps(entry["row"]))
        demand(found, entry["row_digest"], "the row digest")

    return _refusing(entry, work)


def _patch(entry: dict[str, Any]) -> Callable[[], None]:
    def work() -> None:
        found = ids.patch_id(entry["manifest"], entry["rule"], entry.get("column"), entry["side"])
        demand(found, entry.get("patch_id"), "the patch id")

    return _refusing(entry, work)
