"""SQLite as a side: the readers' suite, and what only an engine without declared types does."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from adapters.reader_suite import Build, ReaderSuite, values_of

from airflow_delta_provider.adapters.open import open_connection, open_side
from airflow_delta_provider.adapters.side import Order, RangeCost, Request, Side
from airflow_delta_provider.core.errors import SideChangedError, SideColumnTypeError, SideFileError, SideMissingError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.types import LogicalType

DECLARED = {"int": "INTEGER", "float64": "REAL", "text": "TEXT", "bytes": "BLOB"}


def quoted(name: str) -> str:
    """Write an identifier for the statements that build a test's table."""
    return '"' + name.replace('"', '""') + '"'


def stored(kind: str, value: Any) -> Any:
    """Turn a canonical value into what the driver stores."""
    if value is None:
        return None
    return {"int": int, "float64": float, "bytes": bytes.fromhex}.get(kind, str)(value)


def database(path: Path, *statements: str) -> str:
    """Run statements on a new file and return its address."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


class TestReaders(ReaderSuite):
    """SQLite passes the readers' suite."""

    kinds = ("int", "float64", "text", "bytes")
    key_kinds = ("int", "float64", "text", "bytes")
    case_in_names = False
    filter_dialect = "sqlite"

    @pytest.fixture
    def build(self, tmp_path: Path) -> Build:
        """Build one file a table."""
        count = 0

        def make(columns: list[tuple[str, str]], rows: list[Any], key: Any = (), table: str = "readings") -> Side:
            nonlocal count
            count += 1
            path = tmp_path / f"{count}.db"
            connection = sqlite3.connect(path)
            declared = ", ".join(f"{quoted(name)} {DECLARED[kind]}" for name, kind in columns)
            connection.execute(f"CREATE TABLE {quoted(table)} ({declared})")
            places = ", ".join("?" for _ in columns)
            values = [[stored(kind, cell) for (_, kind), cell in zip(columns, row, strict=True)] for row in rows]
            connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({places})", values)
            connection.commit()
            connection.close()
            return open_side(SideSpec(uri=f"sqlite:///{path}", table=table))

        return make

    @pytest.fixture
    def absent(self, tmp_path: Path) -> Side:
        """A file that is there, with another table."""
        address = database(tmp_path / "other.db", "CREATE TABLE present (id INTEGER)")
        return open_side(SideSpec(uri=address, table="missing"))


def kinds_of(side: Side) -> dict[str, str | None]:
    """Return the kind of each column."""
    return {column.name: column.type.kind if column.type else None for column in side.columns}


def test_what_is_stored_decides_and_not_what_is_declared(tmp_path: Path) -> None:
    """An integer column with fractions would be cut to whole numbers by its declaration."""
    address = database(
        tmp_path / "a.db",
        "CREATE TABLE t (id INTEGER, n INTEGER, d VARCHAR, b, mixed NUMERIC)",
        "INSERT INTO t VALUES (1, 2, 'x', 1.5, 1), (2, 0.5, 'y', 2.5, 0.1)",
    )
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert kinds_of(side) == {"id": "int", "n": "decimal", "d": "text", "b": "float64", "mixed": "decimal"}
        assert values_of(side, side.read(Request(("n", "mixed"))), ("n", "mixed")) == [
            ("2", "1"),
            ("0.5", "0.1000000000000000055511151231257827021181583404541015625"),
        ]


def test_a_mix_that_cannot_be_widened_is_refused_by_column_and_classes(tmp_path: Path) -> None:
    """Texts among numbers have no common value; reading one as the other would invent equality."""
    address = database(tmp_path / "a.db", "CREATE TABLE t (id, v)", "INSERT INTO t VALUES (1, 'x'), (2, 7), (3, x'00')")
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert kinds_of(side) == {"id": "int", "v": None}
        assert len(list(side.read(Request(("id",))))) == 1
        with pytest.raises(SideColumnTypeError, match=r"\[DELTA_SIDE_TYPE\] table t, column v: blob and text .*CAST"):
            list(side.read(Request(("v",))))


