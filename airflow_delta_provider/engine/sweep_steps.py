"""A sweep cut into steps that share nothing but a store and digests: plan, sweep a shard, merge; as engine/steps.py is.

Each step may be run again at any time, on any machine: the same data gives the same bytes under the same digest. The plan
pins the predecessor, so a step that is repeated later never starts from another one.
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
from typing import Any

import airflow_delta_provider
from airflow_delta_provider.core import documents, jsonc
from airflow_delta_provider.core.errors import InputShardError, LimitError, SideChangedError, WallLimitError
from airflow_delta_provider.core.predecessor import HEADER_BYTES_MAX, pack_reader
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.publish import Sign
from airflow_delta_provider.core.sweeppublish import SweepReceipt, publish_sweep
from airflow_delta_provider.engine.opened import OpenSide
from airflow_delta_provider.engine.pieces import Clock
from airflow_delta_provider.engine.run import plain
from airflow_delta_provider.engine.sweep_open import open_sweep
from airflow_delta_provider.engine.sweep_plan import plan_sweep_ranges
from airflow_delta_provider.engine.sweep_shard import Packs, sweep_shard
from airflow_delta_provider.engine.sweep_whole import check_limits, measures, merge_swept, publication_of
from airflow_delta_provider.engine.sweep_work import (
    PART_FORMAT,
    SweepPlan,
    SweepShard,
    merge_part,
    read_parts,
    read_sweep_shard,
    shared_documents,
    whole_plan,
    write_sweep_plan,
)
from airflow_delta_provider.engine.work import Work


@dataclass(frozen=True, slots=True)
class Swept:
    """A swept shard: the digest of its sub-generation in the work folder, and its counts (``sweep`` of its header)."""

    digest: str
    shard: SweepShard
    records: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SweepPublished:
    """A finished sweep: manifest id and header digest. ``receipt`` is None where an earlier try had finished everything."""

    manifest: str
    generation: str
    receipt: SweepReceipt | None


def plan(
    spec: Spec,
    work: Work,
    open_side: OpenSide,
    *,
    hmac_key: HmacKey | None = None,
    shards: int | None = None,
    shards_max: int | None = None,
    predecessor: str | None = None,
    clock: Clock = time.time,
) -> list[str]:
    """Cut the key space of a sweep into shards, pin its predecessor, and return the digests of the shards in key order.

    Raises: LimitError (DELTA_LIMIT) beyond ``shards_max`` shards; every refusal of ``open_sweep``.
    """
    with open_sweep(spec, work.store, open_side, hmac_key=hmac_key, predecessor=predecessor) as opened:
        ranges = plan_sweep_ranges(opened, count=shards)
        if shards_max is not None and len(ranges) > shards_max:
            sentence = f"the plan has {len(ranges)} shards, {shards_max} are possible here: plan larger ones."
            raise LimitError(sentence, where="shards")
        planned_ms = None if spec.limits.max_seconds is None else round(clock() * 1000)
        return write_sweep_plan(work, spec, opened, ranges, planned_ms)


def sweep_one(
    shard_digest: str,
    work: Work,
    open_side: OpenSide,
    *,
    key_of: Callable[[Spec], HmacKey | None] = lambda spec: None,
    clock: Clock = time.time,
) -> Swept:
    """Sweep one planned shard; its packs become blobs, its sub-generation and sub-manifest stay in the work folder.

    Raises: InputShardError (DELTA_INPUT_SHARD); SideChangedError where the side no longer has the columns that were
    planned; every refusal of ``sweep_shard``.
    """
    started = clock()
    shard = read_sweep_shard(work, shard_digest)
    spec = shard.plan.spec
    packs = Packs(pack_reader(work.store), partial(blobs.put_blob, work.store))
    with (
        tempfile.TemporaryDirectory(prefix="delta-sweep-") as folder,
        open_sweep(spec, work.store, open_side, hmac_key=key_of(spec), start=shard.plan.start) as opened,
        (Path(folder) / "body.jsonl").open("w+b") as body,
    ):
        if opened.shared.identity != shard.plan.identity:
            raise SideChangedError("the columns of the side changed between plan and read.")
        swept = sweep_shard(
            opened, shard.key_range, body, packs, watch=lambda rows: _check_time(shard.plan, clock), folder=folder
        )
        body.flush()
        part = {"body": work.put(body), "format": PART_FORMAT, "header": work.put(swept.header)}
        part |= {"index": work.put(swept.index), "manifest": work.put(swept.manifest), "shard": shard_digest}
        note = {
            "facts": plain(opened.target.facts()),
            "host": platform.node(),
            "ms": round((clock() - started) * 1000),
            "started_ms": round(started * 1000),
        }
        work.note(shard_digest, note)
    return Swept(work.put(jsonc.dumps(part)), shard, swept.facts.records, swept.document["sweep"])


def merge(
    shards: Sequence[str],
    parts: Sequence[str],
    work: Work,
    *,
    sign: Sign | None = None,
    facts: Mapping[str, Any] | None = None,
    clock: Clock = time.time,
) -> SweepPublished:
    """Merge the swept shards of a whole plan, publish manifest and generation, and clear the work folder.

    ``shards`` and ``parts`` come in any order; nothing is merged unless every shard has its part. ``facts`` go to the
    sidecar. Run again after it had finished, it returns what it published.
    Raises: MergeGapError (DELTA_MERGE_GAP) for a hole, InputShardError, MergeContextError, RecordLimitError,
    DiskLimitError, WallLimitError, and what ``publish_sweep`` raises.
    """
    planned = whole_plan(work, shards)
    the_plan = planned[0].plan
    try:
        found = read_parts(work, planned, parts)
        inputs = [merge_part(work, part) for part in found]
    except InputShardError:
        earlier = work.receipt(shards, parts)
        if earlier is None:
            raise
        header = documents.parse_generation(blobs.get_blob(work.store, earlier, HEADER_BYTES_MAX))
        return SweepPublished(header["manifest"], earlier, None)
    with tempfile.TemporaryDirectory(prefix="delta-merge-") as folder, (Path(folder) / "body").open("w+b") as body:
        whole = merge_swept(inputs, work.store, body)
        body.flush()
        check_limits(whole, the_plan.spec.limits)
        _check_time(the_plan, clock)
        sidecar = {**_sidecar(work, planned, clock), "sweep": measures(whole, len(planned)), **(facts or {})}
        publication = publication_of(whole, shared_documents(work, the_plan), body, sidecar, the_plan.start.follows)
        receipt = publish_sweep(work.store, publication, sign=sign)
    work.finish(shards, parts, receipt.generation, keep={the_plan.digest, *shards})
    return SweepPublished(receipt.manifest, receipt.generation, receipt)


def _check_time(the_plan: SweepPlan, clock: Clock) -> None:
    """Refuse beyond ``max_seconds`` after the plan was made, whoever works when."""
    max_seconds = the_plan.spec.limits.max_seconds
    if max_seconds is None or the_plan.planned_ms is None:
        return
    if clock() > the_plan.planned_ms / 1000 + max_seconds:
        sentence = f"the plan was made more than {max_seconds} s ago; a new run plans anew."
        raise WallLimitError(sentence, where="limits.max_seconds")


def _sidecar(work: Work, planned: Sequence[SweepShard], clock: Clock) -> dict[str, Any]:
    notes = [work.noted(shard.digest) or {} for shard in planned]
    now_ms = round(clock() * 1000)
    started_ms = min((note["started_ms"] for note in notes if note), default=now_ms)
    return {
        "duration_ms": now_ms - started_ms,
        "finished_at": _iso(now_ms),
        "host": platform.node(),
        "shards": [{"label": shard.label, "ms": note.get("ms")} for shard, note in zip(planned, notes, strict=True)],
        "sides": [{"facts": note["facts"], "side": "target"} for note in notes[:1] if note],
        "started_at": _iso(started_ms),
        "strategy": "stream",
        "tool": f"airflow-delta-provider {airflow_delta_provider.__version__}",
        "workers": len({note["host"] for note in notes if note}) or 1,
    }


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
