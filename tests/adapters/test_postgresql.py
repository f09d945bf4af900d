"""PostgreSQL as a side: the readers' suite on both server builds, and what only this engine does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from adapters.reader_suite import Build, ReaderSuite, values_of
from psycopg import sql as quoting
from servers import lacking

from airflow_delta_provider.adapters.dialects.postgresql_connect import connector
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Order, RangeCost, Request, Side
from airflow_delta_provider.core.errors import (
    ConnectError,
    SideColumnTypeError,
    SideMissingError,
    SideNamesError,
    SideReadError,
)
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import LogicalType

TYPES = {
    "bool": "boolean", "int": "bigint", "decimal": "numeric", "float32": "real", "float64": "double precision",
    "text": "text", "bytes": "bytea", "uuid": "uuid", "date": "date", "time": "time", "timestamp": "timestamp",
    "timestamp_tz": "timestamptz", "json_text": "json",
}  # fmt: skip
INT, TEXT = LogicalType("int"), LogicalType("text")


def literal(kind: str, value: Any) -> Any:
    """Return a canonical value as the server reads it from text."""
    return "\\x" + value if kind == "bytes" and value is not None else value


def filled(uri: str, columns: list[tuple[str, str]], rows: list[tuple[Any, ...]], table: str = "readings") -> Side:
    """Make a table, fill it, and return the side that reads it."""
    with psycopg.connect(uri) as connection:
        name = quoting.Identifier(table)
        connection.execute(quoting.SQL("DROP TABLE IF EXISTS {}").format(name))
        parts = [
            quoting.SQL("{} {}").format(quoting.Identifier(each), quoting.SQL(TYPES[kind])) for each, kind in columns
        ]
        connection.execute(quoting.SQL("CREATE TABLE {} ({})").format(name, quoting.SQL(", ").join(parts)))
        marks = quoting.SQL(", ").join(quoting.SQL("%s::" + TYPES[kind]) for _, kind in columns)
        insert = quoting.SQL("INSERT INTO {} VALUES ({})").format(name, marks)
        kinds = [kind for _, kind in columns]
        values = [tuple(literal(kind, value) for kind, value in zip(kinds, row, strict=True)) for row in rows]
        connection.cursor().executemany(insert, values)
    return open_side(SideSpec(uri=uri, table=table))


class TestPostgresql(ReaderSuite):
    """The wheel's server, whose collation is C."""

    kinds = tuple(TYPES)
    key_kinds = ("int", "text", "decimal", "float64", "float32", "bool", "bytes", "uuid", "date", "time", "timestamp",
                 "timestamp_tz")  # fmt: skip
    nul_in_text = False
    long_names = False
    filter_dialect = "postgres"

    @pytest.fixture
    def build(self, postgresql_database: str) -> Build:
        """Build tables in an empty database."""

        def make(columns: Any, rows: Any, key: Any = (), table: str = "readings") -> Side:
            return filled(postgresql_database, columns, rows, table)

        return make

    @pytest.fixture
    def absent(self, postgresql_database: str) -> Side:
        """A table that nobody made."""
        return open_side(SideSpec(uri=postgresql_database, table="nothing"))


