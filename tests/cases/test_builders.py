"""Tests of the runner's own parts: what it writes must be what the case says, or its verdicts mean nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from cases.canonical import canonical
from cases.engines import ENGINES, choose, choose_pair, column_type, fits, parse_side
from cases.notation import Stored, UnknownNotation, declared, instant_ns, read_cases, value
from cases.readback import plain, read_back
from cases.runner import Answer as RunAnswer
from cases.runner import check_error, expected_records, specification, variations
from cases.writers import Databases, Place, write_side

HANDED = read_cases(Path(__file__).with_name("handed.jsonl"))


def _side(engine="any", **more):
    return parse_side({"engine": engine, **more})


RICH = _side(
    columns={"id": "bigint", "n": "numeric(18,4)", "x": "double", "r": "real", "f": "boolean", "s": "text", "b": "bytea",
             "d": "date", "t": "timestamp", "z": "timestamptz", "u": "uuid", "a": "text[]", "c": "time",
             "e": "enum('it''s','b')"},
    rows=[
        [-(2**63), "-12345678901234.5678", 0.1, 16777217.0, True, "n\u00e4\U0001f3a9 \"'\\\n", {"$hex": "00ff27"},
         "2024-02-29", "2024-02-29 23:59:59.999999", "2024-06-01 00:00:00.5+02:00",
         "0b1f6d2e-9c3a-4f77-8a55-1d2e3f405162", ["x", None, ""], "23:59:59.999999", "it's"],
        [2**63 - 1, "0.0000", -1.5e-7, 1.1, False, "", {"$hex": ""}, "1970-01-01", "1969-12-31 23:59:59",
         "1970-01-01 00:00:01Z", "feedbeef-0000-4000-8000-00000000000f", [], "00:00:00", "b"],
        [0] + [None] * 13,
    ],
)  # fmt: skip


@pytest.fixture
def databases(request):
    """Databases of the servers that the test's engine needs."""

    def of(engine):
        if engine == "postgresql":
            return Databases(postgresql=request.getfixturevalue("linguistic_postgresql_server").create_database())
        if engine == "mysql":
            return Databases(mysql=request.getfixturevalue("mariadb_server").create_database())
        return Databases()

    return of


def _narrowed(engine, side):
    """Return the side with only the columns that an engine holds exactly."""
    names = [name for name in side.columns if column_type(engine, name, side) is not None]
    places = [list(side.columns).index(name) for name in names]
    rows = [[row[place] for place in places] for row in side.rows]
    return type(side)(side.engine, {name: side.columns[name] for name in names}, rows, None, side.hints)


