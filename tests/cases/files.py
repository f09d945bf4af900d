"""Writers of one side of a case into Parquet, CSV and JSON Lines files."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from cases.engines import SideCase, required_type
from cases.notation import NS_PER_DAY, Declared, clock_ns, instant_ns


def write_parquet(path: Path, side: SideCase) -> None:
    """Write a Parquet file with the row groups and Arrow types that the case names."""
    import pyarrow as pa
    from pyarrow import parquet

    arrays = [_arrow_column(name, side) for name in side.columns]
    table = pa.table(arrays, names=list(side.columns))
    groups = side.hints.get("row_groups") or [list(range(len(side.rows)))]
    with parquet.ParquetWriter(path, table.schema, version="2.6") as writer:
        for rows in groups:
            writer.write_table(table.take(pa.array(rows, pa.int64())), row_group_size=max(len(rows), 1))


def _arrow_column(name: str, side: SideCase) -> Any:
    kind = side.columns[name]
    wanted = side.hints.get("arrow_types", {}).get(name) or required_type("parquet", name, side)
    place = list(side.columns).index(name)
    return arrow_array([row[place] for row in side.rows], kind, str(wanted))


def arrow_array(cells: Sequence[Any], kind: Declared, wanted: str) -> Any:
    """Build one Arrow array of exact values; ``wanted`` is the Arrow type's text."""
    import pyarrow as pa

    kind = kind.item if kind.item is not None else kind
    if wanted.startswith("list<"):
        inner = wanted[5:-1]
        flat = arrow_array([element for cell in cells for element in cell or []], kind, inner)
        offsets, at = [], 0
        for cell in cells:
            offsets.append(None if cell is None else at)
            at += len(cell or [])
        return pa.ListArray.from_arrays(pa.array([*offsets, at], pa.int32()), flat)
    if wanted.startswith("dictionary<"):
        index = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32()}[wanted[11:].split(",")[0]]
        labels = list(dict.fromkeys(cell for cell in cells if cell is not None))
        places = pa.array([None if cell is None else labels.index(cell) for cell in cells], index)
        return pa.DictionaryArray.from_arrays(places, pa.array(labels, pa.string()))
    if wanted.startswith("decimal"):
        precision, scale = map(int, wanted[8:-1].split(","))
        made = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        return pa.array([None if cell is None else Decimal(str(cell)) for cell in cells], made)
    if wanted.startswith("timestamp"):
        unit, _, zone = wanted[10:-1].partition(",")
        per = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
        return pa.array([None if cell is None else instant_ns(cell) // per for cell in cells], pa.int64()).cast(
            pa.timestamp(unit, zone or None)
        )
    if wanted == "date32":
        days = [None if cell is None else instant_ns(cell) // NS_PER_DAY for cell in cells]
        return pa.array(days, pa.int32()).cast(pa.date32())
    if wanted.startswith("time64"):
        return pa.array([None if cell is None else clock_ns(cell) // 1000 for cell in cells], pa.int64()).cast(
            pa.time64("us")
        )
    if wanted == "uuid":
        import uuid

        plain = [None if cell is None else uuid.UUID(cell).bytes for cell in cells]
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(plain, pa.binary(16)))
    names = {"float": pa.float32(), "double": pa.float64(), "bool": pa.bool_()}
    if wanted == "float":
        cells = [None if cell is None else struct.unpack("f", struct.pack("f", cell))[0] for cell in cells]
    return pa.array(cells, names.get(wanted) or getattr(pa, wanted)())


def write_csv(path: Path, side: SideCase) -> None:
    """Write a CSV file: numbers bare, text always quoted, NULL an unquoted empty field."""
    lines = [",".join(_quoted(name) for name in side.columns)]
    for row in side.rows:
        cells = zip(row, side.columns.values(), strict=True)
        lines.append(",".join(_csv_field(cell, kind) for cell, kind in cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


def _csv_field(cell: Any, kind: Declared) -> str:
    if cell is None:
        return ""
    return str(cell) if kind.kind in ("int", "decimal") else _quoted(cell)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def write_jsonl(path: Path, side: SideCase) -> None:
    """Write a JSON Lines file."""
    names = list(side.columns)
    lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in side.rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
