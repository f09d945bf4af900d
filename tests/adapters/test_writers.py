"""Every writer keeps to the seam: exact reads by key, guarded writes, facts of the catalog, and clean refusals."""

from __future__ import annotations

from typing import Any

import patching
import pytest
from patching import Bench

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import CellRefusedError, Change, ContendedError
from airflow_delta_provider.adapters.writers.open import open_writer, writer_of
from airflow_delta_provider.core.errors import (
    ConnectError,
    PatchSideError,
    PatchWriteError,
    SideMissingError,
    SideSchemeError,
    ValueLossyError,
)
from airflow_delta_provider.core.recorded import canonical
from airflow_delta_provider.core.rules import Typed
from airflow_delta_provider.core.spec import SideSpec


@pytest.fixture(params=patching.ENGINES)
def bench(request, tmp_path) -> Bench:
    """An empty database of each engine."""
    if request.param in ("sqlite", "duckdb"):
        return Bench(request.param, patching.file_uri(request.param, tmp_path))
    name = "postgresql_database" if request.param == "postgresql" else "mariadb_database"
    return Bench(request.param, request.getfixturevalue(name))


def writer(bench: Bench) -> Writer:
    """Return the writer of the target."""
    return open_writer(SideSpec("w", uri=bench.uri, table="t_target"))


def found(one: Writer, keys: list[list[Any]], *, lock: bool = False) -> list[dict[str, Any]]:
    """Return the rows of some keys as canonical values, read through the writer."""
    names = [name for name, column in one.columns.items() if column.type is not None]
    types = one.types(names)
    rows = []
    for batch in one.lookup(["id"], keys, names, lock=lock):
        columns = [canonical(Typed(types[name], batch.column(at), None), types[name]) for at, name in enumerate(names)]
        rows += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return sorted(rows, key=repr)


