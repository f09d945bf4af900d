"""Two tables of one engine that are compared, patched and taken back: a small bench for tests of patches."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import servers

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.open import open_writer
from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.patch import PatchRule
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import SideSpec, Spec, parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.store.published import open_body
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.patching import (
    PatchOptions,
    PatchOutcome,
    PatchPlan,
    apply_patch,
    plan_patch,
    rollback_patch,
)
from airflow_delta_provider.engine.run import reconcile

ENGINES = ("sqlite", "postgresql", "mysql", "duckdb")
KEY = HmacKey("k1", b"a key for tests only")


class Bench:
    """Tables ``source`` and ``target`` in one database, a specification over them, and a store.

    ``uri``: of an empty database. SQL runs as it is written, in the engine's own dialect.
    """

    def __init__(self, engine: str, uri: str, store: Store | None = None, **members: Any) -> None:
        self.engine = engine
        # A driver that prefers encryption reads all certificates of the system at each connection.
        self.uri = uri + "?ssl_mode=disabled" if engine == "mysql" else uri
        self.store: Store = store if store is not None else MemoryStore()
        self.members = members
        self.wrap: Callable[[Writer], Writer] = lambda writer: writer
        self.asked: dict[str, Any] = {}
        """Options of every patch and rollback, unless a call names others."""

    @property
    def spec(self) -> Spec:
        """The specification: key ``id`` unless said otherwise."""
        sides = {
            name: {"uri": self.uri, "table": f"t_{name}", "label": f"bench:{name}"} for name in ("source", "target")
        }
        form = {"name": "bench", "schema_version": "1", "key": ["id"], **sides, **self.members}
        return parse_spec(form)

    @contextmanager
    def connection(self) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
        """Give a function that runs one statement in a committed transaction of its own and returns its rows."""
        connect = {"sqlite": _sqlite, "duckdb": _duckdb, "postgresql": _postgresql, "mysql": _mysql}[self.engine]
        with connect(self.uri) as run:
            yield run

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each by itself; return the rows of the last."""
        found: list[tuple[Any, ...]] = []
        with self.connection() as run:
            for statement in statements:
                found = run(statement)
        return found

    def tables(self, columns: str, more: str = "") -> None:
        """Create both tables alike; ``more`` stands behind the columns of the target only."""
        self.sql(f"CREATE TABLE t_source ({columns})", f"CREATE TABLE t_target ({columns}{more})")

    def fill(self, side: str, rows: Sequence[Sequence[Any]], names: str = "") -> None:
        """Insert rows through the driver."""
        with self.connection() as run:
            mark = "%s" if self.engine in ("postgresql", "mysql") else "?"
            for row in rows:
                run(f"INSERT INTO t_{side} {names} VALUES ({', '.join([mark] * len(row))})", list(row))

    def rows(self, side: str = "target", columns: str = "*", order: str = "1") -> list[tuple[Any, ...]]:
        """Return the rows of one table in order."""
        return self.sql(f"SELECT {columns} FROM t_{side} ORDER BY {order}")

    def compare(self) -> str:
        """Compare, and return the id of the manifest."""
        return reconcile(self.spec, self.store, open_side, hmac_key=KEY).receipt.manifest

    def records(self, manifest: str) -> list[dict[str, Any]]:
        """Return the records of a manifest."""
        document = jsonc.loads(blobs.get_blob(self.store, manifest))
        pair_id = log.pair_id_of(self.spec.name, "bench:source", "bench:target")
        with closing(open_body(self.store, log.read_log(self.store, pair_id), document["body"]["sha256"])) as body:
            return [jsonc.loads(line) for lines in read_lines(body) for line in lines]

    def options(self, rule: PatchRule | None = None, **named: Any) -> PatchOptions:
        """Return options of a patch."""
        return PatchOptions(rule=rule or PatchRule(), **{**self.asked, **named})

    def open_writer(self, side: SideSpec) -> Writer:
        """Open a writer, wrapped where a test asks for it."""
        return self.wrap(open_writer(side))

    def plan(self, manifest: str, **named: Any) -> PatchPlan:
        """Plan a patch."""
        return plan_patch(self.spec, self.store, manifest, self.options(**named), hmac_key=KEY)

    def apply(self, manifest: str, step: Callable[[str], None] = lambda name: None, **named: Any) -> PatchOutcome:
        """Apply a patch."""
        return apply_patch(
            self.spec,
            self.store,
            manifest,
            self.options(**named),
            open_writer=self.open_writer,
            hmac_key=KEY,
            step=step,
        )

    def rollback(self, patch: str, step: Callable[[str], None] = lambda name: None, **named: Any) -> PatchOutcome:
        """Take a patch back."""
        return rollback_patch(
            self.spec, self.store, patch, self.options(**named), open_writer=self.open_writer, hmac_key=KEY, step=step
        )

    def quote(self, name: str) -> str:
        """Quote a name."""
        return f"`{name}`" if self.engine == "mysql" else f'"{name}"'


@contextmanager
def _sqlite(uri: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    connection = sqlite3.connect(uri.partition(":///")[2], isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    try:
        yield lambda text, values=(): connection.execute(text, values).fetchall()
    finally:
        connection.close()


@contextmanager
def _duckdb(uri: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    import duckdb

    connection = duckdb.connect(uri.partition(":///")[2])
    try:
        yield lambda text, values=None: connection.execute(text, values).fetchall()
    finally:
        connection.close()


@contextmanager
def _postgresql(uri: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:

        def run(text: str, values: Any = None) -> list[tuple[Any, ...]]:
            cursor = connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield run


@contextmanager
def _mysql(uri: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    connection = servers.mysql_connection(uri, ssl_disabled=True)

    def run(text: str, values: Any = None) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall())

    try:
        yield run
    finally:
        connection.close()


def file_uri(engine: str, folder: Path) -> str:
    """Return the address of an empty database file."""
    path = folder / f"bench.{engine}"
    if engine == "sqlite":
        sqlite3.connect(path).close()
    else:
        import duckdb

        duckdb.connect(str(path)).close()
    return f"{engine}:///{path}"
