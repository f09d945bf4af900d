"""Numbers of base 10,000 digits to ``decimal128`` or to canonical decimal text, without reading them as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.pgcopy.cells import Cells, Ints, Mask, fixed, gather, slices, validity, variable

GROUPS_MAX = 20
"""Groups of four digits before and behind the point that are rendered in vectors; longer numbers are rare."""
INT64_DIGITS = 18
DECIMAL128_DIGITS = 38
NEGATIVE = 0x4000
SPECIALS = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_TEN = 10 ** np.arange(19, dtype=np.int64)
_LIMB = np.uint64(10**16)
_HEADER = np.dtype([("count", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("shown", ">i2")])
_FOUR = np.frombuffer("".join(f"{n:04d}" for n in range(10_000)).encode(), np.uint32)
"""Four digits of text for each group, as one 32-bit item."""


def decimal_carrier(precision: int | None, scale: int | None) -> tuple[int, int] | None:
    """Return precision and scale of the ``decimal128`` that holds every number of these bounds, or None for text."""
    if precision is None or scale is None:
        return None
    digits, places = max(precision - min(scale, 0), scale), max(scale, 0)
    return (digits, places) if digits <= DECIMAL128_DIGITS else None


def numeric_array(cells: Cells, precision: int | None, scale: int | None) -> pa.Array:
    """Return ``decimal128`` where the declared bounds allow it and no value is NaN, else canonical decimal text."""
    head = gather(cells.raw, cells.at, _HEADER)
    count, weight = head["count"].astype(np.int64), head["weight"].astype(np.int64)
    sign = head["sign"].astype(np.int64)
    if cells.valid is not None:
        count[~cells.valid] = weight[~cells.valid] = sign[~cells.valid] = 0
    carrier = decimal_carrier(precision, scale)
    if carrier is not None and not (sign & 0x8000).any():
        exact = _decimal(cells, count, weight, sign != 0, *carrier)
        if exact is not None:
            return exact
    return _text(cells, count, weight, sign)


def _digits(cells: Cells, count: Ints, width: int, rows: Any = slice(None)) -> Ints:
    """Return the first ``width`` groups of each number as a matrix, zero behind its last."""
    at = cells.at[rows] + 8
    if len(cells.raw) < 8 + 2 * width:
        return np.zeros((len(at), width), np.int64)
    at = np.minimum(at, len(cells.raw) - 2 * width)
    found: Any = gather(cells.raw, at, f"V{2 * width}").view(">i2").reshape(len(at), width).astype(np.int64)
    found[np.arange(width)[None, :] >= count[rows][:, None]] = 0
    return found  # type: ignore[no-any-return]  # numpy's view of bytes as numbers has no static type


def _decimal(cells: Cells, count: Ints, weight: Ints, negative: Mask, digits: int, places: int) -> pa.Array | None:
    width = int(count.max(initial=0))
    groups_below = -(-places // 4)
    if width > 16 or int(weight.max(initial=0)) >= 11 or int((count - weight).max(initial=0)) - 1 > groups_below:
        return None
    spare = 4 * groups_below - places
    kind = pa.decimal128(digits, places)
    if not width:
        return fixed(kind, np.zeros((len(cells), 2), np.int64), cells.valid)
    found = _digits(cells, count, width)
    if digits <= INT64_DIGITS:
        return _narrow(kind, found, weight, negative, spare, places, cells.valid)
    return _wide(kind, found, weight, negative, spare, groups_below, cells.valid)


def _narrow(
    kind: Any, found: Ints, weight: Ints, negative: Mask, spare: int, places: int, valid: Mask | None
) -> pa.Array | None:
    total = np.zeros(len(found), np.int64)
    power = 4 * weight + places
    for column in range(found.shape[1]):
        group = found[:, column]
        total += (
            group * _TEN[np.clip(power, 0, 18)]
            if not spare
            else np.where(power >= 0, group * _TEN[np.clip(power, 0, 18)], 0)
        )
        if spare:
            part = np.where(power == -spare, group, 0)
            if (part % 10**spare).any():
                return None
            total += part // 10**spare
        power -= 4
    np.negative(total, out=total, where=negative)
    pair = np.empty((len(total), 2), np.int64)
    pair[:, 0] = total
    np.right_shift(total, 63, out=pair[:, 1])
    return fixed(kind, pair, valid)


def _wide(
    kind: Any, found: Ints, weight: Ints, negative: Mask, spare: int, below: int, valid: Mask | None
) -> pa.Array | None:
    """Three limbs of 16 digits, shifted by the spare digits of the last group, then joined in 128 bits."""
    rows = np.arange(len(found))
    groups = np.zeros((len(found), 12), np.int64)
    for column in range(found.shape[1]):
        place = weight - column + below
        inside = (place >= 0) & (place < 12)
        groups[rows[inside], place[inside]] = found[inside, column]
    low, middle, high = ((groups[:, 4 * n : 4 * n + 4] * _TEN[[0, 4, 8, 12]]).sum(axis=1) for n in range(3))
    if spare:
        cut = 10**spare
        if (low % cut).any():
            return None
        low = low // cut + (middle % cut) * 10 ** (16 - spare)
        middle = middle // cut + (high % cut) * 10 ** (16 - spare)
        high = high // cut
    upper, lower = _times_limb(np.zeros(len(low), np.uint64), high.astype(np.uint64), middle.astype(np.uint64))
    upper, lower = _times_limb(upper, lower, low.astype(np.uint64))
    flipped = (~lower) + np.uint64(1)
    upper = np.where(negative, ~upper + (flipped == 0).astype(np.uint64), upper)
    lower = np.where(negative, flipped, lower)
    return fixed(kind, np.stack([lower, upper], axis=1), valid)


def _times_limb(upper: Any, lower: Any, add: Any) -> tuple[Any, Any]:
    """Return ``(upper, lower) * 10**16 + add`` in 128 bits, halves of 64."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    m1, m0 = _LIMB >> half, _LIMB & mask
    l1, l0 = lower >> half, lower & mask
    cross = l1 * m0 + ((l0 * m0) >> half)
    other = l0 * m1 + (cross & mask)
    product = (other << half) | ((l0 * m0) & mask)
    carry = l1 * m1 + (cross >> half) + (other >> half) + upper * _LIMB
    total = product + add
    return carry + (total < add).astype(np.uint64), total


