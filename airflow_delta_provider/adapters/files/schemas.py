"""Columns of Parquet and Arrow files: from the file's schema to columns, and several files as one data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.files.common import UNTYPED_TEXT, logical_type, unified
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.errors import SideFileError, shown
from airflow_delta_provider.core.types import LogicalType

NO_TYPE = "This type has no logical type: exclude the column, or write it as text, bytes or numbers."
NO_ZONE_FREE_PLACE = "A geometry has no logical type: exclude the column, or write it as text (WKT) or bytes (WKB)."
_PARQUET_TYPES = {
    "UUID": LogicalType("uuid"),
    "JSON": LogicalType("json_text"),
    "Enum": LogicalType("text"),
    "String": LogicalType("text"),
    "Interval": LogicalType("interval"),
    "BSON": LogicalType("bytes"),
}
"""Annotations of single columns that the Arrow type may not show."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """One top-level column of one file. ``position``: its place in the file's schema. ``leaf``: Parquet's annotation."""

    name: str
    position: int
    arrow: pa.DataType
    type: LogicalType | None
    nullable: bool
    engine_type: str
    leaf: dict[str, Any]
    physical: str = ""
    advice: str = ""

    @property
    def int96(self) -> bool:
        """True for the time stamps of old writers."""
        return self.physical == "INT96"

    @property
    def nested(self) -> bool:
        """True for lists, maps and structs."""
        return bool(pa.types.is_nested(self.arrow))

    @property
    def empty(self) -> bool:
        """True where the column has no type since it holds nothing but NULL."""
        return bool(pa.types.is_null(self.arrow))


def file_columns(name: str, footer: Any, schema: pa.Schema, starts: Sequence[int]) -> dict[str, FileColumn]:
    """Return the columns of a Parquet file by name; ``starts`` as from ``leaf_starts``.

    Raises: SideFileError where two have one name.
    """
    columns: dict[str, FileColumn] = {}
    for position, field in enumerate(schema):
        single = starts[position + 1] - starts[position] == 1 and not pa.types.is_nested(field.type)
        leaf = footer.schema.column(starts[position]) if single else None
        note = json.loads(leaf.logical_type.to_json()) if leaf else {}
        physical = leaf.physical_type if leaf else ""
        add_column(columns, _column(field, position, note, physical), name)
    return columns


def add_column(columns: dict[str, FileColumn], column: FileColumn, file: str) -> None:
    """Put a column under its name; a second one of that name is refused."""
    if column.name in columns:
        raise SideFileError(f"{file} has two columns {shown(column.name)}.", where=file)
    columns[column.name] = column


def arrow_column(field: pa.Field, position: int) -> FileColumn:
    """Return a column of an Arrow file."""
    return _column(field, position, {}, "")


def _column(field: pa.Field, position: int, note: dict[str, Any], physical: str) -> FileColumn:
    kind = note.get("Type", "")
    type = _PARQUET_TYPES.get(kind) or logical_type(field.type)
    advice = ""
    if kind in ("Geometry", "Geography") or _extension(field).startswith(("geoarrow.", "ogc.")):
        type, advice = None, NO_ZONE_FREE_PLACE
    elif kind == "Variant" or (type is None and not pa.types.is_null(field.type)):
        type, advice = None, NO_TYPE
    shown_type = kind if kind in ("Enum", "Interval", "BSON", "Geometry", "Geography", "Variant") else str(field.type)
    engine_type = "INT96" if physical == "INT96" else shown_type
    return FileColumn(field.name, position, field.type, type, field.nullable, engine_type, note, physical, advice)


def _extension(field: pa.Field) -> str:
    if isinstance(field.type, pa.BaseExtensionType):
        return str(field.type.extension_name)
    return str((field.metadata or {}).get(b"ARROW:extension:name", b""), "utf-8", "replace")


def leaf_starts(name: str, footer: Any, schema: pa.Schema) -> list[int]:
    """Return where the leaves of each top-level column begin in a Parquet schema, and one past the last."""
    starts = [0]
    for field in schema:
        starts.append(starts[-1] + _leaves(field.type))
    if starts[-1] != footer.num_columns:
        raise SideFileError(f"{name}: the columns in the footer do not agree with each other.", where=name)
    return starts


def _leaves(arrow: pa.DataType) -> int:
    if isinstance(arrow, pa.BaseExtensionType):
        return _leaves(arrow.storage_type)
    if pa.types.is_dictionary(arrow):
        return _leaves(arrow.value_type)
    if pa.types.is_nested(arrow):
        return sum(_leaves(arrow.field(index).type) for index in range(arrow.num_fields))
    return 1


def joined_columns(names: Sequence[str], layouts: Sequence[Sequence[FileColumn]]) -> tuple[Column, ...]:
    """Return the columns of several files as one data set, in the order of the first file.

    Raises: SideFileError naming the file whose columns are others, or have a type that no exact widening joins.
    """
    joined = {column.name: _side_column(column) for column in layouts[0]}
    for file, layout in zip(names[1:], layouts[1:], strict=True):
        found = {column.name for column in layout}
        if found != set(joined):
            other = sorted(found ^ set(joined))[0]
            here = "has a column" if other in found else "lacks the column"
            raise SideFileError(f"{file} {here} {shown(other)}, other than {names[0]}.", where=file)
        for column in layout:
            joined[column.name] = _joined(joined[column.name], _side_column(column), file)
    return tuple(joined.values())


def _side_column(column: FileColumn) -> Column:
    if column.empty:
        return Column(column.name, UNTYPED_TEXT, "null", untyped=True)
    return Column(column.name, column.type, column.engine_type, nullable=column.nullable, advice=column.advice)


def _joined(first: Column, second: Column, file: str) -> Column:
    if second.untyped:
        return replace(first, nullable=True)
    if first.untyped:
        return replace(second, nullable=True)
    type = unified(first.type, second.type) if first.type and second.type else None
    if type is None and (first.type or second.type or first.engine_type != second.engine_type):
        raise SideFileError(
            f"{file}: column {shown(first.name)} is {second.engine_type}, but {first.engine_type} in the files before.",
            where=file,
        )
    engine_type = first.engine_type if type == first.type else second.engine_type
    return replace(first, type=type, engine_type=engine_type, nullable=first.nullable or second.nullable)