@pytest.fixture
def database(postgresql_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to an empty database that commits each statement."""
    with psycopg.connect(postgresql_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def uri(postgresql_database: str) -> str:
    """The address of the same database."""
    return postgresql_database


def column_values(uri: str, expression: str, kind: str | None = None) -> list[Any]:
    """Return the canonical values of one column ``v`` of a query, in key order."""
    with open_side(SideSpec(uri=uri, query=expression)) as side:
        if kind is not None:
            assert [c.type.text for c in side.columns if c.name == "v" and c.type] == [kind]
        request = Request(("n", "v"), ("n",), (INT,), ordered=True)
        return [row[1] for row in values_of(side, side.read(request), ("n", "v"))]


def listed(*values: str) -> str:
    """Return a query of numbered values, each an SQL expression."""
    return "SELECT * FROM (VALUES " + ", ".join(f"({n}, {v})" for n, v in enumerate(values)) + ") AS t(n, v)"


@pytest.mark.parametrize(
    ("expressions", "kind", "wanted"),
    [
        (
            ["1.50::numeric", "'NaN'::numeric", "'Infinity'::numeric", "-0.00010", "1e30", "NULL", "1e-30", "10000"],
            "decimal",
            ["1.5", "NaN", "Infinity", "-0.0001", "1" + "0" * 30, None, "0." + "0" * 29 + "1", "10000"],
        ),
        (["(1e200 + 1)::numeric", "-1e-200", "0"], "decimal", ["1" + "0" * 199 + "1", "-0." + "0" * 199 + "1", "0"]),
        (["'infinity'::date", "'-infinity'", "'0044-03-15 BC'", "NULL", "'5874897-12-31'"], "date",
         ["infinity", "-infinity", "-000043-03-15", None, "+5874897-12-31"]),
        (["'infinity'::timestamptz", "'-infinity'", "'2000-01-01 00:00+02'", "NULL"], "timestamp_tz(6)",
         ["infinity", "-infinity", "1999-12-31T22:00:00Z", None]),
        (["'4713-01-01 BC'::timestamp", "'294276-12-31 23:59:59.999999'", "NULL", "'infinity'"], "timestamp(6)",
         ["-004712-01-01T00:00:00", "+294276-12-31T23:59:59.999999", None, "infinity"]),
        (["'24:00'::time", "'00:00:00.000001'"], "time(6)", ["24:00:00", "00:00:00.000001"]),
        (["'1 year 2 mons 3 days -4.5 s'::interval", "'-1 mon'", "NULL"], "interval",
         ["P14M3DT-4.5S", "P-1M0DT0S", None]),
        (["B'101'", "B''", "B'000000001'", "NULL"], "text", ["101", "", "000000001", None]),
        (["'a '::char(3)", "'   '", "NULL", "'ab '"], None, ["a", "", None, "ab"]),
        (["'a '::varchar(3)", "'  '"], None, ["a ", "  "]),
        (["'{\"a\": 1}'::jsonb", "'[1, 2]'", "NULL"], "json_text", ['{"a": 1}', "[1, 2]", None]),
        (["'{1,NULL,3}'::int[]", "'{}'", "NULL", "'[0:1]={7,8}'"], "array<int(32)>",
         [["1", None, "3"], [], None, ["7", "8"]]),
        (["'{a,\"b c\",NULL,\"\"}'::text[]", "'{}'"], "array<text>", [["a", "b c", None, ""], []]),
        (["'{1.5,NaN}'::numeric(5,2)[]"], None, [["1.5", "NaN"]]),
        (["'12.34'::money", "'-0.01'"], "decimal", ["12.34", "-0.01"]),
        (["4294967295::oid"], "int(32,unsigned)", ["4294967295"]),
        (["'x'::name", "NULL"], "text", ["x", None]),
        (["'NaN'::float8", "'-Infinity'", "'-0'", "0.1"], "float64", ["NaN", "-Infinity", "0", "0.1"]),
    ],
)  # fmt: skip
def test_values_that_other_readers_bend_are_exact(
    uri: str, expressions: list[str], kind: str | None, wanted: list[Any]
) -> None:
    """The ends of every type's range, its special values and its padding."""
    assert column_values(uri, listed(*expressions), kind) == wanted


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("numeric(18,4)", ["99999999999999.9999", "-99999999999999.9999", "0", "0.0001", "-12.5", None]),
        ("numeric(18,3)", ["999999999999999.999", "-0.001", "10", "1234.567", None]),
        ("numeric(38,10)", ["9999999999999999999999999999.9999999999", "-0.0000000001", "123456789.5", "0", None]),
        ("numeric(38,0)", ["9" * 38, "-" + "9" * 38, "10000000000000000", "0"]),
        ("numeric(38,38)", ["0." + "9" * 38, "-0." + "0" * 37 + "1"]),
        ("numeric(20,1)", ["-1844674407370955161.6", "1844674407370955161.5"]),
        ("numeric(50,5)", ["9" * 45 + ".99999", "-1"]),
    ],
)
def test_declared_decimals_are_exact_to_their_last_digit(
    database: psycopg.Connection[Any], uri: str, declared: str, values: list[str | None]
) -> None:
    """Digits of base 10,000 become 128 bits without text, at every scale."""
    database.execute(f"CREATE TABLE d (n int PRIMARY KEY, v {declared})")  # type: ignore[arg-type]
    for n, value in enumerate(values):
        database.execute("INSERT INTO d VALUES (%s, %s::numeric)", (n, value))
    assert column_values(uri, "SELECT * FROM d") == values


def test_a_nan_among_declared_decimals_is_kept(database: psycopg.Connection[Any], uri: str) -> None:
    """A fixed-point carrier has no NaN; the batch turns to text rather than to zero."""
    database.execute(
        "CREATE TABLE d AS SELECT n, CASE n WHEN 3 THEN 'NaN'::numeric ELSE n END::numeric(9,2) AS v FROM generate_series(1, 4) n"
    )
    assert column_values(uri, "SELECT * FROM d") == ["1", "2", "NaN", "4"]


