"""From raw batches to guarded blocks: range, filter, NULL and repeated keys, ascent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_delta_provider.core.errors import KeyRangeError, KeyTextError, UnsortedStreamError, ValueTextError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.stream import (
    Block,
    KeyColumn,
    Layout,
    RefusedKeyError,
    SideCounts,
    ascending_batches,
    count_null_keys,
    guarded_blocks,
    key_text,
    keyed_batches,
    rows_of_key,
)
from airflow_delta_provider.core.types import KEEP_COLUMN, KEY_BYTES, TIMESTAMP_INFINITY, LogicalType

INT, TEXT = LogicalType("int"), LogicalType("text")
ID = KeyColumn("id", INT, INT)
LAYOUT = Layout("source", (ID,), ("v",))


def int_key(number: int) -> bytes:
    return encode_key([str(number)], [INT])


def batch(rows: list[tuple[Any, ...]], names: tuple[str, ...] = ("id", "v"), kinds: Any = None) -> pa.RecordBatch:
    kinds = kinds or (pa.int64(), pa.string(), pa.bool_())[: len(names)]
    columns = [pa.array([row[at] for row in rows], kinds[at]) for at in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def read(batches: Any, layout: Layout = LAYOUT, *, ordered: bool = True) -> tuple[list[Block], SideCounts]:
    counts = SideCounts()
    return list(guarded_blocks(batches, layout, counts, ordered=ordered)), counts


def keys(blocks: list[Block]) -> list[str]:
    return [key_text(block.keys[row], [INT]) for block in blocks for row in range(len(block))]


def test_rows_outside_the_range_are_no_rows_of_it():
    """Sides may deliver more than was asked for; half-open means half-open."""
    layout = replace(LAYOUT, lower=int_key(2), upper=int_key(5))
    for ordered in (True, False):
        blocks, counts = read([batch([(1, "a"), (2, "b")]), batch([(4, "c"), (5, "d")])], layout, ordered=ordered)
        assert (keys(blocks), counts.rows) == (["2", "4"], 2)


def test_bounds_need_not_be_keys():
    """A cut bound is any byte string: 20 lies below every int, 21 above."""
    for lower, upper, found in [
        (b"\x20", b"\x21", ["1", "2"]),
        (b"", None, ["1", "2"]),
        (b"\x20\x21\x01\x00", None, ["2"]),
        (None, b"\x20\x21\x02", ["1"]),
        (b"\x21", None, []),
    ]:
        blocks, _ = read([batch([(1, "a"), (2, "b")])], replace(LAYOUT, lower=lower, upper=upper))
        assert keys(blocks) == found


def test_the_filter_counts_what_it_leaves_out_before_keys_are_judged():
    """A draft with a repeated or a NULL key is skipped, and nothing else."""
    rows = [(None, "a", False), (1, "b", True), (1, "c", None), (1, "d", False)]
    blocks, counts = read([batch(rows, ("id", "v", KEEP_COLUMN))])
    assert (keys(blocks), counts.document()) == (["1"], {"duplicate_key": 0, "null_key": 0, "rows": 4, "skipped": 3})


def test_null_keys_are_refused_set_aside_or_matched():
    """By the policy, and counted by it."""
    batches = [batch([(None, "a"), (1, "b")])]
    with pytest.raises(RefusedKeyError) as caught:
        read(batches)
    assert (caught.value.reason, caught.value.side, caught.value.key) == ("null", "source", b"\x00")
    blocks, counts = read(batches, replace(LAYOUT, nulls="set_aside"))
    assert (keys(blocks), counts.null_key, counts.rows) == (["1"], 1, 2)
    blocks, counts = read(batches, replace(LAYOUT, nulls="match"))
    assert (keys(blocks), counts.null_key) == (["NULL", "1"], 0)


def test_one_null_component_makes_a_composite_key_null():
    """(1, NULL) is not unique by any database's reading."""
    layout = Layout("target", (ID, KeyColumn("v", TEXT, TEXT)), (), nulls="set_aside")
    _, counts = read([batch([(None, None), (None, "x"), (1, None), (1, "x")])], layout)
    assert counts.document() == {"duplicate_key": 0, "null_key": 3, "rows": 4, "skipped": 0}


