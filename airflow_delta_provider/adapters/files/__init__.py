"""Files as sides: Parquet, CSV, JSON Lines and Arrow, on this machine or in an object store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from airflow_delta_provider.adapters.files.base import FileSide
from airflow_delta_provider.adapters.files.paths import SideFile, find_files, shown_path, table_of
from airflow_delta_provider.adapters.files.streams import COMPRESSIONS
from airflow_delta_provider.adapters.side import Side
from airflow_delta_provider.core.errors import SideSchemeError, shown

SUFFIXES = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}


def open_file_side(path: str, options: Mapping[str, Any] | None = None) -> Side:
    """Open the file, pattern or folder that ``path`` names as one side, or the Delta or Iceberg table.

    ``options``: the members ``csv`` and ``jsonl`` of a specification; what is in neither holds for both, and
    ``hidden`` names columns whose values no error may show.
    Raises: SideMissingError where nothing matches, InputPathError where it may not be read, SideSchemeError for
    files of no known form or of several forms.
    """
    given = dict(options or {})
    table = table_of(path)
    if table is not None:
        from airflow_delta_provider.adapters.files.tables import DeltaSide, IcebergSide

        kind, location = table
        rest = {name: value for name, value in given.items() if name not in ("csv", "jsonl")}
        return (DeltaSide if kind == "delta" else IcebergSide)(location, rest, path)
    files = find_files(path)
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise SideSchemeError(
            f"{shown_path(path)} holds {' and '.join(sorted(kinds))} files: name one form.", where=shown_path(path)
        )
    kind = kinds.pop()
    own = given.get(kind) or {}
    rest = {name: value for name, value in given.items() if name not in ("csv", "jsonl")}
    return _side(kind)(files, {**rest, **own}, path)


def _kind(file: SideFile) -> str:
    suffixes = [suffix.lower() for suffix in PurePosixPath(file.name).suffixes]
    last = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in COMPRESSIONS else suffixes[-1] if suffixes else ""
    kind = SUFFIXES.get(last)
    if kind is None or (suffixes[-1] in COMPRESSIONS and kind not in ("csv", "jsonl")):
        known = ", ".join(SUFFIXES)
        raise SideSchemeError(f"{shown(file.name)} has none of the endings {known}.", where=file.name)
    return kind


def _side(kind: str) -> type[FileSide]:
    if kind == "parquet":
        from airflow_delta_provider.adapters.files.parquet import ParquetSide

        return ParquetSide
    if kind == "csv":
        from airflow_delta_provider.adapters.files.csv import CsvSide

        return CsvSide
    if kind == "jsonl":
        from airflow_delta_provider.adapters.files.jsonl import JsonlSide

        return JsonlSide
    from airflow_delta_provider.adapters.files.arrow import ArrowSide

    return ArrowSide
