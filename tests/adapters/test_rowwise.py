"""Engines without a server here: their statements against recorded ones, and the row reader over a database at hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy
import sqlglot
from adapters.reader_suite import HOSTILE, values_of
from sqlalchemy.dialects import mssql, oracle
from sqlalchemy.engine.default import DefaultDialect

from airflow_delta_provider.adapters.dialects import rowwise
from airflow_delta_provider.adapters.dialects.base import Relation
from airflow_delta_provider.adapters.dialects.rowwise import MARK, Described, Mapped, RowDialect, type_parts
from airflow_delta_provider.adapters.filters import parse_filter
from airflow_delta_provider.adapters.open import ENGINES, ROW_ENGINES, open_side, open_sqlalchemy
from airflow_delta_provider.adapters.side import KEEP_COLUMN, Order, RangeCost, Request
from airflow_delta_provider.adapters.sql import SqlSide
from airflow_delta_provider.core.errors import (
    ConnectError,
    SideColumnTypeError,
    SideMissingError,
    SideReadError,
    SideSchemeError,
    ValueRangeError,
)
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import LogicalType

COMPILERS = {"mssql": mssql.dialect(), "oracle": oracle.dialect()}
GRAMMARS = {"mssql": "tsql"}
INT, TEXT = LogicalType("int"), LogicalType("text")


class Answer:
    """A result: rows to fetch once, and a description as a driver gives it."""

    def __init__(self, rows: list[Any], description: Any = None) -> None:
        self._rows = rows
        self.cursor = self
        self.description = description
        self.closed = False

    def fetchall(self) -> list[Any]:
        return self.fetchmany(1 << 30)

    def fetchmany(self, count: int) -> list[Any]:
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken

    def close(self) -> None:
        self.closed = True


class Recording:
    """A connection that compiles what it is given as the engine's SQLAlchemy dialect does, and answers by a word in it."""

    def __init__(self, kind: str, answers: dict[str, Answer]) -> None:
        self.compiler = COMPILERS.get(kind) or DefaultDialect(paramstyle="named")
        self.dialect = self.compiler
        self.kind = kind
        self.answers = answers
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.closed = False

    def execute(self, clause: Any, execution_options: Any = None) -> Answer:
        compiled = clause.compile(dialect=self.compiler)
        text = str(compiled)
        self.said.append((text, dict(compiled.params)))
        for statement in sqlglot.parse(text.replace("%%", "%"), dialect=GRAMMARS.get(self.kind, self.kind)):
            assert not isinstance(statement, sqlglot.exp.Command), text
        for word, answer in self.answers.items():
            if word in text:
                return answer
        return Answer([])

    def exec_driver_sql(self, text: str) -> Answer:
        self.said.append((text, {}))
        return Answer([])

    def close(self) -> None:
        self.closed = True


