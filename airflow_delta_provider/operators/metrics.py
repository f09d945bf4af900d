"""What the operators tell Airflow's own metrics: how long a step took, rows, differences, refusals. Counts, never values.

Names and units are in docs/metrics.md. Airflow sends them on, where its section ``[metrics]`` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

from airflow_delta_provider._compat import Context, Stats
from airflow_delta_provider.core.errors import DeltaError

PREFIX = "delta"
STEPS = (
    "plan",
    "compare",
    "build",
    "merge",
    "verify",
    "check",
    "plan_patch",
    "apply_patch",
    "roll_back_patch",
    "plan_sweep",
    "sweep",
    "merge_sweep",
)
CATEGORIES = ("added", "dropped", "value_diverged")


@dataclass(slots=True)
class Step:
    """One step under way, and what it has to say of itself.

    Units: ``rows`` by side, None where the step reads none or where an earlier try had read some of them.
    """

    name: str
    tags: dict[str, str]
    started: float = field(default_factory=monotonic)
    rows: Mapping[str, int] | None = None

    def of(self, pair: str) -> None:
        """Name the pair, by the name of its specification."""
        self.tags["pair"] = pair

    def tell_discrepancies(self, manifest: Mapping[str, Any]) -> None:
        """Tell how many records of each category a published manifest has."""
        self.of(manifest["pair"]["name"])
        for category in CATEGORIES:
            Stats.gauge(
                f"{PREFIX}.discrepancies.{category}", manifest["categories"][category]["records"], tags=self.tags
            )

    def tell_changes(self, outcomes: Mapping[str, int]) -> None:
        """Tell what became of the rows of a patch."""
        for outcome, count in outcomes.items():
            Stats.incr(f"{PREFIX}.patch_rows.{outcome}", count, tags=self.tags)

    def end(self) -> None:
        """Tell how long it took, and how many rows it read."""
        seconds = monotonic() - self.started
        Stats.timing(f"{PREFIX}.{self.name}.duration", timedelta(seconds=seconds), tags=self.tags)
        if self.rows is None:
            return
        for side, count in self.rows.items():
            Stats.incr(f"{PREFIX}.rows.{side}", count, tags=self.tags)
        if seconds > 0:
            Stats.gauge(f"{PREFIX}.{self.name}.rows_per_second", sum(self.rows.values()) / seconds, tags=self.tags)


@contextmanager
def timed(name: str, context: Context) -> Iterator[Step]:
    """Time one step, one of STEPS; a refusal is counted, and what failed has no duration."""
    ti: Any = context["ti"]
    step = Step(name, {"dag_id": str(ti.dag_id), "task_id": str(ti.task_id)})
    try:
        yield step
    except DeltaError as error:
        Stats.incr(f"{PREFIX}.refusals", 1, tags={**step.tags, "code": error.code, "step": name})
        raise
    step.end()
