"""Every handed case whose target is a table: patched, proved, patched again, taken back, proved again."""

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
    """The two sides of a case in real engines, and what the target holds."""

    def __init__(self, case: dict[str, Any], folder: Path, database_for: Callable[[str], str]) -> None:
        try:
            self.source, self.target = parse_side(case["source_side"]), parse_side(case["target_side"])
        except UnknownNotation as unknown:
            pytest.skip(f"the runner can't read it: {unknown}")
        hand = [engine for engine in at_hand() if engine != "csv" or self.source.raw]
        chosen = choose_pair(self.source, self.target, case["id"], SEED, hand)
        if chosen[1][0] in FILES or not chosen[1][0]:
            databases = [engine for engine in hand if engine not in FILES]
            chosen = chosen[0], choose_pair(self.target, self.target, case["id"], SEED, databases)[1]
        if not all(name for name, _ in chosen) or chosen[1][0] in FILES:
            pytest.skip("no database at hand holds the target exactly")
        if {"session_time_zone"} & (self.source.hints.keys() | self.target.hints.keys()):
            pytest.skip("the zone of a session is no matter of the patch")
        self.engine = chosen[1][0]
        self.folder = folder
        stem = re.sub(r"[^a-z0-9]", "_", case["id"].lower())
        self.places: list[Place] = []
        for side, (engine, _), which in zip(
            (self.source, self.target), chosen, ("apply_source", "apply_target"), strict=True
        ):
            uri = database_for(engine)
            self.places.append(write_side(engine, side, f"{stem}_{which}", folder, Databases(uri, uri)))
        self.name, self.uri = f"{stem}_apply_target", database_for(self.engine)

    def rows(self) -> list[list[Any]]:
        """Return the target's rows in plain form, in any order."""
        found = read_back(self.engine, self.target, self.name, self.folder, Databases(self.uri, self.uri))
        kinds = list(self.target.columns.values())
        return sorted(([plain(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in found), key=repr)


def _ids(case: dict[str, Any]) -> str:
    return f"{case['id']}:{case['kind']}"


def _turns() -> list[Any]:
    """Return the cases about patches as they are, and all others for the long suite."""
    return [
        pytest.param(case, id=_ids(case), marks=() if ABOUT_PATCHES.match(case["kind"]) else pytest.mark.nightly)
        for case in CASES
    ]


@pytest.mark.parametrize("case", _turns())
def test_a_patch_makes_the_sides_equal_and_a_rollback_brings_the_target_back(case, tmp_path, database_for):
    """Whatever a case is about, a repair must carry its values exactly, write nothing twice, and leave a way back."""
    written = Written(case, tmp_path, database_for)
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


def expected_rows_of(case: dict[str, Any], written: Written, rows: list[list[Any]]) -> list[list[Any]]:
    """Return the rows that a case expects in the target, in plain form."""
    side = parse_side({**case["target_side"], "rows": rows})
    kinds = list(side.columns.values())
    return sorted(([plain(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in side.rows), key=repr)
