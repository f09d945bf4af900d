"""Rows of a copy counted off in vectors: the same as message by message, whatever their bytes look like."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.adapters.pgcopy.stream import leap

HEAD = b"d\x00\x00\x00\x0f\x00\x02"
"""What a row of two columns begins with, of 16 bytes in all."""


def row(payload: bytes, columns: int = 2) -> bytes:
    return struct.pack(">cIH", b"d", len(payload) + 6, columns) + payload


def slowly(data: bytes, most: int) -> tuple[list[int], int]:
    """Return the starts of whole rows of as many columns as the first, and where the next message begins."""
    starts: list[int] = []
    place = 0
    while place + 7 <= len(data) and len(starts) < most:
        size = int.from_bytes(data[place + 1 : place + 5], "big") + 1
        alike = data[place : place + 3] == b"d\x00\x00" and data[place + 5 : place + 7] == data[5:7]
        if not alike or place + size > len(data):
            break
        starts.append(place)
        place += size
    return starts, place


PAYLOADS = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([HEAD, HEAD * 2, HEAD[3:], b"d" * 9, b"d\x00\x00\x00\x08\x00\x02", b"\x00" * 300]),
)
MESSAGES = st.lists(
    st.one_of(
        PAYLOADS.map(row),
        st.builds(row, PAYLOADS, st.sampled_from([1, 2, 258])),
        st.sampled_from([b"c\x00\x00\x00\x04", b"C\x00\x00\x00\x0bCOPY 5\x00", row(b"x" * 70_000)]),
    ),
    max_size=12,
)


@given(MESSAGES, st.binary(max_size=8), st.integers(0, 12))
def test_leaps_land_where_steps_do(messages, rest, most):
    """A value may hold the very bytes that a row begins with; a row that is not whole is left for later."""
    data = b"".join([row(b"first"), *messages]) + rest
    starts, ahead = leap(np.frombuffer(data, np.uint8), most)
    assert (starts.tolist(), ahead) == slowly(data, most)


def test_heads_inside_of_values_are_no_rows():
    """Someone may store what looks like a row, with a length that leads to the next one that looks so."""
    inner = row(b"a") + row(b"b")
    data = row(b"first") + row(inner) + row(b"last") + b"c\x00\x00\x00\x04"
    starts, ahead = leap(np.frombuffer(data, np.uint8), 100)
    assert (starts.tolist(), ahead) == ([0, 12, 35], 46)


def test_what_is_no_row_is_left_to_steps():
    """The end of a copy, an error, and rows of 64 KiB and more."""
    for first in (b"c\x00\x00\x00\x04" + bytes(9), row(b"x" * 70_000), b"d\x00\x00"):
        starts, ahead = leap(np.frombuffer(first, np.uint8), 100)
        assert (starts.tolist(), ahead) == ([], 0)
