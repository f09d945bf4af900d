"""Specifications: read exactly, refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_delta_provider.core.errors import (
    DeltaError,
    InputPathError,
    SpecEnvError,
    SpecFieldError,
    SpecSyntaxError,
    SpecValueError,
)
from airflow_delta_provider.core.spec import SideSpec, default_label, load_spec, parse_spec, parse_yaml

SIDES = {"source": {"path": "a.parquet"}, "target": {"path": "b.parquet"}}


def form(**members: Any) -> dict[str, Any]:
    return {"name": "orders", **SIDES, **members}


def test_defaults_are_those_of_the_contract():
    """What a specification does not say goes into the hashed contract all the same."""
    spec = parse_spec(form())
    assert (spec.schema_version, spec.contract_version, spec.detail, spec.strategy) == ("1", "1", "values", "auto")
    assert (spec.nulls, spec.duplicates, spec.names, spec.inline_limit) == ("refuse", "refuse", "exact", 65536)
    assert (spec.shard_rows, spec.shard_count, spec.shard_bounds) == (2_000_000, None, None)
    assert (spec.limits.max_discrepancies, spec.limits.max_seconds, spec.limits.max_bytes) == (None, None, None)


def test_the_contract_takes_the_version_of_the_schema_where_it_has_none():
    """One version is enough for most."""
    assert parse_spec(form(schema_version="2026-11")).contract_version == "2026-11"
    assert parse_spec(form(schema_version=3)).schema_version == "3"


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"tabel": 1}, "tabel"),
        ({"keys": {"null": "match"}}, "keys.null"),
        ({"columns": {"rename": {}}}, "columns.rename"),
        ({"source": {"path": "a", "tables": "x"}}, "source.tables"),
        ({"csv": {"separator": ";"}}, "csv.separator"),
        ({"limits": {"max_rows": 1}}, "limits.max_rows"),
        ({"key_range": {"until": [1]}}, "key_range.until"),
        ({"filter": {"both": "a = 1"}}, "filter.both"),
        ({"recheck": {"retries": 1}}, "recheck.retries"),
        ({1: 2}, "1"),
        ({"name": None}, "name"),
        ({"target": None}, "target"),
        ({"source": {"table": "t"}}, "source"),
        ({"source": {"uri": "sqlite:///x", "path": "y", "table": "t"}}, "source"),
        ({"source": {"uri": "sqlite:///x"}}, "source"),
        ({"source": {"uri": "sqlite:///x", "table": "t", "query": "SELECT 1"}}, "source"),
        ({"source": {"path": "y", "table": "t"}}, "source"),
        ({"shards": {"rows": 1, "count": 1}}, "shards"),
        ({"hmac": {"conn_id": "a", "env": "B"}}, "hmac"),
        ({"hmac": {"env": 1}}, "hmac"),
    ],
)
def test_an_unknown_or_missing_field_is_refused_by_its_name(members, where):
    """A misspelt field that is ignored would compare something else than was asked for."""
    with pytest.raises(SpecFieldError, match=r"^\[DELTA_SPEC_FIELD\]") as caught:
        parse_spec(form(**members) if 1 not in members else {**form(), 1: 2})
    assert caught.value.where == where
    assert where.split(".")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"name": "Orders"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": 7}, "name"),
        ({"schema_version": ""}, "schema_version"),
        ({"schema_version": "é" * 33}, "schema_version"),
        ({"schema_version": True}, "schema_version"),
        ({"key": []}, "key"),
        ({"key": "id"}, "key"),
        ({"key": ["id", "id"]}, "key"),
        ({"key": [""]}, "key"),
        ({"keys": {"nulls": "ignore"}}, "keys.nulls"),
        ({"keys": {"duplicates": "match"}}, "keys.duplicates"),
        ({"keys": {"nulls": None}}, "keys.nulls"),
        ({"keys": []}, "keys"),
        ({"columns": {"map": {}}}, "columns.map"),
        ({"columns": {"map": {"a": "c", "b": "c"}}}, "columns.map"),
        ({"columns": {"map": {"a": 1}}}, "columns.map"),
        ({"columns": {"exclude": []}}, "columns.exclude"),
        ({"columns": {"names": "lower"}}, "columns.names"),
        ({"filter": "  "}, "filter"),
        ({"filter": {"source": " "}}, "filter.source"),
        ({"filter": {"source": 1}}, "filter.source"),
        ({"key_range": {"from": 5}}, "key_range.from"),
        ({"key_range": {"to": [1.5]}}, "key_range.to"),
        ({"key_range": {"to": []}}, "key_range.to"),
        ({"shards": {"count": 0}}, "shards.count"),
        ({"shards": {"count": True}}, "shards.count"),
        ({"shards": {"rows": "many"}}, "shards.rows"),
        ({"shards": {"bounds": []}}, "shards.bounds"),
        ({"shards": {"bounds": [5]}}, "shards.bounds"),
        ({"shards": {"bounds": [None]}}, "shards.bounds"),
        ({"detail": "all"}, "detail"),
        ({"sensitive": "email"}, "sensitive"),
        ({"recheck": {"attempts": -1}}, "recheck.attempts"),
        ({"recheck": {"delay": "30s"}}, "recheck.delay"),
        ({"recheck": {"delay": "PT"}}, "recheck.delay"),
        ({"strategy": "quick"}, "strategy"),
        ({"inline_limit": 0}, "inline_limit"),
        ({"limits": {"max_bytes": "20 gigs"}}, "limits.max_bytes"),
        ({"limits": {"max_bytes": 0}}, "limits.max_bytes"),
        ({"limits": {"max_seconds": 0}}, "limits.max_seconds"),
        ({"limits": {"max_discrepancies": -1}}, "limits.max_discrepancies"),
        ({"source": {"path": ""}}, "source.path"),
        ({"source": {"uri": 5, "table": "t"}}, "source.uri"),
    ],
)
def test_a_value_that_a_field_cannot_take_is_refused_by_the_fields_name(members, where):
    """Nothing is guessed, rounded or cut."""
    with pytest.raises(SpecValueError, match=r"^\[DELTA_SPEC_VALUE\]") as caught:
        parse_spec(form(**members))
    assert caught.value.where == where
    assert where in str(caught.value)


def test_a_sweep_has_no_source():
    """It compares with the generation before."""
    assert parse_spec({"name": "s", "target": {"path": "b"}}, sweep=True).source is None
    with pytest.raises(SpecFieldError, match="takes no source"):
        parse_spec(form(), sweep=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.10", "0.10"),
        ("1e3", "1e3"),
        ("2026-11-01", "2026-11-01"),
        ("yes", "yes"),
        ("012", "012"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        (".inf", ".inf"),
        ("<<", "<<"),
        ("true", True),
        ("null", None),
        ("-7", -7),
        ("+7", 7),
        ('"7"', "7"),
    ],
)
def test_yaml_changes_no_value(text, value):
    """A tolerance of 0.10 is read by its text, a version 2026-11-01 is no date, a country code no is no boolean."""
    found = parse_yaml(f"a: {text}".encode(), "spec")["a"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2",
        "a: {b: 1, b: 2}",
        "- 1",
        "",
        "a: [",
        "a: 1\n---\nb: 2",
        "? [1]\n: 2",
        "a: " + "1" * 5000,
        "a: !!int x",
        "a: !!bool maybe",
        "a: !!float ''",
        "a: !!timestamp foo",
        "a: !!timestamp 2020-13-45",
        "a: !!set {b}",
        "a: !!binary eA==",
        "a: !!map [1]",
        "a: !!python/name:os.system ''",
        "a: &x [*x]",
        "[" * 20_000,
        "a: \x01",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_what_is_no_specification_is_refused_and_not_a_traceback(text):
    """A traceback would end with the exit code that says: there are discrepancies."""
    with pytest.raises(SpecSyntaxError, match=r"^\[DELTA_SPEC_SYNTAX\] spec"):
        parse_yaml(text.encode(), "spec")


def test_bytes_that_are_no_utf_8_are_refused():
    """A specification is text."""
    with pytest.raises(SpecSyntaxError):
        parse_yaml(b"a: \xff\xfe\xfd", "spec")


def test_json_is_read_as_yaml(tmp_path):
    """A rendered specification is JSON as a rule."""
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(form(key=["id"], key_range={"from": [1, None, "x"]})))
    spec = load_spec(path)
    assert (spec.key, spec.key_from) == (("id",), (1, None, "x"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    """The first mistake of all."""
    with pytest.raises(InputPathError, match=r"\[DELTA_INPUT_PATH\] specification .*none\.yaml: No such file"):
        load_spec(tmp_path / "none.yaml")


def test_a_file_of_megabytes_is_no_specification(tmp_path):
    """Nothing is read without a bound."""
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(SpecSyntaxError, match="larger than 1048576 bytes"):
        load_spec(path)


@pytest.mark.parametrize(
    ("side", "label"),
    [
        (SideSpec(conn_id="legacy", table="public.orders"), "legacy:public.orders"),
        (SideSpec(uri="postgresql://u:secret@h/db", table="orders"), "postgresql:orders"),
        (SideSpec(path="/data/in/orders-*.parquet"), "orders-*.parquet"),
        (SideSpec(conn_id="x", query="SELECT 1"), "query:e004ebd5b5532a4b"),
    ],
)
def test_a_side_without_a_label_gets_one_that_holds_no_secret(side, label):
    """Labels stand in the manifest."""
    assert default_label(side) == label


def test_environment_variables_are_replaced_only_when_a_side_is_opened():
    """The stored form of a specification holds no secret."""
    side = parse_spec(form(source={"uri": "postgresql://u:${PW}@h/db", "table": "t"})).source
    assert side is not None
    assert (side.label, side.form()["uri"]) == ("postgresql:t", "postgresql://u:${PW}@h/db")
    assert side.expanded({"PW": "s3cret"}).uri == "postgresql://u:s3cret@h/db"
    assert "s3cret" not in repr(side.expanded({"PW": "s3cret"}))
    with pytest.raises(SpecEnvError, match=r"\[DELTA_SPEC_ENV\] environment variable PW is not set"):
        side.expanded({})


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("20GiB", 20 * 2**30), ("5 MB", 5_000_000), (7, 7)])
def test_bytes_may_have_a_unit(text, count):
    """20GiB, as the contract writes it."""
    assert parse_spec(form(limits={"max_bytes": text})).limits.max_bytes == count


def test_a_filter_may_be_shared_or_be_for_each_side():
    """Only a shared one is renamed for the target."""
    assert parse_spec(form(filter=" a = 1 ")).filter_source == "a = 1"
    spec = parse_spec(form(filter={"target": "b = 1"}))
    assert (spec.filter_source, spec.filter_target, spec.filter_shared) == (None, "b = 1", False)


def test_every_refusal_of_a_specification_can_be_shown_as_json():
    """``--json`` prints the code, the message, the place and what to do."""
    with pytest.raises(DeltaError) as caught:
        parse_spec(form(detail="all"))
    assert caught.value.document() == {
        "code": "DELTA_SPEC_VALUE",
        "message": "detail is 'all'; it takes values, digests, keys, counts.",
        "where": "detail",
        "remedy": "Correct the value; the message says what it takes.",
    }
