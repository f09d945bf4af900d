"""Writers of one side of a case into a real engine; each gives the side as a specification names it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import servers
from cases.canonical import canonical
from cases.engines import FILES, SideCase, column_type, required_type
from cases.files import write_csv, write_jsonl, write_parquet
from cases.notation import Declared, Stored


@dataclass(frozen=True)
class Place:
    """Where a side was written: ``side`` is its member of a specification; ``types`` what csv.types or jsonl.types says."""

    engine: str
    side: dict[str, str]
    types: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Databases:
    """URIs of empty databases for the sides that need a server; ``linguistic`` has collations of a language."""

    postgresql: str = ""
    mysql: str = ""


def write_side(engine: str, side: SideCase, name: str, folder: Path, databases: Databases) -> Place:
    """Write one side under ``name`` and return where it is."""
    if engine in FILES:
        path = folder / f"{name}.{engine}"
        types: dict[str, str] = {}
        if side.raw is not None:
            path.write_text(side.raw, encoding="utf-8", newline="")
        elif engine == "parquet":
            write_parquet(path, side)
        else:
            (write_csv if engine == "csv" else write_jsonl)(path, side)
            types = {column: str(column_type(engine, column, side)) for column in side.columns}
        return Place(engine, {"path": str(path)}, types)
    if engine == "sqlite":
        write_sqlite(folder / f"{name}.db", name, side)
        return Place(engine, {"uri": f"sqlite:///{folder / name}.db", "table": name})
    if engine == "duckdb":
        write_duckdb(folder / f"{name}.duckdb", name, side)
        return Place(engine, {"uri": f"duckdb:///{folder / name}.duckdb", "table": name})
    if engine == "postgresql":
        write_postgresql(databases.postgresql, name, side)
        return Place(engine, {"uri": databases.postgresql, "table": f"public.{name}"})
    write_mysql(databases.mysql, name, side)
    return Place(engine, {"uri": databases.mysql, "table": f"{unquote(urlsplit(databases.mysql).path[1:])}.{name}"})


def _double(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _backtick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _key_columns(text: str) -> list[str]:
    """Return the column names of a ``primary_key`` hint such as ``c1, c3 ASC, c2 DESC``."""
    return [part.strip().rsplit(" ", 1)[0] if part.strip().upper().endswith((" ASC", " DESC")) else part.strip()
            for part in text.split(",")]  # fmt: skip


def _constraints(side: SideCase, quote: Callable[[str], str]) -> list[str]:
    made = []
    if "primary_key" in side.hints:
        key = side.hints["primary_key"]
        names = _key_columns(key) if isinstance(key, str) else key
        made.append(f"PRIMARY KEY ({', '.join(map(quote, names))})")
    made += [f"UNIQUE ({', '.join(map(quote, names))})" for names in side.hints.get("unique", [])]
    return made


def _computed(name: str, side: SideCase) -> str:
    """Write what makes a column one that the engine computes and keeps, where it is one."""
    if name not in side.hints.get("generated", {}):
        return ""
    return f" GENERATED ALWAYS AS ({side.hints['generated'][name].removesuffix(', stored')}) STORED"


def _given(side: SideCase) -> list[int]:
    """Return the places of the columns that are written: all but computed ones."""
    return [place for place, name in enumerate(side.columns) if name not in side.hints.get("generated", {})]


def write_sqlite(path: Path, table: str, side: SideCase) -> None:
    """Write a SQLite file; a column whose stored classes its declared affinity would change gets no declared type."""
    bare: set[str] = set()
    while True:
        path.unlink(missing_ok=True)
        parts = []
        for name, kind in side.columns.items():
            declared_type = "" if name in bare else (column_type("sqlite", name, side) or kind.base)
            collation = side.hints.get("collation", {}).get(name, "")
            collation = "NOCASE" if collation == "case-insensitive" else collation
            collate = f" COLLATE {collation}" if collation.upper() in ("BINARY", "NOCASE", "RTRIM") else ""
            numbered = " PRIMARY KEY AUTOINCREMENT" if name in side.hints.get("identity", {}) else ""
            needed = " NOT NULL" if kind.not_null else ""
            parts.append(f"{_double(name)} {declared_type}{numbered}{collate}{_computed(name, side)}{needed}")
        parts += _constraints(side, _double)
        connection = sqlite3.connect(path)
        connection.execute(f"CREATE TABLE {_double(table)} ({', '.join(parts)})")
        changed = _fill_sqlite(connection, table, side)
        connection.commit()
        connection.close()
        if not changed - bare:
            return
        bare |= changed


def _fill_sqlite(connection: sqlite3.Connection, table: str, side: SideCase) -> set[str]:
    """Insert all rows; return the columns in which another storage class than the asked one was stored."""
    changed = set()
    given = _given(side)
    columns = [list(side.columns)[place] for place in given]
    into = f"{_double(table)} ({', '.join(map(_double, columns))})"
    for row in side.rows:
        cells = [_sqlite_value(row[place]) for place in given]
        marks = ["CAST(? AS TEXT)" if isinstance(plain, str) else "?" for plain, _ in cells]
        bound = [plain.encode("utf-8", "surrogatepass") if isinstance(plain, str) else plain for plain, _ in cells]
        cursor = connection.execute(f"INSERT INTO {into} VALUES ({', '.join(marks)})", bound)
        classes = ", ".join(f"typeof({_double(name)})" for name in columns)
        got = connection.execute(f"SELECT {classes} FROM {_double(table)} WHERE rowid = ?", (cursor.lastrowid,))
        for name, (_, asked), found in zip(columns, cells, got.fetchone(), strict=True):
            if asked and asked != found:
                changed.add(name)
    return changed


def _sqlite_value(cell: Any) -> tuple[Any, str]:
    if isinstance(cell, Stored):
        if cell.storage == "real":
            return float(cell.value), "real"
        return cell.value, cell.storage
    return cell, ""


def write_duckdb(path: Path, table: str, side: SideCase) -> None:
    """Write a DuckDB file; every value is cast from its exact text or bound by its type."""
    import duckdb

    path.unlink(missing_ok=True)
    types = {name: required_type("duckdb", name, side) for name in side.columns}
    parts = [
        f"{_double(name)} {types[name]}{' NOT NULL' if kind.not_null else ''}" for name, kind in side.columns.items()
    ]
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE {_double(table)} ({', '.join(parts + _constraints(side, _double))})")
        marks = ", ".join(f"CAST(? AS {kind})" for kind in types.values())
        for row in side.rows:
            connection.execute(f"INSERT INTO {_double(table)} VALUES ({marks})", row)


def write_postgresql(uri: str, table: str, side: SideCase) -> None:
    """Write a table of the schema public; the session's time zone becomes the database's, where the case names one."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(uri, autocommit=True) as connection:
        parts = []
        for name, kind in side.columns.items():
            made = required_type("postgresql", name, side)
            if kind.kind == "enum":
                made = _double(f"{table}_{len(parts)}")
                labels = sql.SQL(", ").join(map(sql.Literal, kind.arguments))
                connection.execute(sql.SQL("CREATE TYPE {} AS ENUM ({})").format(sql.SQL(made), labels))
            parts.append(f"{_double(name)} {made}{_postgresql_extras(connection, name, side)}")
        if zone := side.hints.get("session_time_zone"):
            connection.execute(f"ALTER DATABASE {_double(connection.info.dbname)} SET timezone = '{zone}'")
        connection.execute(f"CREATE TABLE {_double(table)} ({', '.join(parts + _constraints(side, _double))})")
        if isinstance(side.hints.get("primary_key"), str):
            connection.execute(f"CREATE UNIQUE INDEX ON {_double(table)} ({side.hints['primary_key']})")
        generated = [name for name in side.columns if name in side.hints.get("generated", {})]
        kept = [place for place, name in enumerate(side.columns) if name not in generated]
        names = ", ".join(_double(name).replace("%", "%%") for name in side.columns if name not in generated)
        marks = ", ".join(["%s"] * len(kept))
        always = " OVERRIDING SYSTEM VALUE" if "identity" in side.hints else ""
        statement = f"INSERT INTO {_double(table)} ({names}){always} VALUES ({marks})"
        for row in side.rows:
            connection.execute(
                statement, [_postgresql_value(row[place], list(side.columns.values())[place]) for place in kept]
            )


