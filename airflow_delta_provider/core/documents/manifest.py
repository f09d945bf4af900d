"""The manifest document: its members, its limits, and the sums that every row must land in (docs/format.md, S7)."""

from __future__ import annotations

from typing import Final

from airflow_delta_provider.core.documents.limits import check_sign_limits
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import DenominatorError, ManifestContractError
from airflow_delta_provider.core.ids import CATEGORIES

FORMAT = "delta-manifest/1"
SWEEP_SOURCE = "delta-generation"
"""``pair.source`` of every sweep."""

MEMBERS: Final = (
    "body",
    "categories",
    "contract",
    "format",
    "key",
    "key_range",
    "pair",
    "population",
    "schema",
    "structure",
    "summary",
)
MANIFEST_BYTES_MAX = 16384
"""More than the longest manifest within the limits of S9 can take."""

_SHAPE = Shape("manifest", ManifestContractError)


def parse_manifest(data: bytes) -> Document:
    """Return a manifest, checked by itself: exact members, values, limits; its sums are `check_population`'s.

    Raises: ManifestContractError (DELTA_MANIFEST_CONTRACT), FormatError, RangeError for an empty range,
    SignSizeError (DELTA_SIGN_SIZE) beyond a limit, and the errors of canonical JSON.
    """
    if len(data) > MANIFEST_BYTES_MAX:
        raise _SHAPE.refuse("document", f"is longer than {MANIFEST_BYTES_MAX} bytes")
    members = (*MEMBERS, "sweep") if b'"sweep":' in data else MEMBERS
    document = _SHAPE.parse(data, FORMAT, members)
    _SHAPE.block(document["body"], "body")
    categories = _SHAPE.members(document["categories"], "categories", CATEGORIES)
    for name, value in categories.items():
        category = _SHAPE.members(value, f"categories.{name}", ("records", "root"))
        _SHAPE.count(category["records"], f"categories.{name}.records")
        _SHAPE.digest(category["root"], f"categories.{name}.root")
    _SHAPE.reference(document["contract"], "contract")
    _SHAPE.reference(document["schema"], "schema")
    key = _SHAPE.key(document["key"], "key")
    bounds = _SHAPE.key_range(document["key_range"], "key_range")
    pair = _SHAPE.pair(document["pair"], "pair")
    _check_population_members(document["population"])
    structure = _SHAPE.members(document["structure"], "structure", ("findings", "sha256"))
    _SHAPE.count(structure["findings"], "structure.findings")
    _SHAPE.digest(structure["sha256"], "structure.sha256")
    _SHAPE.digest(_SHAPE.members(document["summary"], "summary", ("sha256",))["sha256"], "summary.sha256")
    if "sweep" in document:
        _check_sweep(document)
    versions = {"contract": document["contract"]["version"], "schema": document["schema"]["version"]}
    check_sign_limits(pair, versions, key["columns"], key["types"], range_bytes(bounds))
    return document


def _check_population_members(value: object) -> None:
    population = _SHAPE.members(value, "population", ("source", "target", "unchanged"))
    _SHAPE.count(population["unchanged"], "population.unchanged")
    for side in ("source", "target"):
        counts = _SHAPE.members(
            population[side], f"population.{side}", ("duplicate_key", "null_key", "rows", "skipped")
        )
        for member, count in counts.items():
            _SHAPE.count(count, f"population.{side}.{member}")


def _check_sweep(document: Document) -> None:
    sweep = _SHAPE.members(document["sweep"], "sweep", ("failed", "predecessor"))
    _SHAPE.count(sweep["failed"], "sweep.failed")
    if sweep["predecessor"] is not None:
        _SHAPE.digest(sweep["predecessor"], "sweep.predecessor")
    if document["pair"]["source"] != SWEEP_SOURCE:
        raise _SHAPE.refuse("pair.source", f"of a sweep is not {SWEEP_SOURCE}")


def range_bytes(key_range: Document) -> tuple[bytes | None, bytes | None]:
    """Return the bounds of a checked ``key_range`` as key bytes."""
    lower, upper = (None if key_range[side] is None else bytes.fromhex(key_range[side]) for side in ("lower", "upper"))
    return lower, upper


def check_population(document: Document) -> None:
    """Check that the rows read on each side are the sum of what became of them.

    Raises: DenominatorError (DELTA_DENOMINATOR), with both numbers.
    """
    population, categories = document["population"], document["categories"]
    failed = document["sweep"]["failed"] if "sweep" in document else 0
    matched = population["unchanged"] + categories["value_diverged"]["records"]
    for side, one_sided, more in (("source", "dropped", 0), ("target", "added", failed)):
        counts = population[side]
        landed = matched + categories[one_sided]["records"] + more
        landed += counts["null_key"] + counts["duplicate_key"] + counts["skipped"]
        if counts["rows"] != landed:
            raise DenominatorError(f"{side}: {counts['rows']} rows read, {landed} landed somewhere.", where=side)
