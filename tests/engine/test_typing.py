"""What sides are asked for because of rules: columns of unmapped types as text, zero dates, and times beyond a day."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from airflow_delta_provider.adapters.dialects.mysql_connect import _parameters
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import SideColumnTypeError, SideReadError, ValueRangeError, ValueTextError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile


class Found:
    """What a run published: schema and structure, records by key, and the count of every rule."""

    def __init__(self, source: dict[str, str], target: dict[str, str], rules: dict[str, Any], **members: Any) -> None:
        form = {"name": "p", "source": source, "target": target, "key": ["id"], "rules": rules, **members}
        store = MemoryStore()
        outcome = reconcile(parse_spec(form), store, open_side)
        self.types = dict(self._document(store, outcome.manifest["schema"]["sha256"])["columns"])
        self.findings = self._document(store, outcome.manifest["structure"]["sha256"])["findings"]
        lines = blobs.get_blob(store, outcome.manifest["body"]["sha256"]).splitlines()
        self.records = {
            record["key"][0]: (record["source_value"], record["target_value"]) for record in map(json.loads, lines)
        }
        self.rules = [tuple(row) for row in outcome.summary["rules"]]

    @staticmethod
    def _document(store: MemoryStore, digest: str) -> documents.Document:
        return json.loads(blobs.get_blob(store, digest))


@pytest.fixture
def mysql(mariadb_database: str) -> Callable[..., dict[str, str]]:
    """Run statements on an empty MariaDB database whose session allows zero dates; return its table ``t`` as a side."""

    def make(*statements: str) -> dict[str, str]:
        with pymysql.connect(**_parameters(mariadb_database), autocommit=True) as connection:
            cursor = connection.cursor()
            cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
            for statement in statements:
                cursor.execute(statement)
        return {"uri": mariadb_database, "table": "t"}

    return make


@pytest.fixture
def postgresql(postgresql_database: str) -> Callable[..., dict[str, str]]:
    """The same for PostgreSQL."""
    import psycopg

    def make(*statements: str) -> dict[str, str]:
        with psycopg.connect(postgresql_database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return {"uri": postgresql_database, "table": "t"}

    return make


def test_zero_dates_are_null_by_the_rule_that_says_so_and_by_no_other(mysql, postgresql):
    """Date, datetime and timestamp keep their types; the rule counts what is equal only because of it."""
    source = mysql(
        "CREATE TABLE t (id int, d date, w datetime(3), i timestamp NULL)",
        "INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00'), (2, '2024-02-29', '2024-02-29 01:02:03.5',"
        " '2024-02-29 01:02:03'), (3, NULL, NULL, NULL), (4, '0000-00-00', '0000-00-00', '0000-00-00'),"
        " (5, '0000-00-00', '0000-00-00', '0000-00-00')",
    )
    target = postgresql(
        "CREATE TABLE t (id int, d date, w timestamp(3), i timestamptz(0))",
        "INSERT INTO t VALUES (1, NULL, NULL, NULL), (2, '2024-02-29', '2024-02-29 01:02:03.5',"
        " '2024-02-29 01:02:03Z'), (3, NULL, NULL, NULL), (4, '0001-01-01', '0001-01-01', '0001-01-01Z')",
    )
    found = Found(source, target, {name: [{"null_equals": "zero_date"}] for name in "dwi"})
    assert found.types == {"d": "date", "w": "timestamp", "i": "timestamp_tz"}
    assert [finding["column"] for finding in found.findings] == []
    assert found.records == {
        "4": ([None, None, None], ["0001-01-01", "0001-01-01T00:00:00", "0001-01-01T00:00:00Z"]),
        "5": ([None, None, None], None),
    }
    assert found.rules == [("d", 0, 1), ("w", 0, 1), ("i", 0, 1)]


def test_zero_dates_on_both_sides_are_one_value(mysql, mariadb_database):
    """Two zero dates are equal without the rule, and a zero date is NULL for it."""
    source = mysql(
        "CREATE TABLE t (id int, d date)",
        "INSERT INTO t VALUES (1, '0000-00-00'), (2, '0000-00-00'), (3, NULL)",
        "CREATE TABLE u (id int, d date)",
        "INSERT INTO u VALUES (1, '0000-00-00'), (2, NULL), (3, '2024-01-01')",
    )
    found = Found(source, {"uri": mariadb_database, "table": "u"}, {"*": [{"null_equals": "zero_date"}]})
    assert found.rules == [("d", 0, 1)]
    assert found.records == {"3": ([None], ["2024-01-01"])}


@pytest.mark.parametrize(
    "rules",
    [{}, {"d": [{"precision": {"unit": "ms", "mode": "truncate"}}, {"null_equals": "zero_date"}]}],
    ids=["no rule", "another rule comes first"],
)
def test_a_zero_date_that_no_first_rule_takes_away_is_refused(mysql, rules):
    """No other rule may see a day that is none; the refusal says what to write."""
    side = mysql("CREATE TABLE t (id int, d datetime)", "INSERT INTO t VALUES (1, '0000-00-00')")
    with pytest.raises(ValueRangeError, match=r"0000-00-00 00:00:00 is no day.*null_equals: zero_date"):
        Found(side, side, rules)


def test_a_day_that_is_zero_in_part_stays_refused_under_the_rule(mysql):
    """Only the date without year, month and day is NULL by the rule."""
    side = mysql("CREATE TABLE t (id int, d date)", "INSERT INTO t VALUES (1, '2024-00-10')")
    with pytest.raises(ValueRangeError, match="2024-00-10 is no day"):
        Found(side, side, {"d": [{"null_equals": "zero_date"}]})


def test_lengths_of_time_are_read_as_intervals_in_full(mysql, postgresql):
    """MySQL's TIME is also a length of time, negative and beyond a day."""
    source = mysql(
        "CREATE TABLE t (id int, v time(6))",
        "INSERT INTO t VALUES (1, '838:59:59'), (2, '-00:00:00.5'), (3, '-100:00:01.000001'), (4, '12:30:00'),"
        " (5, NULL), (6, '24:00:00'), (7, '25:00:00')",
    )
    target = postgresql(
        "CREATE TABLE t (id int, v interval)",
        "INSERT INTO t VALUES (1, '838:59:59'), (2, '-00:00:00.5'), (3, '-100:00:01.000001'), (4, '12:30:00'),"
        " (5, NULL), (6, '24:00:00'), (7, '1 day 01:00:00')",
    )
    found = Found(source, target, {"v": [{"read_as": {"type": "interval", "side": "source"}}]})
    assert found.types == {"v": "interval"}
    assert found.records == {"7": (["P0M0DT90000S"], ["P0M1DT3600S"])}
    assert found.rules == [("v", 0, 5)]
    with pytest.raises(ValueRangeError, match=r"838:59:59.000000 is no time of day.*read_as: \{type: interval\}"):
        Found(source, source, {})


