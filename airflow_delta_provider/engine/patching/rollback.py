"""Take a patch back: the inverse, only where the row is still what the patch left, then proved (docs/format.md, S10)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from airflow_delta_provider.adapters.open import open_side as open_any_side
from airflow_delta_provider.adapters.writers.changes import Change
from airflow_delta_provider.adapters.writers.open import open_writer as open_any_writer
from airflow_delta_provider.core import checkpoint
from airflow_delta_provider.core.documents.patch import ROLLBACK_RULE
from airflow_delta_provider.core.errors import (
    CheckpointMismatchError,
    LedgerMismatchError,
    ValueLossyError,
)
from airflow_delta_provider.core.ids import rollback_id
from airflow_delta_provider.core.ledger import find_ledgers, ledger_lines
from airflow_delta_provider.core.log import pair_id_of
from airflow_delta_provider.core.patch import (
    DELETE,
    INSERT,
    LOSSY,
    NONE,
    SKIPPED,
    PatchRule,
    decide_rollback,
    left_by,
)
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.opened import OpenSide, open_sides
from airflow_delta_provider.engine.patching import view
from airflow_delta_provider.engine.patching.apply import Step, nothing, write
from airflow_delta_provider.engine.patching.checks import check_hazards
from airflow_delta_provider.engine.patching.context import context_of
from airflow_delta_provider.engine.patching.decide import Decider
from airflow_delta_provider.engine.patching.finish import finish, finished
from airflow_delta_provider.engine.patching.options import OpenWriter, PatchOptions, PatchOutcome
from airflow_delta_provider.engine.patching.prepare import Before, demand_whole_rows, readable_names
from airflow_delta_provider.engine.patching.rows import TouchedRows
from airflow_delta_provider.engine.patching.spool import Item, Spool
from airflow_delta_provider.engine.patching.verified import load_manifest


def rollback_patch(
    spec: Spec,
    store: Store,
    patch_id: str,
    options: PatchOptions,
    *,
    open_side: OpenSide = open_any_side,
    open_writer: OpenWriter = open_any_writer,
    hmac_key: HmacKey | None = None,
    seal_key: bytes | None = None,
    step: Step = nothing,
) -> PatchOutcome:
    """Take a patch back and prove that what it touched differs as it did before. Safe to repeat, as ``apply_patch`` is.

    Of ``options`` count all but those about the manifest's age, share and part; rule and side are those of the patch.
    Raises: CheckpointRequiredError (DELTA_CHECKPOINT_REQUIRED) for a patch that this pair never began;
    LedgerMismatchError (DELTA_LEDGER_MISMATCH) for one that was not finished; what ``apply_patch`` raises.
    """
    pair_id = _pair_id(spec)
    _, header = checkpoint.demand_checkpoint(store, pair_id, patch_id)
    if header["rule"]["name"] == ROLLBACK_RULE:
        raise CheckpointMismatchError(f"{patch_id} is a rollback itself.", where=patch_id)
    rule = PatchRule(header["rule"]["name"], header["rule"]["column"], header["side"])
    ledgers = find_ledgers(store, pair_id, patch_id)
    if not ledgers:
        raise LedgerMismatchError(f"Patch {patch_id} has no ledger: apply it again to finish it.", where=patch_id)
    options = replace(options, rule=rule)
    manifest = load_manifest(store, header["manifest"], options.trust, options.max_age_s)
    with open_sides(spec, open_side, hmac_key=hmac_key) as opened:
        found = context_of(opened, store, header["manifest"], manifest, rule, seal_key)
        context = replace(found, sign=options.sign)
        view.check_detail(context, options.ledger_detail)
        writer = open_writer(context.side_spec())
    taken_back = rollback_id(patch_id, ledgers[0][0])
    with tempfile.TemporaryDirectory(prefix="delta-rollback-") as name, writer:
        folder = Path(name)
        (folder / "old").mkdir()
        facts = writer.facts()
        rows = TouchedRows(writer, context, readable_names(writer))
        old = Before(context, rows, patch_id, (rule.name, rule.column), folder / "old")
        if not old.load():
            raise CheckpointMismatchError(f"The checkpoint of patch {patch_id} is gone.", where=patch_id)
        ranges = options.checkpoint_scope == "ranges"
        now = Before(context, rows, taken_back, (ROLLBACK_RULE, None), folder, ranges=ranges)
        if not now.load():
            now.take()
        spool = Spool(folder / "items")
        inverse = _Inverse(Decider(context, rows.forms, writer, {}), rows, rule)
        for items in inverse.items(old, now, ledger_lines(store, ledgers[0][1])):
            spool.write(items)
        spool.close()
        done = find_ledgers(store, pair_id, taken_back)
        if done:
            ending = finished(context, taken_back, now.digest, done[0], spool)
        else:
            check_hazards(options, writer, facts, spool.planned)
            if spool.planned.counts[DELETE]:
                demand_whole_rows(writer)
            ending = write(context, taken_back, now, spool, facts, options, step)
        ending.surroundings = now.surroundings
        view.show(context, ending, options.ledger_detail, partial(view.taken_back, old, now, rows.forms), rows.forms)
    ending.rollback = True
    return finish(context, open_side, ending, spool, step)


def _pair_id(spec: Spec) -> str:
    source = spec.source.label if spec.source is not None else ""
    return pair_id_of(spec.name, source, spec.target.label)


class _Inverse:
    """Decides what each record of a patch needs to be taken back."""

    def __init__(self, decider: Decider, rows: TouchedRows, rule: PatchRule) -> None:
        self._decider = decider
        self._rows = rows
        self._rule = rule
        self._number = 0

    def items(self, old: Before, now: Before, entries: Iterator[list[dict[str, Any]]]) -> Iterator[list[Item]]:
        """Yield the items of all records. Raises: LedgerMismatchError where a ledger line is not that of its record."""
        flat = (entry for batch in entries for entry in batch)
        for old_lines, now_lines in zip(old.lines(), now.lines(), strict=True):
            items = []
            for (record, was, was_raw), (_, is_now, is_raw) in zip(old_lines, now_lines, strict=True):
                entry = next(flat, None)
                if entry is None or entry["id"] != record["id"]:
                    raise LedgerMismatchError("A line of the ledger is not that of its record.", where=record["id"])
                items.append(self._item(record, entry, (was, was_raw), (is_now, is_raw)))
            yield items
        if next(flat, None) is not None:
            raise LedgerMismatchError("The ledger has more lines than the manifest has records.", where="body")

    def _item(
        self,
        record: dict[str, Any],
        entry: Mapping[str, Any],
        old: tuple[Sequence[Any] | None, Mapping[str, Any] | None],
        now: tuple[Sequence[Any] | None, Mapping[str, Any] | None],
    ) -> Item:
        forms = self._decider.forms
        was, is_now = forms.recorded(old[0]), forms.recorded(now[0])
        decision = decide_rollback(entry, was, is_now, left_by(record, was, self._rule, forms.places))
        raw_key = self._raw_key(record, old[1], now[1])
        item = Item(self._number, record["id"], bytes.fromhex(record["sort_key"]), record["key"], raw_key, decision)
        self._number += 1
        if decision.outcome is None:
            try:
                item.change = self._change(record, decision.op, old, now, raw_key)
            except ValueLossyError:
                item.decision = replace(decision, op=NONE, outcome=SKIPPED, reason=LOSSY)
        return item

    def _raw_key(
        self, record: dict[str, Any], old: Mapping[str, Any] | None, now: Mapping[str, Any] | None
    ) -> list[Any] | None:
        stored = now if now is not None else old
        if stored is not None:
            return [stored[column.own] for column in self._decider.forms.key]
        return self._rows.raw_key(record)

    def _change(
        self,
        record: dict[str, Any],
        op: str,
        old: tuple[Sequence[Any] | None, Mapping[str, Any] | None],
        now: tuple[Sequence[Any] | None, Mapping[str, Any] | None],
        raw_key: list[Any] | None,
    ) -> Change:
        decider = self._decider
        if raw_key is None:
            raise ValueLossyError("The side cannot hold the key.")
        key = dict(zip((column.own for column in decider.forms.key), raw_key, strict=True))
        was, is_now = decider.stored(old[0], old[1], key), decider.stored(now[0], now[1], key)
        columns = decider.writer.columns
        if op == DELETE:
            return Change(DELETE, key, {}, is_now or {})
        if op == INSERT:
            values = {name: value for name, value in (was or {}).items() if name not in key}
            return Change(INSERT, key, {name: value for name, value in values.items() if not columns[name].generated})
        changed = [decider.forms.columns[decider.forms.places[name]].own for name in record["columns"]]
        values = {name: (was or {})[name] for name in changed if not columns[name].generated}
        return Change(op, key, values, decider.compared(is_now or {}))
