"""Key literals of a specification (``key_range``, ``shards.bounds``) as canonical values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from airflow_delta_provider.core import rules, values
from airflow_delta_provider.core.errors import SpecValueError, shown
from airflow_delta_provider.core.types import LogicalType


def key_literals(literals: Sequence[Any], types: Sequence[LogicalType], where: str) -> list[Any]:
    """Return the canonical values of one bound's literals, which are written in the key's canonical text.

    Shape: one literal for each key column, or fewer, from the first on. Raises: SpecValueError.
    """
    if len(literals) > len(types):
        raise SpecValueError(f"{where} has {len(literals)} values; the key has {len(types)} columns.", where=where)
    return [_literal(literal, kind, where) for literal, kind in zip(literals, types, strict=False)]


def _literal(literal: Any, kind: LogicalType, where: str) -> Any:
    if literal is None:
        return None
    text = str(literal).lower() if isinstance(literal, bool) else str(literal)
    array, bad = rules.parse_text(pa.array([text], pa.string()), kind)
    if bad[0].as_py():
        raise SpecValueError(f"{where} holds {shown(text)!r}, which is no {kind.kind}.", where=where)
    return values.canonical_values(array, kind, kind)[0]
