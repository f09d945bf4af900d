"""Read texts as bytes (hexadecimal, base64) and as UUIDs (both layouts)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.rules.distinct import mapped
from airflow_delta_provider.core.types import LogicalType

_HEX = r"^(\\x|0[xX])?([0-9a-fA-F]{2})*$"
_UUID = (
    r"^([0-9a-fA-F]{32}"
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|\{[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\})$"
)
UUID_BYTES = 16
MIXED_ENDIAN = (3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)
"""Where byte i of the network order stands in the mixed-endian layout; its own inverse."""


def byte_strings(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read bytes: pairs of hexadecimal digits, with ``\\x`` or ``0x`` in front or not; or strict base64 with padding."""
    if options.get("encoding", "hex") == "base64":
        return mapped(values, _base64, pa.large_binary())
    kept = pc.if_else(pc.match_substring_regex(values, _HEX), values, pa.scalar(None, values.type))
    return _unhex(pc.replace_substring_regex(kept, r"^(\\x|0[xX])", ""))


def uuids(values: pa.Array, type: LogicalType, options: Mapping[str, Any]) -> pa.Array:
    """Read UUIDs: 32 hexadecimal digits, with the four hyphens or not, hyphenated ones also in braces."""
    kept = pc.if_else(pc.match_substring_regex(values, _UUID), values, pa.scalar(None, values.type))
    return uuids_from_bytes(_unhex(pc.replace_substring_regex(kept, r"[{}-]", "")), options.get("layout", "rfc"))


def uuids_from_bytes(values: pa.Array, layout: str) -> pa.Array:
    """Return byte strings as UUIDs in network order; NULL where one has not 16 bytes.

    ``layout``: ``rfc`` (network order already) or ``mixed_endian`` (the first three groups have their bytes reversed).
    """
    fits = pc.fill_null(pc.equal(pc.binary_length(values), UUID_BYTES), False)
    whole = values.filter(fits).cast(pa.large_binary()).cast(pa.binary(UUID_BYTES))
    if layout == "mixed_endian" and len(whole):
        start = whole.offset * UUID_BYTES
        table = np.frombuffer(whole.buffers()[1], np.uint8, len(whole) * UUID_BYTES, start).reshape(-1, UUID_BYTES)
        moved = np.ascontiguousarray(table[:, MIXED_ENDIAN])
        whole = pa.FixedSizeBinaryArray.from_buffers(whole.type, len(whole), [None, pa.py_buffer(moved)])
    places = pc.subtract(pc.cumulative_sum(fits.cast(pa.int64())), 1)
    return whole.take(pc.if_else(fits, places, pa.scalar(None, pa.int64())))


def _unhex(digits: pa.Array) -> pa.Array:
    """Return the bytes that pairs of hexadecimal digits mean, all values in one pass over the buffer."""
    texts = pc.fill_null(digits.cast(pa.large_string()), "")
    if not len(texts):
        return pa.array([], pa.large_binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, texts.offset * 8)
    data = texts.buffers()[2]
    joined = bytes(memoryview(data)[offsets[0] : offsets[-1]]) if data is not None else b""
    starts = (offsets - offsets[0]) // 2
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(binascii.unhexlify(joined))]
    whole = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(texts), buffers)
    return pc.if_else(pc.is_valid(digits), whole, pa.scalar(None, pa.large_binary()))


def _base64(text: str) -> bytes | None:
    try:
        value = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return value if base64.b64encode(value).decode("ascii") == text else None
