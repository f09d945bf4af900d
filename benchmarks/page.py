"""The pages over a manifest of a million records: how long a person waits, and how much memory the server takes.

``python -m benchmarks.page`` builds a manifest, serves it in a process of its own over loopback, asks for what a person
asks for, and prints one table. The first request finds nothing in the server's memory.
"""

from __future__ import annotations

import argparse
import html
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

from benchmarks.measure import ROOT

VIEW_LIMIT_S = 1.0
MEMORY_LIMIT_MB = 200
ANSWER_TIMEOUT_S = 120
FURTHER = re.compile(r'href="([^"]+)">Look further</a>')
RARE = "dropped"
RARE_COLUMN = "seen_at"
COMMON = ("amount", "name")


@dataclass(frozen=True)
class View:
    """What is asked for. Shape: ``query`` goes to the page ``name``; ``said`` must be in the answer."""

    what: str
    name: str
    query: dict[str, str]
    said: str


@dataclass(frozen=True)
class Timed:
    """A view with its waiting times.

    Shape: ``waits_s`` has one list for each time it was asked for, with the seconds of each request that it took.
    """

    view: View
    waits_s: list[list[float]]
    answer_bytes: int
    grown_mb: float

    @property
    def longest_s(self) -> float:
        """The longest that a person waited for one answer."""
        return max(max(waits) for waits in self.waits_s)


def build(folder: Path, records: int) -> str:
    """Publish a manifest of so many records into ``store``; return its digest.

    The last record but one is the only one of its category, and the last one the only one of its column.
    """
    from airflow_delta_provider.core.store import open_store
    from airflow_delta_provider.core.store.publish import Publication, publish
    from airflow_delta_provider.core.submanifest import build_sub_manifest
    from benchmarks.parts import shared_documents

    shared = shared_documents()
    with (folder / "raw").open("wb") as raw:
        write_raw(raw, shared.identity, records)
    with (folder / "raw").open("rb") as raw, (folder / "body.jsonl").open("w+b") as body:
        made = build_sub_manifest(raw, shared, body)
        body.flush()
        publication = Publication(
            manifest=made.manifest,
            schema=shared.schema,
            contract=shared.contract,
            structure=shared.structure,
            summary=made.summary,
            body=body,
            page_index=made.facts.page_index,
            sidecar={"run": "benchmark"},
        )
        receipt = publish(open_store(str(folder / "store")), publication)
    for name in ("raw", "body.jsonl"):
        (folder / name).unlink()
    return receipt.manifest


def write_raw(file: BinaryIO, identity: str, records: int) -> None:
    """Write a raw comparison: keys are even numbers; the last record but one was dropped, the last one has another column."""
    from airflow_delta_provider.core.rawcompare import RawWriter
    from benchmarks.parts import BATCH_LINES

    writer = RawWriter(file, identity, (None, None))
    most = records - 2
    for start in range(0, most, BATCH_LINES):
        numbers = range(start, min(start + BATCH_LINES, most))
        texts = [b'["%d.25","name %d","2024-01-02T03:04:05Z"]' % (7 * number, number) for number in numbers]
        other = [b'["%d.5","Name %d","2024-01-02T03:04:05Z"]' % (7 * number, number) for number in numbers]
        writer.add(batch(numbers, "value_diverged", COMMON, texts, other))
    row = b'["1","a","2024-01-02T03:04:05Z"]'
    writer.add(batch([most], RARE, None, [row], None))
    writer.add(batch([most + 1], "value_diverged", [RARE_COLUMN], [row], [row.replace(b"5Z", b"6Z")]))
    sides = {
        side: {"duplicate_key": 0, "null_key": 0, "rows": rows, "skipped": 0}
        for side, rows in (("source", records), ("target", records - 1))
    }
    population = {**sides, "unchanged": 0}
    writer.close({"population": population, "diverged": [most, most, 1], "rules": [[]] * 3, "key_rules": [[]]})


def batch(
    numbers: Sequence[int],
    category: str,
    columns: Sequence[str] | None,
    source: list[bytes],
    target: list[bytes] | None,
) -> Any:
    """Return some records, all of the same category and columns."""
    from airflow_delta_provider.core.arrays import binary_list, int64_array
    from airflow_delta_provider.core.keyvec import encode_keys
    from airflow_delta_provider.core.rawcompare import raw_batch
    from airflow_delta_provider.core.types import LogicalType

    whole = LogicalType("int")
    keys = encode_keys([int64_array([2 * number for number in numbers])], [whole], [whole])
    names = (
        None if columns is None else binary_list([json.dumps(columns, separators=(",", ":")).encode()] * len(source))
    )
    return raw_batch(
        keys, category, names, binary_list(source), None if target is None else binary_list(target), None, None
    )


def serve(folder: Path) -> None:
    """Serve the store until the standard input ends; print what the process held before, in MB, and the address.

    As in Airflow's API server, what the pages need is imported at the start, and pandas is not kept out.
    """
    import threading

    print(memory_mb(os.getpid()), flush=True)
    from airflow_delta_provider.cli.serve import pages
    from airflow_delta_provider.core.store import open_store
    from airflow_delta_provider.web.routes import warm_up

    warm_up()
    with pages(open_store(str(folder / "store")), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.address, flush=True)
        sys.stdin.read()
        server.shutdown()


