"""Procedures of the handed cases about whole runs: memory, lost connections, signals, live tables, limits."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cases import runner
from cases.procedures import records, spec, sqlite_file, write_spec

MEMORY_BYTES_MAX = 512 * 1024 * 1024
END_S = 10


def peak_bytes(arguments: list[str]) -> tuple[int, runner.Answer]:
    """Run the command line in a process of its own; return the most memory that it held, and its answer."""
    script = (
        "import pathlib, re, resource, sys\n"
        "from airflow_delta_provider.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "peak = int(re.search(r'VmHWM:\\s*(\\d+) kB', status)[1])\n"  # ru_maxrss counts what the parent held
        "children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "sys.stderr.write(f'\\npeak {max(peak, children) * 1024}\\n')\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=900, check=False
    )
    return int(done.stderr.rsplit("peak ", 1)[1]), runner.Answer(done.returncode, json.loads(done.stdout), done.stderr)


def series_table(engine: str, place: Any, table: str, rows: int, other: int) -> dict[str, Any]:
    """Fill a table of about 200 bytes a row; ``other`` makes all values differ from those of another number."""
    value = f"repeat(md5((i + {other})::text), 6)"
    made = f"SELECT i AS id, {value} AS v FROM generate_series(1, {rows}) AS s(i)"
    if engine == "postgresql":
        uri, connection = place
        connection.execute(f"CREATE TABLE {table} AS {made}")
        connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
        return {"uri": uri, "table": f"public.{table}"}
    if engine == "mysql":
        uri, cursor = place
        cursor.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, v varchar(200))")
        cursor.execute(f"INSERT INTO {table} SELECT seq, repeat(md5(seq + {other}), 6) FROM seq_1_to_{rows}")
        return {"uri": uri, "table": f"{urlsplit(uri).path[1:]}.{table}"}
    import duckdb

    path = place / f"{table}.duckdb"
    with duckdb.connect(str(path), config={"threads": 1, "memory_limit": "400MB"}) as connection:
        connection.execute(f"CREATE TABLE {table} AS {made.replace('AS s(i)', 'AS s(i)')}")
    return {"uri": f"duckdb:///{path}", "table": table}


def _place(engine: str, request: pytest.FixtureRequest, folder: Path) -> Any:
    return folder if engine == "duckdb" else request.getfixturevalue(engine)


@pytest.mark.parametrize("differ", [False, True], ids=["equal", "every row differs"])
@pytest.mark.parametrize("engine", ["postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize("rows", [30_000, pytest.param(2_000_000, marks=pytest.mark.nightly)])
def test_rc_231_large_tables_are_streamed(rows, engine, differ, request, tmp_path):
    """rc-231 and rc-277: neither a plain driver nor a columnar one is let to hold a whole result."""
    place = _place(engine, request, tmp_path)
    name = f"big_{rows}_{differ}".lower()
    source = series_table(engine, place, f"{name}_s", rows, 0)
    target = series_table(engine, place, f"{name}_t", rows, 10**7 if differ else 0)
    form = spec(source, target, limits={"max_discrepancies": 3_000_000})
    arguments = ["run", str(write_spec(form, tmp_path)), "--store", str(tmp_path / "store"), "--workers", "1", "--json"]
    peak, answer = peak_bytes(arguments)
    assert answer.code == (1 if differ else 0), answer.output
    assert answer.output["categories"]["value_diverged"] == (rows if differ else 0), answer.output
    assert peak < MEMORY_BYTES_MAX


@pytest.mark.parametrize("engine", ["postgresql", "sqlite", pytest.param("mysql", marks=pytest.mark.nightly)])
def test_rc_232_wide_rows_are_read_within_the_memory(engine, request, tmp_path):
    """50 rows of 8 MiB: a batch is bounded by its bytes as well."""
    sides = [wide_table(engine, name, last, request, tmp_path) for name, last in (("wide_s", "a"), ("wide_t", "b"))]
    path = write_spec(spec(*sides), tmp_path)
    peak, answer = peak_bytes(["run", str(path), "--store", str(tmp_path / "store"), "--workers", "1", "--json"])
    assert (answer.code, answer.output["categories"]["value_diverged"]) == (1, 1), answer.output
    assert peak < MEMORY_BYTES_MAX


def wide_table(engine: str, name: str, last: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """Fill a table of 50 rows with 8 MiB of text each, of which the last one ends in ``last``."""
    if engine == "sqlite":
        made = (
            "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 50) INSERT INTO wide"
            f" SELECT i, replace(hex(zeroblob(4194304)), '00', printf('%02d', i)) || iif(i = 50, '{last}', 'x') FROM s"
        )
        path = folder / f"{name}.db"
        return sqlite_file(path, "CREATE TABLE wide (id integer PRIMARY KEY, v text)", made) | {"table": "wide"}
    uri, execute = request.getfixturevalue(engine)
    if engine == "mysql":
        execute.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, v longtext)")
        value = f"concat(repeat(md5(seq), 262144), if(seq = 50, '{last}', 'x'))"
        execute.execute(f"INSERT INTO {name} SELECT seq, {value} FROM seq_1_to_50")
        return {"uri": uri, "table": f"{urlsplit(uri).path[1:]}.{name}"}
    value = f"repeat(md5(i::text), 262144) || CASE WHEN i = 50 THEN '{last}' ELSE 'x' END"
    execute.execute(f"CREATE TABLE {name} AS SELECT i AS id, {value} AS v FROM generate_series(1, 50) AS s(i)")
    return {"uri": uri, "table": f"public.{name}"}


@pytest.mark.parametrize(("which", "after_rows"), [("source", 15), ("target", 15), ("source", 29), ("target", 29)])
def test_rc_238_a_connection_that_drops_gives_no_manifest(which, after_rows, postgresql, tmp_path):
    """What was not read is neither dropped nor added: the run fails and names the side."""
    from proxy import proxied

    uri, connection = postgresql
    row_bytes = 100_000
    connection.execute("CREATE TABLE IF NOT EXISTS line (id integer PRIMARY KEY, v integer, pad text)")
    connection.execute("TRUNCATE line")
    connection.execute(f"INSERT INTO line SELECT i, i, repeat('x', {row_bytes}) FROM generate_series(1, 30) AS s(i)")
    parts = urlsplit(uri)
    with proxied(parts.port or 5432) as proxy:
        proxy.fault, proxy.after_bytes = "drop", after_rows * row_bytes
        through = f"{parts.scheme}://{parts.username}:{parts.password}@127.0.0.1:{proxy.port}{parts.path}"
        sides = [{"uri": uri, "table": "public.line"}, {"uri": uri, "table": "public.line"}]
        sides[("source", "target").index(which)]["uri"] = through
        answer, shown = runner.run_case(spec(*sides), tmp_path)
    assert not shown
    assert answer.code not in (0, 1)
    assert which in f"{answer.output['error']['message']} {answer.output['error']['where']}"
    assert not list((tmp_path / "store").glob("pairs/*/log/*"))


def _command(form: dict[str, Any], folder: Path) -> list[str]:
    program = str(Path(sys.executable).with_name("airflow-delta"))
    return [program, "run", str(write_spec(form, folder)), "--store", str(folder / "store"), "--workers", "1", "--json"]


def _open_connections(connection: Any) -> int:
    counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return int(connection.execute(counted).fetchone()[0])


@pytest.mark.parametrize("end", ["success", "failure", "SIGTERM"])
def test_rc_239_the_process_ends(end, postgresql, tmp_path):
    """No thread that stays alive keeps the process, and no connection stays open on the server."""
    uri, connection = postgresql
    connection.execute("CREATE OR REPLACE FUNCTION slow(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN"
                       " PERFORM pg_sleep(0.05); RETURN i; END $$")  # fmt: skip
    failing = "SELECT i AS id, 1 / (60 - i) AS v FROM generate_series(1, 60) AS s(i)"
    slow = "SELECT slow(i) AS id, i AS v FROM generate_series(1, 4000) AS s(i)"
    quick = "SELECT i AS id, i AS v FROM generate_series(1, 60) AS s(i)"
    query = {"success": quick, "failure": failing, "SIGTERM": slow}[end]
    sides = [{"uri": uri, "query": query}, {"uri": uri, "query": quick if end != "SIGTERM" else slow}]
    before = _open_connections(connection)
    process = subprocess.Popen(_command(spec(*sides), tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if end == "SIGTERM":
            limit = time.monotonic() + 60
            while _open_connections(connection) <= before and time.monotonic() < limit:
                time.sleep(0.05)
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S if end == "SIGTERM" else 60)
    finally:
        process.kill()
        process.wait()
    assert {"success": process.returncode == 0, "failure": process.returncode in (2, 3)}.get(
        end, process.returncode != 0
    )
    limit = time.monotonic() + END_S
    while _open_connections(connection) > before and time.monotonic() < limit:
        time.sleep(0.1)
    assert _open_connections(connection) <= before


def test_rc_240_a_changed_option_reuses_nothing(tmp_path, monkeypatch):
    """A run that was interrupted after two of four shards, run again as it was and with other rules."""
    from airflow_delta_provider.engine import recheck

    rows = ", ".join(f"({number}, {number})" for number in range(1, 21))
    other = ", ".join(f"({number}, {0 if number in (3, 13) else number})" for number in range(1, 21))
    sides = [sqlite_file(tmp_path / f"{name}.db", "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
             f"INSERT INTO t VALUES {values}") | {"table": "t"} for name, values in (("s", rows), ("t", other))]  # fmt: skip
    form = spec(*sides, shards={"bounds": [[6], [11], [16]]})
    plain, calls = recheck.compare_shard, iter(range(100))

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return plain(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(recheck, "compare_shard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runner.run_case(form, tmp_path / "run")
    again, shown = runner.run_case(form, tmp_path / "run")
    clean, _ = runner.run_case(form, tmp_path / "clean")
    assert again.output["manifest"] == clean.output["manifest"]
    assert records(shown) == [("value_diverged", ["3"]), ("value_diverged", ["13"])]
    with_rule = form | {"rules": {"v": [{"tolerance": {"abs": "5"}}]}}
    _, tolerant = runner.run_case(with_rule, tmp_path / "run")
    assert records(tolerant) == [("value_diverged", ["13"])]


def test_rc_241_moving_keys_are_seen_once(postgresql, tmp_path):
    """A writer moves keys in both tables while the run reads them; looked at again, nothing is left of it."""
    import psycopg

    uri, connection = postgresql
    for table in ("live_s", "live_t"):
        connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, v integer)")
        connection.execute(f"INSERT INTO {table} SELECT i, i FROM generate_series(1, 1000) AS s(i)")
    over = threading.Event()

    def write() -> None:
        with psycopg.connect(uri) as writer:
            for number in range(200):
                for table in ("live_s", "live_t"):
                    writer.execute(f"UPDATE {table} SET v = {number} WHERE id = {number % 900 + 20}")
                    writer.execute(
                        f"UPDATE {table} SET id = CASE WHEN id = 5 THEN 9000 ELSE 5 END WHERE id IN (5, 9000)"
                    )
                    writer.execute(f"DELETE FROM {table} WHERE id = {number + 400}")
                    writer.execute(f"INSERT INTO {table} VALUES ({number + 5000}, 1)")
                    writer.commit()
        over.set()

    form = spec(
        {"uri": uri, "table": "public.live_s"},
        {"uri": uri, "table": "public.live_t"},
        shards={"count": 4},
        recheck={"attempts": 5, "delay": "PT1S"},
    )
    thread = threading.Thread(target=write)
    thread.start()
    try:
        answer, shown = runner.run_case(form, tmp_path)
        moved = [key for _, key in records(shown)].count(["9000"]) + [key for _, key in records(shown)].count(["5"])
        assert moved <= 1, "a key that moved is seen once on each side"
    finally:
        thread.join()
    assert over.is_set()
    answer, shown = runner.run_case(form, tmp_path / "after")
    assert (answer.code, shown["records"]) == (0, [])


def test_rc_244_a_limit_that_is_reached_publishes_nothing(tmp_path):
    """There are no first ten differences passed off as a result."""
    sides = []
    for name, sign in (("s", 1), ("t", -1)):
        rows = ", ".join(f"({number}, {sign * number})" for number in range(1, 101))
        made = "CREATE TABLE t (id integer PRIMARY KEY, v integer)", f"INSERT INTO t VALUES {rows}"
        sides.append(sqlite_file(tmp_path / f"{name}.db", *made) | {"table": "t"})
    answer, shown = runner.run_case(spec(*sides, limits={"max_discrepancies": 10}), tmp_path)
    assert not shown
    assert (answer.code, answer.output["error"]["code"]) == (2, "DELTA_RECORD_LIMIT")
    numbers = [int(number) for number in re.findall(r"\d+", answer.output["error"]["message"])]
    assert 10 in numbers
    assert any(10 < number <= 100 for number in numbers)
    assert not list((tmp_path / "store").glob("pairs/*/log/*"))