def catalog(kind: str) -> dict[str, Answer]:
    """Return what the catalog of an engine answers about one table with every type; its rows are asked for later."""
    return {
        "mssql": {
            "sys.databases": Answer([(1,)]),
            "sys.indexes": Answer([("id",)]),
            "sys.columns": Answer([
                ("id", "bigint", 8, 19, 0, False), ("d", "decimal", 9, 12, 2, True), ("m", "money", 8, 19, 4, True),
                ("b", "bit", 1, 1, 0, True), ("f", "float", 8, 53, 0, True), ("s", "nvarchar", 40, 0, 0, False),
                ("c", "char", 8, 0, 0, True), ("l", "varchar", -1, 0, 0, True), ("x", "varbinary", 20, 0, 0, True),
                ("u", "uniqueidentifier", 16, 0, 0, True), ("dd", "date", 3, 10, 0, True),
                ("dt", "datetime2", 8, 27, 7, True), ("o", "datetimeoffset", 10, 34, 7, True),
                ("ti", "time", 5, 16, 7, True), ("g", "geometry", -1, 0, 0, True),
            ]),
            "sys.objects": Answer([("dbo", "t")]),
        },
        "oracle": {
            "nls_database": Answer([("AL32UTF8",)]),
            "all_constraints": Answer([("ID",)]),
            "all_tab_columns": Answer([
                ("ID", "NUMBER", 18, 0, 22, "N"), ("N", "NUMBER", None, None, 22, "Y"), ("D", "DATE", None, None, 7, "Y"),
                ("S", "VARCHAR2", None, None, 20, "Y"), ("C", "CHAR", None, None, 4, "Y"),
                ("L", "CLOB", None, None, 4000, "Y"), ("X", "RAW", None, None, 16, "Y"),
                ("T", "TIMESTAMP(9)", None, 9, 11, "Y"), ("Z", "TIMESTAMP(6) WITH TIME ZONE", None, 6, 13, "Y"),
                ("F", "BINARY_DOUBLE", None, None, 8, "Y"), ("I", "INTERVAL DAY(2) TO SECOND(6)", 2, 6, 11, "Y"),
            ]),
            "all_tables": Answer([("SHOP", "T")]),
        },
        "snowflake": {
            "information_schema.columns": Answer([
                ("ID", "NUMBER", 38, 0, None, None, "NO"), ("D", "NUMBER", 12, 2, None, None, "YES"),
                ("S", "TEXT", None, None, 20, None, "YES"), ("B", "BOOLEAN", None, None, None, None, "YES"),
                ("F", "FLOAT", None, None, None, None, "YES"), ("X", "BINARY", None, None, 8, None, "YES"),
                ("DD", "DATE", None, None, None, None, "YES"), ("N", "TIMESTAMP_NTZ", None, None, None, 9, "YES"),
                ("Z", "TIMESTAMP_TZ", None, None, None, 9, "YES"), ("T", "TIME", None, None, None, 9, "YES"),
                ("V", "VARIANT", None, None, None, None, "YES"), ("G", "GEOGRAPHY", None, None, None, None, "YES"),
            ]),
            "information_schema.tables": Answer([("SHOP", "PUBLIC", "T")]),
        },
        "bigquery": {
            "KEY_COLUMN_USAGE": Answer([("id",)]),
            "INFORMATION_SCHEMA.COLUMNS": Answer([
                ("id", "INT64", "NO"), ("n", "NUMERIC(12, 2)", "YES"), ("bn", "BIGNUMERIC", "YES"), ("s", "STRING", "YES"),
                ("b", "BOOL", "YES"), ("f", "FLOAT64", "YES"), ("x", "BYTES", "YES"), ("d", "DATE", "YES"),
                ("dt", "DATETIME", "YES"), ("ts", "TIMESTAMP", "YES"), ("ti", "TIME", "YES"), ("j", "JSON", "YES"),
                ("a", "ARRAY<INT64>", "YES"), ("g", "GEOGRAPHY", "YES"),
            ]),
            "INFORMATION_SCHEMA.TABLES": Answer([("t",)]),
        },
        "trino": {
            "information_schema.columns": Answer([
                ("id", "bigint", "NO"), ("d", "decimal(12,2)", "YES"), ("s", "varchar(20)", "YES"), ("c", "char(4)", "YES"),
                ("b", "boolean", "YES"), ("f", "double", "YES"), ("x", "varbinary", "YES"), ("u", "uuid", "YES"),
                ("dd", "date", "YES"), ("t3", "timestamp(3)", "YES"), ("tz", "timestamp(6) with time zone", "YES"),
                ("ti", "time(6)", "YES"), ("j", "json", "YES"), ("a", "array(bigint)", "YES"),
            ]),
            "information_schema.tables": Answer([("shop", "t")]),
        },
    }[kind]  # fmt: skip


def opened(kind: str, table: str = "shop.t", **more: Answer) -> tuple[SqlSide, Recording]:
    """Return a side over a recording connection."""
    dialect, _ = ENGINES[kind](f"{kind}://nowhere")
    rest = {word: answer for word, answer in catalog(kind).items() if word not in more}
    connection = Recording(kind, {**more, **rest})
    return SqlSide(dialect, lambda: connection, table=table), connection


