"""What a patch makes of one record: the row that is wanted, or the reason why nothing is written (docs/format.md, S10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import ids
from airflow_delta_provider.core.errors import (
    DeltaError,
    PatchConflictError,
    PatchReviewError,
    PatchRuleError,
    ValueLossyError,
)
from airflow_delta_provider.core.keys import encode_component
from airflow_delta_provider.core.types import KEY_KINDS, LogicalType

CONFLICT = PatchConflictError.code
REVIEW = PatchReviewError.code
LOSSY = ValueLossyError.code
NEWER, TIE, ONE_SIDED = "DELTA_PATCH_NEWER", "DELTA_PATCH_TIE", "DELTA_PATCH_ONE_SIDED"
ALREADY, APPLIED, CONFLICTED, SKIPPED = "already", "applied", "conflict", "skipped"
INSERT, UPDATE, DELETE, NONE = "insert", "update", "delete", "none"
SIDE_OF = {"added": "target", "dropped": "source"}
"""The side that has the row of a one-sided record."""

Row = list[Any] | None
"""The non-key values of a row in recorded form, in schema order; None where the key is not there."""


@dataclass(frozen=True, slots=True)
class PatchRule:
    """Which rows win and which side is written to.

    Shape: ``column`` is a documented column name under ``last_writer_wins``, else None; ``side`` is the one written to.
    Raises: PatchRuleError (DELTA_PATCH_RULE) for a combination that is not defined.
    """

    name: str = "source_authoritative"
    column: str | None = None
    side: str = "target"

    def __post_init__(self) -> None:
        ids.check_patch_rule(self.name, self.column, self.side)

    @property
    def other(self) -> str:
        """The side that is read."""
        return "source" if self.side == "target" else "target"

    def patch_id(self, manifest: str) -> str:
        """Return the id of the patch of a manifest under this rule."""
        return ids.patch_id(manifest, self.name, self.column, self.side)

    def check_column(self, columns: Mapping[str, LogicalType]) -> None:
        """Refuse a column that is not compared or has no order. Raises: PatchRuleError (DELTA_PATCH_RULE)."""
        if self.column is None:
            return
        kind = columns.get(self.column)
        if kind is None or kind.kind not in KEY_KINDS:
            known = ", ".join(sorted(name for name, kind in columns.items() if kind.kind in KEY_KINDS))
            raise PatchRuleError(f"{self.column!r} is no compared column of a key type; these are: {known}.")


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one record, from the record and the row before.

    Shape: ``outcome`` is None where it depends on the final state; ``op`` is then what is to be written, and ``wanted``
    the row that shall stand there (None: no row).
    """

    op: str
    outcome: str | None = None
    reason: str | None = None
    wanted: Row = None


def decide(
    rule: PatchRule,
    record: Mapping[str, Any],
    before: Row,
    places: Mapping[str, int],
    stamps: tuple[Any, Any, LogicalType] | None = None,
) -> Decision:
    """Return what becomes of a record.

    ``before``: the row of the written side in recorded form. ``places``: schema position of each compared column.
    ``stamps``: under ``last_writer_wins`` the rule's column of a row that is on both sides, in clear and as read:
    (written side's value, other side's value, type). It need not have diverged: a rule may call unlike values equal.
    """
    skipped = _skipped(rule, record, before, stamps)
    if skipped is not None:
        return Decision(NONE, SKIPPED, skipped)
    recorded, other = record[f"{rule.side}_value"], record[f"{rule.other}_value"]
    if record["category"] != "value_diverged":
        if before == other:
            return Decision(NONE, ALREADY, None, other)
        if before != recorded:
            return Decision(NONE, CONFLICTED, CONFLICT)
        return Decision(INSERT if other is not None else DELETE, wanted=other)
    if before is None:
        return Decision(NONE, CONFLICTED, CONFLICT)
    at = [places[name] for name in record["columns"]]
    wanted = list(before)
    for place, value in zip(at, other, strict=True):
        wanted[place] = value
    if before == wanted:
        return Decision(NONE, ALREADY, None, wanted)
    if [before[place] for place in at] != recorded:
        return Decision(NONE, CONFLICTED, CONFLICT)
    return Decision(UPDATE, wanted=wanted)


def _skipped(
    rule: PatchRule, record: Mapping[str, Any], before: Row, stamps: tuple[Any, Any, LogicalType] | None
) -> str | None:
    """Return the reason why the rule writes nothing for this record, or None."""
    if rule.name == "flag_for_review":
        return REVIEW
    if rule.name != "last_writer_wins":
        return None
    if record["category"] != "value_diverged":
        return ONE_SIDED
    if before is None:
        return None
    mine, other, kind = stamps if stamps is not None else (None, None, LogicalType("text"))
    if mine is None or other is None:
        return TIE
    try:
        keys = [encode_component(value, kind.kind) for value in (mine, other)]
    except DeltaError:
        return TIE  # an infinite time or a broken text has no place in key order: a person decides
    return TIE if keys[0] == keys[1] else NEWER if keys[0] > keys[1] else None


def decide_rollback(entry: Mapping[str, Any], old: Row, before: Row, left: Row) -> Decision:
    """Return what becomes of one record when its patch is taken back.

    ``entry``: its line of the patch's ledger. ``old``: the row before the patch. ``before``: the row now, before the
    rollback. ``left``: the row that the patch left; all in recorded form. A row that somebody else has brought back
    already is a conflict too: it is no longer what the patch left.
    """
    if entry["outcome"] != APPLIED:
        return Decision(NONE, ALREADY, None, before)
    if before != left:
        return Decision(NONE, CONFLICTED, CONFLICT)
    op = DELETE if old is None else INSERT if before is None else UPDATE
    return Decision(op, wanted=old)


def left_by(record: Mapping[str, Any], old: Row, rule: PatchRule, places: Mapping[str, int]) -> Row:
    """Return the row that an applied record left, in recorded form."""
    other = record[f"{rule.other}_value"]
    if record["category"] != "value_diverged" or old is None:
        return other  # type: ignore[no-any-return]  # JSON of a record
    row = list(old)
    for name, value in zip(record["columns"], other, strict=True):
        row[places[name]] = value
    return row


def settled(decision: Decision, state: str) -> tuple[str, str, str | None]:
    """Return (op, outcome, reason) of a ledger line; ``state`` is ``wanted``, ``neither`` or ``lossy`` at the end."""
    if decision.outcome is not None:
        return decision.op, decision.outcome, decision.reason
    if state == "lossy":
        return NONE, SKIPPED, LOSSY
    if state == "wanted":
        return decision.op, APPLIED, None
    return decision.op, CONFLICTED, CONFLICT


def counted(outcomes: Sequence[str]) -> dict[str, int]:
    """Return how often each outcome occurs, zeros included."""
    return {name: outcomes.count(name) for name in (ALREADY, APPLIED, CONFLICTED, SKIPPED)}
