"""Filters: one expression, the same rows on a file and in a database, and everything else refused."""

from __future__ import annotations

import pickle
import sqlite3
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_delta_provider.adapters.filters import Filter, parse_filter
from airflow_delta_provider.adapters.open import open_connection
from airflow_delta_provider.adapters.side import KEEP_COLUMN, Column, Request
from airflow_delta_provider.core.errors import FilterError
from airflow_delta_provider.core.types import LogicalType

TYPES = {
    "id": LogicalType("int", bits=64),
    "n": LogicalType("float64"),
    "s": LogicalType("text"),
    "p%q": LogicalType("text"),
    "Flag": LogicalType("text"),
}
COLUMNS = [Column(name, kind, "") for name, kind in TYPES.items()]
ROWS: list[tuple[Any, ...]] = [
    (1, 0.1, "a", "10%", "x"),
    (2, 1.5, "A", "a;b", "X"),
    (3, None, "a ", "%s", None),
    (4, -2.0, "é", "%(x)s", "it's"),
    (5, 3.0, None, ":name", ""),
    (6, 2.0, "", "a\\b", "--"),
    (7, 2.5, "\U00010000", "\uffff", "/*"),
]

SAME_ROWS = [
    ("s = 'a'", [1]),
    ("s <> 'a'", [2, 3, 4, 6, 7]),
    ("s > 'Z'", [1, 3, 4, 7]),
    ("s < '\uffff' AND s > 'z'", [4]),
    ("s IN ('a', 'A', NULL)", [1, 2]),
    ("s NOT IN ('a', NULL)", []),
    ("NOT (s = 'a')", [2, 3, 4, 6, 7]),
    ("s IS NULL OR s = ''", [5, 6]),
    ("s IS NOT DISTINCT FROM NULL", [5]),
    ("s IS DISTINCT FROM 'a'", [2, 3, 4, 5, 6, 7]),
    ("(s = 'a') IS NOT TRUE", [2, 3, 4, 5, 6, 7]),
    ("(s = 'a') IS FALSE", [2, 3, 4, 6, 7]),
    ("s LIKE 'a%'", [1, 3]),
    ("s LIKE '_'", [1, 2, 4, 7]),
    ("s NOT LIKE 'a%'", [2, 4, 6, 7]),
    ("\"p%q\" LIKE '%!%%' ESCAPE '!'", [1, 3, 4]),
    ("\"p%q\" = '%s' OR \"p%q\" = ':name' OR \"p%q\" = 'a;b'", [2, 3, 5]),
    ("\"p%q\" = 'a\\b'", [6]),
    ("flag = 'it''s' OR \"Flag\" = '--' OR Flag = '/*'", [4, 6, 7]),
    ("id BETWEEN 2 AND 3", [2, 3]),
    ("id NOT BETWEEN 2 AND 6", [1, 7]),
    ("id % 2 = 0 AND id >= 4", [4, 6]),
    ("-id < -5", [6, 7]),
    ("id + 1 = 3 OR id * 2 = 8", [2, 4]),
    ("n = 0.1", [1]),
    ("n > id", []),
    ("abs(n) = 2", [4, 6]),
    ("n < -1.5", [4]),
    ("coalesce(n, 0) = 0", [3]),
    ("coalesce(s, 'none') = 'none'", [5]),
    ("nullif(s, 'a') IS NULL", [1, 5]),
    ("s || '!' = 'a!'", [1]),
    ("CASE WHEN id < 3 THEN 'low' ELSE 'high' END = 'low'", [1, 2]),
    ("CASE s WHEN 'a' THEN 1 WHEN 'A' THEN 2 END = 2", [2]),
    ("id = 1 OR id = 2 AND s = 'none'", [1]),
    ("TRUE", [1, 2, 3, 4, 5, 6, 7]),
    ("NULL", []),
    ("id = CAST('3' AS INTEGER)", [3]),
]


def batch() -> pa.RecordBatch:
    """Return the rows as a file would give them."""
    return pa.RecordBatch.from_pylist([dict(zip(TYPES, row, strict=True)) for row in ROWS])


def kept_in_file(found: Filter) -> list[int]:
    """Return the ids that the filter keeps, evaluated over a batch."""
    marks = found.evaluate(batch(), TYPES).to_pylist()
    return [row[0] for row, mark in zip(ROWS, marks, strict=True) if mark]