def _same(engine, side, got):
    kinds = list(side.columns.values())
    asked = [[plain(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in side.rows]
    if engine == "csv":
        got = [
            [None if cell is None and read == "" else read for cell, read in zip(row, line, strict=True)]
            for row, line in zip(side.rows, got, strict=True)
        ]
    found = [[plain(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in got]
    assert found == asked


@pytest.mark.parametrize(
    ("engine", "columns"),
    [
        ("sqlite", "id x s b"),
        ("duckdb", "id n x r f s b d t z u a c e"),
        ("postgresql", "id n x r f s b d t z u a c e"),
        ("mysql", "id n x r s b d t z c e"),
        ("parquet", "id n x r f s b d t z u a c"),
        ("csv", "id n s"),
        ("jsonl", "id f s"),
    ],
)
def test_an_engine_gives_back_what_was_written(engine, columns, tmp_path, databases):
    """A value that changes while it is written would make a case pass, or fail, for the wrong reason."""
    side = _narrowed(engine, RICH)
    assert " ".join(side.columns) == columns
    place = databases(engine)
    write_side(engine, side, "rich", tmp_path, place)
    _same(engine, side, read_back(engine, side, "rich", tmp_path, place))


@pytest.mark.parametrize("engine", ENGINES)
def test_handed_sides_survive_an_engine_that_fits(engine, tmp_path, databases):
    """Fitting is a promise: each value of the side is held exactly."""
    place = databases(engine)
    chosen = random.Random(7).sample(
        [
            (f"{case['id']}_{which}".replace("-", "_"), side)
            for case in HANDED
            for which in ("source", "target")
            if case.get(f"{which}_side")
            for side in [parse_side(case[f"{which}_side"])]
            if side.raw is None and "primary_key" not in side.hints and fits(engine, side)
        ],
        25,
    )
    for name, side in chosen:
        write_side(engine, side, name, tmp_path, place)
        _same(engine, side, read_back(engine, side, name, tmp_path, place))


@pytest.mark.parametrize(
    ("text", "kind", "arguments"),
    [
        ("numeric(10,2)", "decimal", (10, 2)),
        ("bigint unsigned", "int", ()),
        ("double precision", "float64", ()),
        ("integer not null", "int", ()),
        ("enum('a','it''s')", "enum", ("a", "it's")),
        ("timestamp(3)", "timestamp", (3,)),
        ("timestamptz", "timestamp_tz", ()),
        ("varchar2(40)", "text", (40,)),
    ],
)
def test_declared_types_name_the_logical_type(text, kind, arguments):
    """The declared type decides which engines may stand in."""
    found = declared(text)
    assert (found.kind, found.arguments) == (kind, arguments)


def test_every_declared_type_and_value_of_the_handed_cases_is_read():
    """A notation that the runner can't read would skip its case in silence."""
    for case in HANDED:
        for which in ("source_side", "target_side"):
            if case.get(which):
                parse_side(case[which])


def test_an_unknown_notation_is_refused():
    """Guessing at a value would test something else."""
    for form in ({"$what": 1}, {"a": 1, "b": 2}):
        with pytest.raises(UnknownNotation):
            value(form, declared("text"))
    with pytest.raises(UnknownNotation):
        declared("geometry")


def test_integers_are_read_without_floating_point():
    """2^53 + 1 must not become 2^53."""
    assert value(json.loads("9007199254740993"), declared("bigint")) == 9007199254740993


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (18446744073709551615, "decimal", "18446744073709551615"),
        ("1.500", "decimal", "1.5"),
        ("-0.00", "decimal", "0"),
        ("1000", "decimal", "1000"),
        (1e21, "float64", "1e+21"),
        (1e-7, "float64", "1e-7"),
        (1.1e-7, "float64", "1.1e-7"),
        (123456789012345680000.0, "float64", "123456789012345680000"),
        (0.000001, "float64", "0.000001"),
        (-0.0, "float64", "0"),
        ("C0FFEE00-1234-4ABC-9DEF-0123456789AB", "uuid", "c0ffee00-1234-4abc-9def-0123456789ab"),
        (b"\x00\xff", "bytes", "00ff"),
        ("2023-04-28 00:00:00.250000", "timestamp", "2023-04-28T00:00:00.25"),
        ("1973-10-31 23:22:21+02:00", "timestamp_tz", "1973-10-31T21:22:21Z"),
        ("2021-09-22", "date", "2021-09-22"),
        ("0044-03-15 BC", "date", "-000043-03-15"),
        ("24:00:00", "time", "24:00:00"),
        (None, "int", None),
    ],
)
def test_expected_keys_have_one_canonical_form(given, kind, expected):
    """Keys are compared by canonical value, computed here apart from the product."""
    assert canonical(given, kind) == expected


def test_instants_count_from_1970_through_the_calendar():
    """Days are counted without a date class, which knows neither BC nor nanoseconds."""
    assert instant_ns("1970-01-01") == 0
    assert instant_ns("1816-03-30 05:56:08.066277376") == -4852116231933722624
    assert instant_ns("9999-12-31 23:59:59.999999") == 253402300799999999000


def test_any_turns_through_all_engines():
    """In time every engine stands on both sides (rule 1)."""
    side = _side(columns={"id": "integer", "s": "text"}, rows=[[1, "a"]])
    for which in ("source", "target"):
        assert {choose(side, "rc-1", which, seed, ENGINES)[0] for seed in range(7)} == set(ENGINES)


def test_a_named_engine_at_hand_is_used_and_another_is_replaced_by_one_that_fits():
    """Rules 2, 3 and 6."""
    named = _side("duckdb", columns={"id": "integer"}, rows=[[1]])
    assert choose(named, "c", "source", 3, ENGINES) == ("duckdb", "")
    nul = _side("oracle", columns={"s": "varchar2(10)"}, rows=[["A\x00"]])
    assert {choose(nul, "c", "source", seed, ENGINES)[0] for seed in range(9)} == {
        "sqlite",
        "duckdb",
        "mysql",
        "parquet",
    }
    padded = _side("db2", columns={"s": "char(4)"}, rows=[["ab  "]])
    assert choose(padded, "c", "source", 0, ("sqlite", "duckdb", "csv"))[0] == ""


def test_text_files_on_both_sides_never_need_two_types_under_one_name():
    """``csv.types`` is one map for both sides."""
    source = _side(columns={"id": "integer", "n": "integer"}, rows=[])
    target = _side(columns={"id": "integer", "n": "numeric(10,2)"}, rows=[])
    for seed in range(20):
        first, second = choose_pair(source, target, "c", seed, ("csv", "duckdb"))
        assert (first[0], second[0]) != ("csv", "csv")


@pytest.mark.parametrize(
    ("form", "excluded"),
    [
        ({"columns": {"x": "double"}, "rows": [[{"$float": "NaN"}]]}, {"sqlite", "mysql"}),
        ({"columns": {"n": "numeric"}, "rows": [["Infinity"]]}, {"sqlite", "duckdb", "mysql", "parquet"}),
        (
            {"columns": {"t": "timestamp(9)"}, "rows": [["2024-05-01 00:00:00.000000001"]]},
            {"sqlite", "postgresql", "mysql"},
        ),
        ({"columns": {"t": "timestamptz"}, "rows": [["2040-01-01 00:00:00Z"]]}, {"sqlite", "mysql"}),
        ({"columns": {"A": "integer", "a": "integer"}, "rows": []}, {"sqlite", "duckdb", "mysql"}),
        ({"columns": {"e": "enum('z','a')"}, "rows": [["a"]]}, {"sqlite", "parquet", "csv", "jsonl"}),
        ({"columns": {"n": "bigint unsigned"}, "rows": [[2**64 - 1]]}, {"sqlite", "postgresql"}),
    ],
)
def test_an_engine_that_cannot_hold_a_value_does_not_fit(form, excluded):
    """A value that an engine would bend must never reach it."""
    side = _side(**form)
    fitting = {engine for engine in ENGINES if fits(engine, side)}
    assert fitting and not fitting & excluded
    assert not excluded - set(ENGINES)


def test_stored_classes_are_kept_in_sqlite(tmp_path):
    """A number with a fraction in a column declared integer is what the case is about."""
    side = _side(
        "sqlite",
        columns={"id": "integer", "r": "integer"},
        rows=[[1, {"$stored": ["real", 5.0]}], [2, {"$stored": ["text", "7"]}], [3, 5]],
    )
    assert side.rows[0][1] == Stored("real", 5.0)
    write_side("sqlite", side, "dynamic", tmp_path, Databases())
    assert read_back("sqlite", side, "dynamic", tmp_path, Databases()) == [[1, 5.0], [2, "7"], [3, 5]]


def test_parquet_keeps_row_groups_and_arrow_types(tmp_path):
    """Statistics and dictionaries are where readers go wrong."""
    from pyarrow import parquet

    side = _side(
        "parquet",
        columns={"k": "text", "t": "timestamp(9)"},
        rows=[["b", "2024-01-01 00:00:00.000000001"], ["a", None], ["c", None]],
        row_groups=[[0, 1], [2]],
        arrow_types={"k": "dictionary<int8, string>"},
        unit="ns",
    )
    write_side("parquet", side, "groups", tmp_path, Databases())
    file = parquet.ParquetFile(tmp_path / "groups.parquet")
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [2, 1]
    assert [str(kind) for kind in file.schema_arrow.types] == [
        "dictionary<values=string, indices=int8, ordered=0>",
        "timestamp[ns]",
    ]


def test_a_linguistic_collation_sorts_otherwise_than_bytes(linguistic_postgresql_server):
    """The hint must bite where the server can do it: else the case tests nothing."""
    psycopg = pytest.importorskip("psycopg")
    uri = linguistic_postgresql_server.create_database()
    case = next(case for case in HANDED if case["id"] == "rc-021")
    side = parse_side(case["source_side"])
    write_side("postgresql", side, "collated", Path(), Databases(postgresql=uri))
    with psycopg.connect(uri) as connection:
        found = connection.execute("SELECT k FROM collated ORDER BY k").fetchall()
        icu = connection.execute("SELECT count(*) FROM pg_collation WHERE collname = 'en-US-x-icu'").fetchone()
    if icu and icu[0]:
        assert [row[0] for row in found] != sorted(row[0] for row in found)


def test_a_specification_is_complete_and_says_the_types_of_text_files():
    """A CSV column without a type would be guessed."""
    case = next(case for case in HANDED if case["id"] == "rc-063")
    places = (
        Place("csv", {"path": "s.csv"}, {"id": "int", "v": "text"}),
        Place("duckdb", {"uri": "duckdb:///x", "table": "t"}),
    )
    assert specification(case, places, {"shards": {"count": 7}}) == {
        "name": "rc-063",
        "schema_version": "1",
        "key": ["id"],
        "shards": {"count": 7},
        "source": {"path": "s.csv", "label": "case:source"},
        "target": {"uri": "duckdb:///x", "table": "t", "label": "case:target"},
        "csv": {"types": {"id": "int", "v": "text"}},
    }


def test_expected_records_speak_the_manifest_s_language():
    """Keys under the manifest's types, columns under the target's names."""
    case = next(case for case in HANDED if case["id"] == "rc-178")
    shown = {"manifest": {"key": {"types": ["int"]}}}
    source, target = parse_side(case["source_side"]), parse_side(case["target_side"])
    assert expected_records(case, source, shown, target) == [
        ("added", '["4"]', ()),
        ("dropped", '["3"]', ()),
        ("value_diverged", '["2"]', ("amount",)),
    ]


def test_cases_with_shards_or_pages_run_with_others_too():
    """The answer must not depend on how the work was cut."""
    labels = [way.label for way in variations({"options": {"shards": 2}})]
    assert labels == ["as it stands", "1 shards", "2 shards", "7 shards", "1 row a page", "3 rows a page"]
    assert [way.label for way in variations({"options": {}})] == ["as it stands"]


def test_a_refusal_has_to_say_what_the_case_asks_for():
    """Exit 2 alone could be any refusal, for any reason."""
    case = next(case for case in HANDED if case["id"] == "rc-002")
    error = {"code": "DELTA_KEY_NULL", "where": "code", "remedy": ""}
    good = "key column code is NULL in 2 rows of source and in 1 row of target."
    check_error(case, RunAnswer(2, {"error": error | {"message": good}}, ""))
    for code, message in ((1, good), (2, "key column code is NULL."), (2, good + " They are duplicates.")):
        with pytest.raises(AssertionError):
            check_error(case, RunAnswer(code, {"error": error | {"message": message}}, ""))
