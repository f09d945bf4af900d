"""From a recorded value to what a column stores: exactly, or not at all (docs/format.md, S10)."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core import decimals, rules
from airflow_delta_provider.core.errors import DeltaError, ValueLossyError
from airflow_delta_provider.core.forms import canonical_ok, native
from airflow_delta_provider.core.recorded import canonical
from airflow_delta_provider.core.rules import zones
from airflow_delta_provider.core.rules.fit import has_midnight, recorded_length
from airflow_delta_provider.core.rules.parse_bytes import MIXED_ENDIAN
from airflow_delta_provider.core.times import DAY_NS, NS, timestamp_text
from airflow_delta_provider.core.types import LogicalType

Rule = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def reads_otherwise(chain: Sequence[Rule], stored: LogicalType, schema: LogicalType) -> bool:
    """Tell whether the recorded value of a column may hide what is stored: some rule stands before it."""
    return recorded_length(chain) > 0 or (has_midnight(chain) and stored.kind != schema.kind)


def stored_value(value: Any, schema: LogicalType, stored: LogicalType, chain: Sequence[Rule], side: str) -> Any:
    """Return the canonical value that a column of type ``stored`` has to hold so that it is recorded as ``value``.

    Raises: ValueLossyError (DELTA_VALUE_LOSSY) where there is none that the column can hold.
    """
    if value is None and not reads_otherwise(chain, stored, schema):
        return None
    if not reads_otherwise(chain, stored, schema):
        return within(_narrowed(value, schema, stored), stored)
    for candidate in _candidates(value, stored, chain, side):
        try:
            if recorded_as(within(candidate, stored), schema, stored, chain, side) == value:
                return candidate
        except (DeltaError, rules.UnparsedValue):
            continue
    raise ValueLossyError(f"A {stored.text} column holds no value that is read as this {schema.text}.")


def stored_key(value: Any, schema: LogicalType, stored: LogicalType, chain: Sequence[Rule], side: str) -> Any:
    """Return the canonical value that a key column has to hold so that its key, after all rules, is ``value``.

    Raises: ValueLossyError (DELTA_VALUE_LOSSY) where there is none.
    """
    if not chain:
        return within(_narrowed(value, schema, stored), stored)
    for candidate in _candidates(value, stored, chain, side):
        try:
            typed = rules.Typed(stored, carried(within(candidate, stored), stored), None)
            typed = rules.apply_key_rules(list(chain), typed, side)
            if canonical(typed, schema)[0] == value:
                return candidate
        except (DeltaError, rules.UnparsedValue):
            continue
    raise ValueLossyError(f"A {stored.text} key column holds no value that is read as this {schema.text}.")


def recorded_as(value: Any, schema: LogicalType, stored: LogicalType, chain: Sequence[Rule], side: str) -> Any:
    """Return the canonical recorded value of one stored value. Raises: UnparsedValue and the errors of values."""
    typed = rules.recorded(list(chain), rules.Typed(stored, carried(value, stored), None), side)
    return canonical(typed, schema)[0]


def carried(value: Any, stored: LogicalType) -> pa.Array:
    """Return a canonical scalar value as a carrier of one row. Raises: ValueLossyError for a nested type."""
    if value is None:
        return pa.array([None], pa.string()).cast(pa.string()) if stored.kind == "text" else _null(stored)
    if stored.kind == "text" and isinstance(value, dict):
        return pa.array([bytes.fromhex(value["wtf8"])], pa.binary())
    if stored.kind == "bool":
        return pa.array([value], pa.bool_())
    if stored.nested:
        raise ValueLossyError(f"A {stored.text} is not written through a rule.")
    text = value.removesuffix("Z") + "Z" if stored.kind == "timestamp_tz" and value[-1].isdigit() else value
    array, bad = rules.parse_text(pa.array([text], pa.string()), stored)
    if bad[0].as_py():
        raise ValueLossyError(f"A value is no {stored.kind}.")
    return array


def _null(stored: LogicalType) -> pa.Array:
    array, _ = rules.parse_text(pa.array([None], pa.string()), stored)
    return array


def within(value: Any, stored: LogicalType) -> Any:
    """Return a canonical value that a column with these bounds can hold.

    Raises: ValueLossyError (DELTA_VALUE_LOSSY) where it cannot, by the bounds that its engine declares.
    """
    if value is None or stored.nested:
        return value
    if not canonical_ok(value, LogicalType(stored.kind)):
        raise ValueLossyError(f"A value is no {stored.kind}.")
    if not _inside(value, stored):
        raise ValueLossyError(f"A {stored.text} column cannot hold the value exactly.")
    return value


def _inside(value: Any, stored: LogicalType) -> bool:
    if stored.kind == "int" and stored.bits is not None:
        lower, upper = (0, 1 << stored.bits) if stored.unsigned else (-(1 << stored.bits - 1), 1 << stored.bits - 1)
        return lower <= int(value) < upper
    if stored.kind == "decimal" and stored.precision is not None:
        return _decimal_inside(value, stored.precision, stored.scale or 0)
    if stored.kind == "text" and stored.length is not None:
        return isinstance(value, dict) or len(value) <= stored.length
    if stored.kind == "bytes" and stored.length is not None:
        return len(value) // 2 <= stored.length
    if stored.kind in ("time", "timestamp", "timestamp_tz") and stored.digits is not None:
        return len(value.partition(".")[2].rstrip("Z")) <= stored.digits
    return True


def _decimal_inside(value: str, precision: int, scale: int) -> bool:
    if value in decimals.SPECIALS:
        return value == "NaN"
    whole, _, fraction = value.lstrip("-").partition(".")
    return len(fraction) <= scale and len(whole.lstrip("0")) <= precision - scale


def _narrowed(value: Any, schema: LogicalType, stored: LogicalType) -> Any:
    """Return a value of the pair's type as one of the side's own type, which holds fewer values."""
    if value is None or schema.kind == stored.kind:
        return _narrowed_parts(value, schema, stored) if value is not None and schema.nested else value
    if (schema.kind, stored.kind) == ("decimal", "int"):
        if value in decimals.SPECIALS or "." in value:
            raise ValueLossyError("An int column cannot hold the value exactly.")
        return value
    if stored.kind in ("float32", "float64") and schema.kind in ("decimal", "float64"):
        return _as_float(value, schema, stored)
    raise ValueLossyError(f"A {stored.text} column holds no {schema.text}.")


def _narrowed_parts(value: Any, schema: LogicalType, stored: LogicalType) -> Any:
    if schema.kind == "array" and schema.item and stored.item:
        return [within(_narrowed(part, schema.item, stored.item), stored.item) for part in value]
    if schema.schema == stored.schema:
        return value
    raise ValueLossyError(f"A {stored.text} column holds no {schema.text}.")


def _as_float(value: str, schema: LogicalType, stored: LogicalType) -> str:
    if value in decimals.SPECIALS:
        return value
    number = float(value) if schema.kind == "decimal" else native(value, schema.kind)
    single = stored.kind == "float32"
    held = decimals.float32_of(number) if single else number
    exact = decimals.decimal_of_float(held) == value if schema.kind == "decimal" else held == number
    if held - held != 0 or not exact:
        raise ValueLossyError(f"A {stored.kind} column cannot hold the value exactly.")
    return decimals.float32_text(held) if single else decimals.float64_text(held)


def _candidates(value: Any, stored: LogicalType, chain: Sequence[Rule], side: str) -> Iterator[Any]:
    """Yield stored values that may be read as ``value``; the caller tries each."""
    if isinstance(value, dict) and "unparsed" in value:
        yield value["unparsed"]
        return
    yield value
    if value is None or isinstance(value, dict):
        yield from _null_texts(chain, side)
        return
    reads = [rule for rule in chain if rule["rule"] == "read_as" and rule.get("side", "both") in ("both", side)]
    for rule in reversed(reads):
        yield from _unread(value, stored, rule)
    if isinstance(value, str):
        yield value.partition("T")[0]
        yield f"{value}T00:00:00"
        yield value.replace("T", " ")
    elif isinstance(value, bool):
        yield "1" if value else "0"
        yield "true" if value else "false"
        yield "01" if value else "00"


def _null_texts(chain: Sequence[Rule], side: str) -> Iterator[Any]:
    for rule in chain:
        if rule["rule"] == "null_equals" and isinstance(rule["values"], list):
            yield from rule["values"]


def _unread(value: Any, stored: LogicalType, rule: Rule) -> Iterator[Any]:
    if isinstance(value, bool):
        yield from rule.get("true_values" if value else "false_values") or ()
    if rule["type"] == "bytes" and rule.get("encoding") == "base64" and isinstance(value, str):
        yield base64.b64encode(bytes.fromhex(value)).decode()
    if rule["type"] == "uuid" and isinstance(value, str):
        data = bytes.fromhex(value.replace("-", ""))
        if rule.get("layout") == "mixed_endian":
            data = bytes(data[place] for place in MIXED_ENDIAN)
        yield data.hex()
    if rule["type"] == "timestamp_tz" and rule.get("zone") and isinstance(value, str):
        wall = _wall_clock(value, str(rule["zone"]))
        if wall is not None:
            yield wall
            yield wall.replace("T", " ")


def _wall_clock(value: str, zone: str) -> str | None:
    """Return the wall clock of an instant in a zone, or None where Python's calendar has no such day."""
    ns = native(value, "timestamp_tz")
    if not isinstance(ns, int):
        return None
    try:
        offset = (_EPOCH + timedelta(seconds=ns // NS)).astimezone(zones.zone_of(zone)).utcoffset()
    except (OverflowError, ValueError):
        return None
    moved = ns + (round(offset.total_seconds()) * NS if offset else 0)
    return timestamp_text(moved, False) if abs(moved) < 10**7 * DAY_NS else None
