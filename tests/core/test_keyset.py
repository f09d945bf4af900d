"""Keys of blocks: int64 and key bytes say the same in every mixture."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.keyset import Keys, bool_numpy, flat_true, index_array, joined_keys
from airflow_delta_provider.core.types import LogicalType

INT = LogicalType("int")
NUMBERS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, 255, 256, -256, -257])


def packed(number: int) -> bytes:
    return encode_key([str(number)], [INT])


def keys_of(numbers: list[int], form: str) -> Keys:
    """The same keys as int64, as bytes, or as a slice of longer bytes."""
    if form == "ints":
        return Keys(np.array(numbers, np.int64), INT)
    data = pa.array([b"before", *map(packed, numbers), b"\xff"], pa.large_binary())
    return Keys(None, None, data.slice(1, len(numbers)))


FORMS = st.sampled_from(["ints", "bytes"])
ASCENDING = st.lists(NUMBERS, max_size=8).map(sorted)
UNIQUE = st.lists(NUMBERS, max_size=8, unique=True).map(sorted)


@given(UNIQUE, UNIQUE, FORMS, FORMS)
def test_two_blocks_are_matched_by_key_in_every_mixture_of_forms(here, there, form, other_form):
    """One batch may carry int64 and the other side's batch decimals: a missed match is two false records."""
    mine, other = keys_of(here, form), keys_of(there, other_form)
    met, met_there = (mask.tolist() for mask in mine.align(other))
    assert [number in there for number in here] == met
    assert [number in here for number in there] == met_there


@given(ASCENDING, ASCENDING, FORMS, FORMS)
def test_counts_and_comparisons_do_not_depend_on_the_form(here, there, form, other_form):
    """Windows are cut with them: a wrong count would tear a key from its partner."""
    mine, other = keys_of(here, form), keys_of(there, other_form)
    assert mine.equals(other) is (here == there)
    if here and there:
        assert mine.last_above(other) is (here[-1] > there[-1])
        assert mine.count_upto(other, len(there) - 1) == sum(number <= there[-1] for number in here)
        assert mine.count_below(packed(there[0])) == sum(number < there[0] for number in here)
        joined = joined_keys([mine, other])
        assert [joined[row] for row in range(len(joined))] == list(map(packed, here + there))


@given(st.lists(NUMBERS, max_size=8), FORMS)
def test_steps_find_the_first_descent_and_every_repeat(numbers, form):
    """Order and uniqueness of each row are checked, never believed."""
    pairs = list(itertools.pairwise(numbers))
    down = [at + 1 for at, (one, two) in enumerate(pairs) if one > two]
    same = [at + 1 for at, (one, two) in enumerate(pairs) if one == two]
    assert keys_of(numbers, form).steps() == (down[0] if down else None, same)


@given(st.lists(NUMBERS, min_size=1, max_size=8), FORMS, st.data())
def test_slices_and_selections_keep_the_bytes(numbers, form, data):
    """Key bytes are made late: from a slice they must be those of the slice."""
    keys = keys_of(numbers, form)
    start = data.draw(st.integers(0, len(numbers)))
    stop = data.draw(st.integers(start, len(numbers)))
    assert keys.slice(start, stop).data.to_pylist() == list(map(packed, numbers[start:stop]))
    rows = np.array(data.draw(st.lists(st.integers(0, len(numbers) - 1))), np.int64)
    assert keys.take(rows).data.to_pylist() == [packed(numbers[row]) for row in rows]
    assert len(keys.take(rows)) == len(rows)


def test_integers_without_a_type_have_no_bytes():
    """20 and 40 are tags of different types: none may be guessed."""
    with pytest.raises(ValueError, match="need their type"):
        Keys(np.array([1], np.int64), None).data  # noqa: B018


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 9, 16])
def test_booleans_are_read_from_any_bit(offset):
    """Slices of Arrow booleans begin inside a byte."""
    values = [row % 3 == 0 for row in range(30)]
    array: Any = pa.array(values, pa.bool_()).slice(offset)
    assert bool_numpy(array).tolist() == values[offset:]
    assert flat_true(array).tolist() == [row for row, value in enumerate(values[offset:]) if value]


def test_no_booleans_are_no_rows():
    """Empty arrays may have no buffer at all."""
    assert bool_numpy(pa.array([], pa.bool_())).tolist() == []
    assert bool_numpy(pa.chunked_array([], pa.bool_())).tolist() == []
    assert flat_true(pa.array([], pa.bool_())).tolist() == []


def test_row_numbers_become_an_arrow_array_without_gaps():
    """Numpy rows may be strided views."""
    assert index_array(np.arange(6)[::2]).to_pylist() == [0, 2, 4]
    assert index_array(np.array([], np.int32)).to_pylist() == []


@given(
    ASCENDING,
    FORMS,
    st.sampled_from([b"", b"\x00", b"\x20", b"\x20\x20", b"\x20\x21", b"\x20\x28\xff", b"\x21", b"\xff"]),
)
def test_any_bytes_are_a_bound(numbers, form, bound):
    """Bounds are cut at 200 bytes and are no keys then; some lie below or above everything."""
    assert keys_of(numbers, form).count_below(bound) == sum(packed(number) < bound for number in numbers)
