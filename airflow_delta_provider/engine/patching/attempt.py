"""One attempt to write the rows of a patch one by one: lock and judge each, write, read back, commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import (
    CellRefusedError,
    Change,
    ContendedError,
    TableFacts,
    TakenError,
    write_error,
)
from airflow_delta_provider.core.errors import PatchWriteError
from airflow_delta_provider.core.patch import DELETE, INSERT, UPDATE, Decision
from airflow_delta_provider.core.patch_rows import StoredRow
from airflow_delta_provider.engine.patching.order import TURNS, ordered
from airflow_delta_provider.engine.patching.rows import TouchedRows
from airflow_delta_provider.engine.patching.spool import Item, Spool

WRITE_ROWS = 2_000
"""Changes that a writer is given at once."""

OPEN, BEFORE, WANTED, NEITHER, LOSSY = 0, 1, 2, 3, 4
"""States of a record: decided without a write, or what its row is now."""
NAMES = {WANTED: "wanted", NEITHER: "neither", LOSSY: "lossy", BEFORE: "neither"}


@dataclass(slots=True)
class Result:
    """What a transaction came to. ``states``: one byte for each record. ``committed``: False where it was refused."""

    states: bytearray
    committed: bool
    lossy: set[int] = field(default_factory=set)
    at_once: bool = False


class UniqueTakenError(Exception):
    """Other rows hold unique values that these records need: the transaction is done again, and their rows are left."""

    def __init__(self, numbers: set[int]) -> None:
        super().__init__(f"{len(numbers)} records")
        self.numbers = numbers


class ParkedError(Exception):
    """Rows could not take their temporary values: the transaction is done again with other ones."""


class ReadBackError(Exception):
    """Values were written and read back as other ones: the transaction is done again without these records."""

    def __init__(self, numbers: set[int]) -> None:
        super().__init__(f"{len(numbers)} records")
        self.numbers = numbers


def attempt(
    rows: TouchedRows,
    spool: Spool,
    facts: TableFacts,
    chosen: tuple[str, int],
    skip: bool,
    alone: bool,
    lossy: set[int],
    taken: set[int],
    checkpoint: Callable[[str], None],
) -> Result:
    """Judge, write and read back all rows in one transaction.

    ``chosen``: the patch and the turn, of which temporary values are made. ``lossy`` and ``taken``: numbers of records
    that earlier attempts could not write, and that are left.
    Raises: ParkedError, ReadBackError, UniqueTakenError, ContendedError where another attempt is needed;
    PatchWriteError, ConnectError, SideReadError.
    """
    writer = rows.writer
    checkpoint("begin")
    writer.begin(write=True, alone=alone)
    if skip:
        writer.judge_one_by_one()
    states = judge(rows, spool, lossy, lock=True)
    for number in taken:
        if states[number] == BEFORE:
            states[number] = NEITHER
    result = Result(states, True, lossy)
    conflict = NEITHER in states or bool(spool.planned.conflicts)
    if conflict and not skip and (BEFORE in states or WANTED not in states):
        result.committed = False
        return result
    if BEFORE in states:
        _write_all(writer, spool, states, facts, chosen, skip, checkpoint)
        checkpoint("verify")
        _verify(rows, spool, states)
    writer.check_constraints()
    checkpoint("commit")
    writer.commit()
    checkpoint("committed")
    return result


def judge(rows: TouchedRows, spool: Spool, lossy: set[int], *, lock: bool) -> bytearray:
    """Return the state of every record, from the rows as they are now."""
    states = bytearray(spool.items)
    for items in rows.context.together(spool.batches()):
        planned = [item for item in items if item.change is not None and item.number not in lossy]
        for item in items:
            if item.number in lossy:
                states[item.number] = LOSSY
        found = rows.read([(item.sort_key, item.raw_key) for item in planned], lock=lock) if planned else {}
        for item in planned:
            states[item.number] = _state(item, found.get(item.sort_key, []))
    return states


def _state(item: Item, found: list[StoredRow]) -> int:
    if len(found) > 1:
        return NEITHER
    row = found[0] if found else None
    if _is_wanted(item.decision, row):
        return WANTED
    change = item.change
    if change is None:
        return NEITHER
    if change.op == INSERT or row is None:
        return BEFORE if change.op == INSERT and row is None else NEITHER
    return BEFORE if all(row.raw[name] == value for name, value in change.guard.items()) else NEITHER


def _is_wanted(decision: Decision, row: StoredRow | None) -> bool:
    return row is None if decision.wanted is None else row is not None and row.recorded == decision.wanted


def _write_all(
    writer: Writer,
    spool: Spool,
    states: bytearray,
    facts: TableFacts,
    chosen: tuple[str, int],
    skip: bool,
    checkpoint: Callable[[str], None],
) -> None:
    """Write every row that is still as it was before: streamed, op by op, unless rows depend on each other."""
    writes = _Writes(writer, spool, states, skip, checkpoint)
    if facts.references or moves_unique(spool, facts):
        steps = ordered(writes.changes(None), facts, writer, *chosen)
        for place, step in enumerate(steps.steps):
            try:
                writes.write(step)
            except (ReadBackError, UniqueTakenError, TakenError, PatchWriteError):
                if place == steps.parking and chosen[1] + 1 < TURNS:
                    raise ParkedError from None
                raise
        return
    for op in (DELETE, UPDATE, INSERT):
        held: list[Change] = []
        for change in writes.changes(op):
            held.append(change)
            if len(held) >= WRITE_ROWS:
                writes.write(held)
                held = []
        writes.write(held)


def moves_unique(spool: Spool, facts: TableFacts) -> bool:
    """Tell whether some update changes a value of a unique key."""
    return any(spool.planned.columns[UPDATE].intersection(unique) for unique in facts.uniques)


class _Writes:
    """The planned writes of one transaction."""

    def __init__(
        self, writer: Writer, spool: Spool, states: bytearray, skip: bool, checkpoint: Callable[[str], None]
    ) -> None:
        self._writer = writer
        self._skip = skip
        self._spool = spool
        self._states = states
        self._checkpoint = checkpoint

    def changes(self, op: str | None) -> Iterator[Change]:
        """Yield the changes of rows that are as they were before."""
        for items in self._spool.batches():
            for item in items:
                change = item.change
                if change is not None and self._states[item.number] == BEFORE and op in (None, change.op):
                    yield change

    def write(self, changes: list[Change]) -> None:
        """Write changes of one op; each must find its row, which is locked and was judged."""
        for start in range(0, len(changes), WRITE_ROWS):
            part = changes[start : start + WRITE_ROWS]
            self._checkpoint(part[0].op)
            try:
                done = self._writer.write(part)
            except CellRefusedError as error:
                raise ReadBackError(self._numbers([part[error.place]])) from None
            except TakenError as error:
                if not self._skip or not error.places:
                    raise
                raise UniqueTakenError(self._numbers([part[place] for place in error.places])) from None
            if not all(done):
                reason = f"{done.count(False)} rows were not found as they had been read"
                raise ContendedError(write_error(self._writer.where, reason))

    def _numbers(self, changes: list[Change]) -> set[int]:
        """Return the numbers of the records that changes belong to, moves out of the way included."""
        keys = {repr(change.key) for change in changes}
        return {
            item.number
            for items in self._spool.batches()
            for item in items
            if item.change is not None and repr(item.change.key) in keys
        }


def _verify(rows: TouchedRows, spool: Spool, states: bytearray) -> None:
    """Read back every row that was written; one that is not as wanted was changed by its column.

    Raises: ReadBackError with all of them.
    """
    changed: set[int] = set()
    for items in rows.context.together(spool.batches()):
        written = [item for item in items if states[item.number] == BEFORE]
        found = rows.read([(item.sort_key, item.raw_key) for item in written], lock=False) if written else {}
        for item in written:
            now = found.get(item.sort_key, [])
            if len(now) > 1 or not _is_wanted(item.decision, now[0] if now else None):
                changed.add(item.number)
            else:
                states[item.number] = WANTED
    if changed:
        raise ReadBackError(changed)


def named_state(state: int) -> str:
    """Return the name of a state as ``core.patch.settled`` takes it."""
    return NAMES.get(state, "neither")
