"""Run one case through the command line and compare what it says with what the case expects."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases.canonical import canonical
from cases.engines import SideCase
from cases.notation import declared, value
from cases.writers import Place

RECORDS_MAX = 100_000
PROCESS_TIMEOUT_S = 120
ERRORS: dict[str, tuple[list[str], list[str]]] = {
    "rc-002": (
        [r"\bcode\b", r"\bsource\b.*\b2\b|\b2\b.*\bsource\b", r"\btarget\b", r"\b1\b"],
        [r"(?i)duplicate|repeated"],
    ),
    "rc-006": ([r"\bsource\b", r"\b2\b", r"(?i)null", r"\b2 rows\b|\b2 times\b|\btwice\b"], [r"\b3\b"]),
    "rc-008": ([r"\b1000\b", r"\bsource\b", r"\btarget\b"], []),
    "rc-009": ([r"\bsource\b", r"\bp\b", r"\b2\b"], []),
    "rc-010": ([r"\btarget\b", r"\b1\b", r"\b2\b"], []),
    "rc-033": ([r"\bsource\b", r"\bA\b", r"\ba\b"], []),
    "rc-102": ([r"\bsource\b", r"line 2\b", r"JSON"], []),
    "rc-144": ([r"\bt\b", r"\b1\b", r"2026-11-01[ T]01:30"], []),
    "rc-245": ([r"\bkey\b"], []),
    "rc-248": ([r"\bkey\b"], []),
    "rc-271": ([r"\btarget\b", r"\b[12]\b"], []),
}
"""By case: patterns that the error's text has to contain and must not contain. Other cases are held to the sides named."""


@dataclass(frozen=True)
class Answer:
    """What one call of the command line gave back: exit code, the object on stdout, and what went to stderr."""

    code: int
    output: dict[str, Any]
    stderr: str


@dataclass(frozen=True)
class Variation:
    """One way of asking for the same answer: members laid over the specification, and rows a page."""

    label: str
    spec: dict[str, Any] = field(default_factory=dict)
    page_rows: int | None = None


def variations(case: dict[str, Any]) -> list[Variation]:
    """Return the ways in which a case is to be run: as it stands first, then with other shards and pages if it has any."""
    options = case.get("options") or {}
    first = Variation("as it stands", page_rows=options.get("page_rows"))
    if not options.keys() & {"shards", "shard_bounds", "page_rows"}:
        return [first]
    others = [Variation(f"{count} shards", {"shards": {"count": count}}) for count in (1, 2, 7)]
    return [first, *others, Variation("1 row a page", page_rows=1), Variation("3 rows a page", page_rows=3)]


def specification(case: dict[str, Any], places: tuple[Place, Place], more: dict[str, Any]) -> dict[str, Any]:
    """Return the complete specification of a case whose sides were written at ``places``."""
    form: dict[str, Any] = {"name": re.sub(r"[^a-z0-9_-]", "-", case["id"].lower())[:64], "schema_version": "1"}
    form |= json.loads(json.dumps(case["spec"])) | more
    for side, place in zip(("source", "target"), places, strict=True):
        form[side] = {**place.side, "label": f"case:{side}"}
        if place.types:
            member = form.setdefault(place.engine, {})
            member["types"] = {**place.types, **member.get("types", {})}
    return form


def call(arguments: list[str]) -> Answer:
    """Call the command line in this process."""
    from airflow_delta_provider.cli import main

    stdout, stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main(arguments)
    stdout.flush()
    return _answer(code, stdout.buffer.getvalue().decode("utf-8"), stderr.getvalue())  # type: ignore[attr-defined]


def call_process(arguments: list[str]) -> Answer:
    """Call the command line in a process of its own."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("airflow-delta")), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    return _answer(done.returncode, done.stdout, done.stderr)


def _answer(code: int, stdout: str, stderr: str) -> Answer:
    try:
        output = json.loads(stdout)
    except ValueError as error:
        raise AssertionError(
            f"exit {code}, and stdout is no JSON object: {stdout[:500]!r}\n{stderr[-2000:]}"
        ) from error
    return Answer(code, output, stderr)


@contextlib.contextmanager
def time_zone(name: str | None) -> Iterator[None]:
    """Run with another local time zone of the process."""
    if name is None:
        yield
        return
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
        time.tzset()


def turn_pages(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Make every read of a side ask for batches of so many rows; a page has no place in a specification."""
    from airflow_delta_provider.adapters.side import Request

    plain = Request.__init__

    def paged(self: Request, *arguments: Any, **named: Any) -> None:
        plain(self, *arguments, **(named | {"batch_rows": rows}))

    patch.setattr(Request, "__init__", paged)


