"""The text limits of a signed manifest: refused before a row is read, signed or not (docs/format.md, S9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import SignSizeError

PAIR_BYTES_MAX: Final = {"name": 64, "source": 255, "target": 255}
VERSION_JSON_BYTES_MAX: Final = 64
KEY_JSON_BYTES_MAX: Final = 512
BOUND_BYTES_MAX: Final = 200
PREDICATE_TYPE_BYTES_MAX: Final = 128
PAE_BYTES_MAX: Final = 4096


def check_sign_limits(
    pair: Mapping[str, str],
    versions: Mapping[str, str],
    key_columns: Sequence[str],
    key_types: Sequence[str],
    key_range: tuple[bytes | None, bytes | None] = (None, None),
) -> None:
    """Refuse texts that could make a signed manifest too long.

    Shape: ``pair`` has name, source and target; ``versions`` maps what has a version to it; bounds are key bytes.
    Units: bytes of JSON text without the quotes.
    Raises: SignSizeError (DELTA_SIGN_SIZE), naming the first text that is too long.
    """
    for member, limit in PAIR_BYTES_MAX.items():
        _check(f"pair.{member}", _json_bytes(pair[member]), limit)
    for what, version in versions.items():
        _check(f"{what}.version", _json_bytes(version), VERSION_JSON_BYTES_MAX)
    key_bytes = len(jsonc.dumps(list(key_columns))) + len(jsonc.dumps(list(key_types)))
    _check("key", key_bytes, KEY_JSON_BYTES_MAX)
    for side, bound in zip(("lower", "upper"), key_range, strict=True):
        _check(f"key_range.{side}", len(bound or b""), BOUND_BYTES_MAX)


def cut_bound(bound: bytes) -> bytes:
    """Return a planned shard bound that fits: its first 200 bytes are still a bound."""
    return bound[:BOUND_BYTES_MAX]


def _json_bytes(text: str) -> int:
    return len(jsonc.dumps(text)) - 2


def _check(place: str, size: int, limit: int) -> None:
    if size > limit:
        raise SignSizeError(f"{place} takes {size} bytes; {limit} is the limit.", where=place)