def views(manifest: str, records: int) -> list[View]:
    """Return what is asked for, in this order."""
    middle = str(2 * (records // 4))
    of = {"manifest": manifest}
    key_there, key_not = "The key is among the records.", "No record has this key."
    return [
        View("first view", "manifest", of, "rows differ"),
        View("next page", "records", {**of, "start": "50"}, "Records 50 to 99"),
        View("last page", "records", {**of, "start": str(records - 50)}, f"to {records - 1:,} of"),
        View("key that is there", "records", {**of, "key": middle}, key_there),
        View("key that is not", "records", {**of, "key": str(2 * (records // 4) + 1)}, key_not),
        View("record with its history", "record", {**of, "record": middle}, "This key in the manifests"),
        View("category, most records", "records", {**of, "category": "value_diverged"}, "50 records that fit"),
        View("category, one record at the end", "records", {**of, "category": RARE}, "1 record that fits"),
        View("category, none", "records", {**of, "category": "added"}, "No record fits"),
        View("column, most records", "records", {**of, "column": "amount"}, "50 records that fit"),
        View("column, one record at the end", "records", {**of, "column": RARE_COLUMN}, "1 record that fits"),
        View("all pairs", "pairs", {}, "bench"),
    ]


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Run the server in a process of its own; give its address without the page, its process id, and its MB before."""
    command = [sys.executable, "-m", "benchmarks.page", "--step", "serve", "--folder", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        held_mb, address = process.stdout.readline(), process.stdout.readline().strip()
        if not address:
            raise SystemExit("the server did not start")
        try:
            yield address.removesuffix("/pairs"), process.pid, float(held_mb)
        finally:
            process.communicate()


def ask(base: str, view: View) -> tuple[list[float], bytes]:
    """Return the seconds to the last byte of each answer that a person waits for, going further where told so, and the last."""
    address, waits = f"{view.name}?{urlencode(view.query)}", []
    while True:
        waited, body = fetch(base, address)
        waits.append(waited)
        if view.said in body.decode():
            return waits, body
        further = FURTHER.search(body.decode())
        if further is None:
            raise SystemExit(f"{view.what}: the answer does not say {view.said!r}: {body[-2000:]!r}")
        address = html.unescape(further[1])


def fetch(base: str, address: str) -> tuple[float, bytes]:
    """Return the seconds to the last byte of an answer, and the answer."""
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=ANSWER_TIMEOUT_S)
    started = time.monotonic()
    connection.request("GET", f"{parts.path}/{address}")
    body = connection.getresponse().read()
    waited = time.monotonic() - started
    connection.close()
    return waited, body


def memory_mb(pid: int, name: str = "VmRSS") -> float:
    """Return what a process holds now, or held at most (``VmHWM``), in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} tells no {name}")


def measure(folder: Path, manifest: str, records: int, runs: int) -> tuple[list[Timed], float, float]:
    """Ask for each view, the first time in a fresh server; return the times, memory before and the growth to the peak."""
    timed = []
    with served(folder) as (base, pid, start_mb):
        for view in views(manifest, records):
            asked = [ask(base, view) for _ in range(runs)]
            waits = [waited for waited, _ in asked]
            timed.append(Timed(view, waits, len(asked[0][1]), memory_mb(pid) - start_mb))
        return timed, start_mb, memory_mb(pid, "VmHWM") - start_mb


def table(found: tuple[list[Timed], float, float], records: int) -> str:
    """Return one Markdown table."""
    timed, start_mb, grown_mb = found
    lines = [
        "| view | first, s | requests | again, s | answer, KB | grown, MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in timed:
        again = statistics.median(max(waits) for waits in one.waits_s[1:] or one.waits_s)
        lines.append(
            f"| {one.view.what} | {max(one.waits_s[0]):.3f} | {len(one.waits_s[0])} | {again:.3f} "
            f"| {one.answer_bytes / 1024:.0f} | {one.grown_mb:.0f} |"
        )
    slow = [one.view.what for one in timed if one.longest_s > VIEW_LIMIT_S]
    told = f"over {VIEW_LIMIT_S:g} s: {', '.join(slow)}" if slow else f"no answer took longer than {VIEW_LIMIT_S:g} s"
    return "\n".join(
        [
            f"{records:,} records. The process held {start_mb:.0f} MB before it imported the package and {grown_mb:.0f} MB "
            f"more at most (limit {MEMORY_LIMIT_MB} MB); {told}. Seconds are of the longest of the requests of a view.",
            "",
            *lines,
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; exit 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--step", choices=("build", "serve"))
    parser.add_argument("--folder", type=Path, help="kept, and used again where it holds a store")
    options = parser.parse_args(argv)
    if options.step == "serve":
        serve(options.folder)
        return 0
    if options.step == "build":
        from airflow_delta_provider.engine.light import keep_pandas_out

        keep_pandas_out()
        (options.folder / "built.json").write_text(json.dumps(build(options.folder, options.records)))
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="delta-page-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _measured(folder, options)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def _measured(folder: Path, options: Any) -> int:
    if not (folder / "built.json").exists():
        step = ["--step", "build", "--folder", str(folder), "--records", str(options.records)]
        subprocess.run([sys.executable, "-m", "benchmarks.page", *step], cwd=ROOT, check=True)
    manifest = json.loads((folder / "built.json").read_text())
    found = measure(folder, manifest, options.records, options.runs)
    print(table(found, options.records))
    timed, _, grown_mb = found
    kept = all(one.longest_s <= VIEW_LIMIT_S for one in timed) and grown_mb <= MEMORY_LIMIT_MB
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
