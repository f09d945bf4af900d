"""Procedures of the handed cases about names, addresses and secrets, each as a test of its own; procedures.INDEX has all."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import servers
from cases import runner
from cases.notation import read_cases
from cases.procedures import INDEX, exists, records, spec, sqlite_file, write_spec

HARD_PASSWORD = "p@s%s?w/r#d +é"
VICTIM = "CREATE TABLE victim (v integer)", "INSERT INTO victim VALUES (7)"


def test_every_procedure_has_its_tests():
    """A case is never counted as passed for being listed: each is named in the index, and what it names exists."""
    cases = read_cases(Path(__file__).with_name("handed.jsonl"))
    assert {case["id"] for case in cases if case.get("procedure")} == INDEX.keys()
    assert [place for places in INDEX.values() for place in places if not exists(place)] == []


def test_a_test_that_is_not_there_is_found_missing():
    """The check above would see a renamed test."""
    assert exists("cases/test_procedures.py::test_every_procedure_has_its_tests")
    assert not exists("cases/test_procedures.py::test_every_procedure")
    assert not exists("cases/test_nowhere.py::test_every_procedure_has_its_tests")


def test_rc_199_a_dropped_column_is_nowhere_mentioned(postgresql, tmp_path):
    """PostgreSQL keeps a dropped column in its catalogue under a placeholder's name."""
    uri, connection = postgresql
    connection.execute("CREATE TABLE dropped (id integer, a text, b text)")
    connection.execute("ALTER TABLE dropped DROP COLUMN b")
    connection.execute("ALTER TABLE dropped ADD COLUMN c text")
    connection.execute("CREATE TABLE plain (id integer, a text, c text)")
    for table in ("dropped", "plain"):
        connection.execute(f"INSERT INTO {table} VALUES (1, 'x', 'y'), (2, 'p', NULL)")
    form = spec({"uri": uri, "table": "public.dropped"}, {"uri": uri, "table": "public.plain"})
    answer, shown = runner.run_case(form, tmp_path)
    assert (answer.code, shown["records"]) == (0, [])
    structure = runner.blob(tmp_path, shown["manifest"]["structure"]["sha256"])
    assert json.loads(structure)["findings"] == []
    assert "pg.dropped" not in json.dumps([answer.output, shown])


HOSTILE_TABLE = 'x"; DROP TABLE victim; --'
HOSTILE_COLUMN = 'v" FROM victim; --'
MISSING_TABLE = 'nope"; DELETE FROM victim; --'


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_rc_207_a_double_quote_stays_inside_its_name(postgresql, tmp_path):
    """A name is quoted by the dialect: it neither ends a statement nor begins one, found or not."""
    uri, connection = postgresql
    made = f"CREATE TABLE {quoted(HOSTILE_TABLE)} (id integer, {quoted(HOSTILE_COLUMN)} integer)"
    connection.execute(made)
    connection.execute(f"INSERT INTO {quoted(HOSTILE_TABLE)} VALUES (1, 1), (2, 2)")
    for statement in VICTIM:
        connection.execute(statement)
    filled = f"INSERT INTO {quoted(HOSTILE_TABLE)} VALUES (1, 1), (2, 3)"
    side = sqlite_file(tmp_path / "t.db", made, filled, *VICTIM)
    for number, (source, target) in enumerate(
        [({"uri": uri}, side), (side, {"uri": uri}), (side, side), ({"uri": uri}, {"uri": uri})]
    ):
        named = [{**one, "table": HOSTILE_TABLE} for one in (source, target)]
        answer, shown = runner.run_case(spec(*named), tmp_path / str(number))
        assert shown, answer.output
        assert records(shown) == ([("value_diverged", ["2"])] if source is not target and source != target else [])
        missing = [named[0], {**target, "table": MISSING_TABLE}]
        answer, _ = runner.run_case(spec(*missing), tmp_path / f"missing{number}")
        assert (answer.code, answer.output["error"]["code"]) == (2, "DELTA_SIDE_MISSING")
        assert "nope" in answer.output["error"]["message"]
        assert connection.execute("SELECT v FROM victim").fetchall() == [(7,)]
        with sqlite3.connect(tmp_path / "t.db") as own:
            assert own.execute("SELECT v FROM victim").fetchall() == [(7,)]