KINDS = {
    "mssql": "int decimal decimal bool float64 text text text bytes uuid date timestamp timestamp_tz time None",
    "oracle": "decimal decimal timestamp text text text bytes timestamp timestamp_tz float64 None",
    "snowflake": "decimal decimal text bool float64 bytes date timestamp timestamp_tz time json_text None",
    "bigquery": "int decimal decimal text bool float64 bytes date timestamp timestamp_tz time json_text None None",
    "trino": "int decimal text text bool float64 bytes uuid date timestamp timestamp_tz time json_text None",
}
KEYS = {"mssql": ("id",), "oracle": ("ID",), "snowflake": (), "bigquery": ("id",), "trino": ()}


@pytest.mark.parametrize("kind", ROW_ENGINES)
def test_types_keys_and_session_come_from_the_catalog(kind):
    """Each type has its logical type, or none and an advice; what a session fixes comes before any read."""
    side, connection = opened(kind)
    assert " ".join(str(column.type and column.type.kind) for column in side.columns) == KINDS[kind]
    assert side.primary_key == KEYS[kind]
    assert all(column.advice for column in side.columns if column.type is None)
    dialect = ENGINES[kind](f"{kind}://nowhere")[0]
    assert [text for text, _ in connection.said][: len(dialect.settings)] == list(dialect.settings)
    assert side.range_cost((side.columns[0].name,)) is RangeCost.SCAN
    side.close()
    assert connection.closed


READS = {
    "mssql": (
        ("id", "s", "dt"),
        "SELECT delta_side.[id] AS c0, CONVERT(nvarchar(max), delta_side.[s]) AS c1, CONVERT(varchar(27),"
        " CONVERT(datetime2(7), delta_side.[dt]), 126) AS c2 FROM [dbo].[t] AS delta_side WHERE (delta_side.[id] >= (7))"
        " AND (delta_side.[id] IS NULL OR delta_side.[id] < (9)) ORDER BY delta_side.[id] ASC",
    ),
    "oracle": (
        ("ID", "S", "D"),
        'SELECT TO_CHAR(delta_side."ID", \'TM9\') AS c0, delta_side."S" AS c1, REPLACE(TO_CHAR(delta_side."D",'
        " 'YYYY-MM-DD\"T\"HH24:MI:SS BC', 'NLS_DATE_LANGUAGE = AMERICAN'), ' AD', '') AS c2 FROM \"SHOP\".\"T\" delta_side"
        ' WHERE (delta_side."ID" >= (7)) AND (delta_side."ID" IS NULL OR delta_side."ID" < (9))'
        ' ORDER BY delta_side."ID" ASC NULLS FIRST',
    ),
    "snowflake": (
        ("ID", "S", "Z"),
        'SELECT TO_VARCHAR(delta_side."ID") AS c0, delta_side."S" AS c1, TO_VARCHAR(TO_TIMESTAMP_NTZ(CONVERT_TIMEZONE('
        "'UTC', delta_side.\"Z\")), 'YYYY-MM-DD\"T\"HH24:MI:SS.FF9') || 'Z' AS c2"
        ' FROM "SHOP"."PUBLIC"."T" AS delta_side'
        ' WHERE (delta_side."ID" >= (7)) AND (delta_side."ID" IS NULL OR delta_side."ID" < (9))'
        ' ORDER BY delta_side."ID" ASC NULLS FIRST',
    ),
    "bigquery": (
        ("id", "s", "ts"),
        "SELECT delta_side.`id` AS c0, delta_side.`s` AS c1, FORMAT_TIMESTAMP('%E4Y-%m-%dT%H:%M:%E6SZ', delta_side.`ts`,"
        " 'UTC') AS c2 FROM `shop`.`t` AS delta_side WHERE (delta_side.`id` >= (7)) AND (delta_side.`id` IS NULL OR"
        " delta_side.`id` < (9)) ORDER BY delta_side.`id` ASC NULLS FIRST",
    ),
    "trino": (
        ("id", "s", "tz"),
        'SELECT delta_side."id" AS c0, delta_side."s" AS c1, CAST(CAST(delta_side."tz" AT TIME ZONE \'UTC\' AS'
        ' timestamp(6)) AS varchar) || \' UTC\' AS c2 FROM "shop"."t" AS delta_side'
        ' WHERE (delta_side."id" >= (7)) AND (delta_side."id" IS NULL OR delta_side."id" < (9))'
        ' ORDER BY delta_side."id" ASC NULLS FIRST',
    ),
}


