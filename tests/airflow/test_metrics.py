"""What Airflow's own metrics are told, seen by a twin of their backend."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import context_of, run_dag, write_table

pytestmark = pytest.mark.usefixtures("metadata")
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ORDERS = {"source": {"conn_id": "old", "table": "orders"}, "target": {"conn_id": "new", "table": "orders"}}
SPEC = {"name": "orders", "key": ["id"], **ORDERS}


class Twin:
    """Keeps what a metrics backend of Airflow is told, ours alone."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, Any, dict[str, str]]] = []

    def _keep(self, kind: str, name: str, value: Any, tags: Any) -> None:
        if name.startswith("delta."):
            self.told.append((kind, name, value, dict(tags)))

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        self._keep("counter", stat, count, tags)

    decr = incr

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None) -> None:
        self._keep("gauge", stat, value, tags)

    def timing(self, stat: str, dt: Any, *, tags: Any = None) -> None:
        self._keep("timer", stat, dt, tags)

    def timer(self, *args: Any, **more: Any) -> Any:
        from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

        return NoStatsLogger().timer(*args, **more)

    def values(self, name: str) -> list[Any]:
        return [value for _, told, value, _ in self.told if told == name]


@pytest.fixture
def twin() -> Iterator[Twin]:
    """The backend of Airflow's metrics in this process."""
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    from airflow_delta_provider._compat import Stats

    made = Twin()
    Stats.initialize(factory=lambda: made, export_legacy_names=True)
    yield made
    Stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


def test_a_reconciliation_tells_durations_rows_and_differences(world, twin):
    """An operations team sees that a verdict got worse, or a step slower; metrics leave the machine, so no value is in one."""
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile

    with DAG("measured") as dag:
        reconcile(SPEC, shards=2)
    assert run_dag(dag).state == "success"
    durations = Counter(name for kind, name, value, _ in twin.told if kind == "timer" and value > timedelta(0))
    assert durations == {f"delta.{step}.duration": count for step, count in (("plan", 1), ("compare", 2), ("build", 2), ("merge", 1))}  # fmt: skip
    assert (sum(twin.values("delta.rows.source")), sum(twin.values("delta.rows.target"))) == (90, 90)
    assert all(speed > 0 for speed in twin.values("delta.compare.rows_per_second"))
    found = {name: twin.values(f"delta.discrepancies.{name}") for name in ("added", "dropped", "value_diverged")}
    assert found == {"added": [1], "dropped": [1], "value_diverged": [8]}
    assert {tags["pair"] for _, _, _, tags in twin.told} == {"orders"}
    assert {tags["task_id"] for _, name, _, tags in twin.told if name.startswith("delta.disc")} == {"reconcile.merge"}
    assert "secret" not in repr(twin.told)


def test_a_sweep_tells_the_rows_that_it_read(world, twin):
    """A sweep has no source; what is new counts as added."""
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import sweep

    with DAG("measured_sweep") as dag:
        sweep({"name": "stock", "key": ["id"], "target": ORDERS["target"]})
    assert run_dag(dag).state == "success"
    assert (twin.values("delta.rows.source"), twin.values("delta.rows.target")) == ([], [90])
    assert twin.values("delta.discrepancies.added") == [90]
    assert len(twin.values("delta.merge_sweep.duration")) == 1


def test_a_repair_tells_what_became_of_the_rows(world, twin):
    """Ten rows are written; a step that asks a person is no step of ours."""
    from airflow.sdk import DAG

    from airflow_delta_provider.task_groups import reconcile_and_patch

    with DAG("measured_repair") as dag:
        reconcile_and_patch(SPEC, patch_args={"max_share": "20%"})
    assert run_dag(dag, mark_success_pattern=r"repair\.approve").state == "success"
    assert twin.values("delta.patch_rows.applied") == [10]
    assert len(twin.values("delta.apply_patch.duration")) == 1


def test_a_refusal_is_counted_by_its_code_and_has_no_duration(world, twin):
    """A step that ends early would look fast."""
    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.operators.shards import PlanShardsOperator

    write_table(world / "new.db", [(1, 1, "x")], table="others")
    one = PlanShardsOperator(task_id="plan", spec={**SPEC, "target": {"conn_id": "new", "table": "nowhere"}})
    with pytest.raises(AirflowFailException) as raised:
        one.execute(context_of("plan"))
    ((kind, name, value, tags),) = twin.told
    assert (kind, name, value, tags["step"]) == ("counter", "delta.refusals", 1, "plan")
    assert f"[{tags['code']}]" in str(raised.value)


def test_every_metric_is_on_its_page():
    """A metric without a unit is read wrong."""
    from airflow_delta_provider.operators.metrics import CATEGORIES, STEPS

    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in (*STEPS, *CATEGORIES) if not re.search(rf"`{name}`", text)] == []
