"""The same job as engine/run.py, cut into steps that share nothing but a store and digests: plan, compare, build, merge.

Each step may be run again at any time, on any machine: the same data gives the same bytes under the same digest. What a
step leaves for the next lies in the work folder of the run (docs/format.md, S10), under its SHA-256.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import airflow_delta_provider
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import (
    DiskLimitError,
    InputShardError,
    LimitError,
    MergeContextError,
    MergeGapError,
    RecordLimitError,
    SideChangedError,
    WallLimitError,
)
from airflow_delta_provider.core.manifest import Merged, MergeInput, merge_manifests
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.publish import Publication, Receipt, Sign, publish
from airflow_delta_provider.core.submanifest import Shared, build_sub_manifest, shared_of
from airflow_delta_provider.engine.opened import OpenSide, open_sides
from airflow_delta_provider.engine.planning import SIDES, plan_ranges
from airflow_delta_provider.engine.recheck import LOOKS, compare_settled, settled_form
from airflow_delta_provider.engine.run import plain
from airflow_delta_provider.engine.work import Plan, Shard, Work, read_shards, write_plan

HOLES_SHOWN = 3
Clock = Callable[[], float]
"""Seconds since 1970, as ``time.time``."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan: the digests of its shards in key order, and about how many rows each side has."""

    shards: list[str]
    rows_estimate: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """A compared shard: the digest of its raw comparison, and its counts by name."""

    digest: str
    shard: Shard
    records: int
    population: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Built:
    """A sub-manifest: its digest, and how many records it holds."""

    digest: str
    shard: Shard
    records: int


@dataclass(frozen=True, slots=True)
class Published:
    """A finished run: the id of its manifest. ``receipt`` is None where an earlier try had finished everything."""

    manifest: str
    receipt: Receipt | None


def plan(
    spec: Spec,
    work: Work,
    open_side: OpenSide,
    *,
    hmac_key: HmacKey | None = None,
    shards: int | None = None,
    shards_max: int | None = None,
    clock: Clock = time.time,
) -> Planned:
    """Cut the key space of both sides into shards and store one document for each.

    A specification that gives rows or a count gets larger shards where it would have more than ``shards_max``.
    Raises: LimitError (DELTA_LIMIT) for ``bounds`` or ``shards`` of more than that; every refusal of ``open_sides``.
    """
    with open_sides(spec, open_side, hmac_key=hmac_key) as opened:
        ranges = plan_ranges(opened, count=shards)
        if shards_max is not None and len(ranges) > shards_max and shards is None and spec.shard_bounds is None:
            ranges = plan_ranges(opened, count=shards_max)  # a number to aim for, not bounds that somebody gave
        if shards_max is not None and len(ranges) > shards_max:
            raise LimitError(
                f"the plan has {len(ranges)} shards, {shards_max} are possible here: plan larger ones"
                " (shards.rows or shards.count of the specification).",
                where="shards",
            )
        planned_ms = None if spec.limits.max_seconds is None else round(clock() * 1000)
        digests = write_plan(work, spec, opened.shared, ranges, planned_ms)
        return Planned(digests, {name: opened.side(name).estimate_rows() for name in SIDES})


def compare(
    shard_digest: str,
    work: Work,
    open_side: OpenSide,
    *,
    key_of: Callable[[Spec], HmacKey | None] = lambda spec: None,
    clock: Clock = time.time,
) -> Compared:
    """Compare one planned shard and store its raw comparison.

    ``key_of`` gives the key of keyed digests where a specification does not take it from the environment.
    Raises: InputShardError (DELTA_INPUT_SHARD) where no such shard was planned; SideChangedError (DELTA_SIDE_CHANGED)
    where the sides no longer have the columns that were planned; every refusal of ``compare_shard``.
    """
    started = clock()
    (shard,) = read_shards(work, [shard_digest])
    spec = shard.plan.spec
    with (
        tempfile.TemporaryDirectory(prefix="delta-shard-") as folder,
        open_sides(spec, open_side, hmac_key=key_of(spec)) as opened,
        (Path(folder) / "shard.raw").open("w+b") as raw,
    ):
        if opened.shared.identity != shard.plan.identity:
            raise SideChangedError("the columns of a side changed between plan and read.")
        facts = compare_settled(
            opened,
            lambda: open_sides(spec, open_side, hmac_key=key_of(spec)),
            shard.key_range,
            raw,
            progress=lambda source_rows, target_rows: _check_time(shard.plan, clock),
            folder=folder,
            records_max=spec.limits.max_discrepancies,
        )
        raw.flush()
        digest = work.put(raw)
        note = _shard_note(started, clock(), [plain(opened.side(name).facts()) for name in SIDES])
        work.note(shard_digest, {**note, **{name: facts[name] for name in LOOKS if name in facts}})
    return Compared(digest, shard, facts["records"], facts["population"])


