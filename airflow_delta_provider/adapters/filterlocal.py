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
        arrays = [_plain(name, batch.column(name)) for name in wanted.columns]
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


def _plain(name: str, array: Any) -> pa.Array:
    """Return a carrier as DuckDB takes it.

    Raises: FilterError for numbers of more than 38 digits and text that is not Unicode, which it cannot compare.
    """
    kind = array.type
    if pa.types.is_date32(kind):
        return _mended(array, pa.int32(), DATE_MINUS_INFINITY)
    if pa.types.is_timestamp(kind):
        return _mended(array, pa.int64(), TIMESTAMP_MINUS_INFINITY)
    if pa.types.is_decimal256(kind):
        try:
            return array.cast(pa.decimal128(DECIMAL_DIGITS_MAX, kind.scale))
        except pa.ArrowInvalid:
            raise FilterError(f"Column {shown(name)} holds numbers too wide for a filter.") from None
    return array


def _mended(array: Any, whole: pa.DataType, sentinel: int) -> pa.Array:
    """Turn our minus infinity into DuckDB's, which is one above."""
    import pyarrow.compute as pc

    numbers = array.view(whole)
    if not pc.any(pc.equal(numbers, sentinel)).as_py():
        return array
    fixed = pc.if_else(pc.equal(numbers, sentinel), pa.scalar(sentinel + 1, whole), numbers)
    return fixed.view(array.type)
