"""Canonical text of decimals and floats (docs/format.md, S2): equal values have exactly one form."""

from __future__ import annotations

import math
import re
import struct
from decimal import Context, Decimal, localcontext

from airflow_delta_provider.core.errors import ValueRangeError, ValueTextError, shown

DECIMAL_DIGITS_MAX = 2000
"""Digit characters in the plain notation of one decimal."""
FLOAT32_DIGITS_MAX = 9
_EXACT = Context(prec=400)
"""Wide enough for sums and halves of binary32 values, whatever context the thread has."""
SPECIALS = ("NaN", "Infinity", "-Infinity")

_NUMBER = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?)0*([0-9]+))?")
_CANONICAL = re.compile(r"0|-?(?:[1-9][0-9]*|(?:0|[1-9][0-9]*)\.[0-9]*[1-9])")
_CANONICAL_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?")


def canonical_decimal(text: str) -> str:
    """Return the canonical text of a decimal number in any notation: sign, digits, one point, an exponent.

    Raises: ValueTextError where the text is no number (blanks and digit separators are none),
    ValueRangeError over ``DECIMAL_DIGITS_MAX`` digits.
    """
    if text in SPECIALS:
        return text
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueTextError(f"{shown(text)!r} is no decimal number.")
    sign, whole, fraction, bare_fraction, exponent_sign, exponent_text = match.groups()
    fraction = fraction or bare_fraction or ""
    digits = (whole or "") + fraction
    if not digits.strip("0"):
        return "0"
    if exponent_text is not None and len(exponent_text) > 18:
        raise ValueRangeError(f"{shown(text)} has more than {DECIMAL_DIGITS_MAX} digits.")
    exponent = int(exponent_text or "0") * (-1 if exponent_sign == "-" else 1)
    return plain(sign == "-", digits, exponent - len(fraction))


def plain(negative: bool, digits: str, exponent: int) -> str:
    """Return the canonical text of ``digits * 10**exponent``; ``digits`` are ASCII digits, zeros anywhere allowed.

    Raises: ValueRangeError over ``DECIMAL_DIGITS_MAX`` digits.
    """
    stripped = digits.lstrip("0").rstrip("0")
    if not stripped:
        return "0"
    exponent += len(digits) - len(digits.rstrip("0"))
    point = len(stripped) + exponent
    size = max(len(stripped), point, 1 + len(stripped) - point)
    if size > DECIMAL_DIGITS_MAX:
        raise ValueRangeError(f"A decimal has more than {DECIMAL_DIGITS_MAX} digits.")
    if exponent >= 0:
        text = stripped + "0" * exponent
    elif point > 0:
        text = f"{stripped[:point]}.{stripped[point:]}"
    else:
        text = f"0.{'0' * -point}{stripped}"
    return "-" + text if negative else text


def is_canonical_decimal(text: str) -> bool:
    """Tell whether a text is the canonical form of a decimal."""
    if text in SPECIALS:
        return True
    return _CANONICAL.fullmatch(text) is not None and sum(map(str.isdigit, text)) <= DECIMAL_DIGITS_MAX


def decimal_parts(text: str) -> tuple[bool, str, int]:
    """Split a canonical finite decimal into sign, digits d1..dk and p, so that it is ``0.d1..dk * 10**p``.

    Neither d1 nor dk is zero; zero itself gives no digits.
    """
    negative = text.startswith("-")
    whole, _, fraction = text.removeprefix("-").partition(".")
    whole = whole.lstrip("0")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) if whole else len(digits) - len(fraction)
    return negative, digits.rstrip("0"), point if digits else 0


def decimal_of_float(value: float) -> str:
    """Return the exact binary value of a float as canonical decimal text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(value).as_tuple()
    return plain(bool(sign), "".join(map(str, digits)), int(exponent))


def float64_text(value: float) -> str:
    """Return ECMAScript's Number::toString of a binary64, with ``-0`` as ``0``."""
    text = repr(value)
    if "e" not in text and "n" not in text:
        return "0" if value == 0 else text.removesuffix(".0")
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return ecmascript_layout(text)


def ecmascript_layout(text: str) -> str:
    """Lay out shortest digits (any notation of a finite number but zero) as ECMAScript does."""
    mantissa, _, exponent = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or "0") - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def float32_of(value: float) -> float:
    """Round a binary64 to binary32 and return it widened; what is too large becomes an infinity."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def float32_text(value: float) -> str:
    """Return the shortest digits that round-trip in binary32, closest first; ``value`` is a binary32, widened.

    Near a power of two the interval of a binary32 is lopsided, so the nearest text of some length may fail
    where its neighbour succeeds: both are tried, in exact arithmetic.
    """
    if value == 0 or math.isnan(value) or math.isinf(value):
        return float64_text(value)
    exact = Decimal(abs(value))
    with localcontext(_EXACT):
        lower, upper, closed = _float32_interval(abs(value))
        for places in range(FLOAT32_DIGITS_MAX):
            unit = exact.adjusted() - places
            count = int(exact.scaleb(-unit))
            candidates = [Decimal(number).scaleb(unit) for number in (count, count + 1)]
            inside = [c for c in candidates if lower < c < upper or (closed and c in (lower, upper))]
            if inside:
                nearest = min(inside, key=lambda c: (abs(c - exact), int(c.scaleb(-unit)) % 2))
                return ecmascript_layout(f"{'-' if value < 0 else ''}{nearest}")
    raise ValueRangeError("A float32 has no text of nine digits.")


def _float32_interval(value: float) -> tuple[Decimal, Decimal, bool]:
    """Return the bounds of the reals that round to a positive binary32, and whether the bounds belong to it (under ``_EXACT``)."""
    bits = int.from_bytes(struct.pack(">f", value), "big")
    below = Decimal(struct.unpack(">f", (bits - 1).to_bytes(4, "big"))[0])
    largest = bits == 0x7F7FFFFF
    above = Decimal(2) ** 128 if largest else Decimal(struct.unpack(">f", (bits + 1).to_bytes(4, "big"))[0])
    exact = Decimal(value)
    return (below + exact) / 2, (exact + above) / 2, bits % 2 == 0


def parse_float(text: str, bits: int) -> float | None:
    """Return the binary32 (widened) or binary64 whose canonical text this is, or None where it is not canonical."""
    if text in SPECIALS:
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[text]
    if len(text) > 32 or _CANONICAL_FLOAT.fullmatch(text) is None:
        return None
    value = float(text)
    if bits == 64:
        return value if float64_text(value) == text else None
    near = float32_of(value)
    for candidate in (near, _float32_next(near, 1), _float32_next(near, -1)):
        if math.isfinite(candidate) and float32_text(candidate) == text:
            return candidate
    return None


def _float32_next(value: float, step: int) -> float:
    if math.isinf(value):
        return math.copysign(struct.unpack(">f", b"\x7f\x7f\xff\xff")[0], value) if step < 0 else value
    bits = int.from_bytes(struct.pack(">f", value), "big") + step
    return float(struct.unpack(">f", (bits % 2**32).to_bytes(4, "big"))[0])
