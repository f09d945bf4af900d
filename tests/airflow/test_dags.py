"""Every Dag of ``dags/`` runs, and is short enough to be read."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import run_dag, write_table

pytestmark = pytest.mark.usefixtures("metadata")
DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture
def dags(world: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that loads a Dag of the folder by its id; ``legacy`` and ``shop`` are ``old`` and ``new`` of ``world``."""
    import os

    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("AIRFLOW_CONN_LEGACY", os.environ["AIRFLOW_CONN_OLD"])
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", os.environ["AIRFLOW_CONN_NEW"])

    def load(dag_id: str) -> Any:
        bag = DagBag(dag_folder=str(DAGS / f"{dag_id}.py"), bundle_name="dags-folder")
        assert bag.import_errors == {}
        return bag.dags[dag_id]

    return load


def test_after_migration_stops_at_a_difference(dags):
    """The quickstart: ten records differ, so the gate fails and nothing after it runs."""
    run = run_dag(dags("after_migration"))
    assert run.of("orders.verify") == "success"
    assert run.of("gate") == "failed"


@pytest.mark.parametrize(
    ("lost", "chosen", "skipped"),
    [(3, "ask_a_person", "report"), (0, "report", "ask_a_person")],
    ids=["rows were lost", "all is well"],
)
def test_thresholds_choose_a_branch(dags, world, lost, chosen, skipped):
    """Late rows go to a person, none go to the report; trailing blanks are no difference under the rule."""
    write_table(world / "old.db", [(number, number, "x") for number in range(90)])
    write_table(world / "new.db", [(number, number, "x  ") for number in range(90 - lost)])
    run = run_dag(dags("thresholds_and_branch"))
    assert (run.state, run.of(chosen), run.of(skipped)) == ("success", "success", "skipped")
    assert run.returned[("gate", -1)] == run.returned[("orders.merge", -1)]


def test_nightly_changes_maps_over_changed_records_only(dags, world):
    """The first night every record is new; the next one, one changed, and the others cost no task at all."""
    rows = [(number, number, "x") for number in range(12)]
    write_table(world / "new.db", rows)
    first = run_dag(dags("nightly_changes"))
    assert first.state == "success"
    assert first.returned[("changed", -1)] == [[str(number)] for number in range(12)]
    write_table(world / "new.db", [*rows[:7], (7, 70, "x"), *rows[8:]])
    second = run_dag(dags("nightly_changes"))
    assert second.returned[("changed", -1)] == [["7"]]
    assert [key for key in second.states if key[0] == "index_again"] == [("index_again", 0)]


def test_approve_then_patch_makes_the_tables_equal_and_roll_back_patch_undoes_it(dags, world):
    """The approval is taken as given; the patch is proved, and its id is all that the rollback is told."""
    before, wanted = rows_of(world / "new.db"), rows_of(world / "old.db")
    run = run_dag(dags("approve_then_patch"), mark_success_pattern=r"orders\.approve")
    assert (run.state, rows_of(world / "new.db")) == ("success", wanted)
    back = run_dag(dags("roll_back_patch"), run_conf={"patch": run.returned[("orders.apply", -1)]})
    assert (back.state, rows_of(world / "new.db")) == ("success", before)


def rows_of(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_every_dag_is_run_here_and_is_short():
    """A new Dag needs a test above, and no Dag more than 40 lines."""
    assert sorted(path.stem for path in DAGS.glob("*.py")) == [
        "after_migration",
        "approve_then_patch",
        "nightly_changes",
        "roll_back_patch",
        "thresholds_and_branch",
    ]
    assert all(len(path.read_text().splitlines()) <= 40 for path in DAGS.glob("*.py"))
