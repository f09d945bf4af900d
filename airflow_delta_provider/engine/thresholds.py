"""Thresholds over one manifest: how much may differ, by category, column or schema finding, as a count or a share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.errors import (
    DeltaError,
    InputManifestError,
    SpecColumnError,
    SpecFieldError,
    SpecValueError,
    StructureError,
    SummaryError,
    shown,
)
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.store import Store

KINDS = ("column_added", "column_dropped", "type_changed")
_COUNT = re.compile(r"0|[1-9][0-9]{0,15}")
_SHARE = re.compile(r"((?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,12})?)\s?%")


@dataclass(frozen=True, slots=True)
class Breach:
    """One threshold that a manifest is beyond: ``count`` of ``total`` where ``most`` was the limit, as written."""

    measure: str
    count: int
    total: int | None
    most: str

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return f"{self.measure}: {self.count}{of}, at most {self.most}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The documents of one manifest that thresholds look at, parsed.

    ``recurring``: counts the records that were patched and came back, or that persist; asked only where a threshold is.
    """

    manifest: documents.Document
    summary: documents.Document
    structure: documents.Document
    recurring: Callable[[], int] | None = None


def read_measured(store: Store, manifest_id: str) -> Measured:
    """Read what thresholds look at from a store.

    Raises: StoreMissingError where there is no such manifest, InputManifestError where it is none.
    """
    data = blobs.get_blob(store, manifest_id)
    try:
        manifest = documents.parse_manifest(data)
    except DeltaError as error:
        raise InputManifestError(f"{manifest_id} is no manifest: {error.message}", where=manifest_id) from error
    summary = blobs.get_blob(store, manifest["summary"]["sha256"], error=SummaryError)
    structure = blobs.get_blob(store, manifest["structure"]["sha256"], error=StructureError)
    return Measured(manifest, documents.parse_summary(summary), documents.parse_structure(structure))


def refuse_unpublished(store: Store, manifest_id: str, manifest: documents.Document) -> None:
    """Refuse a manifest that no log names, such as one part of a sample: it is no verdict. Raises: InputManifestError."""
    pair = documents.pair_id(**manifest["pair"])
    if log.find(store, pair, "manifest", manifest_id) is None:
        raise InputManifestError(f"No entry of log {pair} names manifest {manifest_id}.", where=manifest_id)


def breaches(measured: Measured, thresholds: Mapping[str, Any], where: str = "thresholds") -> list[Breach]:
    """Return the thresholds that a manifest is beyond, in the order given.

    ``thresholds`` maps a measure to the most that is allowed: a count (``10``), or a share as text (``"0.1%"``).
    Measures: ``records`` (all that differ); ``added``, ``dropped``, ``value_diverged``; ``columns.<name>`` (diverged
    values of one column, by target name); ``structure`` (all schema findings), ``structure.column_added`` and so on.
    ``recurring``: records that were patched and came back, or that persist over runs (a share is of all records).
    Shares are of all distinct keys that were compared; those of a column, of the keys found on both sides.
    Raises: SpecFieldError for an unknown measure, SpecColumnError for a column that was not compared, SpecValueError for
    a limit that is neither a count nor a share.
    """
    found = []
    for measure, most in thresholds.items():
        place = f"{where}.{shown(measure)}"
        count, total = _measure(measured, measure, place)
        if _beyond(count, total, most, place):
            found.append(Breach(measure, count, total, str(most)))
    return found


def _measure(measured: Measured, measure: str, place: str) -> tuple[int, int | None]:
    """Return what was counted and what its share is of."""
    manifest = measured.manifest
    counts = {name: part["records"] for name, part in manifest["categories"].items()}
    matched = manifest["population"]["unchanged"] + counts["value_diverged"]
    if measure == "records":
        return sum(counts.values()), matched + counts["added"] + counts["dropped"]
    if measure == "recurring" and measured.recurring is not None:
        return measured.recurring(), sum(counts.values())
    if measure in CATEGORIES:
        return counts[measure], matched + counts["added"] + counts["dropped"]
    if measure.startswith("columns."):
        name = measure.removeprefix("columns.")
        diverged = {column: count for column, count, _ in measured.summary["columns"]}
        if name not in diverged:
            raise SpecColumnError(f"{shown(name)!r} is no compared column.", where=place)
        return diverged[name], matched
    findings = [finding["kind"] for finding in measured.structure["findings"]]
    if measure == "structure":
        return len(findings), None
    if measure.removeprefix("structure.") in KINDS:
        return findings.count(measure.removeprefix("structure.")), None
    raise SpecFieldError(
        f"unknown measure {shown(measure)!r}; it is records, a category, columns.<name>, recurring, structure or structure.<kind>.",
        where=place,
    )


def _beyond(count: int, total: int | None, most: Any, place: str) -> bool:
    text = str(most).strip() if isinstance(most, int | str) and not isinstance(most, bool) else ""
    if _COUNT.fullmatch(text):
        return count > int(text)
    share = _SHARE.fullmatch(text)
    if share is None or total is None:
        takes = "a count" if total is None else "a count or a share such as 0.1%"
        raise SpecValueError(f"{place} is {shown(most)!r}; it takes {takes}.", where=place)
    return Decimal(count) * 100 > Decimal(share[1]) * total
