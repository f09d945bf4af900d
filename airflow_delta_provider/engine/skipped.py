"""What the steps of a run take from earlier runs, and leave for later ones, under proof (engine/proved.py)."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from airflow_delta_provider.core.errors import StoreConflictError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.planning import SIDES, plan_ranges
from airflow_delta_provider.engine.proved import (
    Kept,
    Piece,
    Proof,
    held_still,
    piece_of,
    prove,
    read_others,
    resume_form,
)
from airflow_delta_provider.engine.resume import Results
from airflow_delta_provider.engine.work import Plan, Shard, Work

Clock = Callable[[], float]
Ready = dict[KeyRange, dict[str, Any]]
TAKEN = "taken"
"""How many pieces of a comparison an earlier run had compared, in its facts."""
OTHERS = "others"
"""Whether a comparison read other files than were proved, in its facts."""


def ranges_under(
    opened: Opened, store: Store, proof: Proof | None, *, count: int | None, workers: int = 1
) -> list[KeyRange]:
    """Return the ranges of a plan: those of an earlier run under the same proof series, so that its results fit."""
    if proof is not None and proof.series:
        found = Kept.of(store, proof.series).cuts([count], rows_of(opened))
        if found is not None:
            return found
    return plan_ranges(opened, count=count, workers=workers)


def rows_of(opened: Opened) -> int:
    """Return about how many rows the larger side has."""
    return max(opened.side(name).estimate_rows() or 0 for name in SIDES)


def pieces_under(opened: Opened, proof: Proof | None, ranges: Sequence[KeyRange]) -> dict[KeyRange, Piece]:
    """Return what is proved of each range: nothing where nothing is proved."""
    if proof is None or not proof.series:
        return {}
    return {each: piece_of(opened, proof, each) for each in ranges}


def take(work: Work, opened: Opened, shard: Shard, numbers: Sequence[int], clock: Clock) -> dict[int, dict[str, Any]]:
    """Return the results of pieces that an earlier run compared under the same proof, their artifacts now in this run's folder.

    None of them where the sides that are open now are seen to be others than the plan proved: a task may run long after it.
    Raises: StoreConflictError where an artifact's bytes are not those that were left.
    """
    proof = proof_of(shard.plan)
    if proof is None or not shard.proved or read_others(opened, proof):
        return {}
    kept = Kept.of(work.store, proof.series)
    found = {number: _taken(work, kept, shard.proved[number]["key"], clock) for number in numbers}
    return {number: one for number, one in found.items() if one is not None}


def _taken(work: Work, kept: Kept, key: str, clock: Clock) -> dict[str, Any] | None:
    found = kept.find(key)
    raw = None if found is None else kept.raw(found["digest"])
    if found is None or raw is None:
        return None
    with raw:
        digest = work.put(raw)
    if digest != found["digest"]:
        raise StoreConflictError(f"Stored under {found['digest']}, the bytes hash to {digest}.", where=digest)
    now = {"host": platform.node(), "ms": 0, "sides": [], "started_ms": round(clock() * 1000)}
    return {**found, **now, TAKEN: 1}


def proof_of(plan: Plan) -> Proof | None:
    """Return the proof under which a plan was made."""
    return None if plan.proof is None else Proof.of_form(plan.proof)


class Carried:
    """What a run in one process takes from earlier runs and leaves for later ones, its raw comparisons in a folder.

    ``ranges`` are the shards of the run, ``ready`` the facts of those whose raw comparison is there already.
    Raises: StoreConflictError where stored bytes are not those that were left.
    """

    def __init__(self, opened: Opened, store: Store, folder: Path, *, count: int | None, workers: int) -> None:
        self.store = store
        self.count = count
        self.rows = rows_of(opened)
        self.proof = prove(opened)
        self.ranges = ranges_under(opened, store, self.proof, count=count, workers=workers)
        self.pieces = pieces_under(opened, self.proof, self.ranges)
        self.raws = {each: folder / f"{number:06d}.raw" for number, each in enumerate(self.ranges)}
        self.ready: Ready = {each: facts for each in self.pieces if (facts := self._fetched(each)) is not None}
        self.reason = ""

    def _fetched(self, key_range: KeyRange) -> dict[str, Any] | None:
        kept = Kept.of(self.store, self.proof.series if self.proof else "")
        found = kept.find(self.pieces[key_range].key)
        raw = None if found is None else kept.raw(found["digest"])
        if found is None or raw is None:
            return None
        with raw, self.raws[key_range].open("w+b") as file:
            shutil.copyfileobj(raw, file)
            digest = blobs.digest_of(file)
        if digest != found["digest"]:
            raise StoreConflictError(f"Stored under {found['digest']}, the bytes hash to {digest}.", where=digest)
        return found

    def told(self, labels: Sequence[str], reopen: Callable[[], Opened]) -> dict[str, Any]:
        """Return what the sidecar says of it, both sides proved once more."""
        if self.proof is not None and self.pieces:
            self.reason = held_still(self.proof, reopen)
        skipped = {at: self.pieces[each] for at, each in enumerate(self.ranges) if each in self.ready}
        return resume_form(self.proof, labels, skipped, self.reason)

    def leave(self, facts: Sequence[Mapping[str, Any]], manifest: str) -> None:
        """Keep the results, where both sides held still."""
        if self.proof is None or not self.pieces or self.reason:
            return
        both = zip(self.ranges, facts, strict=True)
        left = [(self.pieces[each].key, one, partial(open_binary, self.raws[each])) for each, one in both]
        Kept.of(self.store, self.proof.series).leave([self.count], self.rows, self.ranges, left, manifest)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading bytes."""
    return path.open("rb")


