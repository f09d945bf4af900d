"""``python -m benchmarks.link``: the strategies over a slow link, a PostgreSQL pair whose both sides share one.

The link is a proxy on loopback, in a process of its own, that passes on so many bits a second from the servers, all
connections together; the other way is free.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from benchmarks import load, measure
from benchmarks.data import Shape
from benchmarks.machine import machine_line
from benchmarks.measure import Measure

MEGABITS = 100
ROWS, RUNS = 1_000_000, 3
GOAL = 3.0
"""On identical data ``fingerprint`` is to be so many times quicker than ``stream``."""
RATES = (0.0, 0.001)
STRATEGIES = ("stream", "fingerprint", "fast")
CHUNK_BYTES = 16_384


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print one table. Exit: 0 the goal holds, 1 it does not or a run failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.link", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--megabits", type=float, default=MEGABITS)
    parser.add_argument("--serve", nargs=2, type=int, metavar=("PORT", "BYTES_A_SECOND"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        asyncio.run(_serve(*options.serve))
        return 0
    sys.path.insert(0, str(measure.ROOT / "tests"))
    import servers

    found: dict[tuple[float, str], list[Measure]] = {}
    with tempfile.TemporaryDirectory(prefix="delta-bench-") as name, servers.postgresql() as server:
        for rate in RATES:
            forms = _forms(server, Shape(options.rows, rate=rate), Path(name))
            with _link(server.port, int(options.megabits * 125_000)) as port:
                for _ in range(options.runs):
                    for strategy in STRATEGIES:
                        one = _run({**_moved(forms, port), "strategy": strategy}, Path(name), server.pid)
                        found.setdefault((rate, strategy), []).append(one)
    print(_table(found, options.rows, options.runs, options.megabits))
    failed = [one.failed for runs in found.values() for one in runs if one.failed]
    gain = _wall(found[0.0, "stream"]) / _wall(found[0.0, "fingerprint"])
    print(*failed, f"fingerprint is {gain:.1f} times as quick as stream on identical data; goal {GOAL}", sep="\n")
    return 0 if not failed and gain >= GOAL else 1


def _forms(server: Any, shape: Shape, folder: Path) -> dict[str, Any]:
    """Load both tables and return the specification of the run, with the server's own addresses."""
    paths, _ = load.write_parquet(shape, folder, f"link-{shape.rate}")
    sides = {
        side: load.to_postgresql(path, server, f"t_{side}", shape.key_columns).side for side, path in paths.items()
    }
    return {"name": "link", "key": list(shape.key_columns), **sides}


def _moved(form: dict[str, Any], port: int) -> dict[str, Any]:
    """Return the specification with both sides at another port."""
    moved = dict(form)
    for side in ("source", "target"):
        parts = urlsplit(form[side]["uri"])
        host = f"{parts.netloc.rpartition(':')[0]}:{port}"
        moved[side] = {**form[side], "uri": urlunsplit(parts._replace(netloc=host))}
    return moved


def _run(form: dict[str, Any], folder: Path, session: int) -> Measure:
    spec, store = folder / "spec.yaml", folder / "store"
    spec.write_text(json.dumps(form))
    product = [sys.executable, "-c", "from airflow_delta_provider.cli import entry_point; entry_point()", "run"]
    one = measure.run([*product, str(spec), "--store", str(store), "--json"], sessions=[session], ends=(0, 1))
    shutil.rmtree(store, ignore_errors=True)
    return one


def _wall(runs: list[Measure]) -> float:
    return statistics.median(one.wall_s for one in runs)


def _table(found: dict[tuple[float, str], list[Measure]], rows: int, runs: int, megabits: float) -> str:
    lines = [
        f"PostgreSQL pair of {rows:,} rows over {megabits:g} Mbit/s, medians of {runs}; {machine_line()}",
        "",
        "| different | strategy | wall s | x | CPU s, client + server |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (rate, strategy), measures in found.items():
        wall, least = _wall(measures), _wall(found[rate, "stream"])
        client, server = (measure.median(measures, what) for what in ("client_cpu_s", "server_cpu_s"))
        lines.append(f"| {rate:.1%} | {strategy} | {wall:.1f} | {wall / least:.2f} | {client:.1f} + {server:.1f} |")
    return "\n".join(lines)


@contextmanager
def _link(port: int, bytes_a_second: int) -> Iterator[int]:
    """Run the proxy in a process of its own, which ends with this one, however that ends; yields its port."""
    command = [sys.executable, "-m", "benchmarks.link", "--serve", str(port), str(bytes_a_second)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, cwd=measure.ROOT, start_new_session=True) as process:
        try:
            yield int((process.stdout or sys.stdin).readline())
        finally:
            process.terminate()


async def _serve(port: int, bytes_a_second: int) -> None:
    """Pass connections on to a port until stdin ends; what comes back waits for its turn on the link."""
    free_at = time.monotonic()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        nonlocal free_at
        while data := await reader.read(CHUNK_BYTES):
            if held:
                free_at = max(free_at, time.monotonic()) + len(data) / bytes_a_second
                await asyncio.sleep(max(0.0, free_at - time.monotonic()))
            writer.write(data)
            await writer.drain()
        writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            passed(reader, server_writer, held=False), passed(server_reader, writer, held=True), return_exceptions=True
        )

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    sys.exit(main())
