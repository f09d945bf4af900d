"""A whole sweep in one process or over local processes: open, plan, sweep, merge, sign, publish (docs/format.md, S11)."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import airflow_delta_provider
from airflow_delta_provider.adapters.side import RangeCost
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import RecordLimitError, SideChangedError, WallLimitError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.predecessor import pack_reader
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.publish import Sign
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.sweeppublish import SweepReceipt, publish_sweep
from airflow_delta_provider.engine.opened import OpenSide
from airflow_delta_provider.engine.run import RunProgress, plain
from airflow_delta_provider.engine.skipped import open_binary
from airflow_delta_provider.engine.spilled import spill_side
from airflow_delta_provider.engine.sweep_open import OpenedSweep, Start, open_sweep
from airflow_delta_provider.engine.sweep_plan import WORKER_ROWS_MIN, plan_sweep_ranges
from airflow_delta_provider.engine.sweep_shard import SUMMARY, Packs, SweptShard, sweep_shard
from airflow_delta_provider.engine.sweep_whole import (
    MergePart,
    Whole,
    check_limits,
    measures,
    merge_swept,
    publication_of,
)
from airflow_delta_provider.engine.workers import results_of


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """What a finished sweep published: receipt, parsed documents, and the volatile facts stored beside them.

    ``filter`` and ``range_label`` tell people which rows and keys it covers.
    """

    receipt: SweepReceipt
    manifest: documents.Document
    generation: documents.Document
    sidecar: Mapping[str, Any]
    filter: str | None
    range_label: str

    @property
    def summary(self) -> documents.Document:
        """The summary document, parsed: both of its lists are empty in a sweep."""
        return documents.parse_summary(SUMMARY)

    @property
    def records(self) -> int:
        """How many records the manifest holds: keys that are new, changed or absent."""
        return int(self.manifest["body"]["records"])


@dataclass(frozen=True, slots=True)
class _Job:
    """What a worker process needs for its shards; everything in it can be pickled."""

    form: dict[str, Any]
    identity: str
    start: Start
    store: Store
    folder: Path
    deadline: float | None
    spilled: Path | None
    hmac_key: HmacKey | None


@dataclass(frozen=True, slots=True)
class _Part:
    """One swept shard, and where its body lies."""

    shard: SweptShard
    body: Path
    ms: int


def sweep(
    spec: Spec,
    store: Store,
    open_side: OpenSide,
    *,
    shards: int | None = None,
    workers: int = 1,
    sign: Sign | None = None,
    progress: RunProgress | None = None,
    hmac_key: HmacKey | None = None,
    predecessor: str | None = None,
) -> SweepOutcome:
    """Sweep a data set against the newest generation of its pair and publish manifest and generation.

    Both are the same bytes for every ``shards`` and ``workers``. With more than one worker, ``open_side`` must be
    importable and ``store`` picklable. ``predecessor``: refuse unless this is the generation to continue from.
    Raises: every refusal of the package; nothing is published then, and packs that were stored are orphans.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    deadline = None if spec.limits.max_seconds is None else clock + spec.limits.max_seconds
    with ExitStack() as stack:
        opened = stack.enter_context(open_sweep(spec, store, open_side, hmac_key=hmac_key, predecessor=predecessor))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-sweep-")))
        if shards is None and workers == 1 and "shards" not in spec.form:
            shards = 1  # nobody shares the work, and what is in one piece needs no merge
        ranges = plan_sweep_ranges(opened, count=shards, workers=workers)
        spilled = None
        if len(ranges) > 1 and opened.range_cost("target") is RangeCost.SCAN:
            spilled = spill_side(opened, "target", folder, watch=partial(_check_deadline, opened, deadline))
        key = opened.comparison.hmac_key
        job = _Job(spec.form, opened.shared.identity, opened.start, store, folder, deadline, spilled, key)
        workers = min(workers, len(ranges), 1 + (opened.target.estimate_rows() or 0) // WORKER_ROWS_MIN)
        parts = _sweep_all(opened, ranges, job, open_side, workers, progress)
        body_path = folder / "body"
        whole = _whole(parts, store, body_path)
        check_limits(whole, spec.limits)
        _check_deadline(opened, deadline)
        shard_facts = [
            {"label": key_range.label(opened.shared.key_types), "ms": one.ms, "records": one.shard.facts.records}
            for key_range, one in zip(ranges, parts, strict=True)
        ]
        sidecar = {
            "duration_ms": round((time.monotonic() - clock) * 1000),
            "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "host": platform.node(),
            "process": os.getpid(),
            "shards": shard_facts,
            "sides": [{"facts": plain(opened.target.facts()), "side": "target"}],
            "started_at": started.isoformat(timespec="milliseconds"),
            "strategy": "stream",
            "sweep": measures(whole, len(ranges)),
            "tool": f"airflow-delta-provider {airflow_delta_provider.__version__}",
            "workers": workers,
        }
        with closing(open_binary(body_path)) as body:
            publication = publication_of(whole, opened.shared, body, sidecar, opened.follows)
            receipt = publish_sweep(store, publication, sign=sign)
    return SweepOutcome(
        receipt,
        documents.parse_manifest(whole.manifest),
        documents.parse_generation(whole.header),
        sidecar,
        opened.spec.filter_target,
        opened.key_range.label(opened.shared.key_types),
    )


def _whole(parts: list[_Part], store: Store, out: Path) -> Whole:
    """Return the merge of all parts; one that is the whole is taken as it is."""
    if len(parts) == 1:
        one = parts[0].shard
        parts[0].body.replace(out)
        return Whole(one.manifest, one.header, one.index, one.facts.page_index)
    inputs = [
        MergePart(one.shard.manifest, one.shard.header, one.shard.index, partial(open_binary, one.body))
        for one in parts
    ]
    with out.open("wb") as file:
        return merge_swept(inputs, store, file)


def _check_deadline(opened: OpenedSweep, deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        sentence = f"the sweep took longer than {opened.spec.limits.max_seconds} s."
        raise WallLimitError(sentence, where="limits.max_seconds")


def _sweep_all(
    opened: OpenedSweep,
    ranges: list[KeyRange],
    job: _Job,
    open_side: OpenSide,
    workers: int,
    progress: RunProgress | None,
) -> list[_Part]:
    expected = opened.target.estimate_rows() if progress is not None else None
    parts: list[_Part] = []
    finished = records = 0

    def tell(rows: int) -> None:
        if progress is not None:
            progress(finished + rows, expected, len(parts), len(ranges))

    for part in _parts(opened, ranges, job, open_side, workers, tell):
        parts.append(part)
        finished += part.shard.document["sweep"]["read"]
        records += part.shard.facts.records
        tell(0)
        limit = opened.spec.limits.max_discrepancies
        if limit is not None and records > limit:
            raise RecordLimitError(f"more than {limit} records differ.", where="limits.max_discrepancies")
    return parts


def _parts(
    opened: OpenedSweep,
    ranges: list[KeyRange],
    job: _Job,
    open_side: OpenSide,
    workers: int,
    tell: Callable[[int], None],
) -> Iterator[_Part]:
    """Yield the parts in key order; the first shard that fails, in key order, ends the sweep."""
    if workers <= 1:
        for number, key_range in enumerate(ranges):
            yield _sweep_part(opened, number, key_range, job, tell)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(job, open_side)) as pool:
        futures = [pool.submit(_sweep_in_worker, number, key_range) for number, key_range in enumerate(ranges)]
        try:
            yield from results_of(futures)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_WORKER: dict[str, Any] = {}


def _start_worker(job: _Job, open_side: OpenSide) -> None:
    _WORKER.update(job=job, open_side=open_side)


def _sweep_in_worker(number: int, key_range: KeyRange) -> _Part:
    job: _Job = _WORKER["job"]
    if "opened" not in _WORKER:
        spec = parse_spec(job.form, sweep=True)
        opened = open_sweep(spec, job.store, _WORKER["open_side"], hmac_key=job.hmac_key, start=job.start)
        if opened.shared.identity != job.identity:
            opened.close()
            raise SideChangedError("the columns of the side changed between plan and read.")
        _WORKER["opened"] = opened
    return _sweep_part(_WORKER["opened"], number, key_range, job, None)


def _sweep_part(
    opened: OpenedSweep, number: int, key_range: KeyRange, job: _Job, tell: Callable[[int], None] | None
) -> _Part:
    clock = time.monotonic()

    def watch(rows: int) -> None:
        _check_deadline(opened, job.deadline)
        if tell is not None:
            tell(rows)

    path = job.folder / f"{number:06d}.jsonl"
    packs = Packs(pack_reader(job.store), partial(blobs.put_blob, job.store))
    with path.open("w+b") as body:
        shard = sweep_shard(opened, key_range, body, packs, watch=watch, folder=str(job.folder), spilled=job.spilled)
    return _Part(shard, path, round((time.monotonic() - clock) * 1000))
