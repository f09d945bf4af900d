"""Where the time of a run went, part by part, in whole milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

PARTS = ("open", "plan", "sort", "shards", "read", "compare", "encode", "merge", "prove", "store")
"""Order of the parts. ``shards`` is wall time; ``read``, ``compare`` and ``encode`` are its pieces, over all workers."""
INSIDE_SHARDS = ("read", "compare", "encode")
"""``read``: the comparison waited for rows. ``encode``: canonical lines, digests and the body of the sub-manifest."""


class Stopwatch:
    """Adds up laps. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._spent_s: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Count the time since the last lap as a part's."""
        now = self._clock()
        self._spent_s[part] = self._spent_s.get(part, 0.0) + now - self._last
        self._last = now

    def add(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Count what shards say of themselves: ``read_ms``, ``compare_ms``, ``encode_ms``."""
        for one in facts:
            for part in INSIDE_SHARDS:
                self._spent_s[part] = self._spent_s.get(part, 0.0) + one.get(f"{part}_ms", 0) / 1000

    def form(self) -> dict[str, int]:
        """Return milliseconds by part, in order."""
        return {part: round(self._spent_s[part] * 1000) for part in PARTS if part in self._spent_s}


def profile_of(spent_ms: Mapping[str, int], merge_ms: int) -> dict[str, int]:
    """Return the profile of a run in steps: milliseconds by part over all its tasks, in order."""
    whole = {**spent_ms, "merge": merge_ms}
    return {part: whole[part] for part in PARTS if part in whole}


def profile_lines(profile: Mapping[str, int]) -> list[str]:
    """Return a profile as lines of text; pieces of a part stand under it."""
    return [
        f"{'  ' if part in INSIDE_SHARDS else ''}{part:{8 - 2 * (part in INSIDE_SHARDS)}}{ms:>9} ms"
        for part, ms in profile.items()
    ]