def test_enums_go_by_label_and_domains_by_what_they_stand_on(database: psycopg.Connection[Any], uri: str) -> None:
    """The ordinal of a label and the name of a domain are no values."""
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'happy', 'Angry')")
    database.execute("CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN cost AS price CHECK (VALUE >= 0)")
    database.execute("CREATE TABLE t (m mood PRIMARY KEY, c cost, a mood[], p price[])")
    database.execute(
        "INSERT INTO t VALUES ('sad', 1.5, '{happy,NULL}', '{2.50}'), ('happy', 0, '{}', NULL), ('Angry', 7, NULL, '{}')"
    )
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert [c.type.text for c in side.columns if c.type] == [
            "text",
            "decimal(10,2)",
            "array<text>",
            "array<decimal(10,2)>",
        ]
        request = Request(("m", "c", "a", "p"), ("m",), (TEXT,), encode_key(["B"], [TEXT]), None, ordered=True)
        assert values_of(side, side.read(request), ("m", "c", "a", "p")) == [
            ("happy", "0", [], None),
            ("sad", "1.5", ["happy", None], ["2.5"]),
        ]


def test_types_without_a_meaning_here_are_named_with_advice(database: psycopg.Connection[Any], uri: str) -> None:
    """Nothing is read as text in silence."""
    database.execute("CREATE TYPE pair AS (a int, b int)")
    database.execute("CREATE TABLE t (id int, z timetz, r int4range, p pair, g point, ps pair[], v tsvector)")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert [(c.name, c.type is None, bool(c.advice)) for c in side.columns][1:] == [
            (name, True, True) for name in ("z", "r", "p", "g", "ps", "v")
        ]
        with pytest.raises(
            SideColumnTypeError, match=r"\[DELTA_SIDE_TYPE\] table t, column r: int4range .* select lower"
        ):
            list(side.read(Request(("id", "r"))))


def test_an_array_of_two_dimensions_is_refused(uri: str) -> None:
    """Its shape is not part of the declared type, so no schema could state it."""
    with open_side(SideSpec(uri=uri, query="SELECT '{{1,2},{3,4}}'::int[] AS v")) as side:
        with pytest.raises(Exception, match=r"\[DELTA_VALUE_TYPE\] An array of more than one dimension"):
            list(side.read(Request(("v",))))
        assert side.estimate_rows() == 1


def test_long_arrays_and_short_ones_stand_side_by_side(database: psycopg.Connection[Any], uri: str) -> None:
    """Arrays are walked together, and the few long ones alone; both ways meet here."""
    database.execute(
        "CREATE TABLE t AS SELECT n, array_agg(nullif(repeat('x', m % 5), 'xx')) AS v FROM generate_series(1, 40) n, LATERAL generate_series(1, CASE WHEN n = 7 THEN 3000 ELSE n END) m GROUP BY n"
    )
    wanted = [
        [None if m % 5 == 2 else "x" * (m % 5) for m in range(1, (3000 if n == 7 else n) + 1)] for n in range(1, 41)
    ]
    assert column_values(uri, "SELECT * FROM t") == wanted


def test_a_megabyte_value_passes_small_batches(database: psycopg.Connection[Any], uri: str) -> None:
    """One row may be larger than a batch, and larger than the reader's buffer."""
    database.execute("CREATE TABLE t AS SELECT n, repeat(chr(64 + n), n * 1000003) AS v FROM generate_series(1, 4) n")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        batches = list(side.read(Request(("n", "v"), ("n",), (INT,), ordered=True, batch_bytes=1 << 20)))
    assert [len(value) for batch in batches for value in batch.column("v").to_pylist()] == [
        1000003 * n for n in range(1, 5)
    ]
    assert len(batches) >= 3


def test_text_keys_follow_bytes_under_a_linguistic_collation(linguistic_postgresql_server: Any) -> None:
    """A collation that ignores case or accents would order, match and cut by other rules than the merge."""
    uri = linguistic_postgresql_server.create_database()
    words = ["b", "B", "a", "A", "é", "e", "z", "", "-a", "Z"]
    with psycopg.connect(uri, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_collation WHERE collname = 'en-x-icu'").fetchone():
            lacking("a PostgreSQL server with ICU")
        connection.execute(
            "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        connection.execute('CREATE TABLE t (k text COLLATE folded, p text COLLATE "en-x-icu" PRIMARY KEY)')
        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(word, word) for word in words])
        connection.execute("CREATE INDEX folded_k ON t (k)")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        for name in ("k", "p"):
            assert side.order((name,), (TEXT,)) is Order.PROMISED
            assert side.range_cost((name,)) is RangeCost.SCAN
            request = Request(
                (name,), (name,), (TEXT,), encode_key(["A"], [TEXT]), encode_key(["z"], [TEXT]), ordered=True
            )
            assert [row[0] for row in values_of(side, side.read(request), (name,))] == ["A", "B", "Z", "a", "b", "e"]
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute('CREATE INDEX plain ON t (p COLLATE "C")')
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert side.range_cost(("p",)) is RangeCost.INDEX


