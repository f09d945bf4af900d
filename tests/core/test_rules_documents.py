"""Rules of a specification in the form of the contract document, and their refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_delta_provider.core.documents.rules import check_rule
from airflow_delta_provider.core.errors import (
    RuleFitError,
    RuleKeyError,
    RuleParameterError,
    RuleUnknownError,
    SpecColumnError,
)
from airflow_delta_provider.core.rules import effective_types, fits, ignored_names, normalise_rules
from airflow_delta_provider.core.rules.convert import READABLE
from airflow_delta_provider.core.rules.fit import recorded_length
from airflow_delta_provider.core.types import SCALARS, LogicalType

INT, TEXT, DECIMAL = LogicalType("int", bits=64), LogicalType("text"), LogicalType("decimal", precision=12, scale=2)
FLOAT, BOOL, DATE = LogicalType("float64"), LogicalType("bool"), LogicalType("date")
WALL, INSTANT = LogicalType("timestamp", digits=6), LogicalType("timestamp_tz", digits=6)
ARRAY = LogicalType("array", item=INT)


def documents(written, *columns):
    names = {name for name, *_ in columns}

    def name_of(name):
        if name not in names:
            raise SpecColumnError(f"no column {name}.")
        return name

    found = normalise_rules(written, columns, name_of)
    for _, rules in found.documents:
        for rule in rules:
            check_rule(rule, "rules")
    return found.documents


def one(rule, source=TEXT, target=None, key=False):
    return documents({"c": [rule]}, ("c", source, target or source, key))[0][1][0]


@pytest.mark.parametrize(
    ("rule", "type", "document"),
    [
        ({"tolerance": {"abs": "0.0010"}}, DECIMAL, {"abs": "0.001", "bound": "inclusive", "rel": None}),
        ({"tolerance": {"rel": Decimal("1E-6"), "bound": "exclusive"}}, FLOAT,
         {"abs": None, "bound": "exclusive", "rel": "0.000001"}),
        ({"tolerance": {"abs": 1, "rel": "0"}}, INT, {"abs": "1", "bound": "inclusive", "rel": "0"}),
        ({"tolerance": {"abs": "PT1M0.50S"}}, WALL, {"abs": "PT60.5S", "bound": "inclusive", "rel": None}),
        ({"tolerance": {"abs": "P1DT1H"}}, DATE, {"abs": "PT90000S", "bound": "inclusive", "rel": None}),
        ({"round": {"places": 2}}, DECIMAL, {"mode": "half_even", "places": "2"}),
        ({"round": {"places": "-3", "mode": "down"}}, INT, {"mode": "down", "places": "-3"}),
        ({"precision": {"unit": "ms"}}, INSTANT, {"mode": "truncate", "unit": "ms"}),
        ({"single_precision": {}}, FLOAT, {}),
        ({"normalize": ["nfc", "strip"]}, TEXT, {"side": "both", "steps": ["nfc", "strip"]}),
        ({"normalize": {"steps": ["casefold"], "side": "target"}}, TEXT, {"side": "target", "steps": ["casefold"]}),
        ({"null_equals": "zero_date"}, TEXT, {"values": "zero_date"}),
        ({"null_equals": ["", "N/A", 0, ""]}, TEXT, {"values": ["", "N/A", "0"]}),
        ({"null_equals": ["-999.250", 0]}, DECIMAL, {"values": ["-999.25", "0"]}),
        ({"null_equals": [False]}, BOOL, {"values": [False]}),
        ({"null_equals": ["1900-01-01 00:00:00"]}, WALL, {"values": ["1900-01-01T00:00:00"]}),
        ({"numeric_text": {"abs": "1e-6"}}, TEXT, {"abs": "0.000001", "rel": None}),
        ({"array_order": "ignored"}, ARRAY, {"order": "ignored"}),
        ({"read_as": {"type": "int"}}, TEXT, {"otherwise": "refuse", "side": "both", "type": "int"}),
        ({"read_as": {"type": "bytes"}}, TEXT,
         {"encoding": "hex", "otherwise": "refuse", "side": "both", "type": "bytes"}),
        ({"read_as": {"type": "uuid", "layout": "mixed_endian", "otherwise": "different"}}, TEXT,
         {"layout": "mixed_endian", "otherwise": "different", "side": "both", "type": "uuid"}),
        ({"read_as": {"type": "timestamp_tz", "zone": "Europe/Rome", "side": "source"}}, WALL,
         {"ambiguous": "refuse", "otherwise": "refuse", "side": "source", "skipped": "refuse",
          "type": "timestamp_tz", "zone": "Europe/Rome"}),
        ({"read_as": {"type": "timestamp_tz"}}, TEXT,
         {"ambiguous": "refuse", "otherwise": "refuse", "side": "both", "skipped": "refuse",
          "type": "timestamp_tz", "zone": None}),
        ({"read_as": {"type": "bool", "otherwise": True, "false_values": [0]}}, INT,
         {"false_values": ["0"], "otherwise": "true", "side": "both",
          "true_values": ["1", "T", "TRUE", "True", "t", "true"], "type": "bool"}),
        ({"read_as": {"type": "bool", "true_values": ["0", True]}}, TEXT,
         {"false_values": ["F", "FALSE", "False", "f", "false"], "otherwise": "refuse", "side": "both",
          "true_values": ["0", "true"], "type": "bool"}),
    ],
)  # fmt: skip
def test_a_rule_becomes_a_document_with_its_defaults_written_out(rule, type, document):
    """The contract's digest covers the rules: one meaning must have one form."""
    assert one(rule, type) == {"rule": next(iter(rule)), **document}


