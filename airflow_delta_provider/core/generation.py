"""One step of identity history: an entry before, what this sweep sees, the entry after (docs/format.md, S11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from airflow_delta_provider.core.documents.generation import (
    DISPOSITIONS,
    DUPLICATE,
    FILTERED,
    SWEEP_COUNTS,
    entry_line,
)
from airflow_delta_provider.core.errors import UnsortedStreamError

ROW: Final = "row"
"""A row that was digested. The other outcomes of a key in a sweep: left out by the filter, repeated, refused."""
LEFT_OUT: Final = "filtered"
REPEATED: Final = "duplicate"
REFUSED: Final = "failed"


class Entry(NamedTuple):
    """One key ever seen. Shape: ``line`` is the canonical line without LF, ``key`` canonical JSON, digests are hex."""

    sort_key: bytes
    line: bytes
    disposition: str
    version: int
    row_digest: str | None
    previous: str | None
    key: bytes
    reason: str | None


class Seen(NamedTuple):
    """What this sweep sees of one key.

    Shape: ``outcome`` is ROW, LEFT_OUT, REPEATED or REFUSED. ``row`` is the canonical JSON array of the non-key values in
    recorded form and ``digest`` its row digest, both for ROW alone; ``reason`` is the refusing code, for REFUSED alone;
    ``raw_key`` is canonical JSON where the contract has a rule on a key column. Units: ``rows`` read under this key.
    """

    sort_key: bytes
    outcome: str
    digest: str | None = None
    row: bytes = b""
    reason: str | None = None
    rows: int = 1
    raw_key: bytes | None = None


class Change(NamedTuple):
    """One record of a sweep's delta manifest. Shape: ``old`` is the row digest before, ``row`` the new row or empty."""

    sort_key: bytes
    category: str
    key: bytes
    old: str | None
    row: bytes
    raw_key: bytes | None


class Step(NamedTuple):
    """What became of one key: its entry, its record if any, and the count that it falls under (empty: none)."""

    entry: Entry
    change: Change | None
    counted: str


