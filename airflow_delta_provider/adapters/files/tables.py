"""Delta Lake and Iceberg tables as sides: the rows of one snapshot, as their own libraries read them."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.files.base import FileSide, converting
from airflow_delta_provider.adapters.files.common import to_carrier
from airflow_delta_provider.adapters.files.paths import SideFile, shown_path
from airflow_delta_provider.adapters.files.schemas import add_column, arrow_column, joined_columns
from airflow_delta_provider.adapters.side import Column, Request
from airflow_delta_provider.core.errors import SideFileError, SideSchemeError

READAHEAD = 1
"""Batches and files that the reader of a Delta table may hold beyond the one at hand."""


class TableSide(FileSide):
    """One snapshot of a table, the newest when the side is first asked for something. Rows come in no order."""

    package: str = ""

    def __init__(self, location: str, options: Mapping[str, Any], path: str) -> None:
        """Take the table's address as its library wants it, and the path as it was given."""
        name = PurePosixPath(shown_path(path)).name
        super().__init__((SideFile(None, name, 0, None),), options, path)
        self.where = f"table {name}"
        self._location = location

    @abstractmethod
    def _schema(self) -> pa.Schema:
        """Return the columns of the snapshot."""

    @abstractmethod
    def _rows(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield batches that hold these columns, in any order."""

    @abstractmethod
    def _snapshot(self) -> Any:
        """Return what names the snapshot."""

    @abstractmethod
    def _table_id(self) -> str:
        """Return the id that the table got when it was made; a copy of its folder has the same."""

    @abstractmethod
    def _described(self) -> str:
        """Return all that the table's own metadata says of the snapshot's rows, the same text for the same metadata."""

    @cached_property
    def _state(self) -> tuple[tuple[str, str], ...]:
        """The snapshot and what it is made of: its files are never written again.

        A copy or a restored backup has the table's id and may count to the same version, so neither proves its rows.
        """
        with self._reading():
            digest = hashlib.sha256(self._described().encode()).hexdigest()
            return ((self.files[0].name, f"{self.kind}:{self._table_id()}:{self._snapshot()}:sha256:{digest}"),)

    @cached_property
    def _inside(self) -> tuple[Column, ...]:
        with self._reading():
            schema = self._schema()
        layout: dict[str, Any] = {}
        for position, field in enumerate(schema):
            add_column(layout, arrow_column(field, position), self.files[0].name)
        return joined_columns([self.files[0].name], [list(layout.values())])

    def _file_columns(self) -> tuple[Column, ...]:
        return self._inside

    def _batches(self, names: tuple[str, ...], request: Request) -> Iterator[tuple[SideFile, pa.RecordBatch]]:
        types = {name: self.type_of(name) for name in names}
        (file,) = self.files
        with self._reading():
            for batch in self._rows(list(names), request.batch_rows):
                arrays = []
                for name, type in types.items():
                    with converting(file, name):
                        arrays.append(to_carrier(batch.column(name), type))
                yield file, pa.RecordBatch.from_arrays(arrays, names=list(names))

    def facts(self) -> dict[str, Any]:
        """Return the table's name and the token of its snapshot."""
        with self._reading():
            return {"kind": self.kind, "snapshot": self._snapshot(), "table": self.files[0].name}

    @abstractmethod
    def _errors(self) -> tuple[type[BaseException], ...]:
        """Return what the library raises."""

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what the library raises into a refusal; its text may hold addresses, so its class is named."""
        try:
            import_module(self.package)
        except ImportError:
            raise SideSchemeError(
                f"{self.where} needs {self.package}: pip install 'airflow-delta-provider[{self.kind}]'.",
                where=self.kind,
            ) from None
        try:
            yield
        except (pa.ArrowException, OSError, *self._errors()) as error:
            raise SideFileError(
                f"{self.where} cannot be read: {type(error).__name__}. Its snapshot may be gone, or it uses a feature that"
                f" {self.package} does not read.",
                where=self.where,
            ) from None


class DeltaSide(TableSide):
    """A Delta Lake table. Features that its reader does not know, such as deletion vectors, are refused by it."""

    kind: str = "delta"
    package = "deltalake"

    @cached_property
    def _dataset(self) -> tuple[Any, Any]:
        import deltalake
        import pyarrow.dataset as datasets

        table = deltalake.DeltaTable(self._location)
        options = datasets.ParquetReadOptions(coerce_int96_timestamp_unit="us")
        return table, table.to_pyarrow_dataset(parquet_read_options=options)

    def _schema(self) -> pa.Schema:
        return self._dataset[1].schema

    def _rows(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from self._dataset[1].to_batches(
            columns=names, batch_size=rows, batch_readahead=READAHEAD, fragment_readahead=READAHEAD
        )

    def _snapshot(self) -> Any:
        return int(self._dataset[0].version())

    def _table_id(self) -> str:
        return str(self._dataset[0].metadata().id)

    def _described(self) -> str:
        table = self._dataset[0]
        actions = pa.table(table.get_add_actions())
        files = zip(*(actions[name].to_pylist() for name in ("path", "size_bytes", "modification_time")), strict=True)
        return json.dumps([table.schema().to_json(), table.metadata().configuration, sorted(files)], sort_keys=True)

    def _estimate(self) -> int | None:
        with self._reading():
            return int(self._dataset[1].count_rows())

    def _errors(self) -> tuple[type[BaseException], ...]:
        from deltalake.exceptions import DeltaError

        return (DeltaError,)


class IcebergSide(TableSide):
    """An Iceberg table by its metadata file; deletes are applied by the library."""

    kind: str = "iceberg"
    package = "pyiceberg"

    @cached_property
    def _table(self) -> Any:
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(self._location)

    def _schema(self) -> pa.Schema:
        return self._table.schema().as_arrow()

    def _rows(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        if self._table.current_snapshot() is not None:
            yield from self._table.scan(selected_fields=tuple(names)).to_arrow_batch_reader()

    def _snapshot(self) -> Any:
        snapshot = self._table.current_snapshot()
        return None if snapshot is None else str(snapshot.snapshot_id)

    def _table_id(self) -> str:
        metadata = self._table.metadata
        return f"{metadata.table_uuid}:{metadata.current_schema_id}"

    def _described(self) -> str:
        return str(self._table.metadata.model_dump_json())

    def _estimate(self) -> int | None:
        """The total that the snapshot's summary states, which counts rows that deletes take away."""
        with self._reading():
            snapshot = self._table.current_snapshot()
            stated = None if snapshot is None or snapshot.summary is None else snapshot.summary.get("total-records")
        return 0 if snapshot is None else None if stated is None else int(stated)

    def _errors(self) -> tuple[type[BaseException], ...]:
        from pyiceberg import exceptions

        known = [each for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, Exception)]
        # the first three: pyiceberg met metadata of a wrong shape
        return (*known, ValueError, TypeError, KeyError, NotImplementedError)  # the last: a part of the format it lacks
