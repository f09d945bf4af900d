"""Delta Lake and Iceberg tables as sides: the rows of the newest snapshot, and never those of files that lie around."""

from __future__ import annotations

import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adapters.reader_suite import values_of
from servers import require_module

from airflow_delta_provider.adapters.files import open_file_side
from airflow_delta_provider.adapters.filters import parse_filter
from airflow_delta_provider.adapters.side import KEEP_COLUMN, Order, RangeCost, Request
from airflow_delta_provider.core.errors import SideFileError, SideMissingError, SideSchemeError, SpecColumnError
from airflow_delta_provider.core.types import LogicalType

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": pa.array(["a ", None, "é"]),
        "d": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(12, 2)),
        "w": pa.array([datetime(2024, 2, 29, 1, 2, 3, 500_000), None, datetime(2, 1, 1)], pa.timestamp("us")),
        "i": pa.array([datetime(2024, 2, 29), None, datetime(9999, 12, 31)], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2024, 2, 29), None, date(1, 1, 1)], pa.date32()),
        "f": pa.array([0.1, None, float("nan")]),
        "b": pa.array([b"\x00\xff", None, b""]),
        "p": pa.array(["x", "y", "x"]),
    }
)
NAMES = tuple(ROWS.column_names)
KINDS = ["int", "text", "decimal", "timestamp", "timestamp_tz", "date", "float64", "bytes", "text"]
LEFT = [
    ("1", "a ", "1.5", "2024-02-29T01:02:03.5", "2024-02-29T00:00:00Z", "2024-02-29", "0.1", "00ff", "x"),
    ("1", "a ", "1.5", "2024-02-29T01:02:03.5", "2024-02-29T00:00:00Z", "2024-02-29", "0.1", "00ff", "x"),
    ("3", "é", "-2.25", "0002-01-01T00:00:00", "9999-12-31T00:00:00Z", "0001-01-01", "NaN", "", "x"),
]
"""What is left after one row came twice and the second was deleted."""


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The folder of a table with three snapshots, whose folder also holds files of rows that are gone."""
    return delta(tmp_path) if request.param == "delta" else iceberg(tmp_path)


def delta(folder: Path) -> str:
    """Write a partitioned Delta table."""
    require_module("deltalake")
    import deltalake

    place = str(folder / "delta_table")
    deltalake.write_deltalake(place, ROWS, partition_by=["p"])
    deltalake.write_deltalake(place, ROWS.slice(0, 1), mode="append")
    deltalake.DeltaTable(place).delete("id = 2")
    return place


def iceberg(folder: Path, rows: Any = ROWS) -> str:
    """Write an Iceberg table through a catalog of its own."""
    require_module("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/house")
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.t", schema=rows.schema)
    if rows.num_rows:
        made.append(rows)
        made.append(rows.slice(0, 1))
        made.delete("id = 2")
    return str(folder / "house" / "shop" / "t")


def test_the_rows_are_those_of_the_newest_snapshot(table):
    """Types are exact, partition columns are columns, deleted rows are gone; order is promised by nobody."""
    side = open_file_side(table)
    assert [(column.name, column.type.kind) for column in side.columns] == list(zip(NAMES, KINDS, strict=True))
    assert sorted(values_of(side, side.read(Request(NAMES)), NAMES)) == LEFT
    assert side.order(("id",), (LogicalType("int"),)) is Order.NONE
    assert side.range_cost(("id",)) is RangeCost.SCAN
    assert side.estimate_rows() >= 3
    assert sorted(side.sample(("id",)).column("id").to_pylist()) == [1, 1, 3]
    side.close()


def test_names_come_in_the_order_of_the_request_and_filters_mark_rows(table):
    """Some readers deliver the table's order whatever they are asked for."""
    side = open_file_side(table)
    found = parse_filter("f < 1 AND p = 'x'", "duckdb", side.columns)
    batches = list(side.read(Request(("s", "id"), filter=found, batch_rows=1)))
    assert all(batch.schema.names == ["s", "id", KEEP_COLUMN] and batch.num_rows == 1 for batch in batches)
    marks = [(batch.column("id")[0].as_py(), bool(batch.column(KEEP_COLUMN)[0].as_py())) for batch in batches]
    assert sorted(marks) == [(1, True), (1, True), (3, False)]


