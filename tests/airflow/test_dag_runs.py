"""Whole Dag runs: what they publish, what they refuse, and what repeating them changes."""

from __future__ import annotations

import contextlib
import io
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import Run, clear_dag, run_dag, write_table

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.errors import SideReadError
from airflow_delta_provider.core.store import blobs, open_store

pytestmark = pytest.mark.usefixtures("metadata")
DIGEST = re.compile(r"[0-9a-f]{64}")
BOUNDS: dict[str, Any] = {"bounds": [[30], [60]]}


def spec_of(**members: Any) -> dict[str, Any]:
    return {
        "name": "orders",
        "source": {"conn_id": "old", "table": "orders", "label": "old:orders"},
        "target": {"conn_id": "new", "table": "orders", "label": "new:orders"},
        "key": ["id"],
        "shards": BOUNDS,
        **members,
    }


def reconcile_dag(
    spec: dict[str, Any], *, dag_id: str = "orders", params: dict[str, Any] | None = None, **options: Any
):
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile

    with DAG(dag_id, params=params) as dag:
        reconcile(spec, **options)
    return dag


def published(folder: Path) -> list[str]:
    """Return the ids of all manifests that are visible in a store."""
    store = open_store(str(folder / "store"))
    pairs = log.list_pairs(store)
    return [entry.ref for pair in pairs for entry in log.read_log(store, pair) if entry.kind == "manifest"]


def manifest_of(folder: Path, run: Run) -> documents.Document:
    store = open_store(str(folder / "store"))
    return documents.parse_manifest(blobs.get_blob(store, run.returned[("reconcile.merge", -1)]))


def run_command_line(folder: Path, spec: dict[str, Any]) -> str:
    """Return the digest that ``airflow-delta run`` gives for a specification, its connections written as files."""
    from airflow_delta_provider.cli import main

    form = {**spec}
    for name, conn_id in (("source", "old"), ("target", "new")):
        side = {member: value for member, value in spec[name].items() if member != "conn_id"}
        form[name] = {**side, "uri": f"sqlite:///{folder}/{conn_id}.db"}
    path = folder / "spec.json"
    path.write_text(json.dumps(form))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["run", str(path), "--store", str(folder / "other"), "--workers", "1", "--json"])
    return str(json.loads(out.getvalue())["manifest"])


def test_a_dag_publishes_what_the_command_line_publishes(world, capfd):
    """One format, one digest: who ran it, on how many workers and in how many shards, is no part of it.

    The same run shows the rest that every run has to show: digests alone in XComs, key ranges as labels, no values in logs.
    """
    run = run_dag(reconcile_dag(spec_of(), verify=True))
    assert run.state == "success"
    assert run.returned[("reconcile.merge", -1)] == run_command_line(world, spec_of())
    assert published(world) == [run.returned[("reconcile.verify", -1)]]

    plain = [value if isinstance(value, list) else [value] for value in run.returned.values()]
    assert len(plain) == 9
    assert all(DIGEST.fullmatch(digest) for values in plain for digest in values)

    labels = [run.labels[("reconcile.shards.compare", number)] for number in range(3)]
    assert labels == ["[ .. 30)", "[30 .. 60)", "[60 .. )"]
    assert [run.labels[("reconcile.shards.build", number)] for number in range(3)] == labels

    counts = manifest_of(world, run)["categories"]
    assert [counts[name]["records"] for name in ("added", "dropped", "value_diverged")] == [1, 1, 8]

    text = "".join(capfd.readouterr())
    assert "::group::Compare shard" in text
    assert "Shard 1 of 3: 30 source rows, 29 target rows, 3 differ" in text
    assert "secret" not in text
    assert "[30 .. 60)" not in "".join(line for line in text.splitlines() if "airflow_delta_provider" in line)


def test_a_shard_that_fails_leaves_no_manifest(world, monkeypatch):
    """The merge never runs over what is there; its log stays empty."""
    fail_shard(monkeypatch, SideReadError("the connection was closed."), times=9)
    run = run_dag(reconcile_dag(spec_of()))
    assert run.state == "failed"
    assert run.of("reconcile.shards.compare", 1) == "failed"
    assert run.of("reconcile.shards.build", 2) == "success"
    assert run.of("reconcile.merge") == "upstream_failed"
    assert published(world) == []


def test_a_shard_that_is_tried_again_gives_the_same_digest(world, monkeypatch):
    """A connection that drops costs one shard one more try and changes nothing."""
    fail_shard(monkeypatch, SideReadError("the connection was closed."), times=1)
    again = {"retries": 1, "retry_delay": timedelta(0)}
    run = run_dag(reconcile_dag(spec_of(), shard_args=again))
    assert run.state == "success"
    assert [run.tries[("reconcile.shards.compare", number)] for number in range(3)] == [1, 2, 1]
    assert published(world) == [run_command_line(world, spec_of())]


def test_a_shard_that_is_skipped_is_a_hole(world, monkeypatch):
    """Skipping is how people route round trouble in Airflow; a key range is not to vanish that way."""
    from airflow_delta_provider._compat import AirflowSkipException

    fail_shard(monkeypatch, AirflowSkipException("not today"), times=9)
    run = run_dag(reconcile_dag(spec_of(), default_args={"retries": 3, "retry_delay": timedelta(0)}))
    assert run.of("reconcile.shards.compare", 1) == "skipped"
    assert (run.of("reconcile.merge"), run.tries[("reconcile.merge", -1)]) == ("failed", 1)
    assert published(world) == []


