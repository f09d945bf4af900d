"""Thresholds: what is counted, what a share is of, and what is no threshold at all."""

from __future__ import annotations

import pytest

from airflow_delta_provider.core.errors import (
    InputManifestError,
    SpecColumnError,
    SpecFieldError,
    SpecValueError,
    StoreMissingError,
)
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.thresholds import Measured, breaches, read_measured

MEASURED = Measured(
    manifest={
        "categories": {"added": {"records": 1}, "dropped": {"records": 4}, "value_diverged": {"records": 5}},
        "population": {"unchanged": 990},
    },
    summary={"columns": [["amount", 5, 0], ["note", 0, 7]]},
    structure={"findings": [{"kind": "column_added"}, {"kind": "type_changed"}]},
)
"""1,000 keys in all, 995 of them on both sides."""


@pytest.mark.parametrize(
    ("measure", "within", "beyond", "text"),
    [
        ("records", 10, 9, "records: 10 of 1000, at most 9"),
        ("added", 1, 0, "added: 1 of 1000, at most 0"),
        ("dropped", "4", "3", "dropped: 4 of 1000, at most 3"),
        ("value_diverged", 5, 4, "value_diverged: 5 of 1000, at most 4"),
        ("records", "1%", "0.999999%", "records: 10 of 1000, at most 0.999999%"),
        ("columns.amount", "0.51%", "0.5%", "columns.amount: 5 of 995, at most 0.5%"),
        ("columns.amount", 5, 4, "columns.amount: 5 of 995, at most 4"),
        ("structure", 2, 1, "structure: 2, at most 1"),
        ("structure.type_changed", 1, 0, "structure.type_changed: 1, at most 0"),
    ],
)
def test_a_threshold_is_the_most_that_is_allowed(measure, within, beyond, text):
    """Exactly the limit passes, one more does not; shares are exact and of what the text says."""
    assert breaches(MEASURED, {measure: within}) == []
    assert [str(breach) for breach in breaches(MEASURED, {measure: beyond})] == [text]


def test_nothing_missing_is_within_zero():
    """The usual gate: none at all."""
    assert breaches(MEASURED, {"columns.note": 0, "structure.column_dropped": 0, "columns.amount": "100%"}) == []


def test_shares_of_nothing_are_zero():
    """Two empty tables differ in no row, so in no share of their rows."""
    empty = Measured(
        {
            "categories": {name: {"records": 0} for name in ("added", "dropped", "value_diverged")},
            "population": {"unchanged": 0},
        },
        {"columns": []},
        {"findings": []},
    )
    assert breaches(empty, {"records": "0%", "added": 0}) == []


@pytest.mark.parametrize(
    ("threshold", "error"),
    [
        ({"rows": 1}, SpecFieldError),
        ({"structure.renamed": 1}, SpecFieldError),
        ({"columns.amuont": 1}, SpecColumnError),
        ({"records": -1}, SpecValueError),
        ({"records": 0.5}, SpecValueError),
        ({"records": True}, SpecValueError),
        ({"records": "half"}, SpecValueError),
        ({"records": None}, SpecValueError),
        ({"structure": "1%"}, SpecValueError),
    ],
)
def test_a_threshold_that_says_nothing_refuses(threshold, error):
    """A gate with a misspelt name would stay open for ever."""
    with pytest.raises(error):
        breaches(MEASURED, threshold)


def test_only_a_manifest_is_measured():
    """A digest of something else, or of nothing, is told apart from a manifest without differences."""
    store = MemoryStore()
    with pytest.raises(InputManifestError):
        read_measured(store, blobs.put_blob(store, b"{}"))
    with pytest.raises(StoreMissingError):
        read_measured(store, "0" * 64)
