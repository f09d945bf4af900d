"""Rounding in decimal arithmetic, exact for every carrier of numbers; and the arithmetic that never rounds."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays, decimals
from airflow_delta_provider.core.rules.convert import texts_of
from airflow_delta_provider.core.rules.distinct import mapped
from airflow_delta_provider.core.rules.typed import Typed
from airflow_delta_provider.core.types import LogicalType

ARROW_MODES = {"half_even": "half_to_even", "half_up": "half_towards_infinity", "down": "towards_zero"}
DECIMAL_MODES = {"half_even": ROUND_HALF_EVEN, "half_up": ROUND_HALF_UP, "down": ROUND_DOWN}
EXACT = Context(prec=20_000, traps=[Inexact, InvalidOperation])
"""Decimal arithmetic that never loses a digit: it fails rather than round."""
ROUNDING = Context(prec=20_000, traps=[InvalidOperation])

SURE_MOST = 2.0**40
"""Scaled floats up to here are off by less than 2**-13."""
SURE_MARGIN = 2.0**-10
EXACT_TENS_MAX = 22
"""The greatest power of ten that a float64 holds exactly."""


def rounded(typed: Typed, places: int, mode: str) -> pa.Array:
    """Return numbers rounded to a number of places, which may be negative, as a carrier of decimals.

    ``mode``: ``half_even``, ``half_up`` (away from zero) or ``down`` (towards zero). NaN and infinities stay.
    """
    array = typed.array
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    if pa.types.is_decimal(array.type) and array.type.scale <= places:
        return array
    if pa.types.is_decimal(array.type) and places >= 0 and array.type.precision < 76:
        wide = array.type.precision + 1
        wider = pa.decimal128(wide, array.type.scale) if wide <= 38 else pa.decimal256(wide, array.type.scale)
        return pc.round(array.cast(wider), places, ARROW_MODES[mode])
    if pa.types.is_floating(array.type):
        return _rounded_floats(array, places, mode)
    return mapped(texts_of(typed), lambda text: rounded_text(text, places, mode), pa.string())


def rounded_text(text: str, places: int, mode: str) -> str:
    """Return a canonical decimal text, rounded."""
    return text if text in decimals.SPECIALS else _rounded(Decimal(text), places, mode)


def _rounded(number: Decimal, places: int, mode: str) -> str:
    if -int(number.as_tuple().exponent) > places:
        number = number.quantize(Decimal((0, (1,), -places)), DECIMAL_MODES[mode], ROUNDING)
    return decimals.canonical_decimal(format(number, "f"))


def _float_text(value: float, places: int, mode: str) -> str:
    return _rounded(Decimal(value), places, mode) if value - value == 0 else decimals.decimal_of_float(value)


def _rounded_floats(array: pa.Array, places: int, mode: str) -> pa.Array:
    """Round floats from their exact value: in float arithmetic where the result is certain, else one by one."""
    valid = arrays.valid_mask(array)
    counts, sure = _certain(np.where(valid, arrays.float_values(array), 0).astype(np.float64), places, mode)
    easy = _scaled(counts, valid & sure, max(places, 0))
    rest = arrays.bool_array(valid & ~sure)
    if not pc.any(rest).as_py():
        return easy
    slow = mapped(
        pc.if_else(rest, array, pa.scalar(None, array.type)),
        lambda value: _float_text(value, places, mode),
        pa.string(),
    )
    return pc.coalesce(slow, texts_of(Typed(LogicalType("decimal"), easy)))


def _certain(values: Any, places: int, mode: str) -> tuple[Any, Any]:
    """Return ``values * 10**places`` as whole numbers, and where these are certainly the rounded ones."""
    if not 0 <= places <= EXACT_TENS_MAX:
        return np.zeros(len(values), np.int64), np.zeros(len(values), bool)
    with np.errstate(all="ignore"):
        scaled = values * 10.0**places
        sure = np.abs(scaled) < SURE_MOST
        scaled = np.where(sure, scaled, 0)
        near = np.trunc(scaled) if mode == "down" else np.rint(scaled)
        if mode == "down":
            sure &= np.abs(scaled - np.rint(scaled)) > SURE_MARGIN
        else:
            sure &= np.abs(scaled - near) < 0.5 - SURE_MARGIN
    return near.astype(np.int64), sure


def _scaled(counts: Any, valid: Any, scale: int) -> pa.Array:
    """Return whole numbers divided by ``10**scale`` as decimals."""
    whole = arrays.int64_array(counts).cast(pa.decimal128(38, 0))
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(counts), [mask, whole.buffers()[1]])