@pytest.mark.parametrize(
    "batches",
    [
        [[(2, "a"), (1, "b")]],
        [[(2, "a")], [(1, "b")]],
        [[(1, "a"), (3, "b")], [(2, "c")]],
        [[(1, "a")], [], [(0, "b")]],
    ],
    ids=["in a batch", "between batches", "at the end", "after an empty batch"],
)
def test_keys_that_go_down_stop_the_stream(batches):
    """A stream out of order gives no verdict, not even a partial one."""
    with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\] source: key . after .\.") as caught:
        read([batch(rows) for rows in batches])
    assert caught.value.where == "source"


def test_the_same_rows_unsorted_are_sorted_here():
    """Where a side promises nothing, nothing is demanded."""
    blocks, counts = read([batch([(3, "c"), (1, "a")]), batch([(2, "b")])], ordered=False)
    assert (keys(blocks), counts.rows) == (["1", "2", "3"], 3)
    assert [value for block in blocks for value in block.values[0].to_pylist()] == ["a", "b", "c"]


def test_integers_that_change_their_carrier_stay_in_one_order():
    """int64 in one batch, decimals beyond 64 bits in the next, unsigned in the third."""
    wide = pa.decimal256(40, 0)
    batches = [
        batch([(-(2**70), "a"), (-(2**63) - 1, "b")], kinds=(wide, pa.string())),
        batch([(-(2**63), "c"), (7, "d")]),
        batch([(8, "e"), (2**63 - 1, "f")], kinds=(pa.uint64(), pa.string())),
        batch([(2**63, "g"), (2**64 - 1, "h")], kinds=(pa.uint64(), pa.string())),
        batch([(2**64, "i"), (2**127, "j")], kinds=(wide, pa.string())),
    ]
    for ordered in (True, False):
        blocks, counts = read(batches, ordered=ordered)
        assert [value for block in blocks for value in block.values[0].to_pylist()] == list("abcdefghij")
        assert counts.rows == 10
    with pytest.raises(UnsortedStreamError):
        read([batches[2], batches[1]])
    with pytest.raises(UnsortedStreamError):
        read([batches[3], batches[2]])


@pytest.mark.parametrize("cuts", [[4], [1, 3], [2, 2], [1, 1, 2], [1, 1, 1, 1], [3, 1]])
def test_a_repeated_key_is_found_wherever_batches_are_cut(cuts):
    """Repeats that straddle batches: all rows of the key end in one place."""
    rows = [(1, "a"), (2, "b"), (2, "c"), (2, "d")]
    starts = [sum(cuts[:at]) for at in range(len(cuts))]
    batches = [batch(rows[start : start + size]) for start, size in zip(starts, cuts, strict=True)]
    with pytest.raises(RefusedKeyError) as caught:
        read(batches)
    assert (caught.value.reason, caught.value.key) == ("repeated", int_key(2))
    blocks, counts = read(batches, replace(LAYOUT, duplicates="set_aside"))
    assert [block.repeats for block in blocks][-1] == {int_key(2)}
    held = sum(key == "2" for key in keys(blocks))
    assert held >= 2
    assert held + counts.duplicate_key == 3
    assert counts.rows == 4


def test_a_key_that_fills_batch_after_batch_is_counted_and_not_held():
    """A million rows of one key must not be joined into one block."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch([(1, "first"), (2, "x")])
        for _ in range(50):
            yield batch([(2, "x")] * 100)
        yield batch([(2, "x"), (3, "last")])

    blocks, counts = read(batches(), replace(LAYOUT, duplicates="set_aside"))
    assert [len(block) for block in blocks] == [3, 1]
    assert (counts.rows, counts.duplicate_key) == (5004, 5000)


def test_a_refused_repeat_is_refused_at_once():
    """No further batch is read for it."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch([(1, "a")])
        yield batch([(1, "b")])
        raise AssertionError("read on")

    with pytest.raises(RefusedKeyError):
        read(batches())


def test_rules_on_the_key_come_before_order_and_uniqueness():
    """Two keys that are equal after the rule are one key that repeats."""
    rule = {"rule": "normalize", "side": "both", "steps": ["casefold"]}
    layout = Layout("source", (KeyColumn("v", TEXT, TEXT, (rule,)),), (), duplicates="set_aside", raw_keys=True)
    blocks, _ = read([batch([(1, "b"), (2, "A"), (3, "a")])], layout, ordered=False)
    assert [key_text(blocks[0].keys[row], [TEXT]) for row in range(3)] == ["a", "a", "b"]
    assert sorted(blocks[0].raw_key[0].to_pylist()) == ["A", "a", "b"]
    assert blocks[0].repeats == {encode_key(["a"], [TEXT])}


