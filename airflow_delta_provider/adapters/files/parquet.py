"""Parquet files as a side: typed columns, row groups chosen by statistics, batches of bounded size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from airflow_delta_provider.adapters.files.base import SAMPLE_READ_MAX, FileSide, converting, every_nth
from airflow_delta_provider.adapters.files.common import to_carrier
from airflow_delta_provider.adapters.files.int96 import merged_int96
from airflow_delta_provider.adapters.files.paths import SideFile, reading
from airflow_delta_provider.adapters.files.rowgroups import RowGroup, ascending, may_hold, row_group, statistics_type
from airflow_delta_provider.adapters.files.schemas import FileColumn, file_columns, joined_columns, leaf_starts
from airflow_delta_provider.adapters.files.sharing import Chunks, described, pair_groups, span
from airflow_delta_provider.adapters.side import SAMPLE_ROWS, Column, Order, RangeCost, Request, Side
from airflow_delta_provider.core.errors import DeltaError, SideChangedError
from airflow_delta_provider.core.types import LogicalType

BUFFER_BYTES_MIN, BUFFER_BYTES_MAX = 64 * 1024, 1024 * 1024
"""How much of one column chunk is read at once."""
BUFFERS_BYTES = 16 * 1024 * 1024
"""How much all columns' buffers may hold together."""
PEEK_ROWS = 256
SNIFF_ROWS = 2048
DUCKDB_MINUS_INFINITY = {32: -(2**31 - 1), 64: -(2**63 - 1)}
"""What DuckDB writes for ``-infinity``; elsewhere these bits are one more than the least value."""