def test_the_worked_example_has_its_rules():
    """The contract of docs/format.md, letter for letter."""
    columns = [("seen_at", INSTANT, INSTANT, False), ("ratio", FLOAT, FLOAT, False)]
    written = {
        "ratio": [{"tolerance": {"abs": "0.001"}}],
        "seen_at": [{"precision": {"unit": "ms", "mode": "truncate"}}],
    }
    assert documents(written, *columns) == [
        ["seen_at", [{"mode": "truncate", "rule": "precision", "unit": "ms"}]],
        ["ratio", [{"abs": "0.001", "bound": "inclusive", "rel": None, "rule": "tolerance"}]],
    ]


def test_every_column_rules_come_first_and_go_where_they_fit():
    """``"*"`` is expanded in place, key columns first; only rules for keys reach a key."""
    columns = [
        ("a", TEXT, TEXT, False),
        ("n", DECIMAL, FLOAT, False),
        ("k", TEXT, TEXT, True),
        ("d", DATE, DATE, False),
    ]
    written = {
        "a": [{"normalize": ["casefold"]}],
        "*": [{"normalize": ["nfc"]}, {"numeric_text": {"abs": 0}}, {"single_precision": {}}],
    }
    shape = [
        [name, [(rule["rule"], *rule.get("steps", [])) for rule in rules]]
        for name, rules in documents(written, *columns)
    ]
    assert shape == [
        ["k", [("normalize", "nfc")]],
        ["a", [("normalize", "nfc"), ("numeric_text",), ("normalize", "casefold")]],
        ["n", [("single_precision",)]],
    ]


def test_a_rule_fits_the_type_that_the_rules_before_it_leave():
    """Text that is read as decimal can be rounded; text alone cannot."""
    rules = {"c": [{"read_as": {"type": "decimal"}}, {"round": {"places": 1}}, {"tolerance": {"abs": "0.1"}}]}
    assert len(documents(rules, ("c", TEXT, DECIMAL, False))[0][1]) == 3
    with pytest.raises(RuleFitError, match="'c', rule round: the source is text and the target text; it fits numbers"):
        one({"round": {"places": 1}}, TEXT)
    with pytest.raises(RuleFitError, match="'c', rule round: the source is text"):
        one({"round": {"places": 1}}, TEXT, DECIMAL)


def test_null_values_go_to_the_columns_that_can_hold_them():
    """Under ``"*"`` an empty text is no value of a number, and zero no value of a bool."""
    columns = [("t", TEXT, TEXT, False), ("n", INT, INT, False), ("b", BOOL, BOOL, False)]
    assert [name for name, _ in documents({"*": [{"null_equals": [""]}]}, *columns)] == ["t"]
    assert [name for name, _ in documents({"*": [{"null_equals": [0]}]}, *columns)] == ["t", "n"]
    with pytest.raises(RuleFitError, match="'n', rule null_equals: the source is int"):
        documents({"n": [{"null_equals": ["N/A"]}]}, *columns)


