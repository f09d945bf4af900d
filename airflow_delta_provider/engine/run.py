"""The whole job in one process or over local processes: open, plan, compare, merge, sign, publish."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import airflow_delta_provider
from airflow_delta_provider.adapters.side import RangeCost
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.body import BodyFacts
from airflow_delta_provider.core.errors import DiskLimitError, RecordLimitError, SideChangedError, WallLimitError
from airflow_delta_provider.core.manifest import Merged, MergeInput, add_populations, merge_manifests
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store.publish import Publication, Receipt, Sign, publish
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.submanifest import build_sub_manifest
from airflow_delta_provider.engine.light import keep_pandas_out, pandas_kept_out
from airflow_delta_provider.engine.manners import (
    Tell,
    check_share,
    divided,
    look_ahead,
    records_at_most,
    silent,
    too_different,
    wait_until_quiet,
)
from airflow_delta_provider.engine.narrow import narrows, strategy_form
from airflow_delta_provider.engine.opened import Opened, OpenSide, open_sides
from airflow_delta_provider.engine.planning import SIDES, WORKER_ROWS_MIN, in_one_piece, worth_workers
from airflow_delta_provider.engine.profile import Stopwatch
from airflow_delta_provider.engine.recheck import compare_settled, settled_form
from airflow_delta_provider.engine.skipped import Carried, Ready, open_binary
from airflow_delta_provider.engine.spilled import spill_side
from airflow_delta_provider.engine.workers import results_of


class RunProgress(Protocol):
    """Told how a run goes: rows read so far on both sides together, of about how many, and finished shards."""

    def __call__(self, rows: int, rows_expected: int | None, shards: int, shards_planned: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished run published.

    ``manifest``, ``summary``: the documents, parsed. ``receipt``: the manifest id and its place in the log.
    ``sidecar``: the volatile facts that were stored beside it. ``profile``: milliseconds of each part of the run.
    """

    receipt: Receipt
    manifest: documents.Document
    summary: documents.Document
    sidecar: Mapping[str, Any]
    profile: Mapping[str, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many records the manifest holds."""
        return int(self.manifest["body"]["records"])


@dataclass(slots=True)
class ShardResult:
    """One finished shard: its sub-manifest and where its body lies."""

    manifest: bytes
    summary: bytes
    body: Path
    body_facts: BodyFacts
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker process needs for its shards; everything in it can be pickled."""

    form: dict[str, Any]
    identity: str
    folder: Path
    deadline: float | None
    spilled: Mapping[str, Path]
    hmac_key: HmacKey | None
    light: bool = False
    ready: Ready = field(default_factory=dict)
    keep_raw: bool = False
    tell: Tell = silent


def reconcile(
    spec: Spec,
    store: Store,
    open_side: OpenSide,
    *,
    shards: int | None = None,
    workers: int | None = 1,
    sign: Sign | None = None,
    progress: RunProgress | None = None,
    hmac_key: HmacKey | None = None,
    tell: Tell = silent,
) -> Outcome:
    """Compare two data sets and publish one manifest.

    ``workers`` local processes share the shards (None: as many as this machine's cores are worth); ``open_side`` and
    ``tell``, which takes lines for people, must be importable then. The manifest is the same for every ``shards`` and
    ``workers``. Raises: every refusal of the package; nothing is published then.
    """
    started, clock, parts = datetime.now(UTC), time.monotonic(), Stopwatch()
    deadline = None if spec.limits.max_seconds is None else clock + spec.limits.max_seconds
    with ExitStack() as stack:
        opened = stack.enter_context(open_sides(spec, open_side, hmac_key=hmac_key))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-run-")))
        parts.lap("open")
        if workers is None:
            workers = worth_workers(opened, os.cpu_count() or 1)
        if shards is None and workers == 1 and in_one_piece(opened):
            shards = 1
        carried = Carried(opened, store, folder, count=shards, workers=workers)
        ranges, ready = carried.ranges, carried.ready
        look_ahead(opened, ranges)
        parts.lap("plan")
        spilled = {}
        if len(ranges) - len(ready) > 1 and not narrows(opened):
            scanned = [name for name in SIDES if opened.range_cost(name) is RangeCost.SCAN]
            watch = partial(_check_time, deadline, spec)
            spilled = {name: spill_side(opened, name, folder, watch=watch) for name in scanned}
        workers = min(workers, len(ranges), 1 + carried.rows // WORKER_ROWS_MIN)
        key, light, keep_raw = opened.comparison.hmac_key, pandas_kept_out(), bool(carried.pieces)
        job = Job(
            divided(spec.form, workers), opened.shared.identity, folder, deadline, spilled, key, light, ready, keep_raw
        )
        parts.lap("sort")
        results = _compare_all(opened, ranges, job, open_side, workers, progress)
        parts.lap("shards")
        parts.add([one.facts for one in results])
        merged, body = _merge(results, spec, folder)
        records = sum(one.facts["records"] for one in results)
        check_share(spec.limits, records, add_populations([one.facts["population"] for one in results]))
        parts.lap("merge")
        labels = [each.label(opened.shared.key_types) for each in ranges]
        told = carried.told(labels, lambda: open_sides(spec, open_side, hmac_key=hmac_key))
        parts.lap("prove" if carried.pieces else "merge")
        sidecar = {**_sidecar(opened, started, clock, labels, results, workers), **told, "profile": parts.form()}
        with closing(body.open("rb")) as file:
            receipt = publish(
                store,
                Publication(
                    manifest=merged.manifest,
                    schema=opened.shared.schema,
                    contract=opened.shared.contract,
                    structure=opened.shared.structure,
                    summary=merged.summary,
                    body=None if spec.detail == "counts" else file,
                    page_index=None if spec.detail == "counts" else merged.facts.page_index,
                    sidecar=sidecar,
                ),
                sign=sign,
            )
        carried.leave([one.facts for one in results], receipt.manifest)
        parts.lap("store")
        manifest, summary = documents.parse_manifest(merged.manifest), documents.parse_summary(merged.summary)
        return Outcome(receipt, manifest, summary, sidecar, parts.form())


def _compare_all(
    opened: Opened,
    ranges: list[KeyRange],
    job: Job,
    open_side: OpenSide,
    workers: int,
    progress: RunProgress | None,
) -> list[ShardResult]:
    expected = sum(opened.side(name).estimate_rows() or 0 for name in SIDES) if progress is not None else None
    results: list[ShardResult] = []
    finished, records, most = 0, 0, records_at_most(opened)

    def tell(rows: int) -> None:
        if progress is not None:
            progress(finished + rows, expected, len(results), len(ranges))

    for result in _shard_results(opened, ranges, job, open_side, workers, tell):
        results.append(result)
        finished += sum(result.facts["population"][name]["rows"] for name in SIDES)
        tell(0)
        records += result.facts["records"]
        if most is not None and records > most:
            raise too_different(opened.spec.limits, most)
        limit = opened.spec.limits.max_discrepancies
        if limit is not None and records > limit:
            raise RecordLimitError(
                f"more than {limit} records differ; {records} had been counted.", where="limits.max_discrepancies"
            )
    return results


def _shard_results(
    opened: Opened,
    ranges: list[KeyRange],
    job: Job,
    open_side: OpenSide,
    workers: int,
    tell: Callable[[int], None],
) -> Iterator[ShardResult]:
    """Yield the results in key order; the first shard that fails, in key order, ends the run."""
    if workers <= 1:
        for number, key_range in enumerate(ranges):
            yield run_shard(opened, number, key_range, job, open_side, tell)
        return
    from concurrent.futures import ProcessPoolExecutor  # not where one process does it all: 40 modules more
    from multiprocessing import get_context

    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(job, open_side)) as pool:
        futures = [pool.submit(_run_in_worker, number, key_range) for number, key_range in enumerate(ranges)]
        try:
            yield from results_of(futures)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_WORKER: dict[str, Any] = {}


def _start_worker(job: Job, open_side: OpenSide) -> None:
    if job.light:
        keep_pandas_out()
    _WORKER.update(job=job, open_side=open_side)


def _run_in_worker(number: int, key_range: KeyRange) -> ShardResult:
    job: Job = _WORKER["job"]
    if "opened" not in _WORKER:
        opened = open_sides(parse_spec(job.form), _WORKER["open_side"], hmac_key=job.hmac_key)
        if opened.shared.identity != job.identity:
            opened.close()
            raise SideChangedError("the columns of a side changed between plan and read.")
        _WORKER["opened"] = opened
    return run_shard(_WORKER["opened"], number, key_range, job, _WORKER["open_side"], None)


def run_shard(
    opened: Opened,
    number: int,
    key_range: KeyRange,
    job: Job,
    open_side: OpenSide,
    tell: Callable[[int], None] | None,
) -> ShardResult:
    limits, clock = opened.spec.limits, time.monotonic()

    def watch(source_rows: int, target_rows: int) -> None:
        _check_time(job.deadline, opened.spec)
        if tell is not None:
            tell(source_rows + target_rows)

    if key_range not in job.ready:
        wait_until_quiet(opened, tell=job.tell, watch=lambda: _check_time(job.deadline, opened.spec))
    raw_path, body_path = job.folder / f"{number:06d}.raw", job.folder / f"{number:06d}.jsonl"
    with raw_path.open("r+b" if key_range in job.ready else "w+b") as raw:
        facts = job.ready.get(key_range) or compare_settled(
            opened,
            lambda: open_sides(opened.spec, open_side, hmac_key=job.hmac_key),
            key_range,
            raw,
            progress=watch,
            folder=str(job.folder),
            records_max=limits.max_discrepancies,
            spilled=job.spilled,
        )
        raw.flush()
        raw.seek(0)
        compared = time.monotonic()
        with body_path.open("wb") as body:
            sub = build_sub_manifest(raw, opened.shared, body, bytes_max=limits.max_bytes)
    if not job.keep_raw:
        raw_path.unlink()
    ended = time.monotonic()
    facts |= {
        "compare_ms": round((compared - clock) * 1000) - facts.get("read_ms", 0),
        "encode_ms": round((ended - compared) * 1000),
        "ms": round((ended - clock) * 1000),
    }
    # As they were encoded, small documents hold pages of memory; these are held until the last shard has ended.
    manifest, summary = (bytes(memoryview(data)) for data in (sub.manifest, sub.summary))
    return ShardResult(manifest, summary, body_path, sub.facts, facts)


def _check_time(deadline: float | None, spec: Spec) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise WallLimitError(f"the run took longer than {spec.limits.max_seconds} s.", where="limits.max_seconds")


def _merge(results: list[ShardResult], spec: Spec, folder: Path) -> tuple[Merged, Path]:
    if len(results) == 1:  # its sub-manifest is the manifest; publishing checks the body against it
        return Merged(results[0].manifest, results[0].summary, results[0].body_facts), results[0].body
    path = folder / "body.jsonl"
    inputs = [MergeInput(one.manifest, one.summary, partial(open_binary, one.body)) for one in results]
    with path.open("wb") as out:
        merged = merge_manifests(inputs, out)
    if spec.limits.max_bytes is not None and merged.facts.body_bytes > spec.limits.max_bytes:
        raise DiskLimitError(f"the body is larger than {spec.limits.max_bytes} bytes.", where="limits.max_bytes")
    return merged, path


def _sidecar(
    opened: Opened,
    started: datetime,
    clock: float,
    labels: list[str],
    results: list[ShardResult],
    workers: int,
) -> dict[str, Any]:
    return {
        "duration_ms": round((time.monotonic() - clock) * 1000),
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "host": platform.node(),
        "process": os.getpid(),
        **settled_form(opened.spec, [one.facts for one in results]),
        "shards": [
            {"label": label, "ms": one.facts["ms"], "records": one.facts["records"]}
            for label, one in zip(labels, results, strict=True)
        ],
        "sides": [{"facts": plain(opened.side(name).facts()), "side": name} for name in SIDES],
        "started_at": started.isoformat(timespec="milliseconds"),
        **strategy_form(opened.spec.strategy, [one.facts for one in results]),
        "tool": f"airflow-delta-provider {airflow_delta_provider.__version__}",
        "workers": workers,
    }


def plain(value: Any) -> Any:
    """Return facts in the values that canonical JSON allows: floats and big integers become text, members lists."""
    if isinstance(value, Mapping):
        return [[str(name), plain(part)] for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if value is None or isinstance(value, bool | str) or (isinstance(value, int) and abs(value) < 2**53):
        return value
    return str(value)
