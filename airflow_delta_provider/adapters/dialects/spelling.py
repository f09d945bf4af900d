"""How one SQL dialect spells names, literals and the few operations that a filter needs."""

from __future__ import annotations

from airflow_delta_provider.adapters.dialects.statement import Statement, Value, joined, sql

ALIAS = "delta_side"
"""Name under which a statement reads its table; every column is written with it, so that no output name hides one."""

LITERAL_TYPES = {
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_tz": "TIMESTAMP WITH TIME ZONE",
    "uuid": "UUID",
}


class Spelling:
    """Standard SQL; a dialect replaces what its engine spells otherwise."""

    def quote(self, name: str) -> str:
        """Write any identifier so that the engine reads exactly it."""
        return '"' + name.replace('"', '""') + '"'

    def aliased(self, source: str) -> str:
        """Write a FROM item under the name by which columns call it."""
        return f"{source} AS {ALIAS}"

    def field(self, name: str) -> str:
        """Write a column of the relation that a statement reads."""
        return f"{ALIAS}.{self.quote(name)}"

    def literal(self, kind: str, text: str) -> Statement:
        """Write a text, or a checked literal of a time type or uuid (``2026-01-31 09:30:00``, instants with +00:00).

        Raises: FilterError for a kind that the engine has not.
        """
        if kind == "text":
            return sql(Value(text))
        return sql("CAST(", Value(text), f" AS {LITERAL_TYPES[kind]})")

    def concatenated(self, parts: list[Statement]) -> Statement:
        """Join texts; NULL where one is NULL."""
        return sql("(", joined(" || ", parts), ")")

    def double(self, field: str) -> str:
        """Widen a single-precision column, so that it meets a decimal literal as a double on every engine."""
        return f"CAST({field} AS DOUBLE PRECISION)"