COLUMNS = {
    "sqlite": {"i": ("INTEGER", ["-9223372036854775808", "0"]), "f": ("REAL", ["0.1", "1e+300", "-0.5"]),
               "t": ("TEXT", ["", "\\", "Zoë 😀", "a\x00b", {"wtf8": "ff"}]), "b": ("BLOB", ["", "00ff27"])},
    "postgresql": {
        "i": ("BIGINT", ["-9223372036854775808", "0"]), "s": ("SMALLINT", ["-32768"]), "f": ("DOUBLE PRECISION", ["0.1", "NaN", "Infinity"]),
        "r": ("REAL", ["0.1", "-Infinity"]), "n": ("NUMERIC", ["123456789012345678901234567890.5", "NaN"]), "d": ("NUMERIC(8,2)", ["-1.5"]),
        "t": ("TEXT", ["", "\\", "Zoë 😀 {},\"'"]), "c": ("CHAR(5)", ["ab", ""]), "v": ("VARCHAR(5)", ["ab  "]),
        "b": ("BYTEA", ["", "00ff27"]), "u": ("UUID", ["00112233-4455-6677-8899-aabbccddeeff"]), "o": ("BOOLEAN", [True, False]),
        "day": ("DATE", ["2024-02-29", "infinity", "-004712-01-01", "+010000-01-01"]), "clock": ("TIME(6)", ["24:00:00", "01:02:03.000004"]),
        "w": ("TIMESTAMP", ["2024-01-01T00:00:00.123456", "-infinity", "-000043-03-15T12:00:00"]), "z": ("TIMESTAMPTZ", ["2024-01-01T00:00:00Z"]),
        "p": ("INTERVAL", ["P14M3DT-4.5S", "P-1M30DT0S"]), "j": ("JSON", ['{"a": 1,  "a":2}']), "k": ("JSONB", ['{"a": [1, null]}']),
        "m": ("MONEY", ["12.34"]), "x": ("BIT(3)", ["101"]), "y": ("BIT VARYING(5)", ["1", ""]),
        "at": ("TEXT[]", [["abc", "d,e", None, "\"q\\", "{}", ""], []]), "ai": ("INTEGER[]", [["1", None]]),
        "ad": ("DATE[]", [["2024-01-01"]]), "e": ("mood", ["so so"]), "l": ("\"char\"", ["x"])},
    "mysql": {
        "i": ("BIGINT UNSIGNED", ["18446744073709551615", "0"]), "f": ("DOUBLE", ["0.1", "1e+300"]), "r": ("FLOAT", ["0.1"]),
        "d": ("DECIMAL(65,30)", ["-1.5", "12345678901234567890123456789012345.123456789012345678901234567891"]),
        "t": ("LONGTEXT", ["", "\\", "Zoë 😀 %s '", "a\x00b"]), "c": ("CHAR(5)", ["ab", ""]), "v": ("VARCHAR(5)", ["ab  "]),
        "b": ("LONGBLOB", ["", "00ff27"]), "day": ("DATE", ["2024-02-29"]), "clock": ("TIME(6)", ["01:02:03.000004"]),
        "w": ("DATETIME(6)", ["2024-01-01T00:00:00.123456"]), "z": ("TIMESTAMP(3) NULL", ["2024-01-01T00:00:00.5Z"]),
        "x": ("BIT(3)", ["101"]), "e": ("ENUM('so so','ok')", ["so so"]), "g": ("SET('a','b')", ["a,b", ""]), "y": ("YEAR", ["1999"]),
        "j": ("JSON", ['{"a": 1}'])},
    "duckdb": {
        "i": ("HUGEINT", ["-170141183460469231731687303715884105727", "0"]), "s": ("UTINYINT", ["255"]), "f": ("DOUBLE", ["0.1", "NaN", "-Infinity"]),
        "r": ("FLOAT", ["0.1"]), "d": ("DECIMAL(38,10)", ["-1.5"]), "t": ("VARCHAR", ["", "\\", "Zoë 😀 '"]), "b": ("BLOB", ["", "00ff27"]),
        "u": ("UUID", ["00112233-4455-6677-8899-aabbccddeeff"]), "o": ("BOOLEAN", [True, False]), "day": ("DATE", ["2024-02-29", "infinity"]),
        "clock": ("TIME", ["24:00:00", "01:02:03.000004"]), "w": ("TIMESTAMP", ["2024-01-01T00:00:00.123456"]),
        "ns": ("TIMESTAMP_NS", ["2024-01-01T00:00:00.123456789"]), "z": ("TIMESTAMPTZ", ["2024-01-01T00:00:00Z"]),
        "p": ("INTERVAL", ["P14M3DT-4.5S"]), "j": ("JSON", ['{"a": 1}']), "e": ("ENUM('so so')", ["so so"]), "x": ("BIT", ["101"]),
        "at": ("VARCHAR[]", [["a", None, "d,e"], []]), "ai": ("INTEGER[]", [["1", None]])},
}  # fmt: skip
CASES = [(engine, name) for engine, columns in COLUMNS.items() for name in columns]


@pytest.mark.parametrize("bench", patching.ENGINES, indirect=True)
def test_every_type_is_inserted_updated_guarded_and_deleted_exactly(bench):
    """What is written reads back as the same canonical value, finds its row again by the guard, and NULL is NULL."""
    columns = COLUMNS[bench.engine]
    if bench.engine == "postgresql":
        bench.sql("CREATE TYPE mood AS ENUM ('so so', 'ok')")
    bench.sql(
        f"CREATE TABLE t_target (id INTEGER PRIMARY KEY, {', '.join(f'{bench.quote(n)} {t}' for n, (t, _) in columns.items())})"
    )
    with writer(bench) as one:
        one.begin(write=True)
        nothing = dict.fromkeys(columns)
        assert one.write([Change("insert", {"id": "1"}, dict(nothing))]) == [True]
        for name, (_, values) in columns.items():
            before: Any = None
            for value in values:
                change = Change("update", {"id": "1"}, {name: value}, {name: before})
                assert one.write([change]) == [True], (name, value)
                assert one.write([change]) == [False], (name, value)
                assert found(one, [["1"]]) == [{"id": "1", **nothing, name: value}], (name, value)
                before = value
            assert one.write([Change("update", {"id": "1"}, {name: None}, {name: before})]) == [True], name
        whole = {name: values[0] for name, (_, values) in columns.items()}
        assert one.write([Change("insert", {"id": "2"}, whole)]) == [True]
        wrong = Change("delete", {"id": "2"}, {}, {**whole, next(iter(columns)): None})
        assert one.write([wrong]) == [False]
        assert one.write([Change("delete", {"id": "2"}, {}, whole)]) == [True]
        one.check_constraints()
        one.commit()
    assert bench.sql("SELECT COUNT(*) FROM t_target") == [(1,)]


