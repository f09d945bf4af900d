"""Logical types: what every engine's types map to, and how the documents write them (docs/format.md, S2 and S7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core.errors import SchemaError

NUMBERS = ("int", "decimal", "float32", "float64")
TIMES = ("date", "time", "timestamp", "timestamp_tz")
SCALARS = ("bool", *NUMBERS, "text", "bytes", "uuid", *TIMES, "interval", "json", "json_text")
KEY_KINDS = ("bool", *NUMBERS, "text", "bytes", "uuid", *TIMES)
"""Kinds that may be key columns (S3)."""

KEEP_COLUMN = "\x00keep"
"""Name of the extra boolean column that says for which rows the filter is true; NULL and false are both left out."""
REFUSED_COLUMN = "\x00refused"
"""Name of the extra text column that holds the code of the first value refused in a row; NULL where none was."""
VALUE_CODES = "DELTA_VALUE_"
"""How the codes of refusals begin that are of one value, and not of its column or of the whole data set."""
PACKED_COLUMN = "\x00packed"
"""All value columns of a row as the bytes in which they came; equal bytes on both sides are equal values."""
KEY_BYTES = "\x00key"
"""Name of the extra large_binary column that holds the key bytes of a row on its way through a sort."""

SchemaType = Any
"""A type as a schema document writes it: ``"int"`` or ``["array", T]``, ``["struct", [[name, T], ...]]``, ``["map", K, V]``."""

DATE_INFINITY = 2**31 - 1
DATE_MINUS_INFINITY = -(2**31)
TIMESTAMP_INFINITY = 2**63 - 1
TIMESTAMP_MINUS_INFINITY = -(2**63)
"""Sentinels inside ``date32`` and ``timestamp`` arrays; the same bit patterns as PostgreSQL's binary form."""
DATE_ZERO = -(2**31) + 1
TIMESTAMP_ZERO = -(2**63) + 1
"""Sentinels of the date without a year, month and day that some engines store, in ``date32`` and ``timestamp(us)``.

They come only where the first rule of a column is ``null_equals: zero_date``, and are NULL behind it and in records.
"""


@dataclass(frozen=True, slots=True)
class LogicalType:
    """One logical type with the bounds that its engine declares; equality of values depends on ``kind`` and parts only.

    Units: ``bits`` of an int, ``precision`` and ``scale`` decimal digits, ``length`` characters or bytes,
    ``digits`` fraction digits of a second. None means that the engine has no such bound.
    """

    kind: str
    bits: int | None = None
    unsigned: bool = False
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    digits: int | None = None
    item: LogicalType | None = None
    map_key: LogicalType | None = None
    fields: tuple[tuple[str, LogicalType], ...] = ()

    @property
    def schema(self) -> SchemaType:
        """The type as a schema document writes it, without bounds."""
        if self.kind == "array" and self.item:
            return ["array", self.item.schema]
        if self.kind == "map" and self.item and self.map_key:
            return ["map", self.map_key.schema, self.item.schema]
        if self.kind == "struct":
            return ["struct", [[name, part.schema] for name, part in self.fields]]
        return self.kind

    @property
    def text(self) -> str:
        """The type as a structure document writes it, with bounds: ``decimal(12,2)``."""
        if self.kind == "array" and self.item:
            return f"array<{self.item.text}>"
        if self.kind == "map" and self.item and self.map_key:
            return f"map<{self.map_key.text},{self.item.text}>"
        if self.kind == "struct":
            return "struct<" + ",".join(f'"{name}":{part.text}' for name, part in self.fields) + ">"
        bounds = {
            "int": (self.bits, "unsigned" if self.unsigned else None),
            "decimal": (self.precision, self.scale if self.precision is not None else None),
            "text": (self.length,),
            "bytes": (self.length,),
            "time": (self.digits,),
            "timestamp": (self.digits,),
            "timestamp_tz": (self.digits,),
        }.get(self.kind, ())
        stated = [str(bound) for bound in bounds if bound is not None]
        return f"{self.kind}({','.join(stated)})" if stated else self.kind

    @property
    def nested(self) -> bool:
        """True for arrays, structs and maps."""
        return self.kind in ("array", "struct", "map")


