"""In which order rows are written, so that unique keys and foreign keys hold at every statement."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.adapters.writers.changes import Change, Reference, TableFacts, WriteColumn
from airflow_delta_provider.core.errors import PatchWriteError, shown
from airflow_delta_provider.core.patch import DELETE, INSERT, UPDATE

TURNS = 4
"""Kinds of temporary values that are tried one after the other: a check or a computed column may refuse some."""


@dataclass(slots=True)
class Steps:
    """Writes in order: lists of changes of one op. ``parking``: which step gives rows temporary values, if any."""

    steps: list[list[Change]] = field(default_factory=list)
    parking: int | None = None

    def add(self, changes: Sequence[Change]) -> None:
        """Add a step where there is something to do."""
        if changes:
            self.steps.append(list(changes))

    def park(self, changes: Sequence[Change]) -> None:
        """Add the step that moves rows out of the way, where there is one."""
        self.parking = len(self.steps) if changes else None
        self.add(changes)


def ordered(changes: Iterable[Change], facts: TableFacts, writer: Writer, patch_id: str, turn: int = 0) -> Steps:
    """Return the writes of some rows in an order that keeps every constraint; ``turn`` chooses temporary values.

    Deletes come first, then rows give up the unique values that others take, then updates, then inserts. Where rows of
    the table refer to each other, parents are inserted before children and deleted after them, and deletes come last.
    Raises: PatchWriteError (DELTA_PATCH_WRITE) where no temporary value can be found.
    """
    by_op: dict[str, list[Change]] = {INSERT: [], UPDATE: [], DELETE: []}
    for change in changes:
        by_op[change.op].append(change)
    inserts, updates, deletes = by_op[INSERT], by_op[UPDATE], by_op[DELETE]
    steps = Steps()
    if facts.references:
        parked, updates, deletes = _park(inserts, updates, deletes, facts, writer, (patch_id, turn))
        steps.park(parked)
        inserts, closing = _parents_first(inserts, facts.references, writer)
        opening, deletes = _children_first(deletes, facts.references, writer)
        for change in inserts:
            steps.add([change])
        steps.add(closing)
        steps.add(updates)
        steps.add(opening)
        for change in deletes:
            steps.add([change])
        return _merged(steps)
    steps.add(deletes)
    parked, updates, _ = _park(inserts, updates, [], facts, writer, (patch_id, turn))
    steps.park(parked)
    steps.add(updates)
    steps.add(inserts)
    return steps


def _merged(steps: Steps) -> Steps:
    """Join neighbouring steps of one op: a writer keeps the order inside a step."""
    merged = Steps(parking=steps.parking)
    for step in steps.steps:
        if merged.steps and merged.steps[-1][0].op == step[0].op and step[0].op != UPDATE:
            merged.steps[-1].extend(step)
        else:
            merged.steps.append(step)
    return merged


def _park(
    inserts: list[Change],
    updates: list[Change],
    deletes: list[Change],
    facts: TableFacts,
    writer: Writer,
    chosen: tuple[str, int],
) -> tuple[list[Change], list[Change], list[Change]]:
    """Return first moves that free unique values which other rows take, and the updates and deletes after them."""
    parks: dict[int, dict[str, Any]] = {}
    holders = [*updates, *deletes]
    for unique in facts.uniques:
        taken = {_tuple(unique, {**change.key, **change.values}) for change in inserts}
        for change in updates:
            if any(name in change.values for name in unique):
                taken.add(_tuple(unique, _after(change)))
        for place, holder in enumerate(holders):
            moved = holder.op == DELETE or any(name in holder.values for name in unique)
            held = _tuple(unique, {**holder.guard, **holder.key})
            if moved and held is not None and held in taken and held != _tuple(unique, _after(holder)):
                name = _free_column(unique, holder, writer)
                parks.setdefault(place, {})[name] = _temporary(writer.columns[name], chosen, place, holder)
    moves, after = [], list(holders)
    for place, values in parks.items():
        holder = holders[place]
        moves.append(Change(UPDATE, dict(holder.key), values, dict(holder.guard)))
        after[place] = _moved(holder, values, writer)
    return moves, after[: len(updates)], after[len(updates) :]


def _moved(change: Change, values: dict[str, Any], writer: Writer) -> Change:
    """Return a change of a row that holds these values meanwhile; what the engine computes has followed them."""
    guard = {name: value for name, value in change.guard.items() if not writer.columns[name].generated}
    return replace(change, guard={**guard, **values})


def _after(change: Change) -> dict[str, Any]:
    return {} if change.op == DELETE else {**change.guard, **change.key, **change.values}


def _tuple(unique: Sequence[str], row: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the values of a unique key, folded as the laxest collation would; None where NULL makes it free.

    A column that is not known of the row stands as a blank: rather one row too many is moved out of the way.
    """
    values = [row.get(name, "") for name in unique]
    return None if None in values else tuple(str(value).casefold().rstrip(" ") for value in values)


def _free_column(unique: Sequence[str], holder: Change, writer: Writer) -> str:
    """Return the column that takes a temporary value: one that takes NULL if there is one."""
    free = unique if holder.op == DELETE else [name for name in unique if name in holder.values]
    movable = [name for name in free if name not in holder.key and not writer.columns[name].generated]
    if not movable:
        raise _stuck(unique, holder)
    return next((name for name in movable if writer.columns[name].read.column.nullable), movable[0])


