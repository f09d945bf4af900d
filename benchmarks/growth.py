"""``python -m benchmarks.growth``: how time and memory grow with rows, with differences and with columns.

Each pair of Parquet files is made, compared once by the whole command beside the mere decoding of both files, and
removed again before the next one is made; ``--folder`` keeps them there for the next time. ``--write`` puts the table
into docs/performance.md.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import load, measure, report
from benchmarks.data import Counts, Shape
from benchmarks.machine import machine_line
from benchmarks.measure import ROOT, Measure

ROWS = (1_000_000, 5_000_000, 20_000_000, 100_000_000)
RATES = (0.0, 0.001, 0.05, 0.5)
KEYS = ("dense", "skewed")
WIDE_ROWS = (1_000_000, 5_000_000)
WIDE_COLUMNS = 199
RECORDS_MAX = 10_000_000
"""More records than that take more disk than a machine for trials has; their time is on paper."""
PAGE = ROOT / "docs" / "performance.md"
HEAD = ("rows", "key", "columns", "different", "records", "wall s", "x decoding", "CPU us a row", "MB", "manifest MB")


@dataclass(frozen=True)
class Grown:
    """One pair, compared. ``store_mb``: what the run published, in MB of 2**20 bytes."""

    shape: Shape
    records: int
    product: Measure
    limit: Measure
    store_mb: float

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table; a row of the data is one of either file."""
        return (
            f"{self.shape.rows:,}",
            self.shape.key,
            str(self.shape.columns + 1),
            f"{self.shape.rate:.1%}",
            f"{self.records:,}",
            f"{self.product.wall_s:.1f}",
            f"{self.product.wall_s / self.limit.wall_s:.2f}",
            f"{self.product.cpu_s / (2 * self.shape.rows) * 1e6:.2f}",
            f"{self.product.peak_mb:.0f}",
            f"{self.store_mb:.0f}",
        )


def shapes(options: argparse.Namespace) -> Iterator[Shape]:
    """Yield the pairs that were asked for, small ones first."""
    for rows, key, rate in itertools.product(options.rows, options.keys, options.rates):
        if 2 * rate * rows <= RECORDS_MAX:
            yield Shape(rows, key, rate=rate)
    for rows, rate in itertools.product(options.wide_rows, options.rates):
        if rate <= 0.001:
            yield Shape(rows, rate=rate, columns=WIDE_COLUMNS)


def made(shape: Shape, folder: Path) -> tuple[dict[str, Path], Counts]:
    """Return both files of a pair and what a right answer says, made now or at an earlier time."""
    name = f"{shape.rows}-{shape.key}-{shape.rate}-{shape.columns}"
    known = folder / f"{name}.json"
    if known.exists():
        return {side: folder / f"{name}-{side}.parquet" for side in load.SIDES}, Counts(**json.loads(known.read_text()))
    paths, counts = load.write_parquet(shape, folder, name)
    known.write_text(json.dumps(asdict(counts)))
    return paths, counts


def grown(shape: Shape, folder: Path, *, keep: bool) -> Grown:
    """Compare one pair. Raises: ValueError where the answer is wrong or a command fails."""
    paths, counts = made(shape, folder)
    sides = {name: {"path": str(path)} for name, path in paths.items()}
    spec, store = folder / "spec.yaml", folder / "store"
    spec.write_text(json.dumps({"name": "growth", "key": list(shape.key_columns), **sides}))
    forms = [
        json.dumps({"kind": "parquet", "address": str(path), "table": "", "key": [], "columns": []})
        for path in paths.values()
    ]
    try:
        limit = measure.run([sys.executable, "-m", "benchmarks.limits", *forms])
        product = measure.run([*measure.PRODUCT, "run", str(spec), "--store", str(store), "--json"], ends=(0, 1))
        said = report.answer(counts, product)
        if said != "right" or limit.failed:
            raise ValueError(f"{shape}: {said} {limit.failed}")
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        return Grown(shape, counts.added + counts.dropped + counts.value_diverged, product, limit, size / 2**20)
    finally:
        shutil.rmtree(store, ignore_errors=True)
        for path in () if keep else folder.iterdir():
            path.unlink()


def page(found: Sequence[Grown], date: datetime.date, machine: str) -> str:
    """Return the table as Markdown."""
    lines = [f"`python -m benchmarks.growth`, {date.isoformat()}, one run each. Machine: {machine}.", ""]
    lines += [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    return "\n".join(lines + [f"| {' | '.join(one.cells())} |" for one in found]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Measure all pairs that were asked for. Exit: 0, or 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    parser.add_argument("--keys", nargs="*", choices=("dense", "skewed"), default=KEYS)
    parser.add_argument("--wide-rows", type=int, nargs="*", default=WIDE_ROWS)
    parser.add_argument("--folder", type=Path, help="where pairs are kept, and found again")
    parser.add_argument("--make", action="store_true", help="make the pairs and measure nothing")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    options = parser.parse_args(argv)
    line, found = machine_line(), []
    with tempfile.TemporaryDirectory(prefix="delta-growth-") as passing:
        folder = options.folder or Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        for shape in shapes(options):
            if options.make:
                made(shape, folder)
                continue
            found.append(grown(shape, folder, keep=options.folder is not None))
            print("  ".join(found[-1].cells()), flush=True)
    if options.write:
        text = page(found, datetime.datetime.now(datetime.UTC).date(), line)
        report.write(PAGE, text, marks=report.GROWTH_MARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
