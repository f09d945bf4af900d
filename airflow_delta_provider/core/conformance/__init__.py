"""Runs every vector file of the published kinds that lies in a folder, told by content and not by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_delta_provider.core.conformance.cases import Case, run_case
from airflow_delta_provider.core.conformance.evidence import evidence_cases
from airflow_delta_provider.core.conformance.files import Files, read_files
from airflow_delta_provider.core.conformance.lists import list_cases
from airflow_delta_provider.core.conformance.sweeps import sweep_cases

__all__ = ["run_folder"]


def run_folder(folder: str | Path, write: Callable[[str], object] = print) -> tuple[int, int]:
    """Run the vectors below a folder; write a line for each file and each failure, and last 'N passed, N failed'.

    Returns: (passed, failed). Files of no known kind are listed as not run.
    Raises: InputPathError (DELTA_INPUT_PATH) where the folder cannot be read.
    """
    files = read_files(Path(folder))
    passed, failed = 0, 0
    counts: dict[str, int] = {}
    for case in _cases(files):
        problem = run_case(case)
        counts[case.file] = counts.get(case.file, 0) + (problem is None)
        passed, failed = passed + (problem is None), failed + (problem is not None)
        if problem is not None:
            write(f"FAILED {case.file}: {case.name}: {problem}")
    for name in sorted(counts):
        write(f"{name}: {counts[name]} passed")
    for name in files.names():
        if name not in counts and name not in files.used:
            write(f"{name}: not run")
    write(f"{passed} passed, {failed} failed")
    return passed, failed


def _cases(files: Files) -> list[Case]:
    return [*list_cases(files), *evidence_cases(files), *sweep_cases(files)]