def test_rc_208_an_apostrophe_in_a_name_does_not_hide_the_primary_key(postgresql, tmp_path):
    """The key may be left out where both sides declare it, whatever schema and table are called."""
    uri, connection = postgresql
    connection.execute("""CREATE SCHEMA "o'neil" """)
    for number, table in enumerate(("it's; SELECT 1", "it's; SELECT 2")):
        connection.execute(f"""CREATE TABLE "o'neil"."{table}" (v integer, id integer PRIMARY KEY)""")
        connection.execute(f"""INSERT INTO "o'neil"."{table}" VALUES (5, 1), ({number}, 2)""")
    sides = [{"uri": uri, "table": f"o'neil.it's; SELECT {number}"} for number in (1, 2)]
    form = spec(*sides)
    del form["key"]
    answer, shown = runner.run_case(form, tmp_path)
    assert shown, answer.output
    assert shown["manifest"]["key"]["columns"] == ["id"]
    assert records(shown) == [("value_diverged", ["2"])]


@pytest.mark.parametrize("text", ["1=1; DELETE FROM victim", "1=1) ; UPDATE victim SET v=0 --", "v = 1 /* x */"])
def test_rc_210_a_second_statement_in_a_filter_is_refused(text, postgresql, mysql, tmp_path):
    """A filter is one parsed expression, and comparison reads in a read-only transaction besides."""
    made = "CREATE TABLE filtered (id integer, v integer)"
    lite = sqlite_file(tmp_path / "f.db", made, *VICTIM) | {"table": "filtered"}
    for execute in (postgresql[1].execute, mysql[1].execute):
        execute("DROP TABLE IF EXISTS filtered")
        execute("DROP TABLE IF EXISTS victim")
        for statement in (made, *VICTIM):
            execute(statement)
    sides = [
        lite,
        {"uri": postgresql[0], "table": "public.filtered"},
        {"uri": mysql[0], "table": f"{urlsplit(mysql[0]).path[1:]}.filtered"},
    ]
    for number, side in enumerate(sides):
        answer, shown = runner.run_case(spec(side, side, filter=text), tmp_path / str(number))
        assert not shown
        assert (answer.code, answer.output["error"]["code"]) == (2, "DELTA_FILTER")
    assert postgresql[1].execute("SELECT v FROM victim").fetchall() == [(7,)]
    mysql[1].execute("SELECT v FROM victim")
    assert list(mysql[1].fetchall()) == [(7,)]


@pytest.mark.parametrize("which", ["source", "target"])
@pytest.mark.parametrize("trouble", ["closed port", "wrong password"])
@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
def test_rc_213_a_failed_connection_tells_the_side_and_no_secret(engine, trouble, which, request, tmp_path):
    """Drivers like to quote the address that they were given; neither message nor traceback may."""
    uri, _ = request.getfixturevalue(engine)
    parts = urlsplit(uri)
    port = servers.free_port() if trouble == "closed port" else parts.port
    bad = f"{parts.scheme}://{parts.username}:hunter2secret@{parts.hostname}:{port}{parts.path}"
    good = sqlite_file(tmp_path / "g.db", "CREATE TABLE t (id integer)") | {"table": "t"}
    failing = {"uri": bad, "table": "t"}
    form = spec(failing, good) if which == "source" else spec(good, failing)
    answer = runner.call_process(["run", str(write_spec(form, tmp_path)), "--store", str(tmp_path / "store"), "--json"])
    assert answer.code not in (0, 1)
    assert answer.output["error"]["code"] == "DELTA_CONNECT"
    assert which in f"{answer.output['error']['message']} {answer.output['error']['where']}"
    assert "hunter2secret" not in json.dumps(answer.output) + answer.stderr