def test_a_primary_key_serves_ranges_in_its_order_without_a_sort(database: psycopg.Connection[Any], uri: str) -> None:
    """One scan a shard would read the whole table as often as there are shards."""
    database.execute(
        "CREATE TABLE t (b text NOT NULL, a bigint NOT NULL, c int, PRIMARY KEY (a, b)); CREATE INDEX part ON t (c) WHERE c > 0"
    )
    with open_side(SideSpec(uri=uri, table="t")) as side:
        assert side.primary_key == ("a", "b")
        assert side.range_cost(("a", "b")) is RangeCost.INDEX
        assert side.range_cost(("b",)) is RangeCost.SCAN
        assert side.range_cost(("c",)) is RangeCost.SCAN


def test_padded_keys_sort_and_cut_by_their_text(database: psycopg.Connection[Any], uri: str) -> None:
    """The blanks that pad a char(n) sort above control characters; its text has none."""
    database.execute("CREATE TABLE t (k char(3))")
    database.execute("INSERT INTO t VALUES ('a'), (E'a\\x01'), ('ab'), ('')")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        request = Request(("k",), ("k",), (TEXT,), encode_key(["a"], [TEXT]), None, ordered=True)
        assert [row[0] for row in values_of(side, side.read(request), ("k",))] == ["a", "a\x01", "ab"]


def test_one_snapshot_serves_all_reads_even_after_one_was_given_up(database: psycopg.Connection[Any], uri: str) -> None:
    """A plan and its shards must speak of one state of the table."""
    database.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 200000) n")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        stream = side.read(Request(("n",), batch_rows=10))
        assert next(stream).num_rows <= 10
        stream.close()
        database.execute("DELETE FROM t")
        assert sum(batch.num_rows for batch in side.read(Request(("n",)))) == 200000
        facts = side.facts()
        assert facts["engine"] == "postgresql" and facts["snapshot"]


def test_a_given_up_read_ends_on_the_server(database: psycopg.Connection[Any], uri: str) -> None:
    """A closed stream must not leave a statement running for hours."""
    with open_side(SideSpec(uri=uri, query="SELECT generate_series(1, 10000000000) AS n")) as side:
        stream = side.read(Request(("n",), batch_rows=1000))
        next(stream)
        stream.close()
        running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'"
        assert database.execute(running).fetchone() == (0,)


def test_nothing_can_be_written_through_a_side(database: psycopg.Connection[Any], uri: str) -> None:
    """A query is read-only whatever it says, and it is one statement."""
    database.execute("CREATE TABLE t AS SELECT 1 AS n; CREATE SEQUENCE s")
    for query in (
        "SELECT nextval('s') AS n",
        "SELECT 1 AS n) AS x; DROP TABLE t; SELECT * FROM (SELECT 1 AS n",
        "SELECT 1 AS n) TO PROGRAM 'true' --",
        "DELETE FROM t RETURNING n",
    ):
        with open_side(SideSpec(uri=uri, query=query)) as side, pytest.raises((SideReadError, SideMissingError)):
            list(side.read(Request(("n",))))
    assert database.execute("SELECT n FROM t").fetchone() == (1,)


def test_a_server_error_in_mid_read_is_a_refusal_without_values(uri: str) -> None:
    """Half a table is no table; the server's text may hold a cell's value."""
    query = "SELECT n, 1 / (5000 - n) AS v, ('s3cret' || n)::text AS s FROM generate_series(1, 10000) n"
    with open_side(SideSpec(uri=uri, query=query)) as side:
        with pytest.raises(SideReadError, match=r"query: DivisionByZero \(22012\) while reading"):
            list(side.read(Request(("n", "v", "s"), batch_rows=100)))
        assert side.facts()["engine"] == "postgresql"


def test_a_connection_that_drops_in_mid_read_is_a_refusal(database: psycopg.Connection[Any], uri: str) -> None:
    """What could not be read to its end has no verdict."""
    with open_side(
        SideSpec(uri=uri, query="SELECT generate_series(1, 100000000) AS n, repeat('x', 1000) AS v")
    ) as side:
        stream = side.read(Request(("n", "v"), batch_rows=1000))
        next(stream)
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'"
        )
        with pytest.raises(SideReadError) as caught:
            list(stream)
    assert caught.value.retryable


