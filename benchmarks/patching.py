"""``python -m benchmarks.patching``: a patch of PostgreSQL beside the same changes as hand-written COPY plus UPDATE.

Both write the same changes to equal tables of one server, turn by turn: nine tenths of them change two columns of a row,
the others insert and delete. The hand-written script has them in a file, copies it into a temporary table, and runs one
UPDATE, one INSERT and one DELETE: no look at what stands there, no way back, no proof.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.machine import machine_line
from benchmarks.measure import Measure

CHANGES = 1_000_000
RUNS = 3
GOAL = 2.0
"""The patch may take so many times the hand-written time: no less than half its speed."""
COLUMNS = (
    "id bigint PRIMARY KEY, a integer, b integer, amount numeric(18,4), ratio double precision, name text, code text,"
    " seen timestamptz, day date, ok boolean"
)
ROW = (
    "i, (i * 7919) % 100000, i % 977, (i * 31 % 1000000)::numeric / 10000, i * 0.5, 'name ' || i, 'c' || (i % 50),"
    " timestamptz '2026-01-01 00:00Z' + i * interval '1 second', date '2026-01-01' + (i % 3000)::integer, i % 2 = 0"
)
DAMAGED = ROW.replace("i * 0.5", "i * 0.5 + 1").replace("'name ' || i", "'nome ' || i")
HAND = """
import sys, psycopg
uri, path = sys.argv[1:]
with psycopg.connect(uri) as connection:
    connection.execute("CREATE TEMPORARY TABLE change (op text, id bigint, a integer, b integer, amount numeric(18,4),"
        " ratio double precision, name text, code text, seen timestamptz, day date, ok boolean) ON COMMIT DROP")
    with open(path, "rb") as file, connection.cursor().copy("COPY change FROM STDIN") as copy:
        while block := file.read(1 << 20):
            copy.write(block)
    connection.execute("ANALYZE change")
    connection.execute("DELETE FROM t_target USING change c WHERE c.op = 'D' AND t_target.id = c.id")
    connection.execute("UPDATE t_target SET ratio = c.ratio, name = c.name FROM change c"
        " WHERE c.op = 'U' AND t_target.id = c.id")
    connection.execute("INSERT INTO t_target SELECT id, a, b, amount, ratio, name, code, seen, day, ok"
        " FROM change WHERE op = 'I'")
"""
PATCH = """
import json, os, sys, time
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.engine.patching import PatchOptions, apply_patch
form, store, manifest = sys.argv[1:]
began, laps = time.monotonic(), []
outcome = apply_patch(parse_spec(json.loads(form)), open_store(store), manifest, PatchOptions(max_share=1, workers=os.cpu_count() or 1),
    step=lambda name: laps.append((name, time.monotonic() - began)))
laps.append(("end", time.monotonic() - began))
print(json.dumps({"laps": laps, "outcomes": dict(outcome.outcomes), "proved": outcome.proved}))
"""

PURE = """
import io, json, sys, time
from contextlib import closing
import psycopg
from airflow_delta_provider.core import body, jsonc, log, merkle
from airflow_delta_provider.core.store import blobs, open_store
address, uri, manifest = sys.argv[1:]
store, began, laps = open_store(address), time.monotonic(), []
document = jsonc.loads(blobs.get_blob(store, manifest))
pair = [entry for entry in log.read_log(store, log.pair_id_of(*(document["pair"][part] for part in ("name", "source", "target"))))]
headers = [jsonc.loads(blobs.get_blob(store, entry.ref)) for entry in pair if entry.kind in ("checkpoint", "ledger")]
def lap(name):
    laps.append((name, time.monotonic() - began))
class Nowhere(io.RawIOBase):
    def write(self, data):
        return len(data)
def hashed(digest, by_category):
    writer, tree = body.LineWriter(Nowhere()), merkle.Accumulator()
    with closing(blobs.open_blob(store, digest)) as stream:
        for lines in body.read_lines(stream):
            leaves = writer.write(lines)
            if by_category:
                tree.extend(leaves)
    writer.close()
lap("start")
hashed(document["body"]["sha256"], True)
lap("hash manifest")
for header in headers:
    hashed(header["body"]["sha256"], False)
lap("hash records")
def copied(*tables):
    with psycopg.connect(uri) as connection:
        for table in tables:
            with connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)") as copy:
                for block in copy:
                    pass