def test_rows_are_read_inside_the_transaction_and_undone_with_it(bench):
    """A read-back sees what was written; a rollback leaves no trace."""
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, v VARCHAR(9))")
    bench.fill("target", [(1, "a"), (2, "b")])
    with writer(bench) as one:
        one.begin(write=True)
        assert found(one, [["1"], ["9"]], lock=True) == [{"id": "1", "v": "a"}]
        assert one.write([Change("update", {"id": "1"}, {"v": "x"}, {"v": "a"})]) == [True]
        assert found(one, [["1"]]) == [{"id": "1", "v": "x"}]
        one.rollback()
        one.begin(write=False)
        assert found(one, [["2"], ["1"]]) == [{"id": "1", "v": "a"}, {"id": "2", "v": "b"}]
        names = list(one.columns)
        assert sum(batch.num_rows for batch in one.scan(names, lock=False)) == 2
        one.rollback()
    assert bench.rows() == [(1, "a"), (2, "b")]


def test_many_changes_are_told_apart(bench):
    """Each change is told whether its row was there; rows of other keys are never touched."""
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, v INTEGER, w INTEGER)")
    bench.fill("target", [(at, at, at) for at in range(30)])
    changes = [Change("update", {"id": str(at)}, {"v": "-1"}, {"v": str(at if at % 3 else -5)}) for at in range(29)]
    changes.append(Change("update", {"id": "29"}, {"v": "-1", "w": "-1"}, {"v": "29", "w": "29"}))
    with writer(bench) as one:
        one.begin(write=True)
        assert one.write(changes) == [bool(at % 3) for at in range(30)]
        one.commit()
    assert [row[1] for row in bench.rows()] == [-1 if at % 3 else at for at in range(30)]
    assert bench.rows()[29] == (29, -1, -1)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BIGINT", ["-10", "-9", "9", "10", "100"]),
        ("UUID", [f"{first}0112233-4455-6677-8899-aabbccddeeff" for first in "09af"]),
        ('TEXT COLLATE "C"', ["B", "a", "ä"]),
        ("NUMERIC", ["-1.5", "9", "10"]),
    ],
    ids=["integers", "uuids", "texts", "decimals"],
)
@pytest.mark.parametrize("lock", [False, True], ids=["read", "lock"])
def test_no_key_of_a_part_lies_outside_its_bounds(postgresql_database, kind, values, lock):
    """Bounds spare a read of the whole table; taken from the texts, 9 would be greater than 10, and its row missing."""
    bench = Bench("postgresql", postgresql_database)
    bench.sql(f"CREATE TABLE t_target (id {kind} PRIMARY KEY)")
    bench.sql(f"INSERT INTO t_target SELECT unnest('{{{','.join(values)}}}'::text[])::{kind.split()[0]}")
    with writer(bench) as one:
        one.begin(write=lock)
        for keys in (values, values[::-1], values[1:3]):
            assert found(one, [[key] for key in keys], lock=lock) == sorted(({"id": key} for key in keys), key=repr)


@pytest.mark.parametrize("kind", ["TEXT", "TEXT[]", "INTERVAL", "INTERVAL[]", "JSON"])
def test_what_the_engine_takes_for_equal_too_early_is_guarded_by_its_text(postgresql_database, kind):
    """A collation that ignores case ignores it in lists too, and an interval of a month equals one of thirty days."""
    bench = Bench("postgresql", postgresql_database)
    bench.sql(f"CREATE TABLE t_target (id INTEGER PRIMARY KEY, v {kind})")
    with writer(bench) as one:
        (statement,) = one.statements([Change("delete", {"id": "1"}, {}, {"v": None})])
    assert '"v"::text' in statement.render("format")[0]


