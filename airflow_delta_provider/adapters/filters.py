"""One filter, the same rows everywhere: parsed once, written for each database, evaluated over batches of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import Dialect, ReadColumn
from airflow_delta_provider.adapters.dialects.spelling import Spelling
from airflow_delta_provider.adapters.dialects.statement import Statement
from airflow_delta_provider.adapters.filterparse import Node, parse
from airflow_delta_provider.adapters.filterwrite import Writer, column_text
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.errors import FilterError, shown
from airflow_delta_provider.core.types import LogicalType


class Filter:
    """One boolean expression over the columns of a side.

    ``text``: as given, without outer white space. ``columns``: names that it uses, in order of first use.
    """

    def __init__(self, text: str, tree: Node) -> None:
        self.text = text
        self.tree = tree
        self.columns = tuple(dict.fromkeys(_fields(tree)))
        self._engine: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}

    def renamed(self, names: Mapping[str, str], columns: Iterable[Column]) -> Filter:
        """Return the filter for the other side: columns renamed by a map, the rest under their own names.

        Raises: FilterError for a column that the other side lacks or holds in another family.
        """
        known = {column.name: column for column in columns}
        for name in self.columns:
            if names.get(name, name) not in known:
                raise FilterError(f"The filter names {shown(name)}, which the other side does not have.")
        return _checked(Filter(self.text, _renamed(self.tree, names)), known)

    def render(self, dialect: Dialect, columns: Mapping[str, ReadColumn]) -> Statement:
        """Write the filter for a database; true, false or NULL for each row.

        Raises: FilterError where a value's family does not fit.
        """

        def column(name: str) -> tuple[str, str | None]:
            read = columns[name]
            return column_text(dialect, read), read.column.type.kind if read.column.type else "value without a type"

        return Writer(dialect, column).condition(self.tree)

    def evaluate(self, batch: pa.RecordBatch, types: Mapping[str, LogicalType]) -> pa.BooleanArray:
        """Tell for each row of a batch whether the filter is true; NULL is false. The batch holds every used column.

        Raises: FilterError where a value's family does not fit, or a number is too wide for the evaluation.
        """
        from airflow_delta_provider.adapters.filterlocal import LocalEngine

        if self._engine is None:
            self._engine = LocalEngine()
        result: pa.BooleanArray = self._engine.evaluate(self, batch, types)
        return result


def parse_filter(text: str, dialect: str, columns: Iterable[Column]) -> Filter:
    """Parse a filter in a SQL dialect, by the kind of a side; files use ``duckdb``.

    A name in quotes is a column's exact name; without quotes case may differ where only one column fits.
    Raises: FilterError, naming what is refused or unknown.
    """
    known = {column.name: column for column in columns}
    grammar = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql"}.get(dialect, dialect)

    def find(name: str, quoted: bool) -> str:
        if name in known:
            return name
        fits = [each for each in known if each.lower() == name.lower()]
        if quoted or len(fits) != 1:
            raise FilterError(f"The filter names {shown(name)}, which is no column.")
        return fits[0]

    return _checked(Filter(text.strip(), parse(text, grammar, find)), known)


def _checked(found: Filter, known: Mapping[str, Column]) -> Filter:
    """Write the filter once for nobody, so that families are checked before a row is read."""

    def column(name: str) -> tuple[str, str | None]:
        each = known[name]
        if each.untyped:
            return "", None
        return "", each.type.kind if each.type else "value without a type"

    Writer(Spelling(), column).condition(found.tree)
    return found


def _fields(tree: Node) -> list[str]:
    found = [tree.value] if tree.op == "field" else []
    for part in tree.args:
        found += _fields(part)
    return found


def _renamed(tree: Node, names: Mapping[str, str]) -> Node:
    value = names.get(tree.value, tree.value) if tree.op == "field" else tree.value
    return Node(tree.op, tuple(_renamed(part, names) for part in tree.args), value)
