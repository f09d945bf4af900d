"""The ladder: what is equal under a column's rules, and which rule it owes that to."""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta_provider.core.rules import (
    Typed,
    UnparsedValue,
    effective_types,
    evaluate,
    normalise_rules,
    recorded,
)
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.values import canonical_values

TEXT = LogicalType("text")


def typed(kind, *texts):
    array, bad = parse_text(pa.array(texts, pa.string()), LogicalType(kind))
    assert not any(bad.to_pylist())
    return Typed(LogicalType(kind), array)


def ladder(rules, source, target):
    """Return (equal, rule, recorded source, recorded target), values canonical under the schema type."""
    docs = normalise_rules({"c": rules}, [("c", source.type, target.type, False)], str).documents[0][1]
    found = evaluate(docs, source, target)
    types = effective_types(docs, source.type, target.type)
    assert (found.recorded_source.type.kind, found.recorded_target.type.kind) == (
        types.source_recorded.kind,
        types.target_recorded.kind,
    )
    for side, column, seen in (("source", source, found.recorded_source), ("target", target, found.recorded_target)):
        alone = recorded(docs, column, side)
        assert (alone.type, shown(alone, types.schema)) == (seen.type, shown(seen, types.schema))
    return (
        found.equal.to_pylist(),
        found.rule.tolist(),
        shown(found.recorded_source, types.schema),
        shown(found.recorded_target, types.schema),
    )


def shown(column, schema):
    values = canonical_values(column.array, column.type, schema)
    texts = column.unparsed.to_pylist() if column.unparsed is not None else [None] * len(values)
    return [{"unparsed": text} if text is not None else value for value, text in zip(values, texts, strict=True)]


def test_a_value_counts_for_the_first_rule_from_which_on_it_is_equal():
    """Row 1 was equal before, rows 2 and 3 need one rule each, row 4 stays different."""
    rules = [{"normalize": ["strip"]}, {"normalize": ["casefold"]}]
    source, target = typed("text", "a", " a", "A", "b", None), typed("text", "a", "a", "a", "a", "")
    assert ladder(rules, source, target)[:2] == ([True, True, True, False, False], [0, 1, 2, 0, 0])


def test_a_rule_for_one_side_can_also_part_what_was_equal():
    """Both said A; folded on one side only they differ, as the contract asks."""
    rules = [{"normalize": {"steps": ["casefold"], "side": "source"}}]
    assert ladder(rules, typed("text", "A", "A"), typed("text", "A", "a"))[:2] == ([False, True], [0, 1])


def test_what_was_equal_parted_and_equal_again_counts_for_the_last():
    """e_0 is true and e_1 false: rule 2 is what makes it equal now."""
    rules = [{"normalize": {"steps": ["casefold"], "side": "source"}}, {"normalize": ["casefold"]}]
    assert ladder(rules, typed("text", "A", "x"), typed("text", "A", "x"))[:2] == ([True, True], [2, 0])
    rules = [{"normalize": {"steps": ["casefold"], "side": side}} for side in ("source", "target")]
    assert ladder(rules, typed("text", "A", "x"), typed("text", "A", "x"))[:2] == ([True, True], [2, 0])


def test_two_texts_that_cannot_be_read_are_different_even_when_alike():
    """Nobody knows what they mean; NULL and NULL are equal as ever."""
    rules = [{"read_as": {"type": "int", "otherwise": "different"}}]
    source, target = typed("text", "x", "1", "x", None, "7"), typed("text", "x", "01", None, None, "7")
    equal, rule, mine, other = ladder(rules, source, target)
    assert (equal, rule) == ([False, True, False, True, True], [0, 1, 0, 0, 0])
    assert mine == [{"unparsed": "x"}, "1", {"unparsed": "x"}, None, "7"]
    assert other == [{"unparsed": "x"}, "1", None, None, "7"]


def test_a_later_rule_does_not_bring_unread_texts_together():
    """Neither a tolerance nor a list of NULL values has anything to say of them."""
    rules = [
        {"read_as": {"type": "decimal", "otherwise": "different"}},
        {"null_equals": ["0"]},
        {"tolerance": {"abs": "1000"}},
    ]
    source, target = typed("text", "x", "0", "5", "x"), typed("text", "x", "0.0", "6", "0")
    assert ladder(rules, source, target)[:2] == ([False, True, True, False], [0, 1, 3, 0])