class ParquetSide(FileSide):
    """Parquet files with the same columns by name. Columns that are all NULL in every file are untyped."""

    kind: str = "parquet"
    decodes_in_threads = True

    @cached_property
    def _heads(self) -> tuple[tuple[pq.FileMetaData, pa.Schema], ...]:
        heads = []
        for file in self.files:
            with reading(file.name), file.open() as stream:
                reader = pq.ParquetFile(stream)
                heads.append((reader.metadata, reader.schema_arrow))
        return tuple(heads)

    @cached_property
    def _footers(self) -> tuple[pq.FileMetaData, ...]:
        return tuple(footer for footer, _ in self._heads)

    @cached_property
    def _starts(self) -> tuple[list[int], ...]:
        """Where the leaves of each file's columns begin."""
        return tuple(
            leaf_starts(file.name, footer, schema)
            for file, (footer, schema) in zip(self.files, self._heads, strict=True)
        )

    @cached_property
    def _layouts(self) -> tuple[dict[str, FileColumn], ...]:
        """The columns of each file by name."""
        rows = zip(self.files, self._heads, self._starts, strict=True)
        return tuple(file_columns(file.name, footer, schema, starts) for file, (footer, schema), starts in rows)

    @cached_property
    def _inside(self) -> tuple[Column, ...]:
        return joined_columns([file.name for file in self.files], [list(layout.values()) for layout in self._layouts])

    def _file_columns(self) -> tuple[Column, ...]:
        return self._inside

    def _estimate(self) -> int | None:
        return sum(int(footer.num_rows) for footer in self._footers)

    def _row_groups(self, name: str, key_type: LogicalType | None) -> list[RowGroup]:
        """Return the non-empty row groups in file order, with bounds of a first key column where they can be had."""
        groups = []
        for index, (file, footer) in enumerate(zip(self.files, self._footers, strict=True)):
            column = self._layouts[index].get(name)
            readable = statistics_type(column, key_type) if column and key_type else None
            leaf = self._starts[index][column.position] if column and readable else None
            with reading(file.name):
                groups += [
                    row_group(index, number, footer, leaf, readable, key_type)
                    for number in range(footer.num_row_groups)
                    if footer.row_group(number).num_rows
                ]
        return groups

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        """HOPED where row groups follow each other in the first key column and the first rows ascend."""
        if not key or not key_types or not self._orders_alike(key[0], key_types[0]):
            return Order.NONE
        groups = self._row_groups(key[0], key_types[0])
        if len(groups) > 1 and not ascending(groups):
            return Order.NONE
        return Order.HOPED if not groups or self._starts_sorted(key[0], key_types[0], groups) else Order.NONE

    def _orders_alike(self, name: str, key_type: LogicalType) -> bool:
        """Tell whether a column's own order is that of the canonical key (floats are left to the sorter)."""
        if name in self._partition_names or self._column(name).untyped:
            return False
        kind = self.type_of(name).kind
        return kind not in ("float32", "float64") and (
            kind == key_type.kind or (kind, key_type.kind) == ("int", "decimal")
        )

    def _starts_sorted(self, name: str, key_type: LogicalType, groups: list[RowGroup]) -> bool:
        from airflow_delta_provider.core.keyvec import encode_keys

        request = Request(columns=(name,), batch_rows=SNIFF_ROWS)
        first = min(groups, key=lambda group: group.lower or b"")
        batch = next(self._group_batches([first], (name,), request), None)
        if batch is None:
            return True
        try:
            keys = encode_keys([batch[1].column(0)], [self.type_of(name)], [key_type])
        except DeltaError:
            return False
        count = len(keys)
        return count < 2 or bool(pc.all(pc.less_equal(keys.slice(0, count - 1), keys.slice(1))).as_py())

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        """INDEX where several row groups follow each other in the first key column."""
        if not key or key[0] in self._partition_names:
            return RangeCost.SCAN
        type = self.type_of(key[0])
        groups = self._row_groups(key[0], type) if self._orders_alike(key[0], type) else []
        return RangeCost.INDEX if len(groups) > 1 and ascending(groups) else RangeCost.SCAN

    def needs(self, request: Request) -> tuple[int, ...]:
        """A range depends on the files of which a row group may hold it, and on no other."""
        return tuple(sorted({group.file for group in self._groups_of(request)}))

    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        yield from self._group_batches(self._groups_of(request), names, request)

    def _groups_of(self, request: Request) -> list[RowGroup]:
        """Return the row groups that a request needs, in the order in which they are read."""
        bounded = request.key and (request.ordered or request.lower is not None or request.upper is not None)
        alike = bounded and self._orders_alike(request.key[0], request.key_types[0])
        groups = self._row_groups(request.key[0] if alike else "", request.key_types[0] if alike else None)
        if alike:
            groups = [group for group in groups if may_hold(group, request.lower, request.upper)]
            if request.ordered:
                groups.sort(key=lambda group: (group.lower or b"", group.file, group.number))
        return groups

    def _group_batches(
        self, groups: list[RowGroup], names: tuple[str, ...], request: Request
    ) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        for index, run in groupby(groups, key=lambda group: group.file):
            numbers = [group.number for group in run]
            file = self.files[index]
            types = {name: self.type_of(name) for name in names}
            with reading(file.name):
                for batch in self._file_batches(index, numbers, names, request):
                    yield file, _carried(file, batch, types, self._footers[index])

    def _file_batches(
        self, index: int, numbers: list[int], names: tuple[str, ...], request: Request
    ) -> Iterator[pa.RecordBatch]:
        with self._open(index, len(names)) as reader:
            rows = self._batch_rows(index, reader, numbers, names, request)
        shared = {} if request.shared is None else request.shared.groups
        for group, run in groupby(numbers, key=lambda number: shared.get((index, number))):
            if group is not None:
                yield from group.read(request.shared.side, rows)
                continue
            with self._reading(index, list(run), names, rows) as batches:
                yield from batches

    @contextmanager
    def _reading(
        self, index: int, numbers: list[int], names: tuple[str, ...], rows: int
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """Open a file for the batches of some row groups."""
        with self._open(index, len(names)) as reader:
            batches = _selected(reader, numbers, names, rows)
            old = tuple(name for name in names if self._layouts[index][name].int96)
            if not old:
                yield batches
                return
            with self._open(index, len(names), coerce_int96_timestamp_unit="us") as coarse:
                rough = _selected(coarse, numbers, old, rows)
                yield (merged_int96(batch, other) for batch, other in zip(batches, rough, strict=True))

    def together(self, mine: Request, other: Side, theirs: Request) -> tuple[Request, Request] | None:
        """As ``Together.together``: column chunks that are equal byte for byte in two local files are decoded once."""
        if not isinstance(other, ParquetSide) or mine.filter or theirs.filter:
            return None
        paired = pair_groups(self._shareable(mine), other._shareable(theirs))
        return paired and (replace(mine, shared=paired[0]), replace(theirs, shared=paired[1]))

    def _shareable(self, request: Request) -> list[tuple[RowGroup, Chunks]]:
        """Return the row groups of local files that a read may share, each with its chunks."""
        if self._partition_names or not all(isinstance(file.fs, LocalFileSystem) for file in self.files):
            return []
        return [(group, self._chunks(group, request.columns)) for group in self._groups_of(request)]

    def _chunks(self, group: RowGroup, names: tuple[str, ...]) -> Chunks:
        index, footer = group.file, self._footers[group.file]
        stored, kinds, spans = footer.row_group(group.number), list[Any](), []
        for name in names:
            column = self._layouts[index].get(name)
            leaf = None if column is None or column.nested else self._starts[index][column.position]
            if column is None or leaf is None:
                kinds.append(None)
                spans.append((0, 0))
                continue
            kinds.append(described(stored.column(leaf), footer.schema.column(leaf), column.arrow, footer.created_by))
            spans.append(span(stored.column(leaf)))
        read = partial(self._reading, index, [group.number])
        return Chunks(group.rows, names, tuple(kinds), tuple(spans), self.files[index].open, read)

    @contextmanager
    def _open(self, index: int, columns: int, **options: Any) -> Iterator[pq.ParquetFile]:
        size = max(BUFFER_BYTES_MIN, min(BUFFER_BYTES_MAX, BUFFERS_BYTES // max(columns, 1)))
        with self.files[index].open() as stream:
            reader = pq.ParquetFile(
                stream, buffer_size=size, pre_buffer=False, page_checksum_verification=True, **options
            )
            if not reader.metadata.equals(self._footers[index]):
                name = self.files[index].name
                raise SideChangedError(f"{name} was replaced after it was opened.", where=name)
            yield reader

    def _batch_rows(
        self, index: int, reader: pq.ParquetFile, numbers: list[int], names: tuple[str, ...], request: Request
    ) -> int:
        """Return how many rows make about ``request.batch_bytes``: by chunk sizes, and by a look at the first rows.

        The look is for dictionary encoding, under which a chunk may be far smaller than its values.
        """
        footer = self._footers[index]
        starts, layout = self._starts[index], self._layouts[index]
        leaves = [
            leaf for name in names for leaf in range(starts[layout[name].position], starts[layout[name].position + 1])
        ]
        width = 1.0
        for number in numbers:
            group = footer.row_group(number)
            stored = sum(group.column(leaf).total_uncompressed_size for leaf in leaves)
            width = max(width, stored / max(group.num_rows, 1))
        if numbers and footer.row_group(numbers[0]).num_rows > PEEK_ROWS:
            peek = next(_selected(reader, numbers[:1], names, PEEK_ROWS), None)
            width = max(width, peek.nbytes / peek.num_rows) if peek and peek.num_rows else width
        return max(1, min(request.batch_rows, int(request.batch_bytes / width)))

    def sample(self, key: tuple[str, ...], rows: int = SAMPLE_ROWS) -> pa.Table:
        """Return about ``rows`` key rows from row groups spread over the files."""
        groups = self._row_groups("", None)
        step = -(-len(groups) // SAMPLE_READ_MAX) or 1
        chosen = sorted({*range(0, len(groups), step), len(groups) - 1} if groups else set())
        picked = [groups[position] for position in chosen]
        total = sum(group.rows for group in picked)
        if any(name in self._partition_names for name in key):
            return super().sample(key, rows)
        batches = (batch for _, batch in self._group_batches(picked, key, Request(columns=key)))
        return every_nth(batches, key, max(1, total // max(rows, 1)), 4 * rows)

    def _file_facts(self, file: SideFile) -> dict[str, Any]:
        return {**super()._file_facts(file), "footer_sha256": _footer_sha256(file)}


def _selected(
    reader: pq.ParquetFile, numbers: list[int], names: tuple[str, ...], rows: int
) -> Iterator[pa.RecordBatch]:
    """Read row groups; a name with dots may bring fields of structs along, which are dropped again."""
    for batch in reader.iter_batches(batch_size=rows, row_groups=numbers, columns=list(dict.fromkeys(names))):
        yield batch.select(list(names))


def _carried(
    file: SideFile, batch: pa.RecordBatch, types: Mapping[str, LogicalType], footer: pq.FileMetaData
) -> pa.RecordBatch:
    duckdb = (footer.created_by or "").startswith("DuckDB")
    arrays = []
    for name, type in types.items():
        array = batch.column(name)
        with converting(file, name):
            array = _infinite(array) if duckdb and type.kind in ("date", "timestamp", "timestamp_tz") else array
            arrays.append(to_carrier(array, type))
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def _infinite(array: pa.Array) -> pa.Array:
    """Give DuckDB's ``-infinity`` the bits that it has everywhere else in this package."""
    width = array.type.bit_width
    integer = pa.int32() if width == 32 else pa.int64()
    whole = array.view(integer)
    hit = pc.equal(whole, pa.scalar(DUCKDB_MINUS_INFINITY[width], integer))
    if not pc.any(hit, min_count=0).as_py():
        return array
    return pc.if_else(hit, pa.scalar(-(2 ** (width - 1)), integer), whole).view(array.type)


def _footer_sha256(file: SideFile) -> str:
    """Return the SHA-256 of a file's footer: schema, row groups, offsets and statistics."""
    with reading(file.name), file.open() as stream:
        size = stream.size()
        stream.seek(max(size - 8, 0))
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(max(size - 8 - length, 0))
        return hashlib.sha256(stream.read(length)).hexdigest()
