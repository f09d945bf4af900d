"""Lines of checkpoints and ledgers from the lines of records, as bytes: nothing is parsed twice (docs/format.md, S10).

A record's line is canonical: its members stand in order, and a quotation mark inside a text is escaped. So the parts
between members can be told by their names alone.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.arrays import binary_scalar
from airflow_delta_provider.core.rowtext import json_rows
from airflow_delta_provider.core.types import LogicalType

_ID_BYTES = len(b'"id":""') + 64
_KEY_START = _ID_BYTES + len(b',"key":')
_TEXT = pa.large_string()


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of the lines of some records.

    Shape: one text a record in all lists. ``kinds``: category and columns, as an object without its end; ``middles``:
    members id, key and sort_key with their names; the others are JSON texts, of keys, sort keys and both sides' values.
    """

    kinds: list[bytes]
    middles: list[bytes]
    keys: list[bytes]
    sort_keys: list[bytes]
    sources: list[bytes]
    targets: list[bytes]

    def ids(self) -> list[bytes]:
        """Return ``"id":...`` of each record."""
        return [middle[:_ID_BYTES] for middle in self.middles]

    def key_bytes(self) -> list[bytes]:
        """Return the key bytes of each record."""
        return [unhexlify(text[1:-1]) for text in self.sort_keys]

    def sort_key_members(self) -> list[bytes]:
        """Return ``"sort_key":...`` of each record."""
        return [b'"sort_key":%b' % text for text in self.sort_keys]


def parts_of(lines: Sequence[bytes]) -> Parts:
    """Return the parts of the canonical lines of records whose keys have no rules."""
    halves = [line.partition(b',"source_value":') for line in lines]
    values = [half[2].partition(b',"target_value":') for half in halves]
    heads = [half[0].partition(b',"id":') for half in halves]
    middles = [b'"id":' + head[2] for head in heads]
    keys = [middle[_KEY_START:].partition(b',"sort_key":') for middle in middles]
    return Parts(
        [head[0] for head in heads],
        middles,
        [key[0] for key in keys],
        [key[2] for key in keys],
        [value[0] for value in values],
        [value[2][:-1] for value in values],
    )


def values_of(texts: Sequence[bytes]) -> list[Any]:
    """Return what many JSON texts hold."""
    found: list[Any] = orjson.loads(b"[%b]" % b",".join(texts))
    return found


def checkpoint_lines(before: Sequence[bytes], middles: Sequence[bytes]) -> list[bytes]:
    """Return checkpoint lines from rows as JSON texts; see ``checkpoint.checkpoint_line``."""
    return [b'{"before":%b,%b}' % part for part in zip(before, middles, strict=True)]


def restore_lines(raw: Sequence[bytes], sort_keys: Sequence[bytes]) -> list[bytes]:
    """Return restore lines from rows as ``raw_rows`` makes them; see ``checkpoint.restore_line``."""
    return [b'{"raw":%b,%b}' % part for part in zip(raw, sort_keys, strict=True)]


def raw_rows(texts: Mapping[str, Any], types: Mapping[str, LogicalType], count: int) -> list[bytes]:
    """Return ``[[column, type, value], ...]`` of each row, from the JSON texts of its columns."""
    end, nothing = binary_scalar(b"]"), binary_scalar(b"")
    columns = []
    for name, values in texts.items():
        head = binary_scalar(b"[%b,%b," % (jsonc.dumps_checked(name), jsonc.dumps_checked(types[name].schema)))
        columns.append(pc.binary_join_element_wise(head, values, end, nothing))
    rows: list[bytes] = json_rows(columns, count).to_pylist()
    return rows


def applied_lines(ids: Sequence[bytes], ops: Sequence[bytes], sort_keys: Sequence[bytes]) -> list[bytes]:
    """Return ledger lines of records that were applied; see ``ledger.ledger_line``."""
    form = b'{%b,"op":"%b","outcome":"applied","reason":null,%b}'
    return [form % part for part in zip(ids, ops, sort_keys, strict=True)]


def surely_within(values: Sequence[Any], stored: LogicalType) -> bool:
    """Tell whether a column with these bounds certainly holds all values, canonical ones of its own kind or None.

    The bounds are those of ``patch_values.within``; what is not certain is asked there, value by value.
    """
    texts = [value for value in values if value is not None]
    if not texts or not _bounded(stored):
        return True
    if not set(map(type, texts)) <= {str}:
        return False
    try:
        return _within(pa.array(texts, _TEXT), stored)
    except pa.ArrowInvalid:
        return False


def _bounded(stored: LogicalType) -> bool:
    return any(part is not None for part in (stored.bits, stored.precision, stored.length, stored.digits))


def _within(texts: Any, stored: LogicalType) -> bool:
    if stored.kind == "int" and stored.bits is not None:
        found = pc.min_max(pc.cast(texts, pa.int64()))
        lower, upper = (0, 1 << stored.bits) if stored.unsigned else (-(1 << stored.bits - 1), 1 << stored.bits - 1)
        return bool(lower <= found["min"].as_py() and found["max"].as_py() < upper)
    if stored.kind == "decimal" and stored.precision is not None:
        scale = stored.scale or 0
        whole = stored.precision - scale
        if whole < 1 or scale < 0:
            return False
        fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
        return bool(pc.all(pc.match_substring_regex(texts, rf"^-?[0-9]{{1,{whole}}}{fraction}$")).as_py())
    if stored.kind == "text" and stored.length is not None:
        return bool(pc.max(pc.utf8_length(texts)).as_py() <= stored.length)
    if stored.kind in ("timestamp", "timestamp_tz") and stored.digits is not None:
        digits = rf"(?:\.[0-9]{{1,{stored.digits}}})?" if stored.digits else ""
        return bool(pc.all(pc.match_substring_regex(texts, rf"^[^.]*{digits}Z?$")).as_py())
    return stored.kind == "date"
