"""Random damaged pairs of tables on PostgreSQL, MariaDB and DuckDB, with the traps that a weak digest falls into."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import Outcome, reconcile

FOLD = 4_294_967_297
"""Two numbers this far apart have one hash in PostgreSQL's hashint8extended, under every seed; so have time stamps."""
TEXTS = [
    "",
    "a",
    "A",
    "a ",
    "b",
    "\u00e9",
    "e\u0301",
    ";",
    "N",
    "1:a",
    "!source",
    "!target",
    "\U0001f600",
    "ab",
    "a;N;b",
]
DAY = datetime(2001, 1, 1)
TYPES = {
    "postgresql": {
        "int": "bigint", "small": "int", "decimal": "numeric(12,2)", "text": "text", "bytes": "bytea", "date": "date",
        "timestamp": "timestamp", "instant": "timestamptz", "uuid": "uuid", "name": "text", "float": "float8",
    },
    "mariadb": {
        "int": "bigint", "small": "int", "decimal": "decimal(14,4)", "text": "varchar(60)", "bytes": "varbinary(60)",
        "date": "date", "timestamp": "datetime(6)", "instant": "timestamp(6) NULL", "uuid": "uuid",
        "name": "varchar(60) COLLATE utf8mb4_nopad_bin", "float": "double",
    },
    "duckdb": {
        "int": "BIGINT", "small": "INTEGER", "decimal": "DECIMAL(18,3)", "text": "VARCHAR", "bytes": "BLOB",
        "date": "DATE", "timestamp": "TIMESTAMP", "instant": "TIMESTAMPTZ", "uuid": "UUID", "name": "VARCHAR",
        "float": "DOUBLE",
    },
}  # fmt: skip
KEYS = (("int",), ("small",), ("name",), ("uuid",), ("int", "name"), ("timestamp",), ("decimal",))
VALUES = ("int", "text", "text", "decimal", "timestamp", "instant", "date", "bytes")
Row = dict[str, Any]


class Engine:
    """One database with a pair of tables for each kind of key, filled anew for each example."""

    def __init__(self, kind: str, uri: str, connect: Callable[[], Any]) -> None:
        """Take what opens a connection; DuckDB's must be closed again before a run reads the file."""
        self.kind, self.uri, self.connect = kind, uri, connect
        self.connection = connect()
        for number, key in enumerate(KEYS):
            columns = [f"k{at} {TYPES[kind][each]} NOT NULL" for at, each in enumerate(key)]
            columns += [f"v{at} {TYPES[kind][each]}" for at, each in enumerate(VALUES)] + [f"f {TYPES[kind]['float']}"]
            columns += [f"PRIMARY KEY ({', '.join(f'k{at}' for at in range(len(key)))})"]
            for side in ("source", "target"):
                self.run(f"CREATE TABLE {side}{number} ({', '.join(columns)})")
        self.rest()

    def rest(self) -> None:
        """Let the file go."""
        if self.kind == "duckdb":
            self.connection.close()

    def run(self, statement: str, rows: list[tuple[Any, ...]] | None = None) -> None:
        cursor = self.connection if self.kind == "duckdb" else self.connection.cursor()
        if rows is None:
            cursor.execute(statement)
        elif rows:
            cursor.executemany(statement, rows)

    def fill(self, side: str, number: int, rows: Iterable[Row]) -> None:
        table, names = f"{side}{number}", [*(f"k{at}" for at in range(len(KEYS[number]))), *value_names(), "f"]
        if self.kind == "duckdb":
            self.connection = self.connect()
        self.run(f"DELETE FROM {table}")
        mark = "?" if self.kind == "duckdb" else "%s"
        stored = [tuple(self.stored(row[name]) for name in names) for row in rows]
        self.run(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join([mark] * len(names))})", stored)
        self.rest()

    def stored(self, value: Any) -> Any:
        if isinstance(value, UUID):
            return str(value)
        if isinstance(value, datetime) and value.tzinfo is not None and self.kind == "mariadb":
            return value.replace(tzinfo=None)
        return value


def duckdb_engine(path: Path) -> Engine:
    """Return an engine over a file."""
    import duckdb

    return Engine("duckdb", f"duckdb:///{path}", lambda: duckdb.connect(str(path)))


def value_names() -> list[str]:
    return [f"v{at}" for at in range(len(VALUES))]