def _temporary(column: WriteColumn, chosen: tuple[str, int], place: int, holder: Change) -> Any:
    """Return a value that no row of the table should have; where one has it, the next turn takes another.

    ``chosen``: the patch and the turn. The last turns are far from the ends of the type, where a computed column would
    leave its own.
    """
    patch_id, turn = chosen
    if column.read.column.nullable:
        return None
    kind = column.type.kind if column.type else ""
    bits = (column.type.bits if column.type else None) or 31
    unsigned = bool(column.type and column.type.unsigned)
    length = (column.type.length if column.type else None) or 64
    mark = uuid.uuid5(uuid.NAMESPACE_OID, f"{patch_id} {place}")
    match kind:
        case "int":
            last = 2**bits - 1 if unsigned else 2 ** (bits - 1) - 1
            lasts = (last if unsigned else -last - 1, last, last // 1009, last // 1009 if unsigned else -(last // 1009))
            return str(lasts[turn] + place if lasts[turn] < 0 else lasts[turn] - place)
        case "text":
            return mark.hex[:length]
        case "bytes":
            return mark.bytes[:length].hex()
        case "uuid":
            return str(mark)
        case "decimal" if column.type and column.type.precision and column.type.precision > (column.type.scale or 0):
            return str(-(10 ** (column.type.precision - (column.type.scale or 0)) - 1) + place)
        case "float64":
            return f"-{10**15 + place}"
    raise _stuck([column.name], holder)


def _stuck(unique: Sequence[str], holder: Change) -> PatchWriteError:
    key = ", ".join(shown(value) for value in holder.key.values())
    return PatchWriteError(
        f"rows exchange values of the unique key ({', '.join(unique)}), and the row of key {key} has no column that could"
        " hold a temporary value."
    )


def _parents_first(
    inserts: list[Change], references: Sequence[Reference], writer: Writer
) -> tuple[list[Change], list[Change]]:
    """Return inserts in order, and the updates that close circles of rows which refer to each other."""
    rows = [{**change.key, **change.values} for change in inserts]
    order, broken = _sorted(rows, references)
    closing = []
    for place in broken:
        change = inserts[place]
        names = [name for one in references for name in one.columns if name in change.values]
        names = [name for name in names if writer.columns[name].read.column.nullable]
        values = {name: change.values[name] for name in dict.fromkeys(names)}
        if values:
            inserts[place] = replace(change, values={**change.values, **dict.fromkeys(values)})
            closing.append(Change(UPDATE, dict(change.key), values))
    return [inserts[place] for place in order], closing


def _children_first(
    deletes: list[Change], references: Sequence[Reference], writer: Writer
) -> tuple[list[Change], list[Change]]:
    """Return the updates that open circles of rows which refer to each other, and the deletes in order."""
    rows = [{**change.guard, **change.key} for change in deletes]
    order, broken = _sorted(rows, references)
    own = {place for place, row in enumerate(rows) if any(_refers_to_itself(row, one) for one in references)}
    opening = []
    for place in sorted(own.union(broken)):
        change = deletes[place]
        names = [name for one in references for name in one.columns if name in change.guard]
        names = [name for name in names if writer.columns[name].read.column.nullable and name not in change.key]
        values: dict[str, Any] = dict.fromkeys(names)
        if values:
            opening.append(Change(UPDATE, dict(change.key), values, dict(change.guard)))
            deletes[place] = _moved(change, values, writer)
    return opening, [deletes[place] for place in reversed(order)]


def _refers_to_itself(row: dict[str, Any], reference: Reference) -> bool:
    """Tell whether a row is its own parent, which keeps some engines from deleting it."""
    mine = [row.get(name) for name in reference.columns]
    return None not in mine and mine == [row.get(name) for name in reference.referenced]


def _sorted(rows: list[dict[str, Any]], references: Sequence[Reference]) -> tuple[list[int], list[int]]:
    """Return places so that each row comes after the rows that it refers to, and the places of rows in circles."""
    parents: list[set[int]] = [set() for _ in rows]
    for reference in references:
        place_of = {tuple(row.get(name) for name in reference.referenced): place for place, row in enumerate(rows)}
        for place, row in enumerate(rows):
            wanted = tuple(row.get(name) for name in reference.columns)
            parent = place_of.get(wanted) if None not in wanted else None
            if parent is not None and parent != place:
                parents[place].add(parent)
    children: list[list[int]] = [[] for _ in rows]
    for place, mine in enumerate(parents):
        for parent in mine:
            children[parent].append(place)
    waiting = [len(mine) for mine in parents]
    ready = [place for place, count in enumerate(waiting) if not count]
    order: list[int] = []
    broken: list[int] = []
    left = set(range(len(rows)))
    while left:
        if not ready:
            place = min(left)
            broken.append(place)
            ready, waiting[place] = [place], 0
        place = ready.pop()
        if place not in left:
            continue
        left.discard(place)
        order.append(place)
        for child in children[place]:
            waiting[child] -= 1
            if waiting[child] == 0 and child in left:
                ready.append(child)
    return order, broken
