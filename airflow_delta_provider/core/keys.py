"""Order-preserving key bytes of single keys, and back (docs/format.md, S3)."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from airflow_delta_provider.core import decimals, times
from airflow_delta_provider.core.errors import (
    KeyEncodingError,
    KeyRangeError,
    KeyTextError,
    KeyTypeError,
    ValueRangeError,
    ValueTypeError,
    shown,
)
from airflow_delta_provider.core.forms import native
from airflow_delta_provider.core.types import LogicalType

TAGS = {
    "bool": 0x10,
    "int": 0x20,
    "decimal": 0x30,
    "float64": 0x38,
    "float32": 0x3C,
    "date": 0x40,
    "time": 0x48,
    "timestamp": 0x50,
    "timestamp_tz": 0x58,
    "uuid": 0x60,
    "bytes": 0x70,
    "text": 0x78,
}
KINDS = {tag: kind for kind, tag in TAGS.items()}
NULL = b"\x00"
END = b"\x00\x01"
INTEGERS = ("int", "date", "time", "timestamp", "timestamp_tz")
INT_BYTES_MAX = 16
POINT_BIAS = 2**31
_DECIMAL_SPECIALS = {"-Infinity": 0x01, "Infinity": 0x04, "NaN": 0x05}
_DECIMAL_FORMS = {code: text for text, code in _DECIMAL_SPECIALS.items()}
_COMPLEMENT = bytes(255 - byte for byte in range(256))
_DIGITS_UP = bytes.maketrans(b"0123456789", bytes(range(1, 11)))
_DIGITS_DOWN = bytes.maketrans(bytes(range(1, 11)), b"0123456789")


def encode_key(values: Sequence[Any], types: Sequence[LogicalType]) -> bytes:
    """Return the key bytes of one key: ``values`` are canonical JSON values, one for each type, None is NULL.

    Raises: KeyTypeError for a type that cannot be a key, KeyRangeError for infinite dates, KeyTextError for invalid
    Unicode, ValueTypeError for a value that is not canonical or another number of values than types.
    """
    if len(values) != len(types):
        raise ValueTypeError(f"A key has {len(values)} values for {len(types)} columns.")
    return b"".join(encode_component(value, kind.kind) for value, kind in zip(values, types, strict=True))


def encode_component(value: Any, kind: str) -> bytes:
    """Return the key bytes of one canonical value of this kind (see encode_key)."""
    if kind not in TAGS:
        raise KeyTypeError(f"A column of type {kind} cannot be a key.")
    if value is None:
        return NULL
    if kind == "text" and not _is_valid_text(value):
        raise KeyTextError("A key text is not valid Unicode.")
    return encode_native(native(value, kind), kind)


def _is_valid_text(value: Any) -> bool:
    if isinstance(value, dict) and set(value) == {"wtf8"}:
        return False
    try:
        return not isinstance(value, str) or value.encode() is not None
    except UnicodeEncodeError:
        return False


def encode_native(value: Any, kind: str) -> bytes:
    """Return the key bytes of one value that is not NULL, in the Python form that ``forms.native`` gives.

    Raises: KeyRangeError for infinite dates and integers of more than 128 bits.
    """
    tag = bytes((TAGS[kind],))
    if kind in INTEGERS:
        return tag + _integer_bytes(value, kind)
    match kind:
        case "text":
            return tag + escape(value.encode())
        case "bytes":
            return tag + escape(value)
        case "uuid":
            return tag + bytes(value)
        case "decimal":
            return tag + _decimal_bytes(value)
        case "bool":
            return tag + (b"\x01" if value else b"\x00")
    return tag + _float_bytes(value)


def escape(payload: bytes) -> bytes:
    """Return bytes with each ``00`` as ``00 ff`` and the end ``00 01``, so that a prefix sorts first."""
    return payload.replace(b"\x00", b"\x00\xff") + END


def _integer_bytes(value: Any, kind: str) -> bytes:
    if value in (math.inf, -math.inf):
        raise KeyRangeError(f"An infinite {kind} cannot be a key.")
    size = (abs(value).bit_length() + 7) // 8
    if size > INT_BYTES_MAX:
        raise KeyRangeError(f"{shown(value)} has more than 128 bits.")
    payload: bytes = abs(value).to_bytes(size, "big")
    return bytes((0x20 + size,)) + payload if value >= 0 else bytes((0x20 - size,)) + payload.translate(_COMPLEMENT)


def _float_bytes(value: float) -> bytes:
    if math.isnan(value):
        return b"\xff\xf8" + bytes(6)
    payload = struct.pack(">d", value or 0.0)
    return payload.translate(_COMPLEMENT) if payload[0] & 0x80 else bytes((payload[0] | 0x80,)) + payload[1:]


def _decimal_bytes(text: str) -> bytes:
    if text in _DECIMAL_SPECIALS:
        return bytes((_DECIMAL_SPECIALS[text],))
    negative, digits, point = decimals.decimal_parts(text)
    if not digits:
        return b"\x02\x80"
    payload = struct.pack(">I", point + POINT_BIAS) + digits.encode().translate(_DIGITS_UP) + b"\x00"
    return b"\x02\x7f" + payload.translate(_COMPLEMENT) if negative else b"\x02\x81" + payload


def decode_key(data: bytes, types: Sequence[LogicalType] | None) -> list[Any]:
    """Return the canonical values of key bytes; with None for ``types`` each component tells its own type.

    Raises: KeyEncodingError for anything that does not encode back to the same bytes, KeyTypeError for a type that
    cannot be a key.
    """
    values: list[Any] = []
    place = 0
    while place < len(data) and (types is None or len(values) < len(types)):
        value, place = decode_component(data, place, None if types is None else types[len(values)].kind)
        values.append(value)
    if place < len(data) or not values or (types is not None and len(values) != len(types)):
        raise KeyEncodingError(f"{_hex(data)} has another number of components than the key.")
    return values


def decode_prefix(data: bytes, types: Sequence[LogicalType]) -> tuple[list[Any], bool]:
    """Return the leading components of a bound that decode, and whether they make up all of its bytes.

    A bound is any byte string. Where the second value is False, bytes remain behind the values that were decoded.
    """
    values: list[Any] = []
    place = 0
    for kind in types:
        try:
            value, place = decode_component(data, place, kind.kind)
        except KeyEncodingError:
            break
        values.append(value)
    return values, place == len(data)


def decode_component(data: bytes, place: int, kind: str | None) -> tuple[Any, int]:
    """Return the canonical value of the component at ``place`` and the place behind it.

    Raises: KeyEncodingError (see decode_key), KeyTypeError.
    """
    if kind is not None and kind not in TAGS:
        raise KeyTypeError(f"A column of type {kind} cannot be a key.")
    if place >= len(data):
        raise KeyEncodingError(f"{_hex(data)} is cut.")
    if data[place] == 0:
        return None, place + 1
    found = KINDS.get(data[place])
    if found is None or (kind is not None and found != kind):
        raise KeyEncodingError(f"{_hex(data)} has tag {data[place]:02x} at byte {place}.")
    value, end = _payload(data, place + 1, found)
    if value is None or end > len(data) or not _encodes_back(value, found, data[place:end]):
        raise KeyEncodingError(f"{_hex(data)} does not encode back to itself.")
    return value, end


def _encodes_back(value: Any, kind: str, data: bytes) -> bool:
    """Tell whether a value has these key bytes; a date beyond every calendar has no canonical text, so none."""
    try:
        return encode_component(value, kind) == data
    except ValueTypeError:
        return False


def _payload(data: bytes, place: int, kind: str) -> tuple[Any, int]:
    """Return the canonical value of a payload (None where there is none) and its end; the caller encodes it back."""
    if kind in INTEGERS:
        return _integer_payload(data, place, kind)
    match kind:
        case "bool":
            return (data[place : place + 1] == b"\x01", place + 1)
        case "uuid":
            digits = data[place : place + 16].hex()
            parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            return ("-".join(parts) if len(digits) == 32 else None, place + 16)
        case "float64" | "float32":
            return _float_payload(data, place, kind)
        case "decimal":
            return _decimal_payload(data, place)
    return _string_payload(data, place, kind)


def _integer_payload(data: bytes, place: int, kind: str) -> tuple[Any, int]:
    size = data[place] - 0x20 if place < len(data) else INT_BYTES_MAX + 1
    end = place + 1 + abs(size)
    if abs(size) > INT_BYTES_MAX or end > len(data):
        return None, end
    payload = data[place + 1 : end]
    number = int.from_bytes(payload, "big") if size >= 0 else -int.from_bytes(payload.translate(_COMPLEMENT), "big")
    match kind:
        case "int":
            return str(number), end
        case "date":
            return times.date_text(number), end
        case "time":
            return times.time_text(number) if 0 <= number <= times.DAY_NS else None, end
    return times.timestamp_text(number, kind == "timestamp_tz"), end


def _float_payload(data: bytes, place: int, kind: str) -> tuple[Any, int]:
    payload = data[place : place + 8]
    if len(payload) < 8:
        return None, place + 8
    bits = bytes((payload[0] & 0x7F,)) + payload[1:] if payload[0] & 0x80 else payload.translate(_COMPLEMENT)
    value = struct.unpack(">d", bits)[0]
    if kind == "float64":
        return decimals.float64_text(value), place + 8
    whole = math.isnan(value) or decimals.float32_of(value) == value
    return decimals.float32_text(value) if whole else None, place + 8


def _decimal_payload(data: bytes, place: int) -> tuple[Any, int]:
    form = data[place] if place < len(data) else 0
    if form in _DECIMAL_FORMS:
        return _DECIMAL_FORMS[form], place + 1
    sign = data[place + 1] if form == 0x02 and place + 1 < len(data) else 0
    if sign == 0x80:
        return "0", place + 2
    if sign not in (0x7F, 0x81):
        return None, place + 1
    ending = b"\x00" if sign == 0x81 else b"\xff"
    last = data.find(ending, place + 6)
    if last < 0:
        return None, len(data)
    payload = data[place + 2 : last]
    payload = payload if sign == 0x81 else payload.translate(_COMPLEMENT)
    digits = payload[4:].translate(_DIGITS_DOWN)
    if not digits.isdigit() or any(byte > 10 for byte in payload[4:]):
        return None, last + 1
    point = int.from_bytes(payload[:4], "big") - POINT_BIAS
    try:
        return decimals.plain(sign == 0x7F, digits.decode("ascii"), point - len(digits)), last + 1
    except ValueRangeError:
        return None, last + 1


def _string_payload(data: bytes, place: int, kind: str) -> tuple[Any, int]:
    """Return a text or the hex of bytes; ``00`` stands only before ``ff`` (a zero byte) and ``01`` (the end)."""
    end = data.find(b"\x00", place)
    while 0 <= end < len(data) - 1 and data[end + 1] == 0xFF:
        end = data.find(b"\x00", end + 2)
    if end < 0 or data[end : end + 2] != END:
        return None, len(data)
    payload = data[place:end].replace(b"\x00\xff", b"\x00")
    if kind == "bytes":
        return payload.hex(), end + 2
    try:
        return payload.decode(), end + 2
    except UnicodeDecodeError:
        return None, end + 2


def _hex(data: bytes) -> str:
    return shown(data.hex())
