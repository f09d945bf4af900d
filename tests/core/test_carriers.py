"""Carriers of one column that differ from batch to batch come under one Arrow type, with every value as it was."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_delta_provider.core.carriers import unified
from airflow_delta_provider.core.errors import ValueRangeError

INFINITY = 2**63 - 1


def stamps(unit: str, *counts: int | None) -> pa.Array:
    return pa.array(counts, pa.int64()).cast(pa.timestamp(unit))


def test_time_stamps_of_two_units_become_microseconds():
    """The infinities stay what they are."""
    found = unified([stamps("s", 1, None, INFINITY), stamps("ms", 1500)])
    assert [column.type for column in found] == [pa.timestamp("us")] * 2
    assert [column.view(pa.int64()).to_pylist() for column in found] == [[1_000_000, None, INFINITY], [1_500_000]]


@pytest.mark.parametrize("seconds", [9_223_372_036_855, -9_223_372_036_855])
def test_time_stamps_beyond_microseconds_become_whole_numbers(seconds):
    """Seconds reach further than microseconds do in 64 bits, and no value may wrap round or end the run untold."""
    found = unified([stamps("s", seconds), stamps("us", 1, None)])
    assert [column.to_pylist() for column in found] == [[Decimal(seconds * 10**9)], [Decimal(1000), None]]


def test_an_infinity_beside_a_time_stamp_beyond_microseconds_is_refused():
    """There is no whole number for it."""
    with pytest.raises(ValueRangeError, match="infinite"):
        unified([stamps("s", 9_223_372_036_855), stamps("us", INFINITY)])
