"""The notation in which test vectors write the input of a canonical value, for the conformance runner."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any

from airflow_delta_provider.core import decimals, times
from airflow_delta_provider.core.errors import ValueRangeError, ValueTextError, ValueTypeError, shown
from airflow_delta_provider.core.forms import INFINITIES, INT_BITS_MAX
from airflow_delta_provider.core.jsontext import canonical_json
from airflow_delta_provider.core.keys import encode_component
from airflow_delta_provider.core.types import LogicalType, SchemaType, from_schema

_UUID = re.compile(r"[0-9a-f]{32}")
_INT = re.compile(r"([+-]?)0*([0-9]{1,4000})")


def canonical_scalar(type_schema: SchemaType, notation: Any) -> Any:
    """Return the canonical value of a vector's ``input``; ``type_schema`` is a type as a schema document writes it.

    Notation: ``ieee754:`` and ``ieee754-32:`` bits, ``ns:``, ``days:``, ``months,days,ns:``, ``hex:``, else the text
    itself; JSON arrays and objects for arrays and structs, ``[key, value]`` lists for maps; None is NULL.
    Raises: ValueTypeError, ValueTextError, ValueRangeError, ValueJsonError for what has no canonical value;
    SchemaError for an unknown type.
    """
    return _canonical(from_schema(type_schema), notation)


def _canonical(kind: LogicalType, notation: Any) -> Any:
    if notation is None:
        return None
    if kind.nested:
        return _nested(kind, notation)
    if isinstance(notation, bool) and kind.kind != "bool":
        raise ValueTypeError(f"{shown(notation)} is no {kind.kind}.")
    text = str(notation).lower() if isinstance(notation, bool) else notation
    text = str(text) if isinstance(text, int | float) else text
    if not isinstance(text, str):
        raise ValueTypeError(f"{shown(notation)} is no {kind.kind}.")
    try:
        return _FORMS[kind.kind](text)
    except ValueError as error:
        raise ValueTextError(f"{shown(text)!r} is no notation of {kind.kind}.") from error


def _nested(kind: LogicalType, notation: Any) -> Any:
    if kind.kind == "struct" and isinstance(notation, dict) and set(notation) == {name for name, _ in kind.fields}:
        return [_canonical(part, notation[name]) for name, part in kind.fields]
    if kind.kind == "array" and isinstance(notation, list) and kind.item:
        return [_canonical(kind.item, item) for item in notation]
    if kind.kind == "map" and isinstance(notation, list) and kind.item and kind.map_key:
        pairs = [[_canonical(kind.map_key, key), _canonical(kind.item, item)] for key, item in notation]
        map_key = kind.map_key.kind
        return sorted(pairs, key=lambda pair: encode_component(pair[0], map_key))
    raise ValueTypeError(f"{shown(notation)} is no {kind.text}.")


def _float(text: str) -> float | None:
    """Return the float that ``ieee754`` bits give, or None for another notation."""
    prefix, _, digits = text.partition(":")
    if prefix not in ("ieee754", "ieee754-32"):
        return None
    data = bytes.fromhex(digits)
    if len(data) not in (4, 8) or (prefix == "ieee754-32" and len(data) != 4):
        raise ValueTextError(f"{shown(text)} are not the bits of a float.")
    return float(struct.unpack(">f" if len(data) == 4 else ">d", data)[0])


def _float64(text: str) -> str:
    value = _float(text)
    return decimals.float64_text(_parsed(text) if value is None else value)


def _float32(text: str) -> str:
    value = _float(text)
    return decimals.float32_text(decimals.float32_of(_parsed(text) if value is None else value))


def _parsed(text: str) -> float:
    value = float(decimals.canonical_decimal(text))
    if math.isinf(value) and not text.endswith("Infinity"):
        raise ValueRangeError(f"{shown(text)} is beyond binary64.")
    return value


def _decimal(text: str) -> str:
    value = _float(text)
    return decimals.canonical_decimal(text) if value is None else decimals.decimal_of_float(value)


def _int(text: str) -> str:
    match = _INT.fullmatch(text)
    if match is None:
        raise ValueTextError(f"{shown(text)!r} is no integer.")
    number = int(match[2]) * (-1 if match[1] == "-" else 1)
    if abs(number) >> INT_BITS_MAX:
        raise ValueRangeError(f"{shown(text)} has more than {INT_BITS_MAX} bits.")
    return str(number)


def _bool(text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise ValueTypeError(f"{shown(text)!r} is no bool.")
    return text in ("true", "1")


def _text(text: str) -> Any:
    if text.startswith("hex:"):
        data = bytes.fromhex(text[4:])
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"wtf8": data.hex()}
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"wtf8": text.encode("utf-8", "surrogatepass").hex()}
    return text


def _bytes(text: str) -> str:
    return bytes.fromhex(text.removeprefix("hex:")).hex()


def _uuid(text: str) -> str:
    digits = text.lower().removeprefix("urn:uuid:").strip("{}").replace("-", "")
    if not _UUID.fullmatch(digits):
        raise ValueTextError(f"{shown(text)!r} is no UUID.")
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _counted(prefix: str, form: Callable[[int], str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in INFINITIES:
            return text
        if not text.startswith(prefix):
            raise ValueTextError(f"{shown(text)!r} does not begin with {prefix}.")
        return form(int(text.removeprefix(prefix)))

    return read


def _time(ns: int) -> str:
    if not 0 <= ns <= times.DAY_NS:
        raise ValueRangeError(f"{ns} ns are outside 0 to 24 hours.")
    return times.time_text(ns)


def _interval(text: str) -> str:
    months, days, ns = text.removeprefix("months,days,ns:").split(",")
    return times.interval_text(int(months), int(days), int(ns))


_FORMS: dict[str, Callable[[str], Any]] = {
    "bool": _bool,
    "int": _int,
    "decimal": _decimal,
    "float64": _float64,
    "float32": _float32,
    "text": _text,
    "bytes": _bytes,
    "uuid": _uuid,
    "date": _counted("days:", times.date_text),
    "time": _counted("ns:", _time),
    "timestamp": _counted("ns:", lambda ns: times.timestamp_text(ns, False)),
    "timestamp_tz": _counted("ns:", lambda ns: times.timestamp_text(ns, True)),
    "interval": _interval,
    "json": canonical_json,
    "json_text": lambda text: text,
}