def test_rc_216_an_empty_password_masks_nothing(tmp_path):
    """With an empty secret a masker replaces the gaps between all characters."""
    sides = [sqlite_file(tmp_path / f"{name}.db", "CREATE TABLE t (id integer, v text)", f"INSERT INTO t VALUES (1, '{name}')")
             | {"table": "t"} for name in "ab"]  # fmt: skip
    answer, shown = runner.run_case(spec(*sides), tmp_path, process=True)
    assert "***" not in json.dumps([answer.output, shown]) + answer.stderr
    assert records(shown) == [("value_diverged", ["1"])]


@pytest.mark.parametrize("which", ["source", "target"])
def test_rc_217_a_password_of_special_characters_connects(which, postgresql, mysql, tmp_path):
    """The address is taken apart and decoded, part by part, on either side and for either server."""
    connection, cursor = postgresql[1], mysql[1]
    connection.execute("DROP TABLE IF EXISTS special")
    connection.execute("CREATE TABLE special (id integer, v integer)")
    connection.execute("INSERT INTO special VALUES (1, 1)")
    connection.execute("DO $$ BEGIN CREATE ROLE special LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    connection.execute(f"ALTER ROLE special PASSWORD '{HARD_PASSWORD}'")
    connection.execute("GRANT SELECT ON special TO special")
    database = urlsplit(mysql[0]).path[1:]
    cursor.execute("CREATE OR REPLACE TABLE special (id integer, v integer)")
    cursor.execute("INSERT INTO special VALUES (1, 1)")
    cursor.execute("CREATE OR REPLACE USER 'special'@'%%' IDENTIFIED BY %s", (HARD_PASSWORD,))
    cursor.execute(f"GRANT SELECT ON {database}.special TO 'special'@'%'")
    sides = []
    for uri, table in ((postgresql[0], "public.special"), (mysql[0], f"{database}.special")):
        parts = urlsplit(uri)
        address = f"{parts.scheme}://special:{quote(HARD_PASSWORD, safe='')}@{parts.hostname}:{parts.port}{parts.path}"
        sides.append({"uri": address, "table": table})
    answer, shown = runner.run_case(spec(*(sides if which == "source" else sides[::-1])), tmp_path)
    assert shown, answer.output
    assert (answer.code, shown["records"]) == (0, [])


@pytest.mark.parametrize(
    ("engine", "scheme"),
    [("postgresql", "postgres"), ("postgresql", "postgresql"), ("postgresql", "postgresql+psycopg"),
     ("mysql", "mysql"), ("mysql", "mariadb"), ("mysql", "mysql+pymysql"), ("sqlite", "sqlite")],
)  # fmt: skip
def test_rc_219_each_spelling_of_a_scheme_is_read(engine, scheme, request, tmp_path):
    """A type of connection and the scheme of an address are not always spelled alike."""
    if engine == "sqlite":
        side = sqlite_file(tmp_path / "s.db", "CREATE TABLE t (id integer)") | {"table": "t"}
    else:
        uri, execute = request.getfixturevalue(engine)
        execute.execute("CREATE TABLE IF NOT EXISTS schemes (id integer)")
        parts = urlsplit(uri)
        table = "public.schemes" if engine == "postgresql" else f"{parts.path[1:]}.schemes"
        side = {"uri": f"{scheme}://{parts.netloc}{parts.path}", "table": table}
    answer, shown = runner.run_case(spec(side, side), tmp_path)
    assert shown, answer.output


def test_rc_219_an_unknown_scheme_is_refused_by_name(tmp_path):
    """Before any query, and with what there is."""
    side = {"uri": "paradox://user@host/db", "table": "t"}
    answer, _ = runner.run_case(spec(side, side), tmp_path)
    assert (answer.code, answer.output["error"]["code"]) == (2, "DELTA_SIDE_SCHEME")
    assert "paradox" in answer.output["error"]["message"]
    assert "postgresql" in answer.output["error"]["message"]
