"""What a verification found: code, place and one sentence, in the order of docs/format.md, S12."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from airflow_delta_provider.core.errors import DeltaError

PLACES_MAX = 100
"""Findings of one code that are listed one by one; the rest is counted in one sentence."""


class Stage(IntEnum):
    """The steps of S12, cheapest first; findings are reported in this order."""

    FETCH = 1
    MANIFEST = 2
    SIGNATURE = 3
    LOG = 4
    BODY = 5
    POPULATION = 6
    DOCUMENTS = 7
    GENERATION = 8
    PATCH = 9


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. Shape: ``place`` names document, record or page."""

    stage: Stage
    code: str
    place: str
    sentence: str

    def document(self) -> dict[str, str]:
        """Return the form that ``--json`` prints."""
        return {"code": self.code, "place": self.place, "sentence": self.sentence}


class Findings:
    """Collects findings; a code that comes more than ``PLACES_MAX`` times is counted on."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._listed: list[Finding] = []
        self._counts: dict[str, int] = {}

    def add(self, error: DeltaError, place: str) -> None:
        """Add what an error says, at a place."""
        self.note(type(error), place, error.message)

    def note(self, kind: type[DeltaError], place: str, sentence: str) -> None:
        """Add a sentence under the code of an error class."""
        count = self._counts[kind.code] = self._counts.get(kind.code, 0) + 1
        if count <= PLACES_MAX:
            self._listed.append(Finding(self.stage, kind.code, place, sentence))

    def absorb(self, other: Findings) -> None:
        """Add what another collection of the same stage holds, what it only counted included."""
        for finding in other._listed:
            count = self._counts[finding.code] = self._counts.get(finding.code, 0) + 1
            if count <= PLACES_MAX:
                self._listed.append(finding)
        for code, count in other._counts.items():
            self._counts[code] += max(0, count - PLACES_MAX)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __len__(self) -> int:
        return sum(self._counts.values())

    def of(self, kind: type[DeltaError]) -> int:
        """Return how often a code was found."""
        return self._counts.get(kind.code, 0)

    def listed(self) -> list[Finding]:
        """Return the findings, and one more for each code that was counted on."""
        rest = [
            Finding(self.stage, code, "more", f"{count - PLACES_MAX} more of the same.")
            for code, count in self._counts.items()
            if count > PLACES_MAX
        ]
        return self._listed + rest


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of their stages; within one stage as they came."""
    return sorted(findings, key=lambda finding: finding.stage)