def build(shard_digest: str, comparison: str, work: Work) -> Built:
    """Build the sub-manifest of one shard from its raw comparison, and store it with its body and summary.

    Raises: InputShardError (DELTA_INPUT_SHARD) where the raw comparison is gone, cut, or of another shard; DiskLimitError.
    """
    (shard,) = read_shards(work, [shard_digest])
    shared = _shared(work, shard.plan)
    with tempfile.TemporaryDirectory(prefix="delta-shard-") as folder:
        raw_path, body_path = Path(folder) / "shard.raw", Path(folder) / "body.jsonl"
        work.fetch(comparison, raw_path)
        with raw_path.open("rb") as raw, body_path.open("w+b") as body:
            sub = build_sub_manifest(raw, shared, body, bytes_max=shard.plan.spec.limits.max_bytes)
            if documents.parse_manifest(sub.manifest)["key_range"] != shard.key_range.document():
                raise InputShardError("the raw comparison is of another shard.", where=shard_digest)
            body.flush()
            work.put(body)
    work.put(sub.summary)
    return Built(work.put(sub.manifest), shard, sub.facts.records)


def merge(
    shards: Sequence[str],
    parts: Sequence[str],
    work: Work,
    *,
    slot_hex: str,
    sign: Sign | None = None,
    on_rerun: str = "reuse",
    facts: Mapping[str, Any] | None = None,
    clock: Clock = time.time,
) -> Published:
    """Merge the sub-manifests of a whole plan, publish the manifest, and clear the work folder.

    ``shards`` are the digests of the plan and ``parts`` those of the sub-manifests, both in any order. Nothing is merged
    unless every shard has its part. ``slot_hex`` names the logical task run that publishes, ``facts`` go to the sidecar.
    The documents of the plan stay in the work folder, so that each step may be run again; where nothing else is left of a
    run that had finished, the manifest that it published is returned.
    Raises: MergeGapError (DELTA_MERGE_GAP) for a hole, InputShardError, MergeContextError, RecordLimitError,
    DiskLimitError, WallLimitError, and what ``merge_manifests`` and ``publish`` raise.
    """
    planned = _whole_plan(work, shards)
    with tempfile.TemporaryDirectory(prefix="delta-merge-") as folder, (Path(folder) / "body").open("w+b") as body:
        try:
            inputs = _inputs(work, planned, parts)
            _check_limits(planned[0].plan, inputs, clock)
            merged = merge_manifests([one.input(work) for one in inputs], body)
        except InputShardError:
            earlier = work.receipt(shards, parts)
            if earlier is None:
                raise
            return Published(earlier, None)
        body.flush()
        sidecar = {**_sidecar(work, planned, inputs, clock), **(facts or {})}
        publication = _publication(merged, work, planned[0].plan, body, sidecar)
        receipt = publish(work.store, publication, sign=sign, slot_hex=slot_hex, on_rerun=on_rerun)
    work.finish(shards, parts, receipt.manifest, keep={planned[0].plan.digest, *shards})
    return Published(receipt.manifest, receipt)


@dataclass(frozen=True, slots=True)
class _Part:
    """One sub-manifest of the plan, parsed and as stored."""

    document: documents.Document
    data: bytes

    def input(self, work: Work) -> MergeInput:
        summary = work.get(self.document["summary"]["sha256"])
        return MergeInput(self.data, summary, partial(work.open, self.document["body"]["sha256"]))


def _whole_plan(work: Work, shards: Sequence[str]) -> list[Shard]:
    """Return the shards of one plan in key order, all of them."""
    planned = sorted(read_shards(work, dict.fromkeys(shards)), key=lambda shard: shard.number)
    if not planned:
        raise MergeContextError("There is nothing to merge: no shard was planned.", where="shards")
    if len({shard.plan.digest for shard in planned}) > 1:
        raise MergeContextError("The shards are of different plans.", where="shards")
    of = planned[0].plan.shards
    missing = sorted(set(range(of)) - {shard.number for shard in planned})
    if missing:
        raise MergeGapError(f"{len(missing)} of {of} shards of the plan were not handed over.", where="shards")
    return planned