def _text(cells: Cells, count: Ints, weight: Ints, sign: Ints) -> pa.Array:
    below = count - weight - 1
    odd = ((sign & 0x8000) != 0) | (weight >= GROUPS_MAX) | (below > GROUPS_MAX)
    plain = np.where(odd, 0, count)
    spot = np.where(odd, 0, weight)
    whole = max(int(spot.max(initial=0)) + 1, 1)
    part = max(int((plain - spot).max(initial=0)) - 1, 0)
    groups = np.zeros((len(cells), whole + part), np.int64)
    width = int(plain.max(initial=0))
    if width:
        found = _digits(cells, plain, width)
        rows = np.arange(len(cells))
        for column in range(width):
            place = whole - 1 - spot + column
            inside = (plain > column) & (place < whole + part)
            groups[rows[inside], place[inside]] = found[inside, column]
    texts = variable(pa.string(), _rendered(groups, whole, sign == NEGATIVE), cells.valid)
    if not odd.any():
        return texts
    strange = np.flatnonzero(odd)
    extra = pa.array(
        [_slow(cells, int(row), int(count[row]), int(weight[row]), int(sign[row])) for row in strange], pa.string()
    )
    mask = pa.Array.from_buffers(pa.bool_(), len(odd), [None, validity(odd)])
    return pc.replace_with_mask(texts, mask, extra)


def _rendered(groups: Ints, whole: int, negative: Mask) -> pa.Array:
    """Write groups as text: one blank for the sign, whole digits, a point, fraction digits; then cut zeros at both ends."""
    rows, columns = groups.shape
    chars: npt.NDArray[np.uint8] = np.full((rows, 4 * columns + 2), ord("."), np.uint8)
    text = _FOUR[groups].view(np.uint8).reshape(rows, 4 * columns)
    point = 4 * whole + 1
    chars[:, 1:point] = text[:, : 4 * whole]
    chars[:, point + 1 :] = text[:, 4 * whole :]
    first = np.argmax(chars[:, 1:point] != ord("0"), axis=1) + 1
    none = ~(chars[:, 1:point] != ord("0")).any(axis=1)
    first = np.where(none, point - 1, first)
    last = np.full(rows, point)
    if columns > whole:
        behind = chars[:, :point:-1] != ord("0")
        last = np.where(behind.any(axis=1), chars.shape[1] - np.argmax(behind, axis=1), point)
    lead = np.flatnonzero(negative)
    chars[lead, first[lead] - 1] = ord("-")
    base = np.arange(rows, dtype=np.int64) * chars.shape[1]
    return slices(chars.reshape(-1), base + first - negative, base + last)


def _slow(cells: Cells, row: int, count: int, weight: int, sign: int) -> str:
    """Render one long number or a special value."""
    if sign in SPECIALS:
        return SPECIALS[sign]
    at = int(cells.at[row]) + 8
    groups = np.frombuffer(cells.raw[at : at + 2 * count].tobytes(), ">i2").tolist()
    digits = "".join(f"{group:04d}" for group in groups)
    point = 4 * (weight + 1)
    digits = "0" * -point + digits if point < 0 else digits + "0" * (point - len(digits))
    point = max(point, 0)
    whole, part = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
    return ("-" if sign == NEGATIVE else "") + whole + ("." + part if part else "")
