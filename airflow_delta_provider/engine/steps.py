"""The same job as engine/run.py, cut into steps that share nothing but a store and digests: plan, compare, build, merge.

Each step may be run again at any time, on any machine: the same data gives the same bytes under the same digest. What a
step leaves for the next lies in the work folder of the run (docs/format.md, S10), under its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
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
    MergeContextError,
    MergeGapError,
    RecordLimitError,
)
from airflow_delta_provider.core.manifest import Merged, MergeInput, add_populations, merge_manifests
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.store.publish import Publication, Receipt, Sign, publish
from airflow_delta_provider.engine.manners import Tell, check_share, look_ahead, silent
from airflow_delta_provider.engine.narrow import strategy_form
from airflow_delta_provider.engine.opened import Opened, OpenSide, open_sides
from airflow_delta_provider.engine.pieces import (
    Clock,
    about_sides,
    build_piece,
    check_time,
    compare_piece,
    compared_whole,
    raws_of,
    shared_by,
    spent_on,
)
from airflow_delta_provider.engine.planning import SIDES, grouped
from airflow_delta_provider.engine.profile import profile_of
from airflow_delta_provider.engine.proved import prove
from airflow_delta_provider.engine.recheck import settled_form
from airflow_delta_provider.engine.resume import Results
from airflow_delta_provider.engine.skipped import TAKEN, Leaving, open_binary, pieces_under, ranges_under, rows_of, take
from airflow_delta_provider.engine.told import Told, told_whole
from airflow_delta_provider.engine.work import Plan, Shard, Work, read_shards, write_plan

HOLES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan: the digests of its shards in key order, and about how many rows each side has."""

    shards: list[str]
    rows_estimate: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """A compared shard: the digest of its raw comparison, and its counts by name.

    ``reused`` is how many of its pieces an earlier try of the run had finished, of ``len(shard.pieces)``; ``taken`` how
    many an earlier run had compared, under proof that both sides held what they hold now.
    """

    digest: str
    shard: Shard
    records: int
    population: Mapping[str, Any]
    reused: int
    taken: int = 0


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
    on_rerun: str = "reuse",
    clock: Clock = time.time,
) -> Planned:
    """Cut the key space of both sides into shards and store one document for each.

    Where there would be more than ``shards_max``, each takes several neighbouring pieces. Under ``on_rerun="reuse"`` a
    run that was planned before, by the same specification, keeps its plan, and no side is asked.
    Raises: every refusal of ``open_sides``.
    """
    results = Results(work)
    request = hashlib.sha256(json.dumps([spec.form, shards, shards_max], sort_keys=True).encode()).hexdigest()
    found = results.of_plan(request) if on_rerun == "reuse" else None
    if found is None:
        with open_sides(spec, open_side, hmac_key=hmac_key) as opened:
            proof = prove(opened)
            ranges = ranges_under(opened, work.store, proof, count=shards)
            look_ahead(opened, ranges)
            about = {
                "on_rerun": on_rerun,
                "planned_ms": None if spec.limits.max_seconds is None else round(clock() * 1000),
                "proof": None if proof is None else proof.form(),
                "request": [rows_of(opened), shards],
            }
            proved = {each: piece.form() for each, piece in pieces_under(opened, proof, ranges).items()}
            digest, planned = write_plan(work, spec, opened.shared, grouped(ranges, shards_max), about, proved)
            rows = {name: opened.side(name).estimate_rows() for name in SIDES}
        found = {"plan": digest, "request": request, "rows_estimate": rows, "shards": planned}
        if on_rerun == "reuse":
            results.leave_plan(found)
    return Planned(found["shards"], found["rows_estimate"])


