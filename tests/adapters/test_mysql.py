"""MySQL and MariaDB as a side: the readers' suite on MariaDB, and what only these engines do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pymysql
import pytest
from adapters.reader_suite import Build, ReaderSuite, values_of

from airflow_delta_provider.adapters.dialects.mysql_connect import _parameters, connector
from airflow_delta_provider.adapters.filters import parse_filter
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import KEEP_COLUMN, Order, RangeCost, Request, Side
from airflow_delta_provider.core.errors import (
    ConnectError,
    SideColumnTypeError,
    SideMissingError,
    SideReadError,
    ValueRangeError,
)
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import LogicalType

TYPES = {
    "int": "bigint", "decimal": "decimal(60,20)", "float32": "float", "float64": "double", "text": "varchar(100)",
    "bytes": "varbinary(100)", "uuid": "uuid", "date": "date", "time": "time(6)", "timestamp": "datetime(6)",
    "timestamp_tz": "timestamp(6) null",
}  # fmt: skip
INT, TEXT = LogicalType("int"), LogicalType("text")
Run = Callable[..., list[tuple[Any, ...]]]


def opened(uri: str) -> Any:
    """Return a connection of the tests' own, with the strictest checks off so that odd values can be stored."""
    connection = pymysql.connect(**_parameters(uri), autocommit=True)
    connection.cursor().execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    return connection


def stored(kind: str, value: Any) -> Any:
    """Return a canonical value as the server reads it."""
    if value is None:
        return None
    if kind == "bytes":
        return bytes.fromhex(value)
    return value.rstrip("Z").replace("T", " ") if kind.startswith("timestamp") else value


def filled(uri: str, columns: list[tuple[str, str]], rows: list[tuple[Any, ...]], table: str = "readings") -> Side:
    """Make a table, fill it, and return the side that reads it."""
    parts = ", ".join("`" + name.replace("`", "``") + "` " + TYPES[kind] for name, kind in columns)
    with opened(uri) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE OR REPLACE TABLE `{table}` ({parts}) CHARACTER SET utf8mb4")
        marks = ", ".join(["%s"] * len(columns))
        kinds = [kind for _, kind in columns]
        values = [tuple(stored(kind, value) for kind, value in zip(kinds, row, strict=True)) for row in rows]
        for start in range(0, len(values), 1000):
            cursor.executemany(f"INSERT INTO `{table}` VALUES ({marks})", values[start : start + 1000])
    return open_side(SideSpec(uri=uri, table=table))


class TestMariadb(ReaderSuite):
    """A MariaDB server; its default collation folds case, accents and blanks at the end."""

    kinds = tuple(TYPES)
    key_kinds = ("int", "text", "decimal", "float64", "float32", "bytes", "uuid", "date", "time", "timestamp",
                 "timestamp_tz")  # fmt: skip
    long_names = False
    case_in_names = False
    excluded_names = ("\U0001f600",)
    filter_dialect = "mysql"
    samples = {  # noqa: RUF012
        "float64": ["0", "0.1", "-1.7976931348623157e+308", "2.2250738585072014e-308", "1e+21", None],
        "float32": ["0", "0.1", "-3.4028235e+38", "1.5", "16777216", None],
        "timestamp_tz": ["1970-01-01T00:00:01Z", "2024-02-29T12:00:00.5Z", "2038-01-19T03:14:07.999999Z", None],
    }

    @pytest.fixture
    def build(self, mariadb_database: str) -> Build:
        """Build tables in an empty database, each under a new name: an open side locks the definition of its table."""
        numbers = count()

        def make(columns: Any, rows: Any, key: Any = (), table: str = "readings") -> Side:
            return filled(mariadb_database, columns, rows, f"{table}_{next(numbers)}")

        return make

    @pytest.fixture
    def absent(self, mariadb_database: str) -> Side:
        """A table that nobody made."""
        return open_side(SideSpec(uri=mariadb_database, table="nothing"))


@pytest.fixture
def uri(mariadb_database: str) -> str:
    """The address of an empty database."""
    return mariadb_database


