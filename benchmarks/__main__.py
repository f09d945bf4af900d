"""``python -m benchmarks``: measure everything side by side, print one table, write it to docs/performance.md."""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import measure, report
from benchmarks.cases import Bench, Case
from benchmarks.environment import python_of
from benchmarks.machine import machine_line
from benchmarks.measure import ROOT, Measure

QUICK_ROWS, FULL_ROWS = 20_000, 1_000_000
QUICK_RUNS, FULL_RUNS = 1, 5
ENVIRONMENTS = ROOT / ".venv-peers"
PAGE = ROOT / "docs" / "performance.md"


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks. Exit: 0 all answers of the product are right, 1 one is wrong or a run failed."""
    options = _options(argv)
    rows = options.rows or (QUICK_ROWS if options.quick else FULL_ROWS)
    runs = options.runs or (QUICK_RUNS if options.quick else FULL_RUNS)
    line = machine_line()
    results: list[report.Result] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-bench-")))
        servers = stack.enter_context(_servers(options.only))
        accepted = [part.lower() for part in options.only]
        bench = Bench(
            folder,
            rows,
            servers,
            lambda name: not accepted or any(part in name.lower() for part in accepted),
            peers=options.install_peers or not options.quick,
        )
        for make in bench.cases(whole=not options.quick):
            case = make()
            if case is not None:
                results.append(_measured(case, runs, folder, install=options.install_peers))
                print(report.case_text(results[-1]), flush=True)
    missing = [name for name in ("postgresql", "mysql") if name not in servers and not options.only]
    text = report.page(results, datetime.datetime.now(datetime.UTC).date(), line, rows, runs, missing)
    if options.write:
        report.write(PAGE, text)
    wrong = [result.case.name for result in results if not result.right]
    for name in wrong:
        print(f"WRONG OR FAILED: {name}", file=sys.stderr)
    print(f"{len(results)} cases, {len(wrong)} wrong or failed; {line}")
    return 1 if wrong or not results else 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, one run each: under two minutes")
    parser.add_argument("--rows", type=int, help=f"rows of a table ({FULL_ROWS:,}; quick {QUICK_ROWS:,})")
    parser.add_argument("--runs", type=int, help=f"runs whose median counts ({FULL_RUNS}; quick {QUICK_RUNS})")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name holds this text")
    parser.add_argument(
        "--install-peers", action="store_true", help=f"install the other tools under {ENVIRONMENTS.name}/ first"
    )
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    return parser.parse_args(argv)


def _measured(case: Case, runs: int, folder: Path, *, install: bool) -> report.Result:
    """Run every contestant of a case ``runs`` times, turn by turn, so that a busy minute hits all of them."""
    spec = folder / "spec.yaml"
    strategies = {report.PRODUCT: "auto", **{report.variant(name): name for name in case.strategies}}
    measures: dict[str, list[Measure]] = {}
    skipped = []
    peers: dict[str, list[str]] = {}
    for peer in case.peers:
        python = python_of(peer, ENVIRONMENTS, install=install)
        if python is None:
            skipped.append(peer)
            continue
        peers[peer] = [str(python), str(Path(__file__).with_name("peers.py")), peer, *case.peer_arguments()]
    for _ in range(runs):
        store = folder / "store"
        for name, strategy in strategies.items():
            spec.write_text(case.specification(strategy))
            command = [*measure.PRODUCT, "run", str(spec), "--store", str(store), "--json"]
            measures.setdefault(name, []).append(measure.run(command, sessions=case.sessions, ends=(0, 1)))
            shutil.rmtree(store, ignore_errors=True)
        for name, command in (case.limits | case.beside).items():
            measures.setdefault(name, []).append(measure.run(command, sessions=case.sessions))
        for name, command in peers.items():
            if name not in measures or not measures[name][-1].failed:
                measures.setdefault(name, []).append(measure.run(command, sessions=case.sessions))
    return report.Result(case, measures, skipped)


@contextmanager
def _servers(only: list[str]) -> Iterator[dict[str, Any]]:
    """Start the servers that the chosen cases may need and that are installed here."""
    sys.path.insert(0, str(ROOT / "tests"))
    import servers

    def wanted(name: str) -> bool:
        return not only or any(name in text or text in f"{name} pair" or " to " in text for text in only)

    found: dict[str, Any] = {}
    with ExitStack() as stack:
        for name, kind in (("postgresql", "postgresql"), ("mysql", "mariadb")):
            if wanted(name) and servers.installed(kind):
                found[name] = stack.enter_context(getattr(servers, kind)())
        yield found


if __name__ == "__main__":
    sys.exit(main())