def run_case(form: dict[str, Any], folder: Path, *, process: bool = False) -> tuple[Answer, dict[str, Any]]:
    """Run a specification against a store in ``folder``; return the answer and what ``show`` says of the manifest.

    The second is empty where the run gave no manifest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(form, allow_unicode=True, sort_keys=False, width=1000), encoding="utf-8")
    store = str(folder / "store")
    ask = call_process if process else call
    answer = ask(["run", str(path), "--store", store, "--json"])
    if not isinstance(answer.output.get("manifest"), str):
        return answer, {}
    shown = ask(["show", answer.output["manifest"], "--store", store, "--json", "--records", str(RECORDS_MAX)])
    assert shown.code == 0, f"show ended with {shown.code}: {shown.output}"
    return answer, shown.output


def blob(folder: Path, digest: str) -> bytes:
    """Return a stored artifact by its digest, checked."""
    content = (folder / "store" / "blobs" / "sha256" / digest[:2] / digest[2:4] / digest).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest
    return content


def found_records(shown: dict[str, Any]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the records of ``show`` as category, key (canonical JSON) and target columns, sorted."""
    return sorted(
        (record["category"], json.dumps(record["key"]), tuple(sorted(record.get("columns") or [])))
        for record in shown["records"]
    )


def expected_records(
    case: dict[str, Any], source: SideCase, shown: dict[str, Any], target: SideCase
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the expected records in the same form, with the key under the manifest's types and target column names."""
    types = shown["manifest"]["key"]["types"]
    records = []
    for record in case["expected"]:
        kinds = [source.columns.get(name) or declared("text") for name in case["spec"]["key"]]
        cells = [value(cell, kind) for cell, kind in zip(record["key"], kinds, strict=True)]
        key = [canonical(cell, kind) for cell, kind in zip(cells, types, strict=True)]
        columns = tuple(sorted(target_name(name, case, target) for name in record["columns"]))
        records.append((record["category"], json.dumps(key), columns))
    return sorted(records)


def target_name(name: str, case: dict[str, Any], target: SideCase) -> str:
    """Return the target's name of a source column."""
    columns = case["spec"].get("columns") or {}
    if name in columns.get("map", {}):
        return str(columns["map"][name])
    if columns.get("names") == "case_insensitive":
        return next(other for other in target.columns if other.casefold() == name.casefold())
    return name


def check_error(case: dict[str, Any], answer: Answer) -> None:
    """Check a refusal: exit 2, a stable code, a message that says what the case asks for, no manifest."""
    assert answer.code == 2, f"exit {answer.code} instead of 2: {answer.output}"
    error = answer.output.get("error")
    assert isinstance(error, dict), answer.output
    assert error.keys() >= {"code", "message", "where", "remedy"}, error
    assert re.fullmatch(r"DELTA_[A-Z0-9_]+", error["code"]), error
    text = f"{error['message']} {error['where'] or ''}"
    named = [rf"\b{side}\b" for side in ("source", "target") if re.search(rf"\b{side}\b", case["expected_error"])]
    wanted, unwanted = ERRORS.get(case["id"], (named, []))
    missing = [pattern for pattern in wanted if not re.search(pattern, text, re.DOTALL)]
    assert not missing, f"{text!r} lacks {missing}; wanted: {case['expected_error']}"
    wrong = [pattern for pattern in unwanted if re.search(pattern, text)]
    assert not wrong, f"{text!r} has {wrong}; wanted: {case['expected_error']}"


def check_schema(case: dict[str, Any], shown: dict[str, Any], folder: Path) -> None:
    """Check the columns without a partner against the structure document."""
    structure = json.loads(blob(folder, shown["manifest"]["structure"]["sha256"]))
    found = {
        kind: sorted(finding["column"] for finding in structure["findings"] if finding["kind"] == kind)
        for kind in ("column_dropped", "column_added")
    }
    wanted = {
        "column_dropped": sorted(case["expected_schema"].get("only_in_source", [])),
        "column_added": sorted(case["expected_schema"].get("only_in_target", [])),
    }
    assert found == wanted


def check_counts(case: dict[str, Any], shown: dict[str, Any]) -> None:
    """Check further totals; a total that this runner does not know fails."""
    members = {"null_key_rows": "null_key", "duplicate_key_rows": "duplicate_key", "skipped_rows": "skipped"}
    for name, sides in case["expected_counts"].items():
        population = shown["manifest"]["population"]
        assert {side: population[side][members[name]] for side in sides} == sides, f"{name}: {population}"


def check_population(shown: dict[str, Any]) -> None:
    """Check that every row landed somewhere (docs/contract.md, 6)."""
    manifest = shown["manifest"]
    population, categories = manifest["population"], manifest["categories"]
    for side, one_sided in (("source", "dropped"), ("target", "added")):
        counts = population[side]
        placed = population["unchanged"] + categories["value_diverged"]["records"] + categories[one_sided]["records"]
        assert counts["rows"] == placed + counts["null_key"] + counts["duplicate_key"] + counts["skipped"], population