def kept_in_database(kind: str, found: Filter) -> list[int]:
    """Return the ids that the filter keeps, evaluated by a database."""
    connection: Any = sqlite3.connect(":memory:") if kind == "sqlite" else duckdb.connect(":memory:")
    text = "TEXT" if kind == "sqlite" else "VARCHAR COLLATE NOCASE"
    nocase = "TEXT COLLATE NOCASE" if kind == "sqlite" else text
    connection.execute(f'CREATE TABLE t (id BIGINT, n DOUBLE, s {nocase}, "p%q" {text}, "Flag" {nocase})')
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ROWS)
    side = open_connection(kind, lambda: connection, table="t")
    ids: list[int] = []
    for read in side.read(Request(("id",), filter=found)):
        pairs = zip(read.column("id").to_pylist(), read.column(KEEP_COLUMN).to_pylist(), strict=True)
        ids += [number for number, keep in pairs if keep]
    side.close()
    return sorted(ids)


@pytest.mark.parametrize(("text", "ids"), SAME_ROWS, ids=[text for text, _ in SAME_ROWS])
def test_a_filter_means_the_same_rows_on_a_file_and_in_every_database(text: str, ids: list[int]) -> None:
    """A migration compares a file with a table, or two engines; rows must not fall in scope on one side alone."""
    found = parse_filter(text, "duckdb", COLUMNS)
    assert kept_in_file(found) == ids
    assert kept_in_database("sqlite", found) == ids
    assert kept_in_database("duckdb", found) == ids


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("id = 1; DROP TABLE t", "semicolon"),
        ("id = 1;", "semicolon"),
        ("id = 1 -- all", "comment"),
        ("id = 1 /* all */", "comment"),
        ("/* all */ id = 1", "comment"),
        ("id = (SELECT 1)", "subqueries"),
        ("EXISTS (SELECT 1)", "subqueries"),
        ("id IN (SELECT 1)", "query"),
        ("DELETE FROM t", "parse"),
        ("id = 1 UNION SELECT 2", "parse|UNION"),
        ("random() > 0.5", "RAND"),
        ("now() > s", "NOW|CURRENT"),
        ("pg_sleep(10) IS NULL", "PG_SLEEP"),
        ("load_extension('x') IS NULL", "LOAD_EXTENSION"),
        ("lower(s) = 'a'", "LOWER"),
        ("id = ?", "placeholder"),
        ("id = :x", "placeholder|parse"),
        ("id = $1", "placeholder"),
        ("nowhere = 1", "nowhere"),
        ("\"ID\" = 1", "ID"),
        ("t.id = 1", "t.id"),
        ("id", "number"),
        ("s", "text"),
        ("1", "number"),
        ("id = 's'", "number with the text"),
        ("s = 5", "number with text"),
        ("id / 2 = 1", "Division"),
        ("s ILIKE 'a'", "case"),
        ("s ~ 'a'", "REGEXP"),
        ("s LIKE 'a\\_b'", "backslash"),
        ("s LIKE s", "no literal"),
        ("s LIKE 'a!b' ESCAPE '!'", "ordinary"),
        ("s LIKE 'ab' ESCAPE 'xy'", "ESCAPE"),
        ("id % 0 = 1", "positive"),
        ("n % 2 = 1", "whole"),
        ("CAST(s AS INTEGER) = 1", "casts"),
        ("id = 99999999999999999999", "64 bits"),
        ("n = 0.1234567890123456789", "15 digits"),
        ("n = 1e400", "plain digits"),
        ("s || id = 'a1'", "joins"),
        ("count(*) > 1", "COUNT"),
        ("id = 1 AND", "parse"),
        ("sum(id) OVER () > 1", "WINDOW"),
        ("* = 1", "parse|STAR|star"),
        ("id = 1\x00", "NUL"),
        ("id BETWEEN SYMMETRIC 3 AND 1", "symmetric"),
        ("s = 'a' COLLATE nocase", "COLLATE"),
        ("s LIKE ANY ('a')", "ANY"),
        ("id = ANY(id)", "ANY"),
        ("n = '5.678'::decimal(5,2)", "cut"),
        ("id = CAST('1.5' AS INTEGER)", "cut"),
        ("TRY_CAST('x' AS DATE) IS NULL", "TRY"),
        ("s = 'a' 'b'", "CONCAT"),
    ],
)  # fmt: skip
def test_what_is_not_one_plain_expression_is_refused(text: str, reason: str) -> None:
    """A filter comes from a file that many may write; it can neither act nor mean two things."""
    with pytest.raises(FilterError, match=rf"(?s)\[DELTA_FILTER\].*({reason})"):
        parse_filter(text, "duckdb", COLUMNS)


def test_deep_nesting_is_refused_and_crashes_nothing() -> None:
    """Ten thousand brackets are an attack or an accident."""
    with pytest.raises(FilterError):
        parse_filter("(" * 10_000 + "id = 1" + ")" * 10_000, "duckdb", COLUMNS)
    with pytest.raises(FilterError):
        parse_filter("NOT " * 2_000 + "id = 1", "duckdb", COLUMNS)