def value(kind: str, rng: random.Random) -> Any:
    if kind in ("int", "small"):
        return rng.choice([0, 1, -1, 7, rng.randrange(-50, 50), 255, *([FOLD, -FOLD, 2**40] if kind == "int" else [])])
    if kind == "decimal":
        return Decimal(rng.randrange(-300, 300)) / 100
    if kind == "text":
        return rng.choice(TEXTS)
    if kind == "name":
        return rng.choice(TEXTS) + str(rng.randrange(100))
    if kind == "bytes":
        return rng.choice([b"", b"\x00", b"\x00\x00", b"a", b";"])
    if kind == "uuid":
        return UUID(int=rng.getrandbits(128), version=4)
    if kind == "date":
        return (DAY + timedelta(days=rng.randrange(2000))).date()
    moment = DAY + timedelta(microseconds=rng.choice([0, 1, 500_000, FOLD]), seconds=rng.randrange(60))
    return moment.replace(tzinfo=UTC) if kind == "instant" else moment


def key_value(kind: str, rng: random.Random) -> Any:
    if kind in ("int", "small"):
        return rng.choice([rng.randrange(80), rng.randrange(-9_000, 9_000)] + ([FOLD, 2**45] if kind == "int" else []))
    if kind == "timestamp":
        return DAY + timedelta(microseconds=rng.randrange(10**9))
    return value(kind, rng)


def row(key: tuple[str, ...], rng: random.Random) -> Row:
    cells = {f"k{at}": key_value(kind, rng) for at, kind in enumerate(key)}
    cells |= {f"v{at}": None if rng.random() < 0.1 else value(kind, rng) for at, kind in enumerate(VALUES)}
    return {**cells, "f": rng.choice([0.0, -0.0, 0.1, None])}


def keyed(rows: Iterable[Row], key: tuple[str, ...]) -> dict[Any, Row]:
    return {tuple(each[f"k{at}"] for at in range(len(key))): each for each in rows}


def pair(number: int, rng: random.Random) -> tuple[list[Row], list[Row]]:
    """Return two tables: equal, or with swaps, folds, moved boundaries, changes, rows of one side alone."""
    key = KEYS[number]
    source = list(keyed((row(key, rng) for _ in range(rng.choice([0, 1, 12, 50]))), key).values())
    if key in (("int",), ("small",)) and rng.random() < 0.5:
        for at, each in enumerate(source):
            each["k0"] = at  # without gaps, so that every bucket is full to its last key
    target = [dict(each) for each in source]
    for _ in range(rng.choice([0, 0, 1, 1, 2, 6]) if target else 0):
        damage(rng.choice(["swap", "swap rows", "fold", "fold", "shift", "change", "drop"]), target, rng)
    added = [row(key, rng) for _ in range(rng.choice([0, 0, 0, 1, 3]))]
    target = list((keyed(added, key) | keyed(target, key)).values())
    rng.shuffle(target)
    return source, target


def damage(kind: str, rows: list[Row], rng: random.Random) -> None:
    if not rows:
        return
    first, second = rng.choice(rows), rng.choice(rows)
    name = rng.choice(value_names())
    if kind == "drop":
        rows.remove(first)
    elif kind == "change":
        first[name] = rng.choice([None, value(VALUES[int(name[1:])], rng)])
    elif kind == "swap":
        first[name], second[name] = second[name], first[name]
    elif kind == "swap rows":
        near = rows[min(rows.index(first) + 1, len(rows) - 1)]
        for each in value_names():
            first[each], near[each] = near[each], first[each]
    elif kind == "shift":
        first["v1"], first["v2"] = "a", "bc"
        second["v1"], second["v2"] = "ab", "c"
    elif rng.random() < 0.5:
        first["v0"] = FOLD if first["v0"] in (0, None) else first["v0"] - FOLD
    else:
        for moment in ("v4", "v5"):
            if first[moment] is not None:
                first[moment] += timedelta(microseconds=FOLD)


def run(source: Engine, target: Engine, number: int, strategy: str, shards: int, **more: Any) -> Outcome | str:
    """Return the outcome of one run, or the code of its refusal; buckets and reads are small, so that there are many."""
    form = {
        "name": "pair",
        "source": {"uri": source.uri, "table": f"source{number}", "label": "s"},
        "target": {"uri": target.uri, "table": f"target{number}", "label": "t"},
        "strategy": strategy,
        **more,
    }
    if source.kind != target.kind:
        form["columns"] = {"exclude": ["f"]}
    with ExitStack() as small:
        for limit, to in (("BUCKET_ROWS", 2), ("RANGES_PER_READ", 2), ("READ_SHARE_MAX", 1.0)):
            small.enter_context(patch(f"airflow_delta_provider.engine.narrow.{limit}", to))
        try:
            return reconcile(parse_spec(form), MemoryStore(), open_side, shards=shards)
        except DeltaError as error:
            return error.code
