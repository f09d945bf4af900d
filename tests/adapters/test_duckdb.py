"""DuckDB as a side: the readers' suite, and its own types at their limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from adapters.reader_suite import SAMPLES, Build, ReaderSuite, values_of

from airflow_delta_provider.adapters.open import open_connection, open_side
from airflow_delta_provider.adapters.side import Order, Request, Side
from airflow_delta_provider.core.errors import (
    SideColumnTypeError,
    SideFileError,
    SideMissingError,
    SideReadError,
    ValueRangeError,
)
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.values import canonical_values

DECLARED = {
    "bool": "BOOLEAN", "int": "BIGINT", "decimal": "DECIMAL(38,4)", "float32": "FLOAT", "float64": "DOUBLE",
    "text": "VARCHAR COLLATE NOCASE", "bytes": "BLOB", "uuid": "UUID", "date": "DATE", "time": "TIME",
    "timestamp": "TIMESTAMP", "timestamp_tz": "TIMESTAMPTZ", "json_text": "JSON",
}  # fmt: skip


def quoted(name: str) -> str:
    """Write an identifier for the statements that build a test's table."""
    return '"' + name.replace('"', '""') + '"'


def stored(kind: str, value: Any) -> Any:
    """Turn a canonical value into what the driver stores."""
    if value is None or kind == "bool":
        return value
    if kind == "bytes":
        return bytes.fromhex(value)
    return int(value) if kind == "int" else value


class TestReaders(ReaderSuite):
    """DuckDB passes the readers' suite, texts under a collation that folds case."""

    kinds = tuple(DECLARED)
    key_kinds = tuple(kind for kind in DECLARED if kind != "json_text")
    case_in_names = False
    samples = {  # noqa: RUF012
        kind: ["NaN", "Infinity", *SAMPLES[kind][:-1], "-Infinity", None] for kind in ("float32", "float64")
    }

    @pytest.fixture
    def build(self, tmp_path: Path) -> Build:
        """Build one file a table."""
        count = 0

        def make(columns: list[tuple[str, str]], rows: list[Any], key: Any = (), table: str = "readings") -> Side:
            nonlocal count
            count += 1
            path = tmp_path / f"{count}.duckdb"
            with duckdb.connect(str(path)) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                declared = ", ".join(f"{quoted(name)} {DECLARED[kind]}" for name, kind in columns)
                connection.execute(f"CREATE TABLE {quoted(table)} ({declared})")
                places = ", ".join("?" for _ in columns)
                values = [[stored(kind, cell) for (_, kind), cell in zip(columns, row, strict=True)] for row in rows]
                if values:
                    connection.execute("BEGIN")
                    connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({places})", values)
                    connection.execute("COMMIT")
            return open_side(SideSpec(uri=f"duckdb:///{path}", table=table))

        return make

    @pytest.fixture
    def absent(self, tmp_path: Path) -> Side:
        """A file that is there, with another table."""
        path = tmp_path / "other.duckdb"
        duckdb.connect(str(path)).close()
        return open_side(SideSpec(uri=f"duckdb:///{path}", table="missing"))


def query_side(query: str) -> Side:
    """Open a query on a database in memory."""
    return open_side(SideSpec(uri="duckdb:///:memory:", query=query))


