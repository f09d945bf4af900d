"""Reading the rows that a patch touches: of the side that is written by key, of the other side by key range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.core.errors import ValueLossyError
from airflow_delta_provider.core.patch_rows import RowForms, StoredRow, is_clear
from airflow_delta_provider.core.patch_values import stored_key
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.stream import keyed_batches
from airflow_delta_provider.core.types import KEEP_COLUMN, KEY_BYTES
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.patching.context import Context

Found = dict[bytes, list[StoredRow]]
"""The rows that have a key, by key bytes; more than one where a key is repeated."""


class TouchedRows:
    """Reads rows of the written side by key, in every form."""

    def __init__(self, writer: Writer, context: Context, names: Sequence[str]) -> None:
        self.writer = writer
        self.context = context
        self.names = list(names)
        self.types = writer.types(names)
        self.forms: RowForms = context.forms(context.side, self.types)

    def read(self, keys: Sequence[tuple[bytes, Sequence[Any] | None]], *, lock: bool) -> Found:
        """Return the rows of these keys: pairs of key bytes and the key as stored (None: the side cannot hold it).

        Where rules stand on the key, the whole table is read: a stored key that nobody knows may have the same
        canonical one.
        """
        wanted = {sort_key for sort_key, _ in keys}
        found: Found = {}
        if self.context.ruled_key:
            batches = self.writer.scan(self.names, lock=lock) if wanted else iter(())
        else:
            own = [column.own(self.context.side) for column in self.context.key]
            raw = [list(key) for _, key in keys if key is not None]
            batches = self.writer.lookup(own, raw, self.names, lock=lock) if raw else iter(())
        for batch in batches:
            found_keys = self.forms.key_bytes(batch, self.types)
            places = [place for place, key in enumerate(found_keys) if key in wanted]
            if places:
                picked = batch.take(pa.array(places, pa.int64()))
                for key, row in self.forms.rows(picked, self.types):
                    found.setdefault(key, []).append(row)
        return found

    def raw_key(self, record: dict[str, Any]) -> list[Any] | None:
        """Return the key of a record as this side stores it, None where it cannot."""
        side = self.context.side
        given = record.get(f"{side}_key")
        if given is not None:
            return list(given)
        try:
            key = [
                stored_key(value, column.schema, column.stored, column.rules, side)
                for value, column in zip(record["key"], self.forms.key, strict=True)
            ]
        except ValueLossyError:
            return None
        own = (column.own for column in self.forms.key)
        return key if all(map(self.writer.holds, own, key)) else None


def other_rows(context: Context, opened: Opened) -> dict[bytes, list[Any]]:
    """Return rows of the side that is not written, in clear, where the records do not hold all that is needed.

    Needed are values that are recorded as digests, and under ``last_writer_wins`` the column that decides.
    """
    other = context.rule.other
    needed: set[bytes] = set()
    if context.rule.name == "flag_for_review":
        return {}
    every = context.rule.name == "last_writer_wins"
    for lines in context.lines():
        # A line in which no second object begins holds all values in clear.
        records = [orjson.loads(line) for line in lines if every or line.count(b'{"') > 1]
        needed.update(bytes.fromhex(record["sort_key"]) for record in records if _needs(context, record, other))
    if not needed:
        return {}
    key_range = KeyRange(min(needed), max(needed) + b"\x00")
    layout = opened.layout(other, key_range)
    types = {column.name: column.type for column in opened.side(other).columns if column.type is not None}
    forms = context.forms(other, types)
    names = list(dict.fromkeys([*(column.own for column in forms.key), *(column.own for column in forms.columns)]))
    wanted = pa.array(sorted(needed), pa.large_binary())
    found: dict[bytes, list[Any]] = {}
    with closing(opened.side(other).read(opened.request(other, key_range, ordered=False))) as batches:  # type: ignore[type-var]
        for batch in keyed_batches(batches, layout):
            kept = batch.filter(pc.is_in(batch.column(KEY_BYTES), value_set=wanted))
            if KEEP_COLUMN in kept.schema.names:
                kept = kept.filter(kept.column(KEEP_COLUMN).fill_null(False))
            if kept.num_rows:
                picked = pa.RecordBatch.from_arrays([kept.column(name) for name in names], names)
                found.update((key, row.clear) for key, row in forms.rows(picked, types))
    return found


def _needs(context: Context, record: dict[str, Any], other: str) -> bool:
    values: Iterable[Any] = record[f"{other}_value"] or ()
    if context.rule.name == "last_writer_wins":
        return bool(record["category"] == "value_diverged")
    return not all(is_clear(value) for value in values)
