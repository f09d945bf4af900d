"""Medians and ratios as text for the terminal and as the page in docs/."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.data import Counts
from benchmarks.measure import Measure, median

PRODUCT = "airflow-delta"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
GROWTH_MARKS = ("<!-- growth: begin -->", "<!-- growth: end -->")
HEAD = ("what", "wall s", "x", "CPU s (client + server)", "x CPU", "MB", "answer")


@dataclass(frozen=True)
class Result:
    """All runs of one case, by contestant."""

    case: Case
    measures: Mapping[str, Sequence[Measure]]
    skipped: Sequence[str]

    @property
    def right(self) -> bool:
        """True where the product answered rightly each time and the limits could be measured."""
        names = [PRODUCT, *(variant(strategy) for strategy in self.case.strategies)]
        own = all(answer(self.case.counts, one) == "right" for name in names for one in self.measures[name])
        return own and not any(one.failed for name in self.case.limits for one in self.measures[name])


def variant(strategy: str) -> str:
    """Return how the product is called under a strategy that was asked for."""
    return f"{PRODUCT}, {strategy}"


def answer(counts: Counts, one: Measure) -> str:
    """Return ``right``, or what is wrong about an answer."""
    if one.failed:
        return f"failed, {one.failed}"
    try:
        form = json.loads(one.stdout)
        found = form.get("categories", form)
        seen = Counts(found["added"], found["dropped"], found["value_diverged"])
    except (ValueError, KeyError, AttributeError):
        return "no answer"
    return "right" if seen == counts else f"wrong: {seen} instead of {counts}"


def rows_of(result: Result) -> list[tuple[str, ...]]:
    """Return one row for each contestant; ``x`` is its time over the limit's, the slower one where there are two."""
    limits = result.case.limits
    wall = max(median(result.measures[name], "wall_s") for name in limits)
    cpu = sum(median(result.measures[name], "cpu_s") for name in limits)
    rows = []
    for name, measures in result.measures.items():
        silent = (name in limits or name in result.case.beside) and not measures[-1].failed
        said = "" if silent else answer(result.case.counts, measures[-1])
        client, server = median(measures, "client_cpu_s"), median(measures, "server_cpu_s")
        split = f"{client:.2f} + {server:.2f}" if result.case.sessions else f"{client:.2f}"
        mine = median(measures, "wall_s")
        rows.append(
            (
                f"limit: {name}" if name in limits else name,
                f"{mine:.2f}",
                f"{mine / wall:.2f}",
                split,
                f"{median(measures, 'cpu_s') / max(cpu, 1e-9):.2f}",
                f"{median(measures, 'peak_mb'):.0f}",
                " ".join(said.split()),
            )
        )
    return rows + [(name, "", "", "", "", "", "not installed: left out") for name in result.skipped]


def case_text(result: Result) -> str:
    """Return one case as aligned columns."""
    rows = [HEAD, *rows_of(result)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD) - 1)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(part.rjust(width) for part, width in zip(row[1:-1], widths[1:], strict=True)),
                row[-1][:160],
            ]
        )
        for row in rows
    ]
    return "\n".join([f"\n{result.case.name}", *lines])


def page(
    results: Sequence[Result],
    date: datetime.date,
    machine: str,
    rows: int,
    runs: int,
    missing: Sequence[str],
) -> str:
    """Return the measured part of docs/performance.md."""
    lines = [
        f"Measured on {date.isoformat()}, medians of {runs} runs, {rows:,} rows unless a case says otherwise.",
        f"Machine: {machine}.",
    ]
    if missing:
        lines.append(f"Left out, because their servers are not installed here: {', '.join(missing)}.")
    for result in results:
        lines += ["", f"### {result.case.name}", "", f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
        for row in rows_of(result):
            said = row[-1].replace("|", "\\|")[:120]
            lines.append(f"| {' | '.join([*row[:-1], said])} |")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace a measured part of a page, between its two marks."""
    begin, end = marks
    before, _, rest = path.read_text().partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{text}{end}{after}")