@pytest.mark.parametrize(
    ("expression", "text", "value"),
    [
        ("CAST(-128 AS TINYINT)", "int(8)", "-128"),
        ("CAST(255 AS UTINYINT)", "int(8,unsigned)", "255"),
        ("CAST(18446744073709551615 AS UBIGINT)", "int(64,unsigned)", "18446744073709551615"),
        ("CAST('-170141183460469231731687303715884105728' AS HUGEINT)", "int(128)", str(-(2**127))),
        ("CAST('340282366920938463463374607431768211455' AS UHUGEINT)", "int(128,unsigned)", str(2**128 - 1)),
        ("CAST('1' || repeat('0', 60) AS BIGNUM)", "decimal", "1" + "0" * 60),
        ("CAST('0.10' AS DECIMAL(4,2))", "decimal(4,2)", "0.1"),
        ("CAST('NaN' AS DOUBLE)", "float64", "NaN"),
        ("CAST('-Infinity' AS FLOAT)", "float32", "-Infinity"),
        ("CAST('b' AS ENUM('c', 'b'))", "text", "b"),
        ("CAST('0101' AS BIT)", "text", "0101"),
        ("DATE '-infinity'", "date", "-infinity"),
        ("DATE 'infinity'", "date", "infinity"),
        ("make_date(-719529)", "date", "-000001-12-31"),
        ("TIME '24:00:00'", "time(6)", "24:00:00"),
        ("CAST('12:00:00.123456789' AS TIME_NS)", "time(9)", "12:00:00.123456789"),
        ("CAST('2020-01-01 00:00:00.5' AS TIMESTAMP_MS)", "timestamp(3)", "2020-01-01T00:00:00.5"),
        ("CAST('9999-12-31 23:59:59' AS TIMESTAMP_S)", "timestamp(0)", "9999-12-31T23:59:59"),
        ("CAST('2020-01-01 00:00:00.123456789' AS TIMESTAMP_NS)", "timestamp(9)", "2020-01-01T00:00:00.123456789"),
        ("TIMESTAMP '-infinity'", "timestamp(6)", "-infinity"),
        ("TIMESTAMPTZ '2020-07-01 12:00:00+02'", "timestamp_tz(6)", "2020-07-01T10:00:00Z"),
        ("INTERVAL '14 months 3 days -4.5 seconds'", "interval", "P14M3DT-4.5S"),
        ("CAST('{\"b\": 1, \"a\":2}' AS JSON)", "json_text", '{"b": 1, "a":2}'),
        ("[uuid_v, NULL]", "array<uuid>", ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]),
        ("CAST([1, 2] AS INTEGER[2])", "array<int(32)>", ["1", "2"]),
        ("[DATE '-infinity', DATE '2020-01-01']", "array<date>", ["-infinity", "2020-01-01"]),
        ("{'a b': CAST('x' AS ENUM('x')), 'c': CAST(5 AS UHUGEINT)}", 'struct<"a b":text,"c":int(128,unsigned)>', ["x", "5"]),
        ("map {'k': CAST('1' AS BIT)}", "map<text,text>", [["k", "1"]]),
    ],
)  # fmt: skip
def test_a_type_keeps_its_limits(expression: str, text: str, value: Any) -> None:
    """Each of these wraps, rounds or changes its name somewhere between an engine and Arrow."""
    source = f"SELECT {expression} AS v FROM (SELECT CAST('00010203-0405-0607-0809-0a0b0c0d0e0f' AS UUID) AS uuid_v)"
    with query_side(source) as side:
        kind = side.columns[0].type
        assert kind is not None
        assert kind.text == text
        batch = next(side.read(Request(("v",))))
        assert canonical_values(batch.column("v"), kind, kind) == [value]


def test_null_parents_hide_what_lies_under_them() -> None:
    """A slot under a NULL struct or list is no value, and never fails a conversion."""
    source = "SELECT * FROM (VALUES ({'h': CAST(1 AS HUGEINT)}, [CAST(1 AS HUGEINT)]), (NULL, NULL), ({'h': NULL}, [NULL])) AS t(s, l)"
    with query_side(source) as side:
        batch = next(side.read(Request(("s", "l"))))
        kinds = {column.name: column.type for column in side.columns}
        assert canonical_values(batch.column("s"), kinds["s"], kinds["s"]) == [["1"], None, [None]]
        assert canonical_values(batch.column("l"), kinds["l"], kinds["l"]) == [["1"], None, [None]]


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("CAST('12:00:00+01' AS TIMETZ)", "CAST it to TIME"),
        ("union_value(a := 1)", "union_extract"),
        ("CAST(1 AS VARIANT)", "CAST it to JSON"),
        ("[INTERVAL 1 DAY]", "read_as: {type: text}"),
    ],
)
def test_a_type_without_a_mapping_is_refused_with_advice(expression: str, advice: str) -> None:
    """It is never read as text in silence, and it does not stop the other columns."""
    with query_side(f"SELECT 1 AS id, {expression} AS v") as side:
        assert side.columns[1].type is None
        assert advice in side.columns[1].advice
        assert len(list(side.read(Request(("id",))))) == 1
        with pytest.raises(SideColumnTypeError, match=r"DELTA_SIDE_TYPE.*column v"):
            list(side.read(Request(("v",))))


