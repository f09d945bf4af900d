"""The rows before a patch and the decision about each record, by columns: for the plain case of many changes.

What is plain is judged for whole columns and goes into checkpoint and staging files as the bytes that it has already; a
record of which that is not certain is decided alone, as all are in the other cases.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa

from airflow_delta_provider.adapters.writers.changes import Bulk, RowShape, TableFacts
from airflow_delta_provider.core import arrays, checkpoint, jsonc
from airflow_delta_provider.core.collector import paused
from airflow_delta_provider.core.errors import ValueLossyError
from airflow_delta_provider.core.patch import DELETE, INSERT, UPDATE
from airflow_delta_provider.core.patch_rows import PatchColumn
from airflow_delta_provider.core.patch_texts import (
    Parts,
    checkpoint_lines,
    parts_of,
    raw_rows,
    restore_lines,
    surely_within,
    values_of,
)
from airflow_delta_provider.core.rowtext import json_rows
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.decide import Decider
from airflow_delta_provider.engine.patching.prepare import Before, only
from airflow_delta_provider.engine.patching.rows import TouchedRows
from airflow_delta_provider.engine.patching.spool import ALONE, OPS, Block, Item, Spool

CHUNK_BATCHES = 16
"""Batches of records whose rows are looked up together."""
TIMES = ("date", "timestamp", "timestamp_tz")
"""Kinds of which an engine may write some values otherwise than canonical JSON does."""
NO_TEXTS = arrays.binary_list([])
_ABSENT = b"null"


def is_plain(context: Context, rows: TouchedRows, decider: Decider, facts: TableFacts) -> bool:
    """Tell whether recorded values are what the columns store, and each row is written without a thought of others."""
    columns, own = rows.writer.columns, {column.own(context.side) for column in context.key}
    return (
        context.rule.name == "source_authoritative"
        and not (context.ruled_key or decider.others or facts.references or facts.hazards)
        and bool(context.columns)
        and facts.finds(own)
        and not any(column.generated or column.always for column in columns.values())
        and not any(column.keyed or column.own(context.side) in own for column in context.columns)
        and decider.all_as_read
        and all(column.schema.schema == column.stored.schema for column in rows.forms.key)
    )


@dataclass(slots=True)
class _Chunk:
    """Some records with their rows before.

    Shape: one entry a record in all lists. ``before``: rows as JSON texts. ``texts``: the same by columns, None where no
    row was found. ``alone``: places of records that have to be decided alone. ``rows``: what was found, and its places.
    ``raw``: rows as the restore body holds them, where there is one, and ``stored``: their JSON texts by column.
    """

    lines: list[bytes]
    parts: Parts
    keys: list[bytes]
    before: list[bytes] = field(default_factory=list)
    texts: list[Any] | None = None
    alone: set[int] = field(default_factory=set)
    rows: tuple[pa.Table, list[int | None]] | None = None
    raw: list[bytes] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)


class ByColumns:
    """One pass over the records of a patch: rows before, checkpoint lines, decisions, changes for the writer."""

    def __init__(self, before: Before, decider: Decider, bulk: Bulk, spool: Spool) -> None:
        self._before = before
        self._decider = decider
        self._bulk: Bulk | None = bulk
        self._spool = spool
        self._rows = before.rows
        self._forms = before.rows.forms
        self._key = tuple(column.own for column in self._forms.key)
        self._own = tuple(column.own for column in self._forms.columns)
        self._number = 0
        others = [name for name in self._rows.names if name not in (*self._key, *self._own)]
        self._guard = tuple(name for name in self._rows.names if name not in self._key) if others else self._own
        self._deletes = all(bulk.reads(name, NO_TEXTS) for name in others)

    def run(self) -> None:
        """Read the rows of every record in one snapshot; write the checkpoint's body, the spool and the changes."""
        points, restore = checkpoint.LineFile(self._before.points_path), checkpoint.LineFile(self._before.restore_path)
        bulk = self._bulk
        writer = self._rows.writer
        writer.begin(write=False)
        try:
            with closing(self._ahead()) as chunks:
                for chunk in chunks:
                    with paused():
                        self._chunk(chunk, points, restore)
            if self._before.around is not None:
                self._before.around.take()
        finally:
            writer.rollback()
            if bulk is not None:
                bulk.close()
        self._before.taken(points.close(), restore.close())
        self._spool.close()
        self._spool.bulk = self._bulk

    def _chunks(self) -> Iterator[list[bytes]]:
        batches = self._before.context.lines()
        while chunk := [line for batch in islice(batches, CHUNK_BATCHES) for line in batch]:
            yield chunk

    def _ahead(self) -> Generator[_Chunk, None, None]:
        """Yield the records in chunks, while the rows of the next one are looked up."""
        with ThreadPoolExecutor(1) as reader:
            waiting: Callable[[], _Chunk] | None = None
            for lines in self._chunks():
                with paused():
                    parts = parts_of(lines)
                    chunk = _Chunk(lines, parts, parts.key_bytes())
                following = reader.submit(self._read, chunk).result
                if waiting is not None:
                    yield waiting()
                waiting = following
            if waiting is not None:
                yield waiting()

    def _chunk(self, chunk: _Chunk, points: checkpoint.LineFile, restore: checkpoint.LineFile) -> None:
        parts, count = chunk.parts, len(chunk.lines)
        self._form(chunk)
        sort_keys = parts.sort_key_members()
        points.write(checkpoint_lines(chunk.before, parts.middles))
        if self._before.restored:
            restore.write(restore_lines(chunk.raw, sort_keys))
        ops = bytearray([ALONE]) * count
        for shape, places in self._groups(chunk):
            for place in self._write(chunk, shape, places):
                ops[place] = OPS.index(shape.op)
        for number, op in enumerate(OPS):
            self._spool.planned.counts[op] += ops.count(number)
        alone = {place: self._alone(chunk, place) for place, op in enumerate(ops) if op == ALONE}
        self._spool.planned.span(chunk.keys[0], chunk.keys[-1])
        self._spool.write_block(Block(self._number, parts.ids(), sort_keys, bytes(ops), alone))
        self._number += count

    def _read(self, chunk: _Chunk) -> _Chunk:
        """Find the rows before; this alone asks the engine, while another chunk is judged."""
        keys = values_of(chunk.parts.keys)
        if not all(map(self._takes, self._forms.key, zip(*keys, strict=True))):
            return self._read_alone(chunk)
        try:
            batches = list(self._rows.writer.lookup(self._key, keys, self._rows.names, lock=False))
        except ValueLossyError:
            return self._read_alone(chunk)  # the engine has no form for some key
        found = [key for batch in batches for key in self._forms.key_bytes(batch, self._rows.types)]
        place_of = dict(zip(found, range(len(found)), strict=True))
        if len(place_of) != len(found):
            return self._read_alone(chunk)
        chunk.before = chunk.raw = [_ABSENT] * len(chunk.keys)
        if found:
            places = [place_of.get(key) for key in chunk.keys]
            chunk.rows = pa.Table.from_batches(batches).take(pa.array(places, pa.int64())), places
        return chunk

    def _form(self, chunk: _Chunk) -> None:
        """Bring the rows that were found into the order of the records, as JSON texts."""
        if chunk.rows is None:
            return
        table, places = chunk.rows[0].combine_chunks(), chunk.rows[1]
        chunk.rows = None
        batch = table.to_batches()[0]
        chunk.texts = self._forms.clear_texts(batch, self._rows.types)
        rows = json_rows(chunk.texts, len(places)).to_pylist()
        chunk.before = [_ABSENT if place is None else row for place, row in zip(places, rows, strict=True)]
        if self._before.restored:
            chunk.stored = self._forms.stored_texts(batch, self._rows.types)
            raw = raw_rows(chunk.stored, self._rows.types, len(places))
            chunk.raw = [_ABSENT if place is None else row for place, row in zip(places, raw, strict=True)]
        for column, texts in zip(self._forms.columns, chunk.texts, strict=True):
            if not self._reads(column, texts):
                chunk.alone.update(at for at in range(len(texts)) if not self._reads(column, texts.slice(at, 1)))

    def _read_alone(self, chunk: _Chunk) -> _Chunk:
        """Find the rows before one by one."""
        records = map(orjson.loads, chunk.lines)
        wanted = [(key, self._rows.raw_key(record)) for key, record in zip(chunk.keys, records, strict=True)]
        found = self._rows.read(wanted, lock=False)
        rows = [only(found.get(key)) for key in chunk.keys]
        chunk.before = [_ABSENT if row is None else jsonc.dumps_checked(row.clear) for row in rows]
        chunk.raw = [jsonc.dumps_checked(self._before.raw(row)) for row in rows]
        chunk.alone.update(range(len(rows)))
        return chunk

    def _groups(self, chunk: _Chunk) -> Iterator[tuple[RowShape, list[int]]]:
        """Yield the shapes that occur, with the places of their records."""
        groups: dict[bytes, list[int]] = {}
        for place, kind in enumerate(chunk.parts.kinds):
            if place not in chunk.alone:
                groups.setdefault(kind, []).append(place)
        for kind, places in groups.items():
            what = orjson.loads(kind + b"}")
            if what["category"] == "dropped":
                yield RowShape(INSERT, self._key, self._own, ()), places
            elif what["category"] == "added":
                yield RowShape(DELETE, self._key, (), self._guard), places
            else:
                names = tuple(self._own[self._forms.places[name]] for name in what["columns"])
                yield RowShape(UPDATE, self._key, names, self._own), places

    def _write(self, chunk: _Chunk, shape: RowShape, places: list[int]) -> list[int]:
        """Hand changes of one shape to the writer; return the places of those that it took."""
        places = self._held(chunk, shape, self._as_recorded(chunk, shape, places))
        if self._bulk is None or not places:
            return []
        keys, sources, before = chunk.parts.keys, chunk.parts.sources, chunk.before
        if shape.op == INSERT:
            lines = [b"%b,%b" % (keys[at][1:-1], sources[at][1:-1]) for at in places]
        elif shape.op == DELETE:
            lines = self._delete_lines(chunk, places)
        else:
            lines = [b"%b,%b,%b" % (keys[at][1:-1], sources[at][1:-1], before[at][1:-1]) for at in places]
        refused = frozenset(self._bulk.rows(shape, lines))
        self._spool.planned.columns[shape.op].update(shape.values)
        return [place for number, place in enumerate(places) if number not in refused]

    def _delete_lines(self, chunk: _Chunk, places: list[int]) -> list[bytes]:
        """Return key and whole row of records whose row goes; where the table has more columns, these too."""
        rows = [chunk.before[at] for at in places]
        if chunk.stored:
            some = pa.array(places, pa.int64())
            rows = json_rows([chunk.stored[name].take(some) for name in self._guard], len(places)).to_pylist()
        keys = chunk.parts.keys
        return [b"%b,%b" % (keys[at][1:-1], row[1:-1]) for at, row in zip(places, rows, strict=True)]

    def _as_recorded(self, chunk: _Chunk, shape: RowShape, places: list[int]) -> list[int]:
        """Return the places of the records whose row is what the manifest says of it."""
        before, sources, targets = chunk.before, chunk.parts.sources, chunk.parts.targets
        if shape.op == INSERT:
            return [at for at in places if before[at] is _ABSENT]
        if shape.op == DELETE:
            return [at for at in places if before[at] is not _ABSENT and before[at] == targets[at]]
        if chunk.texts is None:
            return []
        some = pa.array(places, pa.int64())
        columns = [chunk.texts[self._own.index(name)].take(some) for name in shape.values]
        return [
            at
            for at, row in zip(places, json_rows(columns, len(places)).to_pylist(), strict=True)
            if before[at] is not _ABSENT and row == targets[at] != sources[at]
        ]

    def _held(self, chunk: _Chunk, shape: RowShape, places: list[int]) -> list[int]:
        """Return the places of the records of which the columns certainly hold all values that are to be written."""
        if shape.op == DELETE or not places:
            return places if self._removes(chunk) else []
        columns = [self._forms.columns[self._own.index(name)] for name in shape.values]
        refused: set[int] = set()
        rows = values_of([chunk.parts.sources[at] for at in places])
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            if not self._takes(column, values):
                refused.update(
                    at for at, value in zip(places, values, strict=True) if not self._takes(column, (value,))
                )
        return [at for at in places if at not in refused]

    def _removes(self, chunk: _Chunk) -> bool:
        """Tell whether the writer reads all that guards a row which goes."""
        if self._bulk is None or not self._deletes:
            return False
        timed = [name for name in chunk.stored if self._rows.types[name].kind in TIMES]
        return all(self._bulk.reads(name, chunk.stored[name]) for name in timed)

    def _takes(self, column: PatchColumn, values: Sequence[Any]) -> bool:
        if None in values and (column in self._forms.key or not self._nullable(column)):
            return False
        if not surely_within(values, column.stored):
            return False
        return column.stored.kind not in TIMES or self._reads(column, arrays.binary_list([*map(orjson.dumps, values)]))

    def _nullable(self, column: PatchColumn) -> bool:
        return self._rows.writer.columns[column.own].read.column.nullable

    def _reads(self, column: PatchColumn, texts: Any) -> bool:
        return self._bulk is None or column.stored.kind not in TIMES or self._bulk.reads(column.own, texts)

    def _alone(self, chunk: _Chunk, place: int) -> Item:
        """Decide one record as all are decided where nothing is plain."""
        record = orjson.loads(chunk.lines[place])
        self._decider.number = self._number + place
        kept = orjson.loads(chunk.raw[place]) if self._before.restored else None
        raw = None if kept is None else {name: value for name, _, value in kept}
        item = self._decider.decide(record, orjson.loads(chunk.before[place]), raw, self._rows.raw_key(record))
        self._spool.planned.add(item)
        if item.change is not None and self._bulk is not None and not self._bulk.add(item.change):
            self._bulk = None
        return item
