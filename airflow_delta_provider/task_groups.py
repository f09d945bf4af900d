"""One specification as a whole graph: plan, each shard worked on its own, one merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta_provider._compat import TaskGroup, XComArg, task_group
from airflow_delta_provider.operators.common import STORE_CONN_ID
from airflow_delta_provider.operators.manifests import VerifyManifestOperator
from airflow_delta_provider.operators.patches import CONVERGED_KEY, ApplyPatchOperator, PlanPatchOperator
from airflow_delta_provider.operators.shards import (
    BuildSubManifestOperator,
    CompareShardOperator,
    MergeManifestOperator,
    PlanShardsOperator,
)
from airflow_delta_provider.operators.sweeps import (
    GENERATION_KEY,
    MergeSweepOperator,
    PlanSweepOperator,
    SweepGenerationOperator,
)


class Reconciliation(TaskGroup):
    """The task group of one reconciliation; ``manifest`` is the id of what it publishes, for the tasks that follow."""

    manifest: XComArg


def reconcile(
    spec: Mapping[str, Any] | str,
    *,
    group_id: str = "reconcile",
    store_conn_id: str = STORE_CONN_ID,
    signer_conn_id: str | None = None,
    shards: int | None = None,
    tasks: int | None = None,
    on_rerun: str = "reuse",
    outlets: Sequence[Any] = (),
    verify: bool = False,
    trust: str | None = None,
    shard_args: Mapping[str, Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
) -> Reconciliation:
    """Return a task group that compares two data sets and publishes one manifest. Call it inside a Dag.

    The group holds ``plan``, the mapped group ``shards`` with ``compare`` and ``build`` for each shard, ``merge``, and
    with ``verify`` a task of that name. Use the group for the order of tasks and its ``manifest`` as an argument:
    ``migrate >> orders`` and ``CheckManifestOperator(manifest=orders.manifest, ...)``.

    A side that can only be scanned (CSV, JSON Lines, files in another order than the key's) is scanned by every shard
    anew; it is one shard unless ``shards`` or the specification asks for more.

    :param spec: as of `PlanShardsOperator`.
    :param group_id: id of the group; the second reconciliation of a Dag needs another.
    :param shards: how many shards to aim for.
    :param tasks: most mapped tasks, as of `PlanShardsOperator`.
    :param signer_conn_id: connection of the signing key; without it nothing is signed.
    :param on_rerun: as of `MergeManifestOperator`.
    :param outlets: assets whose events tell of the manifest, such as ``assets.manifest_asset("orders")``.
    :param verify: verify the manifest, and with ``trust`` its signature, after the merge.
    :param shard_args: more arguments for the tasks of each shard, such as ``pool``, ``retries``, ``execution_timeout``.
    :param default_args: as of a task group.
    """
    group = Reconciliation(group_id=group_id, default_args=dict(default_args or {}))
    merge_task_id = group.child_id("merge")
    shared: dict[str, Any] = {"merge_task_id": merge_task_id, "store_conn_id": store_conn_id}
    more = dict(shard_args or {})
    with group:
        plan = PlanShardsOperator(task_id="plan", spec=spec, shards=shards, tasks=tasks, on_rerun=on_rerun, **shared)

        @task_group(group_id="shards")
        def each_shard(shard: Any) -> Any:
            compare = CompareShardOperator(task_id="compare", shard=shard, **shared, **more)
            return BuildSubManifestOperator(
                task_id="build", shard=shard, comparison=compare.output, **shared, **more
            ).output

        merge = MergeManifestOperator(
            task_id="merge",
            shards=plan.output,
            parts=each_shard.expand(shard=plan.output),
            signer_conn_id=signer_conn_id,
            on_rerun=on_rerun,
            outlets=list(outlets),
            store_conn_id=store_conn_id,
        )
        group.manifest = merge.output
        if verify:
            group.manifest = VerifyManifestOperator(
                task_id="verify", manifest=merge.output, store_conn_id=store_conn_id, trust=trust
            ).output
    return group


class Sweep(TaskGroup):
    """The task group of one sweep; ``manifest`` and ``generation`` are the digests of what it publishes."""

    manifest: XComArg
    generation: XComArg


def sweep(
    spec: Mapping[str, Any] | str,
    *,
    group_id: str = "sweep",
    store_conn_id: str = STORE_CONN_ID,
    signer_conn_id: str | None = None,
    shards: int | None = None,
    verify: bool = False,
    trust: str | None = None,
    shard_args: Mapping[str, Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
) -> Sweep:
    """Return a task group that tells what changed in one data set since its last sweep. Call it inside a Dag.

    The group holds ``plan``, the mapped task ``shards``, ``merge``, and with ``verify`` a task of that name. Its
    ``manifest`` is an ordinary one, as an argument of `CheckManifestOperator`; its ``generation`` is what
    ``engine.sweep_changes.changed_keys`` takes. Two runs at once start from the same generation, and the later one is
    refused: give the Dag ``max_active_runs=1``.

    :param spec: as of `PlanSweepOperator`.
    :param group_id: id of the group; the second sweep of a Dag needs another.
    :param shards: how many shards to aim for.
    :param signer_conn_id: connection of the signing key; without it nothing is signed.
    :param verify: verify the manifest, and with ``trust`` its signature, after the merge.
    :param shard_args: more arguments for the task of each shard, such as ``pool``, ``retries``, ``execution_timeout``.
    :param default_args: as of a task group.
    """
    group = Sweep(group_id=group_id, default_args=dict(default_args or {}))
    shared: dict[str, Any] = {"merge_task_id": group.child_id("merge"), "store_conn_id": store_conn_id}
    with group:
        plan = PlanSweepOperator(task_id="plan", spec=spec, shards=shards, **shared)
        swept = SweepGenerationOperator.partial(task_id="shards", **shared, **(shard_args or {})).expand(
            shard=plan.output
        )
        merge = MergeSweepOperator(
            task_id="merge",
            shards=plan.output,
            parts=swept.output,
            signer_conn_id=signer_conn_id,
            store_conn_id=store_conn_id,
        )
        group.manifest, group.generation = merge.output, merge.output[GENERATION_KEY]
        if verify:
            group.manifest = VerifyManifestOperator(
                task_id="verify", manifest=merge.output, store_conn_id=store_conn_id, trust=trust
            ).output
    return group


class Repair(TaskGroup):
    """The task group of a comparison and its patch; ``manifest``, ``patch`` and ``converged`` are digests."""

    manifest: XComArg
    patch: XComArg
    converged: XComArg


def reconcile_and_patch(
    spec: Mapping[str, Any] | str,
    *,
    group_id: str = "repair",
    store_conn_id: str = STORE_CONN_ID,
    reconcile_args: Mapping[str, Any] | None = None,
    patch_args: Mapping[str, Any] | None = None,
    approval_args: Mapping[str, Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
) -> Repair:
    """Return a task group that compares, plans a patch, asks a person, and applies it. Call it inside a Dag.

    The group holds the group ``reconcile`` and the tasks ``plan``, ``approve`` (Airflow's own approval: see "Required
    Actions") and ``apply``. A rejection skips ``apply``; where nothing would be written, nobody is asked.

    :param spec: as of `PlanShardsOperator`.
    :param reconcile_args: more arguments of `reconcile`, such as ``shards`` and ``signer_conn_id``, which signs the proof of
        the patch too.
    :param patch_args: arguments of `PlanPatchOperator` and `ApplyPatchOperator`, such as ``rule``, ``max_share``,
        ``checkpoint_scope`` and ``ledger_detail``.
    :param approval_args: arguments of Airflow's ``ApprovalOperator``, such as ``assigned_users``, ``response_timeout``.
    :param default_args: as of a task group.
    """
    from airflow_delta_provider.operators.approvals import ApprovePatchOperator

    group = Repair(group_id=group_id, default_args=dict(default_args or {}))
    with group:
        compared = reconcile(spec, store_conn_id=store_conn_id, **(reconcile_args or {}))
        shared: dict[str, Any] = {"manifest": compared.manifest, "spec": spec, "store_conn_id": store_conn_id}
        shared |= {"signer_conn_id": (reconcile_args or {}).get("signer_conn_id"), **(patch_args or {})}
        plan = PlanPatchOperator(task_id="plan", **shared)
        named: dict[str, Any] = {"plan": plan.output, "plan_task_id": plan.task_id}
        asked = {"subject": "Apply this patch?", **(approval_args or {})}
        approve = ApprovePatchOperator(task_id="approve", store_conn_id=store_conn_id, **named, **asked)
        patch = ApplyPatchOperator(task_id="apply", approval=approve.output, **named, **shared)
        approve >> patch
        group.manifest, group.patch, group.converged = compared.manifest, patch.output, patch.output[CONVERGED_KEY]
    return group
