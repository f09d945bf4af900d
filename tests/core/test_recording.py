"""Records are made of many windows at once, and are those that every window alone would have made."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core import recording
from airflow_delta_provider.core.compare import Tally, compare_blocks
from airflow_delta_provider.core.errors import ValueRangeError
from airflow_delta_provider.core.keyset import Keys
from airflow_delta_provider.core.rawcompare import RawReader, RawWriter
from airflow_delta_provider.core.recorded import ComparedColumn, Comparison
from airflow_delta_provider.core.stream import Block, KeyColumn, Layout, SideCounts, guarded_blocks
from airflow_delta_provider.core.types import LogicalType

INT, TEXT = LogicalType("int"), LogicalType("text")
KEY = (KeyColumn("id", INT, INT),)
COLUMNS = (ComparedColumn("n", INT, INT, INT), ComparedColumn("v", TEXT, TEXT, TEXT))
Row = tuple[int, int | None, str | None]


def blocks(side: str, rows: list[Row], window: int, counts: SideCounts) -> Iterator[Any]:
    """Cut rows into windows whose whole numbers are carried in one width after the other."""

    def batches() -> Iterator[pa.RecordBatch]:
        for number, start in enumerate(range(0, len(rows), window)):
            part = list(zip(*rows[start : start + window], strict=True))
            kind = (pa.int32(), pa.int64(), pa.decimal128(38, 0))[number % 3]
            arrays = [pa.array(part[0], pa.int64()), pa.array(part[1], kind), pa.array(part[2], pa.string())]
            yield pa.RecordBatch.from_arrays(arrays, names=["id", "n", "v"])

    return guarded_blocks(batches(), Layout(side, KEY, ("n", "v")), counts, ordered=True)


def records(source: list[Row], target: list[Row], window: int) -> tuple[list[Any], dict[str, int], list[int]]:
    tally, file = Tally(), io.BytesIO()
    writer = RawWriter(file, "x", (None, None))
    streams = [
        blocks(name, rows, window, counts)
        for name, rows, counts in (("source", source, tally.source), ("target", target, tally.target))
    ]
    compare_blocks(streams[0], streams[1], Comparison(COLUMNS, KEY, KEY), tally, writer)
    writer.close({})
    tally.population()
    found = []
    for batch in RawReader(io.BytesIO(file.getvalue())).batches():
        for row in batch.to_pylist():
            members = ("columns", "source_value", "target_value")
            found.append((row["category"], *(row[name] and json.loads(row[name]) for name in members)))
    return found, tally.categories, tally.diverged


def expected(source: list[Row], target: list[Row]) -> list[Any]:
    """Return what the records are, row by row, in key order."""
    ours, theirs = ({row[0]: row[1:] for row in rows} for rows in (source, target))
    found: list[Any] = []
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if mine is None or other is None:
            forms = [
                None if row is None else [None if row[0] is None else str(row[0]), row[1]] for row in (mine, other)
            ]
            found.append(("added" if mine is None else "dropped", None, *forms))
        elif mine != other:
            places = [place for place in (0, 1) if mine[place] != other[place]]
            shown = [
                [str(row[p]) if p == 0 and row[p] is not None else row[p] for p in places] for row in (mine, other)
            ]
            found.append(("value_diverged", [("n", "v")[place] for place in places], *shown))
    return found


ROWS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([None, 1, 2]), st.sampled_from([None, "a", "b"])),
    unique_by=lambda row: row[0],
    max_size=40,
).map(sorted)


@given(ROWS, ROWS, st.integers(1, 9), st.sampled_from([3, 4_096]), st.sampled_from([60, 2**23]))
def test_records_do_not_depend_on_how_many_windows_are_held(source, target, window, rows, size):
    """Each window may carry a column as another Arrow type, and may hold no row that differs at all."""
    source, target = ([(key, n, v) for key, n, v in side] for side in (source, target))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "HELD_ROWS", rows)
        patch.setattr(recording, "HELD_BYTES", size)
        found, categories, diverged = records(source, target, window)
    assert found == expected(source, target)
    assert categories == {name: sum(row[0] == name for row in found) for name in ("added", "dropped", "value_diverged")}
    assert diverged == [sum(bool(row[1]) and name in row[1] for row in found) for name in ("n", "v")]


def test_a_value_of_a_later_window_is_refused_under_its_own_key():
    """Rows of several windows lie together by then, and the first of them is not the one to blame."""

    column = ComparedColumn("n", INT, INT, INT)

    def stream(values: list[int]) -> Iterator[Block]:
        for key, value in enumerate(values):
            yield Block(Keys(np.array([key], np.int64), INT), [pa.array([value], pa.decimal256(60, 0))])

    writer = RawWriter(io.BytesIO(), "x", (None, None))
    with pytest.raises(ValueRangeError, match=r"^\[DELTA_VALUE_RANGE\] source: column 'n', key 3: An integer has"):
        compare_blocks(
            stream([0, 1, 2, 2**130, 4]), stream([9, 8, 2, 7, 6]), Comparison((column,), KEY, KEY), Tally(), writer
        )
