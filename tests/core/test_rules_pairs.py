"""Rules that need both values: exact at their limits, and silent about what is no number."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.rules import Typed, equal_under
from airflow_delta_provider.core.rules.parameters import rule_document
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import LogicalType


def typed(kind, *texts):
    array, bad = parse_text(pa.array(texts, pa.string()), LogicalType(kind))
    assert not any(bad.to_pylist())
    return Typed(LogicalType(kind), array)


def near(source, target, name="tolerance", **parameters):
    return equal_under(rule_document(name, parameters, "c"), source, target).to_pylist()


KINDS = ["decimal", "float64", "int"]


@pytest.mark.parametrize("kinds", [(one, other) for one in KINDS for other in KINDS])
def test_the_limit_itself_is_within_unless_excluded(kinds):
    """Exactly 2 apart, a little less and a little more; whatever types the numbers have."""
    source, target = typed(kinds[0], "10", "-10", "10"), typed(kinds[1], "12", "-12", "13")
    assert near(source, target, abs="2") == [True, True, False]
    assert near(source, target, abs="2", bound="exclusive") == [False, False, False]
    assert near(source, target, abs="2.5") == [True, True, False]
    assert near(source, target, rel="0.1666") == [False, False, False]
    assert near(source, target, rel="0.17") == [True, True, False]
    assert near(source, target, rel="0.01", abs="3") == [True, True, True]


def test_a_decimal_tolerance_is_no_float():
    """0.001 in binary is a little more; 1.0010 - 1.0000 in binary is a little less."""
    source = typed("decimal", "1.0000", "1.0000", "-1.0000", "0")
    target = typed("decimal", "1.0010", "1.00100000000000000000000000000000000001", "-0.9990", "1e-500")
    assert near(source, target, abs="0.001") == [True, False, True, True]


def test_floats_are_decided_by_their_exact_value():
    """0.3 - 0.2 as floats is a little less than 0.1 as a decimal, 0.1 + 2**-55 a little more."""
    source, target = typed("float64", "0.3", "0.8"), typed("float64", "0.2", "0.7")
    gaps = [Fraction(0.3) - Fraction(0.2), Fraction(0.8) - Fraction(0.7)]
    assert near(source, target, abs="0.1") == [gap <= Fraction(1, 10) for gap in gaps]
    assert {True, False} == set(near(source, target, abs="0.1"))


@pytest.mark.parametrize("kind", ["decimal", "float64", "float32"])
def test_null_nan_and_infinities_are_within_no_tolerance(kind):
    """Infinity minus infinity is no number, and the larger magnitude of an infinity is no limit."""
    odd = [None, "NaN", "Infinity", "-Infinity"]
    pairs = [(one, other) for one in [*odd, "1"] for other in [*odd, "1"] if (one, other) != ("1", "1")]
    source, target = typed(kind, *(one for one, _ in pairs)), typed(kind, *(other for _, other in pairs))
    assert not any(near(source, target, abs="1000000", rel="1000000"))


@pytest.mark.parametrize("bound", ["inclusive", "exclusive"])
@given(
    numbers=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e-3, 1e-3)), max_size=6),
    absolute=st.one_of(st.none(), st.decimals(0, 1, places=5), st.just(Decimal(0))),
    relative=st.one_of(st.none(), st.decimals(0, 1, places=8)),
    tiny=st.booleans(),
)
def test_floats_agree_with_fractions(numbers, absolute, relative, tiny, bound):
    """The fast way may only speak where it is sure; the oracle knows nothing but fractions."""
    if absolute is None and relative is None:
        relative = Decimal("0.001")
    scale = 1e-305 if tiny else 1.0
    source = [value * scale for value, _ in numbers]
    target = [value * scale * (1 + shift) for value, shift in numbers]
    columns = [Typed(LogicalType("float64"), pa.array(values, pa.float64())) for values in (source, target)]
    assert near(*columns, abs=absolute, rel=relative, bound=bound) == [
        within(Fraction(one), Fraction(other), absolute, relative, bound)
        for one, other in zip(source, target, strict=True)
    ]


def within(one, other, absolute, relative, bound):
    limits = [] if absolute is None else [Fraction(absolute)]
    if relative is not None:
        limits.append(Fraction(relative) * max(abs(one), abs(other)))
    gap = abs(one - other)
    return any(gap < limit or (bound == "inclusive" and gap == limit) for limit in limits)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-40, 40)), max_size=8), st.integers(0, 30), st.booleans())
def test_limits_that_are_hit_exactly_agree_with_fractions(numbers, limit, inclusive):
    """Eighths are exact in binary, so gap and limit often meet."""
    source = pa.array([value / 8 for value, _ in numbers], pa.float64())
    target = pa.array([(value + shift) / 8 for value, shift in numbers], pa.float64())
    columns = [Typed(LogicalType("float64"), source), Typed(LogicalType("float64"), target)]
    bound = "inclusive" if inclusive else "exclusive"
    assert near(*columns, abs=str(Decimal(limit) / 8), bound=bound) == [
        abs(shift) < limit or (inclusive and abs(shift) == limit) for _, shift in numbers
    ]


def test_the_largest_and_the_least_floats_do_not_overflow():
    """Their difference has no float64, their decimal has."""
    source, target = typed("float64", "1.7e308", "5e-324"), typed("float64", "-1.7e308", "1e-323")
    assert near(source, target, rel="1.99") == [False, True]
    assert near(source, target, rel="2") == [True, True]
    assert near(source, target, abs="4" + "0" * 308) == [True, True]
    assert near(source, target, abs="0") == [False, False]


CARRIERS = [
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.decimal128(9, 4),
    pa.decimal128(38, 10),
    pa.decimal128(5, 0),
    pa.decimal256(40, 6),
    pa.decimal256(76, 2),
]


def values_of(arrow):
    if pa.types.is_integer(arrow):
        return st.integers(0 if arrow == pa.uint64() else -100, 100)
    return st.integers(-1000, 1000).map(lambda number: Decimal(number).scaleb(-min(arrow.scale, 1)))


@st.composite
def decimal_columns(draw):
    columns = []
    size = draw(st.integers(0, 6))
    for arrow in (draw(st.sampled_from(CARRIERS)), draw(st.sampled_from(CARRIERS))):
        values = draw(st.lists(st.one_of(st.none(), values_of(arrow)), min_size=size, max_size=size))
        kind = "int" if pa.types.is_integer(arrow) else "decimal"
        columns.append((values, Typed(LogicalType(kind), pa.array(values, arrow))))
    return columns


@given(
    decimal_columns(),
    st.one_of(st.none(), st.integers(0, 200).map(lambda number: Decimal(number) / 2), st.just(Decimal("1e-40"))),
    st.one_of(st.none(), st.decimals(0, 2, places=2), st.just(Decimal("1e-45"))),
    st.sampled_from(["inclusive", "exclusive"]),
)
def test_decimals_and_ints_of_any_width_agree_with_fractions(columns, absolute, relative, bound):
    """Arrow's decimals where the digits suffice, Python's where they do not."""
    if absolute is None and relative is None:
        absolute = Decimal("0.5")
    (source, one), (target, other) = columns
    assert near(one, other, abs=absolute, rel=relative, bound=bound) == [
        None not in (a, b) and within(Fraction(a), Fraction(b), absolute, relative, bound)
        for a, b in zip(source, target, strict=True)
    ]


STAMPS = ("2024-11-25T08:09:10.9", "2024-11-25T08:09:10", "1969-12-31T23:59:59.5", "9999-12-31T23:59:59")


def test_times_are_within_a_duration():
    """Days, times of day, wall clocks and instants; at the limit as for numbers."""
    source, target = typed("timestamp", *STAMPS), typed("timestamp", *(text[:-1] + "1" for text in STAMPS))
    assert near(source, target, abs="PT1S") == [True, True, True, False]
    assert near(source, target, abs="PT0.8S") == [True, False, True, False]
    assert near(source, target, abs="PT0.8S", bound="exclusive") == [False, False, True, False]
    assert near(source, target, abs="PT8S") == [True, True, True, True]
    dates = (
        typed("date", "2024-02-28", "2024-02-28", "infinity"),
        typed("date", "2024-03-01", "2024-03-02", "2024-03-01"),
    )
    assert near(*dates, abs="P2D") == [True, False, False]
    clocks = typed("time", "24:00:00", None), typed("time", "23:59:59.999999999", "00:00:00")
    assert near(*clocks, abs="PT0.000000001S") == [True, False]
    assert near(*clocks, abs="PT0.000000001S", bound="exclusive") == [False, False]


def test_infinite_times_are_within_no_duration():
    """Not of each other, and not of the last day that there is."""
    source = typed("timestamp", "infinity", "infinity", "-infinity", None)
    target = typed("timestamp", "infinity", "-infinity", "2024-01-01T00:00:00", "2024-01-01T00:00:00")
    assert near(source, target, abs="P999999D") == [False] * 4


def test_timestamps_of_two_units_are_within_a_duration():
    """Nanoseconds of the year 9999 come as decimals, its microseconds as int64."""
    source = typed("timestamp", "9999-12-31T23:59:59.000000001")
    target = Typed(LogicalType("timestamp"), typed("timestamp", "9999-12-31T23:59:59").array.cast(pa.timestamp("s")))
    assert near(source, target, abs="PT0.000000001S") == [True]
    assert near(source, target, abs="PT0.000000001S", bound="exclusive") == [False]


@given(st.lists(st.tuples(st.datetimes(), st.integers(-3_000_000, 3_000_000)), max_size=6), st.integers(0, 3_000_000))
def test_durations_agree_with_timedeltas(moments, limit):
    """Whole microseconds, where Python's own calendar is an oracle."""
    epoch = dt.datetime(1970, 1, 1)
    counts = [(moment - epoch) // dt.timedelta(microseconds=1) for moment, _ in moments]
    arrays = [
        pa.array(counts, pa.int64()),
        pa.array([c + s for c, (_, s) in zip(counts, moments, strict=True)], pa.int64()),
    ]
    columns = [Typed(LogicalType("timestamp"), array.view(pa.timestamp("us"))) for array in arrays]
    text = f"PT{Decimal(limit).scaleb(-6):f}S"
    assert near(*columns, abs=text) == [abs(shift) <= limit for _, shift in moments]


def test_numeric_text_speaks_where_both_are_numbers():
    """A dash is no zero, and two texts alike that are no numbers are not equal by this rule."""
    source = typed("text", "0.5000001", "-", "-", "0.50001", "1,5", "1e2", None, "NaN", "007", " 1", "Infinity")
    target = typed("text", "0.5", "-", "0", "0.5", "1,5", "100.0", "0", "NaN", "7", "1", "Infinity")
    assert near(source, target, "numeric_text", abs="0.000001") == [
        True, False, False, False, False, True, False, False, True, False, False,
    ]  # fmt: skip
    assert near(typed("text", "99", "98"), typed("text", "100", "100"), "numeric_text", rel="0.01") == [True, False]


def test_numeric_text_of_bytes_that_are_no_text_is_no_number():
    """A column with one invalid value is carried as bytes; its other rows are numbers as before."""
    source = Typed(LogicalType("text"), pa.array([b"1.0", b"1\xff"], pa.binary()))
    assert near(source, typed("text", "1", "1"), "numeric_text", abs="0") == [True, False]


@pytest.mark.parametrize("turned", [False, True])
def test_a_date_is_its_midnight_and_nothing_else(turned):
    """On either side, in every year; infinities pair with their like."""
    dates = typed("date", "2020-06-03", "2020-06-03", "-004712-01-01", "+200000-01-01", "infinity", "infinity", None)
    stamps = typed(
        "timestamp",
        "2020-06-03T00:00:00",
        "2020-06-03T09:30:00",
        "-004712-01-01T00:00:00",
        "+200000-01-01T00:00:00.000001",
        "infinity",
        "-infinity",
        "2020-06-03T00:00:00",
    )
    pair = (stamps, dates) if turned else (dates, stamps)
    assert near(*pair, "date_as_midnight") == [True, False, True, False, True, False, False]


def test_nothing_is_near_in_an_empty_column():
    """The first batch of a shard may have no rows."""
    assert near(typed("decimal"), typed("decimal"), abs="1") == []
    assert math.isinf(float("inf"))
