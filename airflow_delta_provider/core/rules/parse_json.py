"""Read JSON texts as canonical JSON: members in byte order, no white space, numbers by exact value (S2)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core.rules.distinct import mapped
from airflow_delta_provider.core.rules.parse_numbers import finite_text
from airflow_delta_provider.core.types import LogicalType

DEPTH_MAX = 200
"""Arrays and objects within each other; fixed here, since Python's own bound differs between releases."""

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


class _Number(str):
    """The canonical decimal text of a JSON number."""


def documents(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read strict JSON (RFC 8259); the last of repeated members wins, a lone surrogate is bad."""
    return mapped(values, canonical_json, values.type)


def canonical_json(text: str) -> str | None:
    """Return the canonical JSON text of one document, or None where it is not JSON that can be canonicalised."""
    if _depth(text) > DEPTH_MAX:
        return None
    try:
        canonical = _written(_DECODER.decode(text))
        canonical.encode("utf-8")
    except ValueError:
        return None
    return canonical


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _number(text: str) -> _Number:
    plain = finite_text(text)
    if plain is None:
        raise ValueError("A number has more than 2,000 digits.")
    return _Number(plain)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON.")


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        members = (f"{_quoted(name)}:{_written(value[name])}" for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_constant)