@pytest.mark.parametrize("kind", ROW_ENGINES)
def test_a_read_is_the_recorded_statement(kind):
    """Quoting, conversion, range and order as they were looked over; whoever changes one looks again."""
    columns, wanted = READS[kind]
    moment = "2024-02-29T01:02:03.5" + ("Z" if kind in ("snowflake", "bigquery") else "")
    moment = "2024-02-29 01:02:03.5 UTC" if kind == "trino" else moment
    rows = [(7, "a ", moment), (8, None, None)]
    side, connection = opened(kind, **{"ORDER BY delta_side": Answer(rows)})
    key = columns[:1]
    types = (side.columns[0].type,)
    assert side.order(key, types) is Order.PROMISED
    request = Request(columns, key, types, encode_key(["7"], types), encode_key(["9"], types), ordered=True)
    batches = list(side.read(request))
    assert connection.said[-1] == (wanted, {})
    stamp = "2024-02-29T01:02:03.5" + ("Z" if kind in ("snowflake", "bigquery", "trino") else "")
    assert values_of(side, batches, columns) == [("7", "a ", stamp), ("8", None, None)]


BOUNDS = {
    "mssql": {
        "s": ("CONVERT(varchar(8000), CONVERT(varbinary(4000), CONVERT(varchar(4000), {} COLLATE"
              " Latin1_General_100_BIN2_UTF8)), 2) COLLATE Latin1_General_BIN2 >= :v0", "61C3A9"),
        "u": ("CONVERT(char(36), {}) COLLATE Latin1_General_BIN2 >= :v0", "00000000-0000-0000-0000-0000000000AB"),
        "o": ("{} >= TODATETIMEOFFSET(CONVERT(datetime2(7), :v0, 121), '+00:00')", "2024-02-29 01:02:03.5000000"),
        "x": ("CONVERT(varchar(8000), {}, 2) COLLATE Latin1_General_BIN2 >= :v0", "00FF"),
    },
    "oracle": {
        "S": ("NLSSORT({}, 'NLS_SORT = BINARY') >= NLSSORT(:v0, 'NLS_SORT = BINARY')", "aé"),
        "C": ("NLSSORT(RTRIM({}), 'NLS_SORT = BINARY') >= NLSSORT(:v0, 'NLS_SORT = BINARY')", "aé"),
        "X": ("{} >= HEXTORAW(:v0)", "00ff"),
        "Z": ("SYS_EXTRACT_UTC({}) >= TO_TIMESTAMP(:v0, 'YYYY-MM-DD HH24:MI:SS.FF9')", "2024-02-29 01:02:03.500000000"),
    },
    "snowflake": {
        "S": ("COLLATE({}, 'utf8') >= :v0", "aé"),
        "X": ("HEX_ENCODE({}) >= :v0", "00FF"),
        "DD": ("{} >= TO_DATE(:v0, 'YYYY-MM-DD')", "2024-02-29"),
    },
    "bigquery": {
        "s": ("COLLATE({}, '') >= :v0", "aé"),
        "ts": ("{} >= PARSE_TIMESTAMP('%E4Y-%m-%d %H:%M:%E*S', :v0, 'UTC')", "2024-02-29 01:02:03.500000"),
        "x": ("{} >= FROM_HEX(:v0)", "00ff"),
    },
    "trino": {
        "s": ("{} >= :v0", "aé"),
        "d": ("{} >= DECIMAL '12.5'", None),
        "u": ("CAST({} AS varchar) >= :v0", "00000000-0000-0000-0000-0000000000ab"),
        "dd": ("{} >= CAST(:v0 AS date)", "2024-02-29"),
    },
}  # fmt: skip
VALUES = {
    "text": "aé", "uuid": "00000000-0000-0000-0000-0000000000ab", "bytes": "00ff", "date": "2024-02-29", "decimal": "12.5",
    "timestamp": "2024-02-29T01:02:03.5", "timestamp_tz": "2024-02-29T01:02:03.5Z",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, found in BOUNDS.items() for name in found])
