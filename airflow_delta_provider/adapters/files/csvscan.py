"""The strict form of CSV: blocks of bytes to fields, with numpy, no byte left unexplained.

The form is RFC 4180: fields parted by one delimiter, records by LF or CRLF, quotes only round a whole field and doubled
inside. A quote inside an unquoted field, text behind a closing quote, a bare CR and a record with another number of
fields are refused with the number of the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.files.paths import SideFile
from airflow_delta_provider.adapters.files.streams import RECORD_BYTES_MAX, bad_encoding
from airflow_delta_provider.core.errors import SideLineError

LF, CR = 10, 13


@dataclass(frozen=True, slots=True)
class Form:
    """How the fields of a file are told apart: one byte each, ``quote`` None where there are no quotes."""

    delimiter: int = ord(",")
    quote: int | None = ord('"')


@dataclass(frozen=True)
class Fields:
    """Whole records of one block.

    ``values``: the texts of all fields, record by record, never NULL. ``quoted``: numpy booleans, one for each.
    ``width``: fields in a record. ``starts``: where each field begins in ``data``. ``line``: number of the first line.
    """

    values: pa.Array
    quoted: Any
    width: int
    starts: Any
    data: bytes
    line: int

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.values) // self.width

    @cached_property
    def _line_ends(self) -> Any:
        return np.flatnonzero(np.frombuffer(self.data, np.uint8) == LF)

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a record begins; the first line of a file is 1."""
        return self.line + int(np.searchsorted(self._line_ends, self.starts[row * self.width]))


def scan(blocks: Iterable[bytes], form: Form, file: SideFile) -> Iterator[Fields]:
    """Cut blocks of UTF-8 into records; the first record of the first block is the header.

    Raises: SideLineError with the number of the line that breaks the form.
    """
    pending, line, width, enough = b"", 1, None, 0
    for block in blocks:
        pending += block
        if len(pending) < enough:
            continue
        cut = _last_record_end(pending, form)
        if cut == 0:
            if len(pending) > RECORD_BYTES_MAX:
                raise _broken(file, line, f"a record has more than {RECORD_BYTES_MAX} bytes, or a quote is not closed")
            enough = 2 * len(pending)
            continue
        fields = _fields(pending[:cut], form, width, line, file)
        pending, line, width, enough = pending[cut:], line + pending.count(b"\n", 0, cut), fields.width, 0
        yield fields
    if pending:
        ended = _last_record_end(pending, form) == len(pending)
        yield _fields(pending if ended else pending + b"\n", form, width, line, file)


def _broken(file: SideFile, line: int, why: str) -> SideLineError:
    return SideLineError(f"{file.name}, line {line}: {why}.", where=f"{file.name}: line {line}")


def _inside(data: Any, form: Form) -> tuple[Any, Any]:
    """Return where quotes stand, and for each byte whether it is inside quotes (an opening quote is, a closing not)."""
    if form.quote is None:
        return np.zeros(0, np.int64), None
    quotes = data == form.quote
    places = np.flatnonzero(quotes)
    if not len(places):
        return places, None
    return places, (np.cumsum(quotes, dtype=np.uint8) & 1).astype(bool)


def _last_record_end(block: bytes, form: Form) -> int:
    """Return the length of the whole records at the start of a block, which begins with a record."""
    data = np.frombuffer(block, np.uint8)
    _, inside = _inside(data, form)
    ends = data == LF if inside is None else (data == LF) & ~inside
    places = np.flatnonzero(ends)
    return int(places[-1]) + 1 if len(places) else 0


def _fields(block: bytes, form: Form, width: int | None, line: int, file: SideFile) -> Fields:
    data = np.frombuffer(block, np.uint8)
    quotes, inside = _inside(data, form)
    ends_record = data == LF if inside is None else (data == LF) & ~inside
    parts = ends_record | (data == form.delimiter if inside is None else (data == form.delimiter) & ~inside)

    def at(place: int) -> int:
        return line + block.count(b"\n", 0, place)

    if inside is not None and inside[-1]:
        opening = int(quotes[-1])
        raise _broken(file, at(opening), "a quoted field has no closing quote")
    ends = np.flatnonzero(parts)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    width = _checked_width(np.flatnonzero(ends_record[ends]), starts, width, at, file)
    crlf = _crlf(data, inside, ends_record, at, file)
    dropped = _dropped_quotes(data, quotes, inside, parts, crlf, at, file)
    values = _values(data, parts, ends, starts, crlf, dropped)
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        raise bad_encoding(file, at(_first_invalid(block))) from None
    quoted = np.zeros(len(starts), bool) if form.quote is None else data[starts] == form.quote
    return Fields(texts, quoted, width, starts, block, line)


def _checked_width(record_ends: Any, starts: Any, width: int | None, at: Any, file: SideFile) -> int:
    """Check that every record has as many fields as the header; ``record_ends``: index of each record's last field."""
    counts = np.diff(record_ends, prepend=-1)
    wanted = int(counts[0]) if width is None else width
    wrong = np.flatnonzero(counts != wanted)
    if len(wrong):
        record = int(wrong[0])
        first = int(record_ends[record]) - int(counts[record]) + 1
        found = "1 field" if counts[record] == 1 else f"{counts[record]} fields"
        raise _broken(file, at(int(starts[first])), f"{found} where the header has {wanted}")
    return wanted


def _crlf(data: Any, inside: Any, ends_record: Any, at: Any, file: SideFile) -> Any:
    """Return where a CR belongs to the end of a record; any other CR outside quotes is refused."""
    returns = np.flatnonzero(data == CR)
    if inside is not None:
        returns = returns[~inside[returns]]
    bare = returns[~ends_record[returns + 1]] if len(returns) else returns
    if len(bare):
        raise _broken(file, at(int(bare[0])), "a carriage return stands alone outside quotes")
    return returns


def _dropped_quotes(data: Any, quotes: Any, inside: Any, parts: Any, crlf: Any, at: Any, file: SideFile) -> Any:
    """Return which quotes are no part of a value, after checking that each stands where one may."""
    if not len(quotes):
        return quotes
    opens = inside[quotes]
    after_quote = np.zeros(len(quotes), bool)
    after_quote[1:] = np.diff(quotes) == 1
    before = np.where(quotes > 0, quotes - 1, 0)
    at_start = (quotes == 0) | parts[before]
    doubled = opens & after_quote & ~at_start
    ends = parts.copy()
    ends[crlf] = True
    followed = np.zeros(len(quotes), bool)
    followed[:-1] = after_quote[1:]
    good = np.where(opens, at_start | doubled, ends[quotes + 1] | followed)
    if not good.all():
        place = int(quotes[int(np.flatnonzero(~good)[0])])
        raise _broken(file, at(place), "a quote stands inside a field and not round it, doubled")
    return quotes[~doubled]


def _values(data: Any, parts: Any, ends: Any, starts: Any, crlf: Any, dropped: Any) -> pa.Array:
    """Return the fields' bytes without separators, line ends and quotes, as one binary array."""
    lengths = ends - starts
    keep = ~parts
    for places in (crlf, dropped):
        if len(places):
            keep[places] = False
            lengths -= np.bincount(np.searchsorted(ends, places), minlength=len(ends))
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[keep])]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _first_invalid(block: bytes) -> int:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0