def test_a_pair_rule_that_was_met_stays_met():
    """Within the tolerance before rounding: that later digits differ does not matter."""
    rules = [{"tolerance": {"abs": "0.02"}}, {"round": {"places": 1}}]
    source, target = typed("decimal", "0.04", "0.04"), typed("decimal", "0.06", "0.07")
    assert ladder(rules, source, target)[:2] == ([True, False], [1, 0])
    limits = [{"numeric_text": {"abs": "1"}}, {"numeric_text": {"abs": "0"}}]
    fold = {"normalize": {"steps": ["casefold"], "side": "source"}}
    assert ladder([*limits, fold], typed("text", "1", "1E1"), typed("text", "2", "10"))[:2] == ([True, True], [1, 1])
    rules = [{"numeric_text": {"abs": "0"}}, {"normalize": {"steps": ["strip"], "side": "source"}}]
    assert ladder(rules, typed("text", "1.0", " 1"), typed("text", "1", "1"))[:2] == ([True, True], [1, 2])


def test_types_that_are_not_comparable_begin_with_null_only():
    """Before it is read, a text equals no number; NULL needs no rule."""
    rules = [{"read_as": {"type": "decimal", "side": "source"}}]
    assert ladder(rules, typed("text", "1.50", None, "2", None), typed("decimal", "1.5", None, "3", "0"))[:2] == (
        [True, True, False, False],
        [1, 0, 0, 0],
    )


def test_the_recorded_form_ends_at_the_last_rule_that_reads():
    """A diverged value shows what differs: as read, but not as rounded."""
    rules = [{"read_as": {"type": "decimal"}}, {"round": {"places": 0, "mode": "down"}}]
    equal, rule, mine, other = ladder(rules, typed("text", "1.50", "1.2"), typed("text", "2", "1"))
    assert (equal, rule, mine, other) == ([False, True], [0, 2], ["1.5", "1.2"], ["2", "1"])
    rules = [{"normalize": ["nfc"]}]
    assert ladder(rules, typed("text", "e\u0301x"), typed("text", "éy"))[2:] == (["e\u0301x"], ["éy"])


def test_a_date_against_a_timestamp_is_recorded_as_one():
    """The schema document has one type for the column; the midnight is what the rule compares."""
    found = ladder([{"date_as_midnight": {}}], typed("date", "2020-06-03", "2020-06-03", "infinity", None),
                   typed("timestamp", "2020-06-03T00:00:00", "2020-06-03T09:30:00", "infinity", None))  # fmt: skip
    assert found[:2] == ([True, False, True, True], [1, 0, 1, 0])
    assert found[2] == ["2020-06-03T00:00:00", "2020-06-03T00:00:00", "infinity", None]


def test_values_that_are_null_by_a_rule_equal_null_and_each_other():
    """That is what the rule is for; on two types of numbers the exact value counts, so equal values stay equal."""
    source, target = typed("text", "", "N/A", "", "x"), typed("text", None, "", "x", None)
    assert ladder([{"null_equals": ["", "N/A"]}], source, target)[:2] == ([True, True, False, False], [1, 1, 0, 0])
    source, target = typed("int", "0", "0", "1"), typed("decimal", None, "0", "1.5")
    assert ladder([{"null_equals": ["0", "1.5"]}], source, target)[:2] == ([True, True, False], [1, 0, 0])
    exact = "0.1000000000000000055511151231257827021181583404541015625"
    source, target = typed("float64", "0.1", "0.1", "0.5"), typed("decimal", exact, "0.1", None)
    assert ladder([{"null_equals": ["0.1", "0.5"]}], source, target)[:2] == ([True, False, True], [0, 0, 1])


def test_a_refusal_names_the_row_of_the_whole_run():
    """Only rows that still differ go on to the later rules; the row number must not be theirs."""
    rules = [{"normalize": ["nfc"]}, {"read_as": {"type": "int"}}]
    with pytest.raises(UnparsedValue) as caught:
        ladder(rules, typed("text", "1", "2", "3"), typed("text", "1", "2", "x"))
    assert (caught.value.row, caught.value.side, caught.value.text) == (2, "target", "x")
    big = "1" + "0" * 40
    with pytest.raises(UnparsedValue) as caught:
        ladder([{"single_precision": {}}], typed("decimal", "1", "2", big), typed("decimal", "1", "2", "3"))
    assert (caught.value.row, caught.value.side) == (2, "source")
    with pytest.raises(UnparsedValue) as caught:
        rules = [{"tolerance": {"abs": "1"}}, {"single_precision": {}}]
        ladder(rules, typed("decimal", "1", "2", "5", big), typed("decimal", "1", "3", "7", "3"))
    assert (caught.value.row, caught.value.side) == (3, "source")