copied("t_target")
lap("copy before")
copied("t_source", "t_target")
lap("copy proof")
print(json.dumps({"laps": laps}))
"""
"""What cannot be left out, done as plainly as can be: hash what is signed and kept, read what stands there."""


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and say whether the goal holds. Exit: 0 it does, 1 it does not or an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patching", description=__doc__)
    parser.add_argument("--changes", type=int, default=CHANGES)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args(argv)
    sys.path.insert(0, str(measure.ROOT / "tests"))
    import servers

    hand, patch, pure = [], [], []
    with tempfile.TemporaryDirectory(prefix="delta-bench-") as name, servers.postgresql() as server:
        for number in range(options.runs):
            folder = Path(name) / str(number)
            folder.mkdir()
            hand.append(_by_hand(server, options.changes, folder))
            made, alone = _by_patch(server, options.changes, folder)
            patch.append(made)
            pure.append(alone)
            for what, one in (("by hand", hand[-1]), ("patch", patch[-1]), ("pure", pure[-1])):
                print(_line(what, one), flush=True)
    ratio = measure.median(patch, "wall_s") / measure.median(hand, "wall_s")
    print(f"{options.changes:,} changes: the patch takes {ratio:.2f} times the hand-written script (goal {GOAL});"
          f" {machine_line()}")  # fmt: skip
    right = all(not one.failed for one in (*hand, *patch))
    return 0 if right and ratio <= GOAL else 1


def _line(what: str, one: Measure) -> str:
    text = f"{what:8} {one.wall_s:7.1f} s wall, {one.client_cpu_s:6.1f} s client, {one.server_cpu_s:6.1f} s server, "
    text += f"{one.peak_mb:5.0f} MB"
    if one.failed:
        return f"{text}, {one.failed}"
    if what in ("patch", "pure"):
        form, last = json.loads(one.stdout), 0.0
        parts: dict[str, float] = {}
        before = "before"
        for name, at in form["laps"]:
            # A patch tells a step before it, the plain work after it.
            spent = name if what == "pure" else before
            parts[spent] = parts.get(spent, 0.0) + at - last
            before, last = name, at
        text += "".join(f"\n         {name:14} {spent:7.1f} s" for name, spent in parts.items())
        if what == "patch":
            text += f"\n         {form['outcomes']}, proved: {form['proved']}"
    return text


def _tables(server: Any, changes: int, folder: Path) -> str:
    """Make both tables in a database of its own, and the file of changes; return the database's address."""
    import psycopg

    inserted = deleted = changes // 20
    updated = changes - inserted - deleted
    kept = changes // 5
    uri = str(server.create_database())
    with psycopg.connect(uri, autocommit=True) as connection:

        def run(text: str) -> None:
            connection.execute(text.encode())

        for side in ("source", "target"):
            run(f"CREATE TABLE t_{side} ({COLUMNS})")
        run(f"INSERT INTO t_source SELECT {ROW} FROM generate_series(1::bigint, {updated + inserted}) i")
        run(f"INSERT INTO t_target SELECT {DAMAGED} FROM generate_series(1::bigint, {updated}) i")
        last = updated + inserted
        for side in ("source", "target"):
            run(f"INSERT INTO t_{side} SELECT {ROW} FROM generate_series({-kept}::bigint, -1) i")
        run(f"INSERT INTO t_target SELECT {ROW} FROM generate_series({last + 1}::bigint, {last + deleted}) i")
        for side in ("source", "target"):
            run(f"VACUUM (ANALYZE, FREEZE) t_{side}")
        with (folder / "changes.txt").open("wb") as out, connection.cursor() as cursor:
            for op, where in (
                ("D", f"t_target WHERE id > {last}"),
                ("U", f"t_source WHERE id BETWEEN 1 AND {updated}"),
                ("I", f"t_source WHERE id > {updated}"),
            ):
                with cursor.copy(f"COPY (SELECT '{op}', * FROM {where}) TO STDOUT".encode()) as copy:
                    for block in copy:
                        out.write(block)
    return uri


def _by_hand(server: Any, changes: int, folder: Path) -> Measure:
    uri = _tables(server, changes, folder)
    time.sleep(1)
    made = measure.run([sys.executable, "-c", HAND, uri, str(folder / "changes.txt")], sessions=(server.pid,))
    return _checked(made, uri)


def _by_patch(server: Any, changes: int, folder: Path) -> tuple[Measure, Measure]:
    """Measure a patch, and after it the hashing and reading that no patch can do without."""
    uri = _tables(server, changes, folder)
    sides = {side: {"uri": uri, "table": f"t_{side}", "label": f"bench:{side}"} for side in ("source", "target")}
    form = json.dumps({"name": "bench", "key": ["id"], **sides})
    (folder / "spec.yaml").write_text(form)
    store = (folder / "store").as_uri()
    product = [sys.executable, "-c", "from airflow_delta_provider.cli import entry_point; entry_point()", "run"]
    compared = measure.run([*product, str(folder / "spec.yaml"), "--store", store, "--json"], ends=(1,))
    manifest = json.loads(compared.stdout)["manifest"]
    made = measure.run([sys.executable, "-c", PATCH, form, store, manifest], sessions=(server.pid,))
    pure = measure.run([sys.executable, "-c", PURE, store, uri, manifest], sessions=(server.pid,))
    return _checked(made, uri), pure


def _checked(made: Measure, uri: str) -> Measure:
    """Return a measure, failed where the tables are not equal."""
    import psycopg

    with psycopg.connect(uri) as connection:
        asked = "SELECT count(*) FROM (TABLE t_source EXCEPT TABLE t_target) d"
        left = connection.execute(asked.encode()).fetchone()
        counts = connection.execute(
            b"SELECT (SELECT count(*) FROM t_source), (SELECT count(*) FROM t_target)"
        ).fetchone()
    if made.failed or (left == (0,) and counts is not None and counts[0] == counts[1]):
        return made
    return Measure(made.wall_s, made.client_cpu_s, made.server_cpu_s, made.peak_mb, made.stdout, "the tables differ")


if __name__ == "__main__":
    sys.exit(main())
