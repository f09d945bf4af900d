"""Plan and apply a patch: every step may be repeated after a crash and ends in the same state and the same ledger."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from airflow_delta_provider.adapters.open import open_side as open_any_side
from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import Bulk, TableFacts
from airflow_delta_provider.adapters.writers.open import open_writer as open_any_writer
from airflow_delta_provider.core.errors import CheckpointMismatchError
from airflow_delta_provider.core.ledger import find_ledgers, rolled_back
from airflow_delta_provider.core.patch import INSERT
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.opened import OpenSide, open_sides
from airflow_delta_provider.engine.patching import transaction, view
from airflow_delta_provider.engine.patching.attempt import Result
from airflow_delta_provider.engine.patching.bycolumns import NO_TEXTS, ByColumns, is_plain
from airflow_delta_provider.engine.patching.checks import check_plan, check_source
from airflow_delta_provider.engine.patching.context import Context, context_of
from airflow_delta_provider.engine.patching.decide import Decider
from airflow_delta_provider.engine.patching.finish import Ending, draft, finish, finished, preview, settle
from airflow_delta_provider.engine.patching.options import OpenWriter, PatchOptions, PatchOutcome, PatchPlan
from airflow_delta_provider.engine.patching.prepare import Before, readable_names
from airflow_delta_provider.engine.patching.rows import TouchedRows, other_rows
from airflow_delta_provider.engine.patching.spool import Item, Spool
from airflow_delta_provider.engine.patching.verified import verified

Step = Callable[[str], None]
"""Told before each step; tests end the process there."""


def nothing(step: str) -> None:
    """Do nothing at a step."""


@dataclass(slots=True)
class Prepared:
    """A decided patch: nothing is written yet, neither to the store nor to the table."""

    context: Context
    patch_id: str
    before: Before
    spool: Spool
    facts: TableFacts

    @property
    def rows(self) -> TouchedRows:
        """The rows of the written side."""
        return self.before.rows

    @property
    def writer(self) -> Writer:
        """The open writer."""
        return self.before.rows.writer


@contextmanager
def _prepared(
    spec: Spec,
    store: Store,
    manifest_id: str,
    options: PatchOptions,
    open_side: OpenSide,
    open_writer: OpenWriter,
    hmac_key: HmacKey | None,
    seal_key: bytes | None,
    writes: bool,
) -> Iterator[Prepared]:
    """Verify, open, read the rows before, decide and check; the sides are closed before the writer opens."""
    with ExitStack() as held:
        with verified(store, manifest_id, options) as manifest:
            with open_sides(spec, open_side, hmac_key=hmac_key) as opened:
                found = context_of(opened, store, manifest_id, manifest, options.rule, seal_key)
                context = replace(found, sign=options.sign)
                view.check_detail(context, options.ledger_detail)
                check_source(opened, context)
                writer = open_writer(context.side_spec())
                others = other_rows(context, opened)
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="delta-patch-")))
            prepared = _decided(context, held.enter_context(writer), others, options, folder, writes)
        yield prepared


def _decided(
    context: Context,
    writer: Writer,
    others: Mapping[bytes, list[Any]],
    options: PatchOptions,
    folder: Path,
    writes: bool,
) -> Prepared:
    """Read the rows before and decide what to write."""
    patch_id = options.rule.patch_id(context.manifest_id)
    facts = writer.facts()
    rows = TouchedRows(writer, context, readable_names(writer))
    ranges = options.checkpoint_scope == "ranges"
    before = Before(context, rows, patch_id, (options.rule.name, options.rule.column), folder, ranges=ranges)
    decider = Decider(context, rows.forms, writer, others)
    bulk = None
    if not before.load():
        bulk = _bulk(before, decider, facts, options, folder) if writes else None
        if bulk is None:
            before.take()
    spool = Spool(folder / "items", partial(_items, before, decider))
    if bulk is not None:
        ByColumns(before, decider, bulk, spool).run()
    else:
        for items in _items(before, decider):
            spool.write(items)
        spool.close()
    return Prepared(context, patch_id, before, spool, facts)


def _items(before: Before, decider: Decider) -> Iterator[list[Item]]:
    """Yield the decision about every record, one by one."""
    decider.number = 0
    for lines in before.lines():
        yield [decider.decide(record, point, raw, before.rows.raw_key(record)) for record, point, raw in lines]


def _bulk(before: Before, decider: Decider, facts: TableFacts, options: PatchOptions, folder: Path) -> Bulk | None:
    """Return what takes changes by columns, where there are many and all is plain."""
    context, writer = before.context, before.rows.writer
    many = int(context.manifest["body"]["records"]) >= transaction.BULK_ROWS_MIN and options.batch_rows is None
    if not many or not is_plain(context, before.rows, decider, facts):
        return None
    (folder / "bulk").mkdir()
    bulk = writer.bulk(folder / "bulk")
    names = [column.own for column in (*before.rows.forms.key, *before.rows.forms.columns)]
    return bulk if bulk is not None and all(bulk.reads(name, NO_TEXTS) for name in names) else None


def plan_patch(
    spec: Spec,
    store: Store,
    manifest_id: str,
    options: PatchOptions,
    *,
    open_side: OpenSide = open_any_side,
    open_writer: OpenWriter = open_any_writer,
    hmac_key: HmacKey | None = None,
    seal_key: bytes | None = None,
) -> PatchPlan:
    """Say what a patch would do; nothing is written anywhere.

    Raises: PatchManifestError, PatchRuleError, PatchSideError, PatchShareError, PatchUnsafeError, and what the store
    and the sides raise.
    """
    options = replace(options, checkpoint_scope="touched")
    with _prepared(spec, store, manifest_id, options, open_side, open_writer, hmac_key, seal_key, False) as prepared:
        check_plan(prepared.context, options, prepared.writer, prepared.facts, prepared.spool.planned)
        plan = preview(prepared.context, prepared.patch_id, prepared.rows, prepared.spool)
        if options.ledger_detail == "counts":
            return replace(plan, excluded=[])
        seen = partial(view.patched, prepared.before)
        view.add_rows(prepared.context, plan.excluded, options.ledger_detail, seen, prepared.rows.forms)
        return plan


def apply_patch(
    spec: Spec,
    store: Store,
    manifest_id: str,
    options: PatchOptions,
    *,
    open_side: OpenSide = open_any_side,
    open_writer: OpenWriter = open_any_writer,
    hmac_key: HmacKey | None = None,
    seal_key: bytes | None = None,
    step: Step = nothing,
) -> PatchOutcome:
    """Apply a patch: checkpoint, guarded writes in one transaction, ledger, proof.

    Safe to repeat: killed at any moment and started again it ends in the same rows and the same ledger; one that is
    finished writes nothing and proves again.
    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH) for a patch that was rolled back, PatchWriteError, and what
    ``plan_patch`` raises.
    """
    with _prepared(spec, store, manifest_id, options, open_side, open_writer, hmac_key, seal_key, True) as prepared:
        context, patch_id = prepared.context, prepared.patch_id
        ledgers = find_ledgers(store, context.pair_id, patch_id)
        taken_back = rolled_back(store, context.pair_id, patch_id, ledgers)
        if taken_back is not None:
            raise CheckpointMismatchError(f"Patch {patch_id} was taken back by {taken_back}.", where=patch_id)
        if ledgers:
            ending = finished(context, patch_id, prepared.before.digest, ledgers[0], prepared.spool)
        else:
            check_plan(context, options, prepared.writer, prepared.facts, prepared.spool.planned)
            ending = _write(prepared, options, step)
        ending.surroundings = prepared.before.surroundings
        seen = partial(view.patched, prepared.before)
        view.show(context, ending, options.ledger_detail, seen, prepared.rows.forms)
    return finish(context, open_side, ending, prepared.spool, step)


def _write(prepared: Prepared, options: PatchOptions, step: Step) -> Ending:
    return write(prepared.context, prepared.patch_id, prepared.before, prepared.spool, prepared.facts, options, step)


def write(
    context: Context, patch_id: str, before: Before, spool: Spool, facts: TableFacts, options: PatchOptions, step: Step
) -> Ending:
    """Publish the rows before, write in one transaction, publish the ledger.

    What stands in the way already, before anything was published, refuses the patch without a trace.
    """
    with tempfile.TemporaryDirectory(prefix="delta-ledger-") as name, ThreadPoolExecutor(1) as clerk:
        path = Path(name)
        if options.conflicts != "skip" and not before.digest and spool.planned.conflicts:
            return draft(patch_id, "", spool, transaction.refused(spool), path / "refused").ending
        step("checkpoint")
        before.publish()
        early = None
        if spool.bulk is not None:
            # Most of such patches are written as planned: their ledger is made while the server works.
            planned = transaction.written_at_once(spool)
            early = clerk.submit(draft, patch_id, before.digest, spool, planned, path / "early")
        result = _transaction(context, patch_id, before, spool, facts, options, step)
        if early is not None and result.at_once:
            return settle(context, early.result(), step)
        drafted = draft(patch_id, before.digest, spool, result, path / "ledger")
        return settle(context, drafted, step) if result.committed else drafted.ending


def _transaction(
    context: Context, patch_id: str, before: Before, spool: Spool, facts: TableFacts, options: PatchOptions, step: Step
) -> Result:
    keyed = facts.finds(column.own(context.side) for column in context.key)
    return transaction.apply(
        before.rows,
        spool,
        facts,
        patch_id,
        skip=options.conflicts == "skip",
        alone=context.ruled_key or (bool(spool.planned.counts[INSERT]) and not keyed),
        checkpoint=step,
        batch_rows=options.batch_rows,
        pause=partial(time.sleep, options.pause_s),
    )
