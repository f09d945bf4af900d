"""Random tables with random damage: keys, values and constraints of many kinds, for property tests of patches."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from patching import Bench

TYPES = {
    "int": {"": "INTEGER"},
    "text": {"": "VARCHAR(30)", "mysql": "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"},
    "float": {"": "DOUBLE PRECISION"},
    "decimal": {"": "DECIMAL(12,3)", "sqlite": "INTEGER"},
    "bytes": {"": "BLOB", "postgresql": "BYTEA"},
    "stamp": {"": "TIMESTAMP", "mysql": "DATETIME(6)", "sqlite": "TEXT"},
    "date": {"": "DATE", "sqlite": "TEXT"},
    "uuid": {"": "UUID", "sqlite": "TEXT"},
}
KEYS = (
    ["int"],
    ["int"],
    ["int", "text"],
    ["text"],
    ["uuid"],
    ["decimal"],
    ["date"],
    ["date", "int"],
    ["uuid", "decimal"],
)
WORDS = ["", "a", "A", "a ", "ß", "é", "e\u0301", "\\", "%s", "'", '"', "x\ny", "😀", "NULL", "0", "zebra"]
UNIQUE_VALUES = range(60)
CATS = range(1, 6)
"""Rows of the table that a foreign key may refer to."""
CONSTRAINED = ("unique", "pair", "parent", "cat", "made")


class Table:
    """A random table. ``names`` are its columns in order; ``left_out`` are not compared, ``made`` is computed.

    ``unique``: c0 has no value twice; ``pair``: c0 and c1 together have none. ``parent``: rows refer to rows of the same
    table; ``cat``: to rows of another. ``identity``: the engine numbers new rows. The source has no constraint but its
    key, so that the damage is what the target must take; what stands in it keeps the target's constraints.
    """

    def __init__(self, chance: random.Random, engine: str) -> None:
        self.chance = chance
        self.engine = engine
        self.key = list(chance.choice(KEYS))
        self.kinds = [chance.choice(sorted(TYPES)) for _ in range(chance.randint(1, 4))]
        self.primary = chance.random() < 0.7
        wished = {name for name in CONSTRAINED if chance.random() < 0.25}
        self.unique = self.kinds[0] == "int" and "unique" in wished
        self.pair = len(self.kinds) > 1 and self.kinds[:2] == ["int", "int"] and "pair" in wished and not self.unique
        self.parent = self.key == ["int"] and self.primary and "parent" in wished and engine != "duckdb"
        self.cat = "cat" in wished and engine != "duckdb"
        self.made = self.kinds[0] == "int" and "made" in wished and engine != "duckdb"
        self.identity = self.key == ["int"] and self.primary and engine != "duckdb" and chance.random() < 0.3
        self.always = self.identity and engine == "postgresql" and chance.random() < 0.5
        self.deferred = engine == "postgresql" and chance.random() < 0.3
        keys = [f"k{at}" for at in range(len(self.key))]
        plain = [f"c{at}" for at in range(len(self.kinds))]
        self.written = [*keys, *plain, *(["parent"] if self.parent else []), *(["cat"] if self.cat else [])]
        self.names = [*self.written, *(["made"] if self.made else [])]
        constrained = {"c0"} if self.unique or self.made else {"c0", "c1"} if self.pair else set()
        self.left_out = {name for name in plain[1:] if chance.random() < 0.3} - constrained
        if self.made and chance.random() < 0.5:
            self.left_out.add("made")
        self.required = {name for name in plain if chance.random() < 0.3} - self.left_out

    def columns(self, side: str) -> str:
        """Return the columns as CREATE TABLE takes them; only the target has constraints."""
        target = side == "target"
        parts = []
        for name, kind in zip(self.names, [*self.key, *self.kinds, *["int"] * 3], strict=False):
            made = TYPES[kind].get(self.engine, TYPES[kind][""])
            if name == "made":
                made += " GENERATED ALWAYS AS (c0 * 2 + 1) STORED"
            if name == "k0" and self.identity and target:
                parts.append(self._numbered())
                continue
            parts.append(f"{name} {made}{' NOT NULL' if name in self.required or name[0] == 'k' else ''}")
        if self.primary and not (self.identity and target and self.engine == "sqlite"):
            parts.append(f"PRIMARY KEY ({', '.join(self.names[: len(self.key)])})")
        return ", ".join([*parts, *(self._constraints() if target else [])])

    def _numbered(self) -> str:
        if self.engine == "postgresql":
            return f"k0 INTEGER GENERATED {'ALWAYS' if self.always else 'BY DEFAULT'} AS IDENTITY"
        return (
            "k0 INTEGER PRIMARY KEY AUTOINCREMENT" if self.engine == "sqlite" else "k0 INTEGER NOT NULL AUTO_INCREMENT"
        )

    def _constraints(self) -> list[str]:
        later = " DEFERRABLE INITIALLY DEFERRED" if self.deferred else ""
        found = [f"UNIQUE (c0){later}"] if self.unique else [f"UNIQUE (c0, c1){later}"] if self.pair else []
        found += [f"CONSTRAINT to_parent FOREIGN KEY (parent) REFERENCES t_target (k0){later}"] if self.parent else []
        return found + (["CONSTRAINT to_cat FOREIGN KEY (cat) REFERENCES cats (id)"] if self.cat else [])

    def create(self, bench: Bench) -> None:
        """Make both tables and what they refer to."""
        bench.sql("DROP TABLE IF EXISTS t_source", "DROP TABLE IF EXISTS t_target", "DROP TABLE IF EXISTS cats")
        bench.sql("CREATE TABLE cats (id INTEGER PRIMARY KEY)", *(f"INSERT INTO cats VALUES ({cat})" for cat in CATS))
        bench.sql(*(f"CREATE TABLE t_{side} ({self.columns(side)})" for side in ("source", "target")))

    def fill(self, bench: Bench, side: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows; those that others refer to first."""
        mark = "%s" if bench.engine in ("postgresql", "mysql") else "?"
        names, marks = ", ".join(self.written), ", ".join([mark] * len(self.written))
        always = " OVERRIDING SYSTEM VALUE" if self.always and side == "target" else ""
        with bench.connection() as run:
            parents = []
            for row in rows:
                values = list(row)
                if self.parent:
                    place = self.written.index("parent")
                    parents.append((values[place], values[0]))
                    values[place] = None
                run(f"INSERT INTO t_{side} ({names}){always} VALUES ({marks})", values)
            for parent, key in parents:
                if parent is not None:
                    run(f"UPDATE t_{side} SET parent = {mark} WHERE k0 = {mark}", [parent, key])

    def value(self, kind: str, *, key: bool = False, required: bool = False) -> Any:
        """Return a random value; texts of keys differ by more than a loose collation folds."""
        if not required and not key and self.chance.random() < 0.2:
            return None
        match kind:
            case "int":
                return self.chance.randint(1 if self.identity and key else -3, 30)
            case "text":
                return self.chance.choice(["a", "b", "ö", "\\", "%d", "😀", "zz"] if key else WORDS)
            case "float":
                return self.chance.choice([0.1, -1.5, 1e300, 3.0, 1 / 3])
            case "decimal":
                return self.chance.randint(-9, 9) if self.engine == "sqlite" else self._decimal()
            case "bytes":
                return self.chance.randbytes(self.chance.randint(0, 5))
            case "date":
                return f"{self.chance.randint(1000, 2999)}-0{self.chance.randint(1, 9)}-{self.chance.randint(10, 28)}"
            case "uuid":
                return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        return f"{self.chance.randint(1000, 2999)}-0{self.chance.randint(1, 9)}-11 10:00:00.{self.chance.randint(0, 999999):06d}"

    def _decimal(self) -> str:
        return f"{self.chance.randint(-9999, 9999)}.{self.chance.choice([0, 100, self.chance.randint(0, 999)]):03d}"

    def row(self, key: tuple[Any, ...]) -> list[Any]:
        """Return a random row of a key; what it refers to is not set yet."""
        row = list(key)
        for at, kind in enumerate(self.kinds):
            row.append(self.value(kind, required=f"c{at}" in self.required))
        row += [None] if self.parent else []
        return row + ([self.chance.choice([None, *CATS])] if self.cat else [])

    def sides(self) -> tuple[list[list[Any]], list[list[Any]]]:
        """Return rows of both sides: many alike, the others damaged, missing, or only there."""
        keys = {tuple(self.value(kind, key=True) for kind in self.key) for _ in range(self.chance.randint(0, 12))}
        source: list[list[Any]] = []
        target: list[list[Any]] = []
        for key in sorted(keys, key=repr):
            fate = self.chance.choice(["same", "changed", "dropped", "added", "changed"])
            if fate != "added":
                source.append(self.row(key))
            if fate == "same":
                target.append(list(source[-1]))
            elif fate != "dropped":
                target.append(self.row(key))
        for rows in (source, target):
            self._keep_unique(rows)
            if self.parent:
                place = self.written.index("parent")
                for row in rows:
                    row[place] = self.chance.choice([None, *(other[0] for other in rows)])
        return source, target

    def _keep_unique(self, rows: list[list[Any]]) -> None:
        """Give every row a unique value that no other has; many are those that another row of the other side has."""
        place = len(self.key)
        if self.unique:
            values = self.chance.sample(range(max(len(rows) + 2, 4)), len(rows))
            for row, found in zip(rows, values, strict=True):
                row[place] = found if row[place] is not None else None
        if self.pair:
            pairs = [(one, two) for one in range(4) for two in range(4)]
            for row, found in zip(rows, self.chance.sample(pairs, len(rows)), strict=True):
                row[place : place + 2] = found

    def canonical_key(self, row: Sequence[Any]) -> tuple[str, ...]:
        """Return the key of a row that was read, as records write it."""
        return tuple(_canonical(cell) for cell in row[: len(self.key)])


