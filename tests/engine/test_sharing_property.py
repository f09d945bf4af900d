"""Parquet pairs under random options of their writers: what is decoded once gives the manifest of what is decoded twice."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta_provider.adapters.files import sharing
from airflow_delta_provider.adapters.files.parquet import ParquetSide
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

PAIRS = 8
"""Pairs of one seed."""
OPTIONS: dict[str, list[Any]] = {
    "compression": ["snappy", "zstd", "none"],
    "use_dictionary": [True, False, ["s"]],
    "data_page_version": ["1.0", "2.0"],
    "data_page_size": [64, 1 << 20],
    "store_schema": [True, False],
    "store_decimal_as_integer": [True, False],
    "use_deprecated_int96_timestamps": [False, False, True],
    "write_page_checksum": [True, False],
}
TYPES = {
    "d": pa.decimal128(18, 2),
    "t": pa.timestamp("ms"),
    "s": pa.dictionary(pa.int32(), pa.string()),
    "i": pa.uint32(),
}
"""Other types for the target's columns."""


def columns(rng: random.Random, rows: int) -> dict[str, pa.Array]:
    keys = [place // 2 if rng.random() < 0.05 else place for place in range(rows)]
    values: dict[str, tuple[list[Any], pa.DataType]] = {
        "id": (sorted(keys) if rng.random() < 0.8 else keys[::-1], pa.int64()),
        "i": ([place % 9 for place in range(rows)], pa.int32()),
        "s": ([f"text {place % 17}" for place in range(rows)], pa.string()),
        "d": ([Decimal(place) / 100 for place in range(rows)], pa.decimal128(9, 2)),
        "t": ([dt.datetime(2020, 1, 1) + dt.timedelta(seconds=place) for place in range(rows)], pa.timestamp("us")),
        "n": ([[place, place + 1] for place in range(rows)], pa.list_(pa.int32())),
    }
    holes = {name: rng.choice([0.0, 0.1]) if name != "id" else rng.choice([0.0, 0.0, 0.02]) for name in values}
    return {
        name: pa.array([None if rng.random() < holes[name] else value for value in column], kind)
        for name, (column, kind) in values.items()
    }


def changed(rng: random.Random, data: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the other side: two values swapped, a column of another type, each now and then."""
    found = dict(data)
    for name in rng.sample(["i", "s", "d", "t", "n"], rng.randrange(3)):
        values = found[name].to_pylist()
        one, other = rng.randrange(len(values)), rng.randrange(len(values))
        values[one], values[other] = values[other], values[one]
        found[name] = pa.array(values, found[name].type)
    for name in rng.sample(list(TYPES), rng.choice([0, 0, 1])):
        found[name] = found[name].cast(TYPES[name])
    return found


def write(folder: Path, data: dict[str, pa.Array], files: int, group: int, options: dict[str, Any]) -> dict[str, Any]:
    folder.mkdir(parents=True)
    whole = pa.table(data)
    rows = -(-whole.num_rows // files)
    for number in range(files):
        part = whole.slice(number * rows, rows)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=group, **options)
    return {"path": f"{folder}/*.parquet", "label": folder.name}


def outcome(form: dict[str, Any], shards: int) -> tuple[str, Any]:
    """Return the manifest, or the whole text of the refusal."""
    try:
        return "manifest", reconcile(parse_spec(form), MemoryStore(), open_side, shards=shards).receipt.manifest
    except DeltaError as error:
        return error.code, str(error)


@pytest.mark.parametrize("seed", range(4))
def test_sharing_never_shows_in_a_manifest_or_a_refusal(tmp_path, monkeypatch, seed):
    """Whatever the writers did, and however far one read may run ahead of the other."""
    rng, plain, shared = random.Random(seed), ParquetSide.together, []
    for number in range(PAIRS):
        data = columns(rng, rng.choice([1, 60, 300]))
        files, group = rng.choice([1, 3]), rng.choice([7, 50, 1000])
        options = {name: rng.choice(choices) for name, choices in OPTIONS.items()}
        others = {**options, **({"use_dictionary": False} if rng.random() < 0.2 else {})}
        form = {
            "name": "pair",
            "key": rng.choice([["id"], ["id"], ["id", "i"]]),
            "keys": {"nulls": rng.choice(["refuse", "match"]), "duplicates": rng.choice(["refuse", "set_aside"])},
            "source": write(tmp_path / f"{number}" / "source", data, files, group, options),
            "target": write(tmp_path / f"{number}" / "target", changed(rng, data), files, group, others),
        }
        shards = rng.choice([1, 3])
        monkeypatch.setattr(sharing, "HELD_BATCHES", rng.choice([1, 8]))
        found = []
        for way in (plain, lambda *_: None):
            monkeypatch.setattr(
                ParquetSide, "together", lambda *sides, way=way: shared.append(way(*sides)) or shared[-1]
            )
            found.append(outcome(form, shards))
        assert found[0] == found[1], form
    assert any(shared)