def test_a_null_among_the_keys_is_looked_up_too(postgresql_database):
    """A key that may be NULL has no least value: nothing bounds the look-up, and both rows are found."""
    bench = Bench("postgresql", postgresql_database)
    bench.sql("CREATE TABLE t_target (id BIGINT)")
    bench.fill("target", [(None,), (2,)])
    with writer(bench) as one:
        one.begin(write=False)
        assert found(one, [["2"], [None]]) == [{"id": "2"}, {"id": None}]


def test_keys_that_stand_together_are_found_without_reading_the_whole_table(postgresql_database):
    """A join with thousands of keys read all rows for each part of a patch: twice the rows took four times as long."""
    bench = Bench("postgresql", postgresql_database)
    bench.sql("CREATE TABLE t_target (id BIGINT PRIMARY KEY, v TEXT)")
    bench.sql("INSERT INTO t_target SELECT i, repeat('x', 50) FROM generate_series(1, 60000) i")
    bench.sql("VACUUM (ANALYZE) t_target")
    with writer(bench) as one:
        text = one.dialect.written(one.connection, one._keys(["id"], [[str(at)] for at in range(20_000, 22_000)]))
        plan = one.connection.execute(f"EXPLAIN SELECT 1 FROM {one.aliased()}, {text}").fetchall()
    assert not any("Seq Scan" in line for (line,) in plan)


def test_a_statement_without_a_key_is_never_made(bench):
    """An empty condition would reach every row."""
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, v INTEGER)")
    with writer(bench) as one:
        one.begin(write=True)
        for op in ("update", "delete"):
            with pytest.raises(PatchSideError, match="key"):
                one.write([Change(op, {}, {"v": "1"} if op == "update" else {})])


def test_a_value_that_the_column_refuses_names_its_change(bench):
    """The caller leaves that row out and starts again; no value stands in the message."""
    if bench.engine == "sqlite":
        pytest.skip("SQLite's columns hold any value")
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, v SMALLINT)")
    bench.fill("target", [(1, 1), (2, 2), (3, 3)])
    with writer(bench) as one:
        one.begin(write=True)
        changes = [
            Change("update", {"id": str(at)}, {"v": value}, {}) for at, value in ((1, "5"), (2, "70000"), (3, "6"))
        ]
        with pytest.raises((CellRefusedError, ValueLossyError)) as refusal:
            one.write(changes)
        if isinstance(refusal.value, CellRefusedError):
            assert refusal.value.place == 1
        assert "70000" not in str(refusal.value)


def test_broken_constraints_are_refused_by_name_and_without_values(bench):
    """A unique value that is taken may also be another writer's, so it is worth another try before it is a refusal."""
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, v VARCHAR(20) NOT NULL, CONSTRAINT only_v UNIQUE (v))")
    bench.fill("target", [(1, "secret")])
    with writer(bench) as one:
        one.begin(write=True)
        with pytest.raises((ContendedError, PatchWriteError)) as refusal:
            one.write([Change("insert", {"id": "2"}, {"v": "secret"})])
        assert "secret" not in str(refusal.value)
        one.rollback()
        one.begin(write=True)
        with pytest.raises(PatchWriteError):
            one.write([Change("insert", {"id": "3"}, {"v": None})])


def test_the_catalog_tells_what_rows_depend_on(bench):
    """Unique keys, foreign keys to the table itself, cascades of children, triggers."""
    bench.sql("CREATE TABLE t_target (id INTEGER NOT NULL PRIMARY KEY, p INTEGER, u INTEGER, w INTEGER, UNIQUE (u, w),"
              " CONSTRAINT own FOREIGN KEY (p) REFERENCES t_target (id))")  # fmt: skip
    with writer(bench) as one:
        facts = one.facts()
    assert ("u", "w") in facts.uniques and ("id",) in facts.uniques
    assert facts.hazards == ()
    order = [(one.columns, one.referenced) for one in facts.references]
    assert order == ([] if bench.engine == "sqlite" else [(("p",), ("id",))])


