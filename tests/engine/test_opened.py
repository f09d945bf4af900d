"""Two opened sides: keys of digests, literals, and the side's name in every refusal."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from memory_side import MemorySide, opener, spec_form, typed

from airflow_delta_provider.adapters.side import Order, RangeCost
from airflow_delta_provider.core.errors import HmacKeyError, SideMissingError, SpecEnvError, SpecValueError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.engine.literals import key_literals
from airflow_delta_provider.engine.named import NamedSide, named
from airflow_delta_provider.engine.opened import hmac_key_of, open_sides
from airflow_delta_provider.engine.planning import plan_ranges

TYPES = typed(id="int", v="text")


def sides(**options: Any) -> tuple[MemorySide, MemorySide]:
    rows = [(str(number), "a") for number in range(40)]
    return MemorySide(TYPES, rows, **options), MemorySide(TYPES, rows)


@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("int", 5, "5"),
        ("int", "-7", "-7"),
        ("decimal", "1.50", "1.5"),
        ("float64", "0.1", "0.1"),
        ("text", 5, "5"),
        ("text", " a ", " a "),
        ("text", "", ""),
        ("bool", True, True),
        ("bool", "false", False),
        ("bytes", "00ff", "00ff"),
        ("date", "2024-02-29", "2024-02-29"),
        ("uuid", "123E4567-E89B-12D3-A456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("timestamp_tz", "2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00Z"),
        ("int", None, None),
    ],
)
def test_literals_are_read_as_the_type_of_the_key(kind, literal, value):
    """In the key's canonical text, or what reads as it."""
    assert key_literals([literal], [LogicalType(kind)], "key_range.from") == [value]


@pytest.mark.parametrize(
    ("kind", "literal"), [("int", "1.5"), ("int", ""), ("int", True), ("date", "2023-02-29"), ("bytes", "0")]
)
def test_a_literal_of_another_type_is_refused_by_its_field(kind, literal):
    """A range is not guessed."""
    with pytest.raises(SpecValueError, match=rf"\[DELTA_SPEC_VALUE\] key_range\.to holds '.*', which is no {kind}"):
        key_literals([literal], [LogicalType(kind)], "key_range.to")


@pytest.mark.parametrize(("text", "secret"), [("00ff", b"\x00\xff"), ("passphrase", b"passphrase"), ("é", b"\xc3\xa9")])
def test_a_key_of_digests_is_hex_or_text(text, secret):
    """As the configuration has it."""
    key = hmac_key_of("k-1", text)
    assert (key.key_id, key.secret) == ("k-1", secret)


@pytest.mark.parametrize(("key_id", "text"), [("K", "x"), ("", "x"), ("a" * 65, "x"), ("a/b", "x"), ("k", "")])
def test_a_key_of_digests_without_a_proper_id_or_secret_is_refused(key_id, text):
    """The id stands in every record."""
    with pytest.raises(HmacKeyError, match=r"^\[DELTA_HMAC_KEY\]"):
        hmac_key_of(key_id, text)


def test_the_key_of_digests_comes_from_the_environment():
    """Under the variable's name in lower case."""
    spec = parse_spec(spec_form(key=["id"], sensitive=["v"], hmac={"env": "DELTA_KEY"}))
    with open_sides(spec, opener(*sides()), environ={"DELTA_KEY": "s3cret"}) as opened:
        assert repr(opened.comparison.hmac_key) == "HmacKey('delta_key')"
    with pytest.raises(SpecEnvError, match="DELTA_KEY is not set"):
        open_sides(spec, opener(*sides()), environ={})


def test_each_refusal_of_a_side_begins_with_its_name_once():
    """Both sides may be tables of one name."""
    with pytest.raises(SideMissingError) as caught, named("target"), named("target"):
        raise SideMissingError("There is no table t.")
    assert (caught.value.message, caught.value.where) == ("target: There is no table t.", "target")


def test_a_side_that_cannot_be_opened_leaves_the_other_closed():
    """A connection that stays open holds a snapshot."""
    source, _ = sides()

    def open_side(spec: Any) -> Any:
        if spec.path == "target":
            raise SideMissingError("There is no file target.")
        return source

    with pytest.raises(SideMissingError, match=r"\[DELTA_SIDE_MISSING\] target: There is no file target"):
        open_sides(parse_spec(spec_form(key=["id"])), open_side)
    assert source.closed == 1


def test_a_named_side_passes_everything_on():
    """What the engine asks, the side answers."""
    inner, _ = sides(order_of=Order.HOPED, cost=RangeCost.SCAN, key_columns=("id",))
    side = NamedSide("source", inner)
    assert (side.kind, side.where, side.primary_key) == ("memory", "table twin", ("id",))
    assert [column.name for column in side.columns] == ["id", "v"]
    assert (side.order(("id",), (LogicalType("int"),)), side.range_cost(("id",))) == (Order.HOPED, RangeCost.SCAN)
    assert (side.estimate_rows(), side.facts(), side.sample(("id",), 5).num_rows) == (40, {"rows": 40}, 5)
    side.close()
    assert inner.closed == 1


@pytest.mark.parametrize(
    ("members", "count", "cost", "shards"),
    [
        ({}, None, RangeCost.INDEX, 1),
        ({}, 4, RangeCost.INDEX, 4),
        ({"shards": {"count": 3}}, None, RangeCost.INDEX, 3),
        ({"shards": {"count": 3}}, 4, RangeCost.INDEX, 4),
        ({"shards": {"rows": 10}}, None, RangeCost.INDEX, 4),
        ({"shards": {"rows": 10}}, None, RangeCost.SCAN, 1),
        ({"shards": {"count": 3}}, None, RangeCost.SCAN, 3),
        ({"shards": {"bounds": [[10], [20]]}}, None, RangeCost.SCAN, 3),
        ({"shards": {"bounds": [[10], [20]]}}, 1, RangeCost.INDEX, 1),
        ({}, 64, RangeCost.INDEX, 40),
        ({"key_range": {"from": [10], "to": [12]}}, 64, RangeCost.INDEX, 2),
        ({"key_range": {"from": [0], "to": [8]}}, 4, RangeCost.INDEX, 4),
    ],
)
def test_a_plan_has_as_many_shards_as_were_asked_for_where_there_are_keys(members, count, cost, shards):
    """And they tile the range, so that keys beyond both samples belong to one too."""
    with open_sides(parse_spec(spec_form(key=["id"], **members)), opener(*sides(cost=cost))) as opened:
        ranges = plan_ranges(opened, count=count)
        assert len(ranges) == shards
        assert (ranges[0].lower, ranges[-1].upper) == (opened.key_range.lower, opened.key_range.upper)
        assert all(one.upper == two.lower for one, two in itertools.pairwise(ranges))


def test_keys_beyond_the_other_sides_belong_to_a_shard():
    """The first shard begins and the last one ends in the open."""
    source = MemorySide(TYPES, [(str(number), "a") for number in range(100)])
    target = MemorySide(TYPES, [(str(number), "a") for number in range(1000, 1100)])
    with open_sides(parse_spec(spec_form(key=["id"])), opener(source, target)) as opened:
        ranges = plan_ranges(opened, count=4)
    assert (ranges[0].lower, ranges[-1].upper) == (None, None)
    assert len(ranges) == 4
    assert ranges != [KeyRange()]