def test_no_rows_and_equal_rows_are_no_special_case():
    """The most common runs."""
    rules = [{"normalize": ["nfc"]}, {"read_as": {"type": "int"}}, {"tolerance": {"abs": "1"}}]
    assert ladder(rules, typed("text"), typed("text"))[:2] == ([], [])
    assert ladder(rules, typed("text", "1", None), typed("text", "1", None))[:2] == ([True, True], [0, 0])


# A slow, obvious oracle: values are Python objects, every rule is applied to every row, every step is compared.

UNREAD = object()
TEXT_RULES = [
    {"normalize": ["nfc"]},
    {"normalize": ["strip"]},
    {"normalize": ["casefold"]},
    {"normalize": {"steps": ["casefold"], "side": "source"}},
    {"normalize": {"steps": ["casefold"], "side": "target"}},
    {"normalize": {"steps": ["strip"], "side": "target"}},
    {"null_equals": ["", "1"]},
    {"numeric_text": {"abs": "0.5"}},
    {"numeric_text": {"abs": "0"}},
]
READING = [
    {"read_as": {"type": "decimal", "otherwise": "different"}},
    {"read_as": {"type": "decimal", "otherwise": "different"}},
]
NUMBER_RULES = [
    {"round": {"places": 0}},
    {"round": {"places": 1, "mode": "down"}},
    {"tolerance": {"abs": "0.5"}},
    {"tolerance": {"rel": "0.1", "bound": "exclusive"}},
    {"null_equals": ["1", "-2.5"]},
]
WORDS = st.sampled_from(
    ["", "1", "1.0", " 1", "1.25", "1.3", "-2.5", "2", "a", "A", "a ", "é", "e\u0301", "É", "x", None]
)


def number_of(text):
    try:
        return Fraction(Decimal(text)) if text.strip() == text and text else None
    except ArithmeticError:
        return None


def after(rule, value, side):
    """Return one value after one rule."""
    ((name, parameters),) = rule.items()
    if value is None or value is UNREAD:
        return value
    if name == "normalize":
        steps = parameters if isinstance(parameters, list) else parameters["steps"]
        if not isinstance(parameters, list) and parameters["side"] != side:
            return value
        step = {"nfc": lambda text: unicodedata.normalize("NFC", text), "strip": str.strip, "casefold": str.casefold}
        return step[steps[0]](value)
    if name == "null_equals":
        listed = [number_of(one) for one in parameters] if isinstance(value, Fraction) else parameters
        return None if value in listed else value
    if name == "read_as":
        found = number_of(value) if isinstance(value, str) else value
        return UNREAD if found is None else found
    if name == "round":
        places, mode = parameters["places"], parameters.get("mode")
        scaled = value * 10**places
        whole = round(scaled) if mode is None else int(scaled)
        return Fraction(whole, 10**places)
    return value


def met(rule, one, other):
    """Tell whether a pair rule makes two values equal."""
    ((name, parameters),) = rule.items()
    if name == "numeric_text":
        one, other = (number_of(value) if isinstance(value, str) else None for value in (one, other))
    if name not in ("numeric_text", "tolerance") or not (isinstance(one, Fraction) and isinstance(other, Fraction)):
        return False
    gap = abs(one - other)
    if "rel" in parameters:
        return gap < Fraction(parameters["rel"]) * max(abs(one), abs(other))
    return gap <= Fraction(parameters["abs"])


def expected(rules, one, other):
    """Return whether two texts are equal in the end, and the rule that this counts for."""
    steps, satisfied = [one == other], False
    for rule in rules:
        satisfied = satisfied or met(rule, one, other)
        one, other = after(rule, one, "source"), after(rule, other, "target")
        steps.append(satisfied or (one == other and one is not UNREAD))
    if not steps[-1]:
        return False, 0
    return True, next(place for place in range(len(steps)) if all(steps[place:]))


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(TEXT_RULES), max_size=3),
    st.booleans(),
    st.lists(st.sampled_from(NUMBER_RULES), max_size=3),
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=12),
)
def test_the_ladder_agrees_with_a_slow_and_obvious_one(first, reading, last, rows):
    """Every shortcut of the product against none."""
    rules = [*first, READING[0], *last] if reading else first
    if not rules:
        rules = [{"normalize": ["nfc"]}]
    source, target = (typed("text", *column) for column in zip(*rows, strict=True))
    equal, rule, mine, other = ladder(rules, source, target)
    assert list(zip(equal, rule, strict=True)) == [expected(rules, *row) for row in rows]
    for same, one, two in zip(equal, mine, other, strict=True):
        assert same or one != two or isinstance(one, dict)
