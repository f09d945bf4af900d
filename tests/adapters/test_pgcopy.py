"""The decoder of binary copies against bytes made by hand, and its two ways to get them against a server."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from airflow_delta_provider.adapters.pgcopy import Block, Form, FormError, LibraryCopy, SocketCopy, decode
from airflow_delta_provider.core.errors import ValueRangeError, ValueTypeError


def row(*fields: bytes | None) -> bytes:
    """Return a row of the stream."""
    parts = [struct.pack(">i", -1) if f is None else struct.pack(">i", len(f)) + f for f in fields]
    return struct.pack(">h", len(fields)) + b"".join(parts)


def one(form: Form, *values: bytes | None) -> pa.Array:
    """Decode one column between two others, so that a wrong width shows in its neighbour."""
    rows = [row(struct.pack(">i", n), value, b"end") for n, value in enumerate(values)]
    arrays = decode(Block.of(rows), [Form("int4"), form, Form("text")])
    assert [n for part in arrays for n in part[0].to_pylist()] == list(range(len(values)))
    assert {text for part in arrays for text in part[2].to_pylist()} <= {"end"}
    return pa.concat_arrays([part[1] for part in arrays]) if len({part[1].type for part in arrays}) == 1 else arrays


def number(digits: list[int], weight: int, sign: int = 0, shown: int = 0) -> bytes:
    """Return a numeric of base 10,000 digits."""
    return struct.pack(f">hhHh{len(digits)}h", len(digits), weight, sign, shown, *digits)


def test_columns_of_one_width_keep_nulls_and_neighbours() -> None:
    """A NULL is four bytes where a value is twelve: every later field of its row moves."""
    assert one(Form("int8"), struct.pack(">q", -(2**63)), None, struct.pack(">q", 7)).to_pylist() == [-(2**63), None, 7]
    assert one(Form("bool"), b"\1", b"\0", None).to_pylist() == [True, False, None]
    assert one(Form("uuid"), bytes(range(16)), None).to_pylist() == [bytes(range(16)), None]
    assert one(Form("float4"), struct.pack(">f", 1.5), None).to_pylist() == [1.5, None]


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 1000])
def test_any_number_of_rows_has_the_right_nulls(rows: int) -> None:
    """Validity is a bitmap of whole bytes; its last one is seldom full."""
    values = [None if n % 3 == 1 else b"x" * (n % 5) for n in range(rows)]
    assert one(Form("bytea"), *values).to_pylist() == values


def test_numbers_become_decimals_without_text() -> None:
    """Digits of base 10,000 at any weight, with and without fraction, of either sign."""
    found = one(Form("numeric", 18, 3), number([1, 2345, 6780], 1), number([50], -1, 0x4000), number([], 0), None)
    assert found.type == pa.decimal128(18, 3)
    assert found.to_pylist() == [Decimal("12345.678"), Decimal("-0.005"), Decimal(0), None]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (number([1], 0), "1"),
        (number([1], 1), "10000"),
        (number([1], -1), "0.0001"),
        (number([1], -3), "0.000000000001"),
        (number([12, 3400], 0, 0x4000), "-12.34"),
        (number([], 0, 0, 5), "0"),
        (number([9999], 30), "9999" + "0" * 120),
        (number([1000], -40), "0." + "0" * 156 + "1"),
        (number([], 0, 0xC000), "NaN"),
        (number([], 0, 0xD000), "Infinity"),
        (number([], 0, 0xF000), "-Infinity"),
    ],
)
def test_numbers_without_bounds_become_canonical_text(value: bytes, text: str) -> None:
    """No exponent, no zeros at either end; alone and beside others, which take the vector's way."""
    assert one(Form("numeric"), value).to_pylist() == [text]
    assert one(Form("numeric"), number([7], 0), value, None, number([25, 5000], 0)).to_pylist() == [
        "7",
        text,
        None,
        "25.5",
    ]


def test_wide_decimals_carry_through_all_limbs() -> None:
    """38 digits are three limbs of sixteen; each carry is a chance to be wrong by one."""
    found = one(Form("numeric", 38, 4), number([99, *[9999] * 9], 8, 0x4000), number([1], 4), number([1], -1))
    assert found.to_pylist() == [Decimal("-" + "99" + "9999" * 8 + ".9999"), Decimal(10) ** 16, Decimal("0.0001")]


def test_infinite_and_far_time_stamps_part_the_batch() -> None:
    """No carrier holds both, so the rows come in more lists, in order, and none is lost."""
    stamps = [0, 2**63 - 1, 9_223_371_331_199_999_999, -(2**63)]
    arrays = one(Form("timestamp"), *(struct.pack(">q", stamp) for stamp in stamps))
    types = [part[1].type for part in arrays]
    assert pa.decimal128(38, 0) in types and pa.timestamp("us") in types
    assert sum(len(part[1]) for part in arrays) == 4


def test_an_interval_that_no_carrier_holds_is_refused() -> None:
    """Infinite intervals, and more hours than nanoseconds can count."""
    with pytest.raises(ValueRangeError, match=r"\[DELTA_VALUE_RANGE\] An interval is infinite"):
        one(Form("interval"), struct.pack(">qii", 2**63 - 1, 2**31 - 1, 2**31 - 1))


