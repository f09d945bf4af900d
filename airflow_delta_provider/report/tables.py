"""Records as a table of cells, in Parquet and CSV: one row for each record and column (docs/exports.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from airflow_delta_provider.report.cells import cells_of, text_of
from airflow_delta_provider.report.material import Material

ROWS_MAX = 65_536
"""Rows of one row group of Parquet, and of one write of CSV."""
DANGEROUS = re.compile(r"[=+\-@\t\r]")
PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
FIXED = ("record", "id", "category")
CELLS = ("column", "source", "source_form", "target", "target_form")

Row = tuple[Any, ...]


def header(material: Material) -> list[str]:
    """Return the names of the table's columns; key columns stand in the middle as ``key.<name>``."""
    return [*FIXED, *(f"key.{name}" for name in material.manifest["key"]["columns"]), *CELLS]


def rows(material: Material) -> Iterator[Row]:
    """Yield the rows: an integer first, then texts or None."""
    columns = material.columns
    for number, record in enumerate(material.records()):
        key = [text_of(part)[0] for part in record["key"]]
        for cell in cells_of(record, columns):
            yield (
                number,
                record["id"],
                record["category"],
                *key,
                cell.column,
                cell.source,
                cell.source_form,
                cell.target,
                cell.target_form,
            )


def write_parquet(material: Material, file: BinaryIO) -> None:
    """Write the table as Parquet; the file's metadata names the manifest."""
    import pyarrow as pa
    from pyarrow import parquet

    names = header(material)
    schema = pa.schema(
        [pa.field(names[0], pa.int64(), nullable=False), *(pa.field(name, pa.large_string()) for name in names[1:])],
        metadata={"delta.manifest": material.manifest_id, "delta.export": "cells/1"},
    )
    found = rows(material)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(found, ROWS_MAX)):
            arrays = [pa.array(part, field.type) for part, field in zip(zip(*batch, strict=True), schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def write_csv(material: Material, file: BinaryIO, *, spreadsheet: bool = False) -> int:
    """Write the table as CSV in UTF-8: every text in quotes, NULL and absent as nothing, lines end in LF.

    ``spreadsheet`` puts an apostrophe before each text that a spreadsheet would take for a formula; without it the
    values are exact. Returns how many texts begin like a formula.
    """
    risky = 0
    file.write(_line([_quoted(name) for name in header(material)]))
    for row in rows(material):
        cells = [str(row[0])]
        for text in row[1:]:
            danger = text is not None and is_formula(text)
            risky += danger
            cells.append("" if text is None else _quoted(f"'{text}" if danger and spreadsheet else text))
        file.write(_line(cells))
    return risky


def is_formula(text: str) -> bool:
    """Tell whether a spreadsheet may execute a text: it begins with ``= + - @``, tab or CR, and is no plain number."""
    return DANGEROUS.match(text) is not None and PLAIN_NUMBER.fullmatch(text) is None


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _line(cells: list[str]) -> bytes:
    return (",".join(cells) + "\n").encode()
