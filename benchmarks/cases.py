"""What is measured: pairs of tables, and for each pair the product, the limit and the other tools that can read it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import load
from benchmarks.data import Counts, Shape
from benchmarks.load import Place

READING = (sys.executable, "-m", "benchmarks.limits")
START_ROWS = 10_000
WIDE_COLUMNS = 200
WIDE_SHARE = 20
"""A table of 200 columns has so many times fewer rows, so that it has about as many values."""
FULL_PEERS = {
    "parquet": ("duckdb-join", "polars", "datacompy"),
    "postgresql": ("duckdb-join", "reladiff", "reladiff-defaults"),
    "mysql": ("reladiff",),
    "duckdb": ("duckdb-join",),
}
"""Other tools for a pair of one kind with whole-number keys."""


@dataclass(frozen=True)
class Case:
    """One pair. ``limits``: commands whose slowest is the limit; ``peers``: names of tools; ``strategies``: those of the
    product beside its own choice; ``beside``: other commands that are shown.
    """

    name: str
    source: Place
    target: Place
    rows: int
    counts: Counts
    values: tuple[str, ...]
    limits: dict[str, list[str]]
    peers: tuple[str, ...] = ()
    sessions: tuple[int, ...] = ()
    strategies: tuple[str, ...] = ()
    beside: dict[str, list[str]] = field(default_factory=dict)

    def specification(self, strategy: str = "auto") -> str:
        """Return the specification of the product's run; JSON is YAML."""
        sides = {"source": self.source.side, "target": self.target.side}
        form: dict[str, Any] = {"name": "benchmark", "key": list(self.source.key), "strategy": strategy, **sides}
        if (self.source.kind, self.target.kind) == ("postgresql", "mysql"):  # whose booleans are numbers
            form["rules"] = {"i": [{"read_as": {"type": "int", "side": "source"}}]}
        return json.dumps(form)

    def peer_arguments(self) -> list[str]:
        """Return both sides as peers.py takes them."""
        return [_described(place, list(self.values)) for place in (self.source, self.target)]


@dataclass
class Bench:
    """Makes cases in a folder, from files and servers that exist as long as it does.

    ``servers``: running servers by kind. ``only``: a case is made where this accepts its name.
    """

    folder: Path
    rows: int
    servers: dict[str, Any]
    only: Callable[[str], bool]
    peers: bool = True
    files: dict[str, tuple[dict[str, Path], Counts]] = field(default_factory=dict)

    def cases(self, *, whole: bool) -> list[Callable[[], Case | None]]:
        """Return what makes each case, in the order of the report; ``whole`` adds keys, widths and more rates."""
        rates = (0.0, 0.001, 0.05, 0.5) if whole else (0.0, 0.001)
        keys = ("skewed", "uuid", "text", "composite") if whole else ("composite",)
        kinds = ("parquet", "postgresql", "mysql", "duckdb")
        plans: list[tuple[str, str, Shape]] = []
        for kind in kinds:
            plans += [(kind, kind, Shape(self.rows, rate=rate)) for rate in rates]
            plans += [(kind, kind, Shape(self.rows, key)) for key in keys if (kind, key) != ("mysql", "uuid")]
        plans += [("postgresql", kind, Shape(self.rows)) for kind in ("mysql", "duckdb", "parquet")]
        plans.append(("parquet", "parquet", Shape(self.rows // WIDE_SHARE, columns=WIDE_COLUMNS)))
        plans.append(("parquet", "parquet", Shape(START_ROWS)))
        return [lambda plan=plan: self._case(*plan) for plan in plans]

    def _case(self, source: str, target: str, shape: Shape) -> Case | None:
        pair = f"{source} pair" if source == target else f"{source} to {target}"
        wide = f", {shape.columns} columns" if shape.columns > WIDE_COLUMNS // 2 else ""
        name = f"{pair}, {shape.rows:,} rows, {shape.key} key{wide}, {shape.rate:.1%} different"
        missing = {source, target} & {"postgresql", "mysql"} - set(self.servers)
        if not self.only(name) or missing:
            return None
        paths, counts = self._files(shape)
        places = [
            self._place(kind, paths[side], shape, side) for kind, side in ((source, "source"), (target, "target"))
        ]
        sessions = tuple({place.session for place in places if place.session is not None})
        names = pq.read_schema(paths["source"]).names
        values = tuple(name for name in names if name not in shape.key_columns)
        peers = FULL_PEERS[source] if source == target and self.peers and shape.key == "dense" else ()
        if shape.key != "dense" and source == target and self.peers:
            peers = tuple(peer for peer in FULL_PEERS[source] if peer == "duckdb-join")
        made = Case(name, places[0], places[1], shape.rows, counts, values, _limits(places), peers, sessions)
        if (source, target, shape.key) != ("postgresql", "postgresql", "dense"):
            return made
        hashing = [*READING, *(_described(place, options={"hashed": True}) for place in places)]
        return replace(made, strategies=("fast",), beside={"one hash of all rows a side": hashing})

    def _files(self, shape: Shape) -> tuple[dict[str, Path], Counts]:
        name = f"{shape.rows}-{shape.key}-{shape.rate}-{shape.columns}"
        if name not in self.files:
            self.files[name] = load.write_parquet(shape, self.folder, name)
        return self.files[name]

    def _place(self, kind: str, path: Path, shape: Shape, side: str) -> Place:
        table = f"t_{shape.key}_{side}"
        if kind == "postgresql":
            return load.to_postgresql(path, self.servers[kind], table, shape.key_columns)
        if kind == "mysql":
            return load.to_mariadb(path, self.servers[kind], table, shape.key_columns)
        if kind == "duckdb":
            path.with_suffix(".duckdb").unlink(missing_ok=True)
            return load.to_duckdb(path, table, shape.key_columns)
        return Place("parquet", str(path), "", shape.key_columns)


def _limits(places: list[Place]) -> dict[str, list[str]]:
    """Return the command that reads both sides at once, or for two kinds one command for each side in key order."""
    if places[0].kind == places[1].kind:
        return {f"both sides read, {places[0].kind}": [*READING, *(_described(place) for place in places)]}
    ordered = {"ordered": True}
    return {
        f"{place.kind} read in key order": [
            *READING,
            _described(place, options=ordered if place.kind == "postgresql" else None),
        ]
        for place in places
    }


def _described(place: Place, columns: list[str] | None = None, *, options: dict[str, bool] | None = None) -> str:
    form: dict[str, Any] = {
        "kind": place.kind,
        "address": place.address,
        "table": place.table,
        "key": list(place.key),
        "columns": columns or [],
    }
    if options:
        form["options"] = options
    return json.dumps(form)