def _inputs(work: Work, planned: Sequence[Shard], parts: Sequence[str]) -> list[_Part]:
    """Return the sub-manifests in key order, one for each shard; a hole refuses."""
    found: dict[tuple[str | None, str | None], _Part] = {}
    for digest in dict.fromkeys(parts):
        data = work.get(digest)
        document = documents.parse_manifest(data)
        named = {member: document[member]["sha256"] for member in ("schema", "contract", "structure")}
        if named != planned[0].plan.documents or document["pair"] != planned[0].plan.pair:
            raise MergeContextError(f"Sub-manifest {digest} is of another plan.", where=digest)
        bounds = (document["key_range"]["lower"], document["key_range"]["upper"])
        if bounds in found:
            raise MergeContextError(f"Sub-manifest {digest} is one of two for the same shard.", where=digest)
        found[bounds] = _Part(document, data)
    bounds_of = [(shard.key_range.document()["lower"], shard.key_range.document()["upper"]) for shard in planned]
    holes = [shard for shard, bounds in zip(planned, bounds_of, strict=True) if bounds not in found]
    if holes:
        named_holes = ", ".join(f"{shard.number + 1} {shard.label}" for shard in holes[:HOLES_SHOWN])
        more = "" if len(holes) <= HOLES_SHOWN else f" and {len(holes) - HOLES_SHOWN} more"
        raise MergeGapError(f"{len(holes)} of {len(planned)} shards have no sub-manifest: {named_holes}{more}.")
    if len(found) > len(planned):
        raise MergeContextError("There are sub-manifests that the plan does not know.", where="parts")
    return [found[bounds] for bounds in bounds_of]


def _check_limits(the_plan: Plan, inputs: Sequence[_Part], clock: Clock) -> None:
    limits = the_plan.spec.limits
    records = sum(one.document["body"]["records"] for one in inputs)
    if limits.max_discrepancies is not None and records > limits.max_discrepancies:
        raise RecordLimitError(
            f"more than {limits.max_discrepancies} records differ; {records} had been counted.",
            where="limits.max_discrepancies",
        )
    if limits.max_bytes is not None and sum(one.document["body"]["bytes"] for one in inputs) > limits.max_bytes:
        raise DiskLimitError(f"the body is larger than {limits.max_bytes} bytes.", where="limits.max_bytes")
    _check_time(the_plan, clock)


def _check_time(the_plan: Plan, clock: Clock) -> None:
    """Refuse beyond ``max_seconds`` after the plan was made, whoever works when."""
    max_seconds = the_plan.spec.limits.max_seconds
    if max_seconds is None or the_plan.planned_ms is None:
        return
    if clock() > the_plan.planned_ms / 1000 + max_seconds:
        raise WallLimitError(
            f"the plan was made more than {max_seconds} s ago; a new run plans anew.", where="limits.max_seconds"
        )


def _shared(work: Work, the_plan: Plan) -> Shared:
    parts = [blobs.get_blob(work.store, the_plan.documents[name]) for name in ("schema", "contract", "structure")]
    return shared_of(parts[0], parts[1], parts[2], dict(the_plan.pair))


def _publication(merged: Merged, work: Work, the_plan: Plan, body: BinaryIO, sidecar: Mapping[str, Any]) -> Publication:
    shared, counts_only = _shared(work, the_plan), the_plan.spec.detail == "counts"
    return Publication(
        manifest=merged.manifest,
        schema=shared.schema,
        contract=shared.contract,
        structure=shared.structure,
        summary=merged.summary,
        body=None if counts_only else body,
        page_index=None if counts_only else merged.facts.page_index,
        sidecar=sidecar,
    )


def _shard_note(started: float, ended: float, sides: list[Any]) -> dict[str, Any]:
    return {
        "host": platform.node(),
        "ms": round((ended - started) * 1000),
        "sides": [{"facts": facts, "side": name} for name, facts in zip(SIDES, sides, strict=True)],
        "started_ms": round(started * 1000),
    }


def _sidecar(work: Work, planned: Sequence[Shard], inputs: Sequence[_Part], clock: Clock) -> dict[str, Any]:
    notes = [work.noted(shard.digest) for shard in planned]
    now_ms = round(clock() * 1000)
    started_ms = min((note["started_ms"] for note in notes if note), default=now_ms)
    return {
        "duration_ms": now_ms - started_ms,
        "finished_at": _iso(now_ms),
        "host": platform.node(),
        **settled_form(planned[0].plan.spec, [note for note in notes if note]),
        "shards": [
            {"label": shard.label, "ms": (note or {}).get("ms"), "records": one.document["body"]["records"]}
            for shard, note, one in zip(planned, notes, inputs, strict=True)
        ],
        "sides": next((note["sides"] for note in notes if note), []),
        "started_at": _iso(started_ms),
        "strategy": "stream",
        "tool": f"airflow-delta-provider {airflow_delta_provider.__version__}",
        "workers": len({note["host"] for note in notes if note}) or 1,
    }


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
