"""Filters as texts, and as three-valued tests of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Filter:
    """A filter as text, and as a test of a row: True, False or None (unknown)."""

    text: str
    test: Callable[[dict[str, Any]], bool | None]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def _all(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def _is(row: dict[str, Any], name: str, test: Callable[[Any], bool]) -> bool | None:
    return None if row[name] is None else test(row[name])


FILTERS = (
    Filter("f <> 'draft'", lambda row: _is(row, "f", lambda v: v != "draft")),
    Filter("f = 'draft'", lambda row: _is(row, "f", lambda v: v == "draft")),
    Filter("NOT (f = 'live' OR n > 3)", lambda row: _not(
        _any(_is(row, "f", lambda v: v == "live"), _is(row, "n", lambda v: v > 3)))),
    Filter("f IN ('live', 'Draft')", lambda row: _is(row, "f", lambda v: v in ("live", "Draft"))),
    Filter("f NOT IN ('live', 'Draft') AND n IS NOT NULL", lambda row: _all(
        _is(row, "f", lambda v: v not in ("live", "Draft")), row["n"] is not None)),
    Filter("f LIKE 'd%'", lambda row: _is(row, "f", lambda v: v.startswith("d"))),
    Filter("n BETWEEN -2 AND 4", lambda row: _is(row, "n", lambda v: -2 <= v <= 4)),
    Filter("f IS NULL OR n < 0", lambda row: _any(row["f"] is None, _is(row, "n", lambda v: v < 0))),
    Filter("COALESCE(n, 0) = 0", lambda row: (row["n"] or 0) == 0),
    Filter("f > 'a' AND f < 'z'", lambda row: _is(row, "f", lambda v: "a" < v < "z")),
    Filter("CASE WHEN n > 2 THEN f = 'live' ELSE f IS NULL END", lambda row: (
        _is(row, "f", lambda v: v == "live") if row["n"] is not None and row["n"] > 2 else row["f"] is None)),
)  # fmt: skip
FILTER_TEXTS = ("live", "draft", "Draft", "draft ", "DRAFT", "dräft", "", "a", "z", "é", None)
