"""Plan, compare, build and merge: the tasks that turn two tables into one published manifest.

Each of them may be retried or cleared at any time, and what a try of the run has finished is not computed again. The merge
clears the work folder of the run but for the plan and a list of results. Under ``on_rerun="reuse"`` a finished run that is
cleared returns what it had published and asks no side; under ``recompute`` and ``refuse`` it plans and compares anew. Two
merges of one run never publish two manifests unless ``on_rerun`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta_provider._compat import AirflowSkipException, Context, TriggerRule, conf
from airflow_delta_provider.links import ManifestLink, page_address
from airflow_delta_provider.operators.common import (
    DeltaOperator,
    log_group,
    refusals_fail_without_retry,
    show_shard,
    sign_with,
    spec_of,
)
from airflow_delta_provider.operators.metrics import Step, timed


class PlanShardsOperator(DeltaOperator):
    """Open both sides, fix what is compared and how, and cut the key space into shards.

    :param spec: the reconciliation: a map as in a specification file, or the name of a YAML file beside the Dag
        (templated, every text in it: ``table``, ``query``, ``filter``, ``key_range`` may use the data interval or params).
    :param shards: how many shards to aim for; without it the specification's ``shards`` decide. Where they are more than
        ``tasks``, each task takes several neighbouring ones, piece by piece.
    :param tasks: most mapped tasks, by default ``[core] max_map_length``, beyond which Airflow would refuse.
    :param on_rerun: as of `MergeManifestOperator`; ``reuse`` keeps the plan of the run when the task is cleared.
    :return: digests of the planned shards in key order, for ``expand``.
    :raises AirflowFailException: a refusal, such as DELTA_SPEC_FIELD.
    """

    template_fields: Sequence[str] = ("spec", "store_conn_id")
    template_fields_renderers = {"spec": "json"}  # noqa: RUF012 - Airflow's own form
    template_ext: Sequence[str] = (".yaml", ".yml")
    ui_color = "#dce9f5"

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str,
        shards: int | None = None,
        tasks: int | None = None,
        on_rerun: str = "reuse",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.shards = shards
        self.tasks = tasks
        self.on_rerun = on_rerun

    def execute(self, context: Context) -> list[str]:
        """Plan, and store the shards."""
        from airflow_delta_provider.engine import steps
        from airflow_delta_provider.hooks.keys import hmac_key_for

        with refusals_fail_without_retry(), timed("plan", context) as step, log_group(self.log, "Plan shards"):
            spec, most = spec_of(self.spec), conf.getint("core", "max_map_length")
            step.of(spec.name)
            planned = steps.plan(
                spec,
                self.work(context),
                self.opener(),
                hmac_key=hmac_key_for(spec),
                shards=self.shards,
                shards_max=most if self.tasks is None else min(self.tasks, most),
                on_rerun=self.on_rerun,
            )
            rows = {name: "?" if count is None else count for name, count in planned.rows_estimate.items()}
            self.log.info(
                "%d shards; about %s source rows, %s target rows", len(planned.shards), rows["source"], rows["target"]
            )
        return planned.shards


class CompareShardOperator(DeltaOperator):
    """Compare one shard of both sides and store what differs.

    Safe to repeat: the same data gives the same bytes under the same digest.

    :param shard: digest of one planned shard (templated); map over it.
    :return: digest of the stored raw comparison.
    :raises AirflowFailException: a refusal, such as DELTA_KEY_DUPLICATE. A lost connection is retried.
    """

    template_fields: Sequence[str] = ("shard", "store_conn_id")
    ui_color = "#dce9f5"

    def __init__(self, *, shard: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shard = shard

    def execute(self, context: Context) -> str:
        """Read both sides and compare."""
        from airflow_delta_provider.engine import steps
        from airflow_delta_provider.hooks.keys import hmac_key_for

        with refusals_fail_without_retry(), timed("compare", context) as step, log_group(self.log, "Compare shard"):
            compared = steps.compare(
                self.shard, self.work(context), self.opener(), key_of=hmac_key_for, tell=self.log.info
            )
            shard, rows = compared.shard, compared.population
            show_shard(context, shard.label)
            step.of(shard.plan.spec.name)
            if not compared.reused and not compared.taken:
                step.rows = {side: int(rows[side]["rows"]) for side in ("source", "target")}
            self.log.info(
                "Shard %d of %d: %d source rows, %d target rows, %d differ",
                shard.number + 1,
                shard.plan.shards,
                rows["source"]["rows"],
                rows["target"]["rows"],
                compared.records,
            )
            if compared.reused:
                pieces = len(shard.pieces)
                self.log.info("%d of %d pieces were finished by an earlier try of this run", compared.reused, pieces)
            if compared.taken:
                pieces = len(shard.pieces)
                self.log.info(
                    "%d of %d pieces were not read: both sides prove what an earlier run read", compared.taken, pieces
                )
        return compared.digest


class BuildSubManifestOperator(DeltaOperator):
    """Write the canonical records of one compared shard and its sub-manifest.

    :param shard: digest of the planned shard (templated).
    :param comparison: digest of its raw comparison (templated).
    :return: digest of the sub-manifest.
    :raises AirflowFailException: a refusal, such as DELTA_INPUT_SHARD.
    """

    template_fields: Sequence[str] = ("comparison", "shard", "store_conn_id")
    ui_color = "#dce9f5"

    def __init__(self, *, shard: str, comparison: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shard = shard
        self.comparison = comparison

    def execute(self, context: Context) -> str:
        """Build and store the sub-manifest."""
        from airflow_delta_provider.engine import steps

        with (
            refusals_fail_without_retry(),
            timed("build", context) as step,
            log_group(self.log, "Build sub-manifest"),
        ):
            built = steps.build(self.shard, self.comparison, self.work(context))
            show_shard(context, built.shard.label)
            step.of(built.shard.plan.spec.name)
            self.log.info("Shard %d of %d: %d records", built.shard.number + 1, built.shard.plan.shards, built.records)
        return built.digest


class MergeManifestOperator(DeltaOperator):
    """Merge the sub-manifests of all planned shards into one manifest, sign it, and publish it.

    A hole never yields a manifest: every planned shard must have its sub-manifest, whatever became of its tasks. The
    trigger rule is ``none_failed``, so that skipped shards are refused here and not passed over.

    :param shards: digests of all planned shards (templated).
    :param parts: digests of their sub-manifests, in any order (templated).
    :param signer_conn_id: connection of type ``delta_signer``; without it the manifest is not signed (templated).
    :param outlets: assets of this manifest, see ``assets.manifest_asset``: their events carry digest, verdict and counts.
    :param on_rerun: what a rerun of the same task run does where it computes another manifest than was published:
        ``reuse`` (that one stands), ``recompute`` (the new one is logged as well) or ``refuse``.
    :return: the manifest id.
    :raises AirflowFailException: a refusal, such as DELTA_MERGE_GAP.
    """

    template_fields: Sequence[str] = ("parts", "shards", "signer_conn_id", "store_conn_id")
    operator_extra_links = (ManifestLink(),)
    ui_color = "#c5dcf0"

    def __init__(
        self,
        *,
        shards: Sequence[str],
        parts: Sequence[str] | str,
        signer_conn_id: str | None = None,
        on_rerun: str = "reuse",
        trigger_rule: str = TriggerRule.NONE_FAILED,
        **kwargs: Any,
    ) -> None:
        super().__init__(trigger_rule=trigger_rule, **kwargs)
        self.shards = shards
        self.parts = parts
        self.signer_conn_id = signer_conn_id
        self.on_rerun = on_rerun
        self.manifest: str | None = None

    def execute(self, context: Context) -> str:
        """Merge, sign, publish, and clear the work folder."""
        from airflow_delta_provider.core.store.slots import run_slot
        from airflow_delta_provider.engine import steps
        from airflow_delta_provider.engine.opened import open_sides
        from airflow_delta_provider.hooks.keys import hmac_key_for

        ti = context["ti"]
        run = {"dag_id": ti.dag_id, "map_index": ti.map_index, "run_id": ti.run_id, "task_id": ti.task_id}
        skip_without_plan(self.shards)
        with (
            refusals_fail_without_retry(),
            timed("merge", context) as step,
            log_group(self.log, "Merge and publish"),
        ):
            shards, parts, opener = digests(self.shards), digests(self.parts), self.opener()
            self.log.info("%d sub-manifests for %d shards", len(parts), len(shards))
            published = steps.merge(
                shards,
                parts,
                self.work(context),
                slot_hex=run_slot(ti.dag_id, ti.run_id, ti.task_id, ti.map_index),
                sign=sign_with(self.signer_conn_id),
                on_rerun=self.on_rerun,
                tell=self.log.info,
                reopen=lambda spec: open_sides(spec, opener, hmac_key=hmac_key_for(spec)),
                facts={"airflow": {**run, "try_number": ti.try_number}},
            )
            self.manifest = published.manifest
            self._tell(context, step)
            if published.receipt is None:
                self.log.info("An earlier try had published manifest %s", published.manifest)
            elif published.receipt.reused:
                computed = published.receipt.computed
                self.log.warning("This run published %s before; %s was computed now", published.manifest, computed)
            else:
                self.log.info("Manifest %s, log entry %d", published.manifest, published.receipt.seq)
        return published.manifest

    def _tell(self, context: Context, step: Step) -> None:
        """Tell the metrics, and let the events of the assets carry digest, verdict, counts and the address of the page."""
        from airflow_delta_provider._compat import Asset
        from airflow_delta_provider.assets import event_of
        from airflow_delta_provider.engine.thresholds import read_measured
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        manifest_id = str(self.manifest)
        manifest = read_measured(DeltaStoreHook(self.store_conn_id).get_conn(), manifest_id).manifest
        step.tell_discrepancies(manifest)
        event = event_of(manifest_id, manifest)
        members = {"manifest": manifest_id, "dag_id": context["ti"].dag_id, "store": self.store_conn_id}
        event["page"] = page_address("manifest", members)
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra.update(event)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what lineage is told of the manifest: both sides, assertions on the target, the manifest; no values."""
        from airflow_delta_provider.lineage import lineage_of

        return lineage_of(self.manifest, self.store_conn_id, digests(self.shards), task_instance)


def skip_without_plan(shards: Sequence[str] | str | None) -> None:
    """Skip a merge whose plan was skipped, as a branch does: there is no shard that could be missing.

    Raises: AirflowSkipException.
    """
    if shards is None:
        raise AirflowSkipException("The plan was skipped, so there is nothing to merge.")


def digests(given: Sequence[str] | str | None) -> list[str]:
    """Return what a mapped task pushed, in one request; the tasks that pushed nothing are absent, as a hole.

    Of a mapped group with one member Airflow hands over the value itself, and of one without members nothing.
    """
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    return [digest for digest in given[:] if digest is not None]
