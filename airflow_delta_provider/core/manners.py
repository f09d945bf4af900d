"""How much a run may take: limits that end it, and manners that hold it back for the sake of a side's other users."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from airflow_delta_provider.core.errors import SpecValueError, shown
from airflow_delta_provider.core.specfields import bytes_of, choice_of, duration_s, int_of, member_map

COUNT_MAX = 2**53 - 1
_SHARE = re.compile(r"([0-9]{1,2}|100)(\.[0-9]{1,9})?%")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that refuse a run: records, seconds, bytes of its body, and the share of rows that differ; None is unbounded."""

    max_discrepancies: int | None = None
    max_seconds: int | None = None
    max_bytes: int | None = None
    max_share: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Manners:
    """What one side asks of whoever reads it; None asks nothing.

    Shape: ``rows_per_second`` that one process may read; ``statement_timeout_s`` of one statement; ``lag_s`` of a replica
    and ``sessions`` that are active, beyond which a run waits; ``sort`` is ``refuse`` or ``allow``: what is done where the
    engine would have to sort a large table.
    """

    rows_per_second: int | None = None
    statement_timeout_s: float | None = None
    lag_s: float | None = None
    sessions: int | None = None
    sort: str = "refuse"


NO_MANNERS = Manners()


def limits_of(form: Mapping[str, Any]) -> Limits:
    """Read the member ``limits``. Raises: SpecFieldError, SpecValueError."""
    given = member_map(form, "limits", {"max_discrepancies", "max_seconds", "max_bytes", "max_share"})
    return Limits(
        int_of(given, "max_discrepancies", None, 0, COUNT_MAX, "limits.max_discrepancies"),
        int_of(given, "max_seconds", None, 1, 2**31, "limits.max_seconds"),
        bytes_of(given.get("max_bytes"), "limits.max_bytes"),
        _share(given.get("max_share"), "limits.max_share"),
    )


def manners_of(form: Mapping[str, Any]) -> dict[str, Manners]:
    """Read the member ``manners``: what each side asks. Raises: SpecFieldError, SpecValueError."""
    sides = member_map(form, "manners", {"source", "target"})
    return {name: _manners(sides, name) for name in sides}


def _manners(sides: Mapping[str, Any], name: str) -> Manners:
    where = f"manners.{name}"
    members = {"rows_per_second", "statement_timeout", "lag", "sessions", "sort"}
    given = member_map({where: sides[name]}, where, members)
    times = {
        member: duration_s(given[member], f"{where}.{member}")
        for member in ("statement_timeout", "lag")
        if member in given
    }
    if times.get("statement_timeout") == 0:
        raise SpecValueError(f"{where}.statement_timeout is no time at all.", where=f"{where}.statement_timeout")
    return Manners(
        int_of(given, "rows_per_second", None, 1, COUNT_MAX, f"{where}.rows_per_second"),
        times.get("statement_timeout"),
        times.get("lag"),
        int_of(given, "sessions", None, 0, 2**31, f"{where}.sessions"),
        choice_of(given, "sort", ("refuse", "allow"), f"{where}.sort"),
    )


def _share(value: Any, where: str) -> Fraction | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _SHARE.fullmatch(value):
        raise SpecValueError(f"{where} is {shown(value)!r}; it takes a share, such as 5%.", where=where)
    return Fraction(value[:-1]) / 100
