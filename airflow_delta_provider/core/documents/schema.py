"""The schema document: names and logical types of everything compared, one type for both sides (docs/format.md, S7)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import LimitError, SchemaError
from airflow_delta_provider.core.types import KEY_KINDS, LogicalType

FORMAT = "delta-schema/1"
INLINE_LIMIT = 65536
"""Default of ``inline_limit``: longest canonical JSON of a value, in bytes, that stands in a record as it is."""

COLUMNS_MAX = 10_000
"""Most columns of a schema, the key's among them: no engine that is read here has tables with more."""

_SHAPE = Shape("schema document", SchemaError)


def build_schema(
    version: str,
    key: Sequence[tuple[str, LogicalType]],
    columns: Sequence[tuple[str, LogicalType]],
    inline_limit: int = INLINE_LIMIT,
) -> bytes:
    """Return a schema document: key and compared columns by target name, in key order and in target order.

    Raises: SchemaError (DELTA_SCHEMA) where the result would not be valid; LimitError (DELTA_LIMIT) over ``COLUMNS_MAX``.
    """
    data = jsonc.dumps(
        {
            "columns": [[name, kind.schema] for name, kind in columns],
            "format": FORMAT,
            "inline_limit": inline_limit,
            "key": [[name, kind.schema] for name, kind in key],
            "version": version,
        }
    )
    parse_schema(data)
    return data


def parse_schema(data: bytes) -> Document:
    """Return a schema document, checked.

    Raises: SchemaError (DELTA_SCHEMA), LimitError (DELTA_LIMIT) over ``COLUMNS_MAX``, FormatError and the errors of
    canonical JSON.
    """
    document = _SHAPE.parse(data, FORMAT, ("columns", "format", "inline_limit", "key", "version"))
    count = sum(len(_SHAPE.items(document[member], member)) for member in ("key", "columns"))
    if count > COLUMNS_MAX:
        raise LimitError(f"The schema has {count} columns; {COLUMNS_MAX} is the limit.", where="columns")
    names = []
    for member in ("key", "columns"):
        for index, entry in enumerate(_SHAPE.items(document[member], member)):
            place = f"{member}[{index}]"
            name, kind = _SHAPE.items(entry, place, 2)
            names.append(_SHAPE.text(name, place))
            if member == "key":
                _SHAPE.choice(kind, f"{place} ({name})", KEY_KINDS)
            else:
                _SHAPE.logical_type(kind, f"{place} ({name})")
    if not document["key"]:
        raise _SHAPE.refuse("key", "names no column")
    _SHAPE.unique(names, "key and columns")
    _SHAPE.count(document["inline_limit"], "inline_limit")
    _SHAPE.version(document["version"], "version")
    return document
