"""Key ranges as SQL: a predicate that keeps every row of a half-open range of key bytes, and few others."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from airflow_delta_provider.adapters.dialects.base import Bound, Dialect, ReadColumn
from airflow_delta_provider.adapters.dialects.statement import Statement, joined, sql
from airflow_delta_provider.core.decimals import float32_of
from airflow_delta_provider.core.keys import decode_prefix
from airflow_delta_provider.core.times import parse_date, parse_time, parse_timestamp
from airflow_delta_provider.core.types import NUMBERS, LogicalType


def sortable(column: ReadColumn, key_type: LogicalType) -> bool:
    """Tell whether the order of a column in its engine is the order of a key of this canonical type.

    Numbers of two types order alike, because both orders are by exact value; only where a key is rounded to a float
    could several values become one. A key whose type a rule changed (text read as a number) has another order.
    """
    if not column.sort or column.column.type is None:
        return False
    kind, wanted = column.column.type.kind, key_type.kind
    if kind == wanted or (kind, wanted) == ("float32", "float64"):
        return True
    return kind in NUMBERS and wanted in ("int", "decimal")


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


def range_is_exact(
    dialect: Dialect,
    key: tuple[ReadColumn, ...],
    key_types: tuple[LogicalType, ...],
    lower: bytes | None,
    upper: bytes | None,
) -> bool:
    """Tell whether ``range_predicate`` is true for the rows of the range alone."""
    return all(
        _components(dialect, key, key_types, bound, is_upper)[1]
        for bound, is_upper in ((lower, False), (upper, True))
        if bound is not None
    )


Component = Bound | None
"""One component of a bound: None stands for NULL."""


def _components(
    dialect: Dialect, key: tuple[ReadColumn, ...], key_types: tuple[LogicalType, ...], bound: bytes, upward: bool
) -> tuple[list[Component], bool]:
    """Return the leading components that the engine can compare, and whether they are the whole bound, exactly."""
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
        operand = dialect.bound(column, native, upward) if native is not None else None
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
    The value is None where there is no such form.
    """
    if kind in NUMBERS:
        return _number(value, key_kind, kind, upward)
    if kind in ("bool", "text", "uuid"):
        return value, True
    if kind == "bytes":
        return bytes.fromhex(value), True
    if kind == "date":
        return parse_date(value), True
    if kind == "time":
        return parse_time(value), True
    if kind in ("timestamp", "timestamp_tz"):
        return parse_timestamp(value, kind == "timestamp_tz"), True
    return None, False


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
    return Decimal(float32_of(float(text)) if key_kind == "float32" else text)
