"""The contract document: everything that defines what was compared, defaults written out (docs/format.md, S7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.rules import PAIRED_RULES, check_rule
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import ContractError, KeySensitiveError

FORMAT = "delta-contract/1"
DETAILS: Final = ("values", "digests", "keys", "counts")
MEMBERS: Final = (
    "columns",
    "csv",
    "detail",
    "filter",
    "format",
    "keys",
    "rules",
    "sensitive",
    "version",
)
_SHAPE = Shape("contract document", ContractError)


def build_contract(members: Document) -> bytes:
    """Return a contract document from its members (``format`` is added).

    Raises: ContractError (DELTA_CONTRACT) where the result would not be valid.
    """
    data = jsonc.dumps({**members, "format": FORMAT})
    parse_contract(data)
    return data


def parse_contract(data: bytes) -> Document:
    """Return a contract document, checked but for what only a schema document tells.

    Raises: ContractError (DELTA_CONTRACT), FormatError and the errors of canonical JSON.
    """
    document = _SHAPE.parse(data, FORMAT, MEMBERS)
    _check_columns(document["columns"])
    _check_csv(document["csv"])
    _SHAPE.choice(document["detail"], "detail", DETAILS)
    sides = _SHAPE.members(document["filter"], "filter", ("source", "target"))
    for side, text in sides.items():
        if text is not None and _SHAPE.text(text, f"filter.{side}", empty=False) != text.strip():
            raise _SHAPE.refuse(f"filter.{side}", "has outer white space")
    keys = _SHAPE.members(document["keys"], "keys", ("duplicates", "nulls"))
    _SHAPE.choice(keys["duplicates"], "keys.duplicates", ("refuse", "set_aside"))
    _SHAPE.choice(keys["nulls"], "keys.nulls", ("refuse", "set_aside", "match"))
    _SHAPE.sorted_by_bytes(_SHAPE.items(document["sensitive"], "sensitive"), "sensitive")
    _SHAPE.version(document["version"], "version")
    for index, entry in enumerate(_SHAPE.items(document["rules"], "rules")):
        column, rules = _SHAPE.items(entry, f"rules[{index}]", 2)
        _SHAPE.text(column, f"rules[{index}]")
        if not _SHAPE.items(rules, f"rules.{column}"):
            raise _SHAPE.refuse(f"rules.{column}", "is empty")
        for position, rule in enumerate(rules):
            check_rule(rule, f"rules.{column}[{position}]")
    _SHAPE.unique([column for column, _ in document["rules"]], "rules")
    return document


def check_contract_fits(contract: Document, schema: Document, *, sweep: bool = False) -> None:
    """Check what a contract says about columns against the schema document.

    Raises: ContractError (DELTA_CONTRACT) where rules are out of order, name no compared column, or need two sides
    in a sweep; KeySensitiveError (DELTA_KEY_SENSITIVE) for a sensitive key column.
    """
    key = [name for name, _ in schema["key"]]
    for name in contract["sensitive"]:
        if name in key:
            raise KeySensitiveError(f"Key column {name!r} is sensitive, but keys stand in clear.", where=name)
    order = {name: place for place, name in enumerate([*key, *(name for name, _ in schema["columns"])])}
    ruled = [column for column, _ in contract["rules"]]
    unknown = [column for column in ruled if column not in order]
    if unknown:
        raise _SHAPE.refuse(f"rules.{unknown[0]}", "is no column that is compared")
    if ruled != sorted(ruled, key=order.__getitem__):
        raise _SHAPE.refuse("rules", "is not in the order of the schema")
    for column, position, rule in rules_of(contract):
        if sweep and rule["rule"] in PAIRED_RULES:
            raise _SHAPE.refuse(f"rules.{column}[{position}]", f"({rule['rule']}) needs two values; a sweep has one")
        if column in key and rule["rule"] not in ("read_as", "normalize"):
            raise _SHAPE.refuse(f"rules.{column}[{position}]", f"({rule['rule']}) never applies to a key")


def rules_of(contract: Document) -> Iterable[tuple[str, int, dict[str, Any]]]:
    """Yield each rule with its column and its position there, in the contract's order."""
    for column, rules in contract["rules"]:
        for position, rule in enumerate(rules):
            yield column, position, rule


def _check_columns(value: object) -> None:
    columns = _SHAPE.members(value, "columns", ("exclude", "map", "names"))
    _SHAPE.sorted_by_bytes(_SHAPE.items(columns["exclude"], "columns.exclude"), "columns.exclude")
    pairs = [
        _SHAPE.items(pair, f"columns.map[{index}]", 2)
        for index, pair in enumerate(_SHAPE.items(columns["map"], "columns.map"))
    ]
    _SHAPE.sorted_by_bytes([source for source, _ in pairs], "columns.map")
    _SHAPE.unique([target for _, target in pairs], "columns.map")
    _SHAPE.choice(columns["names"], "columns.names", ("exact", "case_insensitive"))


def _check_csv(value: object) -> None:
    if value is None:
        return
    csv = _SHAPE.members(value, "csv", ("nulls", "trim_header", "types"))
    if isinstance(csv["nulls"], list):
        _SHAPE.unique(csv["nulls"], "csv.nulls")
    else:
        _SHAPE.choice(csv["nulls"], "csv.nulls", ("unquoted_empty", "empty", "never"))
    _SHAPE.flag(csv["trim_header"], "csv.trim_header")
    names = []
    for index, entry in enumerate(_SHAPE.items(csv["types"], "csv.types")):
        name, kind = _SHAPE.items(entry, f"csv.types[{index}]", 2)
        names.append(name)
        _SHAPE.logical_type(kind, f"csv.types[{index}]")
    _SHAPE.unique(names, "csv.types")
