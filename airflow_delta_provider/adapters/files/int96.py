"""INT96 time stamps of old Parquet writers: nanoseconds that may be too many for 64 bits, read without wrapping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.files.common import ints_of
from airflow_delta_provider.core.arrays import int64_array

NS_MICROS_MAX = (2**63 - 1) // 1000 - 1
"""Microseconds on either side of 1970 that surely fit 64 bits of nanoseconds."""


def merged_int96(batch: pa.RecordBatch, coarse: pa.RecordBatch) -> pa.RecordBatch:
    """Put exact time stamps in place of those that were read as nanoseconds and wrapped where they do not fit.

    ``coarse`` holds the same rows of the INT96 columns, read as microseconds (right, but cut). The result is
    timestamp(ns) where all fit, else timestamp(us) where no digit is lost, else decimal128(38,0) nanoseconds.
    """
    arrays = list(batch.columns)
    for name in coarse.schema.names:
        place = batch.schema.get_field_index(name)
        arrays[place] = _exact(arrays[place], coarse.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _exact(fine: pa.Array, coarse: pa.Array) -> pa.Array:
    micros = ints_of(coarse.view(pa.int64()))
    if not len(micros) or (int(micros.max()) <= NS_MICROS_MAX and int(micros.min()) >= -NS_MICROS_MAX):
        return fine
    wrapped = ints_of(fine.view(pa.int64())).view(np.uint64)
    rest: Any = wrapped - micros.view(np.uint64) * np.uint64(1000)
    if not rest.any():
        return coarse
    signed = rest.view(np.int64)
    whole = pc.multiply(int64_array(micros).cast(pa.decimal128(19, 0)), pa.scalar(1000, pa.decimal128(10, 0)))
    total = pc.add(whole, int64_array(signed).cast(pa.decimal128(19, 0))).cast(pa.decimal128(38, 0))
    return pc.if_else(coarse.is_valid(), total, pa.scalar(None, total.type))
