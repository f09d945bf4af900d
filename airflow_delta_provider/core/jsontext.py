"""The canonical form of JSON that users stored (docs/format.md, S2, ``json``): any number, repeated members allowed."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from airflow_delta_provider.core.decimals import canonical_decimal
from airflow_delta_provider.core.errors import ValueJsonError, shown

JSON_DEPTH_MAX = 256
"""Arrays and objects inside each other in one JSON value."""
FEW_BRACKETS = 64
"""So few that no limit on depth can be passed."""
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class _Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class _Constant(ValueError):
    pass


def _refuse_constant(name: str) -> Any:
    raise _Constant(name)


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_refuse_constant)


def canonical_json(text: str) -> str:
    """Return the canonical text of a JSON value.

    Members stand in the order of their names' UTF-8 bytes, the last of repeated ones wins; no white space; strings
    escaped as in RFC 8785; numbers as canonical decimals, so ``1.0``, ``1`` and ``10e-1`` are one text.
    Raises: ValueJsonError for anything but strict JSON, lone surrogates and over ``JSON_DEPTH_MAX`` levels,
    ValueRangeError for a number of over 2,000 digits.
    """
    if bracket_depth(text) > JSON_DEPTH_MAX:
        raise ValueJsonError(f"JSON has more than {JSON_DEPTH_MAX} levels: {shown(text)!r}.")
    try:
        value = _DECODER.decode(text)
    except ValueError as error:
        raise ValueJsonError(f"{shown(text)!r} is not JSON.") from error
    parts: list[str] = []
    try:
        _write(value, parts.append)
    except TypeError as error:
        raise ValueJsonError(f"{shown(text)!r} holds a lone surrogate.") from error
    return "".join(parts)


def bracket_depth(text: str) -> int:
    """Return how deep arrays and objects nest in a JSON text; where it holds few brackets, their number."""
    bound = text.count("[") + text.count("{")
    if bound <= FEW_BRACKETS:
        return bound
    depth = deepest = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in "]}":
            depth -= 1
    return deepest


def _write(value: Any, write: Any) -> None:
    """Write one parsed value; TypeError from the string encoder means a lone surrogate."""
    if isinstance(value, _Number):
        write(canonical_decimal(value))
    elif isinstance(value, str):
        write(orjson.dumps(value).decode())
    elif isinstance(value, dict):
        mark = "{"
        for name in sorted(value):
            write(mark)
            write(orjson.dumps(name).decode())
            write(":")
            _write(value[name], write)
            mark = ","
        write("}" if value else "{}")
    elif isinstance(value, list):
        mark = "["
        for item in value:
            write(mark)
            _write(item, write)
            mark = ","
        write("]" if value else "[]")
    else:
        write("null" if value is None else "true" if value else "false")
