"""CSV files as a side: strict form, NULLs by declaration, every column text until a type is declared or paired."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.files.base import FileSide, texts
from airflow_delta_provider.adapters.files.common import UNTYPED_TEXT
from airflow_delta_provider.adapters.files.csvscan import Fields, Form, scan
from airflow_delta_provider.adapters.files.paths import SideFile
from airflow_delta_provider.adapters.files.refusals import Refusals
from airflow_delta_provider.adapters.files.streams import (
    BLOCK_BYTES,
    blocks,
    compression_of,
    encoding_of,
    estimated_bytes,
    opened_text,
)
from airflow_delta_provider.adapters.side import Column, Request
from airflow_delta_provider.core.arrays import bool_array, int64_array
from airflow_delta_provider.core.errors import SideFileError, SideLineError, SpecValueError, shown

BLOCK_BYTES_MIN = 64 * 1024
NULLS = ("unquoted_empty", "empty", "never")
TRIMMED = " \t"
"""What ``trim_header`` takes off both ends of a column name."""


class CsvSide(FileSide):
    """CSV files with a header line each and the same columns by name.

    Options: ``types``; ``nulls``: unquoted_empty (default), empty (quoted too), never, or a list of texts (quoted or
    not); ``trim_header``; ``delimiter`` (a comma; a tab for .tsv), ``quote`` (empty for none), ``encoding``,
    ``compression``.
    """

    kind: str = "csv"

    def __init__(self, files: tuple[SideFile, ...], options: Mapping[str, Any], pattern: str) -> None:
        super().__init__(files, options, pattern)
        self._nulls = _nulls(options.get("nulls"))
        self._trim = bool(options.get("trim_header"))
        self._encoding = encoding_of(options.get("encoding"))
        self._compression = options.get("compression")
        self._delimiter = options.get("delimiter")
        self._quote = options.get("quote", '"')
        self._form(files[0])
        compression_of(files[0], self._compression)

    def _form(self, file: SideFile) -> Form:
        tab = ".tsv" in (suffix.lower() for suffix in PurePosixPath(file.name).suffixes)
        delimiter = _one_byte("delimiter", self._delimiter if self._delimiter is not None else "\t" if tab else ",")
        quote = _one_byte("quote", self._quote) if self._quote else None
        if delimiter == quote:
            raise SpecValueError("delimiter and quote are the same character.", where="csv")
        return Form(delimiter, quote)

    def _scan(self, file: SideFile, size: int) -> Generator[Fields, None, None]:
        with opened_text(file, compression_of(file, self._compression)) as stream:
            yield from scan(blocks(stream, file, self._encoding, size), self._form(file), file)

    def _header(self, file: SideFile, fields: Fields | None) -> tuple[str, ...]:
        if fields is None:
            raise SideLineError(f"{file.name}, line 1: there is no header.", where=f"{file.name}: line 1")
        names = tuple(fields.values.slice(0, fields.width).to_pylist())
        names = tuple(name.strip(TRIMMED) for name in names) if self._trim else names
        for number, name in enumerate(names):
            if name in names[:number]:
                raise SideLineError(
                    f"{file.name}, line 1: two columns are called {shown(name)}.", where=f"{file.name}: line 1"
                )
        return names

    @cached_property
    def _first_block(self) -> Fields | None:
        with closing(self._scan(self.files[0], BLOCK_BYTES_MIN)) as found:
            return next(found, None)

    @cached_property
    def _inside(self) -> tuple[Column, ...]:
        names = self._header(self.files[0], self._first_block)
        return tuple(
            Column(name, self._types[name], "text")
            if name in self._declared
            else Column(name, UNTYPED_TEXT, "text", untyped=True)
            for name in names
        )

    def _file_columns(self) -> tuple[Column, ...]:
        return self._inside

    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        size = max(BLOCK_BYTES_MIN, min(BLOCK_BYTES, request.batch_bytes // 2))
        known = {column.name for column in self._inside}
        for file in self.files:
            header: tuple[str, ...] | None = None
            for fields in self._scan(file, size):
                skipped = 0
                if header is None:
                    header, skipped = self._header(file, fields), 1
                    self._check_header(file, header, known)
                if fields.rows > skipped:
                    yield file, self._batch(file, fields, header, names, skipped, Refusals(request.refusable))
            if header is None:
                self._header(file, None)

    def _check_header(self, file: SideFile, header: tuple[str, ...], known: set[str]) -> None:
        other = sorted(set(header) ^ known)
        if other:
            here = "has a column" if other[0] in header else "lacks the column"
            raise SideFileError(
                f"{file.name} {here} {shown(other[0])}, other than {self.files[0].name}.", where=file.name
            )

    def _batch(
        self,
        file: SideFile,
        fields: Fields,
        header: tuple[str, ...],
        names: tuple[str, ...],
        skipped: int,
        refusals: Refusals,
    ) -> pa.RecordBatch:
        arrays = []
        for name in names:
            place = header.index(name)
            picked = np.arange(skipped * fields.width + place, len(fields.values), fields.width, dtype=np.int64)
            text = self._with_nulls(fields.values.take(int64_array(picked)), fields.quoted[picked])

            def line(row: int) -> str:
                return f"line {fields.line_of(row + skipped)}"

            note = refusals.note if name in refusals.names else None
            arrays.append(self.parsed(text, self.type_of(name), name, file, line, note))
        return refusals.batch(arrays, names)

    def _with_nulls(self, text: pa.Array, quoted: Any) -> pa.Array:
        if self._nulls == "never":
            return text
        if isinstance(self._nulls, str):
            null = pc.equal(pc.binary_length(text), 0)
            if self._nulls == "unquoted_empty" and quoted.any():
                null = pc.and_(null, bool_array(~quoted))
        else:
            null = pc.is_in(text, value_set=texts(list(self._nulls)))
        return pc.if_else(null, pa.scalar(None, text.type), text)

    def _estimate(self) -> int | None:
        """Rows as long as the first ones would fill the files."""
        first = self._first_block
        if first is None or first.rows < 2:
            return 0
        size = sum(estimated_bytes(file, compression_of(file, self._compression)) for file in self.files)
        return max(first.rows - 1, size * first.rows // max(len(first.data), 1) - len(self.files))


def _nulls(given: Any) -> str | tuple[str, ...]:
    if given is None:
        return "unquoted_empty"
    if isinstance(given, str) and given in NULLS:
        return given
    if isinstance(given, (list, tuple)) and all(isinstance(text, str) for text in given):
        return tuple(given)
    raise SpecValueError(
        f"nulls: {shown(given)} is none of {', '.join(NULLS)} and no list of texts.", where="csv.nulls"
    )


def _one_byte(name: str, given: Any) -> int:
    if not isinstance(given, str) or len(given) != 1 or not given.isascii() or given in "\r\n":
        raise SpecValueError(f"{name}: {shown(given)} is not one ASCII character.", where=f"csv.{name}")
    return ord(given)
