"""MySQL's and MariaDB's types as logical types: how a column is selected, read from text, ordered and bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.mysql_stream import octets, texts
from airflow_delta_provider.adapters.pgcopy.cells import Cells
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.errors import ValueRangeError, shown
from airflow_delta_provider.core.types import DATE_ZERO, TIMESTAMP_ZERO, LogicalType

SORT_BYTES_MAX = 8192
"""Longest key that the engine is asked to sort, also ``max_sort_length`` of the session: it would cut longer ones."""
UTF8_BYTES_MAX = 4
_MIDNIGHT_AFTER = r"^24:00:00(\.0*)?$"
_ZERO_DATE = r"^0000-00-00( 00:00:00(\.0+)?)?$"
_LENGTH = r"^(?P<sign>-?)(?P<hours>[0-9]+):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2})(?:\.(?P<micros>[0-9]{1,6}))?$"

_INT_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64, "year": 16}
_TEXTS = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"))
_BYTES = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_ADVICE = {
    "geometry": "Select it as text in a query: ST_AsText(column), or as bytes: ST_AsBinary(column).",
    "vector": "Select it as text in a query: VEC_ToText(column).",
}
_ADVICE_ELSE = "Read it as text: read_as: {type: text}."
_GEOMETRIES = frozenset(("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
                         "geometrycollection", "geomcollection"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flavour:
    """Which server it is: ``collation`` orders utf8mb4 by code points without padding, "" where it has none."""

    mariadb: bool
    collation: str


@dataclass(frozen=True, slots=True)
class Declared:
    """One column as the catalog or a result describes it. Units: ``length`` characters or bytes, ``digits`` of a second."""

    name: str
    type: str
    shown: str
    nullable: bool = True
    unsigned: bool = False
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    digits: int | None = None
    collation: str = ""


@dataclass(frozen=True, slots=True)
class Native:
    """``read`` turns cells into the carrier; ``plain``: an index over the column serves ``sort``; ``stamp``: TIMESTAMP."""

    read: Callable[[Cells], pa.Array]
    plain: bool = False
    scale: int | None = None
    stamp: bool = False
    admitting: Callable[[Cells], pa.Array] | None = None
    """``read`` for a column whose rules take away what its logical type has not."""


def read_column(each: Declared, field: str, flavour: Flavour) -> ReadColumn:
    """Return how one column is read."""
    found = _mapped(each, field, flavour)
    if found is None:
        advice = _ADVICE.get("geometry" if each.type in _GEOMETRIES else each.type, _ADVICE_ELSE)
        as_text = "" if each.type in _GEOMETRIES or each.type in _ADVICE else f"CAST({field} AS CHAR)"
        return ReadColumn(
            Column(each.name, None, each.shown, each.nullable, advice=advice),
            native=code_points(as_text, flavour) if as_text else None,
        )
    kind, select, arrow, sort, native = found
    return ReadColumn(Column(each.name, kind, each.shown, each.nullable), select, arrow, sort, native)


Mapped = tuple[LogicalType, str, pa.DataType, str, Native]


def _mapped(each: Declared, field: str, flavour: Flavour) -> Mapped | None:
    if each.type in _INT_BITS:
        return _int(each, field)
    if each.type == "decimal":
        precision, scale = each.precision or 65, each.scale or 0
        arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        kind = LogicalType("decimal", precision=precision, scale=scale)
        return kind, field, arrow, field, Native(_cast(arrow), True, scale)
    if each.type in ("float", "double"):
        # in text a FLOAT has six digits, and a DOUBLE(M,D) has D decimals; the sum with a double has all of them
        arrow = pa.float32() if each.type == "float" else pa.float64()
        kind = LogicalType("float32" if each.type == "float" else "float64")
        return kind, f"{field} + 0e0", arrow, field, Native(_float(arrow), True)
    if each.type in _TEXTS:
        return _text(each, field, flavour)
    if each.type in _BYTES:
        short = each.length is not None and each.length <= SORT_BYTES_MAX
        kind = LogicalType("bytes", length=each.length)
        return kind, field, pa.binary(), field if short else "", Native(octets, short)
    if each.type == "bit":
        digits = f"LPAD(BIN({field}), {each.precision or 1}, '0')"
        kind = LogicalType("text", length=each.precision or 1)
        return kind, digits, pa.string(), f"CAST({digits} AS BINARY)", Native(texts)
    if each.type == "json":
        return LogicalType("json_text"), field, pa.string(), "", Native(texts)
    if each.type == "uuid":
        return _uuid(field, flavour)
    return _moment(each, field)


def _int(each: Declared, field: str) -> Mapped:
    bits = _INT_BITS[each.type]
    width = 32 if bits == 24 else bits
    unsigned = each.unsigned or each.type == "year"
    arrow = getattr(pa, f"{'u' if unsigned else ''}int{width}")()
    return LogicalType("int", bits=bits, unsigned=unsigned), field, arrow, field, Native(_cast(arrow), True)


def _text(each: Declared, field: str, flavour: Flavour) -> Mapped:
    length = each.length if each.type in ("char", "varchar") else None
    kind = LogicalType("text", length=length)
    listed = each.type in ("enum", "set")
    short = listed or (each.length is not None and each.length * UTF8_BYTES_MAX <= SORT_BYTES_MAX)
    plain = bool(flavour.collation) and each.collation == flavour.collation and not listed
    exact = field if plain else code_points(field, flavour)
    if not short:
        return kind, exact, pa.string(), "", Native(texts)  # never sorted here, but a filter compares it by code points
    return kind, field, pa.string(), exact, Native(texts, plain)


def code_points(text: str, flavour: Flavour) -> str:
    """Write a text so that the engine compares it by code points and blank by blank."""
    if flavour.collation:
        return f"CONVERT({text} USING utf8mb4) COLLATE {flavour.collation}"
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


def _uuid(field: str, flavour: Flavour) -> Mapped:
    """MariaDB orders UUIDs by their time part; their text in lower case is in the order of their bytes."""
    arrow = pa.binary(16)
    select = f"UNHEX(REPLACE(CAST({field} AS CHAR), '-', ''))"
    sort = code_points(f"CAST({field} AS CHAR)", flavour)
    return LogicalType("uuid"), select, arrow, sort, Native(lambda cells: octets(cells).cast(arrow))


def _moment(each: Declared, field: str) -> Mapped | None:
    digits = each.digits or 0
    if each.type == "date":
        return LogicalType("date"), field, pa.date32(), field, _days(pa.date32(), each.name)
    if each.type == "datetime":
        arrow = pa.timestamp("us")
        return LogicalType("timestamp", digits=digits), field, arrow, field, _days(arrow, each.name)
    if each.type == "timestamp":
        arrow = pa.timestamp("us", "UTC")
        return LogicalType("timestamp_tz", digits=digits), field, arrow, field, _days(arrow, each.name)
    if each.type == "time":
        native = Native(_clock(each.name), True, admitting=_lengths)
        return LogicalType("time", digits=digits), field, pa.time64("us"), field, native
    return None


def _days(arrow: pa.DataType, name: str) -> Native:
    """Return how dates and timestamps are read; an instant is written as a wall clock in UTC, the session's zone."""
    stamp = pa.types.is_timestamp(arrow) and arrow.tz is not None
    read = _calendar(pa.timestamp("us") if stamp else arrow, name)
    zero = pa.scalar(DATE_ZERO, pa.int32()) if pa.types.is_date32(arrow) else pa.scalar(TIMESTAMP_ZERO, pa.int64())

    def whole(cells: Cells) -> pa.Array:
        return read(texts(cells)).view(arrow)

    def admitting(cells: Cells) -> pa.Array:
        found = texts(cells)
        zeros = pc.fill_null(pc.match_substring_regex(found, _ZERO_DATE), False)
        days = read(pc.if_else(zeros, pa.scalar(None, pa.string()), found))
        return pc.if_else(zeros, zero, days.view(zero.type)).view(arrow)

    return Native(whole, True, stamp=stamp, admitting=admitting)


