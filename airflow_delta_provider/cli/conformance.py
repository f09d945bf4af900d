"""``conformance``: run published vector files against this implementation."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_delta_provider.core.conformance import run_folder
from airflow_delta_provider.core.errors import InputPathError


def conformance(arguments: argparse.Namespace) -> int:
    """Run every vector file found. Exit: 0 all passed, 1 some failed."""
    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise InputPathError(f"{folder} is no folder.", where=str(folder))
    _, failed = run_folder(folder, print)
    return 1 if failed else 0
