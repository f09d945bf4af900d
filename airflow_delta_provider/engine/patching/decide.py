"""From records and the rows before to decided items: what to write for each, as the table stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import Change
from airflow_delta_provider.core.errors import PatchManifestError, ValueLossyError
from airflow_delta_provider.core.patch import DELETE, INSERT, LOSSY, NONE, SKIPPED, UPDATE, Decision, decide
from airflow_delta_provider.core.patch_rows import PatchColumn, RowForms, is_clear
from airflow_delta_provider.core.patch_values import reads_otherwise, stored_value
from airflow_delta_provider.core.stream import key_text
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.spool import Item

Raw = Mapping[str, Any] | None


class Decider:
    """Decides records of one patch."""

    def __init__(
        self, context: Context, forms: RowForms, writer: Writer, others: Mapping[bytes, list[Any]], number: int = 0
    ) -> None:
        self.context = context
        self.forms = forms
        self.writer = writer
        self.others = others
        self.number = number
        # A value that was read from a column of the pair's own type is one that the column holds.
        self._as_read = [
            column.schema.schema == column.stored.schema
            and not reads_otherwise(column.rules, column.stored, column.schema)
            for column in forms.columns
        ]

    @property
    def all_as_read(self) -> bool:
        """True where every compared column stores its recorded values."""
        return all(self._as_read)

    def decide(self, record: dict[str, Any], before: Sequence[Any] | None, raw: Raw, raw_key: list[Any] | None) -> Item:
        """Return one record with what is to be written for it.

        ``before``: the row of the checkpoint, in clear. ``raw``: the same row as stored, None where only the
        checkpoint has it.
        Raises: PatchManifestError where the other side's row is no longer what the manifest recorded.
        """
        context, sort_key = self.context, bytes.fromhex(record["sort_key"])
        recorded = self.forms.recorded(before)
        decision = decide(context.rule, record, recorded, self.forms.places, self._stamps(record, before, sort_key))
        item = Item(self.number, record["id"], sort_key, record["key"], raw_key, decision)
        self.number += 1
        if decision.outcome is None:
            try:
                item.change = self._change(record, before, raw, raw_key, decision, sort_key)
            except ValueLossyError:
                item.decision = replace(decision, op=NONE, outcome=SKIPPED, reason=LOSSY)
        return item

    def _stamps(self, record: dict[str, Any], before: Sequence[Any] | None, sort_key: bytes) -> Any:
        rule = self.context.rule
        if rule.name != "last_writer_wins" or record["category"] != "value_diverged" or before is None:
            return None
        place = self.forms.places[str(rule.column)]
        mine, other = before[place], self._other(record, sort_key)[place]
        for name, one, two in zip(
            record["columns"], record[f"{rule.side}_value"], record[f"{rule.other}_value"], strict=True
        ):
            if name == rule.column and is_clear(one) and is_clear(two):
                mine, other = one, two
        return mine, other, self.forms.columns[place].schema

    def _other(self, record: dict[str, Any], sort_key: bytes) -> list[Any]:
        """Return the other side's row in clear, which must be the one that was recorded."""
        row = self.others.get(sort_key)
        names = record.get("columns") or [column.name for column in self.forms.columns]
        values = record[f"{self.context.rule.other}_value"]
        if row is not None and values is not None:
            same = (
                self.forms.recorded_value(name, row[self.forms.places[name]]) == value
                for name, value in zip(names, values, strict=True)
            )
            if all(same):
                return row
        key = key_text(sort_key, self.context.key_types)
        raise PatchManifestError(
            f"{self.context.rule.other}: the row of key {key} is no longer the one that was compared.", where=key
        )

    def _wanted(self, record: dict[str, Any], sort_key: bytes) -> list[tuple[PatchColumn, Any]]:
        """Return the columns that the record changes, with their wanted values in clear."""
        names = record.get("columns") or [column.name for column in self.forms.columns]
        values = record[f"{self.context.rule.other}_value"]
        if not all(is_clear(value) for value in values):
            row = self._other(record, sort_key)
            values = [row[self.forms.places[name]] for name in names]
        return [(self.forms.columns[self.forms.places[name]], value) for name, value in zip(names, values, strict=True)]

    def _change(
        self,
        record: dict[str, Any],
        before: Sequence[Any] | None,
        raw: Raw,
        raw_key: list[Any] | None,
        decision: Decision,
        sort_key: bytes,
    ) -> Change:
        if raw_key is None:
            raise ValueLossyError("The side cannot hold the key.")
        key = dict(zip((column.own for column in self.forms.key), raw_key, strict=True))
        stored = self.stored(before, raw, key)
        if decision.op == DELETE:
            return Change(DELETE, key, {}, stored or {})
        values = {}
        for column, value in self._wanted(record, sort_key):
            held = stored_value(value, column.schema, column.stored, column.rules, self.context.side)
            self.demand(column.own, held)
            if not self.writer.columns[column.own].generated:
                values[column.own] = held
        if decision.op == INSERT:
            for name, value in key.items():
                self.demand(name, value)
            return Change(INSERT, key, values)
        if not values or any(self.writer.columns[name].always for name in values):
            raise ValueLossyError("The engine alone gives these columns their values.")
        return Change(UPDATE, key, values, self.compared(stored or {}))

    def stored(self, before: Sequence[Any] | None, raw: Raw, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a row as stored: from the restore body, or from the checkpoint where that says it all."""
        if raw is not None or before is None:
            return None if raw is None else dict(raw)
        row = dict(key)
        for column, value, as_read in zip(self.forms.columns, before, self._as_read, strict=True):
            row[column.own] = (
                value if as_read else stored_value(value, column.schema, column.stored, column.rules, self.context.side)
            )
        return row

    def compared(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the compared columns of a stored row."""
        return {column.own: stored[column.own] for column in self.forms.columns}

    def demand(self, name: str, value: Any) -> None:
        """Refuse a value that a column cannot hold as far as that is known before it is written."""
        column = self.writer.columns[name]
        if value is None and not column.read.column.nullable and not column.generated:
            raise ValueLossyError("The column takes no NULL.")
        if not self.writer.holds(name, value):
            raise ValueLossyError("The engine has no form for the value.")
