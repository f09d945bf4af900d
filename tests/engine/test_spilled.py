"""A side sorted once on disk: every range read from it holds what the range holds, wherever batches begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_side import MemorySide, opener, spec_form, typed

from airflow_delta_provider.adapters.side import Order, RangeCost
from airflow_delta_provider.core.errors import UnsortedStreamError
from airflow_delta_provider.core.keys import decode_key, encode_key
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.types import KEY_BYTES, LogicalType
from airflow_delta_provider.engine import spilled
from airflow_delta_provider.engine.opened import Opened, open_sides

INT = LogicalType("int")


def opened(rows: list[tuple[Any, ...]], **options: Any) -> Opened:
    source = MemorySide(typed(id="int", v="text"), rows, cost=RangeCost.SCAN, **options)
    target = MemorySide(typed(id="int", v="text"), [])
    return open_sides(parse_spec(spec_form(key=["id"])), opener(source, target))


def packed(number: int) -> bytes:
    return encode_key([str(number)], [INT])


def numbers(path: Path, key_range: KeyRange) -> list[int]:
    keys = [key for batch in spilled.read_spilled(path, key_range) for key in batch.column(KEY_BYTES).to_pylist()]
    return [int(decode_key(key, [INT])[0]) for key in keys if key in key_range]


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.integers(-5, 5), max_size=20),
    st.sampled_from(list(Order)),
    st.integers(1, 4),
    st.integers(1, 4),
    st.none() | st.integers(-7, 7),
    st.integers(1, 9),
)
def test_any_range_finds_all_of_its_rows(tmp_path_factory, values, order, batch_rows, part_rows, lower, width):
    """Repeated keys included: a key that fills several batches begins in the one before the bound."""
    folder = tmp_path_factory.mktemp("spill")
    before, spilled.SPILL_ROWS = spilled.SPILL_ROWS, part_rows
    try:
        with opened([(str(value), "x") for value in values], order_of=order, batch_rows=batch_rows) as sides:
            path = spilled.spill_side(sides, "source", folder)
    finally:
        spilled.SPILL_ROWS = before
    key_range = KeyRange(None if lower is None else packed(lower), packed((lower or 0) + width))
    top = (lower or 0) + width
    assert numbers(path, key_range) == sorted(
        value for value in values if (lower is None or value >= lower) and value < top
    )
    assert numbers(path, KeyRange()) == sorted(values)


def test_only_the_batches_of_a_range_are_read(tmp_path, monkeypatch):
    """64 shards must not read the file 64 times."""
    monkeypatch.setattr(spilled, "SPILL_ROWS", 10)
    with opened([(str(number), "x") for number in range(100)]) as sides:
        path = spilled.spill_side(sides, "source", tmp_path)
    batches = list(spilled.read_spilled(path, KeyRange(packed(35), packed(45))))
    assert [batch.num_rows for batch in batches] == [10, 10]


def test_an_order_that_is_promised_and_not_kept_is_refused(tmp_path):
    """A file that is searched by bisection would lose rows in silence: a wrong "equal"."""

    class Liar(MemorySide):
        def _batches(self, request: Any) -> Any:
            for row in self.rows:
                yield self._batch([row], request, 0)

    source = Liar(typed(id="int", v="text"), [("2", "x"), ("1", "x")], cost=RangeCost.SCAN)
    target = MemorySide(typed(id="int", v="text"), [])
    with (
        open_sides(parse_spec(spec_form(key=["id"])), opener(source, target)) as sides,
        pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\] source: key 1 after 2"),
    ):
        spilled.spill_side(sides, "source", tmp_path)
    assert source.opened == source.finished


def test_an_empty_side_spills_to_nothing(tmp_path):
    """No file of batches, and no row in any range."""
    with opened([]) as sides:
        path = spilled.spill_side(sides, "source", tmp_path)
    assert list(spilled.read_spilled(path, KeyRange())) == []
    assert list(spilled.read_spilled(path, KeyRange(packed(1), packed(2)))) == []
