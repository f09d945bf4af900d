"""Text normalisation under one Unicode version, whatever version the running Python has.

The pinned version is 14.0, the oldest that a supported Python has. Unicode guarantees that what a version assigned
never normalises or folds otherwise in a later one; what came later counts here as not assigned: it stays as it is,
composes with nothing and does not move, so a text is cut there and its parts are treated apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.rules import assigned
from airflow_delta_provider.core.rules.distinct import mapped

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""The code points with the property White_Space, which ``strip`` removes from both ends."""


def normalized(array: pa.Array, steps: Sequence[str]) -> pa.Array:
    """Return texts after the steps, in the order given.

    ``array``: string, large_string, or binary where some value is not valid Unicode; the type is kept. Bytes that
    are not even Unicode with lone surrogates pass ``nfc``, ``nfkc``, ``casefold`` and ``strip`` unchanged.
    """
    for step in steps:
        array = _bytes_step(array, step) if _is_binary(array.type) else _text_step(array, step)
    return array


def _text_step(array: pa.Array, step: str) -> pa.Array:
    if step == "rstrip_blanks":
        return pc.ascii_rtrim(array, " ")
    if step == "strip":
        return pc.utf8_trim(array, WHITE_SPACE)
    if step == "nul_as_blank":
        return pc.replace_substring(array, "\x00", " ")
    ascii_only = pc.fill_null(pc.string_is_ascii(array), True)
    simple = pc.ascii_lower(array) if step == "casefold" else array
    if pc.all(ascii_only).as_py() is not False:
        return simple
    rest = pc.if_else(ascii_only, pa.scalar(None, array.type), array)
    return pc.if_else(ascii_only, simple, mapped(rest, _STEPS[step], array.type))


def _bytes_step(array: pa.Array, step: str) -> pa.Array:
    if step == "rstrip_blanks":
        return mapped(array, lambda value: value.rstrip(b" "), array.type)
    if step == "nul_as_blank":
        return mapped(array, lambda value: value.replace(b"\x00", b" "), array.type)
    return mapped(array, lambda value: _with_surrogates(value, _STEPS[step]), array.type)


def _with_surrogates(value: bytes, step: Callable[[str], str]) -> bytes:
    try:
        return step(value.decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return value


def _is_binary(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def _pinned(text: str, treat: Callable[[str], str]) -> str:
    pieces = _newer().split(text)
    return (
        treat(text) if len(pieces) == 1 else "".join(piece if i % 2 else treat(piece) for i, piece in enumerate(pieces))
    )


@cache
def _newer() -> re.Pattern[str]:
    """Return a pattern of one code point that the pinned version does not assign, as a group."""
    place, parts = 0, []
    for lower, upper in [*assigned.assigned_runs(), (0x110000, 0x110000)]:
        if place < lower:
            parts.append(f"{re.escape(chr(place))}-{re.escape(chr(lower - 1))}")
        place = upper
    return re.compile(f"([{''.join(parts)}])")


def _form(name: Any) -> Callable[[str], str]:
    return lambda text: _pinned(text, lambda piece: unicodedata.normalize(name, piece))


_STEPS: dict[str, Callable[[str], str]] = {
    "nfc": _form("NFC"),
    "nfkc": _form("NFKC"),
    "casefold": lambda text: _pinned(text, str.casefold),
    "strip": lambda text: text.strip(WHITE_SPACE),
}
STEPS = ("nfc", "nfkc", "casefold", "rstrip_blanks", "strip", "nul_as_blank")
