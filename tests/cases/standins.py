"""Cases about patches on engines that they do not name: a column that an engine lacks stands as the nearest it has."""

from __future__ import annotations

import json
from typing import Any

PATCHED_ENGINES = ("postgresql", "mysql", "sqlite")
"""Every case about patches is applied and taken back on each of them."""
STANDINS: dict[str, dict[str, str]] = {
    "sqlite": {"timestamp": "text", "numeric(8,2)": "double", "numeric(10,2)": "double", "text[]": "text"},
    "mysql": {"text[]": "text"},
}
"""By engine: declared types that it has not, or not exactly, and what its users take instead."""


def on_engine(form: dict[str, Any], engine: str) -> dict[str, Any]:
    """Return one side of a case as an engine holds it."""
    instead = STANDINS.get(engine, {})
    types = list(form["columns"].values())
    rows = [[_cell(cell, kind, instead) for cell, kind in zip(row, types, strict=True)] for row in form["rows"]]
    columns = {name: instead.get(kind, kind) for name, kind in form["columns"].items()}
    return {**form, "columns": columns, "engine": engine, "rows": rows}


def rows_on_engine(rows: list[list[Any]], form: dict[str, Any], engine: str) -> list[list[Any]]:
    """Return the rows that a case expects as an engine holds them."""
    return list(on_engine({**form, "rows": rows}, engine)["rows"])


def _cell(cell: Any, kind: str, instead: dict[str, str]) -> Any:
    if cell is None or kind not in instead:
        return cell
    return json.dumps(cell) if kind.endswith("[]") else float(cell) if kind.startswith("numeric") else cell
