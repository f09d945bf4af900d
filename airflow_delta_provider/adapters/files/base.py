"""What all file sides share: partition columns, filters, batch bounds and strict reading of texts as typed values."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.files.common import UNTYPED_TEXT, carrier_type, ns_decimals
from airflow_delta_provider.adapters.files.paths import SideFile, shown_path
from airflow_delta_provider.adapters.side import KEEP_COLUMN, SAMPLE_ROWS, Column, Order, RangeCost, Request
from airflow_delta_provider.core.arrays import int64_array
from airflow_delta_provider.core.errors import (
    DeltaError,
    SchemaError,
    SideColumnTypeError,
    SideFileError,
    SpecColumnError,
    SpecValueError,
    ValueTextError,
    shown,
)
from airflow_delta_provider.core.keyset import flat_true
from airflow_delta_provider.core.types import REFUSED_COLUMN, LogicalType, from_schema

SAMPLE_READ_MAX = 64
"""Row groups or batches that a sample looks at, spread over the files."""
HIDDEN = "(not shown)"


class FileSide(ABC):
    """One or more files of one form as one data set. The files are opened for reading only, one at a time."""

    kind: str = ""

    def __init__(self, files: tuple[SideFile, ...], options: Mapping[str, Any], pattern: str) -> None:
        """Take the files and the side's options; ``pattern``: the path as given, whose last part names the side.

        ``options["types"]``: column to logical type, as text or as a LogicalType. ``options["hidden"]``: columns whose
        values no error may show.
        """
        self.files = files
        name = PurePosixPath(shown_path(pattern)).name
        self.where = f"{'file' if len(files) == 1 else 'files'} {name}"
        self._hidden = frozenset(options.get("hidden") or ())
        self._types: dict[str, LogicalType] = declared_types(options.get("types") or {})
        self._declared = frozenset(self._types)

    @abstractmethod
    def _file_columns(self) -> tuple[Column, ...]:
        """Return the columns that stand inside the files."""

    @abstractmethod
    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        """Yield batches of carriers for these columns of the files (at least one name)."""

    @abstractmethod
    def _estimate(self) -> int | None:
        """Return about how many rows there are."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in file order, then those that the folders name; untyped ones as they were resolved."""
        return tuple(
            replace(column, type=self._types[column.name], untyped=False, advice="")
            if column.untyped and column.name in self._types
            else column
            for column in self._all_columns
        )

    @cached_property
    def _all_columns(self) -> tuple[Column, ...]:
        inside = self._file_columns()
        names = {column.name for column in inside}
        for name in self._partition_names:
            if name in names:
                raise SideFileError(f"Column {shown(name)} stands both in the files and in their folders.", where=name)
        return inside + tuple(self._partition_column(name) for name in self._partition_names)

    @cached_property
    def _partition_names(self) -> tuple[str, ...]:
        names = tuple(name for name, _ in self.files[0].partitions)
        for file in self.files:
            if tuple(name for name, _ in file.partitions) != names or len(set(names)) != len(names):
                raise SideFileError(f"{file.name} lies in folders of other partition columns.", where=file.name)
        return names

    def _partition_column(self, name: str) -> Column:
        declared = self._types.get(name) if name in self._declared else None
        return Column(name, declared or UNTYPED_TEXT, "partition", untyped=declared is None)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Files declare no key."""
        return ()

    def resolve(self, types: Mapping[str, LogicalType]) -> Self:
        """Return the side with its untyped columns read strictly as these types; typed columns keep theirs."""
        untyped = {column.name for column in self.columns if column.untyped}
        side = copy.copy(self)
        side._types = {**{name: type for name, type in types.items() if name in untyped}, **self._types}
        return side

    def type_of(self, name: str) -> LogicalType:
        """Return the logical type under which a column is read.

        Raises: SideColumnTypeError where it has none.
        """
        column = self._column(name)
        type = column.type
        if type is None:
            raise SideColumnTypeError(
                f"{self.where}: column {shown(name)} has type {column.engine_type}. {column.advice}".rstrip(),
                where=name,
            )
        return type

    def _column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SpecColumnError(f"{self.where} has no column {shown(name)}.", where=name)

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        """Text files promise no order."""
        return Order.NONE

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        """A range of a text file costs the whole file."""
        return RangeCost.SCAN

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield batches of the requested columns, then REFUSED_COLUMN if asked for, KEEP_COLUMN where there is a filter."""
        extra = tuple(request.filter.columns) if request.filter is not None else ()
        wanted = tuple(dict.fromkeys((*request.columns, *extra)))
        types = {name: self.type_of(name) for name in wanted}
        inside = tuple(name for name in wanted if name not in self._partition_names)
        inside = inside or tuple(column.name for column in self._file_columns()[:1])
        for file, batch in self._batches(inside, request):
            for part in pieces(batch, request.batch_rows, request.batch_bytes):
                whole = self._with_partitions(file, part, wanted, types)
                yield self._delivered(whole, request, types)

    def _with_partitions(
        self, file: SideFile, batch: pa.RecordBatch, wanted: tuple[str, ...], types: Mapping[str, LogicalType]
    ) -> pa.RecordBatch:
        extra = [name for name in batch.schema.names if name == REFUSED_COLUMN]
        if not self._partition_names:
            return batch.select([*wanted, *extra])
        arrays = []
        for name in (*wanted, *extra):
            if name not in self._partition_names:
                arrays.append(batch.column(name))
                continue
            text = texts([dict(file.partitions)[name]])
            value = self.parsed(text, types[name], name, file, lambda _: "in its folder's name")
            arrays.append(value.take(int64_array(np.zeros(batch.num_rows, np.int64))))
        return pa.RecordBatch.from_arrays(arrays, names=[*wanted, *extra])

    def _delivered(self, batch: pa.RecordBatch, request: Request, types: Mapping[str, LogicalType]) -> pa.RecordBatch:
        if request.filter is None:
            return batch
        keep = request.filter.evaluate(batch, types)
        names = [*request.columns, *(name for name in batch.schema.names if name == REFUSED_COLUMN)]
        return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), keep], names=[*names, KEEP_COLUMN])

    def sample(self, key: tuple[str, ...], rows: int = SAMPLE_ROWS) -> pa.Table:
        """Return about ``rows`` key rows, evenly spread: every n-th row of one pass over the key columns."""
        total = self._estimate() or rows
        return every_nth(self._sample_batches(key), key, max(1, total // max(rows, 1)), 4 * rows)

    def _sample_batches(self, key: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        return self.read(Request(columns=key))

    def estimate_rows(self) -> int | None:
        """Return about how many rows there are, or None."""
        return self._estimate()

    def facts(self) -> dict[str, Any]:
        """Return the identity of each file: name without folders, size in bytes, time of change."""
        return {"kind": self.kind, "files": [self._file_facts(file) for file in self.files]}

    def _file_facts(self, file: SideFile) -> dict[str, Any]:
        return {"mtime_ns": file.mtime_ns, "name": file.name, "size": file.size}

    def state(self) -> tuple[tuple[str, str], ...]:
        """Return each file, with the folders that name partitions, and the SHA-256 of all its bytes."""
        return self._state

    @cached_property
    def _state(self) -> tuple[tuple[str, str], ...]:
        folders = ["".join(f"{name}={value}/" for name, value in file.partitions) for file in self.files]
        return tuple((folder + file.name, file.sha256()) for folder, file in zip(folders, self.files, strict=True))

    def needs(self, request: Request) -> tuple[int, ...]:
        """Every read goes over all files."""
        return tuple(range(len(self.files)))

    def close(self) -> None:  # noqa: B027 - files are open only while they are read
        """Do nothing: files are open only while they are read."""

    def parsed(
        self,
        array: pa.Array,
        type: LogicalType,
        name: str,
        file: SideFile,
        place: Callable[[int], str],
        note: Callable[[list[int]], None] | None = None,
    ) -> pa.Array:
        """Read texts strictly as a type; ``place`` says where the text of a row stands.

        ``note`` is told the rows of texts that are none of the type, which come as NULL then.
        Raises: ValueTextError naming file, column, place and text (at most 64 characters), where nobody takes notes.
        """
        if type.kind == "text":
            return array
        from airflow_delta_provider.core.rules.parse import parse_text

        carrier, bad = parse_text(array, type)
        if pc.any(bad, min_count=0).as_py():
            if note is not None:
                note(flat_true(bad).tolist())
                return carrier
            row = pc.index(bad, True).as_py()
            raise self.bad_text(array[row].as_py(), type.text, name, file, place(row))
        return carrier

    def bad_text(self, text: str, wanted: str, name: str, file: SideFile, place: str) -> ValueTextError:
        """Return the refusal of one text."""
        seen = HIDDEN if name in self._hidden else f'"{shown(text)}"'
        return ValueTextError(
            f"{file.name}, {place}, column {shown(name)}: {seen} is no {wanted}.", where=f"{file.name}: {name}"
        )


@contextmanager
def converting(file: SideFile, name: str) -> Iterator[None]:
    """Let a refusal of values name their file and column."""
    try:
        yield
    except DeltaError as error:
        raise type(error)(
            f"{file.name}, column {shown(name)}: {error.message}", where=f"{file.name}: {name}"
        ) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # the latter: no conversion of such types
        raise SideFileError(
            f"{file.name}, column {shown(name)} cannot be read.", where=f"{file.name}: {name}"
        ) from error


def declared_types(types: Mapping[str, Any]) -> dict[str, LogicalType]:
    """Read the ``types`` option.

    Raises: SpecValueError for a text that is no logical type.
    """
    declared = {}
    for name, form in types.items():
        try:
            declared[str(name)] = form if isinstance(form, LogicalType) else from_schema(form)
        except SchemaError as error:
            raise SpecValueError(f"types: {shown(name)}: {shown(form)} is no logical type.", where="types") from error
    return declared


def pieces(batch: pa.RecordBatch, rows_max: int, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices within both bounds; a single row may exceed the bytes."""
    for start in range(0, batch.num_rows, rows_max):
        waiting = [batch.slice(start, rows_max)]
        while waiting:
            part = waiting.pop()
            if part.num_rows > 1 and part.nbytes > bytes_max:
                half = part.num_rows // 2
                waiting += [part.slice(half), part.slice(0, half)]
            else:
                yield part


def every_nth(batches: Iterator[pa.RecordBatch], key: tuple[str, ...], step: int, rows_max: int) -> pa.Table:
    """Keep every ``step``-th row, and every second one of those each time they become more than ``rows_max``."""
    kept: list[pa.RecordBatch] = []
    seen = held = 0
    for batch in batches:
        first = -seen % step
        seen += batch.num_rows
        picked = batch.take(int64_array(np.arange(first, batch.num_rows, step, dtype=np.int64)))
        if picked.num_rows:
            kept.append(picked)
            held += picked.num_rows
        if held > rows_max:
            kept = [part.take(int64_array(np.arange(0, part.num_rows, 2, dtype=np.int64))) for part in kept]
            held, step = sum(part.num_rows for part in kept), step * 2
    return one_table(kept, key)


def one_table(batches: list[pa.RecordBatch], names: tuple[str, ...]) -> pa.Table:
    """Put batches of one set of columns together, though their carriers may differ."""
    if not batches:
        return pa.table({name: pa.nulls(0, pa.string()) for name in names})
    columns = []
    for name in names:
        arrays = [batch.column(name) for batch in batches]
        kinds = {array.type for array in arrays}
        columns.append(pa.chunked_array(arrays if len(kinds) == 1 else common_carriers(arrays)))
    return pa.table(columns, names=list(names))


def common_carriers(arrays: list[pa.Array]) -> list[pa.Array]:
    """Bring arrays of one logical type to one Arrow type that holds them all exactly."""
    kinds = [array.type for array in arrays]
    for wanted in (pa.binary(), pa.large_binary(), pa.large_string()):
        if wanted in kinds:
            return [array.cast(wanted) for array in arrays]
    if any(pa.types.is_timestamp(kind) for kind in kinds):
        return [ns_decimals(array) if pa.types.is_timestamp(array.type) else array for array in arrays]
    if any(pa.types.is_time64(kind) for kind in kinds):
        return [array.cast(pa.time64("ns")) for array in arrays]
    if any(pa.types.is_string(kind) for kind in kinds):
        return [array.cast(pa.string()) for array in arrays]
    if all(pa.types.is_integer(kind) for kind in kinds):
        return [array.cast(pa.decimal128(38, 0)) for array in arrays]
    return [array.cast(pa.decimal256(76, max(getattr(kind, "scale", 0) for kind in kinds))) for array in arrays]


def texts(values: list[str | None]) -> pa.Array:
    """Return a string array; the texts must be valid Unicode."""
    raw = wtf8([None if value is None else value.encode() for value in values])
    return raw.cast(pa.string() if raw.type == pa.binary() else pa.large_string())


def wtf8(values: list[bytes | None]) -> pa.Array:
    """Return a binary array, built from buffers (``pa.array`` would import pandas where it is installed)."""
    lengths = np.fromiter((len(value) if value is not None else 0 for value in values), np.int64, len(values))
    ends = np.cumsum(lengths)
    wide = bool(len(ends)) and int(ends[-1]) >= 2**31
    offsets = np.zeros(len(values) + 1, np.int64 if wide else np.int32)
    offsets[1:] = ends
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    data = b"".join(value for value in values if value is not None)
    wanted = pa.large_binary() if wide else pa.binary()
    return pa.Array.from_buffers(wanted, len(values), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def all_null(count: int, type: LogicalType) -> pa.Array:
    """Return that many NULLs under a carrier of the type."""
    return pa.nulls(count, carrier_type(type))
