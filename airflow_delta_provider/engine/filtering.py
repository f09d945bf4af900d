"""The filters of a specification, parsed for each side; one shared text speaks the source's dialect and names."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider.adapters.filters import Filter, parse_filter
from airflow_delta_provider.adapters.side import Side
from airflow_delta_provider.core.spec import Spec

DATABASES = ("postgresql", "mysql", "mariadb", "sqlite", "duckdb", "mssql", "oracle", "snowflake", "bigquery", "trino")


def filters_of(spec: Spec, source: Side, target: Side, partner: dict[str, str]) -> dict[str, Any]:
    """Return the parsed filter of each side, or None.

    ``partner``: source name to target name of every paired column, compared or not. Raises: FilterError.
    """
    if spec.filter_source is not None and spec.filter_shared:
        shared: Filter = parse_filter(spec.filter_source, _dialect(source), source.columns)
        return {"source": shared, "target": shared.renamed(partner, target.columns)}
    sides = {"source": (spec.filter_source, source), "target": (spec.filter_target, target)}
    return {
        name: None if text is None else parse_filter(text, _dialect(side), side.columns)
        for name, (text, side) in sides.items()
    }


def _dialect(side: Side) -> str:
    return side.kind if side.kind in DATABASES else "duckdb"