def test_a_side_stays_with_the_snapshot_that_it_opened(tmp_path):
    """Both looks at a table that is written meanwhile see the same rows, and the sidecar says which."""
    place = delta(tmp_path)
    import deltalake

    side = open_file_side(place)
    assert side.facts() == {"kind": "delta", "snapshot": 2, "table": "delta_table"}
    deltalake.write_deltalake(place, ROWS, mode="append")
    assert len(values_of(side, side.read(Request(("id",))), ("id",))) == 3
    assert open_file_side(place).facts()["snapshot"] == 3


def test_an_iceberg_table_is_named_by_folder_or_by_metadata_file(tmp_path):
    """A file names one snapshot; a hint names the newest; two that are the newest are refused."""
    place = Path(iceberg(tmp_path))
    files = sorted((place / "metadata").glob("*.metadata.json"))
    assert len(files) == 4
    side = open_file_side(str(files[1]))
    assert sorted(values_of(side, side.read(Request(("id",))), ("id",))) == [("1",), ("2",), ("3",)]
    assert open_file_side(str(place)).facts()["snapshot"] != side.facts()["snapshot"]
    shutil.copy(files[1], place / "metadata" / "v2.metadata.json")
    (place / "metadata" / "version-hint.text").write_text("2\n")
    assert open_file_side(str(place)).facts()["snapshot"] == side.facts()["snapshot"]
    (place / "metadata" / "version-hint.text").unlink()
    shutil.copy(files[3], place / "metadata" / "00003-other.metadata.json")
    with pytest.raises(SideFileError, match="2 newest metadata files"):
        open_file_side(str(place))


def test_an_iceberg_table_without_rows_has_columns(tmp_path):
    """No snapshot yet is an empty table."""
    side = open_file_side(iceberg(tmp_path, ROWS.slice(0, 0)))
    assert [column.name for column in side.columns] == list(NAMES)
    assert list(side.read(Request(("id",)))) == []
    assert side.sample(("id",)).num_rows == side.estimate_rows() == 0
    assert side.facts()["snapshot"] is None


def test_the_data_files_of_a_table_are_no_plain_set(tmp_path):
    """Read as Parquet they would bring back what was deleted."""
    place = iceberg(tmp_path)
    for path in (f"{place}/data", f"{place}/data/*.parquet"):
        with pytest.raises(SideSchemeError, match="data of an Iceberg table"):
            open_file_side(path)


def test_a_table_that_is_damaged_or_gone_is_refused(tmp_path):
    """A log that is no log, a data file that is gone, a column that is none."""
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    with pytest.raises(SideFileError, match="table empty cannot be read"):
        _ = open_file_side(str(tmp_path / "empty")).columns
    place = Path(delta(tmp_path))
    side = open_file_side(str(place))
    _ = side.columns
    with pytest.raises(SpecColumnError, match="nowhere"):
        list(side.read(Request(("nowhere",))))
    for path in place.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(SideFileError, match="table delta_table cannot be read"):
        list(side.read(Request(("id",))))
    broken = Path(iceberg(tmp_path))
    for path in (broken / "data").rglob("*.parquet"):
        path.write_bytes(b"PAR1")
    with pytest.raises(SideFileError, match="table t cannot be read"):
        list(open_file_side(str(broken)).read(Request(("id",))))
    with pytest.raises(SideMissingError):
        open_file_side(str(tmp_path / "nowhere"))


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    """And nothing is read without it."""
    from airflow_delta_provider.adapters.files import tables

    def missing(name: str) -> None:
        raise ImportError(name)

    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    monkeypatch.setattr(tables, "import_module", missing)
    with pytest.raises(SideSchemeError, match=r"needs deltalake: pip install 'airflow-delta-provider\[delta\]'"):
        _ = open_file_side(str(tmp_path / "t")).columns
