"""Shards: half-open ranges that tile the key space, cut where the rows are."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.errors import RangeError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.plan import KeyRange, choose_bounds, shard_count, tile
from airflow_delta_provider.core.types import LogicalType

INT, TEXT = LogicalType("int"), LogicalType("text")
BYTES = st.binary(max_size=4)


@pytest.mark.parametrize(
    ("key", "inside"),
    [(b"\x00", False), (b"\x01", True), (b"\x08", True), (b"\x08\xff", True), (b"\x09", False)],
    ids=["below", "lower is in", "last", "longer last", "upper is out"],
)
def test_a_range_holds_its_lower_bound_and_not_its_upper(key, inside):
    """Neighbouring ranges tile the key space: no key is read twice, none is skipped."""
    assert inside is (key in KeyRange(b"\x01", b"\x09"))


@pytest.mark.parametrize(("lower", "upper"), [(b"\x02", b"\x02"), (b"\x02", b"\x01"), (b"", b"")])
def test_a_range_without_keys_is_refused(lower, upper):
    """An empty shard is a mistake of the plan."""
    with pytest.raises(RangeError, match=r"\[DELTA_RANGE\] \[.*\) holds no key"):
        KeyRange(lower, upper)


@given(st.lists(BYTES, max_size=12), st.none() | BYTES, st.none() | st.binary(min_size=1, max_size=4), BYTES)
def test_any_bounds_tile_any_range(bounds, lower, upper, key):
    """Every key of the range lies in exactly one tile, whatever bounds a user or a sample gives."""
    if lower is not None and upper is not None and lower >= upper:
        lower = None
    whole = KeyRange(lower, upper)
    tiles = tile(whole, bounds)
    assert (tiles[0].lower, tiles[-1].upper) == (lower, upper)
    assert all(one.upper == two.lower for one, two in itertools.pairwise(tiles))
    assert sum(key in one for one in tiles) == (key in whole)


def test_a_bound_of_more_than_200_bytes_is_cut_and_still_is_a_bound():
    """Long keys that share their first 200 bytes land in one shard together."""
    bound = b"x" * 300
    assert tile(KeyRange(), [bound, b"x" * 250]) == [KeyRange(None, b"x" * 200), KeyRange(b"x" * 200, None)]


def test_bounds_lie_where_the_rows_are():
    """A skewed key space is cut by rows, not by values: 97 of 100 keys lie below 100."""
    keys = [encode_key([str(number)], [INT]) for number in [*range(97), 10**6, 10**9, 10**12]]
    bounds = choose_bounds([(keys, 100)], 4)
    assert bounds == [encode_key([str(number)], [INT]) for number in (25, 50, 75)]


def test_both_sides_weigh_by_their_rows():
    """A small sample of a big side stands for many rows."""
    source, target = [b"a", b"b", b"c", b"d"], [b"x"]
    assert choose_bounds([(source, 4), (target, 400)], 2) == []
    assert choose_bounds([(source, 400), (target, 4)], 2) == [b"d"]


def test_no_sample_gives_no_bound():
    """An empty table is one shard."""
    assert choose_bounds([], 7) == []
    assert choose_bounds([([b"a"], 1)], 7) == []


def test_a_trillion_shards_are_as_many_as_there_are_keys():
    """A slip of the keyboard must not keep a planner busy for days."""
    assert choose_bounds([([b"a", b"b"], 2), ([b"c"], 1)], 10**12) == [b"b", b"c"]


@given(st.lists(BYTES, min_size=1, max_size=60), st.integers(1, 9))
def test_bounds_ascend_are_keys_and_are_few_enough(keys, count):
    """What choose_bounds gives can always be tiled as it stands."""
    bounds = choose_bounds([(keys, len(keys))], count)
    assert bounds == sorted(set(bounds))
    assert set(bounds) <= set(keys)
    assert len(bounds) < count


@pytest.mark.parametrize(
    ("rows", "asked", "wanted"), [(0, None, 1), (1, None, 1), (10, None, 1), (11, None, 2), (11, 7, 7)]
)
def test_a_plan_aims_for_so_many_rows_a_shard(rows, asked, wanted):
    """Or for what was asked."""
    assert shard_count(rows, asked=asked, shard_rows=10) == wanted


@pytest.mark.parametrize(
    ("key_range", "label"),
    [
        (KeyRange(), "[ .. )"),
        (KeyRange(encode_key(["5"], [INT]), None), "[5 .. )"),
        (KeyRange(None, b"\x20\x21"), "[ .. 0x2021)"),
        (KeyRange(b"", b"\x00"), "[0x .. NULL)"),
    ],
)
def test_a_label_shows_the_range(key_range, label):
    """A cut bound is no key and stands as bytes."""
    assert key_range.label([INT]) == label


def test_a_label_of_a_composite_key_moves_no_cursor():
    """Labels stand in logs and in a UI."""
    lower = encode_key(["5", "a\x1b[2J\n"], [INT, TEXT])
    assert KeyRange(lower, None).label([INT, TEXT]) == "[(5, a\\x1b[2J\\x0a) .. )"
