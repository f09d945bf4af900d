"""Plan, sweep and merge: the tasks that tell what changed in one data set since its last generation.

The plan pins the generation that the sweep starts from, so a task that is retried or cleared never starts from another one.
A merge that is repeated returns what it had published; of two sweeps from one generation, one publishes and the other is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta_provider._compat import Context, TriggerRule, conf
from airflow_delta_provider.links import ManifestLink
from airflow_delta_provider.operators.common import (
    DeltaOperator,
    log_group,
    refusals_fail_without_retry,
    show_shard,
    sign_with,
    spec_of,
)
from airflow_delta_provider.operators.metrics import timed
from airflow_delta_provider.operators.shards import digests, skip_without_plan

GENERATION_KEY = "generation"
"""Key of the XCom with the digest of the generation that a merge published."""


class PlanSweepOperator(DeltaOperator):
    """Open the data set and its newest generation, and cut the key space into shards.

    :param spec: the sweep: a map as in a specification file with a ``target`` only, or the name of a YAML file beside the
        Dag (templated, every text in it).
    :param shards: how many shards to aim for; without it the specification's ``shards`` decide.
    :param predecessor: refuse unless the sweep continues from this generation (templated).
    :return: digests of the planned shards in key order, for ``expand``.
    :raises AirflowFailException: a refusal, such as DELTA_GENERATION_CONTEXT, or DELTA_LIMIT beyond
        ``[core] max_map_length``.
    """

    template_fields: Sequence[str] = ("predecessor", "spec", "store_conn_id")
    template_fields_renderers = {"spec": "json"}  # noqa: RUF012 - Airflow's own form
    template_ext: Sequence[str] = (".yaml", ".yml")
    ui_color = "#e3ddf2"

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str,
        shards: int | None = None,
        predecessor: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.shards = shards
        self.predecessor = predecessor

    def execute(self, context: Context) -> list[str]:
        """Plan, and store the shards."""
        from airflow_delta_provider.engine import sweep_steps
        from airflow_delta_provider.hooks.keys import hmac_key_for

        with refusals_fail_without_retry(), timed("plan_sweep", context) as step, log_group(self.log, "Plan sweep"):
            spec = spec_of(self.spec, sweep=True)
            step.of(spec.name)
            planned = sweep_steps.plan(
                spec,
                self.work(context),
                self.opener(),
                hmac_key=hmac_key_for(spec),
                shards=self.shards,
                shards_max=conf.getint("core", "max_map_length"),
                predecessor=self.predecessor,
            )
            self.log.info("%d shards", len(planned))
        return planned


class SweepGenerationOperator(DeltaOperator):
    """Sweep one shard: tell what is new, changed, unchanged and absent since the generation that the plan pinned.

    Safe to repeat: the same data gives the same bytes under the same digest.

    :param shard: digest of one planned shard (templated); map over it.
    :return: digest of the swept shard.
    :raises AirflowFailException: a refusal, such as DELTA_SIDE_CHANGED. A lost connection is retried.
    """

    template_fields: Sequence[str] = ("shard", "store_conn_id")
    ui_color = "#e3ddf2"

    def __init__(self, *, shard: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shard = shard

    def execute(self, context: Context) -> str:
        """Read the data set beside the digests of its last generation."""
        from airflow_delta_provider.engine import sweep_steps
        from airflow_delta_provider.hooks.keys import hmac_key_for

        with refusals_fail_without_retry(), timed("sweep", context) as step, log_group(self.log, "Sweep shard"):
            swept = sweep_steps.sweep_one(self.shard, self.work(context), self.opener(), key_of=hmac_key_for)
            show_shard(context, swept.shard.label)
            step.of(swept.shard.plan.spec.name)
            step.rows = {"target": swept.counts["read"]}
            counts = ", ".join(
                f"{swept.counts[name]} {name}" for name in ("read", "new", "changed", "absent", "failed")
            )
            self.log.info("Shard %d of %d: %s", swept.shard.number + 1, swept.shard.plan.shards, counts)
        return swept.digest


class MergeSweepOperator(DeltaOperator):
    """Merge all swept shards into one manifest and one generation, sign the manifest, and publish both.

    A hole never yields a manifest: every planned shard must have been swept, whatever became of its tasks. The trigger
    rule is ``none_failed``, so that skipped shards are refused here and not passed over.

    :param shards: digests of all planned shards (templated).
    :param parts: digests of the swept shards, in any order (templated).
    :param signer_conn_id: connection of type ``delta_signer``; without it the manifest is not signed (templated).
    :return: the manifest id. The digest of the generation is pushed under the key ``generation``.
    :raises AirflowFailException: a refusal, such as DELTA_MERGE_GAP, or DELTA_GENERATION_CHAIN where another sweep from
        the same generation was first.
    """

    template_fields: Sequence[str] = ("parts", "shards", "signer_conn_id", "store_conn_id")
    operator_extra_links = (ManifestLink(),)
    ui_color = "#cfc4ea"

    def __init__(
        self,
        *,
        shards: Sequence[str],
        parts: Sequence[str] | str,
        signer_conn_id: str | None = None,
        trigger_rule: str = TriggerRule.NONE_FAILED,
        **kwargs: Any,
    ) -> None:
        super().__init__(trigger_rule=trigger_rule, **kwargs)
        self.shards = shards
        self.parts = parts
        self.signer_conn_id = signer_conn_id
        self.manifest: str | None = None

    def execute(self, context: Context) -> str:
        """Merge, sign, publish, and clear the work folder."""
        from airflow_delta_provider.engine import sweep_steps
        from airflow_delta_provider.engine.thresholds import read_measured
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        ti = context["ti"]
        run = {"dag_id": ti.dag_id, "map_index": ti.map_index, "run_id": ti.run_id, "task_id": ti.task_id}
        skip_without_plan(self.shards)
        with (
            refusals_fail_without_retry(),
            timed("merge_sweep", context) as step,
            log_group(self.log, "Merge and publish"),
        ):
            shards, parts = digests(self.shards), digests(self.parts)
            self.log.info("%d swept shards of %d", len(parts), len(shards))
            published = sweep_steps.merge(
                shards,
                parts,
                self.work(context),
                sign=sign_with(self.signer_conn_id),
                facts={"airflow": {**run, "try_number": ti.try_number}},
            )
            self.manifest = published.manifest
            step.tell_discrepancies(
                read_measured(DeltaStoreHook(self.store_conn_id).get_conn(), self.manifest).manifest
            )
            earlier = published.receipt is None or published.receipt.reused
            said = "An earlier try had published manifest" if earlier else "Manifest"
            self.log.info("%s %s, generation %s", said, published.manifest, published.generation)
        ti.xcom_push(key=GENERATION_KEY, value=published.generation)
        return published.manifest
