"""JSON values to carriers of a declared or paired type, strictly: each JSON form under the types that it can mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.files.base import FileSide, texts, wtf8
from airflow_delta_provider.adapters.files.jsonscan import Members, Number, Sourced, Whole
from airflow_delta_provider.adapters.files.paths import SideFile
from airflow_delta_provider.core.arrays import bool_array
from airflow_delta_provider.core.errors import ValueTextError
from airflow_delta_provider.core.types import NUMBERS, LogicalType

FORMS: dict[type, str] = {
    bool: "bool",
    Whole: "number",
    Number: "number",
    str: "text",
    Sourced: "json",
    list: "json",
    Members: "json",
}
"""What form of JSON each Python type stands for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The column that is read, for refusals. ``first``: number of the line of row 0. ``declared``: by ``types``."""

    side: FileSide
    file: SideFile
    name: str
    first: int
    declared: bool = False

    def refusal(self, value: Any, type: LogicalType, row: int) -> ValueTextError:
        """Return the refusal of one value."""
        form = {"bool": "boolean", "json": "document"}.get(form_of(value), form_of(value))
        wanted = f"{type.text} but a {form}" if form != "text" else type.text
        text = source_of(value)
        return self.side.bad_text(text, wanted, self.name, self.file, self.place(row))

    def place(self, row: int) -> str:
        """Return where a row stands."""
        return f"line {self.first + row}"


def form_of(value: Any) -> str:
    """Return the JSON form of a value: bool, number, text or json."""
    return FORMS[type(value.value if isinstance(value, Sourced) else value)]


def source_of(value: Any) -> str:
    """Return a value as its source text, a text without its quotes."""
    if isinstance(value, Sourced):
        return value.source
    if isinstance(value, bool):
        return "true" if value else "false"
    return "[...]" if isinstance(value, list) else str(value)


def array_of(values: Sequence[Any], type: LogicalType, reading: Reading, rows: Sequence[int] | None = None) -> pa.Array:
    """Return JSON values as a carrier of a type; ``rows``: the row of each value, where they are parts of rows.

    Raises: ValueTextError for a value that the type does not mean, naming file, line, column and value.
    """
    rows = range(len(values)) if rows is None else rows
    if type.nested:
        return _nested(values, type, reading, rows)
    if type.kind == "text":
        return _texts(values, type, reading, rows)
    tokens = [
        None if value is None else _token(value, type, reading, row) for value, row in zip(values, rows, strict=True)
    ]
    return reading.side.parsed(texts(tokens), type, reading.name, reading.file, lambda at: reading.place(rows[at]))


def _token(value: Any, type: LogicalType, reading: Reading, row: int) -> str:
    """Return the text from which a value of this type is parsed."""
    form = form_of(value)
    if type.kind in ("json", "json_text"):
        fits = isinstance(value, Sourced) or form == "text"
    else:
        fits = form == "text" or (form == "number" and type.kind in NUMBERS) or (form == "bool" and type.kind == "bool")
    if not fits:
        raise reading.refusal(value, type, row)
    token = source_of(value)
    if not token.isascii() and any("\ud800" <= char <= "\udfff" for char in token):
        raise reading.refusal(value, type, row)
    return token


def _texts(values: Sequence[Any], type: LogicalType, reading: Reading, rows: Sequence[int]) -> pa.Array:
    """Return texts; binary where one holds a lone surrogate."""
    raw: list[bytes | None] = []
    for value, row in zip(values, rows, strict=True):
        if value is None or value.__class__ is str:
            raw.append(value if value is None else value.encode("utf-8", "surrogatepass"))
        elif reading.declared and form_of(value) in ("number", "bool"):
            raw.append(source_of(value).encode())
        else:
            raise reading.refusal(value, type, row)
    array = wtf8(raw)
    try:
        return array.cast(pa.string() if array.type == pa.binary() else pa.large_string())
    except pa.ArrowInvalid:
        return array


def _nested(values: Sequence[Any], type: LogicalType, reading: Reading, rows: Sequence[int]) -> pa.Array:
    plain = [value.value if isinstance(value, Sourced) else value for value in values]
    for value, row in zip(plain, rows, strict=True):
        wanted = isinstance(value, list) and isinstance(value, Members) is (type.kind != "array")
        if value is not None and not wanted:
            raise reading.refusal(value, type, row)
    if type.kind == "struct":
        return _struct(plain, type, reading, rows)
    inner = [row for value, row in zip(plain, rows, strict=True) for _ in value or ()]
    flat = [item for value in plain for item in value or ()]
    item = type.item or LogicalType("text")
    if type.kind == "array":
        child = array_of(flat, item, reading, inner)
        wanted = pa.list_(child.type)
    else:
        keys = array_of([name for name, _ in flat], type.map_key or item, reading, inner)
        items = array_of([value for _, value in flat], item, reading, inner)
        wanted = pa.map_(keys.type, items.type)
        child = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
    offsets = np.zeros(len(plain) + 1, np.int32)
    np.cumsum(np.fromiter((len(value or ()) for value in plain), np.int32, len(plain)), out=offsets[1:])
    present = bool_array(np.fromiter((value is not None for value in plain), np.bool_, len(plain)))
    return pa.Array.from_buffers(wanted, len(plain), [present.buffers()[1], pa.py_buffer(offsets)], children=[child])


def _struct(values: Sequence[Any], type: LogicalType, reading: Reading, rows: Sequence[int]) -> pa.Array:
    """Return objects as structs: members by name, a missing one is NULL, an unknown one is refused."""
    names = {name for name, _ in type.fields}
    found = [dict(value or ()) for value in values]
    for value, members, row in zip(values, found, rows, strict=True):
        if members.keys() - names:
            raise reading.refusal(value, type, row)
    parts = [array_of([members.get(name) for members in found], part, reading, rows) for name, part in type.fields]
    absent = bool_array(np.fromiter((value is None for value in values), np.bool_, len(values)))
    return pa.StructArray.from_arrays(parts, names=[name for name, _ in type.fields], mask=absent)
