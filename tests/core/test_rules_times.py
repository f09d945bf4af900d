"""Readers of dates, times, timestamps, instants and intervals, for every year and nine digits of a second."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core import values as canonical
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import LogicalType


def read(kind, *texts, options=None, **bounds):
    """Return canonical values, with ``bad`` where a text is none."""
    type = LogicalType(kind, **bounds)
    carrier, bad = parse_text(pa.array(texts, pa.string()), type, options=options)
    found = canonical.canonical_values(carrier, type, type)
    return ["bad" if wrong else value for value, wrong in zip(found, bad.to_pylist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-02-29", "2020-02-29"),
        ("0001-01-01", "0001-01-01"),
        ("9999-12-31", "9999-12-31"),
        ("10000-01-01", "+010000-01-01"),
        ("+010000-01-01", "+010000-01-01"),
        ("4713-01-01 BC", "-004712-01-01"),
        ("-4712-01-01", "-004712-01-01"),
        ("0001-02-29 BC", "0000-02-29"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("-Inf", "-infinity"),
        ("2021-02-29", "bad"),
        ("1900-02-29", "bad"),
        ("2020-13-01", "bad"),
        ("2020-00-10", "bad"),
        ("0000-00-00", "bad"),
        ("0000-01-01 BC", "bad"),
        ("-0001-01-01 BC", "bad"),
        ("2020-1-1", "bad"),
        ("20-01-01", "bad"),
        ("2020-01-01 ", "bad"),
        ("01/02/2020", "bad"),
        ("20200101", "bad"),
        ("٢٠٢٠-01-01", "bad"),
        ("9000000-01-01", "bad"),
        ("", "bad"),
    ],
)
def test_a_date_is_read_alone_and_among_others(text, expected):
    """The slow reader takes over as soon as one text is unusual; the others must not change by it."""
    assert read("date", text) == [expected]
    assert read("date", "1970-01-02", text, None) == ["1970-01-02", expected, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:30:00", "12:30:00"),
        ("12:30", "12:30:00"),
        ("00:00:00.000000001", "00:00:00.000000001"),
        ("23:59:59.9999999", "23:59:59.9999999"),
        ("24:00:00", "24:00:00"),
        ("24:00:00.000", "24:00:00"),
        ("24:00:00.1", "bad"),
        ("24:00:01", "bad"),
        ("25:00:00", "bad"),
        ("12:60:00", "bad"),
        ("23:59:60", "bad"),
        ("1:00:00", "bad"),
        ("12:30:00Z", "bad"),
        ("12:30:00+00", "bad"),
        ("12:30:00.", "bad"),
        ("12:30:00.1234567890", "bad"),
        ("-01:00:00", "bad"),
        ("838:59:59", "bad"),
        ("12:30:00 PM", "bad"),
    ],
)
def test_a_time_of_day_ends_at_24_hours(text, expected):
    """24:00:00 is a value of its own; a leap second, an offset or a duration is no time of day."""
    assert read("time", text) == [expected]


STAMPS = [
    ("2024-11-25 08:09:10", "2024-11-25T08:09:10"),
    ("2024-11-25T08:09:10.120000", "2024-11-25T08:09:10.12"),
    ("2024-11-25 08:09:10.123456789", "2024-11-25T08:09:10.123456789"),
    ("1969-12-31 23:59:59.999999999", "1969-12-31T23:59:59.999999999"),
    ("9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999"),
    ("9999-12-31 23:59:59.999999999", "9999-12-31T23:59:59.999999999"),
    ("0001-01-01 00:00:00", "0001-01-01T00:00:00"),
    ("0000-01-01 00:00:00", "0000-01-01T00:00:00"),
    ("294276-12-31 23:59:59.999999", "+294276-12-31T23:59:59.999999"),
    ("300000-01-01 00:00:00", "+300000-01-01T00:00:00"),
    ("0044-03-15 12:00:00 BC", "-000043-03-15T12:00:00"),
    ("-000043-03-15T12:00:00", "-000043-03-15T12:00:00"),
    ("2020-01-01 24:00:00", "2020-01-02T00:00:00"),
    ("infinity", "infinity"),
    ("-infinity", "-infinity"),
]


@pytest.mark.parametrize(("text", "expected"), STAMPS)
def test_a_timestamp_is_read_at_full_precision_in_every_year(text, expected):
    """No carrier may clip, wrap or round: 9999 in nanoseconds does not fit 64 bits."""
    assert read("timestamp", text) == [expected]
    assert read("timestamp", text, digits=9) == [expected]
    if "BC" not in text and "infinity" not in text:
        zoned = f"{expected}Z"
        assert read("timestamp_tz", text + "Z") == [zoned]
        assert read("timestamp_tz", text + "+00:00", None) == [zoned, None]


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01",
        "2020-02-30 00:00:00",
        "2020-01-01 00:00:00Z",
        "2020-01-01 00:00:00+02:00",
        "2020-01-01  00:00:00",
        "2020-01-01 00:00:00 ",
        "2020-01-01 24:00:01",
        "2020-01-01 00:00:60",
        "0000-00-00 00:00:00",
        "2020-01-01t00:00:00",
        "20200101T000000",
        "now",
        "",
    ],
)
def test_what_is_no_wall_clock_is_bad(text):
    """An offset in a wall-clock column is information that would be dropped; a date alone is no timestamp."""
    assert read("timestamp", text) == ["bad"]
    assert read("timestamp", text, "2020-01-01 00:00:00") == ["bad", "2020-01-01T00:00:00"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-01 02:00:00+02", "2020-01-01T00:00:00Z"),
        ("2020-01-01 02:00:00+0200", "2020-01-01T00:00:00Z"),
        ("2020-01-01T02:00:00.5 +02:00", "2020-01-01T00:00:00.5Z"),
        ("2020-01-01 00:00:00 UTC", "2020-01-01T00:00:00Z"),
        ("2019-12-31 19:03:58-04:56:02", "2020-01-01T00:00:00Z"),
        ("0044-03-15 12:00:00+00 BC", "-000043-03-15T12:00:00Z"),
        ("infinity", "infinity"),
        ("2020-01-01 00:00:00", "bad"),
        ("2020-01-01 00:00:00 CET", "bad"),
        ("2020-01-01 00:00:00+24:00", "bad"),
        ("2020-01-01 00:00:00+2", "bad"),
        ("2020-01-01 00:00:00+02:60", "bad"),
        ("2020-01-01 00:00:00Z+02", "bad"),
    ],
)
def test_an_instant_needs_an_offset(text, expected):
    """A zone's abbreviation is ambiguous, and a missing offset is not UTC."""
    assert read("timestamp_tz", text) == [expected]
    assert read("timestamp_tz", text, "1970-01-01 00:00:00Z") == [expected, "1970-01-01T00:00:00Z"]


