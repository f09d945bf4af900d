"""Values of one width in the binary copy form to Arrow carriers: integers, floats, dates, times, intervals, UUIDs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.pgcopy.cells import Mask, fixed, validity
from airflow_delta_provider.core.errors import ValueRangeError
from airflow_delta_provider.core.types import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
)

EPOCH_DAYS = 10_957
"""Days from 1970-01-01 to 2000-01-01, where the wire's dates begin."""
EPOCH_US = EPOCH_DAYS * 86_400_000_000
TIMESTAMP_SHIFT_MAX = 2**63 - 1 - EPOCH_US
"""The last wire time stamp that still fits 64 bits of microseconds since 1970 (year 294247)."""
INTERVAL_US_MAX = (2**63 - 1) // 1000
TIMESTAMP_UTC = pa.timestamp("us", "UTC")


class CarrierClashError(Exception):
    """One block holds values that no single carrier holds; the caller splits the block and tries again."""


def _boolean(values: Any, valid: Mask | None) -> pa.Array:
    bits = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity(valid), bits])


def _native(kind: pa.DataType, dtype: str) -> Callable[[Any, Mask | None], pa.Array]:
    return lambda values, valid: fixed(kind, values.astype(dtype), valid)


def _date(values: Any, valid: Mask | None) -> pa.Array:
    days = values.astype("<i4")
    infinite = (days == DATE_INFINITY) | (days == DATE_MINUS_INFINITY)
    shifted = days + np.int32(EPOCH_DAYS)
    return fixed(pa.date32(), np.where(infinite, days, shifted) if infinite.any() else shifted, valid)


def _stamp(kind: pa.DataType) -> Callable[[Any, Mask | None], pa.Array]:
    def finish(values: Any, valid: Mask | None) -> pa.Array:
        wire = values.astype("<i8")
        far = wire > TIMESTAMP_SHIFT_MAX
        near = wire == TIMESTAMP_MINUS_INFINITY
        if not far.any() and not near.any():
            return fixed(kind, wire + EPOCH_US, valid)
        live = np.ones(len(wire), np.bool_) if valid is None else valid
        infinite = ((wire == TIMESTAMP_INFINITY) | near) & live
        wide = far & ~infinite & live
        if not wide.any():
            with np.errstate(over="ignore"):
                return fixed(kind, np.where(infinite, wire, wire + EPOCH_US), valid)
        if infinite.any():
            raise CarrierClashError
        nanos = [
            (value + EPOCH_US) * 1000 if alive else None
            for value, alive in zip(wire.tolist(), live.tolist(), strict=True)
        ]
        return pa.array(nanos, pa.decimal128(38, 0))

    return finish


def _uuid(values: Any, valid: Mask | None) -> pa.Array:
    return fixed(pa.binary(16), values, valid)


_INTERVAL = np.dtype([("us", ">i8"), ("days", ">i4"), ("months", ">i4")])
_INTERVAL_ARROW = np.dtype([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])


def _interval(values: Any, valid: Mask | None) -> pa.Array:
    wire = values.view(_INTERVAL)
    micros = wire["us"].astype("<i8")
    if valid is not None:
        micros = np.where(valid, micros, 0)
    if len(micros) and (micros.max() > INTERVAL_US_MAX or micros.min() < -INTERVAL_US_MAX):
        raise ValueRangeError("An interval is infinite or holds more than 292 years of hours.")
    out = np.empty(len(wire), _INTERVAL_ARROW)
    out["months"], out["days"], out["ns"] = wire["months"], wire["days"], micros * 1000
    return fixed(pa.month_day_nano_interval(), out, valid)


FIXED: dict[str, tuple[np.dtype[Any], Callable[[Any, Mask | None], pa.Array]]] = {
    "bool": (np.dtype("u1"), _boolean),
    "int2": (np.dtype(">i2"), _native(pa.int16(), "<i2")),
    "int4": (np.dtype(">i4"), _native(pa.int32(), "<i4")),
    "int8": (np.dtype(">i8"), _native(pa.int64(), "<i8")),
    "oid": (np.dtype(">u4"), _native(pa.uint32(), "<u4")),
    "float4": (np.dtype(">f4"), _native(pa.float32(), "<f4")),
    "float8": (np.dtype(">f8"), _native(pa.float64(), "<f8")),
    "date": (np.dtype(">i4"), _date),
    "time": (np.dtype(">i8"), _native(pa.time64("us"), "<i8")),
    "timestamp": (np.dtype(">i8"), _stamp(pa.timestamp("us"))),
    "timestamptz": (np.dtype(">i8"), _stamp(TIMESTAMP_UTC)),
    "interval": (np.dtype("V16"), _interval),
    "uuid": (np.dtype("V16"), _uuid),
}
"""Forms of one width: how the value lies in the stream, and what makes a carrier of the values."""