def test_an_interval_beyond_64_bits_of_nanoseconds_is_refused() -> None:
    """Arrow's interval would wrap in silence: three million hours came back as minus two."""
    wide = query_side("SELECT INTERVAL '3000000 hours' AS v")
    with wide as side, pytest.raises(ValueRangeError, match=r"DELTA_VALUE_RANGE.*interval"):
        list(side.read(Request(("v",))))


def test_a_null_literal_takes_its_partners_type() -> None:
    """A query's bare NULL has no type of its own."""
    with query_side("SELECT 1 AS id, NULL AS v") as side:
        assert side.columns[1].untyped
        resolved = side.resolve({"v": LogicalType("bytes")})
        assert values_of(resolved, resolved.read(Request(("id", "v"))), ("id", "v")) == [("1", None)]


def test_enums_order_by_their_label() -> None:
    """Their own order is that of the declaration."""
    with query_side("SELECT unnest(['z', 'a', 'Z']::ENUM('z', 'a', 'Z')[]) AS k") as side:
        kind = (LogicalType("text"),)
        request = Request(("k",), ("k",), kind, encode_key(["Z"], kind), None, ordered=True)
        assert values_of(side, side.read(request), ("k",)) == [("Z",), ("a",), ("z",)]


def test_types_without_canonical_order_are_sorted_elsewhere() -> None:
    """An arbitrary-precision number cannot be bound as a bound, and a list is no key."""
    with query_side("SELECT CAST(1 AS BIGNUM) AS b, [1] AS l, 's' AS s") as side:
        assert side.order(("b",), (LogicalType("decimal"),)) is Order.NONE
        assert side.order(("s",), (LogicalType("text"),)) is Order.PROMISED
        assert side.order(("s",), (LogicalType("int"),)) is Order.NONE


@pytest.mark.parametrize(
    ("column", "kind", "bound"),
    [
        ("CAST(k AS DECIMAL(10,2))", "decimal", "1.005"),
        ("CAST(k AS DECIMAL(10,2))", "decimal", "1" + "0" * 40),
        ("CAST(k AS DECIMAL(10,2))", "decimal", "NaN"),
        ("CAST(k AS TINYINT)", "decimal", "0.5"),
        ("CAST(k AS TINYINT)", "int", str(2**127)),
        ("CAST(k AS UHUGEINT)", "int", "-5"),
        ("CAST(k AS FLOAT)", "float64", "0.1"),
        ("CAST(k AS FLOAT)", "decimal", "1." + "0" * 30 + "1"),
        ("make_timestamp(CAST(k AS BIGINT))", "timestamp", "1970-01-01T00:00:00.0000015"),
        ("CAST(make_timestamp(CAST(k AS BIGINT) * 1000000) AS TIMESTAMP_S)", "timestamp", "1970-01-01T00:00:01.5"),
        ("CAST(make_timestamp(CAST(k AS BIGINT)) AS TIMESTAMP_NS)", "timestamp", "0001-01-01T00:00:00"),
        ("make_date(CAST(k AS INTEGER))", "date", "+5900000-01-01"),
    ],
)
def test_a_bound_that_the_column_cannot_hold_moves_outward(column: str, kind: str, bound: str) -> None:
    """Both sides share bounds in the wider of their types; rounding one inward would lose rows."""
    kinds = (LogicalType(kind),)
    cut = encode_key([bound], kinds)
    with query_side(f"SELECT {column} AS k FROM (VALUES (0), (1), (2)) AS t(k)") as side:
        everything = values_of(side, side.read(Request(("k",))), ("k",))
        for lower, upper in ((cut, None), (None, cut)):
            read = values_of(side, side.read(Request(("k",), ("k",), kinds, lower, upper, ordered=True)), ("k",))
            inside = [row for row in everything if (encode_key(row, kinds) >= cut) == (lower is not None)]
            assert set(inside) <= set(read)