def _cast(arrow: pa.DataType) -> Callable[[Cells], pa.Array]:
    return lambda cells: texts(cells).cast(arrow)


def _float(arrow: pa.DataType) -> Callable[[Cells], pa.Array]:
    return lambda cells: texts(cells).cast(pa.float64()).cast(arrow)


def _calendar(arrow: pa.DataType, name: str) -> Callable[[pa.Array], pa.Array]:
    """Read dates and wall-clock times; the engine also stores days that are none, which no calendar has."""

    def read(found: pa.Array) -> pa.Array:
        try:
            return found.cast(arrow)
        except pa.ArrowInvalid:
            bad = next((text for text in found.to_pylist() if text is not None and not _casts(text, arrow)), "")
            raise ValueRangeError(
                f"Column {shown(name)}: {shown(bad)} is no day of the calendar. For 0000-00-00 name null_equals: zero_date"
                " as the column's first rule; select others as text in a query, CAST(column AS CHAR).",
                where=f"column {shown(name)}",
            ) from None

    return read


def _clock(name: str) -> Callable[[Cells], pa.Array]:
    """Read times of day as the time stamps of one day; lengths of time, which the type also holds, fail to be that."""

    def read(cells: Cells) -> pa.Array:
        found = texts(cells)
        try:
            return _of_day(found)
        except pa.ArrowInvalid:
            last = pc.fill_null(pc.match_substring_regex(found, _MIDNIGHT_AFTER), False)
            plain = pc.if_else(last, pa.scalar("00:00:00"), found)
            bad = next((text for text in plain.to_pylist() if text is not None and not _casts(text)), None)
            if bad is not None:
                raise ValueRangeError(
                    f"Column {shown(name)}: {shown(bad)} is no time of day. Name read_as: {{type: interval}} as the"
                    " column's first rule.",
                    where=f"column {shown(name)}",
                ) from None
            micros = pc.if_else(last, pa.scalar(86_400_000_000, pa.int64()), _of_day(plain).view(pa.int64()))
            return micros.view(pa.time64("us"))

    return read


