"""Values as a record holds them: canonical, in the detail that the contract asks for (docs/format.md, S4)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays, ids, rules, values
from airflow_delta_provider.core.errors import HmacKeyError
from airflow_delta_provider.core.rowtext import json_texts, repeated
from airflow_delta_provider.core.stream import KeyColumn
from airflow_delta_provider.core.types import LogicalType

OMITTED = {"omitted": True}


@dataclass(frozen=True, slots=True)
class HmacKey:
    """The key of keyed digests. Shape: ``secret`` any bytes, ``key_id`` matches ``[a-z0-9._-]{1,64}``."""

    key_id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"HmacKey({self.key_id!r})"


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """One pair of compared columns.

    ``name``: as documents write it. ``source``, ``target``: the types that arrive. ``schema``: the type of the recorded
    form, one for both sides. ``rules``: rule documents in order.
    """

    name: str
    source: LogicalType
    target: LogicalType
    schema: LogicalType
    rules: tuple[dict[str, Any], ...] = ()
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared and how it is recorded: the same for every shard of one reconciliation.

    ``source_key``, ``target_key``: the key columns on each side. ``raw_keys``: some key column has a rule.
    """

    columns: tuple[ComparedColumn, ...]
    source_key: tuple[KeyColumn, ...]
    target_key: tuple[KeyColumn, ...]
    detail: str = "values"
    inline_limit: int = 65_536
    hmac_key: HmacKey | None = None
    raw_keys: bool = False

    @property
    def key_types(self) -> list[LogicalType]:
        """The canonical types of the key."""
        return [column.key_type for column in self.target_key]


class Recorder:
    """Turns carrier arrays of one column into the values that records hold."""

    def __init__(self, column: ComparedColumn, detail: str, inline_limit: int, key: HmacKey | None) -> None:
        self.schema = column.schema
        self._inline_limit = inline_limit
        keyed = column.sensitive or detail == "digests"
        if keyed and key is None:
            raise HmacKeyError(f"column {column.name!r} is recorded as a keyed digest.", where="hmac")
        self._hmac: Callable[[bytes], str] | None = ids.hmac_values(key.secret, column.name) if keyed and key else None
        self._key_id = key.key_id if key else ""
        self._omitted = detail in ("keys", "counts") and not keyed

    def record(self, typed: rules.Typed) -> list[Any]:
        """Return one JSON value for each row of ``typed``, which is in recorded form."""
        if self._omitted:
            return [OMITTED] * len(typed.array)
        plain = canonical(typed, self.schema)
        if self._hmac is not None:
            return [{"hmac": self._hmac(_json(value)), "key": self._key_id} for value in plain]
        limit, short = self._inline_limit, values.surely_inlined_chars(self._inline_limit)
        return [
            value if value is None or (type(value) is str and len(value) <= short) else values.inlined(value, limit)
            for value in plain
        ]

    def texts(self, typed: rules.Typed) -> pa.LargeBinaryArray:
        """Return the canonical JSON of what ``record`` returns, without a Python value for what is common."""
        if self._omitted:
            return repeated(_json(OMITTED), len(typed.array))
        if typed.unparsed is not None and typed.unparsed.null_count < len(typed.unparsed):
            return self._one_by_one(typed)
        limit = self._inline_limit if self._hmac is None else sys.maxsize
        made = json_texts(typed.array, typed.type, self.schema, limit)
        if made is None:
            return self._one_by_one(typed)
        texts = made.array
        if self._hmac is not None:
            forms = [ids.hmac_form(self._hmac(text), self._key_id) for text in texts.to_pylist()]
            texts = arrays.binary_list(forms)
        if made.doubtful is None:
            return texts
        others = self._one_by_one(typed.take(arrays.int64_array(np.flatnonzero(made.doubtful))))
        return pc.replace_with_mask(texts, arrays.bool_array(made.doubtful), others)

    def _one_by_one(self, typed: rules.Typed) -> pa.LargeBinaryArray:
        return arrays.binary_list([_json(value) for value in self.record(typed)])


def canonical(typed: rules.Typed, schema: LogicalType) -> list[Any]:
    """Return the canonical values of S2 for each row; a text that did not parse as ``{"unparsed": text}``."""
    plain = values.canonical_values(typed.array, typed.type, schema)
    if typed.unparsed is not None and typed.unparsed.null_count < len(typed.unparsed):
        texts = typed.unparsed.to_pylist()
        plain = [value if text is None else {"unparsed": text} for value, text in zip(plain, texts, strict=True)]
    return plain


def _json(value: Any) -> bytes:
    """Return JSON in a copy of its own size: what orjson gives keeps the whole 4 KiB of its buffer."""
    return memoryview(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).tobytes()
