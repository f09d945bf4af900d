"""Which column meets which: no column is lost, and no name means two."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.errors import SideNamesError, SpecColumnError, SpecKeyError, SpecValueError
from airflow_delta_provider.core.pairing import Names, Pair, Pairing, pair_columns, structure_findings
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.types import LogicalType


def side(*names: str, kind: str = "int") -> tuple[Column, ...]:
    return tuple(Column(name, LogicalType(kind), kind) for name in names)


def paired(source: tuple[Column, ...], target: tuple[Column, ...], primary: Any = ((), ()), **members: Any) -> Pairing:
    form = {"name": "p", "source": {"path": "s"}, "target": {"path": "t"}, **members}
    spec = parse_spec(form)
    return pair_columns(Names(source, target, spec), target, spec, primary_keys=primary)


def test_columns_pair_by_exact_name_in_the_order_of_the_target():
    """The schema document lists them so."""
    found = paired(side("id", "a", "b", "gone"), side("new", "b", "id", "a"), key=["id"])
    assert found == Pairing((Pair("id", "id"),), (Pair("b", "b"), Pair("a", "a")), (), ("new",), ("gone",))


def test_a_target_that_map_names_loses_its_own_partner():
    """Else one column would be compared twice."""
    found = paired(side("id", "a", "b"), side("id", "b"), key=["id"], columns={"map": {"a": "b"}})
    assert (found.values, found.dropped) == ((Pair("a", "b"),), ("b",))


def test_a_mapped_source_loses_its_own_partner_too():
    """The target's column of that name is then an added one."""
    found = paired(side("id", "a"), side("id", "a", "b"), key=["id"], columns={"map": {"a": "b"}})
    assert (found.values, found.added) == ((Pair("a", "b"),), ("a",))


@pytest.mark.parametrize("member", ["exclude", "rules"])
def test_a_name_without_partner_never_means_another_column_of_the_target(member):
    """``exclude: [a]`` for the source's own a must not leave out the pair z-a: a wrong "equal"."""
    source, target = side("id", "z", "a"), side("id", "a")
    spec = {"key": ["id"], "columns": {"map": {"z": "a"}, "exclude": ["a"]}}
    with pytest.raises(SpecColumnError, match=r"columns\.exclude: 'a' is a column of the source without a partner"):
        paired(source, target, **spec)
    form = {"name": "p", "source": {"path": "s"}, "target": {"path": "t"}, "columns": {"map": {"z": "a"}}}
    with pytest.raises(SpecColumnError):
        Names(source, target, parse_spec(form)).documented("a", member)


def test_case_insensitive_names_pair_and_refuse_twins():
    """Two columns under one name leave no way to tell them apart."""
    found = paired(side("ID", "Name"), side("id", "NAME"), key=["iD"], columns={"names": "case_insensitive"})
    assert (found.key, found.values) == ((Pair("ID", "id"),), (Pair("Name", "NAME"),))
    with pytest.raises(SideNamesError, match=r"\[DELTA_SIDE_NAMES\] source: columns 'a' and 'A' have one name"):
        paired(side("id", "a", "A"), side("id"), key=["id"], columns={"names": "case_insensitive"})


@pytest.mark.parametrize("pairs", [{"A": "x", "a": "y"}, {"a": "X", "b": "x"}])
def test_map_names_no_column_twice_whatever_its_case(pairs):
    """The first of the two pairs would be lost in silence."""
    with pytest.raises(SpecValueError, match=r"columns\.map names column '.' twice"):
        paired(
            side("id", "a", "b"),
            side("id", "x", "y"),
            key=["id"],
            columns={"map": pairs, "names": "case_insensitive"},
        )


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"columns": {"map": {"none": "a"}}}, "columns.map: the source has no column 'none'"),
        ({"columns": {"map": {"a": "none"}}}, "columns.map: the target has no column 'none'"),
        ({"columns": {"exclude": ["none"]}}, "columns.exclude: neither side has a column 'none'"),
        ({"key": ["none"]}, "key: neither side has a column 'none'"),
        ({"key": ["only"]}, "key: the target has no partner for column 'only'"),
        ({"key": ["new"]}, "key: the source has no partner for column 'new'"),
    ],
)
def test_a_column_that_is_not_there_is_named_with_its_side(members, message):
    """Of either side, for exclude too."""
    with pytest.raises(SpecColumnError, match=r"\[DELTA_SPEC_COLUMN\]") as caught:
        paired(side("id", "a", "only"), side("id", "a", "new"), **{"key": ["id"], **members})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"key": ["id"], "columns": {"exclude": ["id"]}}, "'id' is a key and excluded"),
        ({"key": ["a", "b"], "columns": {"map": {"a": "b"}}}, "the target has no partner"),
    ],
)
def test_a_key_is_compared_by(members, message):
    """And stands once."""
    with pytest.raises((SpecValueError, SpecColumnError), match=message):
        paired(side("id", "a", "b"), side("id", "a", "b"), **members)


def test_the_same_primary_key_on_both_sides_is_the_key():
    """``key`` may be left out then, and only then."""
    found = paired(side("id", "x"), side("id", "x"), primary=(("id",), ("id",)))
    assert found.key == (Pair("id", "id"),)
    for primary in [((), ()), (("id",), ("x",)), (("id",), ()), (("id", "x"), ("x", "id"))]:
        with pytest.raises(SpecKeyError, match=r"\[DELTA_SPEC_KEY\]"):
            paired(side("id", "x"), side("id", "x"), primary=primary)


@pytest.mark.parametrize("name", ["\x00keep", "\x00key"])
@pytest.mark.parametrize("at", ["source", "target"])
def test_a_column_called_like_one_of_the_reads_own_is_refused(name, at):
    """A column of booleans named as the filter's result would decide which rows are left out."""
    sides = {"source": side("id", "v"), "target": side("id", "v")}
    sides[at] = (*sides[at], Column(name, LogicalType("bool"), "bool"))
    other = "target" if at == "source" else "source"
    sides[other] = (*sides[other], Column("mine", LogicalType("bool"), "bool"))
    pairs = {name: "mine"} if at == "source" else {"mine": name}
    with pytest.raises(SideNamesError, match=f"^\\[DELTA_SIDE_NAMES\\] {at}: "):
        paired(sides["source"], sides["target"], key=["id"], columns={"map": pairs})
    assert paired(sides["source"], sides["target"], key=["id"]).values == (Pair("v", "v"),)


def test_structure_findings_leave_out_what_is_excluded():
    """What nobody wants to compare is no finding."""
    source = (*side("id", "a", "gone", "left"), Column("t", LogicalType("decimal", precision=12, scale=2), "numeric"))
    target = (*side("id", "a", "new", "right"), Column("t", LogicalType("decimal", precision=14, scale=4), "numeric"))
    pairing = paired(source, target, key=["id"], columns={"exclude": ["left", "right"]})
    assert structure_findings(pairing, source, target) == [
        ("new", "column_added", None, "int"),
        ("gone", "column_dropped", "int", None),
        ("t", "type_changed", "decimal(12,2)", "decimal(14,4)"),
    ]


def test_names_of_any_characters_are_names():
    """Emoji, quotes, blanks, a zero byte: data, not syntax."""
    names = ["id", 'a"b', "a'b", "\U0001f600", "", " ", "a\x00b", "é", "e\u0301"]
    found = paired(side(*names), side(*reversed(names)), key=["id"])
    assert [pair.target for pair in found.values] == [name for name in reversed(names) if name != "id"]
