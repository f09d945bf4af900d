"""Other tools, each as its users would run it: ``python peers.py NAME SOURCE TARGET`` prints its counts as JSON.

This file runs in an environment of its own and imports nothing but the tool it names. SOURCE and TARGET are JSON objects
with ``kind``, ``address``, ``table`` and ``key``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Side = dict[str, Any]
RELADIFF_FACTOR, RELADIFF_THRESHOLD = 64, 100_000
"""The best settings found; ``reladiff-defaults`` runs with its own."""


def duckdb_join(source: Side, target: Side) -> dict[str, int]:
    """Full outer join on the key, all other columns by IS DISTINCT FROM."""
    import duckdb

    connection = duckdb.connect()
    relations = [_relation(connection, number, side) for number, side in enumerate((source, target))]
    key = source["key"]
    described = connection.execute(f"DESCRIBE SELECT * FROM {relations[0]}").fetchall()
    values = [row[0] for row in described if row[0] not in key]
    on = " AND ".join(f"s.{name} = t.{name}" for name in key)
    differs = " OR ".join(f"s.{name} IS DISTINCT FROM t.{name}" for name in values)
    row = connection.execute(
        f"SELECT count(*) FILTER (s.{key[0]} IS NULL), count(*) FILTER (t.{key[0]} IS NULL),"
        f" count(*) FILTER (s.{key[0]} IS NOT NULL AND t.{key[0]} IS NOT NULL AND ({differs}))"
        f" FROM {relations[0]} s FULL JOIN {relations[1]} t ON {on}"
    ).fetchone()
    return dict(zip(("added", "dropped", "value_diverged"), row or (0, 0, 0), strict=True))


def _relation(connection: Any, number: int, side: Side) -> str:
    if side["kind"] == "parquet":
        return f"read_parquet('{side['address']}')"
    if side["kind"] == "duckdb":
        connection.execute(f"ATTACH '{side['address'].removeprefix('duckdb:///')}' AS d{number} (READ_ONLY)")
        return f"d{number}.{side['table']}"
    connection.execute("LOAD postgres")
    connection.execute(f"ATTACH '{side['address']}' AS d{number} (TYPE postgres, READ_ONLY)")
    return f"d{number}.public.{side['table']}"


def polars(source: Side, target: Side) -> dict[str, int]:
    """Full join of two lazy scans, streaming."""
    import polars as pl

    key = source["key"]
    scans = [pl.scan_parquet(side["address"]) for side in (source, target)]
    values = [name for name in scans[0].collect_schema().names() if name not in key]
    one = scans[0].with_columns(here=pl.lit(True))
    other = scans[1].with_columns(there=pl.lit(True))
    joined = one.join(other, on=key, how="full", suffix="_t", coalesce=True)
    differs = pl.any_horizontal(*(pl.col(name).ne_missing(pl.col(f"{name}_t")) for name in values))
    both = pl.col("here").is_not_null() & pl.col("there").is_not_null()
    counts = joined.select(
        added=pl.col("here").is_null().sum(),
        dropped=pl.col("there").is_null().sum(),
        value_diverged=(both & differs).sum(),
    ).collect(engine="streaming")
    return {name: int(counts[name][0]) for name in counts.columns}


def datacompy(source: Side, target: Side) -> dict[str, int]:
    """Its Polars comparison over both files in memory."""
    import datacompy as tool
    import polars as pl

    frames = [pl.read_parquet(side["address"]) for side in (source, target)]
    compared = tool.PolarsCompare(frames[0], frames[1], join_columns=source["key"], abs_tol=0, rel_tol=0)
    matched = len(compared.intersect_rows)
    return {
        "added": len(compared.df2_unq_rows),
        "dropped": len(compared.df1_unq_rows),
        "value_diverged": matched - compared.count_matching_rows(),
    }


def reladiff(source: Side, target: Side) -> dict[str, int]:
    """Its checksum bisection, at the best settings found."""
    return _reladiff(source, target, bisection_factor=RELADIFF_FACTOR, bisection_threshold=RELADIFF_THRESHOLD)


def reladiff_defaults(source: Side, target: Side) -> dict[str, int]:
    """Its checksum bisection, as it comes."""
    return _reladiff(source, target)


def _reladiff(source: Side, target: Side, **options: int) -> dict[str, int]:
    import reladiff as tool

    key = tuple(source["key"])
    extra = tuple(source["columns"])
    tables = [
        tool.connect_to_table(side["address"], side["table"], key, extra_columns=extra, thread_count=2)
        for side in (source, target)
    ]
    seen: dict[tuple[Any, ...], str] = {}
    for sign, row in tool.diff_tables(*tables, **options):
        place = tuple(row[: len(key)])
        seen[place] = "value_diverged" if place in seen else {"+": "added", "-": "dropped"}[sign]
    found = list(seen.values())
    return {name: found.count(name) for name in ("added", "dropped", "value_diverged")}


PEERS = {
    "duckdb-join": duckdb_join,
    "polars": polars,
    "datacompy": datacompy,
    "reladiff": reladiff,
    "reladiff-defaults": reladiff_defaults,
}

if __name__ == "__main__":
    print(json.dumps(PEERS[sys.argv[1]](json.loads(sys.argv[2]), json.loads(sys.argv[3]))))
