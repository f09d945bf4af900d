"""Key ranges as SQL: a predicate that keeps every row of a half-open range of key bytes, and few others."""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from airflow_delta_provider.adapters.dialects.base import Bound, Dialect, ReadColumn
from airflow_delta_provider.adapters.dialects.statement import Statement, joined, sql
from airflow_delta_provider.core.errors import SideReadError
from airflow_delta_provider.core.types import NUMBERS, LogicalType

NS_PER_DAY = 86_400 * 10**9
_DATE = re.compile(r"([+-]?)(\d{4,})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")


def sortable(column: ReadColumn, key_type: LogicalType) -> bool:
    """Tell whether the order of a column in its engine is the order of a key of this canonical type.

    Numbers of any two types order alike, because both orders are by exact value. A key whose type a rule changed (text
    read as a number) has another order than the column has.
    """
    if not column.sort or column.column.type is None:
        return False
    kind = column.column.type.kind
    return kind == key_type.kind or (kind in NUMBERS and key_type.kind in NUMBERS)


def range_predicate(
    dialect: Dialect,
    key: tuple[ReadColumn, ...],
    key_types: tuple[LogicalType, ...],
    lower: bytes | None,
    upper: bytes | None,
) -> Statement | None:
    """Return a predicate true for every row whose key bytes lie in [lower, upper), or None where nothing can be said.

    Bounds may be any bytes: only their whole leading components count, and a bound that ends inside a component keeps
    all rows of the component before it. NULL keys, NaN and infinities are ordered as canonical keys order them.
    """
    terms: list[Statement] = []
    for bound, is_upper in ((lower, False), (upper, True)):
        if bound is None:
            continue
        components, whole = _components(dialect, key, key_types, bound, is_upper)
        if not components:
            continue
        terms.append(_side_of(key, components, is_upper, strict=is_upper and whole))
    return joined(" AND ", terms) if terms else None


Component = Bound | None
"""One component of a bound: None stands for NULL."""


def _components(
    dialect: Dialect, key: tuple[ReadColumn, ...], key_types: tuple[LogicalType, ...], bound: bytes, upward: bool
) -> tuple[list[Component], bool]:
    """Return the leading components that the engine can compare, and whether they are the whole bound, exactly."""
    from airflow_delta_provider.core.keys import decode_prefix

    values, whole = decode_prefix(bound, key_types)
    components: list[Component] = []
    for column, key_type, value in zip(key, key_types, values, strict=False):
        if not sortable(column, key_type):
            return components, False
        if value is None:
            components.append(None)
            continue
        kind = column.column.type.kind if column.column.type else key_type.kind
        native, exact = native_value(value, key_type.kind, kind, upward)
        operand = dialect.bound(column, native, upward)
        if operand is None:
            return components, False
        components.append(Bound(operand.term, operand.exact and exact))
        if not (operand.exact and exact):
            return components, False
    return components, whole


def _side_of(key: tuple[ReadColumn, ...], components: list[Component], upper: bool, strict: bool) -> Statement:
    """Write the comparison of the leading key columns with a bound, one column within the other.

    The first column's plain comparison is repeated in front, since engines use an index for that form.
    """
    nested = _last(key[len(components) - 1].sort, components[-1], upper, strict)
    for column, component in reversed(list(zip(key, components[:-1], strict=False))):
        nested = _step(column.sort, component, nested, upper)
    first = _at_or_beyond(key[0].sort, components[0], upper)
    if len(components) == 1:
        return sql("(", nested, ")")
    return sql("((", first, ") AND (", nested, "))")


def _last(sort: str, component: Component, upper: bool, strict: bool) -> Statement:
    return _beyond(sort, component, upper) if strict else _at_or_beyond(sort, component, upper)


def _step(sort: str, component: Component, deeper: Statement, upper: bool) -> Statement:
    equal = sql(sort, " IS NULL") if component is None else sql(sort, " = ", component.term)
    return sql("(", _beyond(sort, component, upper), ") OR (", equal, " AND (", deeper, "))")


def _at_or_beyond(sort: str, component: Component, upper: bool) -> Statement:
    if component is None:
        return sql(sort, " IS NULL") if upper else sql("1 = 1")
    if upper:
        return sql(sort, " IS NULL OR ", sort, " <= ", component.term)
    return sql(sort, " >= ", component.term)


def _beyond(sort: str, component: Component, upper: bool) -> Statement:
    if component is None:
        return sql("1 = 0") if upper else sql(sort, " IS NOT NULL")
    if upper:
        return sql(sort, " IS NULL OR ", sort, " < ", component.term)
    return sql(sort, " > ", component.term)


def native_value(value: Any, key_kind: str, kind: str, upward: bool) -> tuple[Any, bool]:
    """Turn a canonical value of a key into what ``Dialect.bound`` takes for a column of ``kind``.

    Returns the value and whether it is exact; one that the kind cannot hold moves upward or downward to one that it can.
    """
    if kind in NUMBERS:
        return _number(value, key_kind, kind, upward)
    if kind in ("bool", "text", "uuid"):
        return value, True
    if kind == "bytes":
        return bytes.fromhex(value), True
    if kind == "date":
        return date_days(value), True
    if kind == "time":
        return time_ns(value), True
    if kind in ("timestamp", "timestamp_tz"):
        day, clock = value.rstrip("Z").split("T")
        return date_days(day) * NS_PER_DAY + time_ns(clock), True
    raise SideReadError(f"A {kind} column cannot be a key.")


def _number(text: str, key_kind: str, kind: str, upward: bool) -> tuple[Any, bool]:
    if text in ("NaN", "Infinity", "-Infinity"):
        special = float(text.lower().replace("infinity", "inf"))
        if kind == "int":
            return (2**128 if special > 0 or special != special else -(2**128)), False
        return (Decimal(text) if kind == "decimal" else special), True
    exact = _exact(text, key_kind)
    if kind == "int":
        whole = exact.to_integral_value(ROUND_CEILING if upward else ROUND_FLOOR)
        return int(whole), whole == exact
    if kind == "decimal":
        return exact, True
    nearest = float(exact)
    if not math.isinf(nearest) and Decimal(nearest) == exact:
        return nearest, True
    if upward and (nearest < 0 if math.isinf(nearest) else Decimal(nearest) < exact):
        nearest = math.nextafter(nearest, math.inf)
    if not upward and (nearest > 0 if math.isinf(nearest) else Decimal(nearest) > exact):
        nearest = math.nextafter(nearest, -math.inf)
    return nearest, False


def _exact(text: str, key_kind: str) -> Decimal:
    """Return the exact number that a canonical text stands for: floats are written with their shortest digits."""
    if key_kind == "float64":
        return Decimal(float(text))
    if key_kind == "float32":
        return Decimal(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    return Decimal(text)


def date_days(text: str) -> int:
    """Return the days since 1970-01-01 of a canonical date, any year, proleptic Gregorian."""
    match = _DATE.fullmatch(text)
    if not match:
        raise SideReadError("A key bound holds a date that is none.")
    year = int(match[1] + match[2])
    month, day = int(match[3]), int(match[4])
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def time_ns(text: str) -> int:
    """Return the nanoseconds since midnight of a canonical time."""
    match = _TIME.fullmatch(text)
    if not match:
        raise SideReadError("A key bound holds a time that is none.")
    seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
    return seconds * 10**9 + int((match[4] or "").ljust(9, "0"))
