"""Plan, apply and take back a patch: the tasks that make one side what the other is, and prove it.

What is pushed are digests. The plan that a person approves holds counts and statements without their values; it lies in
the work folder of the planning task, so that an approval of another plan applies nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import AirflowFailException, BaseOperator, Context
from airflow_delta_provider.core.errors import InputPolicyError
from airflow_delta_provider.links import ManifestLink
from airflow_delta_provider.operators.common import (
    STORE_CONN_ID,
    log_group,
    refusals_fail_without_retry,
    sign_with,
    spec_of,
)
from airflow_delta_provider.operators.metrics import timed

if TYPE_CHECKING:
    from airflow_delta_provider.core.spec import Spec
    from airflow_delta_provider.core.store.store import Store
    from airflow_delta_provider.engine.patching import PatchOptions, PatchOutcome
    from airflow_delta_provider.engine.work import Work

LEDGER_KEY = "ledger"
CONVERGED_KEY = "converged"


def plan_work(store_conn_id: str, ti: Any, plan_task_id: str) -> Work:
    """Return where the planning task of this run leaves its plan."""
    from airflow_delta_provider.core.store.slots import run_slot
    from airflow_delta_provider.engine.work import Work
    from airflow_delta_provider.hooks.store import DeltaStoreHook

    return Work(DeltaStoreHook(store_conn_id).get_conn(), run_slot(ti.dag_id, ti.run_id, plan_task_id, -1))


class PatchOperator(BaseOperator):
    """Base of the operators that patch.

    :param spec: the specification that the manifest was made by, as of `PlanShardsOperator` (templated).
    :param conflicts: ``refuse`` (any row that was written since leaves the table as it was) or ``skip`` (it is left).
    :param allow: names of triggers and foreign keys that may act.
    :param batch_rows: under ``skip``, changes that are committed together; None is all in one transaction.
    :param pause_s: seconds between two batches.
    :param checkpoint_scope: ``touched`` (the touched rows are kept as they were) or ``ranges`` (also all between them).
    :param ledger_detail: what the page shows of rows that were left: ``counts``, ``keys``, ``digests`` or ``values``.
    :param trust: file with the trust document; without it the one that the store's connection names (templated).
    :param signer_conn_id: connection of type ``delta_signer`` that signs the manifest of the proof; without it that one is
        not signed (templated).
    :param store_conn_id: connection of type ``delta_store`` (templated).
    """

    template_fields: Sequence[str] = ("signer_conn_id", "spec", "store_conn_id", "trust")
    template_fields_renderers = {"spec": "json"}  # noqa: RUF012 - Airflow's own form
    template_ext: Sequence[str] = (".yaml", ".yml")
    operator_extra_links = (ManifestLink(),)
    ui_color = "#f7dfd0"

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str,
        conflicts: str = "refuse",
        allow: Sequence[str] = (),
        batch_rows: int | None = None,
        pause_s: float = 0.0,
        checkpoint_scope: str = "touched",
        ledger_detail: str = "keys",
        trust: str | None = None,
        signer_conn_id: str | None = None,
        store_conn_id: str = STORE_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.conflicts = conflicts
        self.allow = allow
        self.batch_rows = batch_rows
        self.pause_s = pause_s
        self.checkpoint_scope = checkpoint_scope
        self.ledger_detail = ledger_detail
        self.trust = trust
        self.signer_conn_id = signer_conn_id
        self.store_conn_id = store_conn_id

    def opened(self) -> tuple[Spec, Store, dict[str, Any]]:
        """Return specification, store, and how sides and writers are opened in Airflow."""
        from airflow_delta_provider.hooks.keys import hmac_key_for
        from airflow_delta_provider.hooks.sides import open_side
        from airflow_delta_provider.hooks.store import DeltaStoreHook
        from airflow_delta_provider.hooks.writers import open_writer

        spec = spec_of(self.spec)
        seams = {"open_side": open_side, "open_writer": open_writer, "hmac_key": hmac_key_for(spec)}
        return spec, DeltaStoreHook(self.store_conn_id).get_conn(), seams

    def options(self, **more: Any) -> PatchOptions:
        """Return how to patch."""
        from airflow_delta_provider.engine.patching import PatchOptions
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        trust = DeltaStoreHook(self.store_conn_id).trust(self.trust)
        return PatchOptions(
            conflicts=self.conflicts,
            allow=frozenset(self.allow),
            trust=trust,
            batch_rows=self.batch_rows,
            pause_s=self.pause_s,
            sign=sign_with(self.signer_conn_id),
            checkpoint_scope=self.checkpoint_scope,
            ledger_detail=self.ledger_detail,
            **more,
        )

    def settle(self, context: Context, outcome: PatchOutcome) -> str:
        """Push ledger and proof; fail where nothing was applied, or where it was and is not proved."""
        counts = ", ".join(f"{count} {name}" for name, count in outcome.outcomes.items())
        self.log.info("Patch %s: %s", outcome.patch_id, counts)
        if not outcome.applied:
            raise AirflowFailException(
                f"Patch {outcome.patch_id} was refused: {outcome.outcomes['conflict']} rows or more were written since the"
                " comparison. Nothing was changed."
            )
        context["ti"].xcom_push(key=LEDGER_KEY, value=outcome.ledger)
        context["ti"].xcom_push(key=CONVERGED_KEY, value=outcome.converged)
        if not outcome.proved:
            said = f"Patch {outcome.patch_id}: {outcome.left_rows} rows are not as they should be."
            if self.conflicts == "refuse":
                raise AirflowFailException(said)
            self.log.warning(said)
        return outcome.patch_id


class PlanPatchOperator(PatchOperator):
    """Say what a patch would do; no table is written to.

    :param manifest: the manifest id (templated).
    :param rule: ``source_authoritative``, ``last_writer_wins`` or ``flag_for_review``.
    :param column: the column that ``last_writer_wins`` looks at.
    :param side: the side that is written to.
    :param partial_deletes: rows may be deleted by a manifest over a part of the keys, or under a filter.
    :param max_share: the largest share of the side's rows that may change, such as ``"10%"``.
    :param max_age_s: the oldest manifest, in seconds.
    :return: digest of the plan, without values, in the work folder of this task.
    :raises AirflowFailException: a refusal, such as DELTA_PATCH_SHARE.
    """

    template_fields: Sequence[str] = ("manifest", *PatchOperator.template_fields)

    def __init__(
        self,
        *,
        manifest: str,
        rule: str = "source_authoritative",
        column: str | None = None,
        side: str = "target",
        partial_deletes: bool = False,
        max_share: str = "10%",
        max_age_s: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.manifest = manifest
        self.rule = rule
        self.column = column
        self.side = side
        self.partial_deletes = partial_deletes
        self.max_share = max_share
        self.max_age_s = max_age_s

    def options(self, **more: Any) -> PatchOptions:
        """Return how to patch."""
        from airflow_delta_provider.core.patch import PatchRule

        return super().options(
            rule=PatchRule(self.rule, self.column, self.side),
            partial_deletes=self.partial_deletes,
            max_share=_share(self.max_share),
            max_age_s=self.max_age_s,
            **more,
        )

    def execute(self, context: Context) -> str:
        """Plan, and leave what an approval shows."""
        from airflow_delta_provider.engine.patching import plan_patch

        with refusals_fail_without_retry(), timed("plan_patch", context) as step, log_group(self.log, "Plan patch"):
            spec, store, seams = self.opened()
            step.of(spec.name)
            plan = plan_patch(spec, store, self.manifest, self.options(), **seams)
            self.log.info("Patch %s: %s", plan.patch_id, dict(plan.counts))
            shown = {
                "counts": dict(plan.counts),
                "manifest": plan.manifest,
                "outcomes": dict(plan.outcomes),
                "patch": plan.patch_id,
                "statements": list(dict.fromkeys(one["sql"] for one in plan.statements)),
            }
            work = plan_work(self.store_conn_id, context["ti"], context["ti"].task_id)
            return work.put(json.dumps(shown, sort_keys=True).encode())


class ApplyPatchOperator(PlanPatchOperator):
    """Apply a patch: checkpoint, guarded writes, ledger, proof. Safe to repeat; the second time it writes nothing.

    Its arguments are those of the `PlanPatchOperator` whose plan it applies.

    :param plan: digest of the plan, as the task ``plan_task_id`` returned it (templated).
    :param plan_task_id: id of the task that planned, its groups' ids included.
    :param approval: the answer of an approval (templated); who gave it and when goes to the ledger's sidecar.
    :return: the patch id. Ledger and proving manifest are pushed under ``ledger`` and ``converged``.
    :raises AirflowFailException: a refusal, rows in conflict under ``refuse``, or an outcome that is not proved.
    """

    template_fields: Sequence[str] = ("approval", "plan", *PlanPatchOperator.template_fields)

    def __init__(self, *, plan: str, plan_task_id: str, approval: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.plan_task_id = plan_task_id
        self.approval = approval

    def execute(self, context: Context) -> str:
        """Apply what was planned, and note who approved it."""
        from airflow_delta_provider.engine.patching import apply_patch

        with (
            refusals_fail_without_retry(),
            timed("apply_patch", context) as step,
            log_group(self.log, "Apply patch"),
        ):
            spec, store, seams = self.opened()
            step.of(spec.name)
            options = self.options()
            planned = json.loads(plan_work(self.store_conn_id, context["ti"], self.plan_task_id).get(self.plan))
            if planned["patch"] != options.rule.patch_id(self.manifest):
                raise InputPolicyError(f"plan {self.plan} is of another manifest or rule.", where="plan")
            outcome = apply_patch(spec, store, self.manifest, options, **seams)
            if outcome.ledger is not None and self.approval:
                _note_approval(store, spec, outcome.ledger, self.approval, context["ti"])
            self.manifest = outcome.converged or self.manifest
            step.tell_changes(outcome.outcomes)
        return self.settle(context, outcome)


class RollbackPatchOperator(PatchOperator):
    """Take a patch back where its rows are still what it left, and prove the old state. Safe to repeat.

    :param patch: the patch id (templated).
    :return: the id of the rollback. Ledger and proving manifest are pushed under ``ledger`` and ``converged``.
    :raises AirflowFailException: a refusal, rows in conflict under ``refuse``, or an outcome that is not proved.
    """

    template_fields: Sequence[str] = ("patch", *PatchOperator.template_fields)

    def __init__(self, *, patch: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.patch = patch
        self.manifest: str | None = None

    def execute(self, context: Context) -> str:
        """Take it back."""
        from airflow_delta_provider.engine.patching import rollback_patch

        with (
            refusals_fail_without_retry(),
            timed("roll_back_patch", context) as step,
            log_group(self.log, "Roll back patch"),
        ):
            spec, store, seams = self.opened()
            step.of(spec.name)
            outcome = rollback_patch(spec, store, self.patch, self.options(), **seams)
            self.manifest = outcome.converged
            step.tell_changes(outcome.outcomes)
        return self.settle(context, outcome)


def _share(text: str) -> Any:
    """Return a share such as ``10%`` or ``0.1``. Raises: InputPolicyError."""
    from fractions import Fraction

    try:
        return Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError) as error:
        raise InputPolicyError(f"max_share is a share such as 10%, not {text[:40]!r}.", where="max_share") from error


def _note_approval(store: Store, spec: Spec, ledger: str, approval: Mapping[str, Any], ti: Any) -> None:
    """Log a sidecar of the ledger that says who approved the patch, and when."""
    from airflow_delta_provider.core import checkpoint, jsonc
    from airflow_delta_provider.core.log import pair_id_of
    from airflow_delta_provider.core.store import blobs

    user = approval.get("responded_by_user") or {}
    facts = {
        "airflow": {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id},
        "approval": {
            "at": str(approval.get("responded_at")),
            "by": {name: str(user[name]) for name in ("id", "name") if name in user},
            "chosen": [str(option) for option in approval.get("chosen_options") or ()],
        },
        "for": ledger,
    }
    source = spec.source.label if spec.source is not None else ""
    pair_id = pair_id_of(spec.name, source, spec.target.label)
    checkpoint.log_once(store, pair_id, "sidecar", blobs.put_blob(store, jsonc.dumps(facts)))
