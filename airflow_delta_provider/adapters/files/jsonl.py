"""JSON Lines as a side: one strict object a line, columns by member name, types declared, paired or told by the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.files import jsonscan
from airflow_delta_provider.adapters.files.base import FileSide
from airflow_delta_provider.adapters.files.common import UNTYPED_TEXT
from airflow_delta_provider.adapters.files.jsonscan import Lines, Whole
from airflow_delta_provider.adapters.files.jsonvalues import FORMS, Reading, array_of
from airflow_delta_provider.adapters.files.paths import SideFile
from airflow_delta_provider.adapters.files.refusals import Refusals
from airflow_delta_provider.adapters.files.streams import BLOCK_BYTES, blocks, compression_of, opened_text
from airflow_delta_provider.adapters.side import Column, Request
from airflow_delta_provider.core.errors import ValueTextError
from airflow_delta_provider.core.types import LogicalType

BLOCK_BYTES_MIN = 64 * 1024
OBJECT_SHARE = 8
"""Parsed lines take about so many times the memory of their text."""
JSON_KINDS = ("json", "json_text")
_NONE = type(None)
MIXED = "Its values are of several JSON types: declare jsonl types (text, json or json_text), or exclude it."


@dataclass(frozen=True, slots=True)
class _Found:
    """What one pass over the files saw: for each member the Python types of its values, and the number of lines."""

    members: dict[str, set[type]]
    rows: int


class JsonlSide(FileSide):
    """JSON Lines files; columns are the union of all members in order of first appearance, a missing member is NULL.
    Files without any line have the columns that ``types`` declares.

    Options: ``types``, ``compression``. A number under a column declared as text is its text as it stands; under a
    column that is text only because of its partner it is refused.
    """

    kind: str = "jsonl"

    def __init__(self, files: tuple[SideFile, ...], options: Mapping[str, Any], pattern: str) -> None:
        super().__init__(files, options, pattern)
        self._compression = options.get("compression")
        compression_of(files[0], self._compression)

    def _scan(self, file: SideFile, size: int, sourced: frozenset[str] = frozenset()) -> Iterator[Lines]:
        with opened_text(file, compression_of(file, self._compression)) as stream:
            yield from jsonscan.scan(blocks(stream, file, "utf-8", size), file, sourced)

    @cached_property
    def _found(self) -> _Found:
        members: dict[str, set[type]] = {}
        rows = 0
        for file in self.files:
            for lines in self._scan(file, BLOCK_BYTES // OBJECT_SHARE):
                for number, found in enumerate(lines.objects, lines.first):
                    for name, value in found:
                        kinds = members.get(name)
                        if kinds is None:
                            kinds = members[name] = set()
                            _check_name(file, number, name)
                        kinds.add(type(value))
                rows += len(lines.objects)
        return _Found(members, rows)

    @cached_property
    def _inside(self) -> tuple[Column, ...]:
        if not self._found.rows:
            return tuple(Column(name, self._types[name], "null") for name in self._types if name in self._declared)
        return tuple(self._told(name, kinds) for name, kinds in self._found.members.items())

    def _told(self, name: str, kinds: set[type]) -> Column:
        forms = frozenset(FORMS[kind] for kind in kinds if kind is not _NONE)
        engine_type = " or ".join(sorted(forms)) or "null"
        if name in self._declared:
            return Column(name, self._types[name], engine_type, forms=forms)
        if len(forms) > 1:
            return Column(name, None, engine_type, untyped=True, forms=forms, advice=MIXED)
        if forms == {"number"}:
            told = LogicalType("int" if kinds <= {Whole, _NONE} else "decimal")
        else:
            told = {"bool": LogicalType("bool"), "json": LogicalType("json_text")}.get(engine_type, UNTYPED_TEXT)
        return Column(name, told, engine_type, untyped=True, forms=forms)

    def _file_columns(self) -> tuple[Column, ...]:
        return self._inside

    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        types = {name: self.type_of(name) for name in names}
        documents = frozenset(name for name, type in types.items() if self._takes_sources(name, type))
        size = max(BLOCK_BYTES_MIN, min(BLOCK_BYTES, request.batch_bytes) // OBJECT_SHARE)
        for file in self.files:
            for lines in self._scan(file, size, documents):
                rows = [dict(found) for found in lines.objects]
                arrays, refusals = [], Refusals(request.refusable)
                for name, type in types.items():
                    note = refusals.note if name in refusals.names else None
                    reading = Reading(self, file, name, lines.first, declared=name in self._declared)
                    arrays.append(_column([row.get(name) for row in rows], type, reading, note))
                yield file, refusals.batch(arrays, names)

    def _takes_sources(self, name: str, type: LogicalType) -> bool:
        """Tell whether a column's values are JSON themselves, and not texts that hold JSON."""
        return type.kind in JSON_KINDS and self._column(name).forms != {"text"}

    def _estimate(self) -> int | None:
        return self._found.rows


def _check_name(file: SideFile, line: int, name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise jsonscan.broken(file, line, "the name of a member is not valid Unicode") from error


def _column(
    values: list[Any], type: LogicalType, reading: Reading, note: Callable[[list[int]], None] | None
) -> pa.Array:
    """Return values as a carrier; ``note`` is told the rows of those that are none of the type, which come as NULL then.

    Raises: ValueTextError where nobody takes notes.
    """
    try:
        return array_of(values, type, reading)
    except ValueTextError:
        if note is None:
            raise
    refused = list(_refused(values, type, reading, 0))
    note(refused)
    for row in refused:
        values[row] = None
    return array_of(values, type, reading)


def _refused(values: list[Any], type: LogicalType, reading: Reading, first: int) -> Iterator[int]:
    """Yield the rows of values that are refused, counted from ``first``: what is refused is halved until it is one."""
    try:
        array_of(values, type, reading)
    except ValueTextError:
        if len(values) == 1:
            yield first
            return
        middle = len(values) // 2
        yield from _refused(values[:middle], type, reading, first)
        yield from _refused(values[middle:], type, reading, first + middle)
