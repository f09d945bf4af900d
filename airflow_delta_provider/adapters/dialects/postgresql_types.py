"""PostgreSQL's types as logical types: how a column is selected, decoded, ordered and compared with a bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.pgcopy.form import Form
from airflow_delta_provider.adapters.pgcopy.numeric import decimal_carrier
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.types import LogicalType

PLAIN, COLLATION_C = 0, 950
"""Object numbers of "no collation" and of the collation C, the same in every database."""
DOMAIN_DEPTH_MAX = 32


@dataclass(frozen=True, slots=True)
class CatalogType:
    """One row of pg_type that matters here. ``item`` is the item's type number of a true array, else 0."""

    number: int
    name: str
    schema: str
    sort: str
    base: int
    base_modifier: int
    item: int


@dataclass(frozen=True, slots=True)
class Text:
    """How a database holds text: ``encoding`` of the server, and the collations that order by code points."""

    encoding: str
    by_code_point: frozenset[int]

    @property
    def raw(self) -> bool:
        """True where the server does not know the encoding of its text."""
        return self.encoding == "SQL_ASCII"


@dataclass(frozen=True, slots=True)
class Native:
    """What the dialect keeps of a column.

    ``cast``: type name for literals of bounds. ``number``: attribute number, 0 where no index can serve ``sort``;
    ``collation``: object number of the collation that ``sort`` orders by.
    """

    form: Form
    cast: str
    number: int = 0
    collation: int = PLAIN


@dataclass(frozen=True, slots=True)
class _Mapped:
    kind: LogicalType
    form: Form
    arrow: pa.DataType
    cast: str
    convert: str = ""
    """Cast that the select needs, because the type's own binary form isn't known here."""


def _int(bits: int, unsigned: bool = False) -> LogicalType:
    return LogicalType("int", bits=bits, unsigned=unsigned)


_SIMPLE: dict[str, _Mapped] = {
    "bool": _Mapped(LogicalType("bool"), Form("bool"), pa.bool_(), "boolean"),
    "int2": _Mapped(_int(16), Form("int2"), pa.int16(), "smallint"),
    "int4": _Mapped(_int(32), Form("int4"), pa.int32(), "integer"),
    "int8": _Mapped(_int(64), Form("int8"), pa.int64(), "bigint"),
    "oid": _Mapped(_int(32, True), Form("oid"), pa.uint32(), "oid"),
    "float4": _Mapped(LogicalType("float32"), Form("float4"), pa.float32(), "double precision"),
    "float8": _Mapped(LogicalType("float64"), Form("float8"), pa.float64(), "double precision"),
    "money": _Mapped(LogicalType("decimal"), Form("numeric"), pa.string(), "numeric", "numeric"),
    "uuid": _Mapped(LogicalType("uuid"), Form("uuid"), pa.binary(16), "uuid"),
    "bytea": _Mapped(LogicalType("bytes"), Form("bytea"), pa.binary(), "bytea"),
    "date": _Mapped(LogicalType("date"), Form("date"), pa.date32(), "date"),
    "interval": _Mapped(LogicalType("interval"), Form("interval"), pa.month_day_nano_interval(), "interval"),
    "json": _Mapped(LogicalType("json_text"), Form("text"), pa.string(), "json"),
    "jsonb": _Mapped(LogicalType("json_text"), Form("jsonb"), pa.string(), "jsonb"),
}
_TEXTS = {"text": "", "varchar": "", "bpchar": "", "name": "text", "char": "text", "citext": "text"}
"""Text types and the cast that they need."""
_CLOCKS = {
    "time": ("time", pa.time64("us"), "time"),
    "timestamp": ("timestamp", pa.timestamp("us"), "timestamp"),
    "timestamptz": ("timestamp_tz", pa.timestamp("us", "UTC"), "timestamptz"),
}
_ADVICE = {
    "timetz": "A time with a zone is no point in time: name read_as: {type: text}, or select it as time in a query.",
    "xml": "Name read_as: {type: text}; equal documents may differ as text.",
    "composite": "Name read_as: {type: text}, or select its fields in a query.",
    "range": "Name read_as: {type: text}, or select lower(), upper() and the bounds' kind in a query.",
    "hstore": "Select it as jsonb in a query: hstore_to_jsonb(column).",
    "geometry": "Select it as text in a query: ST_AsEWKT(column), or as bytes: ST_AsEWKB(column).",
    "array": "Name read_as: {type: text}, or select it as jsonb in a query: to_jsonb(column).",
}
_ADVICE_ELSE = "Read it as text: read_as: {type: text}."


def resolved(types: dict[int, CatalogType], number: int, modifier: int) -> tuple[CatalogType, int]:
    """Follow domains down to the type that the values have, and its modifier."""
    for _ in range(DOMAIN_DEPTH_MAX):
        found = types[number]
        if found.sort != "d":
            break
        number, modifier = found.base, found.base_modifier if found.base_modifier != -1 else modifier
    return types[number], modifier


