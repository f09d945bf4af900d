"""Sweeps as task groups: what they publish, what they hand over, and what a hole or a second sweep does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import context_of, run_dag, write_table

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.documents import Document
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.engine.sweep import sweep as sweep_data_set
from airflow_delta_provider.engine.sweep_changes import changed_keys

pytestmark = pytest.mark.usefixtures("metadata")
DIGEST = re.compile(r"[0-9a-f]{64}")
TARGET = {"conn_id": "new", "table": "orders", "label": "new:orders"}


def spec_of(**members: Any) -> dict[str, Any]:
    return {"name": "orders", "target": TARGET, "key": ["id"], "shards": {"bounds": [[30], [60]]}, **members}


def sweep_dag(dag_id: str, **options: Any) -> Any:
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import sweep

    with DAG(dag_id) as dag:
        sweep(spec_of(), **options)
    return dag


def blob(folder: Path, digest: str) -> Document:
    data = (folder / "store" / "blobs" / "sha256" / digest[:2] / digest[2:4] / digest).read_bytes()
    return dict(json.loads(data))


def test_two_nights_are_the_sweeps_of_the_command_line(world, capfd):
    """One format, one digest: who swept, and in how many tasks, is no part of it; XComs hold digests, logs no values."""
    nights = [[(number, number, f"secret-{number}") for number in range(90)]]
    nights.append([(number, number + (number == 31), f"secret-{number}") for number in range(5, 91)])
    form = spec_of(target={"uri": f"sqlite:///{world}/new.db", "table": "orders", "label": "new:orders"})
    other = open_store(str(world / "other"))
    for name, rows in zip(("sweep_first", "sweep_second"), nights, strict=True):
        write_table(world / "new.db", rows)
        run = run_dag(sweep_dag(name, verify=True))
        expected = sweep_data_set(parse_spec(form, sweep=True), other, open_side, workers=1)
        assert (run.state, run.returned[("sweep.verify", -1)]) == ("success", expected.receipt.manifest)
    plain = [value if isinstance(value, list) else [value] for value in run.returned.values()]
    assert all(DIGEST.fullmatch(digest) for values in plain for digest in values)
    assert run.labels[("sweep.shards", 1)] == "[30 .. 60)"
    newest = blob(world, run.returned[("sweep.merge", -1)])
    assert [newest["categories"][name]["records"] for name in ("added", "dropped", "value_diverged")] == [1, 5, 1]
    text = "".join(capfd.readouterr())
    assert "Shard 2 of 3: 30 read, 0 new, 1 changed, 0 absent, 0 failed" in text
    assert "secret" not in text


def run_steps(merge_id: str, lost: tuple[int, ...] = ()) -> tuple[Any, dict[str, Any]]:
    """Plan and sweep without a Dag run; return the operator that would merge, and its context."""
    from airflow_delta_provider.operators.sweeps import MergeSweepOperator, PlanSweepOperator, SweepGenerationOperator

    plan = PlanSweepOperator(task_id="plan", merge_task_id=merge_id, spec=spec_of())
    shards = plan.execute(context_of("plan"))
    parts = []
    for number, shard in enumerate(shards):
        one = SweepGenerationOperator(task_id="shards", merge_task_id=merge_id, shard=shard)
        if number not in lost:
            parts.append(one.execute(context_of("shards", number)))
    return MergeSweepOperator(task_id=merge_id, shards=shards, parts=parts), context_of(merge_id)


def test_a_merge_hands_over_its_generation(world):
    """What follows reads the changed keys by it; a merge that is repeated hands over the same one."""
    merge, context = run_steps("merge")
    manifest = merge.execute(context)
    generation = context["ti"].pushed["generation"]
    assert blob(world, generation)["manifest"] == manifest
    assert len(list(changed_keys(open_store(str(world / "store")), generation))) == 90
    again = context_of("merge")
    assert merge.execute(again) == manifest
    assert again["ti"].pushed == {"generation": generation}


def test_a_shard_that_was_not_swept_is_a_hole(world):
    """A key range is not to vanish, and the trigger rule lets the merge see that it did."""
    from airflow_delta_provider._compat import AirflowFailException

    merge, context = run_steps("merge", lost=(1,))
    assert merge.trigger_rule == "none_failed"
    with pytest.raises(
        AirflowFailException, match=r"\[DELTA_MERGE_GAP\] 1 of 3 shards were not swept: 2 \[30 \.\. 60\)"
    ):
        merge.execute(context)


def test_of_two_sweeps_from_one_generation_one_is_refused(world):
    """Both planned from the same predecessor: the later merge would fork the history, and no retry mends that."""
    from airflow_delta_provider._compat import AirflowFailException

    one, context = run_steps("one")
    write_table(world / "new.db", [(1, 1, "x")])
    other, later = run_steps("other")
    one.execute(context)
    with pytest.raises(AirflowFailException, match=r"\[DELTA_GENERATION_CHAIN\]"):
        other.execute(later)
    assert later["ti"].pushed == {}


def test_a_source_in_a_sweep_is_refused(world):
    """A sweep compares with its last generation; a second side would be read by nobody."""
    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.operators.sweeps import PlanSweepOperator

    plan = PlanSweepOperator(task_id="plan", merge_task_id="merge", spec=spec_of(source=TARGET))
    with pytest.raises(AirflowFailException, match=r"\[DELTA_SPEC"):
        plan.execute(context_of("plan"))
