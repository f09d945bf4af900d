"""The pieces of a planned shard: each is compared and built on its own, and a shard of several is their union."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_delta_provider.core import documents, jsonc
from airflow_delta_provider.core.errors import InputShardError, SideChangedError, WallLimitError
from airflow_delta_provider.core.manifest import add_populations
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.submanifest import Shared, build_sub_manifest, shared_of
from airflow_delta_provider.engine.manners import Tell, silent, wait_until_quiet
from airflow_delta_provider.engine.narrow import FACTS, united_facts
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.planning import SIDES
from airflow_delta_provider.engine.proved import read_others
from airflow_delta_provider.engine.recheck import LOOKS, compare_settled
from airflow_delta_provider.engine.run import plain
from airflow_delta_provider.engine.skipped import OTHERS, TAKEN, proof_of
from airflow_delta_provider.engine.work import Plan, Shard, Work, read_document

RAWS_FORMAT = "delta-raws/1"
Clock = Callable[[], float]
"""Seconds since 1970, as ``time.time``."""


def compare_piece(
    opened: Opened,
    reopen: Callable[[], Opened],
    shard: Shard,
    piece: KeyRange,
    work: Work,
    clock: Clock,
    tell: Tell = silent,
    rows: Callable[[int], None] = lambda rows: None,
) -> dict[str, Any]:
    """Compare one piece and store its raw comparison; return its result without `about_sides`.

    ``rows`` is told how many were read so far.
    """
    started = clock()

    def progress(source_rows: int, target_rows: int) -> None:
        check_time(shard.plan, clock)
        rows(source_rows + target_rows)

    if opened.shared.identity != shard.plan.identity:
        raise SideChangedError("the columns of a side changed between plan and read.")
    wait_until_quiet(opened, tell=tell, watch=lambda: check_time(shard.plan, clock))
    began = clock()
    with (
        tempfile.TemporaryDirectory(prefix="delta-shard-") as folder,
        (Path(folder) / "shard.raw").open("w+b") as raw,
    ):
        facts = compare_settled(
            opened,
            reopen,
            piece,
            raw,
            progress=progress,
            folder=folder,
            records_max=shard.plan.spec.limits.max_discrepancies,
        )
        raw.flush()
        compared = clock()
        digest = work.put(raw)
    read_ms = facts.get("read_ms", 0)
    spent = {"read": read_ms, "compare": max(0, _ms(began, compared) - read_ms), "store": _ms(compared, clock())}
    looks = {name: facts[name] for name in (*LOOKS, *FACTS) if name in facts}
    return {
        "digest": digest,
        "population": facts["population"],
        "records": facts["records"],
        "spent": spent,
        **_shard_note(started, clock()),
        **looks,
    }


def about_sides(opened: Opened, shard: Shard) -> dict[str, Any]:
    """Return what a task says once of the sides that it opened: their facts, and whether they are others than were proved."""
    sides = [{"facts": plain(opened.side(name).facts()), "side": name} for name in SIDES]
    return {OTHERS: read_others(opened, proof_of(shard.plan)), "sides": sides}


def compared_whole(work: Work, shard: Shard, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a shard from those of its pieces: one raw comparison, or the list of several."""
    if len(pieces) == 1:
        return dict(pieces[0])
    raws = [piece["digest"] for piece in pieces]
    return {
        "digest": work.put(jsonc.dumps({"format": RAWS_FORMAT, "raws": raws, "shard": shard.digest})),
        "host": pieces[-1]["host"],
        "ms": sum(piece["ms"] for piece in pieces),
        "population": add_populations([piece["population"] for piece in pieces]),
        "records": sum(piece["records"] for piece in pieces),
        "sides": next((piece["sides"] for piece in pieces if piece["sides"]), []),
        "spent": spent_on(pieces),
        "started_ms": min(piece["started_ms"] for piece in pieces),
        **{name: sum(piece[name] for piece in pieces) for name in LOOKS if all(name in piece for piece in pieces)},
        **({TAKEN: sum(piece.get(TAKEN, 0) for piece in pieces)} if any(TAKEN in piece for piece in pieces) else {}),
        **united_facts(pieces),
    }


def spent_on(facts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the milliseconds of each part of some work, added up."""
    total: dict[str, int] = {}
    for one in facts:
        for part, ms in one.get("spent", {}).items():
            total[part] = total.get(part, 0) + ms
    return total


def _ms(since: float, until: float) -> int:
    return round((until - since) * 1000)


def raws_of(work: Work, shard: Shard, comparison: str) -> list[str]:
    """Return the raw comparisons of the pieces of a shard. Raises: InputShardError where they are of another shard."""
    if len(shard.pieces) == 1:
        return [comparison]
    found = read_document(work, comparison, RAWS_FORMAT)
    if found["shard"] != shard.digest or len(found["raws"]) != len(shard.pieces):
        raise InputShardError("the raw comparison is of another shard.", where=shard.digest)
    return list(found["raws"])


def build_piece(
    work: Work, shard: Shard, shared: Shared, folder: Path, piece: KeyRange, comparison: str
) -> tuple[bytes, bytes, Path]:
    """Return the sub-manifest of one piece, its summary, and where its body lies."""
    raw_path, body_path = folder / "shard.raw", folder / f"{comparison}.jsonl"
    work.fetch(comparison, raw_path)
    with raw_path.open("rb") as raw, body_path.open("wb") as body:
        sub = build_sub_manifest(raw, shared, body, bytes_max=shard.plan.spec.limits.max_bytes)
    if documents.parse_manifest(sub.manifest)["key_range"] != piece.document():
        raise InputShardError("the raw comparison is of another shard.", where=shard.digest)
    return sub.manifest, sub.summary, body_path


def _shard_note(started: float, ended: float) -> dict[str, Any]:
    return {"host": platform.node(), "ms": round((ended - started) * 1000), "started_ms": round(started * 1000)}


def check_time(the_plan: Plan, clock: Clock) -> None:
    """Refuse beyond ``max_seconds`` after the plan was made, whoever works when."""
    max_seconds = the_plan.spec.limits.max_seconds
    if max_seconds is None or the_plan.planned_ms is None:
        return
    if clock() > the_plan.planned_ms / 1000 + max_seconds:
        raise WallLimitError(
            f"the plan was made more than {max_seconds} s ago; a new run plans anew.", where="limits.max_seconds"
        )


def shared_by(work: Work, the_plan: Plan) -> Shared:
    """Return the documents that all shards of a plan share."""
    parts = [blobs.get_blob(work.store, the_plan.documents[name]) for name in ("schema", "contract", "structure")]
    return shared_of(parts[0], parts[1], parts[2], dict(the_plan.pair))
