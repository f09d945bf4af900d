"""The rows of one block as a sweep sees them: digested, left out, repeated or refused, each by itself (docs/format.md, S11)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core import arrays, ids, rules
from airflow_delta_provider.core.bulk_sweep import SeenBatch
from airflow_delta_provider.core.errors import DeltaError, ValueRangeError
from airflow_delta_provider.core.generation import LEFT_OUT, REFUSED, REPEATED, ROW, Seen
from airflow_delta_provider.core.keyset import bool_numpy, index_array
from airflow_delta_provider.core.recorded import OMITTED, ComparedColumn, Comparison, Recorder, canonical
from airflow_delta_provider.core.rowtext import json_rows, repeated
from airflow_delta_provider.core.stream import Block
from airflow_delta_provider.core.types import VALUE_CODES

ENCODED_ROWS = 16_384
"""Rows that are digested at a time."""
_BYTES = pa.large_binary()
_NOTHING = pa.scalar(b"", _BYTES)
_NULL = b"null"


@dataclass(slots=True)
class Encoded:
    """Rows in two forms.

    Shape: one entry a row. ``digests`` and ``records`` are None for a row that was refused; ``codes`` says why. ``records``
    holds the canonical JSON array of the row as a record shows it.
    """

    digests: list[str | None]
    records: pa.Array
    codes: dict[int, str]


class RowEncoder:
    """Turns rows of the target into row digests and rows in recorded form.

    Every rule of a column is applied first. A value that a rule or its type refuses fails its own row alone: what raises
    is halved until the row is found.
    """

    def __init__(self, comparison: Comparison, schema_version: str) -> None:
        self._comparison = comparison
        self._detail = comparison.detail
        digested = "values" if comparison.detail == "values" else "digests"
        self._columns = [
            _Column(column, Recorder(column, digested, comparison.inline_limit, comparison.hmac_key))
            for column in comparison.columns
        ]
        self._head = b"delta-row/v1\x00" + ids.lp(schema_version)

    def seen_batches(self, blocks: Iterator[Block], *, filtered: bool) -> Iterator[SeenBatch]:
        """Yield what each block holds, in its order.

        The last value column of the blocks holds the codes of values that the side refused, NULL where none was.
        ``filtered``: the one before it tells for which rows the filter is true.
        """
        for block in blocks:
            for start in range(0, len(block), ENCODED_ROWS):
                part = block.slice(start, min(start + ENCODED_ROWS, len(block)))
                yield self._batch(block, part, start, filtered)

    def _batch(self, block: Block, part: Block, start: int, filtered: bool) -> SeenBatch:
        keys = part.keys.data.to_pylist()
        chosen = np.ones(len(part), bool)
        values, refused = part.values[:-1], part.values[-1]
        if filtered:
            chosen = bool_numpy(values[-1].fill_null(False))
            values = values[:-1]
        shown = np.ones(len(part), bool)
        repeated = dict[int, int]()
        if part.repeats:
            repeated = _mark_repeats(keys, block, start, chosen, shown)
        rows = np.flatnonzero(chosen)
        if len(rows) == len(part):
            encoded = self._encode(values, part.keys.data, refused)
            whole = _Found(self, part, keys, encoded, None, repeated)
            return SeenBatch(keys, encoded.digests, whole.seen, whole.rows)
        index = index_array(rows)
        encoded = self._encode(
            [column.take(index) for column in values], part.keys.data.take(index), refused.take(index)
        )
        place_of = np.full(len(part), -1, np.int64)
        place_of[rows] = np.arange(len(rows))
        left = np.flatnonzero(shown)
        places = place_of[left].tolist()
        digests = [None if place < 0 else encoded.digests[place] for place in places]
        found = _Found(self, part, keys, encoded, (left, places), repeated)
        return SeenBatch([keys[row] for row in left], digests, found.seen, found.rows)

    def _encode(self, values: list[pa.Array], keys: pa.Array, refused_by_side: pa.Array) -> Encoded:
        codes: dict[int, str] = {}
        if refused_by_side.null_count < len(refused_by_side):
            codes = {row: code for row, code in enumerate(refused_by_side.to_pylist()) if code is not None}
        texts = []
        for column, array in zip(self._columns, values, strict=True):
            made, refused = column.texts(array)
            texts.append(made)
            for row, code in refused.items():
                codes.setdefault(row, code)
        joined = json_rows(texts, len(keys))
        digests: list[str | None] = self._digests(keys, joined)
        for row in codes:
            digests[row] = None
        return Encoded(digests, self._records(texts, joined), codes)

    def _digests(self, keys: pa.Array, rows: pa.Array) -> list[str | None]:
        head = pa.scalar(self._head, _BYTES)
        preimages = pc.binary_join_element_wise(head, _lengths(keys), keys, _lengths(rows), rows, _NOTHING)
        sha256 = hashlib.sha256
        return [sha256(preimage).hexdigest() for preimage in preimages.to_pylist()]

    def _records(self, texts: list[pa.Array], joined: pa.Array) -> pa.Array:
        """Return the rows as records show them: under ``keys`` and ``counts`` no value but the sensitive ones' digests."""
        if self._detail in ("values", "digests"):
            return joined
        count = len(joined)
        hidden = repeated(_json(OMITTED), count)
        shown = [
            text if column.sensitive else hidden for text, column in zip(texts, self._comparison.columns, strict=True)
        ]
        return json_rows(shown, count)

    def raw_keys(self, block: Block) -> list[bytes | None]:
        """Return each row's key before any rule as canonical JSON, None where no key column has a rule."""
        if not self._comparison.raw_keys:
            return [None] * len(block)
        parts = [
            canonical(rules.Typed(column.carrier, array, None), column.carrier)
            for column, array in zip(self._comparison.target_key, block.raw_key, strict=True)
        ]
        return [_json(list(key)) for key in zip(*parts, strict=True)]