def test_a_column_without_values_takes_its_affinity_or_its_partners_type(tmp_path: Path) -> None:
    """A guess of integer for every empty column looked like a type change."""
    address = database(
        tmp_path / "a.db",
        "CREATE TABLE t (i INT, s VARCHAR(9), r DOUBLE, b BLOB, d DATE, n)",
        "INSERT INTO t (i) VALUES (1)",
    )
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert kinds_of(side) == {"i": "int", "s": "text", "r": "float64", "b": "bytes", "d": "text", "n": "text"}
        assert [column.name for column in side.columns if column.untyped] == ["d", "n"]
        resolved = side.resolve({"d": LogicalType("date"), "n": LogicalType("uuid")})
        assert kinds_of(resolved)["d"] == "date"
        batch = next(resolved.read(Request(("d", "n"))))
        assert [str(kind) for kind in batch.schema.types] == ["date32[day]", "fixed_size_binary[16]"]
        assert batch.column("d").to_pylist() == [None]


def test_text_that_is_not_utf8_keeps_its_bytes(tmp_path: Path) -> None:
    """A replacement character would make two different texts equal."""
    address = database(
        tmp_path / "a.db", "CREATE TABLE t (s TEXT)", "INSERT INTO t VALUES (CAST(x'ff61' AS TEXT)), ('b')"
    )
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert next(side.read(Request(("s",)))).column("s").to_pylist() == [b"\xffa", b"b"]


def test_a_wide_table_is_described_in_parts(tmp_path: Path) -> None:
    """SQLite gives at most 2,000 results a statement; 1,900 columns ask for 3,800."""
    names = [f"c{at}" for at in range(1_900)]
    address = database(tmp_path / "a.db", f"CREATE TABLE t ({', '.join(names)})", "INSERT INTO t (c1899) VALUES (1)")
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert len(side.columns) == 1_900
        assert side.columns[-1].type == LogicalType("int", bits=64)


def test_keys_order_by_bytes_under_a_nocase_collation(tmp_path: Path) -> None:
    """The column's collation would call A and a neighbours, and an index in it serves no range."""
    address = database(
        tmp_path / "a.db",
        "CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY, u TEXT UNIQUE)",
        "INSERT INTO t VALUES ('b', '1'), ('A', '2'), ('c', '3'), ('B ', '4')",
    )
    with open_side(SideSpec(uri=address, table="t")) as side:
        kind = (LogicalType("text"),)
        request = Request(("k",), ("k",), kind, encode_key(["B"], kind), None, ordered=True)
        assert next(side.read(request)).column("k").to_pylist() == ["B ", "b", "c"]
        assert side.range_cost(("k",)) is RangeCost.SCAN
        assert side.range_cost(("u",)) is RangeCost.INDEX
        assert side.primary_key == ("k",)


def test_texts_in_a_column_of_numeric_affinity_are_not_compared_as_numbers(tmp_path: Path) -> None:
    """Affinity would turn a bound text into a number, under which every text is greater."""
    address = database(tmp_path / "a.db", "CREATE TABLE t (k INTEGER)", "INSERT INTO t VALUES ('a'), ('0x'), ('b')")
    with open_side(SideSpec(uri=address, table="t")) as side:
        kind = (LogicalType("text"),)
        request = Request(("k",), ("k",), kind, None, encode_key(["10"], kind), ordered=True)
        assert next(side.read(request)).column("k").to_pylist() == ["0x"]


def test_texts_of_a_utf16_database_are_sorted_elsewhere(tmp_path: Path) -> None:
    """Its binary collation compares UTF-16 bytes, which is not code point order."""
    address = database(
        tmp_path / "a.db", "PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t (k TEXT)", "INSERT INTO t VALUES ('é')"
    )
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert side.order(("k",), (LogicalType("text"),)) is Order.NONE
        assert values_of(side, side.read(Request(("k",))), ("k",)) == [("é",)]


