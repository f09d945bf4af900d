"""The transactions of a patch: all rows at once where that can be, else tries one by one until one comes through."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import Bulk, Change, ContendedError, TableFacts
from airflow_delta_provider.engine.patching.attempt import (
    BEFORE,
    OPEN,
    WANTED,
    ParkedError,
    ReadBackError,
    Result,
    UniqueTakenError,
    attempt,
    moves_unique,
)
from airflow_delta_provider.engine.patching.rows import TouchedRows
from airflow_delta_provider.engine.patching.spool import Block, Spool

ATTEMPTS_MAX = 5
"""Times that a transaction is begun anew after another writer was in the way."""
BULK_ROWS_MIN = 5_000
"""From so many changes on, a writer that can is asked to write them all at once."""


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
    conflict leaves the table as it was. ``alone``: other writers are kept out of the table. ``checkpoint`` is told
    before each step; tests stop the process there.
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
            found = attempt(rows, spool, facts, (patch_id, turn), skip, alone, lossy, taken, checkpoint)
        except ParkedError:
            turn += 1
        except ReadBackError as error:
            lossy |= error.numbers
        except UniqueTakenError as error:
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
    keyed = facts.finds(column.own(rows.context.side) for column in rows.context.key)
    computed = any(column.generated for column in rows.writer.columns.values())
    if not keyed or computed or facts.references or facts.hazards:
        return False
    return not moves_unique(spool, facts)


def _changes(spool: Spool) -> Iterator[Change]:
    for items in spool.batches():
        for item in items:
            if item.change is not None:
                yield item.change


def refused(spool: Spool) -> Result:
    """Return the result of a transaction that was never begun: every planned row is as it was before."""
    return Result(_states(spool, BEFORE), False)