def test_a_wrong_password_is_refused_without_it(uri: str) -> None:
    """Errors go to logs that many people read."""
    head, _, tail = uri.partition("@")
    wrong = head.rpartition(":")[0] + ":s3cret%2Fx@" + tail
    with pytest.raises(ConnectError) as caught:
        connector(wrong)()
    assert "password authentication failed" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    for unencoded in ("u:s3cret/x@h:1/db", "u:x@s3cret@h/db", "u:s3cret@h:x/db", "u:%s3cret@h/db"):
        with pytest.raises(ConnectError) as caught:
            connector("postgresql://" + unencoded)()
        assert "s3cret" not in str(caught.value)


def test_a_database_that_is_not_there_is_missing(uri: str) -> None:
    """A wrong name is no passing failure: trying again can't help."""
    with pytest.raises(SideMissingError, match='database "nowhere_else" does not exist'):
        connector(uri.rpartition("/")[0] + "/nowhere_else")()


def test_every_form_of_address_connects(uri: str) -> None:
    """libpq's forms and SQLAlchemy's; Airflow hands out the latter."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    pairs = make_conninfo(**conninfo_to_dict(uri))
    for form in (
        uri,
        uri.replace("postgresql://", "postgresql+psycopg2://"),
        uri.replace("postgresql:", "postgres:"),
        pairs,
    ):
        with connector(form)() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_tables_are_found_by_schema_and_by_odd_names(database: psycopg.Connection[Any], uri: str) -> None:
    """A dot may part a schema from a table or belong to the name."""
    database.execute('CREATE SCHEMA "my.schema"; CREATE TABLE "my.schema"."t.1" (a int); CREATE TABLE "x.y" (b int)')
    database.execute("CREATE VIEW v AS SELECT 1 AS c; CREATE MATERIALIZED VIEW m AS SELECT 2 AS d")
    for table, column in (('"my.schema"."t.1"', "a"), ("x.y", "b"), ("public.v", "c"), ("m", "d")):
        with open_side(SideSpec(uri=uri, table=table)) as side:
            assert [each.name for each in side.columns] == [column]


def test_a_table_without_rights_is_missing(database: psycopg.Connection[Any], uri: str) -> None:
    """To this user it does not exist, and the message says so."""
    database.execute("CREATE TABLE t (a int); CREATE ROLE reader LOGIN PASSWORD 'reader'")
    try:
        address = "postgresql://reader:reader@" + uri.partition("@")[2]
        with open_side(SideSpec(uri=address, table="t")) as side, pytest.raises(SideMissingError, match="no table t"):
            _ = side.columns
    finally:
        database.execute("DROP ROLE reader")


def test_two_columns_of_one_name_are_refused(uri: str) -> None:
    """Which of them a rule means nobody knows."""
    with open_side(SideSpec(uri=uri, query="SELECT 1 AS a, 2 AS a")) as side, pytest.raises(SideNamesError):
        _ = side.columns


def test_text_of_an_unknown_encoding_stays_bytes(postgresql_server: Any) -> None:
    """An SQL_ASCII database holds any bytes; guessing their encoding would bend them."""
    name = postgresql_server.fresh_name()
    with psycopg.connect(postgresql_server.uri("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")  # type: ignore[arg-type]
    uri = postgresql_server.uri(name)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 1 AS n, E'\\xe9'::text AS v, E'\\xe9 '::char(4) AS c UNION ALL SELECT 2, 'ok', 'ok'"
        )
    with open_side(SideSpec(uri=uri, table="t")) as side:
        read = values_of(side, side.read(Request(("n", "v", "c"), ("n",), (INT,), ordered=True)), ("n", "v", "c"))
    assert read == [("1", {"wtf8": "e9"}, {"wtf8": "e9"}), ("2", "ok", "ok")]


def test_another_server_encoding_is_read_and_ordered_as_unicode(postgresql_server: Any) -> None:
    """The order of the encoding's own bytes is not the order of code points."""
    name = postgresql_server.fresh_name()
    with psycopg.connect(postgresql_server.uri("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'WIN1252' LOCALE 'C'")  # type: ignore[arg-type]
    uri = postgresql_server.uri(name)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES ('é'), ('€'), ('z')) AS t(k)")
    with open_side(SideSpec(uri=uri, table="t")) as side:
        request = Request(("k",), ("k",), (TEXT,), encode_key(["{"], [TEXT]), encode_key(["漢"], [TEXT]), ordered=True)
        assert values_of(side, side.read(request), ("k",)) == [("é",), ("€",)]
