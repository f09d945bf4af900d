"""Parts of a run held to what they could cost at least: the writing of a manifest, and a sweep beside its reading.

``python -m benchmarks.parts`` prints one table. Each step runs in a process of its own and tells its CPU seconds
(children included) and its peak memory; what it only needs as input is not counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.data import Shape, chunks
from benchmarks.measure import ROOT

CHANGED_RATE = 0.01
BATCH_LINES = 10_000


def cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def make_records(folder: Path, rows: int) -> None:
    """Write a raw comparison of ``rows`` records, and the same records as lines."""
    from airflow_delta_provider.core.arrays import binary_list, int64_array
    from airflow_delta_provider.core.keyvec import encode_keys
    from airflow_delta_provider.core.rawcompare import RawWriter, raw_batch
    from airflow_delta_provider.core.types import LogicalType

    whole = LogicalType("int")
    with (folder / "raw").open("wb") as file:
        writer = RawWriter(file, shared_documents().identity, (None, None))
        for start in range(0, rows, BATCH_LINES):
            numbers = range(start, min(start + BATCH_LINES, rows))
            keys = encode_keys([int64_array(numbers)], [whole], [whole])
            texts = [f'["{number * 7}.25","name {number}","2024-01-02T03:04:05Z"]'.encode() for number in numbers]
            other = binary_list([text.replace(b"name", b"Name") for text in texts])
            names = binary_list([b'["amount","name","seen_at"]'] * len(texts))
            writer.add(raw_batch(keys, "value_diverged", names, binary_list(texts), other, None, None))
        side = {"duplicate_key": 0, "null_key": 0, "rows": rows, "skipped": 0}
        population = {"source": side, "target": side, "unchanged": 0}
        writer.close({"population": population, "diverged": [rows] * 3, "rules": [[]] * 3, "key_rules": [[]]})


def write_manifest(folder: Path) -> float:
    """Build the manifest and its body from the raw comparison; return CPU seconds."""
    from airflow_delta_provider.core.submanifest import build_sub_manifest

    shared, started = shared_documents(), cpu_s()
    with (folder / "raw").open("rb") as raw, (folder / "body.jsonl").open("wb") as body:
        build_sub_manifest(raw, shared, body)
    return cpu_s() - started


def write_plain(folder: Path) -> float:
    """Write the same records with ``json`` and hash the file with ``sha256sum``; return CPU seconds."""
    spent = 0.0
    with (folder / "body.jsonl").open("rb") as body, (folder / "plain.jsonl").open("w", encoding="utf-8") as out:
        for records in _records(body):
            started = cpu_s()
            for record in records:
                out.write(json.dumps(record, separators=(",", ":"), sort_keys=True))
                out.write("\n")
            spent += cpu_s() - started
    started = cpu_s()
    subprocess.run(["sha256sum", folder / "plain.jsonl"], check=True, stdout=subprocess.DEVNULL)
    return spent + cpu_s() - started


def make_tables(folder: Path, rows: int) -> None:
    """Write two SQLite files; in the second one a share of the rows differ, are gone or new."""
    for name, rate in (("first", 0.0), ("second", CHANGED_RATE)):
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection, connection:
            connection.execute(
                "CREATE TABLE t (id integer PRIMARY KEY NOT NULL, a integer, b integer, c text, d double, e text,"
                " f text, g text, h text, i boolean)"
            )
            for _, target, _ in chunks(Shape(rows, rate=rate)):
                columns = [[_plain(value) for value in column.to_pylist()] for column in target.columns]
                marks = ", ".join("?" * len(columns))
                connection.executemany(f"INSERT INTO t VALUES ({marks})", zip(*columns, strict=True))


def sweep_first(folder: Path) -> float:
    """Sweep the first table, which leaves the predecessor of the next sweep; return CPU seconds."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    return _sweep(folder, "first")


def sweep_next(folder: Path) -> float:
    """Sweep the changed table against the first one's generation; return CPU seconds."""
    return _sweep(folder, "second")


def read_alone(folder: Path) -> float:
    """Read the changed table as a sweep reads it and forget the rows; return CPU seconds."""
    from airflow_delta_provider.adapters.open import open_side
    from airflow_delta_provider.core.plan import KeyRange
    from airflow_delta_provider.engine.sweep_open import open_sweep

    spec, store = _sweep_of(folder, "second")
    started = cpu_s()
    with open_sweep(spec, store, open_side) as opened:
        for _ in opened.target.read(opened.request("target", KeyRange(None, None), ordered=True)):
            pass
    return cpu_s() - started


