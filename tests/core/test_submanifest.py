"""From a raw comparison to a sub-manifest: bound to its documents, its range and its limits."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.arrays import binary_list
from airflow_delta_provider.core.errors import (
    DenominatorError,
    DiskLimitError,
    InputShardError,
    RangeError,
    UnsortedStreamError,
)
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.rawcompare import RawWriter, raw_batch
from airflow_delta_provider.core.submanifest import Shared, build_sub_manifest, shared_of
from airflow_delta_provider.core.types import LogicalType

INT, TEXT = LogicalType("int"), LogicalType("text")
PAIR = {"name": "p", "source": "s", "target": "t"}


def shared(version: str = "1") -> Shared:
    contract: dict[str, Any] = {
        "columns": {"exclude": [], "map": [], "names": "exact"},
        "csv": None,
        "detail": "values",
        "filter": {"source": None, "target": None},
        "keys": {"duplicates": "refuse", "nulls": "refuse"},
        "rules": [],
        "sensitive": [],
        "version": version,
    }
    return shared_of(
        documents.build_schema(version, [("id", INT)], [("v", TEXT)], 65536),
        documents.build_contract(contract),
        documents.build_structure([]),
        PAIR,
    )


def record(number: int, value: str = "x") -> pa.RecordBatch:
    row = binary_list([f'["{value}"]'.encode()])
    return raw_batch(binary_list([encode_key([str(number)], [INT])]), "added", None, None, row, None, None)


def raw(
    records: list[pa.RecordBatch], rows: int | None = None, identity: str | None = None, bounds: Any = None
) -> io.BytesIO:
    file = io.BytesIO()
    writer = RawWriter(file, identity or shared().identity, bounds or (None, None))
    for one in records:
        writer.add(one)
    side = {"duplicate_key": 0, "null_key": 0, "rows": 0, "skipped": 0}
    target = {**side, "rows": len(records) if rows is None else rows}
    population = {"source": side, "target": target, "unchanged": 0}
    writer.close({"population": population, "diverged": [0], "rules": [[]], "key_rules": [[]]})
    return io.BytesIO(file.getvalue())


def test_a_sub_manifest_is_a_manifest_with_the_range_of_its_shard():
    """The merge reads nothing else."""
    bounds = (encode_key(["1"], [INT]), encode_key(["9"], [INT]))
    out = io.BytesIO()
    built = build_sub_manifest(raw([record(1), record(8)], bounds=bounds), shared(), out)
    manifest = documents.parse_manifest(built.manifest)
    assert manifest["key_range"] == {"lower": "202101", "upper": "202109"}
    assert manifest["categories"]["added"]["records"] == 2
    assert out.getvalue().count(b"\n") == 2
    assert documents.parse_summary(built.summary)["columns"] == [["v", 0, 0]]


def test_a_comparison_of_other_documents_is_refused():
    """A retried task of yesterday's plan must not slip into today's merge."""
    with pytest.raises(InputShardError, match=r"\[DELTA_INPUT_SHARD\] the raw comparison belongs to other documents"):
        build_sub_manifest(raw([], identity=shared("2").identity), shared(), io.BytesIO())


@pytest.mark.parametrize("number", [0, 9])
def test_a_record_outside_the_range_is_refused(number):
    """The range of a shard holds its lower bound and not its upper."""
    bounds = (encode_key(["1"], [INT]), encode_key(["9"], [INT]))
    with pytest.raises(RangeError, match=r"\[DELTA_RANGE\]"):
        build_sub_manifest(raw([record(number)], bounds=bounds), shared(), io.BytesIO())


@pytest.mark.parametrize("numbers", [[2, 1], [1, 1]])
def test_records_ascend_strictly(numbers):
    """Keys are unique."""
    with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\]"):
        build_sub_manifest(raw([record(number) for number in numbers]), shared(), io.BytesIO())


def test_counts_that_do_not_add_up_are_refused():
    """Where rows went is part of the verdict."""
    with pytest.raises(DenominatorError, match=r"\[DELTA_DENOMINATOR\]"):
        build_sub_manifest(raw([record(1)], rows=2), shared(), io.BytesIO())


def test_a_body_beyond_its_limit_is_refused():
    """The bytes are counted with their line ends."""
    out = io.BytesIO()
    build_sub_manifest(raw([record(1)]), shared(), out)
    size = len(out.getvalue())
    build_sub_manifest(raw([record(1)]), shared(), io.BytesIO(), bytes_max=size)
    with pytest.raises(
        DiskLimitError, match=rf"\[DELTA_DISK_LIMIT\] the body is larger than {size - 1} bytes"
    ) as caught:
        build_sub_manifest(raw([record(1)]), shared(), io.BytesIO(), bytes_max=size - 1)
    assert caught.value.where == "limits.max_bytes"
