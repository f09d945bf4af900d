"""Arrow IPC files and streams (also Feather version 2) as a side; the type map is that of Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from airflow_delta_provider.adapters.files.base import FileSide, converting
from airflow_delta_provider.adapters.files.common import to_carrier
from airflow_delta_provider.adapters.files.paths import SideFile, reading
from airflow_delta_provider.adapters.files.schemas import FileColumn, add_column, arrow_column, joined_columns
from airflow_delta_provider.adapters.side import Column, Request
from airflow_delta_provider.core.errors import SideFileError

FILE_MAGIC = b"ARROW1"
STREAM_END_BYTES = 8
"""Length of the mark that ends a stream; Arrow before 0.15 wrote half of it, and is not read."""


class ArrowSide(FileSide):
    """Arrow files with the same columns by name. A stream must end with its end mark: without, it may be cut."""

    kind: str = "arrow"

    @cached_property
    def _inside(self) -> tuple[Column, ...]:
        layouts = []
        for file in self.files:
            layout: dict[str, FileColumn] = {}
            with reading(file.name), _opened(file) as (reader, _):
                for position, field in enumerate(reader.schema):
                    add_column(layout, arrow_column(field, position), file.name)
            layouts.append(list(layout.values()))
        return joined_columns([file.name for file in self.files], layouts)

    def _file_columns(self) -> tuple[Column, ...]:
        return self._inside

    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        types = {name: self.type_of(name) for name in names}
        for file in self.files:
            with reading(file.name), _opened(file) as (_, batches):
                for batch in batches:
                    arrays = []
                    for name, type in types.items():
                        with converting(file, name):
                            arrays.append(to_carrier(_checked(batch.column(name)), type))
                    yield file, pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _estimate(self) -> int | None:
        """The rows of the first batch of each file, times the batches that the file's size suggests."""
        total = 0
        for file in self.files:
            with reading(file.name), _opened(file) as (reader, batches):
                first = next(batches, None)
                if first is None:
                    continue
                of_file = reader.num_record_batches if isinstance(reader, ipc.RecordBatchFileReader) else None
                total += first.num_rows * (of_file or max(1, file.size // max(first.nbytes, 1)))
        return total


@contextmanager
def _opened(file: SideFile) -> Iterator[tuple[Any, Iterator[pa.RecordBatch]]]:
    """Open a file or stream; yield its reader and its batches."""
    with file.open() as stream:
        magic = stream.read(len(FILE_MAGIC))
        stream.seek(0)
        if magic == FILE_MAGIC:
            whole = ipc.open_file(stream)
            yield whole, (whole.get_batch(number) for number in range(whole.num_record_batches))
        else:
            reader = ipc.open_stream(stream)
            yield reader, _streamed(reader, stream, file)


def _streamed(reader: Any, stream: Any, file: SideFile) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream, then check that its end mark follows them: Arrow takes a cut for an end."""
    place = stream.tell()
    for batch in reader:
        place = stream.tell()
        yield batch
    if stream.tell() - place != STREAM_END_BYTES:
        raise SideFileError(f"{file.name} is a stream without its end: it was cut.", where=file.name)
    if stream.tell() != stream.size():
        raise SideFileError(f"{file.name} goes on behind the end of its stream.", where=file.name)


def _checked(array: pa.Array) -> pa.Array:
    """Check offsets and lengths before anything follows them; text that is not UTF-8 is let through (``to_carrier``)."""
    raw = array
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        raw = array.view(pa.binary() if pa.types.is_string(array.type) else pa.large_binary())
    try:
        raw.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
    return array
