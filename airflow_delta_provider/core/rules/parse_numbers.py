"""Read texts as numbers: exact ints to 128 bits, decimals to 2,000 digits, correctly rounded floats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.decimals import DECIMAL_DIGITS_MAX, SPECIALS, canonical_decimal
from airflow_delta_provider.core.errors import ValueRangeError, ValueTextError
from airflow_delta_provider.core.rules.distinct import mapped, per_distinct
from airflow_delta_provider.core.types import LogicalType

INT_MIN, INT_MAX = -(2**127), 2**128 - 1
"""What 128 bits hold, signed or unsigned."""
FAST_CHARS_MAX = 18
"""Texts up to this length always fit int64."""
WIDE_INT = pa.decimal256(39, 0)

_INT = r"^[+-]?[0-9]+$"
_PLAIN = r"^[+-]?[0-9]+(\.[0-9]+)?$"
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIAL = r"^([nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
_SPECIALS = re.compile(_SPECIAL[:-1] + r"\Z")


def ints(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read ints: an optional sign and digits.

    Carrier: int64, or uint64 for an unsigned type of 64 bits; where a value does not fit, or the type has more than
    64 bits, decimal256(39, 0).
    """
    unsigned = type.unsigned and type.bits == 64
    wide = type.bits is not None and type.bits > 64
    narrow = WIDE_INT if wide else pa.uint64() if unsigned else pa.int64()
    kept = _kept(values, pc.match_substring_regex(values, _INT))
    kept = pc.replace_substring_regex(kept, r"^\+", "")
    if (pc.max(pc.binary_length(kept)).as_py() or 0) <= FAST_CHARS_MAX:
        small = kept.cast(pa.int64())
        if not unsigned or (pc.min(small).as_py() or 0) >= 0:
            return small.cast(narrow)
    results, indices = per_distinct(kept, _int)
    return pa.array(results, _int_carrier(results, narrow)).take(indices)


def _int(text: str) -> int | None:
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 39:
        return None
    value = -int(digits) if text.startswith("-") else int(digits)
    return value if INT_MIN <= value <= INT_MAX else None


def _int_carrier(results: list[int | None], narrow: pa.DataType) -> pa.DataType:
    lower, upper = (0, 2**64 - 1) if narrow == pa.uint64() else (-(2**63), 2**63 - 1)
    fits = all(value is None or lower <= value <= upper for value in results)
    return narrow if fits else WIDE_INT


def floats(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read floats, correctly rounded to the type's width; a finite text beyond its range is bad."""
    arrow = pa.float32() if type.kind == "float32" else pa.float64()
    special = pc.match_substring_regex(values, _SPECIAL)
    carrier = _kept(values, pc.or_(special, pc.match_substring_regex(values, _NUMBER))).cast(arrow)
    beyond = pc.and_not(pc.is_inf(carrier), special)
    return pc.if_else(beyond, pa.scalar(None, arrow), carrier)


def decimals(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read decimals, with or without exponent, as canonical decimal texts (the string carrier)."""
    plain = pc.match_substring_regex(values, _PLAIN)
    short = pc.less_equal(pc.binary_length(values), DECIMAL_DIGITS_MAX)
    easy = pc.fill_null(pc.and_(plain, short), True)
    canonical = trim_decimal(_kept(values, easy))
    if pc.all(easy).as_py() is not False:
        return canonical
    return pc.if_else(easy, canonical, mapped(_kept(values, pc.invert(easy)), decimal_text, values.type))


def trim_decimal(plain: pa.Array) -> pa.Array:
    """Return the canonical form of texts that are plain decimals (sign, digits, optional point and digits)."""
    text = pc.if_else(pc.match_substring(plain, "."), pc.ascii_rtrim(pc.ascii_rtrim(plain, "0"), "."), plain)
    if pc.any(pc.match_substring_regex(text, r"^(\+|-?0[0-9])")).as_py():
        text = pc.replace_substring_regex(text, r"^(-?)\+?0*([0-9])", r"\1\2")
    return pc.if_else(pc.equal(text, "-0"), "0", text)


def decimal_text(text: str) -> str | None:
    """Return the canonical decimal text (S2) of one number's text, or None where it is no decimal of 2,000 digits."""
    if _SPECIALS.match(text):
        return "NaN" if text.lower() == "nan" else "-Infinity" if text.startswith("-") else "Infinity"
    return finite_text(text)


def finite_text(text: str) -> str | None:
    """The same for finite numbers only."""
    if text in SPECIALS:
        return None
    try:
        return canonical_decimal(text)
    except (ValueTextError, ValueRangeError):
        return None


def _kept(values: pa.Array, keep: pa.Array) -> pa.Array:
    return pc.if_else(keep, values, pa.scalar(None, values.type))
