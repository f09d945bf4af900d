"""The canonical JSON of many keys at once, for records and entries: common components without a detour over values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.keys import END, INT_BYTES_MAX, TAGS, decode_key
from airflow_delta_provider.core.types import LogicalType

_COMPLEMENT = bytes(range(255, -1, -1))
_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_INT, _TEXT, _UUID = TAGS["int"], TAGS["text"], TAGS["uuid"]
_UUID_BYTES = 16


def key_texts(types: Sequence[LogicalType]) -> Callable[[bytes], bytes]:
    """Return a function from key bytes to the canonical JSON array of the key's values, for many keys.

    It raises: as ``keys.decode_key``.
    """
    parsers = [_PARSERS.get(kind.kind) for kind in types]

    def of(key: bytes) -> bytes:
        return _quick(key, parsers) or jsonc.dumps(decode_key(key, types))

    return of


Parser = Callable[[bytes, int], tuple[bytes, int] | None]
"""From key bytes and a place in them to the JSON of one component and the place behind it; None: look closer."""


def _quick(key: bytes, parsers: list[Parser | None]) -> bytes | None:
    place, parts = 0, []
    for parser in parsers:
        found = None if parser is None else parser(key, place)
        if found is None:
            return None
        part, place = found
        parts.append(part)
    return b"[%b]" % b",".join(parts) if place == len(key) else None


def _int(key: bytes, place: int) -> tuple[bytes, int] | None:
    if len(key) < place + 2 or key[place] != _INT:
        return None
    size, start = key[place + 1] - 0x20, place + 2
    if size == 0:
        return b'"0"', start
    end = start + abs(size)
    if abs(size) > INT_BYTES_MAX or end > len(key) or key[start] == (0 if size > 0 else 0xFF):
        return None  # cut, or not in the least number of bytes
    payload = key[start:end]
    if size > 0:
        return b'"%d"' % int.from_bytes(payload, "big"), end
    return b'"-%d"' % int.from_bytes(payload.translate(_COMPLEMENT), "big"), end


def _text(key: bytes, place: int) -> tuple[bytes, int] | None:
    end = key.find(END[:1], place)
    payload = key[place + 1 : end]
    if end <= place or key[place] != _TEXT or not key.startswith(END, end) or _ESCAPED.search(payload):
        return None
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError:
            return None
    return b'"%b"' % payload, end + len(END)


def _uuid(key: bytes, place: int) -> tuple[bytes, int] | None:
    end = place + 1 + _UUID_BYTES
    if end > len(key) or key[place] != _UUID:
        return None
    digits = key[place + 1 : end].hex().encode()
    return b'"%b-%b-%b-%b-%b"' % (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]), end


_PARSERS: dict[str, Parser] = {"int": _int, "text": _text, "uuid": _uuid}
