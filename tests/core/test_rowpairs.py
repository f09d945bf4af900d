"""Pairs of rows by key: compared where they are or cut out, the answer is the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core import rowpairs
from airflow_delta_provider.core.keyset import Keys
from airflow_delta_provider.core.rowpairs import every_row, paired_rows
from airflow_delta_provider.core.types import LogicalType

INT = LogicalType("int")
KEYS = st.lists(st.integers(0, 40), unique=True, max_size=30).map(sorted)


def keys(numbers: list[int]) -> Keys:
    return Keys(np.array(numbers, np.int64), INT)


@given(KEYS, KEYS, st.sets(st.integers(0, 40), max_size=2), st.sampled_from([1, 2, 256]))
def test_pairs_and_their_values_are_those_of_equal_keys(here, there, changed, run_rows):
    """A run that is one row too long or too short would compare a row with another one's values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowpairs, "RUN_ROWS", run_rows)
        pairs = paired_rows(keys(here), keys(there))
    both = [number for number in here if number in there]
    assert [here[row] for row in pairs.source] == both == [there[row] for row in pairs.target]
    ours = pa.array([f"v{number}" for number in here], pa.string())
    theirs = pa.array([f"{'w' if number in changed else 'v'}{number}" for number in there], pa.string())
    mine, other = pairs.columns(ours, theirs)
    assert mine.to_pylist() == [f"v{number}" for number in both]
    assert [text[1:] for text in other.to_pylist()] == [str(number) for number in both]
    equal = not changed.intersection(both)
    assert pairs.surely_equal(ours, theirs) is (equal and pairs.runs is not None)
    expected = [number for number, key in enumerate(both) if key in changed]
    assert pairs.unlike(ours.cast(pa.binary()), theirs.cast(pa.binary())).tolist() == expected
    if run_rows == 1 and both:
        assert pairs.runs is not None


def test_runs_end_where_a_row_is_missing_on_either_side():
    """Six of 1,000 keys are missing on one side or the other: four runs, each at its own place on each side."""
    numbers = list(range(1_000))
    here = [number for number in numbers if number not in (0, 500, 501)]
    there = [number for number in numbers if number not in (250, 750, 999)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowpairs, "RUN_ROWS", 100)
        pairs = paired_rows(keys(here), keys(there))
    assert pairs.runs == [(0, 1, 249), (250, 250, 249), (499, 501, 248), (748, 749, 248)]
    assert len(pairs) == 994


def test_where_rows_are_missing_everywhere_they_are_cut_out():
    """A slice for every other row costs more than a copy of all."""
    pairs = paired_rows(keys(list(range(0, 4_000, 2))), keys(list(range(0, 4_000, 4))))
    assert pairs.runs is None and len(pairs) == 1_000


def test_arrays_of_two_types_are_not_surely_equal():
    """Whether 1 and 1.00 are equal is for the contract to say, not for a comparison of buffers."""
    assert not every_row(1).surely_equal(pa.array([1], pa.int32()), pa.array([1], pa.int64()))
    assert every_row(1).surely_equal(pa.array([1], pa.int32()), pa.array([1], pa.int32()))