def test_a_zone_is_for_texts_without_an_offset():
    """Mixed exports occur: what says its offset keeps it."""
    options = {"zone": "Europe/Rome", "ambiguous": "refuse", "skipped": "refuse"}
    texts = ["2024-07-01 12:00:00", "2024-07-01 12:00:00Z", "2024-10-27 02:30:00", "2024-03-31 02:30:00"]
    assert read("timestamp_tz", *texts, options=options) == [
        "2024-07-01T10:00:00Z",
        "2024-07-01T12:00:00Z",
        "bad",
        "bad",
    ]
    options |= {"ambiguous": "first", "skipped": "after"}
    assert read("timestamp_tz", *texts[2:], options=options) == ["2024-10-27T00:30:00Z", "2024-03-31T00:30:00Z"]


def test_values_that_no_carrier_holds_together_are_bad_and_not_bent():
    """Nanoseconds of the year 9999 need a carrier without infinities; the infinity then is refused, not guessed."""
    texts = ["9999-01-01 00:00:00.123456789", "infinity"]
    assert read("timestamp", *texts) == ["9999-01-01T00:00:00.123456789", "bad"]


@given(
    st.lists(st.one_of(st.none(), st.datetimes()), max_size=6),
    st.sampled_from([" ", "T"]),
    st.sampled_from([None, 3, 6, 9]),
)
def test_timestamps_of_python_are_read_as_they_are(moments, mark, digits):
    """The fast way of Arrow and the slow way of ours against a calendar that is neither."""
    texts = [None if moment is None else moment.isoformat(mark) for moment in moments]
    carrier, bad = parse_text(pa.array(texts, pa.string()), LogicalType("timestamp", digits=digits))
    epoch = dt.datetime(1970, 1, 1)
    expected = [None if moment is None else (moment - epoch) // dt.timedelta(microseconds=1) for moment in moments]
    unit = 1 if not pa.types.is_timestamp(carrier.type) or carrier.type.unit == "ns" else 1000
    counts = carrier.to_pylist() if pa.types.is_decimal(carrier.type) else carrier.view(pa.int64()).to_pylist()
    assert not any(bad.to_pylist())
    assert [None if count is None else int(count) * unit for count in counts] == [
        None if count is None else count * 1000 for count in expected
    ]


@given(
    st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 30)),
    st.integers(-86_399, 86_399),
    st.sampled_from(["minutes", "seconds"]),
)
def test_offsets_are_subtracted(moment, shift, form):
    """An offset east of Greenwich means an earlier instant, also across a day and a year."""
    shift = int(shift / 60) * 60 if form == "minutes" else shift
    aware = moment.replace(tzinfo=dt.timezone(dt.timedelta(seconds=shift)))
    expected = (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    carrier, _ = parse_text(pa.array([aware.isoformat(" ")]), LogicalType("timestamp_tz"))
    assert carrier.view(pa.int64()).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P14M3DT-4.5S", "P14M3DT-4.5S"),
        ("P1Y2M3DT4H5M6.7S", "P14M3DT14706.7S"),
        ("-P1Y", "P-12M0DT0S"),
        ("P2W", "P0M14DT0S"),
        ("PT0.000000001S", "P0M0DT0.000000001S"),
        ("-PT-1.5S", "P0M0DT1.5S"),
        ("PT-0.5S", "P0M0DT-0.5S"),
        ("PT36H", "P0M0DT129600S"),
        ("P30D", "P0M30DT0S"),
        ("P", "bad"),
        ("PT", "bad"),
        ("P1YT", "bad"),
        ("P1.5D", "bad"),
        ("PT0.5H", "bad"),
        ("1 day", "bad"),
        ("P1H", "bad"),
        ("P99999999999Y", "bad"),
        ("PT9999999999999S", "bad"),
        ("p1d", "bad"),
    ],
)
def test_an_interval_keeps_months_days_and_time_apart(text, expected):
    """30 days are not a month and 36 hours are not a day and a half."""
    assert read("interval", text) == [expected]
