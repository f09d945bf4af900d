"""Wall clocks of a zone as instants: exact at every change, refused where the zone has no one answer."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta_provider.core.errors import RuleParameterError
from airflow_delta_provider.core.rules import zones
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import TIMESTAMP_INFINITY, LogicalType
from airflow_delta_provider.core.values import canonical_values

WALL, INSTANT = LogicalType("timestamp"), LogicalType("timestamp_tz")


def localized(zone, *texts, unit="us", ambiguous="refuse", skipped="refuse"):
    array, bad = parse_text(pa.array(texts, pa.string()), WALL)
    assert not any(bad.to_pylist())
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp(unit)) if unit in ("us", "ns") else array
    options = {"zone": zone, "ambiguous": ambiguous, "skipped": skipped}
    instants, refused = zones.localized(array, options)
    found = canonical_values(instants, INSTANT, INSTANT)
    return ["refused" if no else value for value, no in zip(found, refused.to_pylist(), strict=True)]


@pytest.mark.parametrize(
    ("ambiguous", "expected"),
    [("refuse", "refused"), ("first", "2024-11-03T05:30:00Z"), ("second", "2024-11-03T06:30:00Z")],
)
def test_an_hour_that_comes_twice_is_one_of_two_by_the_rule_only(ambiguous, expected):
    """01:30 in New York was there twice; picking one in silence is a guess."""
    texts = ["2024-11-03 00:59:59", "2024-11-03 01:30:00", "2024-11-03 02:00:00"]
    assert localized("America/New_York", *texts, ambiguous=ambiguous) == [
        "2024-11-03T04:59:59Z",
        expected,
        "2024-11-03T07:00:00Z",
    ]


@pytest.mark.parametrize(
    ("skipped", "expected"),
    [("refuse", "refused"), ("before", "2024-03-10T07:30:00Z"), ("after", "2024-03-10T06:30:00Z")],
)
def test_an_hour_that_never_came_is_read_with_one_of_two_offsets_by_the_rule_only(skipped, expected):
    """02:30 did not exist in New York on that day."""
    texts = ["2024-03-10 01:59:59.999999", "2024-03-10 02:30:00", "2024-03-10 03:00:00"]
    assert localized("America/New_York", *texts, skipped=skipped) == [
        "2024-03-10T06:59:59.999999Z",
        expected,
        "2024-03-10T07:00:00Z",
    ]


def test_the_first_and_last_second_of_a_change_are_exact():
    """One second to either side of a fold and of a gap."""
    texts = ["2024-10-27 01:59:59", "2024-10-27 02:00:00", "2024-10-27 02:59:59.999999", "2024-10-27 03:00:00"]
    assert localized("Europe/Rome", *texts) == ["2024-10-26T23:59:59Z", "refused", "refused", "2024-10-27T02:00:00Z"]
    texts = ["2024-03-31 01:59:59.999999", "2024-03-31 02:00:00", "2024-03-31 02:59:59", "2024-03-31 03:00:00"]
    assert localized("Europe/Rome", *texts) == [
        "2024-03-31T00:59:59.999999Z",
        "refused",
        "refused",
        "2024-03-31T01:00:00Z",
    ]


def test_a_change_at_midnight_concerns_the_day_before():
    """Cuba's clocks go back from 01:00 to 00:00, Brazil's went from 24:00 back to 23:00 of the day before."""
    assert localized("America/Sao_Paulo", "2018-02-17 23:30:00", "2018-02-17 22:59:59", "2018-02-18 00:00:00") == [
        "refused",
        "2018-02-18T00:59:59Z",
        "2018-02-18T03:00:00Z",
    ]
    assert localized("America/Havana", "2023-11-05 00:30:00", "2023-11-04 23:59:59") == [
        "refused",
        "2023-11-05T03:59:59Z",
    ]


def test_a_day_that_never_came_is_refused_whole():
    """Samoa left out 2011-12-30."""
    assert localized("Pacific/Apia", "2011-12-29 23:59:59", "2011-12-30 12:00:00", "2011-12-31 00:00:00") == [
        "2011-12-30T09:59:59Z",
        "refused",
        "2011-12-30T10:00:00Z",
    ]


def test_years_that_no_date_class_has_are_read_too():
    """Before the first change a zone has its local mean time; after the year 9999 its rules go on in cycles."""
    texts = ["-004712-01-01T00:00:00", "0001-01-01 00:00:00", "12024-07-01 12:00:00", "300000-01-01 00:00:00"]
    assert localized("Europe/Rome", *texts, unit=None) == [
        "-004713-12-31T23:10:04Z",
        "0000-12-31T23:10:04Z",
        "+012024-07-01T10:00:00Z",
        "+299999-12-31T23:00:00Z",
    ]


def test_infinity_and_null_have_no_zone():
    """They pass as they are."""
    assert localized("Europe/Rome", "infinity", None, "-infinity") == ["infinity", None, "-infinity"]


def test_a_moment_at_the_edge_of_its_carrier_does_not_wrap():
    """Shifted by its offset it needs a wider carrier, and gets it."""
    near = TIMESTAMP_INFINITY - 1
    array = pa.array([near], pa.int64()).view(pa.timestamp("ns"))
    instants, _ = zones.localized(array, {"zone": "America/New_York"})
    assert instants.type == pa.decimal128(38, 0)
    assert int(instants[0].as_py()) == near + 4 * 3600 * 10**9


def test_an_unknown_zone_is_refused_by_name():
    """A misspelled zone must not fall back to UTC."""
    for name in ("Europe/Roma", "", "../etc/passwd", "CEST+2"):
        with pytest.raises(RuleParameterError, match="no time zone"):
            zones.zone_of(name)


ZONES = ["Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Europe/Dublin", "Africa/Monrovia"]
MOMENTS = st.datetimes(dt.datetime(1880, 1, 1), dt.datetime(2100, 1, 1))


@settings(max_examples=60)
@given(st.sampled_from(ZONES), st.lists(MOMENTS, max_size=6), st.sampled_from(["first", "second"]))
def test_the_way_by_days_agrees_with_asking_for_every_moment(name, moments, ambiguous):
    """Most rows take one offset for their day; the oracle asks the zone for each."""
    skipped = "before" if ambiguous == "first" else "after"
    zone = zoneinfo.ZoneInfo(name)
    epoch = dt.datetime(1970, 1, 1)
    expected = []
    for moment in moments:
        offset = moment.replace(tzinfo=zone, fold=0 if ambiguous == "first" else 1).utcoffset()
        expected.append((moment - offset - epoch) // dt.timedelta(microseconds=1))
    array = pa.array([(moment - epoch) // dt.timedelta(microseconds=1) for moment in moments], pa.int64())
    options = {"zone": name, "ambiguous": ambiguous, "skipped": skipped}
    instants, refused = zones.localized(array.view(pa.timestamp("us")), options)
    assert instants.view(pa.int64()).to_pylist() == expected
    assert not any(refused.to_pylist())


@settings(max_examples=30)
@given(st.sampled_from(ZONES), MOMENTS)
def test_what_is_refused_is_just_what_has_two_answers(name, moment):
    """A moment is refused exactly where the two readings of it differ."""
    zone = zoneinfo.ZoneInfo(name)
    count = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    _, refused = zones.localized(pa.array([count], pa.int64()).view(pa.timestamp("us")), {"zone": name})
    offsets = {moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
    assert refused.to_pylist() == [len(offsets) == 2]
