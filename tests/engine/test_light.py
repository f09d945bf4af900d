"""A run on the command line loads no pandas, whatever else it loads."""

import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

SCRIPT = """
import sys
from airflow_delta_provider.cli import entry_point
sys.argv = ["airflow-delta", "run", sys.argv[1], "--store", sys.argv[2], "--workers", "2", "--shards", "2"]
try:
    entry_point()
finally:
    print([name for name in ("pandas", "duckdb") if name in sys.modules])
"""


def run(tmp_path, spec):
    """Run a specification in a process of its own; return its exit code and the last line it prints."""
    (tmp_path / "spec.yaml").write_text(spec)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "spec.yaml"), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout.splitlines()[-1:], done.stderr


def test_a_run_of_files_loads_neither_pandas_nor_duckdb(tmp_path):
    """Pandas alone takes longer to import than ten thousand rows to compare; pyarrow asks for it at every Python list."""
    pq.write_table(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), tmp_path / "one.parquet")
    spec = f"name: t\nkey: [id]\nsource: {{path: {tmp_path}/one.parquet}}\ntarget: {{path: {tmp_path}/one.parquet}}\n"
    assert run(tmp_path, spec) == (0, ["[]"], "")


def test_duckdb_reads_where_pandas_cannot_be_found(tmp_path):
    """DuckDB looks for pandas too, and must take no for an answer; filters of files run in it."""
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT 1::BIGINT AS id, 'a' AS v UNION ALL SELECT 2, 'x'")
    pq.write_table(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), tmp_path / "one.parquet")
    spec = f"""
name: t
key: [id]
filter: v <> 'c'
source: {{path: {tmp_path}/one.parquet}}
target: {{uri: "duckdb:///{tmp_path}/d.duckdb", table: t}}
"""
    code, lines, errors = run(tmp_path, spec)
    assert (code, lines, errors) == (1, ["['duckdb']"], "")