def _postgresql_value(cell: Any, kind: Declared) -> Any:
    """Return a value as the driver should send it: numbers but floats as text, so that the column's type reads them.

    A duration with its sign in front has it at each number, as the engine reads it.
    """
    if kind.kind == "interval" and cell is not None and cell.startswith("-"):
        return re.sub(
            r"-?(\d+(?:\.\d+)?)(?=[A-Z])",
            lambda found: found[0][1:] if found[0][0] == "-" else f"-{found[0]}",
            cell[1:],
        )
    return str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell


def _postgresql_extras(connection: Any, name: str, side: SideCase) -> str:
    extras = " NOT NULL" if side.columns[name].not_null else ""
    wanted = str(side.hints.get("collation", {}).get(name, ""))
    if wanted and side.columns[name].kind in ("text", "char"):
        names = ["C"] if wanted == "C" else []
        if "linguistic" in wanted or wanted.startswith("en"):
            names = ["en-US-x-icu", "en_US.utf8", "en_US.UTF-8", "en_US", "und-x-icu", "unicode"]
        found = connection.execute("SELECT collname FROM pg_collation WHERE collname = ANY(%s)", (names,)).fetchall()
        usable = [collation for collation in names if (collation,) in found]
        extras += f' COLLATE "{usable[0]}"' if usable else ""
    if name in side.hints.get("identity", {}):
        extras += f" GENERATED {side.hints['identity'][name].upper()} AS IDENTITY"
    if name in side.hints.get("generated", {}):
        expression = side.hints["generated"][name].removesuffix(", stored")
        extras += f" GENERATED ALWAYS AS ({expression}) STORED"
    return extras