@pytest.mark.parametrize(
    ("rule", "source", "target", "fit"),
    [
        ({"tolerance": {"abs": "1"}}, WALL, WALL, "numbers, and with abs as a duration"),
        ({"tolerance": {"abs": "PT1S"}}, INT, INT, "numbers, and with abs as a duration"),
        ({"precision": {"unit": "s"}}, DATE, DATE, "times and timestamps"),
        ({"single_precision": {}}, TEXT, TEXT, "numbers"),
        ({"normalize": ["nfc"]}, INT, INT, "text"),
        ({"numeric_text": {"abs": "1"}}, DECIMAL, DECIMAL, "text"),
        ({"date_as_midnight": {}}, DATE, DATE, "a date paired with a timestamp"),
        ({"date_as_midnight": {}}, DATE, INSTANT, "a date paired with a timestamp"),
        ({"array_order": "ignored"}, TEXT, TEXT, "arrays"),
        ({"null_equals": "zero_date"}, INT, INT, "all its values"),
        ({"null_equals": ["x"]}, ARRAY, ARRAY, "all its values"),
        ({"read_as": {"type": "uuid"}}, INT, INT, "to be read as uuid; it fits types that can be read so"),
        ({"read_as": {"type": "timestamp_tz"}}, WALL, INSTANT, "to be read as timestamp_tz without a zone"),
        ({"read_as": {"type": "timestamp"}}, INSTANT, WALL, "to be read as timestamp"),
    ],
)
def test_a_rule_on_a_column_that_it_does_not_fit_is_refused_with_what_it_fits(rule, source, target, fit):
    """A rule without effect would be read later as a reason for equality; under ``"*"`` too, if it fits no column."""
    name = next(iter(rule))
    with pytest.raises(RuleFitError, match=rf"^\[DELTA_RULE_FIT\] column 'c', rule {name}: .*{fit}"):
        one(rule, source, target)
    with pytest.raises(RuleFitError, match=rf'column "\*", rule {name}: no compared column'):
        documents({"*": [rule]}, ("c", source, target, False))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"tolerance": {}}, "takes abs, rel or both"),
        ({"tolerance": {"abs": None}}, "takes abs, rel or both"),
        ({"tolerance": {"abs": "-1"}}, "abs is '-1'; it takes a number from 0 on"),
        ({"tolerance": {"abs": "NaN"}}, "abs is 'NaN'"),
        ({"tolerance": {"rel": "Infinity"}}, "rel is 'Infinity'"),
        ({"tolerance": {"abs": 0.1}}, "abs is the float 0.1, which is not exact; write it as text"),
        ({"tolerance": {"abs": True}}, "abs is 'True', which is no number"),
        ({"tolerance": {"abs": "1,5"}}, "abs is '1,5', which is no number"),
        ({"tolerance": {"abs": "P1M"}}, "abs is 'P1M'; it takes a number or an ISO 8601 duration"),
        ({"tolerance": {"abs": "-PT1S"}}, "abs is '-PT1S'"),
        ({"tolerance": {"abs": "PT1S", "rel": "1"}}, "takes no rel beside a duration"),
        ({"tolerance": {"rel": "PT1S"}}, "rel is 'PT1S', which is no number"),
        ({"tolerance": {"abs": "1", "bound": "open"}}, "bound is 'open'; it takes inclusive, exclusive"),
        ({"tolerance": {"abs": "1", "mode": "x"}}, "has no parameter 'mode'"),
        ({"tolerance": "1"}, "takes a map of parameters, not '1'"),
        ({"single_precision": None}, "without any it is written {}"),
        ({"single_precision": {"on": 1}}, "has no parameter 'on'"),
        ({"round": {}}, "places is 'None'"),
        ({"round": {"places": "1.5"}}, "places is 1.5; it takes a whole number"),
        ({"round": {"places": 2001}}, "places is 2001"),
        ({"round": {"places": 1, "mode": "up"}}, "mode is 'up'; it takes half_even, half_up, down"),
        ({"precision": {}}, "unit is missing; it takes s, ms, us"),
        ({"precision": {"unit": "ns"}}, "unit is 'ns'"),
        ({"normalize": []}, "takes a list of steps: nfc, nfkc"),
        ({"normalize": ["lower"]}, "takes a list of steps"),
        ({"normalize": "nfc"}, "takes a map of parameters"),
        ({"normalize": {"steps": ["nfc"], "side": "left"}}, "side is 'left'; it takes both, source, target"),
        ({"null_equals": []}, "takes a list of values"),
        ({"null_equals": [None]}, "takes a list of values"),
        ({"null_equals": "zero"}, "takes a list of values"),
        ({"numeric_text": {}}, "takes abs, rel or both"),
        ({"numeric_text": {"abs": "PT1S"}}, "which is no number"),
        ({"array_order": {}}, "order is missing"),
        ({"array_order": "sorted"}, "order is 'sorted'; it takes ignored"),
        ({"read_as": {}}, "type is missing"),
        ({"read_as": {"type": "string"}}, "type is 'string'; it takes bool, int"),
        ({"read_as": {"type": "int", "otherwise": "true"}}, "otherwise is 'true'; it takes refuse, different"),
        ({"read_as": {"type": "int", "zone": "Europe/Rome"}}, "has no parameter 'zone'"),
        ({"read_as": {"type": "uuid", "layout": "guid"}}, "layout is 'guid'"),
        ({"read_as": {"type": "bytes", "encoding": "base32"}}, "encoding is 'base32'"),
        ({"read_as": {"type": "bool", "true_values": []}}, "true_values takes a list"),
        ({"read_as": {"type": "bool", "true_values": ["1"], "false_values": ["1"]}}, "'1' stands in true_values and in"),
        ({"read_as": {"type": "timestamp_tz", "zone": "Mars/Olympus"}}, "'Mars/Olympus' is no time zone"),
        ({"read_as": {"type": "timestamp_tz", "zone": 1}}, "which is no name"),
        ({"read_as": {"type": "timestamp_tz", "ambiguous": "first"}}, "ambiguous and skipped need a zone"),
        ({"read_as": {"type": "timestamp_tz", "zone": "UTC", "skipped": "first"}}, "skipped is 'first'"),
        ({"ignore": {"why": "x"}}, "has no parameter 'why'"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_refused_by_name(rule, says):
    """The message names column, rule and parameter, so that the line can be found."""
    with pytest.raises(RuleParameterError) as caught:
        one(rule)
    assert str(caught.value).startswith(f"[DELTA_RULE_PARAMETER] column 'c', rule {next(iter(rule))}: ")
    assert says in str(caught.value)


def test_an_unknown_rule_is_refused_with_the_known_ones():
    """A misspelled rule must not be skipped."""
    with pytest.raises(RuleUnknownError, match=r"\[DELTA_RULE_UNKNOWN\] column 'c': there is no rule 'tolerence'"):
        one({"tolerence": {"abs": "1"}})


@pytest.mark.parametrize("rules", [[], None, "nfc", [{}], [{"ignore": {}, "round": {}}], [["ignore"]]])
def test_what_is_no_list_of_rules_is_refused(rules):
    """An empty list most likely lost its entry."""
    with pytest.raises(RuleParameterError, match="'c'"):
        documents({"c": rules}, ("c", TEXT, TEXT, False))


def test_one_rule_needs_no_list():
    """A rule is a map of one entry under a column's name."""
    assert documents({"c": {"normalize": ["nfc"]}}, ("c", TEXT, TEXT, False)) == documents(
        {"c": [{"normalize": ["nfc"]}]}, ("c", TEXT, TEXT, False)
    )


@pytest.mark.parametrize(
    ("rule", "type", "reason"),
    [
        ({"tolerance": {"abs": "1"}}, INT, "it never applies to a key column"),
        ({"round": {"places": 1}}, DECIMAL, "it never applies to a key column"),
        ({"precision": {"unit": "s"}}, WALL, "it never applies to a key column"),
        ({"numeric_text": {"abs": "1"}}, TEXT, "it never applies to a key column"),
        ({"null_equals": [""]}, TEXT, "it never applies to a key column"),
        ({"ignore": {}}, TEXT, "it is a key column"),
        ({"read_as": {"type": "json"}}, TEXT, "a json cannot be a key"),
        ({"read_as": {"type": "int", "otherwise": "different"}}, TEXT, "different from everything has no place"),
    ],
)
def test_only_reading_and_normalising_apply_to_keys(rule, type, reason):
    """A tolerance on a key would pair rows by nearness, which is no order and no equality."""
    with pytest.raises(RuleKeyError, match=rf"\[DELTA_RULE_KEY\] column 'c', rule {next(iter(rule))}: .*{reason}"):
        one(rule, type, key=True)
    if "ignore" not in rule:
        two = documents({"*": [rule]}, ("c", type, type, True), ("v", type, type, False))
        assert [name for name, _ in two] == ["v"]


def test_ignored_columns_stand_apart_and_have_no_rules():
    """The contract lists them as excluded and nowhere else."""
    columns = [("a", TEXT, TEXT, False), ("b", TEXT, INT, False), ("k", TEXT, TEXT, True)]
    written = {"b": [{"normalize": ["nfc"]}, {"ignore": {}}], "*": [{"normalize": ["strip"]}]}
    found = normalise_rules(written, columns, str)
    assert found.ignored == ("b",)
    assert [name for name, _ in found.documents] == ["k", "a"]
    assert ignored_names(written) == ("b",)
    assert ignored_names({"*": [{"ignore": {}}]}, ["a", "b"]) == ("a", "b")
    assert normalise_rules({"*": [{"ignore": {}}]}, columns, str).ignored == ("a", "b")


def test_rules_of_a_column_that_is_not_compared_or_does_not_exist_are_refused():
    """Such a rule has no effect; its author thinks that it has."""
    with pytest.raises(SpecColumnError, match="no column x"):
        documents({"x": [{"normalize": ["nfc"]}]}, ("c", TEXT, TEXT, False))
    with pytest.raises(RuleFitError, match="'gone', rule normalize: the column is not compared"):
        normalise_rules({"gone": [{"normalize": ["nfc"]}]}, [("c", TEXT, TEXT, False)], str)


def test_a_column_under_both_of_its_names_is_refused():
    """Which rules come first would be a guess."""
    written = {"old": [{"normalize": ["nfc"]}], "new": [{"normalize": ["strip"]}]}
    with pytest.raises(RuleParameterError, match="'new' has rules under two names"):
        normalise_rules(written, [("new", TEXT, TEXT, False)], lambda name: "new")


def types(rules, source, target):
    docs = documents({"c": rules}, ("c", source, target, False))[0][1]
    found = effective_types(docs, source, target)
    return found.source_recorded.kind, found.target_recorded.kind, found.source_final.kind, found.target_final.kind


def test_the_recorded_type_is_the_one_after_the_last_reading_rule():
    """Rounding makes decimals, but what is shown is the value as read."""
    assert types([{"round": {"places": 1}}], FLOAT, DECIMAL) == ("float64", "decimal", "decimal", "decimal")
    read = {"read_as": {"type": "float64", "side": "source"}}
    assert types([read, {"single_precision": {}}], TEXT, FLOAT) == ("float64", "float64", "float32", "float32")
    assert types([{"date_as_midnight": {}}], DATE, WALL) == ("timestamp", "timestamp", "date", "timestamp")
    rules = documents({"c": [{"normalize": ["nfc"]}, {"normalize": {"steps": ["strip"], "side": "source"}},
                             {"normalize": ["casefold"]}]}, ("c", TEXT, TEXT, False))  # fmt: skip
    assert recorded_length(rules[0][1]) == 2


def test_the_schema_type_of_a_pair_follows_from_the_recorded_types():
    """None says that the pair stays incomparable, which the plan refuses."""
    assert effective_types([], INT, DECIMAL).schema == LogicalType("decimal")
    assert effective_types([], DATE, WALL).schema is None
    docs = documents({"c": [{"date_as_midnight": {}}]}, ("c", DATE, WALL, False))[0][1]
    assert effective_types(docs, DATE, WALL).schema == LogicalType("timestamp")


def test_every_type_can_be_read_as_itself_and_as_text():
    """On a column that already has the type nothing happens, so the rule fits it."""
    for kind in SCALARS:
        for wanted in (kind, "text"):
            rule = {"rule": "read_as", "type": wanted, "zone": None, "side": "both", "otherwise": "refuse"}
            assert fits(rule, LogicalType(kind))
    assert set(READABLE) == set(SCALARS)