def test_a_bound_compares_in_the_order_of_canonical_keys(kind, name):
    """Text and bytes byte by byte, identifiers by their digits, instants in UTC; every value is bound or checked."""
    side, connection = opened(kind)
    column = next(column for column in side.columns if column.name == name)
    types = (LogicalType(column.type.kind),)
    lower = encode_key([VALUES[column.type.kind]], types)
    list(side.read(Request((name,), (name,), types, lower, None)))
    text, values = connection.said[-1]
    dialect = ENGINES[kind](f"{kind}://nowhere")[0]
    condition, value = BOUNDS[kind][name]
    assert text.partition(" WHERE ")[2].replace("%%", "%") == "(" + condition.format(dialect.field(name)) + ")"
    assert values == ({} if value is None else {"v0": value})


@pytest.mark.parametrize("kind", ROW_ENGINES)
def test_hostile_names_are_only_names(kind):
    """Colons, percent signs, brackets and backticks of a name survive both quotings."""
    dialect, _ = ENGINES[kind](f"{kind}://nowhere")
    mapped = dialect.mapped({"oracle": "number", "snowflake": "number"}.get(kind, "bigint"), ()) or dialect.mapped(
        "int64", ()
    )
    for name in [*HOSTILE, "a::b", "\\:x", "]]", "n" * 100]:
        connection = Recording(kind, {})
        rowwise.rows_of(connection, rowwise.sql("SELECT ", mapped.select.replace(MARK, dialect.field(name)), " FROM t"))
        assert dialect.quote(name) in connection.said[0][0].replace("%%", "%")


@pytest.mark.parametrize("kind", ROW_ENGINES)
def test_a_sample_spreads_by_a_hash(kind):
    """The same rows each time, without a sort of the table."""
    side, connection = opened(kind, **{"COUNT(*)": Answer([(100_000,)])})
    side.sample((side.columns[0].name,), 1000)
    text = connection.said[-1][0]
    assert ("% 100 = 0" if kind == "mssql" else ", 100) = 0") in text.replace("%%", "%")


QUERIES = {
    "mssql": {"dm_exec_describe": Answer([("n", "int", 4, 10, 0, 1), ("s", "varchar", 10, 0, 0, 1)])},
    "oracle": {"1 = 0": Answer([], [("N", "DB_TYPE_NUMBER", 5, None, 9, 0, 1), ("S", "DB_TYPE_VARCHAR", 9, 9, None, None, 1)])},
    "snowflake": {"LIMIT 0": Answer([], [("N", 0, None, None, 9, 0, True), ("S", 2, None, 10, None, None, True)])},
    "bigquery": {"LIMIT 0": Answer([], [("n", "INT64"), ("s", "STRING")])},
    "trino": {"LIMIT 0": Answer([], [("n", "bigint"), ("s", "varchar(10)")])},
}  # fmt: skip


@pytest.mark.parametrize("kind", ROW_ENGINES)
def test_a_query_is_described_without_its_rows(kind):
    """By the server or by the driver, never by what the first rows look like."""
    dialect, _ = ENGINES[kind](f"{kind}://nowhere")
    connection = Recording(kind, {**QUERIES[kind], "sys.databases": Answer([(0,)]), "nls_database": Answer([("WE8",)])})
    side = SqlSide(dialect, lambda: connection, query="SELECT n, s FROM t")
    kinds = [column.type.kind for column in side.columns]
    assert kinds == [{"oracle": "decimal", "snowflake": "decimal"}.get(kind, "int"), "text"]


def test_a_missing_table_is_refused():
    """As with every side."""
    side, _ = opened("trino", **{"information_schema.tables": Answer([])})
    with pytest.raises(SideMissingError):
        _ = side.columns


