"""The benchmarks run, and every answer in them is right; no time is held to anything."""

import subprocess
import sys
from pathlib import Path

import pytest
import servers

ROOT = Path(__file__).resolve().parents[2]


def bench(*options):
    """Run the benchmarks over small tables; return exit code and output."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--rows", "3000", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_quick_form_measures_files_and_finds_what_was_damaged():
    """A benchmark of wrong answers measures nothing, and one that does not run is found on the day it is needed."""
    code, text = bench("--only", "parquet pair")
    assert code == 0, text
    assert "parquet pair, 3,000 rows, composite key, 0.1% different" in text
    assert "5 cases, 0 wrong or failed" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "server"),
    [("postgresql pair", "postgresql"), ("mysql pair", "mariadb"), ("postgresql to mysql", "mariadb")],
)
def test_the_quick_form_measures_databases(name, server):
    """Tables are loaded, read by the product and by the limit, and both servers are gone afterwards."""
    servers.require("postgresql")
    servers.require(server)
    code, text = bench("--only", name)
    assert code == 0, text
    assert " 0 wrong or failed" in text


@pytest.mark.slow
def test_the_parts_are_measured_beside_what_they_could_cost_at_least():
    """The writing of a manifest is held to json and sha256sum, a sweep to the reading of its side."""
    command = [sys.executable, "-m", "benchmarks.parts", "--rows", "2000", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == [
        "| manifest from records",
        "| first sweep, SQLite",
        "| next sweep, 1 % changed, SQLite",
    ]
    assert all(float(row[1]) > 0 and float(row[4]) > 0 for row in rows)


@pytest.mark.slow
def test_growth_is_measured_and_pairs_are_kept_where_a_folder_is_given(tmp_path):
    """A pair that is made anew for each look at it takes longer than the look."""
    command = [sys.executable, "-m", "benchmarks.growth", "--rows", "2000", "--rates", "0.05", "--keys", "skewed",
               "--wide-rows", "--folder", str(tmp_path)]  # fmt: skip
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[:5] == ["2,000", "skewed", "10", "5.0%", "221"]
    names = {path.name for path in tmp_path.glob("2000-*")}
    assert names == {f"2000-skewed-0.05-9{end}" for end in (".json", "-source.parquet", "-target.parquet")}


def test_the_damage_that_is_counted_is_the_damage_that_is_done():
    """The counts that every answer is held to are taken from the generator: they are checked by hand once."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.data import Shape, chunks

    ((source, target, counts),) = chunks(Shape(1000, rate=0.1))
    here, there = source["id"].to_pylist(), target["id"].to_pylist()
    mine = dict(zip(here, source["b"].to_pylist(), strict=True))
    other = dict(zip(there, target["b"].to_pylist(), strict=True))
    assert len(set(there) - set(here)) == counts.added > 30
    assert len(set(here) - set(there)) == counts.dropped > 30
    assert sum(mine[key] != other[key] for key in mine.keys() & other.keys()) == counts.value_diverged > 60


@pytest.mark.parametrize("key", ["dense", "skewed", "uuid", "text", "composite"])
def test_tables_are_made_in_key_order(key):
    """A file out of order would be sorted first, and the numbers would be those of the sorter."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.data import CHUNK_ROWS, Shape, chunks

    shape = Shape(CHUNK_ROWS + 2000, key)
    keys = []
    for source, _, _ in chunks(shape):
        columns = [source[name].combine_chunks() for name in shape.key_columns]
        columns = [column.storage if hasattr(column, "storage") else column for column in columns]
        ends = [*range(2000), *range(len(source) - 1000, len(source))] if len(source) > 3000 else range(len(source))
        keys += [tuple(column[row].as_py() for column in columns) for row in ends]
    assert keys == sorted(set(keys))


@pytest.mark.slow
def test_the_pages_answer_what_the_benchmark_asks():
    """Each view must say what it was asked for; how long it took is not held to anything here."""
    command = [sys.executable, "-m", "benchmarks.page", "--records", "3000", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    assert "3,000 records. The process held" in done.stdout
    assert "| column, one record at the end |" in done.stdout
