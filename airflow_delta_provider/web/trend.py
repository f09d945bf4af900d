"""A pair over its manifests: what each found, and which differences came back from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.engine.thresholds import Measured, read_measured
from airflow_delta_provider.web.opened import Opened, Recent, all_lines, id_of, open_manifest
from airflow_delta_provider.web.scope import Seen, SeenPair

RECURRENCE_RECORDS_MAX = 50_000
"""Records of one manifest up to which recurring differences are told from new ones."""
OVERVIEW_RECORDS_MAX = 5_000
"""The same on the page of all pairs, where many are counted at once."""
EQUAL, DIFFERENT = "equal", "different"


@dataclass(frozen=True, slots=True)
class Step:
    """One manifest of a pair. ``recurring``: records that the manifest before had too, None where nobody counted."""

    seen: Seen
    measured: Measured
    recurring: int | None = None

    @property
    def records(self) -> int:
        """How many records differ."""
        return int(self.measured.manifest["body"]["records"])

    @property
    def verdict(self) -> str:
        """``equal`` or ``different``, of the rows that were compared; ``caveats`` tell what was not."""
        failed = self.measured.manifest.get("sweep", {}).get("failed", 0)
        return DIFFERENT if self.records or failed else EQUAL

    @property
    def findings(self) -> int:
        """How many schema findings there are."""
        return len(self.measured.structure["findings"])

    @property
    def partial(self) -> bool:
        """True where only a part of the key space was compared."""
        return bool(self.measured.manifest["key_range"] != {"lower": None, "upper": None})

    @property
    def caveats(self) -> list[str]:
        """What the verdict does not speak of, in words for people."""
        population = self.measured.manifest["population"]
        said = ["only a part of the key space"] if self.partial else []
        if self.findings:
            said.append(f"{self.findings:,} schema {'finding' if self.findings == 1 else 'findings'}")
        aside = [sum(population[side][name] for side in ("source", "target")) for name in ("null_key", "duplicate_key")]
        if sum(aside):
            said.append(f"{sum(aside):,} rows set aside for their key")
        skipped = sum(population[side]["skipped"] for side in ("source", "target"))
        return [*said, f"{skipped:,} rows left out by the filter"] if skipped else said

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        manifest = self.measured.manifest
        return {
            "caveats": self.caveats,
            "categories": {name: manifest["categories"][name]["records"] for name in CATEGORIES},
            "manifest": self.seen.manifest,
            "new": None if self.recurring is None else self.records - self.recurring,
            "origin": dict(self.seen.origin),
            "partial": self.partial,
            "records": self.records,
            "recurring": self.recurring,
            "rows": {side: manifest["population"][side]["rows"] for side in ("source", "target")},
            "schema_findings": self.findings,
            "verdict": self.verdict,
        }


def steps_of(manifests: Sequence[Seen], records_max: int = 0) -> list[Step]:
    """Return the steps of a pair, oldest first; recurring records are counted up to so many in a manifest."""
    steps: list[Step] = []
    for seen in manifests:
        step = Step(seen, measured_of(seen))
        if records_max and steps:
            step = Step(seen, step.measured, _recurring(steps[-1], step, records_max))
        steps.append(step)
    return steps


def with_latest_counted(steps: list[Step]) -> list[Step]:
    """Return the steps with recurring records counted in the newest alone: many pairs are shown at once."""
    if len(steps) < 2:
        return steps
    *before, newest = steps
    return [*before, replace(newest, recurring=_recurring(before[-1], newest, OVERVIEW_RECORDS_MAX))]


def measured_of(seen: Seen) -> Measured:
    """Return what a trend looks at, kept for the next request. Raises: what ``read_measured`` raises."""
    key = (seen.store.uri, seen.store_id, seen.manifest)
    return _MEASURED.get(key, partial(read_measured, seen.store, seen.manifest))


def _recurring(before: Step, step: Step, records_max: int) -> int | None:
    if not before.records or not step.records:
        return 0
    if max(before.records, step.records) > records_max:
        return None
    key = (step.seen.store.uri, before.seen.manifest, step.seen.manifest)
    return _RECURRING.get(key, lambda: _count_recurring(before.seen, step.seen))


def _count_recurring(before: Seen, after: Seen) -> int | None:
    one, other = open_manifest(before), open_manifest(after)
    if one.material.no_body or other.material.no_body:
        return None
    return len(_ids(one) & _ids(other))


def _ids(opened: Opened) -> set[str]:
    return {id_of(line) for line in all_lines(opened)}


def pair_document(one: SeenPair, steps: Sequence[Step]) -> dict[str, Any]:
    """Return the JSON form of a pair with its manifests, oldest first."""
    return {
        "id": one.pair_id,
        "manifests": [step.document() for step in steps],
        "pair": dict(one.pair),
        "verdict": steps[-1].verdict,
    }


def pair_id_of(manifest: documents.Document) -> str:
    """Return the id of a manifest's pair."""
    return documents.pair_id(**manifest["pair"])


_MEASURED = Recent(1024)
_RECURRING = Recent(1024)