@pytest.fixture
def run(uri: str) -> Iterator[Run]:
    """Run statements on that database."""
    connection = opened(uri)

    def statement(text: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = connection.cursor()
        cursor.execute(text, values or None)
        return list(cursor.fetchall())

    yield statement
    connection.close()


def column_values(uri: str, table: str = "t", name: str = "v", **source: Any) -> list[Any]:
    """Return the canonical values of a column in the order of the key ``n``."""
    with open_side(SideSpec(uri=uri, **(source or {"table": table}))) as side:
        request = Request(("n", name), ("n",), (INT,), ordered=True)
        return [row[1] for row in values_of(side, side.read(request), ("n", name))]


@pytest.mark.parametrize(
    ("declared", "values", "kind", "wanted"),
    [
        ("bigint unsigned", ["18446744073709551615", "0", None], "int(64,unsigned)", ["18446744073709551615", "0", None]),
        ("int(8) zerofill", ["42"], "int(32,unsigned)", ["42"]),
        ("mediumint", ["-8388608"], "int(24)", ["-8388608"]),
        ("tinyint(1)", ["2", "-1"], "int(8)", ["2", "-1"]),
        ("year", ["1901", "2155", "0000"], "int(16,unsigned)", ["1901", "2155", "0"]),
        ("float", ["16777216", "123456.789", "0.1"], "float32", ["16777216", "123456.79", "0.1"]),
        ("float(7,2)", ["12345.678"], "float32", ["12345.68"]),
        ("double(10,2)", ["0.126", "1e7"], "float64", ["0.13", "10000000"]),
        ("decimal(65,30)", ["9" * 35 + "." + "9" * 30, "-0.5"], "decimal(65,30)", ["9" * 35 + "." + "9" * 30, "-0.5"]),
        ("bit(10)", [5, 1023], "text(10)", ["0000000101", "1111111111"]),
        ("enum('x','Y')", ["Y", "x", None], "text", ["Y", "x", None]),
        ("set('a','b')", ["b,a", ""], "text", ["a,b", ""]),
        ("char(4)", ["ab  ", ""], "text(4)", ["ab", ""]),
        ("varchar(4)", ["ab  "], "text(4)", ["ab  "]),
        ("varchar(9) CHARACTER SET latin1", ["é€"], "text(9)", ["é€"]),
        ("longtext", ["x" * 300, "y" * 70_000, "", None], "text", ["x" * 300, "y" * 70_000, "", None]),
        ("binary(3)", [b"a"], "bytes(3)", ["610000"]),
        ("json", ['{"a": 1}'], "text", ['{"a": 1}']),
        ("time(3)", ["23:59:59.999", "24:00:00", "00:00:00", None], "time(3)",
         ["23:59:59.999", "24:00:00", "00:00:00", None]),
        ("datetime(6)", ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"], "timestamp(6)",
         ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"]),
        ("date", ["0001-01-01", "9999-12-31"], "date", ["0001-01-01", "9999-12-31"]),
    ],
)  # fmt: skip
def test_values_that_other_readers_bend_are_exact(
    run: Run, uri: str, declared: str, values: list[Any], kind: str, wanted: list[Any]
) -> None:
    """The text protocol rounds floats, pads numbers and drops fractions unless it is asked the right way."""
    run(f"CREATE TABLE t (n int PRIMARY KEY, v {declared} NULL)")
    for n, value in enumerate(values):
        run("INSERT INTO t VALUES (%s, %s)", n, value)
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert [c.type.text for c in side.columns if c.type][1] == kind
    assert column_values(uri) == wanted


def test_values_longer_than_a_packet_are_whole(run: Run, uri: str) -> None:
    """A row beyond 16 MiB comes in pieces with headers between them."""
    run("CREATE TABLE t (n int PRIMARY KEY, v longblob, w int)")
    for n, size in enumerate((3, (1 << 24) - 6, (1 << 24) + 5, 20_000_000, 0)):
        run("INSERT INTO t VALUES (%s, REPEAT(%s, %s), %s)", n, b"z", size, n)
    with open_side(SideSpec(uri=uri, table="t")) as side:
        batches = list(side.read(Request(("n", "v", "w"), ("n",), (INT,), ordered=True, batch_bytes=1 << 20)))
    found = [(row["n"], len(row["v"]), row["w"]) for batch in batches for row in batch.to_pylist()]
    assert found == [(0, 3, 0), (1, 16777210, 1), (2, 16777221, 2), (3, 20000000, 3), (4, 0, 4)]


@pytest.mark.parametrize(
    ("declared", "value"),
    [("date", "0000-00-00"), ("date", "2024-00-10"), ("date", "2023-02-30"), ("datetime", "0000-00-00 00:00:00")],
)
def test_a_day_that_is_none_is_refused_with_advice(run: Run, uri: str, declared: str, value: str) -> None:
    """A zero date is no NULL and no day; which of them is meant a person says."""
    run(f"CREATE TABLE t (n int PRIMARY KEY, v {declared})")
    run("INSERT INTO t VALUES (1, %s)", value)
    with pytest.raises(ValueRangeError, match=rf"\[DELTA_VALUE_RANGE\] Column v: {value}.* null_equals: zero_date"):
        column_values(uri)
    assert column_values(uri, query="SELECT n, CAST(v AS CHAR) AS v FROM t") == [value]


@pytest.mark.parametrize("value", ["-00:00:01", "24:00:01", "838:59:59"])
def test_a_time_beyond_a_day_is_refused_with_advice(run: Run, uri: str, value: str) -> None:
    """It is a length of time, not a time of day."""
    run("CREATE TABLE t (n int PRIMARY KEY, v time)")
    run("INSERT INTO t VALUES (1, %s)", value)
    with pytest.raises(ValueRangeError, match=rf"Column v: {value} is no time of day.* interval"):
        column_values(uri)


def test_types_without_a_meaning_here_are_named_with_advice(run: Run, uri: str) -> None:
    """Nothing is read as text in silence."""
    run("CREATE TABLE t (n int, g point, i inet6)")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert [(c.name, c.type is None, bool(c.advice)) for c in side.columns][1:] == [
            ("g", True, True),
            ("i", True, True),
        ]
        with pytest.raises(SideColumnTypeError, match=r"column g: point has no logical type. .*ST_AsText"):
            list(side.read(Request(("g",))))


def test_a_query_reads_a_table_as_it_was(run: Run, uri: str) -> None:
    """Engines that keep old rows are asked for them in their own words; the statement is the query's."""
    run("CREATE TABLE kept (id int PRIMARY KEY, v int) WITH SYSTEM VERSIONING")
    run("SET @@timestamp = 1700000000")
    run("INSERT INTO kept VALUES (1, 1), (2, 2)")
    run("SET @@timestamp = 1700000100")
    run("UPDATE kept SET v = 9 WHERE id = 1")
    query = "SELECT id, v FROM kept FOR SYSTEM_TIME AS OF TIMESTAMP '2023-11-14 22:13:50'"
    with open_side(SideSpec(uri=uri, query=query)) as side:
        assert sorted(values_of(side, side.read(Request(("id", "v"))), ("id", "v"))) == [("1", "1"), ("2", "2")]


def test_a_query_reads_as_its_table_does(run: Run, uri: str) -> None:
    """Results describe themselves with fewer words than the catalog; the values must be the same."""
    run(
        "CREATE TABLE t (n int unsigned, d decimal(20,5), f float, s varchar(9), b varbinary(9), e enum('q'), dt datetime(3), y year, bi bit(3), l longtext)"
    )
    run("INSERT INTO t VALUES (4294967295, 1.5, 0.1, 'é ', x'00ff', 'q', '2024-01-01 00:00:00.5', 1999, 5, 'ü')")
    names = ("n", "d", "f", "s", "b", "e", "dt", "y", "bi", "l")
    with open_side(SideSpec(uri=uri, query="SELECT * FROM t -- all of it\n;")) as side:
        assert values_of(side, side.read(Request(names)), names) == [
            ("4294967295", "1.5", "0.1", "é ", "00ff", "q", "2024-01-01T00:00:00.5", "1999", "101", "ü")
        ]


@pytest.mark.parametrize(
    "collation", ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_nopad_ci", "utf8mb4_nopad_bin"]
)
def test_text_keys_follow_code_points_under_any_collation(run: Run, uri: str, collation: str) -> None:
    """Case, accents, blanks at the end and control characters all count, and blanks don't pad."""
    words = ["b", "B", "a", "A", "é", "e", "z", "a ", "a\t", "", "\U0001f600", "\uffee"]
    run(f"CREATE TABLE t (k varchar(20) COLLATE {collation}, x varchar(3000) COLLATE {collation}, KEY (k))")
    for word in words:
        run("INSERT INTO t VALUES (%s, %s)", word, word)
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert side.order(("k",), (TEXT,)) is Order.PROMISED
        assert side.order(("x",), (TEXT,)) is Order.NONE
        assert side.range_cost(("k",)) is (RangeCost.INDEX if collation == "utf8mb4_nopad_bin" else RangeCost.SCAN)
        request = Request(
            ("k",), ("k",), (TEXT,), encode_key(["a"], [TEXT]), encode_key(["\uffff"], [TEXT]), ordered=True
        )
        assert [row[0] for row in values_of(side, side.read(request), ("k",))] == [
            "a",
            "a\t",
            "a ",
            "b",
            "e",
            "z",
            "é",
            "\uffee",
        ]
        for name in ("k", "x"):
            found = parse_filter(f"{name} = 'a' OR {name} LIKE '_' AND {name} > 'é'", "mysql", side.columns)
            kept = [
                row["k"]
                for batch in side.read(Request(("k",), filter=found))
                for row in batch.to_pylist()
                if row[KEEP_COLUMN]
            ]
            assert sorted(kept) == ["a", "\uffee", "\U0001f600"]


def test_one_snapshot_serves_all_reads_even_after_one_was_given_up(run: Run, uri: str) -> None:
    """A plan and its shards must speak of one state of the table."""
    run("CREATE TABLE t AS SELECT seq AS n FROM seq_1_to_300000")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        stream = side.read(Request(("n",), batch_rows=10))
        assert next(stream).num_rows == 10
        stream.close()
        run("DELETE FROM t")
        assert sum(batch.num_rows for batch in side.read(Request(("n",)))) == 300_000
        assert side.facts()["engine"] == "mysql"


def test_a_given_up_read_ends_on_the_server(run: Run, uri: str) -> None:
    """A closed stream must not leave a statement running for hours."""
    with open_side(SideSpec(uri=uri, query="SELECT seq AS n FROM seq_1_to_100000000000")) as side:
        stream = side.read(Request(("n",), batch_rows=1000))
        next(stream)
        stream.close()
        assert (
            run(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%%seq_1_to_1000%%' AND ID <> CONNECTION_ID()"
            )[0][0]
            == 0
        )


def test_nothing_can_be_written_through_a_side(run: Run, uri: str) -> None:
    """A query is read-only whatever it says, and it is one statement."""
    run("CREATE TABLE t AS SELECT 1 AS n")
    for query in ("DELETE FROM t RETURNING n", "SELECT 1 AS n) AS x; DROP TABLE t; SELECT * FROM (SELECT 1 AS n"):
        with open_side(SideSpec(uri=uri, query=query)) as side, pytest.raises((SideReadError, SideMissingError)):
            list(side.read(Request(("n",))))
    assert run("SELECT n FROM t") == [(1,)]


def test_a_connection_that_drops_in_mid_read_is_a_refusal(run: Run, uri: str) -> None:
    """What could not be read to its end has no verdict."""
    with open_side(SideSpec(uri=uri, query="SELECT seq AS n, REPEAT('x', 1000) AS v FROM seq_1_to_100000000")) as side:
        stream = side.read(Request(("n", "v"), batch_rows=1000))
        next(stream)
        found = run(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%%seq_1_to_100000000%%' AND ID <> CONNECTION_ID()"
        )
        run(f"KILL {found[0][0]}")
        with pytest.raises(SideReadError) as caught:
            list(stream)
    assert caught.value.retryable


def test_a_server_error_in_mid_read_is_a_refusal_without_values(run: Run, uri: str) -> None:
    """Half a table is no table; the server's text may hold a cell's value."""
    query = "SELECT seq AS n, IF(seq < 5000, 1, (SELECT 1 UNION SELECT 2)) AS v FROM seq_1_to_10000"
    with open_side(SideSpec(uri=uri, query=query)) as side:
        with pytest.raises(SideReadError, match=r"query: \w+ \(1242\) while reading"):
            list(side.read(Request(("n", "v"), batch_rows=100)))
        assert side.facts()["engine"] == "mysql"


def test_a_wrong_password_is_refused_without_it(uri: str) -> None:
    """Errors go to logs that many people read."""
    head, _, tail = uri.partition("@")
    with pytest.raises(ConnectError) as caught:
        connector(head.rpartition(":")[0] + ":s3cret%2Fx@" + tail)()
    assert "(1045)" in str(caught.value) and "s3cret" not in str(caught.value)
    for unencoded in ("u:s3cret/x@h:1/db", "u:x@s3cret@h/db", "u:s3cret@h:x/db", "u:s#s3cret@h/db"):
        with pytest.raises(ConnectError) as caught:
            connector("mysql://" + unencoded)()
        assert "s3cret" not in str(caught.value)


def test_a_database_or_table_that_is_not_there_is_missing(uri: str) -> None:
    """A wrong name is no passing failure: trying again can't help."""
    with pytest.raises(SideMissingError, match="nowhere_else"):
        connector(uri.rpartition("/")[0] + "/nowhere_else")()


def test_a_table_is_found_in_another_database(run: Run, uri: str) -> None:
    """A specification may name the database with the table."""
    run("CREATE TABLE `a.b` (n int)")
    name = uri.rpartition("/")[2]
    server = uri.rpartition("/")[0] + "/"
    for table in (f"{name}.a.b", f"`{name}`.`a.b`"):
        with open_side(SideSpec(uri=server, table=table)) as side:
            assert [column.name for column in side.columns] == ["n"]
