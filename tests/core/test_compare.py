"""Two streams of blocks, cut anyhow: every row lands in one place, and nothing unequal passes for equal."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.compare import Tally, compare_blocks
from airflow_delta_provider.core.errors import DenominatorError, ValueRangeError, ValueTextError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.keyset import Keys
from airflow_delta_provider.core.rawcompare import RawReader, RawWriter
from airflow_delta_provider.core.recorded import ComparedColumn, Comparison, HmacKey
from airflow_delta_provider.core.stream import Block, KeyColumn, Layout, SideCounts, guarded_blocks
from airflow_delta_provider.core.types import LogicalType

INT, TEXT = LogicalType("int"), LogicalType("text")
KEY = (KeyColumn("id", INT, INT),)
COLUMN = ComparedColumn("v", TEXT, TEXT, TEXT)


def blocks(side: str, rows: list[tuple[int, Any]], cuts: list[int], counts: SideCounts, wide: bool) -> Iterator[Any]:
    def batches() -> Iterator[pa.RecordBatch]:
        places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        for number, (start, stop) in enumerate(itertools.pairwise(places)):
            part = rows[start:stop]
            kind = pa.decimal128(38, 0) if wide and number % 2 else pa.int64()
            columns = [pa.array([row[0] for row in part], kind), pa.array([row[1] for row in part], pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=["id", "v"])

    layout = Layout(side, KEY, ("v",), duplicates="set_aside")
    return guarded_blocks(batches(), layout, counts, ordered=True)


def compared(
    source: list[tuple[int, Any]],
    target: list[tuple[int, Any]],
    cuts: tuple[list[int], list[int]] = ([], []),
    comparison: Comparison | None = None,
    wide: bool = False,
) -> tuple[Tally, list[tuple[Any, ...]]]:
    comparison = comparison or Comparison((COLUMN,), KEY, KEY)
    tally, file = Tally(), io.BytesIO()
    writer = RawWriter(file, "x", (None, None))
    compare_blocks(
        blocks("source", source, cuts[0], tally.source, wide),
        blocks("target", target, cuts[1], tally.target, False),
        comparison,
        tally,
        writer,
    )
    writer.close({})
    names = ("sort_key", "category", "columns", "source_value", "target_value")
    rows = [
        row for batch in RawReader(io.BytesIO(file.getvalue())).batches() for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    ]  # fmt: skip
    return tally, rows


ROWS = st.lists(st.tuples(st.integers(-4, 4), st.sampled_from(["a", "b", None])), max_size=10).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)
CUTS = st.lists(st.integers(0, 10), max_size=4)


@given(ROWS, ROWS, CUTS, CUTS, st.booleans())
def test_every_row_lands_somewhere_however_the_streams_are_cut(source, target, source_cuts, target_cuts, wide):
    """Repeats on either side set the key aside on both; all else is matched, added or dropped."""
    tally, rows = compared(source, target, (source_cuts, target_cuts), wide=wide)
    repeated = {
        key for side in (source, target) for key in (row[0] for row in side) if [row[0] for row in side].count(key) > 1
    }
    mine, other = ({key: value for key, value in side if key not in repeated} for side in (source, target))
    expected = []
    for key in sorted({*mine, *other}):
        packed = encode_key([str(key)], [INT])
        shown = [json.dumps([side[key]], separators=(",", ":")) if key in side else None for side in (mine, other)]
        if key not in mine:
            expected.append((packed, "added", None, *shown))
        elif key not in other:
            expected.append((packed, "dropped", None, *shown))
        elif mine[key] != other[key]:
            expected.append((packed, "value_diverged", '["v"]', *shown))
    assert rows == expected
    population = tally.population()
    assert population["source"]["duplicate_key"] == sum(row[0] in repeated for row in source)
    assert population["target"]["duplicate_key"] == sum(row[0] in repeated for row in target)
    assert population["unchanged"] == sum(key in other and mine[key] == other[key] for key in mine)


def test_a_repeat_on_one_side_sets_the_single_row_of_the_other_aside():
    """Whatever it would have been compared with is not known."""
    tally, rows = compared([(1, "a"), (1, "b"), (2, "c")], [(1, "a"), (2, "c")])
    assert rows == []
    assert tally.population() == {
        "source": {"duplicate_key": 2, "null_key": 0, "rows": 3, "skipped": 0},
        "target": {"duplicate_key": 1, "null_key": 0, "rows": 2, "skipped": 0},
        "unchanged": 1,
    }


def test_sums_that_do_not_hold_are_a_refusal():
    """Never a log line."""
    tally = Tally()
    tally.source.rows = 1
    with pytest.raises(DenominatorError, match=r"\[DELTA_DENOMINATOR\] source: 1 rows were read and 0 accounted for"):
        tally.population()
    tally.unchanged = 1
    with pytest.raises(DenominatorError, match="target: 0 rows were read and 1 accounted for"):
        tally.population()


def test_no_compared_column_leaves_presence():
    """A key-only table has rows that are there or not."""
    tally, rows = compared([(1, "a"), (2, "b")], [(2, "z"), (3, "c")], comparison=Comparison((), KEY, KEY))
    assert [(row[1], row[3], row[4]) for row in rows] == [("dropped", "[]", None), ("added", None, "[]")]
    assert tally.unchanged == 1


def test_a_value_that_does_not_parse_is_refused_with_side_column_and_key():
    """Of a sensitive column the key is shown, and the value is not."""
    rule = {"rule": "read_as", "type": "int", "otherwise": "refuse", "side": "both"}
    column = ComparedColumn("v", TEXT, TEXT, INT, (rule,))
    with pytest.raises(ValueTextError, match=r"\[DELTA_VALUE_TEXT\] target: column 'v', key 2: 'x1'"):
        compared([(1, "1"), (2, "2")], [(1, "1"), (2, "x1")], comparison=Comparison((column,), KEY, KEY))
    with pytest.raises(ValueTextError, match="source: column 'v', key 3: 'y'"):
        compared([(1, "1"), (3, "y")], [(1, "1")], comparison=Comparison((column,), KEY, KEY))
    secret = ComparedColumn("v", TEXT, TEXT, INT, (rule,), sensitive=True)
    with pytest.raises(ValueTextError, match="source: column 'v', key 1: a value") as caught:
        compared([(1, "hunter2")], [(1, "1")], comparison=Comparison((secret,), KEY, KEY, hmac_key=HmacKey("k", b"s")))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("there", [True, False])
def test_a_value_that_has_no_canonical_form_is_refused_with_side_column_and_key(there):
    """An integer of 130 bits, in a matched row or a dropped one."""
    column = ComparedColumn("v", INT, INT, INT)
    kind = pa.decimal256(60, 0)

    def stream(values: list[int], keys: list[int]) -> Iterator[Block]:
        yield Block(Keys(np.array(keys, np.int64), INT), [pa.array(values, kind)])

    source = stream([1, 2, 2**130], [1, 2, 3])
    target = stream([0, 2, 3], [1, 2, 3]) if there else stream([0], [1])
    with pytest.raises(ValueRangeError, match=r"\[DELTA_VALUE_RANGE\] source: column 'v', key 3: An integer has"):
        compare_blocks(
            source, target, Comparison((column,), KEY, KEY), Tally(), RawWriter(io.BytesIO(), "x", (None, None))
        )


def test_progress_is_told_while_one_side_is_alone():
    """A run against an empty side must meet its limit of time as well."""
    told: list[tuple[int, int]] = []
    tally = Tally()
    compare_blocks(
        blocks("source", [(number, "a") for number in range(9)], [3, 6], tally.source, False),
        blocks("target", [], [], tally.target, False),
        Comparison((COLUMN,), KEY, KEY),
        tally,
        RawWriter(io.BytesIO(), "x", (None, None)),
        lambda source, target: told.append((source, target)),
    )
    assert len(told) == 4
    assert told[-1] == (9, 0)


def test_float_keys_are_values_and_not_bits():
    """-0.0 is 0, and all NaN are one key, the last."""
    from airflow_delta_provider.core.keyvec import encode_keys

    kind = LogicalType("float64")
    payload = np.array([0x7FF8_0000_0000_0001, 0xFFF8_0000_0000_0000], np.uint64).view(np.float64)
    array = pa.array([-0.0, 0.0, float("inf"), float("nan"), *payload.tolist()], pa.float64())
    keys = encode_keys([array], [kind], [kind]).to_pylist()
    assert keys[0] == keys[1]
    assert len(set(keys[3:])) == 1
    assert keys[2] < keys[3]
    assert Keys(None, None, pa.array(keys[:2], pa.large_binary())).steps() == (None, [1])