def from_schema(form: SchemaType) -> LogicalType:
    """Read a type as a schema document writes it.

    Raises: SchemaError (DELTA_SCHEMA) for anything else.
    """
    if isinstance(form, str) and form in SCALARS:
        return LogicalType(form)
    if isinstance(form, list) and len(form) == 2 and form[0] == "array":
        return LogicalType("array", item=from_schema(form[1]))
    if isinstance(form, list) and len(form) == 3 and form[0] == "map":
        return LogicalType("map", map_key=from_schema(form[1]), item=from_schema(form[2]))
    if isinstance(form, list) and len(form) == 2 and form[0] == "struct" and _fields_allowed(form[1]):
        return LogicalType("struct", fields=tuple((name, from_schema(part)) for name, part in form[1]))
    raise SchemaError(f"{form!r} is no logical type.")


def _fields_allowed(fields: Any) -> bool:
    return isinstance(fields, list) and all(
        isinstance(field, list) and len(field) == 2 and isinstance(field[0], str) for field in fields
    )


def carrier_allowed(kind: str, arrow: pa.DataType) -> bool:
    """Tell whether an Arrow type may carry values of a logical kind inside this package (see ``CARRIERS``)."""
    return any(test(arrow) for test in _CARRIER_TESTS[kind])


def _is_decimal(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(arrow) or pa.types.is_decimal256(arrow))


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _is_bytes(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


CARRIERS = """
bool          bool
int           int8..int64, uint8..uint64; beyond 64 bits decimal128(p,0) or decimal256(p,0)
decimal       decimal128, decimal256; or string holding the canonical decimal text of S2 (NaN, infinities, over 76 digits)
float32       float32
float64       float64
text          string, large_string; or binary, large_binary where some value is not valid UTF-8 (its bytes, WTF-8)
bytes         binary, large_binary
uuid          fixed_size_binary(16), network order
date          date32, with DATE_INFINITY and DATE_MINUS_INFINITY
time          time64(us) or time64(ns), 24:00:00 allowed
timestamp     timestamp(s|ms|us|ns) without zone, with TIMESTAMP_INFINITY and TIMESTAMP_MINUS_INFINITY;
              or decimal128(38,0), nanoseconds since 1970-01-01, where int64 is too narrow (no infinities)
timestamp_tz  the same; timestamp with tz UTC
interval      month_day_nano_interval
json          string, large_string holding canonical JSON text of S2
json_text     string, large_string
array         list, large_list of carriers; struct: struct of carriers; map: map of carriers
"""
"""Which Arrow types carry which logical kind. An array of a dictionary type is decoded before it enters."""

_CARRIER_TESTS: dict[str, tuple[Any, ...]] = {
    "bool": (pa.types.is_boolean,),
    "int": (pa.types.is_integer, _is_decimal),
    "decimal": (_is_decimal, _is_text),
    "float32": (pa.types.is_float32,),
    "float64": (pa.types.is_float64,),
    "text": (_is_text, _is_bytes),
    "bytes": (_is_bytes,),
    "uuid": (lambda arrow: arrow == pa.binary(16),),
    "date": (pa.types.is_date32,),
    "time": (pa.types.is_time64,),
    "timestamp": (pa.types.is_timestamp, pa.types.is_decimal128),
    "timestamp_tz": (pa.types.is_timestamp, pa.types.is_decimal128),
    "interval": (lambda arrow: arrow == pa.month_day_nano_interval(),),
    "json": (_is_text,),
    "json_text": (_is_text,),
    "array": (pa.types.is_list, pa.types.is_large_list),
    "struct": (pa.types.is_struct,),
    "map": (pa.types.is_map,),
}