def test_a_filter_is_read_in_the_sources_dialect() -> None:
    """Casts with colons, backticks and double pipes are what they are in the dialect that wrote them."""
    clock = [Column("t", LogicalType("time"), "time"), Column("a b", LogicalType("text"), "text")]
    found = parse_filter("t = '12:30:00'::time", "postgresql", clock)
    rows = pa.record_batch({"t": pa.array([45_000_000_000, 45_060_000_000], pa.time64("us")), "a b": ["x", "y"]})
    kinds = {column.name: column.type for column in clock if column.type}
    assert found.evaluate(rows, kinds).to_pylist() == [True, False]
    assert parse_filter("`a b` = 'y'", "mysql", clock).evaluate(rows, kinds).to_pylist() == [False, True]
    with pytest.raises(FilterError):
        parse_filter("`a b` || 'y' = 'z'", "mysql", clock)


@pytest.mark.parametrize(
    ("kind", "carrier", "values", "text", "marks"),
    [
        ("date", pa.date32(), [0, 2**31 - 1, -(2**31), None], "c >= '1970-01-01'", [True, True, False, False]),
        (
            "timestamp",
            pa.timestamp("us"),
            [0, 2**63 - 1, -(2**63), None],
            "c < '1970-01-01 00:00:01'",
            [True, False, True, False],
        ),
        ("timestamp_tz", pa.timestamp("us", tz="UTC"), [0, None], "c = '1970-01-01T01:00:00+01:00'", [True, False]),
        ("timestamp_tz", pa.timestamp("us", tz="UTC"), [0, None], "c = '1970-01-01'", [True, False]),
        ("timestamp", pa.timestamp("ns"), [1, 0], "c > TIMESTAMP '1970-01-01'", [True, False]),
        ("uuid", pa.binary(16), [bytes(16), b"\xff" * 16], "c = '00000000-0000-0000-0000-000000000000'", [True, False]),
        ("decimal", pa.decimal128(10, 2), ["0.10", "0.11"], "c = 0.1", [True, False]),
        ("decimal", pa.decimal256(50, 2), ["0.10", "0.11"], "c = 0.1", [True, False]),
        ("decimal", pa.string(), ["0.1", "-12", "100.25", None], "c > 9.5", [False, False, True, False]),
        ("text", pa.large_binary(), [b"a", b"b"], "c = 'a'", [True, False]),
        ("float32", pa.float32(), [0.1, 0.5], "c = 0.1 OR c = 0.5", [False, True]),
        ("bool", pa.bool_(), [True, False, None], "c", [True, False, False]),
        ("bool", pa.bool_(), [True, False, None], "c = FALSE", [False, True, False]),
        ("json_text", pa.string(), ["{}", None], "c IS NULL", [False, True]),
    ],
)
def test_every_type_compares_with_its_literal(
    kind: str, carrier: Any, values: Any, text: str, marks: list[bool]
) -> None:
    """A literal in quotes takes the type of what it is compared with, instants in UTC."""
    wide = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_tz": pa.int64()}.get(kind)
    if kind == "decimal" and carrier != pa.string():
        array = pa.array(values, pa.string()).cast(carrier)
    else:
        array = pa.array(values, wide).view(carrier) if wide else pa.array(values, carrier)
    found = parse_filter(text, "duckdb", [Column("c", LogicalType(kind), kind)])
    assert found.evaluate(pa.record_batch({"c": array}), {"c": LogicalType(kind)}).to_pylist() == marks


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "sqlite", "duckdb"])
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("s IS NOT NULL", [1, 2, 3, 4, 6, 7]),
        ("s NOT LIKE 'a%' ESCAPE '!'", [2, 4, 6, 7]),
        ("NOT s LIKE 'a%'", [2, 4, 6, 7]),
        ("s NOT IN ('a', 'A')", [3, 4, 6, 7]),
        ("id NOT BETWEEN 2 AND 6", [1, 7]),
        ("NOT id = 1 AND NOT s IS NULL", [2, 3, 4, 6, 7]),
        ("s IS NOT NULL AND n IS NOT NULL OR id = 5", [1, 2, 4, 5, 6, 7]),
    ],
)
def test_a_negation_is_one_in_every_dialect(dialect: str, text: str, ids: list[int]) -> None:
    """A parser keeps NOT in a flag for some dialects and around the expression for others; missing it turns all round."""
    assert kept_in_file(parse_filter(text, dialect, COLUMNS)) == ids


