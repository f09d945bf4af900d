"""Patches in Airflow: planned, approved, applied, noted in the ledger's sidecar, and taken back."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import context_of, run_dag, write_table

from airflow_delta_provider.core import log
from airflow_delta_provider.core.store import blobs, open_store

pytestmark = pytest.mark.usefixtures("metadata")
ANSWER = {
    "chosen_options": ["Approve"],
    "params_input": {},
    "responded_at": datetime(2026, 11, 1, 12, tzinfo=UTC),
    "responded_by_user": {"id": "7", "name": "Ada"},
}


def spec_of() -> dict[str, Any]:
    sides = {
        name: {"conn_id": conn, "table": "orders", "label": f"{conn}:orders"}
        for name, conn in (("source", "old"), ("target", "new"))
    }
    return {"name": "orders", **sides, "key": ["id"]}


def rows_of(path: Path) -> list[Any]:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT * FROM orders ORDER BY id").fetchall()
    connection.close()
    return found


def repair_dag(dag_id: str) -> Any:
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile_and_patch

    with DAG(dag_id) as dag:
        reconcile_and_patch(spec_of(), patch_args={"max_share": "20%"})
    return dag


@pytest.fixture
def manifest(world: Path) -> str:
    """The manifest of the two tables of ``world``, in its store."""
    return compared(world)


def compared(world: Path) -> str:
    """Compare the tables of ``world``; return the manifest."""
    from airflow_delta_provider.adapters.open import open_side
    from airflow_delta_provider.core.spec import parse_spec
    from airflow_delta_provider.engine.run import reconcile

    form = spec_of()
    for name, conn in (("source", "old"), ("target", "new")):
        form[name] = {"uri": f"sqlite:///{world}/{conn}.db", "table": "orders", "label": f"{conn}:orders"}
    return reconcile(parse_spec(form), open_store(str(world / "store")), open_side).receipt.manifest


def planned(manifest: str) -> str:
    from airflow_delta_provider.operators.patches import PlanPatchOperator

    return str(PlanPatchOperator(task_id="plan", spec=spec_of(), manifest=manifest).execute(context_of("plan")))


def apply_of(manifest: str, plan: str, **more: Any) -> Any:
    from airflow_delta_provider.operators.patches import ApplyPatchOperator

    named = {"task_id": "apply", "plan": plan, "plan_task_id": "plan", "spec": spec_of(), "manifest": manifest}
    return ApplyPatchOperator(**{**named, **more})


def test_an_approved_patch_makes_the_sides_equal(world, capfd):
    """The whole graph, the approval taken as given; XComs hold digests only, and logs no values."""
    run = run_dag(repair_dag("repair"), mark_success_pattern=r"repair\.approve")
    assert run.state == "success"
    assert rows_of(world / "new.db") == rows_of(world / "old.db")
    assert all(len(digest) == 64 for digest in (run.returned[("repair.plan", -1)], run.returned[("repair.apply", -1)]))
    assert "secret" not in "".join(capfd.readouterr())


def test_a_person_sees_counts_and_a_link_and_no_values(manifest):
    """The question is kept in Airflow's database, where row values have no business."""
    from airflow_delta_provider.operators.approvals import ApprovePatchOperator

    ask = ApprovePatchOperator(task_id="approve", subject="Apply?", plan=planned(manifest), plan_task_id="plan")
    text = ask.question(context_of("approve"))
    assert "| update | 8 |" in text
    assert "| insert | 1 |" in text
    assert "| delete | 1 |" in text
    assert f"/delta/manifest?manifest={manifest}&dag_id=dag&store=delta_store_default" in text
    statements = [line for line in text.splitlines() if line.startswith("- `")]
    assert [line.split('"')[0] for line in statements] == ["- ` DELETE FROM ", "- ` UPDATE ", "- ` INSERT INTO "]
    assert "secret" not in text


def test_nobody_is_asked_where_nothing_would_be_written(world):
    """A Dag that runs every night would else wait for a person on every good one, and hold up what follows."""
    for name in ("old", "new"):
        write_table(world / f"{name}.db", [(1, 1, "x")])
    run = run_dag(repair_dag("nothing_to_repair"))
    assert (run.state, run.of("repair.approve"), run.of("repair.apply")) == ("success", "success", "success")