class Sqlite(RowDialect):
    """SQLite as a row engine, so that reading, filters and refusals run on a database."""

    kind = "sqlite"
    parser = "sqlite"

    def mapped(self, name: str, arguments: tuple[int, ...]) -> Mapped | None:
        forms = {"int": "int", "text": "text", "char": "char", "float64": "float", "bool": "bool", "decimal": "parsed",
                 "date": "parsed", "timestamp": "parsed", "bytes": "bytes"}  # fmt: skip
        if name not in forms:
            return None
        kind = LogicalType("text" if name == "char" else name)
        return Mapped(kind, forms[name], MARK, MARK, rowwise.bound_value)

    def located(self, connection: Any, way: tuple[str, ...]) -> tuple[str, ...] | None:
        found = rowwise.rows_of(
            connection, rowwise.sql("SELECT name FROM sqlite_master WHERE name = ", rowwise.Value(way[-1]))
        )
        return tuple(found[0]) if found else None

    def described(self, connection: Any, relation: Relation) -> list[Described]:
        name = rowwise.Value(relation.parts[-1])
        rows = rowwise.rows_of(connection, rowwise.sql("SELECT name, type FROM pragma_table_info(", name, ")"))
        return [Described(*row) for row in rows]

    def hashed(self, terms: tuple[str, ...]) -> str:
        return "delta_side.rowid"

    def text_of(self, column: Any) -> str:
        return f"CAST({self.field(column.column.name)} AS TEXT)" if column.column.engine_type == "odd" else ""


@pytest.fixture
def engine(tmp_path):
    """An SQLAlchemy engine over an empty database."""
    made = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a.db")
    yield made
    made.dispose()


def side_of(engine: Any, columns: str, rows: list[tuple[Any, ...]]) -> SqlSide:
    """Fill the table ``t`` and return the row reader over it."""
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t ({columns})")
        for row in rows:
            connection.exec_driver_sql(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
    return SqlSide(Sqlite(), engine.connect, table="t")


def test_rows_come_as_carriers_in_bounded_batches(engine):
    """Every form of a value, NULL among them."""
    rows = [
        (1, "a ", "x  ", 0.5, 1, "12.50", "2024-02-29", "0001-01-01T00:00:00.5", b"\x00\xff"),
        (2, None, None, None, None, None, None, None, None),
        (3, "é", "", -0.0, 0, "-.5", "9999-12-31", "2024-02-29 01:02:03.123456789", b""),
    ]
    side = side_of(engine, "id int, s text, c char, f float64, b bool, d decimal, dd date, ts timestamp, x bytes", rows)
    names = tuple(column.name for column in side.columns)
    batches = list(side.read(Request(names, ("id",), (INT,), ordered=True, batch_rows=2)))
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert values_of(side, batches, names) == [
        ("1", "a ", "x", "0.5", True, "12.5", "2024-02-29", "0001-01-01T00:00:00.5", "00ff"),
        ("2", *[None] * 8),
        ("3", "é", "", "0", False, "-0.5", "9999-12-31", "2024-02-29T01:02:03.123456789", ""),
    ]
    assert side.sample(("id",)).num_rows == 3
    assert side.estimate_rows() == 3
    side.close()
    side.close()


def test_a_filter_is_evaluated_here_and_drops_nothing(engine):
    """The same rows as on files, whatever the engine's collation; columns that only the filter uses do not come out."""
    side = side_of(engine, "id int, s text", [(1, "a"), (2, "A"), (3, None), (4, "a ")])
    found = parse_filter("s = 'a' AND id < 5", "duckdb", side.columns)
    (batch,) = side.read(Request(("id",), filter=found))
    assert batch.schema.names == ["id", KEEP_COLUMN]
    assert [bool(keep) for keep in batch.column(KEEP_COLUMN).to_pylist()] == [True, False, False, False]


@pytest.mark.parametrize(
    ("columns", "row", "refusal", "text"),
    [
        ("id int, v int", (1, 1.5), SideReadError, "ValueError while reading"),
        ("id int, v text", (1, b"x"), SideReadError, "TypeError while reading"),
        ("id int, v date", (1, "2024-02-30"), ValueRangeError, "2024-02-30 is no date"),
        ("id int, v int", (1, "many"), SideReadError, "ValueError while reading"),
    ],
    ids=["a fraction", "bytes in a text", "no day", "no number"],
)
def test_a_value_that_is_none_of_its_type_is_refused(engine, columns, row, refusal, text):
    """A driver's surprise is a failure of the read, never another value."""
    side = side_of(engine, columns, [row])
    with pytest.raises(refusal, match=text):
        list(side.read(Request(("id", "v"))))


def test_an_unmapped_type_is_refused_or_read_as_the_text_of_the_engine(engine):
    """Only where a rule asks for it."""
    side = side_of(engine, "id int, v odd, w strange", [(1, 7, 8)])
    assert [column.advice for column in side.columns][1:] == [
        "Read it as text: read_as: {type: text}.", "Convert it in a query.",
    ]  # fmt: skip
    with pytest.raises(SideColumnTypeError, match="odd has no logical type"):
        list(side.read(Request(("v",))))
    resolved = side.resolve({"v": TEXT, "w": TEXT})
    assert values_of(resolved, resolved.read(Request(("v",))), ("v",)) == [("7",)]
    with pytest.raises(SideColumnTypeError, match="strange has no logical type"):
        list(resolved.read(Request(("w",))))


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("decimal(12,2)", "decimal", (12, 2)),
        ("TIMESTAMP(6) WITH TIME ZONE", "timestamp with time zone", (6,)),
        ("timestamp(9) with local time zone", "timestamp with local time zone", (9,)),
        ("varchar", "varchar", ()),
        ("array(bigint)", "array(bigint)", ()),
        ("interval day(2) to second(6)", "interval day(2) to second(6)", ()),
        ("struct<a int64>", "struct<a int64>", ()),
    ],
)
def test_a_type_is_split_into_name_and_bounds(text, name, arguments):
    """A nested type stays one name, which no table of types has."""
    assert type_parts(text) == (name, arguments)


