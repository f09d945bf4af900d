"""How a table gets into an engine cheaply: one statement for a table, one connection for a server."""

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

import servers
from differential.catalog import LABELS, Declared
from differential.model import INFINITIES, NS, canonical, date_text, plain, stamp_text


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
        uri = self._uri("mysql")
        parts = urlsplit(uri)
        connection = self._open.get("mysql")
        if connection is None:
            setting = "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'"
            connection = servers.mysql_connection(uri, init_command=setting)
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
