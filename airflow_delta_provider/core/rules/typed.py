"""A column of one side as rules see it, and the refusal of one of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.core.errors import DeltaError, ValueTextError
from airflow_delta_provider.core.types import LogicalType


@dataclass(frozen=True, slots=True)
class Typed:
    """Values of one column of one side.

    Shape: ``array`` is a carrier of ``type``. ``unparsed``: None, or a string array of the same length that holds the
    text where a ``read_as`` with ``otherwise: different`` could not read a value; ``array`` is NULL there, but the value
    is not NULL: it is different from everything.
    """

    type: LogicalType
    array: pa.Array
    unparsed: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.array)

    def take(self, rows: pa.Array) -> Typed:
        """Return these rows, by an index array."""
        unparsed = None if self.unparsed is None else self.unparsed.take(rows)
        return Typed(self.type, self.array.take(rows), unparsed)

    def with_values(self, type: LogicalType, array: pa.Array) -> Typed:
        """Return other values in place of these; what did not parse stays so."""
        return Typed(type, array, self.unparsed)


def joined(parts: Sequence[Typed]) -> Typed:
    """Return the values of all parts, which are of one type, one after the other."""
    if len(parts) == 1:
        return parts[0]
    texts = [part.unparsed for part in parts if part.unparsed is not None]
    return Typed(
        parts[0].type,
        pa.concat_arrays([part.array for part in parts]),
        pa.concat_arrays(texts) if texts else None,
    )


class UnparsedValue(Exception):
    """One value that a rule cannot read. It knows no key: who catches it refuses with ``error``, naming the key.

    ``row``: index within the arrays that were given. ``text``: the value. ``reason``: a phrase that follows the value in
    a message. ``error``: the class to refuse with (ValueTextError, RuleZoneError or ValueRangeError).
    """

    def __init__(self, row: int, text: str, reason: str, side: str, error: type[DeltaError] = ValueTextError) -> None:
        super().__init__(f"{side}, row {row}: {reason}.")
        self.row = row
        self.text = text
        self.reason = reason
        self.side = side
        self.error = error

    def moved(self, row: int) -> UnparsedValue:
        """Return the same refusal for another row number."""
        return UnparsedValue(row, self.text, self.reason, self.side, self.error)


def refuse_first(bad: pa.Array, side: str, text_of: Callable[[int], Any], reason: str, error: type[DeltaError]) -> None:
    """Raise UnparsedValue for the first row that is marked bad, if any is."""
    row = pc.index(bad, True).as_py()
    if row >= 0:
        raise UnparsedValue(row, str(text_of(row)), reason, side, error)