STEPS = {
    "make-records": make_records, "manifest": write_manifest, "plain": write_plain, "make-tables": make_tables,
    "sweep-first": sweep_first, "sweep-next": sweep_next, "read": read_alone,
}  # fmt: skip
COMPARED = (
    ("manifest from records", "manifest", "the same records by json, then sha256sum", "plain"),
    ("first sweep, SQLite", "sweep-first", "the side read alone", "read"),
    ("next sweep, 1 % changed, SQLite", "sweep-next", "the side read alone", "read"),
)
"""What is held to what."""


def _sweep(folder: Path, name: str) -> float:
    from airflow_delta_provider.adapters.open import open_side
    from airflow_delta_provider.engine.sweep import sweep

    spec, store = _sweep_of(folder, name)
    started = cpu_s()
    sweep(spec, store, open_side)
    return cpu_s() - started


def _sweep_of(folder: Path, name: str) -> tuple[Any, Any]:
    from airflow_delta_provider.core.spec import parse_spec
    from airflow_delta_provider.core.store.local import LocalStore

    shutil.copyfile(folder / f"{name}.sqlite", folder / "now.sqlite")
    form = {"name": "swept", "key": ["id"], "target": {"uri": f"sqlite:///{folder}/now.sqlite", "table": "t"}}
    return parse_spec(form, sweep=True), LocalStore(folder / "store")


def shared_documents() -> Any:
    """Return the documents of a pair with a whole number as key and three columns."""
    from airflow_delta_provider.core import documents
    from airflow_delta_provider.core.submanifest import shared_of
    from airflow_delta_provider.core.types import LogicalType

    columns = [("amount", "decimal"), ("name", "text"), ("seen_at", "timestamp_tz")]
    contract = {
        "columns": {"exclude": [], "map": [], "names": "exact"}, "csv": None, "detail": "values",
        "filter": {"source": None, "target": None}, "keys": {"duplicates": "refuse", "nulls": "refuse"},
        "rules": [], "sensitive": [], "version": "bench@1",
    }  # fmt: skip
    typed = [(name, LogicalType(kind)) for name, kind in columns]
    return shared_of(
        documents.build_schema("bench@1", [("id", LogicalType("int"))], typed, 65_536),
        documents.build_contract(contract),
        documents.build_structure([]),
        {"name": "bench", "source": "one", "target": "other"},
    )


def _records(body: Any) -> Iterator[list[Any]]:
    held: list[Any] = []
    for line in body:
        held.append(json.loads(line))
        if len(held) == BATCH_LINES:
            yield held
            held = []
    yield held


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _run(step: str, folder: Path, *more: str) -> tuple[float, float]:
    """Return CPU seconds and peak MB of one step in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.parts", "--step", step, "--folder", str(folder), *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{step} failed: {done.stderr[-400:]}")
    form = json.loads(done.stdout)
    return form["cpu_s"], form["peak_mb"]


def table(rows: int, runs: int) -> str:
    """Measure everything ``runs`` times, turn by turn, and return a Markdown table of medians."""
    with tempfile.TemporaryDirectory(prefix="delta-parts-") as name:
        folder = Path(name)
        for step in ("make-records", "make-tables"):
            _run(step, folder, "--rows", str(rows))
        steps = list(dict.fromkeys(step for _, one, _, other in COMPARED for step in (one, other)))
        found: dict[str, list[tuple[float, float]]] = {step: [] for step in steps}
        for _ in range(runs):
            for step in steps:
                found[step].append(_run(step, folder))
    lines = ["| what | CPU s | MB | beside | CPU s | x |", "| --- | --- | --- | --- | --- | --- |"]
    for what, one, beside, other in COMPARED:
        mine, least = (statistics.median(cpu for cpu, _ in found[step]) for step in (one, other))
        peak = max(peak for _, peak in found[one])
        lines.append(f"| {what} | {mine:.2f} | {peak:.0f} | {beside} | {least:.2f} | {mine / max(least, 1e-9):.2f} |")
    return "\n".join([f"{rows:,} records and rows, medians of {runs} runs.", "", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or run one step and print what it took as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parts", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--step", choices=sorted(STEPS))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(argv)
    if options.step is None:
        print(table(options.rows, options.runs))
        return 0
    from airflow_delta_provider.engine.light import keep_pandas_out

    keep_pandas_out()
    more = (options.rows,) if options.step.startswith("make-") else ()
    taken = STEPS[options.step](options.folder, *more) or 0.0
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu_s": taken, "peak_mb": peak_mb}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
