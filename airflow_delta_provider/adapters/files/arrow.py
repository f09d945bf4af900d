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
STREAM_END = b"\x00\x00\x00\x00"


class ArrowSide(FileSide):
    """Arrow files with the same columns by name. A stream must end with its end mark: without, it may be cut."""

    kind: str = "arrow"

    @cached_property
    def _inside(self) -> tuple[Column, ...]:
        layouts = []
        for file in self.files:
            layout: dict[str, FileColumn] = {}
            with reading(file.name), _opened(file) as reader:
                for position, field in enumerate(reader.schema):
                    add_column(layout, arrow_column(field, position), file.name)
            layouts.append(list(layout.values()))
        return joined_columns([file.name for file in self.files], layouts)

    def _file_columns(self) -> tuple[Column, ...]:
        return self._inside

    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        types = {name: self.type_of(name) for name in names}
        for file in self.files:
            with reading(file.name), _opened(file) as reader:
                for batch in _stored(reader):
                    arrays = []
                    for name, type in types.items():
                        with converting(file, name):
                            arrays.append(to_carrier(_checked(batch.column(name)), type))
                    yield file, pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _estimate(self) -> int | None:
        """The rows of the first batch of each file, times the batches that the file's size suggests."""
        total = 0
        for file in self.files:
            with reading(file.name), _opened(file) as reader:
                first = next(_stored(reader), None)
                if first is None:
                    continue
                of_file = reader.num_record_batches if isinstance(reader, ipc.RecordBatchFileReader) else None
                total += first.num_rows * (of_file or max(1, file.size // max(first.nbytes, 1)))
        return total


@contextmanager
def _opened(file: SideFile) -> Iterator[Any]:
    with file.open() as stream:
        if stream.read(len(FILE_MAGIC)) == FILE_MAGIC:
            stream.seek(0)
            yield ipc.open_file(stream)
            return
        stream.seek(max(file.size - len(STREAM_END), 0))
        if stream.read(len(STREAM_END)) != STREAM_END:
            raise SideFileError(f"{file.name} is no Arrow file, or a stream without its end.", where=file.name)
        stream.seek(0)
        yield ipc.open_stream(stream)


def _stored(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, ipc.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


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
