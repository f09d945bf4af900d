"""What a patch is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.core.errors import InputPolicyError
from airflow_delta_provider.core.patch import PatchRule
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.core.store.publish import Sign
from airflow_delta_provider.core.trust import Trust

CONFLICTS = ("refuse", "skip")
CHECKPOINT_SCOPES = ("touched", "ranges")
LEDGER_DETAILS = ("counts", "keys", "digests", "values")
MAX_SHARE = Fraction(1, 10)
SHARE_ROWS_MIN = 100
"""Up to so many changed rows a share says nothing: a small table may be repaired as a whole."""
PAUSE_S_MAX = 3600
PREVIEW_ROWS = 20
"""Changes of each kind that a preview shows."""
LISTED_MAX = 1000
"""Conflicts and exclusions that are listed one by one; all are counted, and the ledger has every one."""

OpenWriter = Callable[[SideSpec], Writer]
"""Opens the writer of one side; the command line and Airflow bring their own."""


@dataclass(frozen=True, slots=True)
class PatchOptions:
    """How a manifest is to be patched.

    ``conflicts``: ``refuse`` (any conflict leaves the table as it was) or ``skip`` (such rows are left and listed).
    ``allow``: names of triggers and foreign keys that may act. ``partial_deletes``: rows may be deleted by a manifest
    over a part of the keys, or under a filter. ``max_share``: largest share of the side's rows that may change.
    ``batch_rows``: under ``skip``, changes that are committed together, with ``pause_s`` seconds between two batches;
    None is all at once. ``max_age_s``: oldest manifest in seconds, by its sidecar; None is any. ``trust``: demands a trusted signature.
    ``checkpoint_scope``: ``touched`` (before-images of the touched rows) or ``ranges`` (also of every row between them).
    ``ledger_detail``: what an outcome and the page show of the records that were left: ``counts``, ``keys`` (with the
    reason), and with rows as keyed ``digests`` or as ``values``; sensitive columns are keyed digests throughout.
    ``workers``: processes; with 2 or more a large manifest is verified by others while this one reads the rows.
    ``sign``: gives the envelope of the manifest that proves the outcome; None leaves it unsigned.
    Raises: InputPolicyError (DELTA_INPUT_POLICY).
    """

    rule: PatchRule = field(default_factory=PatchRule)
    conflicts: str = "refuse"
    allow: frozenset[str] = frozenset()
    partial_deletes: bool = False
    max_share: Fraction = MAX_SHARE
    max_age_s: float | None = None
    trust: Trust | None = None
    batch_rows: int | None = None
    pause_s: float = 0.0
    checkpoint_scope: str = "touched"
    ledger_detail: str = "keys"
    sign: Sign | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        if self.checkpoint_scope not in CHECKPOINT_SCOPES:
            raise InputPolicyError(
                f"checkpoint_scope is one of {', '.join(CHECKPOINT_SCOPES)}, not {self.checkpoint_scope!r:.80}."
            )
        if self.ledger_detail not in LEDGER_DETAILS:
            raise InputPolicyError(
                f"ledger_detail is one of {', '.join(LEDGER_DETAILS)}, not {self.ledger_detail!r:.80}."
            )
        if self.conflicts not in CONFLICTS:
            raise InputPolicyError(f"conflicts is one of {', '.join(CONFLICTS)}, not {self.conflicts!r}.")
        if self.batch_rows is not None and self.conflicts != "skip":
            raise InputPolicyError(
                "batches commit one by one, so they go with conflicts skip only.", where="batch_rows"
            )
        if (self.batch_rows is not None and self.batch_rows < 1) or not 0 <= self.pause_s <= PAUSE_S_MAX:
            raise InputPolicyError(f"a batch has at least 1 row, a pause is 0 to {PAUSE_S_MAX} s.", where="batch_rows")
        if not 0 <= self.max_share <= 1:
            raise InputPolicyError(f"max_share is a share from 0 to 1, not {self.max_share}.")


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """What a patch would do.

    ``counts``: rows to insert, update and delete. ``outcomes``: what can be told already; ``planned`` is the rest.
    ``excluded``: records that are left out, with the reason, at most ``LISTED_MAX``. ``statements``: the first ones
    with their bound values; those of sensitive columns are hidden.
    """

    patch_id: str
    manifest: str
    rule: PatchRule
    counts: Mapping[str, int]
    outcomes: Mapping[str, int]
    excluded: list[dict[str, Any]]
    statements: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """Return the form that ``--dry-run --json`` prints and that the store keeps for an approval."""
        return {
            "patch": self.patch_id,
            "manifest": self.manifest,
            "rule": {"name": self.rule.name, "column": self.rule.column, "side": self.rule.side},
            "counts": dict(self.counts),
            "outcomes": dict(self.outcomes),
            "excluded": self.excluded,
            "statements": self.statements,
        }


@dataclass(frozen=True, slots=True)
class PatchOutcome:
    """What became of a patch or a rollback.

    ``applied``: False where a conflict left the table as it was; there is then no ledger, and ``converged`` is None;
    ``checkpoint`` is None where nothing at all was published.
    ``conflicts``, ``skipped``, ``left``: listed records: of conflicts, of those that the rule or the column left out,
    and of those that still differ afterwards with the reason; empty where only counts are shown. ``left_rows``: how many
    still differ. ``surroundings``: digest of the rows around, where they were kept. ``converged``: id of the manifest that proves it.
    ``proved``: nothing that was touched differs any more (after a rollback: everything differs as it did before).
    """

    patch_id: str
    checkpoint: str | None
    ledger: str | None
    outcomes: Mapping[str, int]
    conflicts: list[dict[str, Any]]
    skipped: list[dict[str, Any]]
    converged: str | None
    left: list[dict[str, Any]]
    proved: bool
    left_rows: int = 0
    surroundings: str | None = None

    @property
    def applied(self) -> bool:
        """True where the table is in the state that the ledger tells."""
        return self.ledger is not None

    def document(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return {
            "patch": self.patch_id,
            "checkpoint": self.checkpoint,
            "ledger": self.ledger,
            "outcomes": dict(self.outcomes),
            "conflicts": self.conflicts,
            "skipped": self.skipped,
            "converged": self.converged,
            "left": self.left,
            "left_rows": self.left_rows,
            "proved": self.proved,
            "surroundings": self.surroundings,
        }