def test_a_key_that_does_not_parse_is_refused_with_its_side_and_column():
    """The value is shown, so that the row can be found."""
    rule = {"rule": "read_as", "type": "int", "otherwise": "refuse", "side": "both"}
    layout = Layout("target", (KeyColumn("v", TEXT, INT, (rule,)),), ())
    with pytest.raises(ValueTextError, match=r"\[DELTA_VALUE_TEXT\] target: key column 'v' holds '12x'") as caught:
        read([batch([(1, "12x")])], layout, ordered=False)
    assert caught.value.where == "target"


@pytest.mark.parametrize("ordered", [True, False])
def test_a_key_that_has_no_bytes_is_refused_with_its_side_and_column(ordered):
    """Invalid Unicode, infinite times: the message says where to look."""
    layout = Layout("source", (ID, KeyColumn("v", TEXT, TEXT)), ())
    invalid = batch([(1, b"\xff")], kinds=(pa.int64(), pa.binary()))
    with pytest.raises(KeyTextError, match=r"\[DELTA_KEY_TEXT\] source: key column 'v': "):
        read([invalid], layout, ordered=ordered)
    stamp = LogicalType("timestamp")
    stamps = pa.array([TIMESTAMP_INFINITY], pa.int64()).cast(pa.timestamp("us"))
    layout = Layout("target", (KeyColumn("t", stamp, stamp),), ())
    with pytest.raises(KeyRangeError, match=r"\[DELTA_KEY_RANGE\] target: key column 't': An infinite timestamp"):
        read([pa.RecordBatch.from_arrays([stamps], names=["t"])], layout, ordered=ordered)


def test_counts_over_a_whole_side_are_those_of_the_filter_and_the_range():
    """A refusal says how many rows there are to mend, not how many were met until it stopped."""
    rows = [(None, "a", True), (3, "b", True), (None, "c", False), (None, "d", None), (3, "e", True), (9, "f", True)]
    batches = [batch(rows[:3], ("id", "v", KEEP_COLUMN)), batch(rows[3:], ("id", "v", KEEP_COLUMN))]
    assert count_null_keys(batches, LAYOUT) == 1
    assert count_null_keys(batches, replace(LAYOUT, lower=int_key(0))) == 0
    found, first = rows_of_key(batches, LAYOUT, int_key(3))
    assert (found, first.to_pydict()) == (2, {"id": [3]})
    assert rows_of_key(batches, LAYOUT, int_key(4)) == (0, None)


def test_batches_on_their_way_to_disk_are_held_to_their_order():
    """A file that is read by bisection must ascend: else rows would be missing in silence."""
    up = list(keyed_batches([batch([(1, "a"), (2, "b")]), batch([(2, "c"), (5, "d")])], LAYOUT))
    assert [one.num_rows for one in ascending_batches(up, LAYOUT)] == [2, 2]
    for rows in ([[(2, "a"), (1, "b")]], [[(1, "a"), (3, "b")], [(2, "c")]]):
        down = keyed_batches([batch(one) for one in rows], LAYOUT)
        with pytest.raises(UnsortedStreamError, match="source: key"):
            list(ascending_batches(down, LAYOUT))


def test_batches_with_key_bytes_lose_the_rows_outside_the_range():
    """What a spilled side holds is the key range of the reconciliation."""
    layout = replace(LAYOUT, lower=int_key(2), upper=int_key(3))
    (one,) = keyed_batches([batch([(1, "a")]), batch([(2, "b"), (3, "c")])], layout)
    assert one.column(KEY_BYTES).to_pylist() == [int_key(2)]


def test_blocks_of_two_carriers_join():
    """The rows of a key that straddles two batches, one of them with invalid Unicode."""
    first = batch([(1, "a")])
    second = batch([(1, b"\xff"), (2, b"b")], kinds=(pa.int64(), pa.binary()))
    blocks, _ = read([first, second], replace(LAYOUT, duplicates="set_aside"))
    assert [value for block in blocks for value in block.values[0].to_pylist()] == [b"a", b"\xff", b"b"]


def test_the_refusal_of_a_key_crosses_processes():
    """Workers are processes."""
    import pickle

    error = pickle.loads(pickle.dumps(RefusedKeyError("null", "target", b"\x00")))
    assert (error.reason, error.side, error.key) == ("null", "target", b"\x00")
