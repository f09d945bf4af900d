"""What became of a manifest's differences: its patches, their ledgers, and what was taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.documents.patch import ROLLBACK_RULE, parse_checkpoint, parse_ledger
from airflow_delta_provider.core.errors import CheckpointMismatchError, LedgerMismatchError
from airflow_delta_provider.core.ids import rollback_id
from airflow_delta_provider.core.ledger import HEADER_BYTES_MAX
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.published import all_sidecars
from airflow_delta_provider.report.material import Material

BEGUN, APPLIED, TAKEN_BACK = "begun", "applied", "taken back"
TIME_CHARS = 19


@dataclass(frozen=True, slots=True)
class PatchState:
    """One patch or rollback of a manifest.

    Shape: ``state`` is ``begun`` (a checkpoint and no ledger: look at it, or run it again), ``applied`` or ``taken back``;
    ``outcomes`` counts records by outcome, empty where there is no ledger. ``takes_back`` is the patch that a rollback undoes.
    ``listed``: the newest sidecar's list of records that were left, in the detail that the patch was asked for, or None.
    """

    patch_id: str
    side: str
    rule: str
    state: str
    outcomes: dict[str, int]
    checkpoint: str
    ledger: str | None
    seq: int
    takes_back: str | None = None
    listed: dict[str, Any] | None = None
    approved: str = ""
    """Who approved it and when, as the sidecar of its ledger says; empty where none does."""

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "approved": self.approved or None,
            "checkpoint": self.checkpoint,
            "ledger": self.ledger,
            "listed": self.listed,
            "outcomes": self.outcomes,
            "patch": self.patch_id,
            "rule": self.rule,
            "seq": self.seq,
            "side": self.side,
            "state": self.state,
            "takes_back": self.takes_back,
        }


def patches_of(material: Material) -> list[PatchState]:
    """Return the patches and rollbacks of a manifest, in the order of its log.

    Raises: CheckpointMismatchError, LedgerMismatchError where a header is damaged.
    """
    checkpoints = dict(_headers(material, "checkpoint"))
    ledgers = dict(_headers(material, "ledger"))
    by_patch = {header["patch_id"]: (digest, header) for digest, (_, header) in ledgers.items()}
    views = _views(material, ledgers)
    undone = {rollback_id(header["patch_id"], digest): header["patch_id"] for digest, (_, header) in ledgers.items()}
    taken_back = {undone[patch_id] for patch_id in by_patch if patch_id in undone}
    found = []
    for digest, (seq, header) in checkpoints.items():
        patch_id = header["patch_id"]
        ledger = by_patch.get(patch_id)
        state = BEGUN if ledger is None else TAKEN_BACK if patch_id in taken_back else APPLIED
        outcomes = {} if ledger is None else dict(ledger[1]["outcomes"])
        rule = " ".join(part for part in (header["rule"]["name"], header["rule"]["column"]) if part)
        undoes = undone.get(patch_id) if header["rule"]["name"] == ROLLBACK_RULE else None
        ledger_id = None if ledger is None else ledger[0]
        listed, approved = views.get(ledger_id or "", (None, ""))
        found.append(
            PatchState(
                patch_id, header["side"], rule, state, outcomes, digest, ledger_id, seq, undoes, listed, approved
            )
        )
    return found


def _views(
    material: Material, ledgers: dict[str, tuple[int, documents.Document]]
) -> dict[str, tuple[dict[str, Any] | None, str]]:
    """Return what the newest sidecars of each ledger list of its records, and whom they name as its approver."""
    first = min((seq for seq, _ in ledgers.values()), default=None)
    if first is None:
        return {}
    later = [entry for entry in material.entries if entry.seq > first]
    found: dict[str, tuple[dict[str, Any] | None, str]] = {}
    for _, sidecar in all_sidecars(material.store, later):
        ledger, listed = str(sidecar.get("for")), sidecar.get("ledger_view")
        if ledger in ledgers:
            before, approved = found.get(ledger, (None, ""))
            found[ledger] = (listed if isinstance(listed, dict) else before, _approval(sidecar) or approved)
    return found


def _approval(sidecar: dict[str, Any]) -> str:
    approval = sidecar.get("approval")
    if not isinstance(approval, dict) or not isinstance(approval.get("by"), dict):
        return ""
    return f"{approval['by'].get('name') or approval['by'].get('id', '')}, {str(approval.get('at', ''))[:TIME_CHARS]}"


def _headers(material: Material, kind: str) -> Iterator[tuple[str, tuple[int, documents.Document]]]:
    """Yield the logged headers of a kind that are for this manifest: digest, log number and document."""
    parse = parse_checkpoint if kind == "checkpoint" else parse_ledger
    error = CheckpointMismatchError if kind == "checkpoint" else LedgerMismatchError
    for entry in material.entries:
        if entry.kind == kind:
            header = parse(get_blob(material.store, entry.ref, HEADER_BYTES_MAX, error))
            if header["manifest"] == material.manifest_id:
                yield entry.ref, (entry.seq, header)