class _Found:
    """The keys of one batch in full; asked only where something is not unchanged.

    ``shown``: None where every row is a row of its own, else (row numbers in the block, places in ``encoded`` or -1).
    """

    def __init__(
        self,
        encoder: RowEncoder,
        block: Block,
        keys: list[bytes],
        encoded: Encoded,
        shown: tuple[Any, list[int]] | None,
        repeated: dict[int, int],
    ) -> None:
        self._encoder = encoder
        self._block = block
        self._keys = keys
        self._encoded = encoded
        self._shown = shown
        self._repeated = repeated
        self._raw_keys: list[bytes | None] | None = None

    def seen(self, number: int) -> Seen:
        row, place = (number, number) if self._shown is None else (int(self._shown[0][number]), self._shown[1][number])
        key = self._keys[row]
        if row in self._repeated:
            return Seen(key, REPEATED, rows=self._repeated[row])
        if place < 0:
            return Seen(key, LEFT_OUT)
        if place in self._encoded.codes:
            return Seen(key, REFUSED, reason=self._encoded.codes[place])
        record = self._encoded.records[place].as_py()
        return Seen(key, ROW, self._encoded.digests[place], record, raw_key=self._raw_key_list()[row])

    def rows(self, start: int, stop: int) -> list[tuple[bytes, bytes | None]]:
        """Return (row, raw key) of keys that all stand for a digested row."""
        raw_keys = self._raw_key_list()
        if self._shown is None:
            records = self._encoded.records.slice(start, stop - start).to_pylist()
            return list(zip(records, raw_keys[start:stop], strict=True))
        rows, places = self._shown[0][start:stop].tolist(), self._shown[1][start:stop]
        records = self._encoded.records.take(index_array(places)).to_pylist()
        return [(record, raw_keys[row]) for record, row in zip(records, rows, strict=True)]

    def _raw_key_list(self) -> list[bytes | None]:
        if self._raw_keys is None:
            self._raw_keys = self._encoder.raw_keys(self._block)
        return self._raw_keys


@dataclass(frozen=True, slots=True)
class _Column:
    """One column on its way to JSON text."""

    column: ComparedColumn
    recorder: Recorder

    def texts(self, array: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """Return the JSON text of each value, and for refused rows the code instead."""
        try:
            return self._texts(array), {}
        except rules.UnparsedValue as error:
            code = error.error.code
        except DeltaError as error:
            code = error.code
            if not code.startswith(VALUE_CODES):
                raise
        if len(array) == 1:
            return pa.array([_NULL], _BYTES), {0: code if code.startswith(VALUE_CODES) else ValueRangeError.code}
        middle = len(array) // 2
        first, refused = self.texts(array.slice(0, middle))
        second, more = self.texts(array.slice(middle))
        return pa.concat_arrays([first, second]), refused | {row + middle: code for row, code in more.items()}

    def _texts(self, array: pa.Array) -> pa.Array:
        typed = rules.Typed(self.column.target, array, None)
        for rule in self.column.rules:
            typed = rules.apply(rule, typed, "target")
        return self.recorder.texts(typed)


def _mark_repeats(keys: list[bytes], block: Block, start: int, chosen: Any, shown: Any) -> dict[int, int]:
    """Take repeated keys out of ``chosen`` and all but a key's first row out of ``shown``; return rows read by first row.

    A key that began in the part before is shown there, where all its rows were counted.
    """
    found: dict[int, int] = {}
    for row, key in enumerate(keys):
        if key not in block.repeats:
            continue
        chosen[row] = False
        if start + row and block.keys[start + row - 1] == key:
            shown[row] = False
            continue
        count = 1
        while start + row + count < len(block) and block.keys[start + row + count] == key:
            count += 1
        found[row] = count
    return found


def _lengths(array: pa.Array) -> pa.LargeBinaryArray:
    """Return the length of each value as 4 bytes, big-endian."""
    sizes = np.ascontiguousarray(arrays.byte_lengths(array), ">u4")
    return arrays.binary_rows(sizes.view(np.uint8).reshape(len(array), 4))


def _json(value: Any) -> bytes:
    return memoryview(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).tobytes()  # else it keeps a 4 KiB buffer