def read_column(
    types: dict[int, CatalogType],
    text: Text,
    field: str,
    described: tuple[str, int, int, str, bool],
    place: tuple[int, int],
) -> ReadColumn:
    """Return how one column is read.

    ``described``: name, type number, type modifier, the type as the catalog shows it, whether NULL may occur.
    ``place``: attribute number (0 where no index can be) and collation.
    """
    name, number, modifier, shown_type, nullable = described
    found, modifier = resolved(types, number, modifier)
    mapped = _mapped(types, text, found, modifier)
    if isinstance(mapped, str):
        as_text = Native(Form("rawtext" if text.raw else "text"), "text")
        return ReadColumn(Column(name, None, shown_type, nullable, advice=mapped), native=as_text)
    column = Column(name, mapped.kind, shown_type, nullable)
    select = f"{field}::{mapped.convert}" if mapped.convert else field
    sort, collation, plain = _sort(mapped, text, field, found, place[1])
    native = Native(mapped.form, mapped.cast, place[0] if plain else 0, collation)
    return ReadColumn(column, select, mapped.arrow, sort, native)


def _mapped(types: dict[int, CatalogType], text: Text, found: CatalogType, modifier: int) -> _Mapped | str:
    """Return the mapping, or the advice for a type that has none."""
    if found.item:
        return _array(types, text, found, modifier)
    if found.sort == "e":
        return _text(text, Form("text"), None, "text")
    if found.sort in ("c", "r", "m"):
        return _ADVICE["composite" if found.sort == "c" else "range"]
    known = found.schema == "pg_catalog" or found.name == "citext"
    if known and found.name in _TEXTS:
        padded = found.name == "bpchar"  # blank-trimmed even where no length is declared, or a query lost it
        length = modifier - 4 if found.name in ("varchar", "bpchar") and modifier > 4 else None
        return _text(text, Form("char" if padded else "text"), length, _TEXTS[found.name])
    if known and found.name in ("bit", "varbit"):
        return _Mapped(LogicalType("text", length=modifier if modifier > 0 else None), Form("bit"), pa.string(), "text")
    if known and found.name == "numeric":
        return _numeric(modifier)
    if known and found.name in _CLOCKS:
        kind, arrow, cast = _CLOCKS[found.name]
        digits = modifier if modifier >= 0 else 6
        return _Mapped(LogicalType(kind, digits=digits), Form(found.name), arrow, cast)
    if known and found.name in _SIMPLE and not (text.raw and found.name in ("json", "jsonb")):
        return _SIMPLE[found.name]
    name = "geometry" if found.name in ("geography", "geometry", "raster") else found.name
    return _ADVICE.get(name, _ADVICE_ELSE)


def _text(text: Text, form: Form, length: int | None, convert: str) -> _Mapped:
    if text.raw:
        form = Form("raw" + form.name)
    return _Mapped(LogicalType("text", length=length), form, pa.binary() if text.raw else pa.string(), "text", convert)


def _numeric(modifier: int) -> _Mapped:
    if modifier < 4:
        return _Mapped(LogicalType("decimal"), Form("numeric"), pa.string(), "numeric")
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = (scale ^ 1024) - 1024
    if not 0 <= scale <= precision:
        precision, scale = max(precision - min(scale, 0), scale), max(scale, 0)
    carrier = decimal_carrier(precision, scale)
    arrow = pa.decimal128(*carrier) if carrier else pa.string()
    kind = LogicalType("decimal", precision=precision, scale=scale)
    return _Mapped(kind, Form("numeric", precision, scale), arrow, "numeric")


def _array(types: dict[int, CatalogType], text: Text, found: CatalogType, modifier: int) -> _Mapped | str:
    item, modifier = resolved(types, found.item, modifier)
    mapped = _mapped(types, text, item, modifier)
    if isinstance(mapped, str) or mapped.kind.nested:
        return _ADVICE["array"]
    convert = f"{mapped.convert}[]" if mapped.convert else ""
    kind = LogicalType("array", item=mapped.kind)
    return _Mapped(kind, Form("array", item=mapped.form), pa.list_(mapped.arrow), "", convert)


def _sort(mapped: _Mapped, text: Text, field: str, found: CatalogType, collation: int) -> tuple[str, int, bool]:
    """Return the expression that sorts canonically, its collation, and whether it is the column itself."""
    kind = mapped.kind.kind
    if kind in ("interval", "json_text", "array"):
        return "", PLAIN, False
    if kind != "text":
        return (f"{field}::{mapped.convert}", PLAIN, False) if mapped.convert else (field, PLAIN, True)
    if text.encoding not in ("UTF8", "SQL_ASCII", "LATIN1"):
        return f"convert_to({field}::text, 'UTF8')", PLAIN, False
    plain = found.name in ("text", "varchar") and found.schema == "pg_catalog"
    if plain and collation in text.by_code_point:
        return field, collation, True
    return (f'{field} COLLATE "C"' if plain else f'{field}::text COLLATE "C"'), COLLATION_C, plain


def closed(types: Iterable[CatalogType]) -> set[int]:
    """Return the type numbers that these types refer to."""
    return {number for each in types for number in (each.base, each.item) if number}


def bool_column(expression: str) -> ReadColumn:
    """Return a column of truth values that is no column of the relation."""
    column = Column("", LogicalType("bool"), "boolean")
    return ReadColumn(column, f"({expression})::boolean", pa.bool_(), "", Native(Form("bool"), "boolean"))


def catalog_type(row: tuple[Any, ...]) -> CatalogType:
    """Read a row of the catalog query; an enum's or range's array keeps its item."""
    return replace(CatalogType(*row), sort=row[3].decode() if isinstance(row[3], bytes) else row[3])