def test_bytes_compare_with_a_hexadecimal_literal() -> None:
    """Binary columns are filtered too."""
    found = parse_filter("c = x'00ff'", "postgresql", [Column("c", LogicalType("bytes"), "bytea")])
    rows = pa.record_batch({"c": pa.array([b"\x00\xff", b""], pa.binary())})
    assert found.evaluate(rows, {"c": LogicalType("bytes")}).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "c = '2024-02-30'"),
        ("date", "c = 'today'"),
        ("date", "c = 20240101"),
        ("timestamp", "c = '2024-01-01 00:00:00+01'"),
        ("timestamp", "c > DATE '2024-01-01'"),
        ("timestamp_tz", "c = '2024-01-01 00:00:00.1234567'"),
        ("time", "c = '25:00:00'"),
        ("uuid", "c = 'abc'"),
        ("json_text", "c = '{}'"),
        ("interval", "c = c"),
    ],
)
def test_a_literal_that_is_none_is_refused(kind: str, text: str) -> None:
    """Engines read such texts differently, or in silence as NULL."""
    with pytest.raises(FilterError):
        parse_filter(text, "duckdb", [Column("c", LogicalType(kind), kind)])


def test_time_stamps_beyond_64_bits_of_nanoseconds_are_compared_or_refused() -> None:
    """A year 0001 with nanoseconds has its own carrier; cutting it to microseconds would make two instants equal."""
    found = parse_filter("c < '1970-01-01'", "duckdb", [Column("c", LogicalType("timestamp"), "")])
    kinds = {"c": LogicalType("timestamp")}
    rows = pa.array([Decimal(-62135596800) * 10**9, Decimal(0), None], pa.decimal128(38, 0))
    assert found.evaluate(pa.record_batch({"c": rows}), kinds).to_pylist() == [True, False, False]
    with pytest.raises(FilterError, match="cannot compare"):
        found.evaluate(pa.record_batch({"c": pa.array([Decimal(-1)], pa.decimal128(38, 0))}), kinds)


@pytest.mark.parametrize(
    ("kind", "values"), [("text", [b"\xff"]), ("decimal", [Decimal("9" * 50)]), ("decimal", ["NaN"])]
)
def test_values_that_cannot_be_compared_exactly_are_refused(kind: str, values: list[Any]) -> None:
    """A row whose verdict is a guess must not count as skipped."""
    found = parse_filter("c = " + ("'a'" if kind == "text" else "1"), "duckdb", [Column("c", LogicalType(kind), "")])
    with pytest.raises(FilterError, match="cannot compare"):
        found.evaluate(pa.record_batch({"c": values}), {"c": LogicalType(kind)})


def test_one_filter_serves_both_sides_through_the_map() -> None:
    """The target has its own names; a column that it lacks is refused before a row is read."""
    found = parse_filter("s = 'a' AND id > 0", "duckdb", COLUMNS)
    other = [Column("id", TYPES["id"], ""), Column("text", TYPES["s"], "")]
    renamed = found.renamed({"s": "text"}, other)
    assert renamed.columns == ("text", "id")
    assert renamed.text == found.text
    rows = pa.record_batch({"id": [1, 2], "text": ["a", "b"]})
    assert renamed.evaluate(rows, {"id": TYPES["id"], "text": TYPES["s"]}).to_pylist() == [True, False]
    with pytest.raises(FilterError, match="other side"):
        found.renamed({}, other)
    with pytest.raises(FilterError, match="number with the text"):
        found.renamed({"s": "id"}, other)


def test_an_untyped_column_is_checked_when_its_type_is_known() -> None:
    """A column of a CSV file takes its type from its partner after the filter was parsed."""
    found = parse_filter("c = 5", "duckdb", [Column("c", LogicalType("text"), "", untyped=True)])
    assert found.evaluate(pa.record_batch({"c": [5, 6]}), {"c": LogicalType("int")}).to_pylist() == [True, False]
    with pytest.raises(FilterError, match="number with text"):
        found.evaluate(pa.record_batch({"c": ["5"]}), {"c": LogicalType("text")})


def test_a_filter_travels_to_another_process() -> None:
    """Shards are compared in worker processes; the evaluation's own database stays behind."""
    found = parse_filter("id > 5", "duckdb", COLUMNS)
    assert kept_in_file(found) == [6, 7]
    assert kept_in_file(pickle.loads(pickle.dumps(found))) == [6, 7]


def test_a_time_of_day_literal_has_no_type_in_sqlite() -> None:
    """There it would become the number 12; the refusal names the way out."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER, t TEXT)")
    connection.execute("INSERT INTO t VALUES (1, '12:30:00')")
    side = open_connection("sqlite", lambda: connection, table="t")
    with pytest.raises(FilterError, match=r"each side its own filter|compares"):
        found = parse_filter("t = '12:30:00'::time", "postgresql", side.columns)
        list(side.read(Request(("id",), filter=found)))
    side.close()