def test_who_approved_is_noted_and_a_rollback_restores_every_row(world, manifest):
    """Both may be repeated: a second apply writes nothing and logs no second note."""
    from airflow_delta_provider.operators.patches import RollbackPatchOperator

    before, plan, context = rows_of(world / "new.db"), planned(manifest), context_of("apply")
    patch = apply_of(manifest, plan, approval=ANSWER).execute(context)
    assert apply_of(manifest, plan, approval=ANSWER).execute(context_of("apply")) == patch
    store = open_store(str(world / "store"))
    (pair,) = log.list_pairs(store)
    sidecars = [entry.ref for entry in log.read_log(store, pair) if entry.kind == "sidecar"]
    notes = [json.loads(blobs.get_blob(store, ref)) for ref in sidecars]
    (note,) = [note for note in notes if note["for"] == context["ti"].pushed["ledger"]]
    assert note["approval"] == {
        "at": "2026-11-01 12:00:00+00:00",
        "by": {"id": "7", "name": "Ada"},
        "chosen": ["Approve"],
    }

    assert rows_of(world / "new.db") == rows_of(world / "old.db")
    RollbackPatchOperator(task_id="back", spec=spec_of(), patch=patch).execute(context_of("back"))
    assert rows_of(world / "new.db") == before


def test_a_row_that_was_written_since_fails_the_task_and_changes_nothing(world, manifest):
    """What was approved is another state; the default refuses as a whole."""
    from airflow_delta_provider._compat import AirflowFailException

    plan = planned(manifest)
    with sqlite3.connect(world / "new.db") as connection:
        connection.execute("UPDATE orders SET amount = -1 WHERE id = 10")
    connection.close()
    before = rows_of(world / "new.db")
    with pytest.raises(AirflowFailException, match="was refused: 1 rows or more were written since"):
        apply_of(manifest, plan).execute(context_of("apply"))
    assert rows_of(world / "new.db") == before


def test_scope_and_detail_reach_the_patch_and_its_rollback(world, manifest):
    """What is kept besides, and what the page shows of rows that were left, is said where the patch is."""
    from airflow_delta_provider.operators.patches import RollbackPatchOperator

    asked = {"conflicts": "skip", "checkpoint_scope": "ranges", "ledger_detail": "values"}
    plan = planned(manifest)
    with sqlite3.connect(world / "new.db") as connection:
        connection.execute("UPDATE orders SET amount = -1 WHERE id = 10")
    connection.close()
    applied = context_of("apply")
    patch = apply_of(manifest, plan, **asked).execute(applied)
    RollbackPatchOperator(task_id="back", spec=spec_of(), patch=patch, **asked).execute(context_of("back"))
    store = open_store(str(world / "store"))
    (pair,) = log.list_pairs(store)
    assert len(list(store.list(f"pairs/{pair}/slots/surroundings"))) == 2
    sidecars = [entry.ref for entry in log.read_log(store, pair) if entry.kind == "sidecar"]
    notes = [json.loads(blobs.get_blob(store, ref)) for ref in sidecars]
    (view,) = [note["ledger_view"] for note in notes if note["for"] == applied["ti"].pushed["ledger"]]
    assert view["detail"] == "values"
    assert [(row["key"], row["before"]) for row in view["conflicts"]] == [(["10"], ["-1"])]


def test_the_group_hands_scope_and_detail_to_its_tasks():
    """One specification of a repair says it once."""
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile_and_patch

    with DAG("scoped") as dag:
        reconcile_and_patch(spec_of(), patch_args={"checkpoint_scope": "ranges", "ledger_detail": "counts"})
    tasks = [dag.get_task(f"repair.{name}") for name in ("plan", "apply")]
    assert [(task.checkpoint_scope, task.ledger_detail) for task in tasks] == [("ranges", "counts")] * 2


def test_the_plan_of_another_rule_is_not_applied(world, manifest):
    """A person approved one plan, not whatever the task was edited to afterwards."""
    from airflow_delta_provider._compat import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"\[DELTA_INPUT_POLICY\] plan .* is of another manifest or rule"):
        apply_of(manifest, planned(manifest), rule="flag_for_review").execute(context_of("apply"))


def test_what_is_too_different_to_be_a_repair_stops_the_plan(world):
    """Beyond a tenth of the rows nobody is asked, and nobody can approve it by mistake."""
    write_table(world / "new.db", [(number, -1, "x") for number in range(200)])
    write_table(world / "old.db", [(number, number, "x") for number in range(200)])
    run = run_dag(repair_dag("too_different"))
    assert (run.of("repair.plan"), run.of("repair.approve")) == ("failed", "upstream_failed")
    assert rows_of(world / "new.db")[5] == (5, -1, "x")


def test_a_difference_that_was_patched_and_comes_back_is_held_to_a_threshold(world, manifest):
    """Patching the same rows every night hides the pipeline that breaks them."""
    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.operators.manifests import CheckManifestOperator

    broken = rows_of(world / "new.db")
    gate = {"task_id": "gate", "fail": {"recurring": 0}}
    assert CheckManifestOperator(manifest=manifest, **gate).execute(context_of("gate")) == manifest
    apply_of(manifest, planned(manifest)).execute(context_of("apply"))
    write_table(world / "new.db", broken)
    again = compared(world)
    with pytest.raises(AirflowFailException, match="recurring: 10 of 10, at most 0"):
        CheckManifestOperator(manifest=again, **gate).execute(context_of("gate"))