def compare(
    shard_digest: str,
    work: Work,
    open_side: OpenSide,
    *,
    key_of: Callable[[Spec], HmacKey | None] = lambda spec: None,
    clock: Clock = time.time,
    tell: Tell = silent,
) -> Compared:
    """Compare one planned shard and store its raw comparison, piece by piece; what an earlier try finished stands.

    ``key_of`` gives the key of keyed digests where a specification does not take it from the environment; ``tell`` takes
    what people may want to know meanwhile, line by line.
    Raises: InputShardError (DELTA_INPUT_SHARD) where no such shard was planned; SideChangedError (DELTA_SIDE_CHANGED)
    where the sides no longer have the columns that were planned; every refusal of ``compare_shard``.
    """
    (shard,) = read_shards(work, [shard_digest])
    results = Results(work)
    whole = results.of_comparison(shard.digest, shard.plan.digest)
    reused = len(shard.pieces)
    if whole is None:
        several = len(shard.pieces) > 1
        found = [results.of_comparison(shard.digest, shard.plan.digest, n) if several else None for n in range(reused)]
        missing = [number for number, one in enumerate(found) if one is None]
        reused -= len(missing)
        if missing:
            spec = shard.plan.spec
            reopen = partial(open_sides, spec, open_side, hmac_key=key_of(spec))
            with closing(_missing_pieces(reopen, shard, missing, work, clock, tell)) as done:
                for number, one in done:
                    found[number] = one
                    if several:
                        results.leave_comparison(shard.digest, one, number)
        whole = compared_whole(work, shard, [one for one in found if one is not None])
        results.leave_comparison(shard.digest, whole)
    return Compared(whole["digest"], shard, whole["records"], whole["population"], reused, whole.get(TAKEN, 0))