class Leaving:
    """What a merge says of the results it took, and leaves for later runs once it has published.

    Both sides are opened anew and proved again first; without ``reopen`` nothing is left.
    """

    def __init__(self, work: Work, planned: Sequence[Shard], reopen: Callable[[], Opened] | None) -> None:
        self.work = work
        self.planned = planned
        self.proof = proof_of(planned[0].plan)
        self.reason = ""
        if self.proof is not None and self.proof.series:
            self.reason = "the merge opens no side" if reopen is None else held_still(self.proof, reopen)
        self.results = [] if self.proof is None else [*self._results()]
        if not self.reason and any(found is not None and found.get(OTHERS) for _, _, _, found in self.results):
            self.reason = "a task read other files than were proved"

    def _results(self) -> Any:
        results = Results(self.work)
        for shard in self.planned:
            several = len(shard.pieces) > 1
            for number, piece in enumerate(shard.pieces):
                found = results.of_comparison(shard.digest, shard.plan.digest, number if several else None)
                proved = shard.proved[number] if shard.proved else None
                yield piece, shard.label if not several else f"{shard.label}, piece {number + 1}", proved, found

    def form(self) -> dict[str, Any]:
        """Return what the sidecar says of it."""
        skipped = {
            at: Piece(proved["key"], dict(proved["needs"]))
            for at, (_, _, proved, found) in enumerate(self.results)
            if proved is not None and found is not None and found.get(TAKEN)
        }
        return resume_form(self.proof, [label for _, label, _, _ in self.results], skipped, self.reason)

    def leave(self, manifest: str) -> None:
        """Keep the results, where both sides held still."""
        if self.proof is None or not self.proof.series or self.reason:
            return
        whole: list[tuple[str, Mapping[str, Any], Any]] = [
            (proved["key"], found, partial(self.work.open, found["digest"]))
            for _, _, proved, found in self.results
            if proved is not None and found is not None
        ]
        rows, count = self.planned[0].plan.request
        ranges = [piece for piece, _, _, _ in self.results]
        Kept.of(self.work.store, self.proof.series).leave([count], rows, ranges, whole, manifest)