def test_an_unmapped_column_is_read_as_text_where_a_rule_reads_it(mysql, postgresql):
    """The engine's own text is exact; what it means is the rule's."""
    source = postgresql(
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE TABLE t (id int, net inet, p pair, r int4range, n int)",
        "INSERT INTO t VALUES (1, '10.0.0.1', ROW(1, 'x'), '[1,5)', 1), (2, '::1', ROW(2, 'y z'), 'empty', 2),"
        " (3, NULL, NULL, NULL, 3)",
    )
    target = mysql(
        "CREATE TABLE t (id int, net inet6, p text, r text, n int)",
        "INSERT INTO t VALUES (1, '::10.0.0.1', '(1,x)', '[1,5)', 1), (2, '::1', '(2,\"y z\")', 'EMPTY', 2),"
        " (3, NULL, NULL, NULL, 3)",
    )
    with pytest.raises(SideColumnTypeError, match=r"'net' has type inet\. Read it as text: read_as: \{type: text\}"):
        Found(source, target, {})
    rules = {name: [{"read_as": {"type": "text"}}] for name in ("net", "p", "r")}
    found = Found(source, target, rules, filter="n < 9 and p <> 'q'")
    assert found.types == {"net": "text", "p": "text", "r": "text", "n": "int"}
    assert found.records == {
        "1": (["10.0.0.1"], ["::10.0.0.1"]),
        "2": (["empty"], ["EMPTY"]),
    }


def test_an_unmapped_key_is_read_as_text(postgresql):
    """Its order is nobody's promise, so the rows are sorted here."""
    side = postgresql(
        "CREATE TABLE t (id macaddr PRIMARY KEY, v int)",
        "INSERT INTO t SELECT ('08:00:2b:01:02:' || lpad(to_hex((x * 7) % 256), 2, '0'))::macaddr, x"
        " FROM generate_series(0, 255) AS x",
    )
    found = Found(side, side, {"id": [{"read_as": {"type": "text"}}]})
    assert found.records == {}


def test_values_of_several_classes_are_text_in_sqlite(tmp_path):
    """Numbers by their canonical text, blobs never."""
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v, w)")
        rows = [(1, "7", "x"), (2, 7, 1), (3, 0.1, None), (4, 1e21, "y"), (5, None, 2), (6, 2**53 + 1, 3)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.execute("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT, w)")
        texts = [(1, "7"), (2, "7"), (3, "0.1"), (4, "1e+21"), (5, None), (6, "9007199254740993")]
        connection.executemany("INSERT INTO u VALUES (?, ?, NULL)", texts)
        connection.execute("CREATE TABLE b (id INTEGER PRIMARY KEY, v, w)")
        connection.executemany("INSERT INTO b VALUES (?, ?, NULL)", [(1, "a"), (2, b"a")])
    one, other, blobs_too = ({"uri": f"sqlite:///{path}", "table": name} for name in "tub")
    excluded = {"columns": {"exclude": ["w"]}}
    found = Found(one, other, {"v": [{"read_as": {"type": "text"}}]}, **excluded, filter="v <> 'zz'")
    assert found.records == {}
    with pytest.raises(SideColumnTypeError, match="classes blob and text: CAST it"):
        Found(blobs_too, other, {"v": [{"read_as": {"type": "text"}}]}, **excluded)


def test_duckdb_writes_unmapped_types_as_text(tmp_path):
    """Unions and times with a zone have a text of their own."""
    import duckdb

    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (id INT, v TIMETZ, u UNION(n INT, s VARCHAR))")
        connection.execute("INSERT INTO t VALUES (1, '10:00:00+02', 5), (2, NULL, 'five')")
        connection.execute("CREATE TABLE x (id INT, v VARCHAR, u VARCHAR)")
        connection.execute("INSERT INTO x VALUES (1, '10:00:00+02', '5'), (2, NULL, 'six')")
    rules = {name: [{"read_as": {"type": "text"}}] for name in "vu"}
    found = Found({"uri": f"duckdb:///{path}", "table": "t"}, {"uri": f"duckdb:///{path}", "table": "x"}, rules)
    assert found.records == {"2": (["five"], ["six"])}


def test_a_text_that_is_none_of_the_type_that_a_rule_reads_is_refused(postgresql):
    """Reading as text first does not weaken the rule."""
    side = postgresql("CREATE TABLE t (id int, v inet)", "INSERT INTO t VALUES (1, '10.0.0.1')")
    with pytest.raises((ValueTextError, SideReadError), match="cannot be read as int"):
        Found(side, side, {"v": [{"read_as": {"type": "int"}}]})
