"""Canonical JSON of everything that is hashed (docs/format.md, S1): a small profile in which RFC 8785 is plain."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from airflow_delta_provider.core.errors import (
    JsonDomainError,
    JsonNotCanonicalError,
    JsonSyntaxError,
    LimitError,
    shown,
)
from airflow_delta_provider.core.jsontext import bracket_depth

INTEGER_MAX = 2**53 - 1
DEPTH_MAX = 128
"""Arrays and objects inside each other in one document or record."""
DOCUMENT_BYTES_MAX = 64 * 1024 * 1024
STATEMENT_NAMES = frozenset(("_type", "predicateType"))

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def dumps(value: Any) -> bytes:
    """Return the canonical JSON of dicts, lists, texts, bools, None and integers within 2^53.

    Raises: JsonDomainError for anything else and for member names outside ``[a-z][a-z0-9_]*``, LimitError over
    ``DEPTH_MAX`` levels.
    """
    check_domain(value)
    return dumps_checked(value)


def dumps_checked(value: Any) -> bytes:
    """Return the canonical JSON of a value that the caller built from parts inside the profile; names and floats pass.

    Raises: JsonDomainError for what has no JSON form.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise JsonDomainError(f"A value has no canonical JSON: {shown(error)}.") from error


def loads(data: bytes, *, bytes_max: int = DOCUMENT_BYTES_MAX) -> Any:
    """Return what canonical JSON bytes hold.

    Raises: LimitError over ``bytes_max`` bytes or ``DEPTH_MAX`` levels, JsonSyntaxError for what does not parse,
    JsonDomainError for values outside the profile, JsonNotCanonicalError for other bytes than its own serialisation.
    """
    if len(data) > bytes_max:
        raise LimitError(f"JSON of {len(data)} bytes is over the limit of {bytes_max}.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        value = _loads_slowly(bytes(data), str(error))
    check_domain(value)
    if dumps_checked(value) != data:
        raise JsonNotCanonicalError("JSON differs from its canonical serialisation.")
    return value


def _loads_slowly(data: bytes, reason: str) -> Any:
    """Parse what the fast parser refused, to tell bad syntax from values outside the profile (a lone surrogate, 1e999)."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise JsonSyntaxError("JSON is not valid UTF-8.") from error
    if bracket_depth(text) > DEPTH_MAX:
        raise LimitError(f"JSON has more than {DEPTH_MAX} levels.")
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        raise JsonSyntaxError(f"JSON does not parse: {shown(reason)}.") from error


def _refuse(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_float=lambda _: 0.5, parse_int=lambda text: int(text[:40]), parse_constant=_refuse)


def check_domain(value: Any, depth: int = 0) -> None:
    """Refuse values outside the profile of S1.

    Raises: JsonDomainError, LimitError over ``DEPTH_MAX`` levels.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_text(value)
    elif kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:
            raise JsonDomainError(f"The integer {shown(value)} is beyond 2^53-1.")
    elif kind is list or kind is tuple:
        _check_depth(depth)
        for item in value:
            check_domain(item, depth + 1)
    elif kind is dict:
        _check_depth(depth)
        for name, item in value.items():
            _check_name(name)
            check_domain(item, depth + 1)
    elif value is not None and kind is not bool:
        raise JsonDomainError(f"A value of type {kind.__name__} is outside the profile.")


def _check_depth(depth: int) -> None:
    if depth >= DEPTH_MAX:
        raise LimitError(f"JSON has more than {DEPTH_MAX} levels.")


def _check_name(name: Any) -> None:
    if type(name) is not str or not (_NAME.fullmatch(name) or name in STATEMENT_NAMES):
        raise JsonDomainError(f"{shown(name)!r} cannot be a member name.")


def _check_text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise JsonDomainError("A string is not valid Unicode.") from error
