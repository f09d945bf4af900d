"""Records as cells: one for each column that a record speaks of, with both sides as text (docs/exports.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc

ABSENT = "absent"
NULL = "null"
TEXT = "text"
JSON = "json"


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one record.

    Shape: ``column`` is None where a whole row is told by its digest only. A side's text is None where its form is
    ``absent`` (the side has no such row) or ``null``; ``text`` is the canonical value as it is; ``json`` the canonical
    JSON of a list, a boolean, or an escape object such as ``{"hmac":...}``.
    """

    column: str | None
    source: str | None
    source_form: str
    target: str | None
    target_form: str


def text_of(value: Any) -> tuple[str | None, str]:
    """Return a recorded value as text, and its form."""
    if value is None:
        return None, NULL
    if isinstance(value, str):
        return value, TEXT
    return jsonc.dumps_checked(value).decode(), JSON


def cells_of(record: dict[str, Any], columns: list[str]) -> Iterator[Cell]:
    """Yield the cells of a record, in schema order; ``columns`` are all compared columns.

    A record of a table without compared columns has one cell without column, and so has one of a sweep that tells the
    row that is gone by its digest only.
    """
    source, target = record["source_value"], record["target_value"]
    if not isinstance(source, list) and not isinstance(target, list):
        yield Cell(None, *_side(source, 0), *_side(target, 0))
        return
    names = record.get("columns") or columns
    if not names:
        yield Cell(None, *_whole(source), *_whole(target))
    for place, name in enumerate(names):
        yield Cell(name, *_side(source, place), *_side(target, place))


def _side(value: Any, place: int) -> tuple[str | None, str]:
    """Return one value of a side. A row that is told by its digest gives that digest in every place."""
    if value is None:
        return None, ABSENT
    return text_of(value[place] if isinstance(value, list) else value)


def _whole(value: Any) -> tuple[str | None, str]:
    """Return an empty row as JSON, or that there is none."""
    return (None, ABSENT) if value is None else text_of(value)