def _lengths(cells: Cells) -> pa.Array:
    """Read lengths of time, negative ones and those beyond a day too, as microseconds in the carrier of times."""
    parts = pc.extract_regex(texts(cells), _LENGTH)
    sign, hours, minutes, seconds, micros = (pc.struct_field(parts, [at]) for at in range(5))
    whole = pa.scalar(0, pa.int64())
    for part, unit in ((hours, 3_600_000_000), (minutes, 60_000_000), (seconds, 1_000_000)):
        whole = pc.add(whole, pc.multiply(part.cast(pa.int64()), pa.scalar(unit, pa.int64())))
    whole = pc.add(whole, pc.utf8_rpad(micros, 6, "0").cast(pa.int64()))
    return pc.if_else(pc.equal(sign, "-"), pc.negate(whole), whole).view(pa.time64("us"))


def _of_day(found: pa.Array) -> pa.Array:
    stamps = pc.binary_join_element_wise("1970-01-01", found, " ").cast(pa.timestamp("us"))
    return stamps.view(pa.int64()).view(pa.time64("us"))


def _casts(text: str, arrow: pa.DataType | None = None) -> bool:
    one = pa.array([text], pa.string())
    try:
        _ = one.cast(arrow) if arrow is not None else _of_day(one)
    except pa.ArrowInvalid:
        return False
    return True


def truth(expression: str) -> ReadColumn:
    """Return the column of a filter's verdict."""

    def read(cells: Cells) -> pa.Array:
        return texts(cells).cast(pa.int64()).cast(pa.bool_())

    return ReadColumn(Column("", LogicalType("bool"), "boolean"), expression, pa.bool_(), "", Native(read))


def described_field(field: Any, shown_type: str) -> Declared:
    """Turn a result's description of a column into a declaration; ``field`` is the driver's."""
    from pymysql.constants import FIELD_TYPE as T

    text_types = (T.VARCHAR, T.VAR_STRING, T.STRING, T.BLOB, T.TINY_BLOB, T.MEDIUM_BLOB, T.LONG_BLOB)
    names = {T.TINY: "tinyint", T.SHORT: "smallint", T.INT24: "mediumint", T.LONG: "int", T.LONGLONG: "bigint",
             T.YEAR: "year", T.FLOAT: "float", T.DOUBLE: "double", T.DATE: "date", T.NEWDATE: "date", T.TIME: "time",
             T.DATETIME: "datetime", T.TIMESTAMP: "timestamp", T.BIT: "bit", T.JSON: "json", T.NEWDECIMAL: "decimal",
             T.DECIMAL: "decimal"}  # fmt: skip
    unsigned, binary = bool(field.flags & 32), field.charsetnr == 63
    kind = names.get(field.type_code, "geometry")
    length: int | None = field.length
    if field.type_code in text_types:
        kind = (
            ("varbinary" if binary else "varchar") if field.length < 2**24 else ("longblob" if binary else "longtext")
        )
        length = field.length if binary else field.length // UTF8_BYTES_MAX
    precision = field.length if kind == "bit" else None
    if kind == "decimal":
        precision = field.length - (1 if field.scale else 0) - (0 if unsigned else 1)
    digits = field.scale if kind in ("time", "datetime", "timestamp") else None
    name = field.name if isinstance(field.name, str) else field.name.decode()
    return Declared(name, kind, shown_type or kind, True, unsigned, length, precision, field.scale, digits)