@dataclass(slots=True)
class Tally:
    """The counts of a sweep. ``counts`` has the members of S11 but for ``null_key``, which the reader adds."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SWEEP_COUNTS, 0))
    dispositions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DISPOSITIONS, 0))
    filtered_entries: int = 0
    source_rows: int = 0
    source_skipped: int = 0
    source_duplicate: int = 0

    def add(self, before: Entry | None, seen: Seen | None, step: Step) -> None:
        """Count one step."""
        if seen is not None:
            self.counts["read"] += seen.rows
        if step.counted:
            self.counts[step.counted] += seen.rows if seen is not None else 1
        self.dispositions[step.entry.disposition] += 1
        self.filtered_entries += step.entry.reason == FILTERED
        if before is not None and is_known(before):
            self.source_rows += 1
            if seen is not None:
                self.source_skipped += seen.outcome in (LEFT_OUT, REFUSED)
                self.source_duplicate += seen.outcome == REPEATED

    def add_unchanged(self, keys: int) -> None:
        """Count keys that were present and whose row is as it was."""
        self.counts["read"] += keys
        self.counts["unchanged"] += keys
        self.dispositions["present"] += keys
        self.source_rows += keys

    def add_new(self, keys: int) -> None:
        """Count rows of keys that were never seen before."""
        self.counts["read"] += keys
        self.counts["new"] += keys
        self.dispositions["present"] += keys

    def add_null_keys(self, rows: int) -> None:
        """Count rows that were set aside for a NULL in their key."""
        self.counts["read"] += rows
        self.counts["null_key"] += rows

    def add_repeated(self, rows: int) -> None:
        """Count further rows of repeated keys, whose step is counted already."""
        self.counts["read"] += rows
        self.counts["duplicate_key"] += rows

    def population(self) -> dict[str, Any]:
        """Return the population of the delta manifest."""
        counts = self.counts
        return {
            "source": {
                "duplicate_key": self.source_duplicate,
                "null_key": 0,
                "rows": self.source_rows,
                "skipped": self.source_skipped,
            },
            "target": {
                "duplicate_key": counts["duplicate_key"],
                "null_key": counts["null_key"],
                "rows": counts["read"],
                "skipped": counts["skipped"],
            },
            "unchanged": counts["unchanged"],
        }


def is_known(entry: Entry) -> bool:
    """Tell whether a key counts among the rows of the predecessor: it was not absent and has a row digest."""
    return entry.disposition != "absent" and entry.version >= 1


def take_step(before: Entry | None, seen: Seen | None, key_json: Callable[[bytes], bytes]) -> Step:
    """Return what becomes of one key; at least one of ``before`` and ``seen`` is given.

    ``key_json`` gives the canonical JSON of a key from its bytes; it is asked for keys never seen before.
    """
    if seen is None:
        if before is None:
            raise ValueError("a step without a key")
        return _unseen(before)
    if seen.outcome == ROW:
        return _row_step(before, seen, key_json)
    disposition, reason, count = {
        LEFT_OUT: ("skipped", FILTERED, "skipped"),
        REPEATED: ("skipped", DUPLICATE, "duplicate_key"),
        REFUSED: ("failed", seen.reason, "failed"),
    }[seen.outcome]
    head = (0, None, None) if before is None else (before.version, before.row_digest, before.previous)
    key = key_json(seen.sort_key) if before is None else before.key
    return Step(make_entry(seen.sort_key, disposition, head, key, reason), None, count)


def _unseen(before: Entry) -> Step:
    if before.disposition == "absent":
        return Step(before, None, "")
    head = (before.version, before.row_digest, before.previous)
    entry = make_entry(before.sort_key, "absent", head, before.key, None)
    if before.version == 0:
        return Step(entry, None, "")
    return Step(entry, Change(before.sort_key, "dropped", before.key, before.row_digest, b"", None), "absent")


def _row_step(before: Entry | None, seen: Seen, key_json: Callable[[bytes], bytes]) -> Step:
    if before is not None and before.row_digest == seen.digest:
        if before.disposition == "present":
            return Step(before, None, "unchanged")
        head = (before.version, before.row_digest, before.previous)
    elif before is not None:
        head = (before.version + 1, seen.digest, before.row_digest)
    else:
        head = (1, seen.digest, None)
    key = key_json(seen.sort_key) if before is None else before.key
    entry = make_entry(seen.sort_key, "present", head, key, None)
    if before is None or not is_known(before):
        return Step(entry, Change(seen.sort_key, "added", key, None, seen.row, seen.raw_key), "new")
    if before.row_digest == seen.digest:
        return Step(entry, None, "unchanged")
    change = Change(seen.sort_key, "value_diverged", key, before.row_digest, seen.row, seen.raw_key)
    return Step(entry, change, "changed")


def make_entry(
    sort_key: bytes,
    disposition: str,
    head: tuple[int, str | None, str | None],
    key: bytes,
    reason: str | None,
) -> Entry:
    """Return an entry with its line; ``head`` is (version, row_digest, previous)."""
    line = entry_line(disposition, head, key, reason, sort_key)
    return Entry(sort_key, line, disposition, *head, key, reason)


def classify(
    before: Iterable[Entry], seen: Iterable[Seen], key_json: Callable[[bytes], bytes], tally: Tally
) -> Iterator[Step]:
    """Merge the predecessor's entries with what this sweep sees, one of each held; yield a step for each key.

    Shape: both ascend strictly by key bytes.
    Raises: UnsortedStreamError (DELTA_INPUT_ORDER) where one does not.
    """
    entries, rows = _ascending(before, "predecessor"), _ascending(seen, "target")
    entry, row = next(entries, None), next(rows, None)
    while entry is not None or row is not None:
        if row is None or (entry is not None and entry.sort_key < row.sort_key):
            old, new = entry, None
        elif entry is None or row.sort_key < entry.sort_key:
            old, new = None, row
        else:
            old, new = entry, row
        step = take_step(old, new, key_json)
        tally.add(old, new, step)
        yield step
        if old is not None:
            entry = next(entries, None)
        if new is not None:
            row = next(rows, None)


def _ascending(items: Iterable[Any], what: str) -> Iterator[Any]:
    last: bytes | None = None
    for item in items:
        if last is not None and item.sort_key <= last:
            raise UnsortedStreamError(f"{what}: key {item.sort_key.hex()} after {last.hex()}.", where=what)
        last = item.sort_key
        yield item


def change_lines(schema_version: str, changes: list[Change], ruled_key: bool = False) -> list[bytes]:
    """Return the canonical record lines of some changes, without LF; ``ruled_key``: a rule is on a key column."""
    from airflow_delta_provider.core.body import records_to_lines

    old = [b"null" if one.old is None else b'{"row_digest":"%b"}' % one.old.encode() for one in changes]
    return records_to_lines(
        schema_version,
        [one.sort_key for one in changes],
        [one.category for one in changes],
        [one.key for one in changes],
        [b"null" if one.category == "value_diverged" else None for one in changes],
        old,
        [one.row or b"null" for one in changes],
        [b"null"] * len(changes) if ruled_key else None,
        [one.raw_key or b"null" for one in changes] if ruled_key else None,
    )