def test_arrays_of_two_dimensions_are_refused() -> None:
    """Their shape is no part of the declared type."""
    header = struct.pack(">iiIiiii", 2, 0, 23, 1, 1, 1, 1) + struct.pack(">ii", 4, 1)
    with pytest.raises(ValueTypeError, match="DELTA_VALUE_TYPE"):
        one(Form("array", item=Form("int4")), header)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Form("int8"), b"\0" * 4),
        (Form("bool"), b""),
        (Form("array", item=Form("int4")), struct.pack(">iiIii", 1, 0, 23, 2, 1) + struct.pack(">ii", 4, 1)),
        (Form("array", item=Form("text")), struct.pack(">iiIii", 1, 0, 25, 1, 1) + struct.pack(">i", 900) + b"x"),
        (Form("jsonb"), b"\2{}"),
    ],
)
def test_bytes_that_are_not_of_the_form_are_refused(form: Form, value: bytes) -> None:
    """A server that means another type, or a cut stream, gives no verdict."""
    with pytest.raises(FormError):
        one(form, b"\0" * 8 if form.name == "int8" else value, value)


def test_rows_of_another_shape_are_refused() -> None:
    """Fewer, more, or longer columns than were asked for."""
    for rows in ([row(b"abcd")], [row(b"abcd", b"x", b"y")], [row(b"abcd", b"x") + b"z"], [row(b"abcd", b"x")[:-1]]):
        with pytest.raises(FormError):
            decode(Block.of(rows), [Form("int4"), Form("text")])


WAYS = {"library": LibraryCopy, "socket": SocketCopy}


@pytest.fixture(params=sorted(WAYS))
def way(request: Any) -> Any:
    """Each way to read a copy."""
    return WAYS[request.param]


@pytest.fixture
def connection(postgresql_server: Any) -> Any:
    """A connection inside a transaction."""
    with psycopg.connect(postgresql_server.uri("postgres")) as found:
        found.execute("SELECT 1")
        yield found


def copied(connection: Any, way: Any, query: str, rows: int = 1000, payload_bytes: int = 1 << 20) -> list[list[Any]]:
    """Return the blocks of a copy of one integer and one text, decoded."""
    copy = way(connection, f"COPY ({query}) TO STDOUT (FORMAT binary)".encode())
    forms = [Form("int4"), Form("text")]
    return [pair for block in copy.blocks(rows, payload_bytes) for pair in decode(block, forms)]


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 70_000])
def test_both_ways_deliver_every_row_once(connection: Any, way: Any, count: int) -> None:
    """Blocks end at any byte of the stream; the connection can be used again right away."""
    parts = copied(connection, way, f"SELECT n, repeat('é', n % 50) FROM generate_series(1, {count}) n")
    assert [n for part in parts for n in part[0].to_pylist()] == list(range(1, count + 1))
    assert all(
        text == "é" * (n % 50)
        for part in parts
        for n, text in zip(part[0].to_pylist(), part[1].to_pylist(), strict=True)
    )
    assert all(len(part[0]) <= 1000 for part in parts)
    assert connection.execute("SELECT 42").fetchone() == (42,)


def test_both_ways_hold_rows_larger_than_a_block(connection: Any, way: Any) -> None:
    """One value may be megabytes; blocks stay near their bytes otherwise."""
    parts = copied(connection, way, "SELECT n, repeat('x', n * 700000) FROM generate_series(1, 5) n", 1000, 1 << 19)
    assert [len(text) for part in parts for text in part[1].to_pylist()] == [700_000 * n for n in range(1, 6)]


def test_both_ways_raise_what_the_server_says_in_mid_stream(connection: Any, way: Any) -> None:
    """An error behind the first rows must not look like the end."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        copied(connection, way, "SELECT 1 / (3000 - n), '' FROM generate_series(1, 10000) n", 100)
    connection.rollback()
    with pytest.raises(psycopg.errors.UndefinedTable):
        copied(connection, way, "SELECT 1, '' FROM nowhere_at_all")
    connection.rollback()
    assert connection.execute("SELECT 42").fetchone() == (42,)


def test_both_ways_stop_early_and_leave_the_connection_usable(connection: Any, way: Any) -> None:
    """A read that is given up ends on the server too."""
    connection.execute("SAVEPOINT s")
    copy = way(connection, b"COPY (SELECT generate_series(1, 2000000000), 'x') TO STDOUT (FORMAT binary)")
    assert next(copy.blocks(500, 1 << 20)).rows <= 500
    copy.stop()
    connection.execute("ROLLBACK TO SAVEPOINT s")
    assert connection.execute("SELECT 42").fetchone() == (42,)


def test_a_statement_is_only_one(connection: Any, way: Any) -> None:
    """A second one behind a semicolon would run with the first."""
    with pytest.raises(psycopg.errors.SyntaxError):
        way_of = way(connection, b"COPY (SELECT 1, '') TO STDOUT (FORMAT binary); SELECT 2")
        list(way_of.blocks(10, 100))
