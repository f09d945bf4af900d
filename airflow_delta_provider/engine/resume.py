"""What the steps of a run leave of their results, so that no retry and no clear computes a finished shard again.

A result is found by what it is the result of: the shard, whose digest covers the plan with the contract and the documents
of both sides. It says nothing of the sides' state, so it counts in the run that made it and in no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import exists
from airflow_delta_provider.engine.work import Work

PLANNED = "planned"
_RESULT = b"delta-result/1\0"
_FINISHED = b"delta-finished/1\0"


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one run, in its work folder; each names the artifact that it stands for as ``digest``."""

    work: Work

    def of_plan(self, request: str) -> dict[str, Any] | None:
        """Return what was planned for this request, None where its plan or a shard is gone."""
        found = self.work.facts(self.work.named(_RESULT, PLANNED))
        if found is None or found["request"] != request:
            return None
        return found if all(self._there(digest) for digest in (found["plan"], *found["shards"][:1])) else None

    def of_comparison(self, shard: str, plan: str, piece: int | None = None) -> dict[str, Any] | None:
        """Return the result of comparing a shard, or a piece of it: its counts and facts, None where there is none."""
        found = self._result(_about_comparison(shard, piece))
        return found or (None if piece is not None else self._finished(plan, shard, "comparison"))

    def of_build(self, shard: str, plan: str, comparison: str) -> dict[str, Any] | None:
        """Return the result of building the sub-manifest of a comparison, None where there is none."""
        found = self._result(f"build:{shard}") or self._finished(plan, shard, "part")
        return found if found is not None and found["comparison"] == comparison else None

    def of_part(self, shard: str) -> dict[str, Any] | None:
        """Return the result of building a shard, whatever it was built from; None where there is none."""
        return self.work.facts(self.work.named(_RESULT, f"build:{shard}"))

    def leave_plan(self, facts: Mapping[str, Any]) -> None:
        """Leave what was planned."""
        self._leave(PLANNED, facts)

    def leave_comparison(self, shard: str, facts: Mapping[str, Any], piece: int | None = None) -> None:
        """Leave the result of a comparison, in place of one whose artifact is gone."""
        self._leave(_about_comparison(shard, piece), facts)

    def leave_build(self, shard: str, facts: Mapping[str, Any]) -> None:
        """Leave the result of a build."""
        self._leave(f"build:{shard}", facts)

    def finish(self, plan: str, shards: Sequence[str], manifest: str) -> set[str]:
        """Keep all results of a published plan in one document; return the names of what is to stay."""
        kept = []
        for shard in shards:
            comparison, part = self._result(_about_comparison(shard, None)), self._result(f"build:{shard}")
            if comparison is not None and part is not None:
                counts = {name: comparison[name] for name in ("digest", "population", "records")}
                kept.append({"comparison": counts, "part": part, "shard": shard})
        path = self.work.named(_FINISHED, plan)
        if kept:
            self.work.store.create(path, jsonc.dumps({"manifest": manifest, "shards": kept}))
        return {one.rsplit("/", 1)[-1] for one in (path, self.work.named(_RESULT, PLANNED))}

    def _finished(self, plan: str, shard: str, member: str) -> dict[str, Any] | None:
        """Return a result of a run that was published: its artifacts are in the manifest, and gone from here."""
        document = self.work.facts(self.work.named(_FINISHED, plan))
        shards = [] if document is None else document["shards"]
        return next((one[member] for one in shards if one["shard"] == shard), None)

    def _result(self, about: str) -> dict[str, Any] | None:
        found = self.work.facts(self.work.named(_RESULT, about))
        return found if found is not None and self._there(found["digest"]) else None

    def _there(self, digest: str) -> bool:
        return exists(self.work.store, layout.work_path(self.work.slot_hex, digest))

    def _leave(self, about: str, facts: Mapping[str, Any]) -> None:
        path, data = self.work.named(_RESULT, about), jsonc.dumps(dict(facts))
        if not self.work.store.create(path, data):
            self.work.store.remove_work(path)
            self.work.store.create(path, data)


def _about_comparison(shard: str, piece: int | None) -> str:
    return f"compare:{shard}" if piece is None else f"compare:{shard}:{piece}"
