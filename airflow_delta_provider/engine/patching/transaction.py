"""The one transaction of a patch: lock and judge every row, write, read back, commit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import (
    Bulk,
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
from airflow_delta_provider.engine.patching.spool import Block, Item, Spool

ATTEMPTS_MAX = 5
"""Times that a transaction is begun anew after another writer was in the way."""
BULK_ROWS_MIN = 5_000
"""From so many changes on, a writer that can is asked to write them all at once."""
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


class _TakenError(Exception):
    """Other rows hold unique values that these records need: the transaction is done again, and their rows are left."""

    def __init__(self, numbers: set[int]) -> None:
        super().__init__(f"{len(numbers)} records")
        self.numbers = numbers


class _ParkedError(Exception):
    """Rows could not take their temporary values: the transaction is done again with other ones."""


class _LossyError(Exception):
    """Values were written and read back as other ones: the transaction is done again without these records."""

    def __init__(self, numbers: set[int]) -> None:
        super().__init__(f"{len(numbers)} records")
        self.numbers = numbers


def apply(
    rows: TouchedRows,
    spool: Spool,
    facts: TableFacts,
    patch_id: str,
    *,
    skip: bool,
    alone: bool,
    checkpoint: Callable[[str], None] = lambda step: None,
    batch_rows: int | None = None,
    pause: Callable[[], None] = lambda: None,
) -> Result:
    """Write what is planned, in one transaction, and say what state every record is in.

    With ``batch_rows`` each such number of changes is a transaction of its own, with a ``pause`` after it, where no row
    depends on another: the checkpoint has all of them, so a patch that stopped between two goes on from there.

    ``skip``: rows in conflict are left, and so are rows that need a unique value which another row keeps; else any
    conflict leaves the table as it was. ``alone``: other writers are kept
    out of the table. ``checkpoint`` is told before each step; tests stop the process there.
    Raises: PatchWriteError, ConnectError, SideReadError.
    """
    facts = facts.one_by_one() if skip else facts
    if batch_rows is None or facts.references or facts.linked or moves_unique(spool, facts):
        return _whole(rows, spool, facts, patch_id, skip, alone, checkpoint)
    done = Result(bytearray(spool.items), True)
    for number, part in enumerate(_parts(spool, batch_rows)):
        if number:
            checkpoint("pause")
            pause()
        result = _whole(rows, part, facts, patch_id, skip, alone, checkpoint)
        for items in part.batches():
            for item in items:
                done.states[item.number] = result.states[item.number]
        done.lossy |= result.lossy
    return done


def _parts(spool: Spool, batch_rows: int) -> Iterator[Spool]:
    """Yield the items again, at most so many changes together; numbers stay what they are."""
    with tempfile.TemporaryDirectory(prefix="delta-batch-") as folder:
        part, changes = Spool(Path(folder) / "0"), 0
        for items in spool.batches():
            for item in items:
                if changes == batch_rows and item.change is not None:
                    yield _closed(part, spool.items)
                    part, changes = Spool(Path(folder) / str(item.number)), 0
                part.write([item])
                changes += item.change is not None
        yield _closed(part, spool.items)


def _closed(part: Spool, items: int) -> Spool:
    part.close()
    part.items = items
    return part


def _whole(
    rows: TouchedRows,
    spool: Spool,
    facts: TableFacts,
    patch_id: str,
    skip: bool,
    alone: bool,
    checkpoint: Callable[[str], None],
) -> Result:
    """Write what is planned in one transaction, begun anew where another writer was in the way."""
    lossy: set[int] = set()
    taken: set[int] = set()
    attempts = turn = 0
    found = _at_once(rows, spool, facts, skip, alone, checkpoint)
    while found is None:
        try:
            found = _once(rows, spool, facts, (patch_id, turn), skip, alone, lossy, taken, checkpoint)
        except _ParkedError:
            turn += 1
        except _LossyError as error:
            lossy |= error.numbers
        except _TakenError as error:
            taken |= error.numbers
        except ContendedError as error:
            attempts += 1
            if attempts >= ATTEMPTS_MAX:
                raise error.error from None
        finally:
            if rows.writer.connection is not None:
                rows.writer.rollback()
    return found


def _at_once(
    rows: TouchedRows, spool: Spool, facts: TableFacts, skip: bool, alone: bool, checkpoint: Callable[[str], None]
) -> Result | None:
    """Write many independent rows at once; None where that is not possible, or one of them was not as expected.

    The table is then as it was, and rows are judged one by one. What is compared of a row that was written is written
    itself or guarded, and nothing else acts on it: there are neither triggers nor columns that the engine computes.
    """
    if spool.planned.changes < BULK_ROWS_MIN or rows.context.ruled_key or alone or not _independent(rows, spool, facts):
        return None
    if spool.planned.conflicts and not skip:
        return None
    writer = rows.writer
    with tempfile.TemporaryDirectory(prefix="delta-bulk-") as folder:
        bulk = spool.bulk or _bulk(writer, spool, Path(folder))
        if bulk is None:
            return None
        try:
            checkpoint("begin")
            writer.begin(write=True)
            checkpoint("at once")
            if not bulk.run():
                return None
            writer.check_constraints()
            checkpoint("commit")
            writer.commit()
        except ContendedError:
            return None
        finally:
            if writer.connection is not None:
                writer.rollback()
    checkpoint("committed")
    return written_at_once(spool)


def written_at_once(spool: Spool) -> Result:
    """Return the result of a transaction that wrote all changes at once."""
    return Result(_states(spool, WANTED), True, at_once=True)


def _bulk(writer: Writer, spool: Spool, folder: Path) -> Bulk | None:
    """Return the changes of a spool as the writer takes many; None where it does not take some of them."""
    bulk = writer.bulk(folder)
    if bulk is None:
        return None
    try:
        return bulk if all(map(bulk.add, _changes(spool))) else None
    finally:
        bulk.close()


def _states(spool: Spool, state: int) -> bytearray:
    """Return states where every record with a change has this one."""
    states = bytearray(spool.items)
    for entry in spool.entries():
        if isinstance(entry, Block):
            states[entry.number : entry.number + len(entry.ops)] = bytes((state,)) * len(entry.ops)
        for item in entry.alone.values() if isinstance(entry, Block) else entry:
            states[item.number] = OPEN if item.change is None else state
    return states


def _independent(rows: TouchedRows, spool: Spool, facts: TableFacts) -> bool:
    """Tell whether every row can be found by a unique key, and written without a thought of other rows."""
    own = {column.own(rows.context.side) for column in rows.context.key}
    keyed = any(set(unique) <= own for unique in facts.uniques)
    computed = any(column.generated for column in rows.writer.columns.values())
    if not keyed or computed or facts.references or facts.hazards:
        return False
    return not moves_unique(spool, facts)


def _changes(spool: Spool) -> Iterator[Change]:
    for items in spool.batches():
        for item in items:
            if item.change is not None:
                yield item.change


def _once(
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


def refused(spool: Spool) -> Result:
    """Return the result of a transaction that was never begun: every planned row is as it was before."""
    return Result(_states(spool, BEFORE), False)


def judge(rows: TouchedRows, spool: Spool, lossy: set[int], *, lock: bool) -> bytearray:
    """Return the state of every record, from the rows as they are now."""
    states = bytearray(spool.items)
    for items in _batches(rows, spool):
        planned = [item for item in items if item.change is not None and item.number not in lossy]
        for item in items:
            if item.number in lossy:
                states[item.number] = LOSSY
        found = rows.read([(item.sort_key, item.raw_key) for item in planned], lock=lock) if planned else {}
        for item in planned:
            states[item.number] = _state(item, found.get(item.sort_key, []))
    return states


def _batches(rows: TouchedRows, spool: Spool) -> Iterator[list[Item]]:
    """Yield batches of items; all at once where every read is one of the whole table."""
    if rows.context.ruled_key:
        yield [item for items in spool.batches() for item in items]
        return
    yield from spool.batches()


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
            except (_LossyError, _TakenError, TakenError, PatchWriteError):
                if place == steps.parking and chosen[1] + 1 < TURNS:
                    raise _ParkedError from None
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
                raise _LossyError(self._numbers([part[error.place]])) from None
            except TakenError as error:
                if not self._skip or not error.places:
                    raise
                raise _TakenError(self._numbers([part[place] for place in error.places])) from None
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

    Raises: _LossyError with all of them.
    """
    changed: set[int] = set()
    for items in _batches(rows, spool):
        written = [item for item in items if states[item.number] == BEFORE]
        found = rows.read([(item.sort_key, item.raw_key) for item in written], lock=False) if written else {}
        for item in written:
            now = found.get(item.sort_key, [])
            if len(now) > 1 or not _is_wanted(item.decision, now[0] if now else None):
                changed.add(item.number)
            else:
                states[item.number] = WANTED
    if changed:
        raise _LossyError(changed)


def named_state(state: int) -> str:
    """Return the name of a state as ``core.patch.settled`` takes it."""
    return NAMES.get(state, "neither")