@pytest.mark.parametrize(
    ("name", "value"),
    [("a.b", 1), ("main.a.b", 1), ("shop.orders", 2), ('"sh.op"."x""y"', 3), ("SHOP.Orders", 2), ("v", 1)],
)
def test_a_table_is_found_by_its_exact_name_first(tmp_path: Path, name: str, value: int) -> None:
    """A dot may be part of a name, or stand between a schema and a table."""
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in (
            'CREATE TABLE "a.b" AS SELECT 1 AS n', "CREATE SCHEMA shop", "CREATE TABLE shop.orders AS SELECT 2 AS n",
            'CREATE SCHEMA "sh.op"', 'CREATE TABLE "sh.op"."x""y" AS SELECT 3 AS n', 'CREATE VIEW v AS SELECT n FROM "a.b"',
        ):  # fmt: skip
            connection.execute(statement)
    with open_side(SideSpec(uri=f"duckdb:///{path}", table=name)) as side:
        assert next(side.read(Request(("n",)))).column("n").to_pylist() == [value]


def test_a_declared_key_and_required_columns_are_known(tmp_path: Path) -> None:
    """The key may be left out of a specification where both sides declare the same."""
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (v INTEGER, b INTEGER, a VARCHAR, PRIMARY KEY (b, a))")
    with open_side(SideSpec(uri=f"duckdb:///{path}", table="t")) as side:
        assert side.primary_key == ("b", "a")
        assert [column.nullable for column in side.columns] == [True, False, False]
        assert side.facts()["engine"] == "duckdb"


def test_a_missing_file_is_refused_and_not_created(tmp_path: Path) -> None:
    """The driver's default would create an empty database and compare against nothing."""
    path = tmp_path / "typo.duckdb"
    with pytest.raises(SideMissingError, match=r"There is no file typo\.duckdb"):
        _ = open_side(SideSpec(uri=f"duckdb:///{path}", table="t")).columns
    assert not path.exists()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Another format gives no verdict."""
    path = tmp_path / "broken.duckdb"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(SideFileError, match="DELTA_SIDE_FILE"):
        _ = open_side(SideSpec(uri=f"duckdb:///{path}", table="t")).columns


def test_an_error_in_mid_read_shows_no_value() -> None:
    """The engine's own message quotes the value that it could not convert."""
    broken = query_side("SELECT CAST('secret-' || i AS INTEGER) AS v FROM range(3) AS t(i)")
    with broken as side, pytest.raises(SideReadError) as caught:
        list(side.read(Request(("v",))))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_python_variable_is_no_table() -> None:
    """The driver takes an unknown table's name for a variable of the caller; a side reads the database alone."""
    hidden = [1, 2, 3]
    assert hidden
    with query_side("SELECT * FROM hidden") as side, pytest.raises(SideMissingError):
        _ = side.columns


def test_a_connection_of_somebody_else_can_be_read() -> None:
    """An Airflow hook hands over its connection; several streams are open on it at once."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t AS SELECT i AS id FROM range(10000) AS r(i)")
    side = open_connection("duckdb", connection.cursor, table="t")
    one, two = side.read(Request(("id",), batch_rows=2048)), side.read(Request(("id",), batch_rows=2048))
    assert next(one).num_rows == next(two).num_rows == 2048
    one.close()
    assert sum(batch.num_rows for batch in two) == 10_000 - 2048
    side.close()
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (10_000,)


def test_wide_rows_come_in_batches_of_few_bytes() -> None:
    """DuckDB hands over 2,048 rows at once, whatever they weigh; what is compared at a time is bounded by its bytes."""
    query = "SELECT i AS id, repeat('x', 1000000) AS v, [i, i + 1] AS items FROM range(20) AS r(i)"
    with query_side(query) as side:
        batches = list(side.read(Request(("id", "v", "items"), batch_bytes=4_000_000)))
    assert max(batch.nbytes for batch in batches) < 2 * 4_000_000
    assert [row for batch in batches for row in batch.column("id").to_pylist()] == list(range(20))
    assert [row for batch in batches for row in batch.column("items").to_pylist()] == [[i, i + 1] for i in range(20)]
    assert {len(text) for batch in batches for text in batch.column("v").to_pylist()} == {1_000_000}
