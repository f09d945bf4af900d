"""Every handed case whose target is a table: patched, proved, patched again, taken back, proved again.

The cases about patches run on PostgreSQL, MariaDB and SQLite each, both sides in the same engine; the others, in the long
suite, on the engines that their turn gives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import servers
from cases import runner
from cases.engines import FILES, at_hand, choose_pair, parse_side
from cases.notation import UnknownNotation, read_cases
from cases.readback import plain, read_back
from cases.standins import PATCHED_ENGINES, on_engine, rows_on_engine
from cases.writers import Databases, Place, write_side

CASES = [
    case
    for case in read_cases(Path(os.environ.get("DELTA_CASES") or Path(__file__).with_name("handed.jsonl")))
    if case.get("expected") and case.get("source_side") and case.get("target_side")
]
SEED = int(os.environ.get("DELTA_CASES_SEED") or 0)
ABOUT_PATCHES = re.compile(r"apply\.|revert\.|.*_patch$")
LOSSY = {"DELTA_VALUE_LOSSY"}


@pytest.fixture(scope="session")
def database_for(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Give the URI of one shared database of a server that is started by its first use."""
    shared: dict[str, str] = {}

    def uri(engine: str) -> str:
        if engine not in ("postgresql", "mysql"):
            return ""
        if engine not in shared:
            name = "linguistic_postgresql_server" if engine == "postgresql" else "mariadb_server"
            server: servers.Server = request.getfixturevalue(name)
            shared[engine] = server.create_database()
        return shared[engine]

    return uri


class Written:
    """The two sides of a case in real engines, and what the target holds. ``engine``: of both, empty for a free choice."""

    def __init__(self, case: dict[str, Any], engine: str, folder: Path, database_for: Callable[[str], str]) -> None:
        sides = [case["source_side"], case["target_side"]]
        try:
            self.source, self.target = (parse_side(on_engine(side, engine) if engine else side) for side in sides)
        except UnknownNotation as unknown:
            pytest.skip(f"the runner can't read it: {unknown}")
        self.engine = engine
        engines = (engine, engine) if engine else self._chosen(case)
        self.engine = engines[1]
        self.folder = folder
        stem = re.sub(r"[^a-z0-9]", "_", case["id"].lower())
        self.places: list[Place] = []
        for side, engine, which in zip(
            (self.source, self.target), engines, ("apply_source", "apply_target"), strict=True
        ):
            uri = database_for(engine)
            self.places.append(write_side(engine, side, f"{stem}_{which}", folder, Databases(uri, uri)))
        self.name, self.uri = f"{stem}_apply_target", database_for(self.engine)

    def _chosen(self, case: dict[str, Any]) -> tuple[str, str]:
        """Return the engines of both sides by turn, the target's being a database."""
        hand = [engine for engine in at_hand() if engine != "csv" or self.source.raw]
        chosen = choose_pair(self.source, self.target, case["id"], SEED, hand)
        if chosen[1][0] in FILES or not chosen[1][0]:
            databases = [engine for engine in hand if engine not in FILES]
            chosen = chosen[0], choose_pair(self.target, self.target, case["id"], SEED, databases)[1]
        if not all(name for name, _ in chosen) or chosen[1][0] in FILES:
            pytest.skip("no database at hand holds the target exactly")
        if {"session_time_zone"} & (self.source.hints.keys() | self.target.hints.keys()):
            pytest.skip("the zone of a session is no matter of the patch")
        return chosen[0][0], chosen[1][0]

    def rows(self) -> list[list[Any]]:
        """Return the target's rows in plain form, in any order."""
        found = read_back(self.engine, self.target, self.name, self.folder, Databases(self.uri, self.uri))
        kinds = list(self.target.columns.values())
        return sorted(([plain(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in found), key=repr)


def _turns() -> list[Any]:
    """Return the cases about patches with each engine, and all others, engines by turn, for the long suite."""
    turns = []
    for case in CASES:
        name = f"{case['id']}:{case['kind']}"
        if ABOUT_PATCHES.match(case["kind"]):
            turns += [pytest.param(case, engine, id=f"{name}:{engine}") for engine in PATCHED_ENGINES]
        else:
            turns.append(pytest.param(case, "", id=name, marks=pytest.mark.nightly))
    return turns


@pytest.mark.parametrize(("case", "engine"), _turns())
def test_a_patch_makes_the_sides_equal_and_a_rollback_brings_the_target_back(case, engine, tmp_path, database_for):
    """Whatever a case is about, a repair must carry its values exactly, write nothing twice, and leave a way back."""
    written = Written(case, engine, tmp_path, database_for)
    before = written.rows()
    with runner.time_zone((case["options"] or {}).get("process_time_zone")):
        form = runner.specification(case, tuple(written.places), {})
        answer, shown = runner.run_case(form, tmp_path / "run")
        if not shown["records"]:
            pytest.skip("these engines make the sides equal")
        asked = ["--spec", str(tmp_path / "run" / "spec.yaml"), "--store", str(tmp_path / "run" / "store"), "--json"]
        planned = runner.call(["patch", answer.output["manifest"], "--dry-run", "--partial-deletes", *asked])
        assert written.rows() == before
        applied = runner.call(["patch", answer.output["manifest"], "--partial-deletes", *asked])
        after = written.rows()
        print(written.engine, planned.output, applied.output)
        if ABOUT_PATCHES.match(case["kind"]):
            assert applied.code == 0, applied.output
        assert applied.code == 0 or {row["reason"] for row in applied.output["left"]} == LOSSY, applied.output
        again = runner.call(["patch", answer.output["manifest"], "--partial-deletes", *asked])
        assert (again.code, again.output["ledger"]) == (applied.code, applied.output["ledger"])
        if case.get("after_apply"):
            assert after == expected_rows_of(case, written, case["after_apply"])
        back = runner.call(["rollback", applied.output["patch"], *asked])
        assert back.code == 0, back.output
        assert back.output["converged"] == answer.output["manifest"]
        assert written.rows() == before
        if case.get("after_revert"):
            assert before == expected_rows_of(case, written, case["after_revert"])


def test_the_cases_about_patches_are_on_three_engines():
    """A case that an engine's turn leaves out would pass unseen."""
    turns = [(case["id"], engine) for case, engine in (turn.values for turn in _turns()) if engine]
    assert len(turns) == len(set(turns)) == 3 * 15


def expected_rows_of(case: dict[str, Any], written: Written, rows: list[list[Any]]) -> list[list[Any]]:
    """Return the rows that a case expects in the target, in plain form."""
    form = case["target_side"]
    held = rows_on_engine(rows, form, written.engine) if ABOUT_PATCHES.match(case["kind"]) else rows
    side = parse_side({**(on_engine(form, written.engine) if held is not rows else form), "rows": held})
    kinds = list(side.columns.values())
    return sorted(([plain(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in side.rows), key=repr)
