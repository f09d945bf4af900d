"""Strict readers: text to typed values, for text files and for ``read_as`` (docs/contract.md, section 4).

A reader takes exactly the texts that it knows, in ASCII, and flags every other one; nothing is guessed, trimmed or
rounded beyond what the type itself means (a text read as float is the nearest float).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.errors import ValueTypeError
from airflow_delta_provider.core.rules import parse_bytes, parse_json, parse_numbers, parse_times
from airflow_delta_provider.core.types import LogicalType

Options = Mapping[str, Any]
TRUE_VALUES = ("1", "T", "TRUE", "True", "t", "true")
FALSE_VALUES = ("0", "F", "FALSE", "False", "f", "false")
"""Texts that a bool is read from where no others are given."""


def parse_text(array: pa.Array, type: LogicalType, *, options: Options | None = None) -> tuple[pa.Array, pa.Array]:
    """Read texts as values of a logical type; return (carrier, bad).

    ``array``: string or large_string (chunks and dictionaries are unpacked); NULL stays NULL and is never bad.
    ``carrier``: NULL where the text is NULL or bad. Its Arrow type is one that ``core.types.CARRIERS`` allows: the same
    for every array of values that fit the usual width (int64, timestamp(us), ...), a wider one where a value needs it,
    so batches of one column may have different carriers.
    ``bad``: boolean without nulls, true where the text is no value of the type.
    ``options``: ``true_values``, ``false_values`` (bool); ``encoding`` (bytes: hex, base64); ``layout`` (uuid: rfc,
    mixed_endian); ``zone``, ``ambiguous``, ``skipped`` (timestamp_tz: the zone of texts without an offset; a time that
    is ambiguous or skipped there under ``refuse`` is bad).
    Raises: ValueTypeError for array, struct and map, which have no text form.
    """
    values = plain_text(array)
    reader = _READERS.get(type.kind)
    if reader is None:
        raise ValueTypeError(f"A text cannot be read as {type.text}.")
    carrier = reader(values, type, options or {})
    return carrier, pc.and_(pc.is_valid(values), pc.is_null(carrier))


def plain_text(array: pa.Array) -> pa.Array:
    """Return one contiguous string or large_string array of the same texts."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return array


def _same(values: pa.Array, type: LogicalType, options: Options) -> pa.Array:
    return values


def _bools(values: pa.Array, type: LogicalType, options: Options) -> pa.Array:
    text = values.type
    true = pc.is_in(values, pa.array(list(options.get("true_values", TRUE_VALUES)), text))
    false = pc.is_in(values, pa.array(list(options.get("false_values", FALSE_VALUES)), text))
    known = pc.and_(pc.is_valid(values), pc.or_(true, false))
    return pc.if_else(known, true, pa.scalar(None, pa.bool_()))


_READERS: dict[str, Callable[[pa.Array, LogicalType, Options], pa.Array]] = {
    "text": _same,
    "json_text": _same,
    "bool": _bools,
    "int": parse_numbers.ints,
    "decimal": parse_numbers.decimals,
    "float32": parse_numbers.floats,
    "float64": parse_numbers.floats,
    "bytes": parse_bytes.byte_strings,
    "uuid": parse_bytes.uuids,
    "date": parse_times.dates,
    "time": parse_times.times,
    "timestamp": parse_times.timestamps,
    "timestamp_tz": parse_times.instants,
    "interval": parse_times.intervals,
    "json": parse_json.documents,
}