def test_numbers_that_no_literal_holds_make_no_bound():
    """A range without that bound has more rows, never fewer."""
    assert rowwise.bound_number(Decimal("NaN")) is None
    assert rowwise.bound_number(10**39) is None
    assert rowwise.bound_int64(2**63) is None
    assert rowwise.bound_number(-5) == rowwise.sql("(-5)")


def test_an_engine_that_somebody_made_is_read(engine, tmp_path):
    """An engine with a reader of its own goes to that one; others need one of the row engines."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1), (2)")
    with open_sqlalchemy(engine, table="t") as side:
        assert side.kind == "sqlite"
        assert values_of(side, side.read(Request(("id",))), ("id",)) == [("1",), ("2",)]

    class Other:
        class dialect:
            name = "firebird"

    with pytest.raises(SideSchemeError, match="No adapter reads firebird"):
        open_sqlalchemy(Other(), table="t")

    class Remote:
        class dialect:
            name = "trino"

        url = sqlalchemy.engine.make_url("trino://user:M4RK@nowhere/catalog")

        def connect(self) -> Any:
            raise sqlalchemy.exc.OperationalError("SELECT 'M4RK'", {}, OSError("user:M4RK@nowhere"))

    remote = open_sqlalchemy(Remote(), table="t")
    with pytest.raises(ConnectError, match="trino: OSError while connecting") as caught:
        _ = remote.columns
    assert "M4RK" not in str(caught.value)


@pytest.mark.parametrize("kind", ["snowflake", "bigquery", "trino"])
def test_a_missing_driver_is_named(kind):
    """Their packages are installed by whoever needs them."""
    side = open_side(SideSpec(uri=f"{kind}://user:M4RK@nowhere/x", table="t"))
    with pytest.raises(SideSchemeError, match=f"{kind}:// needs the SQLAlchemy dialect of {kind}") as caught:
        _ = side.columns
    assert "M4RK" not in str(caught.value)