@pytest.mark.parametrize(
    ("name", "value"), [("a.b", 1), ("main.a.b", 1), ('main."x""y"', 2), ('"x""y"', 2), ("A.B", 1), ("v", 1)]
)
def test_a_table_is_found_by_its_exact_name_first(tmp_path: Path, name: str, value: int) -> None:
    """A dot may be part of a name, or stand between a schema and a table."""
    address = database(
        tmp_path / "a.db",
        'CREATE TABLE "a.b" AS SELECT 1 AS n',
        'CREATE TABLE "x""y" AS SELECT 2 AS n',
        'CREATE VIEW v AS SELECT n FROM "a.b"',
    )
    with open_side(SideSpec(uri=address, table=name)) as side:
        assert next(side.read(Request(("n",)))).column("n").to_pylist() == [value]


def test_a_query_is_a_side(tmp_path: Path) -> None:
    """A query reads what a table does not hold as it is needed; a comment at its end is its own."""
    address = database(tmp_path / "a.db", "CREATE TABLE t (id, v)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    with open_side(SideSpec(uri=address, query="SELECT id * 2 AS d, v FROM t WHERE v <> 'z' -- all\n;")) as side:
        assert kinds_of(side) == {"d": "int", "v": "text"}
        kind = (LogicalType("int"),)
        request = Request(("d", "v"), ("d",), kind, encode_key(["3"], kind), None, ordered=True)
        assert values_of(side, side.read(request), ("d", "v")) == [("4", "y")]
        assert side.sample(("d",)).num_rows == 2


@pytest.mark.parametrize("bound", [Decimal("1.5"), Decimal("9223372036854775807.5"), Decimal("-1e30")])
def test_a_decimal_bound_cuts_integers_without_losing_one(tmp_path: Path, bound: Decimal) -> None:
    """Where the other side's key is decimal, shard bounds fall between this side's integers."""
    address = database(
        tmp_path / "a.db", "CREATE TABLE t (k INTEGER)", "INSERT INTO t VALUES (1), (2), (9223372036854775807)"
    )
    kind = (LogicalType("decimal"),)
    cut = encode_key([format(bound, "f")], kind)
    with open_side(SideSpec(uri=address, table="t")) as side:
        for lower, upper in ((cut, None), (None, cut)):
            rows = [
                int(row[0]) for row in values_of(side, side.read(Request(("k",), ("k",), kind, lower, upper)), ("k",))
            ]
            wanted = [k for k in (1, 2, 2**63 - 1) if (k >= bound if lower else k < bound)]
            assert set(wanted) <= set(rows)


def test_a_missing_file_is_refused_and_not_created(tmp_path: Path) -> None:
    """The driver's default would create an empty database and compare against nothing."""
    path = tmp_path / "typo.db"
    with pytest.raises(SideMissingError, match=r"\[DELTA_SIDE_MISSING\] There is no file typo.db"):
        _ = open_side(SideSpec(uri=f"sqlite:///{path}", table="t")).columns
    assert not path.exists()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Half a file or another format gives no verdict."""
    path = tmp_path / "broken.db"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(SideFileError, match="DELTA_SIDE_FILE"):
        _ = open_side(SideSpec(uri=f"sqlite:///{path}", table="t")).columns


def test_the_side_cannot_write_and_sees_one_state(tmp_path: Path) -> None:
    """Read-only rights, and rows that are written while it is open stay unseen."""
    path = tmp_path / "a.db"
    address = database(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)")
    with open_side(SideSpec(uri=address, table="t")) as side:
        assert side.columns[0].name == "id"
        writer = sqlite3.connect(path)
        writer.execute("INSERT INTO t VALUES ('late text')")
        writer.commit()
        writer.close()
        assert values_of(side, side.read(Request(("id",))), ("id",)) == [("1",)]


def test_a_value_of_a_class_that_was_not_counted_stops_the_read() -> None:
    """Without a snapshot a value may come late; it is never squeezed into the counted type."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER)")
    connection.execute("INSERT INTO t VALUES (1)")
    side = open_connection("sqlite", lambda: connection, table="t")
    assert kinds_of(side) == {"id": "int"}
    connection.execute("PRAGMA query_only = OFF")
    connection.execute("INSERT INTO t VALUES ('late')")
    with pytest.raises(SideChangedError):
        list(side.read(Request(("id",))))
    side.close()
