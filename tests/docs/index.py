"""Writes docs/error-index.md from the error classes: ``python tests/docs/index.py`` after one was added."""

from __future__ import annotations

from pathlib import Path

from airflow_delta_provider.cli.output import UNREADABLE
from airflow_delta_provider.core import errors
from airflow_delta_provider.core.errors import DeltaError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "error-index.md"
HEAD = """# Error index

Written by `tests/docs/index.py` from the error classes; do not edit.

Each refusal is one class with one code, and a code is never used for anything else. The message of an error says where and what was seen; this page says what it means and what to do. `--json` prints `{"error": {"code", "message", "where", "remedy"}}`. A verification reports the same codes as findings.

- **exit** is the exit code of `airflow-delta`: 2 refused, 3 could not read or write. `verify` and `check-proof` end with 1 on a finding.
- **retry**: a repeated attempt may help, so an Airflow task is retried. Every other refusal fails its task at once.

| code | what happened | what to do | exit | retry |
| --- | --- | --- | --- | --- |
"""


def kinds() -> list[type[DeltaError]]:
    """Return every error class that has a code, by code."""
    found = [getattr(errors, name) for name in errors.__all__]
    classes = [
        kind for kind in found if isinstance(kind, type) and issubclass(kind, DeltaError) and kind is not DeltaError
    ]
    return sorted(classes, key=lambda kind: (kind.code, kind.__name__))


def page() -> str:
    """Return the text of the page."""
    rows = []
    for kind in kinds():
        cause = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        exit_code = 3 if issubclass(kind, UNREADABLE) else 2
        cells = (f"`{kind.code}`", cause, kind.remedy, str(exit_code), "yes" if kind.retryable else "")
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
