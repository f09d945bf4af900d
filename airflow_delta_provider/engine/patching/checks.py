"""What is checked before a patch may write: its share of the rows, deletes of a part, triggers and cascades."""

from __future__ import annotations

from fractions import Fraction

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import TableFacts
from airflow_delta_provider.core.errors import PatchManifestError, PatchShareError, PatchUnsafeError, shown
from airflow_delta_provider.core.patch import DELETE, UPDATE
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.options import SHARE_ROWS_MIN, PatchOptions
from airflow_delta_provider.engine.patching.prepare import demand_whole_rows
from airflow_delta_provider.engine.patching.spool import Planned

SOURCE_ROWS_MIN = 1_000
"""From so many compared rows on, a source that has lost half of them is not trusted."""


def check_source(opened: Opened, context: Context) -> None:
    """Refuse a side that has lost its rows since the comparison: it is no good source of a repair.

    Raises: PatchShareError (DELTA_PATCH_SHARE).
    """
    other = context.rule.other
    compared = int(context.manifest["population"][other]["rows"])
    now = opened.side(other).estimate_rows() if compared >= SOURCE_ROWS_MIN else None
    whole = context.manifest["key_range"] == {"lower": None, "upper": None}
    if now is not None and whole and 2 * now < compared:
        raise PatchShareError(f"{other}: about {now} rows are there, {compared} were compared.", where=other)


def check_plan(context: Context, options: PatchOptions, writer: Writer, facts: TableFacts, planned: Planned) -> None:
    """Refuse a patch that is too large, deletes by a partial manifest, or would set off triggers or cascades.

    Raises: PatchShareError, PatchManifestError, PatchUnsafeError.
    """
    counts = planned.counts
    if counts[DELETE] and context.filtered and not options.partial_deletes:
        raise PatchManifestError(
            f"{counts[DELETE]} rows would be deleted by a manifest over a part of the rows (a key range or a filter);"
            " say so with --partial-deletes.",
            where="deletes",
        )
    changed = planned.changes
    rows = max(1, int(context.manifest["population"][context.side]["rows"]))
    if changed > SHARE_ROWS_MIN and Fraction(changed, rows) > options.max_share:
        raise PatchShareError(
            f"{changed} of {rows} rows would change; {float(options.max_share):.1%} are allowed.", where="max_share"
        )
    check_hazards(options, writer, facts, planned)
    if counts[DELETE]:
        demand_whole_rows(writer)


def check_hazards(options: PatchOptions, writer: Writer, facts: TableFacts, planned: Planned) -> None:
    """Refuse what would write more than the patch says, unless allowed by name. Raises: PatchUnsafeError."""
    ops = {op for op, count in planned.counts.items() if count}
    found = []
    for hazard in facts.hazards:
        acts = hazard.events & ops
        if acts == {UPDATE} and hazard.columns and not hazard.columns & planned.columns[UPDATE]:
            continue
        if acts and hazard.name not in options.allow:
            found.append(f"{hazard.kind} {shown(hazard.name)} on {', '.join(sorted(acts))}")
    if found:
        raise PatchUnsafeError(f"{writer.where}: {'; '.join(found)}.", where=writer.where)
