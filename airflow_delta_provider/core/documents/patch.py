"""Checkpoint and ledger documents: what stood there before a patch, and what became of each record (S10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import (
    CheckpointMismatchError,
    JsonDomainError,
    JsonNotCanonicalError,
    JsonSyntaxError,
    LedgerMismatchError,
    PatchRuleError,
)
from airflow_delta_provider.core.ids import SIDES, check_patch_rule

CHECKPOINT_FORMAT = "delta-checkpoint/1"
LEDGER_FORMAT = "delta-ledger/1"
ROLLBACK_RULE = "rollback"
OPS: Final = ("insert", "update", "delete", "none")
OUTCOMES: Final = ("already", "applied", "conflict", "skipped")
SKIP_REASONS: Final = (
    "DELTA_PATCH_REVIEW",
    "DELTA_PATCH_NEWER",
    "DELTA_PATCH_TIE",
    "DELTA_PATCH_ONE_SIDED",
    "DELTA_VALUE_LOSSY",
)

_CHECKPOINT = Shape("checkpoint", CheckpointMismatchError)
_LEDGER = Shape("ledger", LedgerMismatchError)


def build_checkpoint(
    body: Document,
    manifest: str,
    patch_id: str,
    rule: tuple[str, str | None],
    schema: Document,
    side: str,
) -> bytes:
    """Return a checkpoint header; ``rule`` is (name, column or None), ``schema`` the manifest's reference.

    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH) where the result would not be valid.
    """
    data = jsonc.dumps(
        {
            "body": body,
            "format": CHECKPOINT_FORMAT,
            "manifest": manifest,
            "patch_id": patch_id,
            "rule": {"column": rule[1], "name": rule[0]},
            "schema": schema,
            "side": side,
        }
    )
    parse_checkpoint(data)
    return data


def parse_checkpoint(data: bytes) -> Document:
    """Return a checkpoint header, checked by itself.

    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH), FormatError and the errors of canonical JSON.
    """
    members = ("body", "format", "manifest", "patch_id", "rule", "schema", "side")
    document = _CHECKPOINT.parse(data, CHECKPOINT_FORMAT, members)
    _CHECKPOINT.block(document["body"], "body")
    _CHECKPOINT.digest(document["manifest"], "manifest")
    _CHECKPOINT.digest(document["patch_id"], "patch_id")
    _CHECKPOINT.reference(document["schema"], "schema")
    side = _CHECKPOINT.choice(document["side"], "side", SIDES)
    rule = _CHECKPOINT.members(document["rule"], "rule", ("column", "name"))
    name = _CHECKPOINT.text(rule["name"], "rule.name")
    column = None if rule["column"] is None else _CHECKPOINT.text(rule["column"], "rule.column", empty=False)
    if name != ROLLBACK_RULE or column is not None:
        try:
            check_patch_rule(name, column, side)
        except PatchRuleError as error:
            raise _CHECKPOINT.refuse("rule", "is not defined for this side") from error
    return document


def build_ledger(body: Document, checkpoint: str, manifest: str, outcomes: Mapping[str, int], patch_id: str) -> bytes:
    """Return a ledger header; ``outcomes`` may leave out zeros.

    Raises: LedgerMismatchError (DELTA_LEDGER_MISMATCH) where the result would not be valid.
    """
    data = jsonc.dumps(
        {
            "body": body,
            "checkpoint": checkpoint,
            "format": LEDGER_FORMAT,
            "manifest": manifest,
            "outcomes": {**dict.fromkeys(OUTCOMES, 0), **outcomes},
            "patch_id": patch_id,
        }
    )
    parse_ledger(data)
    return data


def parse_ledger(data: bytes) -> Document:
    """Return a ledger header, checked by itself: its outcomes add up to its lines.

    Raises: LedgerMismatchError (DELTA_LEDGER_MISMATCH), FormatError and the errors of canonical JSON.
    """
    members = ("body", "checkpoint", "format", "manifest", "outcomes", "patch_id")
    document = _LEDGER.parse(data, LEDGER_FORMAT, members)
    body = _LEDGER.block(document["body"], "body")
    for member in ("checkpoint", "manifest", "patch_id"):
        _LEDGER.digest(document[member], member)
    outcomes = _LEDGER.members(document["outcomes"], "outcomes", OUTCOMES)
    total = sum(_LEDGER.count(count, f"outcomes.{name}") for name, count in outcomes.items())
    if total != body["records"]:
        raise _LEDGER.refuse("outcomes", f"add up to {total}, not to {body['records']} lines")
    return document


def parse_checkpoint_line(line: bytes) -> dict[str, Any]:
    """Return one line of a checkpoint body, checked by itself.

    Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH).
    """
    record = _CHECKPOINT.members(_load(_CHECKPOINT, line), "line", ("before", "id", "key", "sort_key"))
    if record["before"] is not None:
        _CHECKPOINT.items(record["before"], "line.before")
    _CHECKPOINT.items(record["key"], "line.key")
    _CHECKPOINT.digest(record["id"], "line.id")
    _CHECKPOINT.hex(record["sort_key"], "line.sort_key")
    return record


def parse_ledger_line(line: bytes) -> dict[str, Any]:
    """Return one line of a ledger body, checked by itself: op, outcome and reason go together.

    Raises: LedgerMismatchError (DELTA_LEDGER_MISMATCH).
    """
    record = _LEDGER.members(_load(_LEDGER, line), "line", ("id", "op", "outcome", "reason", "sort_key"))
    _LEDGER.digest(record["id"], "line.id")
    _LEDGER.hex(record["sort_key"], "line.sort_key")
    operation = _LEDGER.choice(record["op"], "line.op", OPS)
    outcome = _LEDGER.choice(record["outcome"], "line.outcome", OUTCOMES)
    reasons = {"conflict": ("DELTA_PATCH_CONFLICT",), "skipped": SKIP_REASONS}.get(outcome)
    if reasons is None and record["reason"] is not None:
        raise _LEDGER.refuse("line.reason", f"does not go with {outcome}")
    if reasons is not None:
        _LEDGER.choice(record["reason"], "line.reason", reasons)
    if (outcome == "applied" and operation == "none") or (outcome == "skipped" and operation != "none"):
        raise _LEDGER.refuse("line.op", f"is {operation}, which does not go with {outcome}")
    return record


def _load(shape: Shape, line: bytes) -> object:
    try:
        return jsonc.loads(line)
    except (JsonSyntaxError, JsonDomainError, JsonNotCanonicalError) as error:
        raise shape.refuse("line", "is no canonical JSON") from error
