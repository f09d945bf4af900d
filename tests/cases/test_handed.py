"""The handed cases, each run through the command line with real engines on both sides.

``DELTA_CASES`` names another file of cases, ``DELTA_CASES_SEED`` turns the free choice of engines,
``DELTA_CASES_ENGINES`` narrows it, ``DELTA_CASES_REPORT`` names a file for the table of results.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import servers
from cases import runner
from cases.engines import at_hand, choose_pair, parse_side
from cases.notation import UnknownNotation, read_cases
from cases.procedures import INDEX, exists
from cases.writers import Databases, Place, mysql_connection, write_side

CASES = read_cases(Path(os.environ.get("DELTA_CASES") or Path(__file__).with_name("handed.jsonl")))
SEED = int(os.environ.get("DELTA_CASES_SEED") or 0)
IN_A_PROCESS = {"rc-014", "rc-060", "rc-104", "rc-008"}
"""Cases that also run in a process of their own, one for each way to end."""


CASE_TIMEOUT_S = 150
CLEANUP_TIMEOUT_S = 20


def _ids(case: dict[str, Any]) -> str:
    return f"{case['id']}:{case['kind']}"


def _compared(case: dict[str, Any]) -> bool:
    asked = case.get("expected") is not None or case.get("expected_error") is not None
    return bool(asked and case.get("source_side") and case.get("target_side"))


@pytest.fixture(scope="session")
def database_for(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Give the URI of one shared database of a server that is started by its first use, or of a fresh one."""
    shared: dict[str, str] = {}

    def uri(engine: str, fresh: bool = False) -> str:
        if engine not in ("postgresql", "mysql"):
            return ""
        if fresh or engine not in shared:
            name = "linguistic_postgresql_server" if engine == "postgresql" else "mariadb_server"
            server: servers.Server = request.getfixturevalue(name)
            made = server.create_database()
            if fresh:
                return made
            shared[engine] = made
        return shared[engine]

    return uri


@pytest.fixture
def time_limit() -> Iterator[None]:
    """End a case that hangs, so that the others get their turn; the failure shows where it hung."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError(f"the case, or the end of it, takes more than {CASE_TIMEOUT_S} seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, CASE_TIMEOUT_S, CLEANUP_TIMEOUT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("case", [case for case in CASES if _compared(case)], ids=_ids)
def test_a_case_gives_the_expected_answer(case, tmp_path, database_for, record_property, monkeypatch):
    """Each of these went wrong in a tool of this kind; the answer must not depend on engines, shards or pages."""
    places = _written(case, tmp_path, database_for, record_property)
    with runner.time_zone((case["options"] or {}).get("process_time_zone")):
        if case.get("expected_error"):
            _check_refusal(case, places, tmp_path)
        else:
            _check_records(case, places, tmp_path, monkeypatch)


@pytest.mark.parametrize("case", [case for case in CASES if case.get("procedure")], ids=_ids)
def test_the_procedure_of_a_case(case, record_property):
    """What two tables can't show is a test of its own elsewhere; the table of results names it, and counts it apart."""
    record_property("case", f"{case['id']} {case['kind']}")
    record_property("covered", ", ".join(INDEX[case["id"]]))
    assert [place for place in INDEX[case["id"]] if not exists(place)] == []


def _written(case, tmp_path, database_for, record_property) -> tuple[Place, Place]:
    record_property("case", f"{case['id']} {case['kind']}")
    try:
        sides = parse_side(case["source_side"]), parse_side(case["target_side"])
    except UnknownNotation as unknown:
        pytest.skip(f"the runner can't read it: {unknown}")
    chosen = choose_pair(*sides, case["id"], SEED, at_hand())
    record_property("engines", " / ".join(name or "none" for name, _ in chosen))
    for name, reason in chosen:
        if not name:
            pytest.skip(reason)
    stem = re.sub(r"[^a-z0-9]", "_", case["id"].lower())
    places = []
    for side, (engine, _), which in zip(sides, chosen, ("source", "target"), strict=True):
        uri = database_for(engine, fresh="session_time_zone" in side.hints)
        name = f"{stem}_{which}"
        places.append(write_side(engine, side, name, tmp_path, Databases(postgresql=uri, mysql=uri)))
        if engine == "mysql" and which == "source" and "session_time_zone" in side.hints:
            _turn_clock(uri, side.hints["session_time_zone"])
    return places[0], places[1]


def _turn_clock(uri: str, zone: str) -> None:
    """Give new sessions of the MariaDB server the offset of a zone, for as long as the test process runs."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    offset = datetime(2025, 1, 1, tzinfo=ZoneInfo(zone)).strftime("%z")
    with mysql_connection(uri) as connection:
        connection.cursor().execute("SET GLOBAL time_zone = %s", (f"{offset[:3]}:{offset[3:]}",))


def _check_refusal(case: dict[str, Any], places: tuple[Place, Place], folder: Path) -> None:
    form = runner.specification(case, places, {})
    messages = set()
    for turn in range((case["options"] or {}).get("repeat", 1)):
        answer, shown = runner.run_case(form, folder / f"run{turn}", process=case["id"] in IN_A_PROCESS)
        assert not shown
        runner.check_error(case, answer)
        messages.add(str(answer.output["error"]["message"]))
    assert len(messages) == 1


def _check_records(case: dict[str, Any], places: tuple[Place, Place], folder: Path, monkeypatch) -> None:
    source, target = parse_side(case["source_side"]), parse_side(case["target_side"])
    digests = set()
    ways = [runner.variations(case)[0]] * ((case["options"] or {}).get("repeat", 1) - 1) + runner.variations(case)
    for turn, way in enumerate(ways):
        where = folder / f"run{turn}"
        with monkeypatch.context() as patch:
            if way.page_rows:
                runner.turn_pages(patch, way.page_rows)
            form = runner.specification(case, places, way.spec)
            answer, shown = runner.run_case(form, where, process=case["id"] in IN_A_PROCESS and turn == 0)
        assert shown, f"{way.label}: exit {answer.code}, {answer.output}"
        assert runner.found_records(shown) == runner.expected_records(case, source, shown, target), way.label
        assert answer.code == (1 if case["expected"] else 0), way.label
        runner.check_population(shown)
        if case.get("expected_schema"):
            runner.check_schema(case, shown, where)
        if case.get("expected_counts"):
            runner.check_counts(case, shown)
        digests.add(answer.output["manifest"])
    assert len(digests) == 1, "the manifest depends on shards, pages or the repetition"