@contextmanager
def mysql_connection(uri: str) -> Iterator[Any]:
    """Connect to MariaDB for writing: UTC, strict, but all-zero dates allowed."""
    setting = "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'"
    connection = servers.mysql_connection(uri, init_command=setting)
    try:
        yield connection
    finally:
        connection.close()


def write_mysql(uri: str, table: str, side: SideCase) -> None:
    """Write a MariaDB table."""
    collations = {"case-insensitive": "utf8mb4_general_ci", "binary, pads with blanks": "utf8mb4_bin"}
    parts = []
    for name, kind in side.columns.items():
        made = required_type("mysql", name, side)
        wanted = side.hints.get("collation", {}).get(name)
        if wanted and kind.kind in ("text", "char", "enum"):
            collation = collations.get(wanted, wanted if str(wanted).startswith("utf8mb4") else "utf8mb4_bin")
            made += f" CHARACTER SET utf8mb4 COLLATE {collation}"
        numbered = name in side.hints.get("identity", {})
        needed = "NOT NULL" if kind.not_null or numbered else "" if _computed(name, side) else "NULL"
        extra = " AUTO_INCREMENT PRIMARY KEY" if numbered else _computed(name, side)
        parts.append(f"{_backtick(name)} {made} {needed}{extra}")

    def indexed(name: str) -> str:
        return _backtick(name) + ("(191)" if column_type("mysql", name, side) in ("longtext", "longblob") else "")

    with mysql_connection(uri) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE {_backtick(table)} ({', '.join(parts + _constraints(side, indexed))})")
        given = _given(side)
        names = ", ".join(_backtick(list(side.columns)[place]).replace("%", "%%") for place in given)
        statement = f"INSERT INTO {_backtick(table)} ({names}) VALUES ({', '.join(['%s'] * len(given))})"
        for row in side.rows:
            cells = [_mysql_value(row[place], list(side.columns.values())[place]) for place in given]
            cursor.execute(statement, cells)


def _mysql_value(cell: Any, kind: Declared) -> Any:
    """Return a value as the driver should send it; an instant as the wall clock of the session's UTC."""
    if kind.kind in ("timestamp", "timestamp_tz") and cell is not None and not cell.startswith("0000-00-00"):
        return str(canonical(cell, "timestamp")).replace("T", " ")
    return cell
