"""Summary and structure documents: counts by column and rule, and what differs between the two schemas (S7)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.contract import rules_of
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import MergeContextError, StructureError, SummaryError

SUMMARY_FORMAT = "delta-summary/1"
STRUCTURE_FORMAT = "delta-structure/1"
KINDS = ("column_added", "column_dropped", "type_changed")

_SUMMARY = Shape("summary document", SummaryError)
_STRUCTURE = Shape("structure document", StructureError)


def build_summary(columns: Sequence[Sequence[object]], rules: Sequence[Sequence[object]]) -> bytes:
    """Return a summary: ``columns`` of (name, diverged, tolerated), ``rules`` of (column, position, count).

    Raises: SummaryError (DELTA_SUMMARY) where the result would not be valid.
    """
    data = jsonc.dumps(
        {
            "columns": [list(row) for row in columns],
            "format": SUMMARY_FORMAT,
            "rules": [list(row) for row in rules],
        }
    )
    parse_summary(data)
    return data


def parse_summary(data: bytes) -> Document:
    """Return a summary document, checked by itself: each tolerated is the sum of its column's rules.

    Raises: SummaryError (DELTA_SUMMARY), FormatError and the errors of canonical JSON.
    """
    document = _SUMMARY.parse(data, SUMMARY_FORMAT, ("columns", "format", "rules"))
    for member in ("columns", "rules"):
        for index, row in enumerate(_SUMMARY.items(document[member], member)):
            name, first, second = _SUMMARY.items(row, f"{member}[{index}]", 3)
            _SUMMARY.text(name, f"{member}[{index}]")
            _SUMMARY.count(first, f"{member}[{index}] ({name})")
            _SUMMARY.count(second, f"{member}[{index}] ({name})")
    _SUMMARY.unique([name for name, _, _ in document["columns"]], "columns")
    tolerated: dict[str, int] = {}
    for name, _, count in document["rules"]:
        tolerated[name] = tolerated.get(name, 0) + count
    for name, _, count in document["columns"]:
        if tolerated.get(name, 0) != count:
            raise _SUMMARY.refuse(f"columns.{name}", f"tolerates {count} values, its rules {tolerated.get(name, 0)}")
    return document


def check_summary_fits(summary: Document, schema: Document, contract: Document, *, sweep: bool = False) -> None:
    """Check that a summary has a row for each compared column and each rule, in order; in a sweep it has none.

    Raises: SummaryError (DELTA_SUMMARY).
    """
    columns = [] if sweep else [name for name, _ in schema["columns"]]
    rules = [] if sweep else [(column, position) for column, position, _ in rules_of(contract)]
    if [name for name, _, _ in summary["columns"]] != columns:
        raise _SUMMARY.refuse("columns", "are not the compared columns in their order")
    if [(name, position) for name, position, _ in summary["rules"]] != rules:
        raise _SUMMARY.refuse("rules", "are not the rules of the contract in their order")


def add_summaries(summaries: Iterable[Document]) -> Document:
    """Return the sum of summaries of the same columns and rules.

    Raises: MergeContextError (DELTA_MERGE_CONTEXT) where columns or rules differ.
    """
    columns: list[list[object]] | None = None
    rules: list[list[object]] = []
    diverged: list[int] = []
    tolerated: list[int] = []
    counts: list[int] = []
    for summary in summaries:
        names, places = [row[0] for row in summary["columns"]], [row[:2] for row in summary["rules"]]
        if columns is None:
            columns, rules = [[name] for name in names], places
            diverged, tolerated, counts = [0] * len(names), [0] * len(names), [0] * len(places)
        if [[name] for name in names] != columns or places != rules:
            raise MergeContextError("Summaries have other columns or rules.", where="summary")
        diverged = [total + row[1] for total, row in zip(diverged, summary["columns"], strict=True)]
        tolerated = [total + row[2] for total, row in zip(tolerated, summary["columns"], strict=True)]
        counts = [total + row[2] for total, row in zip(counts, summary["rules"], strict=True)]
    if columns is None:
        raise MergeContextError("There is nothing to merge.", where="summary")
    return {
        "columns": [[*name, d, t] for name, d, t in zip(columns, diverged, tolerated, strict=True)],
        "format": SUMMARY_FORMAT,
        "rules": [[*place, count] for place, count in zip(rules, counts, strict=True)],
    }


def build_structure(findings: Iterable[tuple[str, str, str | None, str | None]]) -> bytes:
    """Return a structure document from findings (column, kind, source type text, target type text), sorted here.

    Raises: StructureError (DELTA_STRUCTURE) where the result would not be valid.
    """
    rows = [
        {"column": column, "kind": kind, "source_type": source_type, "target_type": target_type}
        for column, kind, source_type, target_type in sorted(findings, key=lambda row: (row[0].encode(), row[1]))
    ]
    data = jsonc.dumps({"findings": rows, "format": STRUCTURE_FORMAT})
    parse_structure(data)
    return data


def parse_structure(data: bytes) -> Document:
    """Return a structure document, checked.

    Raises: StructureError (DELTA_STRUCTURE), FormatError and the errors of canonical JSON.
    """
    document = _STRUCTURE.parse(data, STRUCTURE_FORMAT, ("findings", "format"))
    order = []
    for index, value in enumerate(_STRUCTURE.items(document["findings"], "findings")):
        place = f"findings[{index}]"
        finding = _STRUCTURE.members(value, place, ("column", "kind", "source_type", "target_type"))
        column = _STRUCTURE.text(finding["column"], f"{place}.column")
        kind = _STRUCTURE.choice(finding["kind"], f"{place}.kind", KINDS)
        absent = {"column_added": ["source_type"], "column_dropped": ["target_type"]}.get(kind, [])
        for side in ("source_type", "target_type"):
            if (finding[side] is None) != (side in absent):
                raise _STRUCTURE.refuse(f"{place}.{side}", f"does not go with {kind}")
            if finding[side] is not None:
                _STRUCTURE.text(finding[side], f"{place}.{side}", empty=False)
        if kind == "type_changed" and finding["source_type"] == finding["target_type"]:
            raise _STRUCTURE.refuse(place, "says that a type changed to itself")
        order.append((column.encode(), kind))
    if any(first >= second for first, second in itertools.pairwise(order)):
        raise _STRUCTURE.refuse("findings", "are not sorted by column and kind")
    return document