def _canonical(cell: Any) -> str:
    if isinstance(cell, Decimal):
        text = format(cell, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text
    return str(cell)


def write_as_somebody(bench: Bench, table: Table, key: Sequence[Any]) -> bool:
    """Delete a row or change one column of it, as another user would; return False where the engine did not let it."""
    mark, chance = "%s" if bench.engine in ("postgresql", "mysql") else "?", table.chance
    where = " AND ".join(f"{name} = {mark}" for name in table.names[: len(table.key)])
    place = chance.randrange(len(table.kinds))
    name = f"c{place}"
    value = table.value(table.kinds[place], required=True)
    deletes = chance.random() < 0.3
    with bench.connection() as run:
        if bench.engine == "postgresql":
            run("SET lock_timeout = '20ms'")
        elif bench.engine == "mysql":
            run("SET innodb_lock_wait_timeout = 1")
        try:
            if deletes:
                run(f"DELETE FROM t_target WHERE {where}", list(key))
            else:
                run(f"UPDATE t_target SET {name} = {mark} WHERE {where}", [value, *key])
        except refusals(bench.engine):
            return False
    return True


def refusals(engine: str) -> tuple[type[Exception], ...]:
    """Return what a driver raises where a constraint or a lock stands in the way of somebody else."""
    if engine == "postgresql":
        import psycopg

        return (psycopg.IntegrityError, psycopg.errors.LockNotAvailable)
    if engine == "mysql":
        import pymysql

        return (pymysql.IntegrityError, pymysql.OperationalError)
    import sqlite3

    return (sqlite3.IntegrityError,)
