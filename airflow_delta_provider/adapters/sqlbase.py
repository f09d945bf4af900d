"""A table or query of a database, opened when first asked, with its columns: what every use of it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_delta_provider.adapters.dialects.base import Dialect, ReadColumn, Relation
from airflow_delta_provider.core.errors import (
    DeltaError,
    SideMissingError,
    SideNamesError,
    SpecColumnError,
    SpecValueError,
    shown,
)


class SqlRelation:
    """One table, view or query over a dialect, in one snapshot where the engine has snapshots.

    ``connect`` gives an open connection of the dialect's driver. It may raise ConnectError and SideMissingError.
    Exactly one of ``table`` and ``query`` is set.
    """

    def __init__(
        self, dialect: Dialect, connect: Callable[[], Any], *, table: str | None = None, query: str | None = None
    ) -> None:
        self.kind = dialect.kind
        self.where = f"table {shown(table)}" if table is not None else "query"
        self._dialect = dialect
        self._connect = connect
        self._table = table
        self._query = query
        self._connection: Any = None
        self._relation: Relation | None = None
        self._read_columns: tuple[ReadColumn, ...] | None = None
        self._statement_s: float | None = None

    def _opened(self) -> Relation:
        if self._relation is not None:
            return self._relation
        self._connection = self._connect()
        with self._refusals():
            self._dialect.begin(self._connection)
            if self._statement_s is not None and not self._dialect.limit(self._connection, self._statement_s):
                raise SpecValueError(f"{self.kind} has no statement timeout.", where="statement_timeout")
            if self._table is None:
                self._relation = self._dialect.query(self._query or "")
                return self._relation
            found = self._dialect.find(self._connection, self._table)
        if found is None:
            raise SideMissingError(f"There is no {self.where} that this user may read.", where=self.where)
        self._relation = found
        return found

    def _described(self) -> tuple[ReadColumn, ...]:
        if self._read_columns is None:
            relation = self._opened()
            with self._refusals():
                described = self._dialect.describe(self._connection, relation)
            names = [each.column.name for each in described]
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise SideNamesError(f"{self.where} has two columns named {shown(twice)}.", where=self.where)
            self._read_columns = described
        return self._read_columns

    def _picked(self, names: tuple[str, ...]) -> tuple[ReadColumn, ...]:
        known = {each.column.name: each for each in self._described()}
        for name in names:
            if name not in known:
                raise SpecColumnError(f"{self.where} has no column {shown(name)}.", where=self.where)
        return tuple(known[name] for name in names)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn errors of the driver into refusals; its own text stays out where it may hold values or credentials."""
        try:
            yield
        except DeltaError:
            raise
        except self._dialect.driver_errors() as error:
            raise self._dialect.failure(error, self.where) from None
