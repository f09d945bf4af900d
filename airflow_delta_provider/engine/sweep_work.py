"""What the steps of one sweep leave for each other in the work folder: the plan, its shards, and the swept parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import DeltaError, InputShardError, MergeContextError, MergeGapError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.predecessor import INDEX_BYTES_MAX
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.submanifest import Shared, shared_of
from airflow_delta_provider.engine.sweep_open import OpenedSweep, Start
from airflow_delta_provider.engine.sweep_whole import MergePart
from airflow_delta_provider.engine.work import PLAN_BYTES_MAX, Work

PLAN_FORMAT = "delta-sweep-plan/1"
SHARD_FORMAT = "delta-sweep-shard/1"
PART_FORMAT = "delta-sweep-part/1"
DOCUMENTS = ("schema", "contract", "structure")
HOLES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """What all shards of one plan share.

    Shape: ``spec`` as it was rendered, ``${ENV}`` unreplaced; ``documents`` digests by name; ``start`` the generation that
    the sweep starts from; ``shards`` how many there are; ``planned_ms`` when it was made, None without a limit of time.
    """

    digest: str
    spec: Spec
    documents: Mapping[str, str]
    pair: Mapping[str, str]
    identity: str
    start: Start
    shards: int
    planned_ms: int | None


@dataclass(frozen=True, slots=True)
class SweepShard:
    """One planned shard: its place in the plan, counted from 0, its key range, and the range for people."""

    digest: str
    plan: SweepPlan
    number: int
    key_range: KeyRange
    label: str


def write_sweep_plan(
    work: Work, spec: Spec, opened: OpenedSweep, ranges: Sequence[KeyRange], planned_ms: int | None
) -> list[str]:
    """Store the shared documents, the plan and its shards; return the digests of the shards in key order."""
    shared, start = opened.shared, opened.start
    plan = work.put(
        jsonc.dumps(
            {
                "documents": {name: blobs.put_blob(work.store, getattr(shared, name)) for name in DOCUMENTS},
                "follows": start.follows,
                "format": PLAN_FORMAT,
                "identity": shared.identity,
                "pair": dict(shared.context.pair),
                "planned_ms": planned_ms,
                "predecessor": start.predecessor,
                "shards": len(ranges),
                "spec": json.dumps(spec.form),
            }
        )
    )
    return [
        work.put(
            jsonc.dumps(
                {
                    "format": SHARD_FORMAT,
                    "key_range": key_range.document(),
                    "label": key_range.label(shared.key_types),
                    "number": number,
                    "plan": plan,
                }
            )
        )
        for number, key_range in enumerate(ranges)
    ]


def read_sweep_shard(work: Work, digest_hex: str) -> SweepShard:
    """Return a planned shard with its plan. Raises: InputShardError (DELTA_INPUT_SHARD), InputDigestError."""
    found = document_of(work, digest_hex, SHARD_FORMAT)
    stored = document_of(work, found["plan"], PLAN_FORMAT)
    the_plan = SweepPlan(
        digest=found["plan"],
        spec=parse_spec(json.loads(stored["spec"]), sweep=True),
        documents=stored["documents"],
        pair=stored["pair"],
        identity=stored["identity"],
        start=Start(stored["follows"], stored["predecessor"]),
        shards=stored["shards"],
        planned_ms=stored["planned_ms"],
    )
    bounds = [found["key_range"][side] for side in ("lower", "upper")]
    key_range = KeyRange(*(None if bound is None else bytes.fromhex(bound) for bound in bounds))
    return SweepShard(digest_hex, the_plan, found["number"], key_range, found["label"])


def whole_plan(work: Work, shards: Sequence[str]) -> list[SweepShard]:
    """Return the shards of one plan in key order, all of them. Raises: MergeContextError, MergeGapError, InputShardError."""
    planned = sorted((read_sweep_shard(work, one) for one in dict.fromkeys(shards)), key=lambda shard: shard.number)
    if not planned:
        raise MergeContextError("There is nothing to merge: no shard was planned.", where="shards")
    if len({shard.plan.digest for shard in planned}) > 1:
        raise MergeContextError("The shards are of different plans.", where="shards")
    of = planned[0].plan.shards
    if len(planned) < of:
        raise MergeGapError(f"{of - len(planned)} of {of} shards of the plan were not handed over.", where="shards")
    return planned


def read_parts(work: Work, planned: Sequence[SweepShard], parts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the swept shards in key order, one for each planned one; a hole refuses."""
    found: dict[str, dict[str, Any]] = {}
    known = {shard.digest for shard in planned}
    for digest in dict.fromkeys(parts):
        part = document_of(work, digest, PART_FORMAT)
        if part["shard"] not in known or part["shard"] in found:
            raise MergeContextError(f"Swept shard {digest} is of another plan, or one of two.", where=digest)
        found[part["shard"]] = part
    holes = [shard for shard in planned if shard.digest not in found]
    if holes:
        named = ", ".join(f"{shard.number + 1} {shard.label}" for shard in holes[:HOLES_SHOWN])
        more = "" if len(holes) <= HOLES_SHOWN else f" and {len(holes) - HOLES_SHOWN} more"
        raise MergeGapError(f"{len(holes)} of {len(planned)} shards were not swept: {named}{more}.", where="parts")
    return [found[shard.digest] for shard in planned]


def merge_part(work: Work, part: Mapping[str, Any]) -> MergePart:
    """Return what a merge needs of one swept shard. Raises: InputShardError where some of it is gone."""
    manifest, header = work.get(part["manifest"]), work.get(part["header"])
    return MergePart(manifest, header, work.get(part["index"], INDEX_BYTES_MAX), partial(work.open, part["body"]))


def shared_documents(work: Work, the_plan: SweepPlan) -> Shared:
    """Return the documents that all shards of a plan share."""
    parts = [blobs.get_blob(work.store, the_plan.documents[name]) for name in DOCUMENTS]
    return shared_of(parts[0], parts[1], parts[2], dict(the_plan.pair))


def document_of(work: Work, digest_hex: str, kind: str) -> dict[str, Any]:
    """Return a document of one format from the work folder. Raises: InputShardError (DELTA_INPUT_SHARD)."""
    try:
        found = jsonc.loads(work.get(digest_hex, PLAN_BYTES_MAX))
    except InputShardError:
        raise
    except DeltaError as error:
        raise InputShardError(f"{str(digest_hex)[:80]} is no part of a sweep: {error.message}") from error
    if not isinstance(found, dict) or found.get("format") != kind:
        raise InputShardError(f"{digest_hex} is no document of format {kind}.", where=digest_hex)
    return found
