"""One case of a vector file: a name and a check that raises where the outcome is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_delta_provider.core.errors import DeltaError, shown
from airflow_delta_provider.core.findings import Finding


class Mismatch(ValueError):
    """What came out is not what the vector says."""


@dataclass(frozen=True, slots=True)
class Case:
    """Shape: ``file`` is relative to the folder; ``check`` returns for a pass and raises for a failure."""

    file: str
    name: str
    check: Callable[[], object]


def run_case(case: Case) -> str | None:
    """Return None where a case passes, else what is wrong."""
    try:
        case.check()
    except DeltaError as error:
        return f"{error.code}: {error.message}"
    except (ValueError, TypeError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def demand(found: object, wanted: object, what: str) -> None:
    """Raise Mismatch unless two values are equal."""
    if found != wanted:
        raise Mismatch(f"{what} is {shown(found)}, not {shown(wanted)}")


def demand_none(findings: Sequence[Finding]) -> None:
    """Raise Mismatch where a verification found something."""
    if findings:
        first = findings[0]
        raise Mismatch(f"{len(findings)} findings, the first {first.code} at {first.place}: {first.sentence}")
