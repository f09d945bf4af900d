"""What column types each engine has, which values one holds faithfully, and how a table gets there cheaply."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from differential.model import DAY_NS, INFINITIES, NS, canonical, date_text, number, plain, stamp_text

ENGINES = ("sqlite", "duckdb", "postgresql", "mysql", "parquet", "arrow", "csv", "jsonl")
YEAR_1, YEAR_1000, YEAR_10000 = -719_162, -354_285, 2_932_897
"""Days since 1970-01-01 on which these years begin."""
LABELS = ("z", "a", "B", "ä")


@dataclass(frozen=True)
class Declared:
    """A column type of one engine. ``stored`` is the logical value that a written value has there."""

    kind: str
    native: str
    holds: Callable[[Any], bool] = lambda value: True
    stored: Callable[[Any], Any] = lambda value: value


def _ints(native: str, low: int, high: int) -> Declared:
    return Declared("int", native, lambda value: low <= value <= high)


def _decimal(native: str, precision: int, scale: int) -> Declared:
    def holds(value: Decimal) -> bool:
        exact = number(value)
        if isinstance(exact, str):
            return False
        digits = plain(abs(exact)).partition(".")
        return len(digits[2]) <= scale and len(digits[0].lstrip("0")) <= precision - scale

    return Declared("decimal", native, holds)


def _text(native: str, length: int | None = None, nul: bool = True, padded: bool = False) -> Declared:
    def holds(value: str) -> bool:
        return (nul or "\x00" not in value) and (length is None or len(value) <= length)

    return Declared("text", native, holds, (lambda value: value.rstrip(" ")) if padded else lambda value: value)


def _times(kind: str, native: str, unit: int, low: int, high: int, infinite: bool = False) -> Declared:
    def holds(value: Any) -> bool:
        return infinite if value in INFINITIES else value % unit == 0 and low <= value < high

    return Declared(kind, native, holds)


def _dates(native: str, low: int, high: int, infinite: bool = False) -> Declared:
    return Declared("date", native, lambda value: infinite if value in INFINITIES else low <= value < high)


def _finite(value: float) -> bool:
    return value - value == 0


def _items(kind: str, native: str, nul: bool = True) -> Declared:
    return Declared(kind, native, lambda value: nul or not any("\x00" in (item or "") for item in value))


FAR = 200_000 * 366
NS_LOW, NS_HIGH = -106_700 * DAY_NS, 106_700 * DAY_NS
_STAMPS = (YEAR_1 * DAY_NS, YEAR_10000 * DAY_NS)

CATALOG: dict[str, list[Declared]] = {
    "sqlite": [
        _ints("INTEGER", -(2**63), 2**63 - 1),
        Declared("float64", "REAL", lambda value: value == value),
        _text("TEXT"),
        Declared("bytes", "BLOB"),
        Declared(
            "decimal", "", lambda value: value.is_finite() and abs(value) < 2**53 and Decimal(float(value)) == value
        ),
    ],
    "duckdb": [
        _ints("SMALLINT", -(2**15), 2**15 - 1),
        _ints("BIGINT", -(2**63), 2**63 - 1),
        _ints("UBIGINT", 0, 2**64 - 1),
        _ints("HUGEINT", -(2**127), 2**127 - 1),
        _ints("UHUGEINT", 0, 2**128 - 1),
        _decimal("DECIMAL(18,3)", 18, 3),
        _decimal("DECIMAL(38,10)", 38, 10),
        _decimal("DECIMAL(38,0)", 38, 0),
        Declared("float32", "FLOAT"),
        Declared("float64", "DOUBLE"),
        Declared("bool", "BOOLEAN"),
        _text("VARCHAR"),
        Declared("text", "ENUM", lambda value: value in LABELS),
        Declared("bytes", "BLOB"),
        Declared("uuid", "UUID"),
        _dates("DATE", -FAR, FAR, True),
        _times("time", "TIME", 1000, 0, DAY_NS + 1),
        _times("timestamp", "TIMESTAMP", 1000, -FAR * DAY_NS, FAR * DAY_NS, True),
        _times("timestamp", "TIMESTAMP_S", NS, *_STAMPS),
        _times("timestamp", "TIMESTAMP_MS", 10**6, *_STAMPS),
        _times("timestamp", "TIMESTAMP_NS", 1, NS_LOW, NS_HIGH),
        _times("timestamp_tz", "TIMESTAMPTZ", 1000, -FAR * DAY_NS, FAR * DAY_NS, True),
        Declared("interval", "INTERVAL", lambda value: value[2] % 1000 == 0),
        Declared("json_text", "JSON"),
        _items("array:int", "BIGINT[]"),
        _items("array:text", "VARCHAR[]"),
    ],
    "postgresql": [
        _ints("smallint", -(2**15), 2**15 - 1),
        _ints("integer", -(2**31), 2**31 - 1),
        _ints("bigint", -(2**63), 2**63 - 1),
        Declared("decimal", "numeric"),
        _decimal("numeric(20,6)", 20, 6),
        _decimal("numeric(60,20)", 60, 20),
        Declared("float32", "real"),
        Declared("float64", "double precision"),
        Declared("bool", "boolean"),
        _text("text", nul=False),
        _text("varchar(40)", 40, nul=False),
        _text("char(12)", 12, nul=False, padded=True),
        Declared("text", "ENUM", lambda value: value in LABELS),
        Declared("bytes", "bytea"),
        Declared("uuid", "uuid"),
        _dates("date", -4712 * 366 - 719_528 + 4712, FAR, True),
        _times("time", "time", 1000, 0, DAY_NS + 1),
        _times("timestamp", "timestamp", 1000, -2_440_000 * DAY_NS, FAR * DAY_NS, True),
        _times("timestamp", "timestamp(3)", 10**6, *_STAMPS, True),
        _times("timestamp_tz", "timestamptz", 1000, -2_440_000 * DAY_NS, FAR * DAY_NS, True),
        Declared("interval", "interval", lambda value: value[2] % 1000 == 0),
        Declared("json_text", "json"),
        _items("array:int", "bigint[]"),
        _items("array:text", "text[]", nul=False),
    ],
    "mysql": [
        _ints("smallint", -(2**15), 2**15 - 1),
        _ints("mediumint unsigned", 0, 2**24 - 1),
        _ints("int unsigned", 0, 2**32 - 1),
        _ints("bigint", -(2**63), 2**63 - 1),
        _ints("bigint unsigned", 0, 2**64 - 1),
        _decimal("decimal(20,6)", 20, 6),
        _decimal("decimal(65,30)", 65, 30),
        Declared("float32", "float", _finite),
        Declared("float64", "double", _finite),
        _text("longtext"),
        _text("varchar(60)", 60),
        _text("varchar(60) COLLATE utf8mb4_general_ci", 60),
        _text("varchar(60) COLLATE utf8mb4_bin", 60),
        _text("char(12)", 12, padded=True),
        Declared("text", "ENUM", lambda value: value in LABELS),
        Declared("bytes", "varbinary(64)"),
        Declared("bytes", "longblob"),
        Declared("uuid", "uuid", lambda value: value.version in (1, 4)),
        _dates("date", YEAR_1000, YEAR_10000),
        _times("time", "time(6)", 1000, 0, DAY_NS),
        _times("timestamp", "datetime(6)", 1000, YEAR_1000 * DAY_NS, YEAR_10000 * DAY_NS),
        _times("timestamp", "datetime", NS, YEAR_1000 * DAY_NS, YEAR_10000 * DAY_NS),
        _times("timestamp_tz", "timestamp(6)", 1000, NS, (2**31 - 1) * NS),
    ],
    "parquet": [
        _ints("int8", -128, 127),
        _ints("int32", -(2**31), 2**31 - 1),
        _ints("int64", -(2**63), 2**63 - 1),
        _ints("uint64", 0, 2**64 - 1),
        _decimal("decimal128(9,2)", 9, 2),
        _decimal("decimal128(38,12)", 38, 12),
        _decimal("decimal256(76,30)", 76, 30),
        Declared("float32", "float"),
        Declared("float64", "double"),
        Declared("bool", "bool"),
        _text("string"),
        _text("large_string"),
        _text("dictionary"),
        Declared("bytes", "binary"),
        Declared("bytes", "large_binary"),
        Declared("uuid", "uuid"),
        _dates("date32", -FAR, FAR),
        _times("time", "time32[ms]", 10**6, 0, DAY_NS),
        _times("time", "time64[us]", 1000, 0, DAY_NS),
        _times("time", "time64[ns]", 1, 0, DAY_NS),
        *(
            _times(kind, f"timestamp[{unit}{zone}]", size, low, high)
            for kind, zone in (("timestamp", ""), ("timestamp_tz", ",UTC"), ("timestamp_tz", ",+05:30"))
            for unit, size, low, high in (
                ("ms", 10**6, -FAR * DAY_NS, FAR * DAY_NS),
                ("us", 1000, -FAR * DAY_NS, FAR * DAY_NS),
                ("ns", 1, NS_LOW, NS_HIGH),
            )
        ),
        _items("array:int", "list<int64>"),
        _items("array:text", "list<string>"),
    ],
    "csv": [
        _ints("int", -(2**127), 2**128 - 1),
        Declared("decimal", "decimal"),
        Declared("float32", "float32"),
        Declared("float64", "float64"),
        Declared("bool", "bool"),
        _text("text", nul=False),
        Declared("bytes", "bytes"),
        Declared("uuid", "uuid"),
        _dates("date", -FAR, FAR, True),
        _times("time", "time", 1, 0, DAY_NS + 1),
        _times("timestamp", "timestamp", 1, -FAR * DAY_NS, FAR * DAY_NS),
        _times("timestamp_tz", "timestamp_tz", 1, -FAR * DAY_NS, FAR * DAY_NS),
        Declared("interval", "interval"),
        Declared("json_text", "json_text"),
    ],
}
CATALOG["arrow"] = [
    *CATALOG["parquet"],
    Declared("interval", "month_day_nano"),
    _times("timestamp", "timestamp[s]", NS, -FAR * DAY_NS, FAR * DAY_NS),
]
CATALOG["jsonl"] = [each for each in CATALOG["csv"] if each.kind != "text"] + [_text("text")]


@dataclass
class Table:
    """One side to be written. ``columns``: name to type; ``rows`` in the order in which they are written.

    ``undeclared``: columns of a text file whose type is left to the other side. ``edges``: sizes of row groups.
    """

    engine: str
    name: str
    columns: dict[str, Declared]
    rows: list[dict[str, Any]]
    undeclared: set[str] = field(default_factory=set)
    group_rows: int = 1000


class Loader:
    """Writes tables; holds one connection to each server. ``uri(engine)`` gives a database of a server."""

    def __init__(self, uri: Callable[[str], str], stack: ExitStack) -> None:
        self._uri, self._stack = uri, stack
        self._open: dict[str, Any] = {}

    def write(self, table: Table, folder: Path) -> dict[str, Any]:
        """Write a table and return the side of a specification."""
        return getattr(self, f"_{table.engine}")(table, folder)  # type: ignore[no-any-return]

    def _sqlite(self, table: Table, folder: Path) -> dict[str, Any]:
        path = folder / f"{table.name}.db"
        with sqlite3.connect(path) as connection:
            parts = ", ".join(f"{_quoted(name)} {each.native}" for name, each in table.columns.items())
            connection.execute(f"CREATE TABLE t ({parts})")
            marks = ", ".join("?" * len(table.columns))
            cells = [[_sqlite_cell(row[name]) for name in table.columns] for row in table.rows]
            connection.executemany(f"INSERT INTO t VALUES ({marks})", cells)
        connection.close()
        return {"uri": f"sqlite:///{path}", "table": "t"}

    def _duckdb(self, table: Table, folder: Path) -> dict[str, Any]:
        import duckdb

        path = folder / f"{table.name}.duckdb"
        labels = "ENUM (" + ", ".join(f"'{label}'" for label in LABELS) + ")"
        natives = {name: labels if each.native == "ENUM" else each.native for name, each in table.columns.items()}
        with duckdb.connect(str(path), config={"threads": 1}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"CREATE TABLE t ({', '.join(f'{_quoted(n)} {t}' for n, t in natives.items())})")
            if table.rows:
                line = "(" + ", ".join(f"CAST(? AS {native})" for native in natives.values()) + ")"
                cells = [_duck_cell(row[n], each) for row in table.rows for n, each in table.columns.items()]
                connection.execute(f"INSERT INTO t VALUES {', '.join([line] * len(table.rows))}", cells)
        return {"uri": f"duckdb:///{path}", "table": "t"}

    def _postgresql(self, table: Table, folder: Path) -> dict[str, Any]:
        import psycopg

        uri = self._uri("postgresql")
        connection = self._open.get("postgresql")
        if connection is None:
            connection = self._stack.enter_context(psycopg.connect(uri, autocommit=True))
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"CREATE TYPE labels AS ENUM ({', '.join(repr(label) for label in LABELS)})")
            self._open["postgresql"] = connection
        natives = {name: "labels" if each.native == "ENUM" else each.native for name, each in table.columns.items()}
        parts = ", ".join(f"{_quoted(name)} {native}" for name, native in natives.items())
        connection.execute(f"CREATE TABLE {table.name} ({parts})")
        if table.rows:
            line = "(" + ", ".join(f"%s::{native}" for native in natives.values()) + ")"
            cells = [_postgres_cell(row[n], each) for row in table.rows for n, each in table.columns.items()]
            connection.execute(f"INSERT INTO {table.name} VALUES {', '.join([line] * len(table.rows))}", cells)
        return {"uri": uri, "table": f"public.{table.name}"}

    def _mysql(self, table: Table, folder: Path) -> dict[str, Any]:
        import pymysql

        uri = self._uri("mysql")
        parts = urlsplit(uri)
        connection = self._open.get("mysql")
        if connection is None:
            connection = pymysql.connect(
                host=parts.hostname,
                port=parts.port or 3306,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=unquote(parts.path[1:]),
                charset="utf8mb4",
                autocommit=True,
                init_command="SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'",
            )
            self._stack.callback(connection.close)
            self._open["mysql"] = connection
        labels = "enum (" + ", ".join(f"'{label}'" for label in LABELS) + ") COLLATE utf8mb4_bin"
        natives = {name: labels if each.native == "ENUM" else each.native for name, each in table.columns.items()}
        made = ", ".join(f"`{name}` {native} NULL" for name, native in natives.items())
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE {table.name} ({made}) CHARACTER SET utf8mb4")
        if table.rows:
            cells = [[_mysql_cell(row[n], each) for n, each in table.columns.items()] for row in table.rows]
            cursor.executemany(f"INSERT INTO {table.name} VALUES ({', '.join(['%s'] * len(natives))})", cells)
        return {"uri": uri, "table": f"{unquote(parts.path[1:])}.{table.name}"}

    def _parquet(self, table: Table, folder: Path) -> dict[str, Any]:
        from pyarrow import parquet

        path = folder / f"{table.name}.parquet"
        parquet.write_table(_arrow_table(table), path, row_group_size=table.group_rows, version="2.6")
        return {"path": str(path)}

    def _arrow(self, table: Table, folder: Path) -> dict[str, Any]:
        import pyarrow as pa

        path = folder / f"{table.name}.arrow"
        made = _arrow_table(table)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, made.schema) as writer:
            writer.write_table(made, max_chunksize=table.group_rows)
        return {"path": str(path)}

    def _csv(self, table: Table, folder: Path) -> dict[str, Any]:
        lines = [",".join(f'"{name}"' for name in table.columns)]
        for row in table.rows:
            cells = [_file_text(row[name], each.kind) for name, each in table.columns.items()]
            lines.append(",".join("" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in cells))
        path = folder / f"{table.name}.csv"
        path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
        return {"path": str(path)}

    def _jsonl(self, table: Table, folder: Path) -> dict[str, Any]:
        lines = []
        for row in table.rows:
            cells = [f"{json.dumps(name)}: {_json_text(row[name], each.kind)}" for name, each in table.columns.items()]
            lines.append("{" + ", ".join(cells) + "}\n")
        path = folder / f"{table.name}.jsonl"
        path.write_text("".join(lines), encoding="utf-8", newline="")
        return {"path": str(path)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _year_text(text: str, suffix: str) -> str:
    """Turn a canonical date or time stamp into what SQL engines read: BC for years before the common era.

    PostgreSQL has ``BC`` at the end, DuckDB ``(BC)`` behind the date.
    """
    sign = text[0] if text[0] in "+-" else ""
    year, _, rest = text.removeprefix(sign).partition("-")
    if sign == "-" or int(year) == 0:
        day, tail = rest[:5], rest[5:]
        written = f"{1 - int(sign + year):04d}-{day}"
        return f"{written}{suffix}{tail}" if "(" in suffix else f"{written}{tail}{suffix}"
    return f"{int(year):04d}-{rest}"


def _sql_text(value: Any, kind: str, before: str = " BC") -> Any:
    if value is None or value in INFINITIES:
        return value
    if kind in ("date", "timestamp", "timestamp_tz"):
        text = date_text(value) if kind == "date" else stamp_text(value)
        text = text.replace("T", " ") + ("+00" if kind == "timestamp_tz" else "")
        return _year_text(text, before)
    if kind in ("decimal", "time", "uuid") or (kind == "int" and not isinstance(value, bool)):
        return canonical(value, kind)
    if kind == "interval":
        months, days, ns = value
        return f"{months} months {days} days {'-' if ns < 0 else ''}{plain(abs(_fraction(ns)))} seconds"
    return value


def _fraction(ns: int) -> Any:
    from fractions import Fraction

    return Fraction(ns, NS)


def _sqlite_cell(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _duck_cell(value: Any, each: Declared) -> Any:
    if each.kind.startswith("array:"):
        return None if value is None else list(value)
    return _sql_text(value, each.kind, " (BC)")


def _postgres_cell(value: Any, each: Declared) -> Any:
    if each.kind.startswith("array:"):
        return None if value is None else list(value)
    if each.kind in ("float32", "float64") and value is not None:
        return repr(value)
    return _sql_text(value, each.kind)


def _mysql_cell(value: Any, each: Declared) -> Any:
    if value is not None and each.kind == "timestamp_tz":
        return stamp_text(value).replace("T", " ")
    return _sql_text(value, each.kind)


def _file_text(value: Any, kind: str) -> str | None:
    """Return the text under which a CSV file holds a value."""
    if value is None:
        return None
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("float32", "float64"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return str(canonical(value, kind))


def _json_text(value: Any, kind: str) -> str:
    if value is None:
        return "null"
    text = str(_file_text(value, kind))
    bare = kind == "bool" or (kind in ("int", "decimal", "float32", "float64") and text[-1].isdigit())
    return text if bare else json.dumps(text, ensure_ascii=len(text) % 2 == 0)


def _arrow_table(table: Table) -> Any:
    import pyarrow as pa

    arrays = [arrow_array([row[name] for row in table.rows], each) for name, each in table.columns.items()]
    return pa.table(arrays, names=list(table.columns))


def arrow_array(cells: Sequence[Any], each: Declared) -> Any:
    """Return the Arrow array of one column; times go in as whole numbers."""
    import pyarrow as pa

    native = each.native
    if native.startswith("decimal"):
        maker = pa.decimal128 if native.startswith("decimal128") else pa.decimal256
        return pa.array(cells, maker(*map(int, native[11:-1].split(","))))
    if native.startswith(("timestamp", "time")):
        unit, _, zone = native.partition("[")[2][:-1].partition(",")
        per = {"s": NS, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
        width = pa.int32() if native.startswith("time32") else pa.int64()
        counts = pa.array([None if cell is None else cell // per for cell in cells], width)
        made = {"time32": pa.time32, "time64": pa.time64}.get(native[:6])
        return counts.cast(made(unit) if made else pa.timestamp(unit, zone or None))
    if native == "date32":
        return pa.array(cells, pa.int32()).cast(pa.date32())
    if native == "uuid":
        raw = [None if cell is None else cell.bytes for cell in cells]
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(raw, pa.binary(16)))
    if native == "dictionary":
        return pa.array(cells, pa.string()).dictionary_encode()
    if native == "month_day_nano":
        parts = [None if cell is None else pa.MonthDayNano(cell) for cell in cells]
        return pa.array(parts, pa.month_day_nano_interval())
    if native.startswith("list<"):
        return pa.array([None if cell is None else list(cell) for cell in cells], pa.list_(getattr(pa, native[5:-1])()))
    names = {"float": pa.float32(), "double": pa.float64(), "bool": pa.bool_()}
    return pa.array(cells, names.get(native) or getattr(pa, native)())