def test_generated_and_identity_columns_are_known(bench):
    """They are compared and never written; a key that is an identity takes the value of the source."""
    made = {
        "sqlite": "id INTEGER PRIMARY KEY, q INTEGER, g INTEGER GENERATED ALWAYS AS (q * 2) STORED",
        "postgresql": "id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, q INTEGER, g INTEGER GENERATED ALWAYS AS (q * 2) STORED",
        "mysql": "id INTEGER AUTO_INCREMENT PRIMARY KEY, q INTEGER, g INTEGER GENERATED ALWAYS AS (q * 2) STORED,"
        " seen TIMESTAMP DEFAULT '2000-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP",
        "duckdb": "id INTEGER PRIMARY KEY, q INTEGER, g INTEGER GENERATED ALWAYS AS (q * 2)",
    }[bench.engine]
    bench.sql(f"CREATE TABLE t_target ({made})")
    with writer(bench) as one:
        assert [name for name, column in one.columns.items() if column.generated] == ["g"]
        one.begin(write=True)
        assert (
            one.write([Change("insert", {"id": "0"}, {"q": "3"}), Change("insert", {"id": "7"}, {"q": "4"})])
            == [True] * 2
        )
        assert one.write([Change("update", {"id": "0"}, {"q": "5"}, {"q": "3", "g": "6"})]) == [True]
        one.commit()
    assert [row[:3] for row in bench.rows()] == [(0, 5, 10), (7, 4, 8)]
    if bench.engine == "mysql":
        assert {str(row[3]) for row in bench.rows()} == {"2000-01-01 00:00:00"}


def test_what_is_no_table_with_transactions_is_refused(bench):
    """A view, a missing table, and an engine that cannot roll back."""
    bench.sql("CREATE TABLE base (id INTEGER PRIMARY KEY)", "CREATE VIEW t_target AS SELECT * FROM base")
    with pytest.raises(PatchSideError, match="no table"):
        writer(bench).open()
    with pytest.raises(SideMissingError):
        open_writer(SideSpec("w", uri=bench.uri, table="nowhere")).open()
    if bench.engine == "mysql":
        bench.sql("DROP VIEW t_target", "CREATE TABLE t_target (id INTEGER PRIMARY KEY) ENGINE=MyISAM")
        with pytest.raises(PatchSideError, match="transactions"):
            writer(bench).open()


def test_only_tables_of_known_engines_have_a_writer(tmp_path):
    """The refusal comes before anything is connected."""
    for spec in (SideSpec("w", path="part-*.csv"), SideSpec("w", uri="sqlite:///x", query="SELECT 1"),
                 SideSpec("w", uri="s3://bucket/x.parquet", table="t")):  # fmt: skip
        with pytest.raises(PatchSideError):
            open_writer(spec)
    for spec in (SideSpec("w", uri="oracle://host/db", table="t"), SideSpec("w", conn_id="c", table="t")):
        with pytest.raises(SideSchemeError):
            open_writer(spec)
    with pytest.raises(SideSchemeError):
        writer_of("oracle", lambda: None, "t")
    for scheme in ("sqlite", "duckdb"):
        with pytest.raises(SideMissingError):
            open_writer(SideSpec("w", uri=f"{scheme}:///{tmp_path}/none.db", table="t")).open()


def test_a_locked_file_is_contended(tmp_path):
    """Another writer that holds the file is worth waiting for, and then worth another try."""
    import sqlite3

    bench = Bench("sqlite", patching.file_uri("sqlite", tmp_path))
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY)")
    path = bench.uri.partition(":///")[2]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    one = writer_of("sqlite", lambda: sqlite3.connect(path, 0, isolation_level=None), "t_target")
    with one, pytest.raises(ContendedError):
        one.begin(write=True)
    other.close()


def test_a_lost_connection_is_a_refusal_to_connect(bench):
    """What cannot be written is told apart from what may not be written."""
    if bench.engine not in ("postgresql", "mysql"):
        pytest.skip("a file has no connection to lose")
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY)")
    with writer(bench) as one:
        one.begin(write=True)
        found(one, [["1"]], lock=True)
        if bench.engine == "postgresql":
            bench.sql(f"SELECT pg_terminate_backend({one.connection.info.backend_pid})")
        else:
            bench.sql(f"KILL {one.connection.thread_id()}")
        with pytest.raises(ConnectError):
            one.write([Change("insert", {"id": "1"})])
