"""A filter over Arrow batches of a file, in DuckDB: the same expression that a database would get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.spelling import Spelling
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.filterwrite import Writer
from airflow_delta_provider.core.errors import FilterError, shown
from airflow_delta_provider.core.types import (
    DATE_MINUS_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    LogicalType,
)

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.filters import Filter

DECIMAL_DIGITS_MAX = 38


class _Local(Spelling):
    """DuckDB over carriers: a UUID is its 16 bytes."""

    def literal(self, kind: str, text: str) -> Statement:
        """Bind a UUID as bytes and everything else as DuckDB spells it."""
        if kind == "uuid":
            return sql(Value(bytes.fromhex(text.replace("-", ""))))
        return super().literal(kind, text)


class LocalEngine:
    """One DuckDB in memory, on one thread, so that rows keep their order."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET threads = 1")
        self._connection.execute("SET python_enable_replacements = false")

    def evaluate(self, wanted: Filter, batch: pa.RecordBatch, types: Mapping[str, LogicalType]) -> pa.BooleanArray:
        """Return one boolean for each row, without nulls.

        Raises: FilterError.
        """
        import duckdb

        places = {name: f"c{at}" for at, name in enumerate(wanted.columns)}
        spelling = _Local()

        def column(name: str) -> tuple[str, str | None]:
            field = spelling.field(places[name])
            kind = types[name].kind
            return (spelling.double(field) if kind == "float32" else field), kind

        condition = Writer(spelling, column).condition(wanted.tree)
        row = pa.array(range(batch.num_rows), pa.int64())
        arrays = [_plain(name, batch.column(name), types[name].kind) for name in wanted.columns]
        table = pa.Table.from_arrays([row, *arrays], names=["delta_row", *places.values()])
        statement = sql("SELECT coalesce(", condition, ", false) FROM delta_batch AS delta_side ORDER BY delta_row")
        text, values = statement.render("qmark")
        self._connection.register("delta_batch", table)
        try:
            found = self._connection.sql(text, params=values).to_arrow_table().column(0).combine_chunks()
        except duckdb.Error as error:
            raise FilterError(f"The filter cannot be evaluated: {type(error).__name__}.") from None
        finally:
            self._connection.unregister("delta_batch")
        return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _plain(name: str, array: Any, kind: str) -> pa.Array:
    """Return a carrier as DuckDB takes it.

    Raises: FilterError for values that DuckDB cannot compare exactly: numbers of more than 38 digits or none, text that is
    not Unicode, and time stamps far from today that are finer than a microsecond.
    """
    try:
        return _converted(array, kind)
    except (pa.ArrowInvalid, OverflowError):
        raise FilterError(f"Column {shown(name)} holds values that a filter cannot compare.") from None


def _converted(array: Any, kind: str) -> pa.Array:
    arrow = array.type
    if pa.types.is_date32(arrow):
        return _mended(array, pa.int32(), DATE_MINUS_INFINITY)
    if pa.types.is_timestamp(arrow):
        return _mended(array, pa.int64(), TIMESTAMP_MINUS_INFINITY)
    if kind in ("timestamp", "timestamp_tz"):
        return _narrow_stamps(array, "UTC" if kind == "timestamp_tz" else None)
    if kind == "decimal" and not pa.types.is_decimal(arrow):
        return _parsed_decimals(array)
    if pa.types.is_decimal256(arrow):
        return array.cast(pa.decimal128(DECIMAL_DIGITS_MAX, arrow.scale))
    if kind == "text" and not (pa.types.is_string(arrow) or pa.types.is_large_string(arrow)):
        return array.cast(pa.large_string())
    return array


def _narrow_stamps(array: Any, zone: str | None) -> pa.Array:
    """Turn nanoseconds in decimals into microseconds, which reach further than 64 bits of nanoseconds."""
    numbers = [None if value is None else int(value) for value in array.to_pylist()]
    if any(value is not None and value % 1_000 for value in numbers):
        raise OverflowError
    micros = pa.array([None if value is None else value // 1_000 for value in numbers], pa.int64())
    return micros.view(pa.timestamp("us", tz=zone))


def _parsed_decimals(array: Any) -> pa.Array:
    """Turn canonical decimal texts into decimals of the scale that they need."""
    import pyarrow.compute as pc

    points = pc.find_substring(array, ".")
    digits = pc.if_else(pc.less(points, 0), 0, pc.subtract(pc.subtract(pc.utf8_length(array), points), 1))
    return array.cast(pa.decimal128(DECIMAL_DIGITS_MAX, pc.max(digits).as_py() or 0))


def _mended(array: Any, whole: pa.DataType, sentinel: int) -> pa.Array:
    """Turn our minus infinity into DuckDB's, which is one above."""
    import pyarrow.compute as pc

    numbers = array.view(whole)
    if not pc.any(pc.equal(numbers, sentinel)).as_py():
        return array
    fixed = pc.if_else(pc.equal(numbers, sentinel), pa.scalar(sentinel + 1, whole), numbers)
    return fixed.view(array.type)