def _missing_pieces(
    reopen: Callable[[], Opened], shard: Shard, missing: Sequence[int], work: Work, clock: Clock, tell: Tell
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    """Yield the results of pieces, by number: first those that an earlier run had compared, then the others, compared now."""
    with reopen() as opened:
        taken = take(work, opened, shard, missing, clock)
        yield from taken.items()
        told = Told(tell, shard, clock, len(shard.pieces) - len(missing) + len(taken))
        about: dict[str, Any] = {}
        for number in missing:
            if number not in taken:
                told.next_piece()
                piece = shard.pieces[number]
                one = compare_piece(opened, reopen, shard, piece, work, clock, tell, told.rows)
                # every file of both sides: once is enough, and a hundred pieces would store them a hundred times
                about = {**about, "sides": []} if about else about_sides(opened, shard)
                yield number, {**one, **about}


def build(shard_digest: str, comparison: str, work: Work, *, clock: Clock = time.time) -> Built:
    """Build the sub-manifest of one shard from its raw comparison, and store it with its body and summary.

    Raises: InputShardError (DELTA_INPUT_SHARD) where the raw comparison is gone, cut, or of another shard; DiskLimitError.
    """
    (shard,) = read_shards(work, [shard_digest])
    results = Results(work)
    found = results.of_build(shard.digest, shard.plan.digest, comparison)
    if found is None:
        started = clock()
        with tempfile.TemporaryDirectory(prefix="delta-shard-") as folder:
            raws, shared = raws_of(work, shard, comparison), shared_by(work, shard.plan)
            subs = [
                build_piece(work, shard, shared, Path(folder), *both) for both in zip(shard.pieces, raws, strict=True)
            ]
            manifest, summary, body_path = subs[0]
            if len(subs) > 1:
                body_path = Path(folder) / "body.jsonl"
                inputs = [MergeInput(one[0], one[1], partial(open_binary, one[2])) for one in subs]
                with body_path.open("w+b") as out:
                    merged = merge_manifests(inputs, out)
                manifest, summary = merged.manifest, merged.summary
            encoded = clock()
            with body_path.open("rb") as body:
                work.put(body)
            work.put(summary)
            records = documents.parse_manifest(manifest)["body"]["records"]
            found = {"comparison": comparison, "digest": work.put(manifest), "records": records}
            spent = {"encode": encoded - started, "store": clock() - encoded}
            found["spent"] = {part: round(seconds * 1000) for part, seconds in spent.items()}
        results.leave_build(shard.digest, found)
    return Built(found["digest"], shard, found["records"])


def merge(
    shards: Sequence[str],
    parts: Sequence[str],
    work: Work,
    *,
    slot_hex: str,
    sign: Sign | None = None,
    on_rerun: str = "reuse",
    facts: Mapping[str, Any] | None = None,
    reopen: Callable[[Spec], Opened] | None = None,
    clock: Clock = time.time,
    tell: Tell = silent,
) -> Published:
    """Merge the sub-manifests of a whole plan, publish the manifest, and clear the work folder.

    ``shards`` are the digests of the plan and ``parts`` those of the sub-manifests, both in any order. Nothing is merged
    unless every shard has its part. ``slot_hex`` names the logical task run that publishes, ``facts`` go to the sidecar.
    ``reopen`` opens both sides anew: where the specification asks for ``resume: proved`` they are proved once more, and the
    comparisons are kept for later runs.
    The documents of the plan stay in the work folder, so that each step may be run again; where nothing else is left of a
    run that had finished, the manifest that it published is returned.
    Raises: MergeGapError (DELTA_MERGE_GAP) for a hole, InputShardError, MergeContextError, RecordLimitError,
    DiskLimitError, WallLimitError, and what ``merge_manifests`` and ``publish`` raise.
    """
    started, planned = clock(), _whole_plan(work, shards)
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
        leaving = Leaving(work, planned, None if reopen is None else partial(reopen, planned[0].plan.spec))
        merge_ms = round((clock() - started) * 1000)
        sidecar = {**_sidecar(work, planned, inputs, clock, merge_ms), **leaving.form(), **(facts or {})}
        tell(told_whole(documents.parse_manifest(merged.manifest), len(planned), sidecar["profile"]))
        publication = _publication(merged, work, planned[0].plan, body, sidecar)
        receipt = publish(work.store, publication, sign=sign, slot_hex=slot_hex, on_rerun=on_rerun)
    leaving.leave(receipt.manifest)
    keep = {planned[0].plan.digest, *shards}
    if planned[0].plan.on_rerun == "reuse":
        keep |= Results(work).finish(planned[0].plan.digest, shards, receipt.manifest)
    work.finish(shards, parts, receipt.manifest, keep=keep)
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
    check_share(limits, records, add_populations([one.document["population"] for one in inputs]))
    check_time(the_plan, clock)


def _publication(merged: Merged, work: Work, the_plan: Plan, body: BinaryIO, sidecar: Mapping[str, Any]) -> Publication:
    shared, counts_only = shared_by(work, the_plan), the_plan.spec.detail == "counts"
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


def _sidecar(
    work: Work, planned: Sequence[Shard], inputs: Sequence[_Part], clock: Clock, merge_ms: int
) -> dict[str, Any]:
    results = Results(work)
    builds = [results.of_part(shard.digest) for shard in planned]
    notes: list[dict[str, Any] | None] = []
    sides: list[Any] = []
    for shard in planned:
        note = results.of_comparison(shard.digest, shard.plan.digest)
        notes.append(note)
        sides = sides or (note or {}).get("sides", [])
        if note is not None:
            note["sides"] = []  # every file of both sides, in each of them
    now_ms = round(clock() * 1000)
    started_ms = min((note["started_ms"] for note in notes if note), default=now_ms)
    return {
        "duration_ms": now_ms - started_ms,
        "finished_at": _iso(now_ms),
        "host": platform.node(),
        "profile": profile_of(spent_on([one for one in (*notes, *builds) if one]), merge_ms),
        **settled_form(planned[0].plan.spec, [note for note in notes if note]),
        "shards": [
            {"label": shard.label, "ms": (note or {}).get("ms"), "records": one.document["body"]["records"]}
            for shard, note, one in zip(planned, notes, inputs, strict=True)
        ],
        "sides": sides,
        "started_at": _iso(started_ms),
        **strategy_form(planned[0].plan.spec.strategy, [note or {} for note in notes]),
        "tool": f"airflow-delta-provider {airflow_delta_provider.__version__}",
        "workers": len({note["host"] for note in notes if note}) or 1,
    }


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