def fail_shard(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> None:
    """Let the comparison of the second shard raise an error a number of times."""
    from airflow_delta_provider.engine import steps
    from airflow_delta_provider.engine.work import read_shards

    left, compare = [times], steps.compare

    def failing(shard: str, work: Any, *arguments: Any, **options: Any) -> steps.Compared:
        if read_shards(work, [shard])[0].number == 1 and left[0] > 0:
            left[0] -= 1
            raise error
        return compare(shard, work, *arguments, **options)

    monkeypatch.setattr(steps, "compare", failing)


def test_a_plan_without_shards_is_refused_by_the_merge(world):
    """Airflow skips what is mapped over nothing; without the merge's own check that would end green."""
    from airflow.sdk import DAG, task

    from airflow_delta_provider.operators.shards import CompareShardOperator, MergeManifestOperator

    with DAG("nothing") as dag:

        @task
        def plan() -> list[str]:
            return []

        shards = plan()
        parts = CompareShardOperator.partial(task_id="compare", merge_task_id="merge").expand(shard=shards)
        MergeManifestOperator(task_id="merge", shards=shards, parts=parts.output)
    run = run_dag(dag)
    assert run.of("compare") == "skipped"
    assert run.of("merge") == "failed"
    assert published(world) == []


def test_empty_tables_publish_an_empty_manifest(world):
    """Nothing on both sides is equal, and that is worth a signature too."""
    for name in ("old", "new"):
        write_table(world / f"{name}.db", [])
    run = run_dag(reconcile_dag(spec_of(shards={"count": 8})))
    manifest = manifest_of(world, run)
    assert run.state == "success"
    assert manifest["body"]["records"] == manifest["population"]["target"]["rows"] == 0


def test_a_refusal_is_not_retried(world):
    """A repeated try of a wrong specification costs a queue slot and an hour of backoff, and ends the same."""
    again = {"retries": 5, "retry_delay": timedelta(0)}
    run = run_dag(reconcile_dag(spec_of(key=["no_such_column"]), default_args=again))
    assert (run.of("reconcile.plan"), run.tries[("reconcile.plan", -1)]) == ("failed", 1)
    assert published(world) == []


def test_a_rerun_of_a_run_stands_by_its_manifest(world):
    """Clearing a whole run later must not change what it said; the policy recompute is there for those who want it."""
    from airflow.sdk import timezone

    when = timezone.datetime(2026, 11, 1)
    first = run_dag(reconcile_dag(spec_of(), dag_id="rerun"), logical_date=when, run_after=when)
    write_table(world / "new.db", [])
    second = run_dag(reconcile_dag(spec_of(), dag_id="rerun"), logical_date=when, run_after=when)
    digest = first.returned[("reconcile.merge", -1)]
    assert second.returned[("reconcile.merge", -1)] == digest
    assert published(world) == [digest]


@pytest.mark.parametrize(
    ("on_rerun", "reads", "differ"), [("reuse", 0, 10), ("recompute", 6, 90)], ids=["reuse", "recompute"]
)
def test_clearing_a_finished_run_asks_the_sides_as_its_policy_says(world, monkeypatch, on_rerun, reads, differ):
    """Counted by the statements that SQLite runs: ``reuse`` runs none at all, ``recompute`` reads both sides of each shard.

    The target was emptied in between, so what was compared anew shows.
    """
    from airflow.sdk import timezone

    when, dag = timezone.datetime(2026, 11, 1), reconcile_dag(spec_of(), dag_id=f"clear_{on_rerun}", on_rerun=on_rerun)
    first = run_dag(dag, logical_date=when, run_after=when)
    write_table(world / "new.db", [])
    asked = statements_of(monkeypatch)
    again = clear_dag(dag, when)
    assert (again.state, again.run_id) == ("success", first.run_id)
    assert set(again.tries.values()) == {2}
    assert sum(" AS c0" in statement and "ORDER BY" in statement for statement in asked) == reads
    assert bool(asked) == bool(reads)
    same = again.returned == first.returned
    assert same == (on_rerun == "reuse")
    assert manifest_of(world, again)["body"]["records"] == differ


def statements_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every statement that the sides run from now on is added."""
    from airflow_delta_provider.adapters.dialects import sqlite

    statements: list[str] = []
    connect_file = sqlite.connect_file

    def traced(path: str) -> Any:
        connection = connect_file(path)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite, "connect_file", traced)
    return statements


def test_table_filter_and_range_are_templates(world):
    """One Dag reconciles each day's partition: names and bounds come from the run."""
    from airflow.sdk import timezone

    for name in ("old", "new"):
        write_table(world / f"{name}.db", [(number, number, "x") for number in range(100)], "orders_20261101")
    sides = {
        name: {"conn_id": name_of, "table": "orders_{{ ds_nodash }}", "label": name}
        for name, name_of in (("source", "old"), ("target", "new"))
    }
    spec = spec_of(
        **sides,
        filter="amount < {{ params.most }}",
        key_range={"from": ["{{ logical_date.day * 10 }}"], "to": ["{{ params.most + 5 }}"]},
        shards={"count": 2},
    )
    when = timezone.datetime(2026, 11, 1)
    run = run_dag(reconcile_dag(spec, params={"most": 40}), logical_date=when, run_after=when)
    source = manifest_of(world, run)["population"]["source"]
    assert (source["rows"], source["skipped"]) == (35, 5)
