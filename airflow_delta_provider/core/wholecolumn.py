"""Recorded values judged a column at a time, by Arrow: certain where every value is plainly canonical (docs/format.md, S2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.rowtext import json_texts
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.valueform import CLEAR, ValueForm
from airflow_delta_provider.core.values import surely_inlined_chars

DECIMAL_CHARS = 100
"""Longer decimals are looked at one by one."""
_NONE = type(None)
_TEXT = pa.large_string()
_DECIMAL = r"^(?:0|-?(?:[1-9][0-9]*(?:\.[0-9]*[1-9])?|0\.[0-9]*[1-9]))$"
_UUID = r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_HEX = r"^(?:[0-9a-f]{2})*$"


def surely_good(form: ValueForm, values: Sequence[Any]) -> bool:
    """Tell whether all values have the form; what is not certain of the whole is asked of each."""
    if form.form == CLEAR and len(form.types) == 1 and _plain(form.types[0].kind, values, form.inline_limit):
        return True
    return all(form.problem(value) is None for value in values)


def _plain(kind: str, values: Sequence[Any], inline_limit: int) -> bool:
    found = set(map(type, values))
    if found <= {bool, _NONE}:
        return kind == "bool" or bool not in found
    check = _CHECKS.get(kind)
    if check is None or not found <= {str, _NONE}:
        return False
    texts = [value for value in values if value is not None]
    if max(map(len, texts)) > surely_inlined_chars(inline_limit):
        return False
    try:
        return check(texts)
    except pa.ArrowInvalid:
        return False


def _written(carrier: pa.DataType, kind: str) -> Callable[[list[str]], bool]:
    """Return a check: texts that Arrow reads, and writes again as canonical JSON does, are canonical."""
    logical = LogicalType(kind)

    def check(texts: list[str]) -> bool:
        given = pa.array(texts, _TEXT)
        made = json_texts(pc.cast(given, carrier), logical, logical, 2**31)
        if made is None or made.doubtful is not None:
            return False
        quote = pa.scalar('"', _TEXT)
        quoted = pc.binary_join_element_wise(quote, given, quote, pa.scalar("", _TEXT))
        return bool(quoted.cast(pa.large_binary()).equals(made.array))

    return check


def _matching(pattern: str, chars_max: int = 2**31) -> Callable[[list[str]], bool]:
    def check(texts: list[str]) -> bool:
        if max(map(len, texts)) > chars_max:
            return False
        return bool(pc.all(pc.match_substring_regex(pa.array(texts, _TEXT), pattern)).as_py())

    return check


def _any(texts: list[str]) -> bool:
    """A text that came out of JSON is valid Unicode."""
    return True


_CHECKS: dict[str, Callable[[list[str]], bool]] = {
    "int": _written(pa.int64(), "int"),
    "decimal": _matching(_DECIMAL, DECIMAL_CHARS),
    "float64": _written(pa.float64(), "float64"),
    "text": _any,
    "uuid": _matching(_UUID),
    "bytes": _matching(_HEX),
    "date": _written(pa.date32(), "date"),
    "timestamp": _written(pa.timestamp("us"), "timestamp"),
    "timestamp_tz": _written(pa.timestamp("us", "UTC"), "timestamp_tz"),
}
