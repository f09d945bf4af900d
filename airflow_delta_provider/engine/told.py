"""How far a shard is, for the log of its task: a line now and then, with counts and never a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_delta_provider.engine.manners import Tell
from airflow_delta_provider.engine.work import Shard

TELL_INTERVAL_S = 10.0


class Told:
    """Tells of one shard: rows read on both sides so far, their share of about how many, and about how long it still takes.

    ``done``: its pieces that need not be read. ``clock`` gives seconds.
    """

    def __init__(self, tell: Tell, shard: Shard, clock: Callable[[], float], done: int = 0) -> None:
        self._tell = tell
        self._clock = clock
        self._started = self._last = clock()
        self._before = 0
        self._rows = 0
        self._pieces = len(shard.pieces)
        self._piece = done
        self._where = f"Shard {shard.number + 1} of {shard.plan.shards}"
        whole = 2 * shard.plan.request[0] // max(1, shard.plan.shards)
        self._expected = whole * (self._pieces - done) // self._pieces

    def next_piece(self) -> None:
        """Count on from what the piece before had."""
        self._before += self._rows
        self._rows = 0
        self._piece += 1

    def rows(self, rows: int) -> None:
        """Take how many rows of this piece were read so far, and say so where it is time."""
        self._rows = rows
        now = self._clock()
        if now - self._last >= TELL_INTERVAL_S:
            self._last = now
            self._tell(self._line(now - self._started))

    def _line(self, seconds: float) -> str:
        rows = self._before + self._rows
        piece = f", piece {self._piece} of {self._pieces}" if self._pieces > 1 else ""
        line = f"{self._where}{piece}: {rows} rows, {rows / seconds:.0f} a second"
        if not self._expected or not rows:
            return line
        share = min(1.0, rows / self._expected)
        left = max(0, self._expected - rows) * seconds / rows
        return f"{line}, {share:.0%} of about {self._expected}, {left:.0f} s left"


def told_whole(manifest: Mapping[str, Any], shards: int, spent_ms: Mapping[str, int]) -> str:
    """Return what all shards had, and where their time went, added up over all tasks."""
    rows = [manifest["population"][side]["rows"] for side in ("source", "target")]
    spent = ", ".join(f"{part} {ms / 1000:.1f} s" for part, ms in spent_ms.items())
    return (
        f"{shards} shards: {rows[0]} source rows, {rows[1]} target rows, {manifest['body']['records']} differ; {spent}"
    )
