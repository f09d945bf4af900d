"""Rows of the side that is patched: as stored, as recorded in clear, and as records hold them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core import ids, jsonc, keyvec, rules, values
from airflow_delta_provider.core.errors import HmacKeyError, shown
from airflow_delta_provider.core.recorded import ComparedColumn, HmacKey, Recorder, canonical
from airflow_delta_provider.core.types import LogicalType

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchColumn:
    """One column of the side that is patched, key or compared.

    ``name``: as documents write it. ``own``: its name on this side. ``schema``: the pair's type (of a key column: the
    key's). ``stored``: the type of this side. ``rules``: rule documents in order. ``keyed``: recorded as keyed digest.
    """

    name: str
    own: str
    schema: LogicalType
    stored: LogicalType
    rules: tuple[Rule, ...] = ()
    keyed: bool = False


@dataclass(slots=True)
class StoredRow:
    """One row that is there.

    Shape: ``raw`` canonical values as stored, by the side's column name; ``clear`` the compared columns in schema order,
    recorded form in clear at full length; ``recorded`` the same as records hold them.
    """

    raw: dict[str, Any]
    clear: list[Any]
    recorded: list[Any]


class RowForms:
    """Brings rows of one side into every form that a patch needs.

    Shape: ``key`` and ``columns`` in schema order; ``types``: the stored type of each column of the table that is read.
    Raises: HmacKeyError (DELTA_HMAC_KEY) where a column is recorded as keyed digest and no key is at hand.
    """

    def __init__(
        self,
        side: str,
        key: Sequence[PatchColumn],
        columns: Sequence[PatchColumn],
        inline_limit: int,
        hmac_key: HmacKey | None,
    ) -> None:
        self.side = side
        self.key = tuple(key)
        self.columns = tuple(columns)
        self.key_types = [column.schema for column in key]
        self.places = {column.name: place for place, column in enumerate(columns)}
        self._forms = [_recorder(column, inline_limit, hmac_key) for column in columns]

    def recorded(self, clear: Sequence[Any] | None) -> list[Any] | None:
        """Return a clear row as records hold it; None stays None."""
        if clear is None:
            return None
        return [form(value) for form, value in zip(self._forms, clear, strict=True)]

    def recorded_value(self, name: str, clear: Any) -> Any:
        """Return one clear value of a compared column as records hold it."""
        return self._forms[self.places[name]](clear)

    def rows(self, batch: pa.RecordBatch, types: Mapping[str, LogicalType]) -> Iterator[tuple[bytes, StoredRow]]:
        """Yield key bytes and row of each row of a batch whose columns are named as on this side.

        ``types``: the stored type of every column of the batch. Raises: ValueTextError where a rule cannot read a value.
        """
        names = batch.schema.names
        arrays = {name: batch.column(place) for place, name in enumerate(names)}
        raw = [canonical(rules.Typed(types[name], arrays[name], None), types[name]) for name in names]
        clear = [self._clear(column, arrays[column.own], types[column.own]) for column in self.columns]
        keys = self.key_bytes(batch, types)
        for at in range(batch.num_rows):
            row = [column[at] for column in clear]
            stored = {name: part[at] for name, part in zip(names, raw, strict=True)}
            yield keys[at], StoredRow(stored, row, [form(value) for form, value in zip(self._forms, row, strict=True)])

    def clear_texts(self, batch: pa.RecordBatch, types: Mapping[str, LogicalType]) -> list[pa.LargeBinaryArray]:
        """Return for each compared column the canonical JSON of ``StoredRow.clear``, one text a row of the batch.

        Raises: ValueTextError where a rule cannot read a value.
        """
        texts = []
        for column in self.columns:
            shown_as = ComparedColumn(column.name, column.stored, column.stored, column.schema)
            recorder = Recorder(shown_as, "values", sys.maxsize, None)
            texts.append(recorder.texts(self._read(column, batch.column(column.own), types[column.own])))
        return texts

    def stored_texts(self, batch: pa.RecordBatch, types: Mapping[str, LogicalType]) -> dict[str, pa.LargeBinaryArray]:
        """Return for each column of a batch the canonical JSON of ``StoredRow.raw``, one text a row."""
        texts = {}
        for name in batch.schema.names:
            recorder = Recorder(
                ComparedColumn(name, types[name], types[name], types[name]), "values", sys.maxsize, None
            )
            texts[name] = recorder.texts(rules.Typed(types[name], batch.column(name), None))
        return texts

    def key_bytes(self, batch: pa.RecordBatch, types: Mapping[str, LogicalType]) -> list[bytes]:
        """Return the canonical key bytes of each row."""
        arrays, carriers = [], []
        for column in self.key:
            place = batch.schema.get_field_index(column.own)
            typed = rules.Typed(types[column.own], batch.column(place), None)
            try:
                typed = rules.apply_key_rules(list(column.rules), typed, self.side)
            except rules.UnparsedValue as error:
                raise error.error(
                    f"{self.side}: key column {shown(column.own)!r} holds {shown(error.text)!r}, which {error.reason}.",
                    where=self.side,
                ) from error
            arrays.append(typed.array)
            carriers.append(typed.type)
        found: list[bytes] = keyvec.encode_keys(arrays, carriers, self.key_types).to_pylist()
        return found

    def _clear(self, column: PatchColumn, array: pa.Array, stored: LogicalType) -> list[Any]:
        return canonical(self._read(column, array, stored), column.schema)

    def _read(self, column: PatchColumn, array: pa.Array, stored: LogicalType) -> rules.Typed:
        """Return a column in recorded form."""
        try:
            return rules.recorded(list(column.rules), rules.Typed(stored, array, None), self.side)
        except rules.UnparsedValue as error:
            value = "a value" if column.keyed else repr(shown(error.text))
            raise error.error(
                f"{self.side}: column {shown(column.own)!r}: {value} {error.reason}.", where=self.side
            ) from error


def _recorder(column: PatchColumn, inline_limit: int, key: HmacKey | None) -> Callable[[Any], Any]:
    if not column.keyed:
        return lambda value: values.inlined(value, inline_limit)
    if key is None:
        raise HmacKeyError(f"column {shown(column.name)!r} is recorded as a keyed digest.", where="hmac")
    digest, key_id = ids.hmac_values(key.secret, column.name), key.key_id
    return lambda value: {"hmac": digest(jsonc.dumps_checked(value)), "key": key_id}


def is_clear(value: Any) -> bool:
    """Tell whether a recorded value is the value itself, and no digest of it."""
    return not isinstance(value, dict) or not ({"hmac", "sha256", "omitted", "row_digest"} & value.keys())
