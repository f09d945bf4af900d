"""Verify a published manifest, and hold it to thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import (
    AirflowFailException,
    AirflowSkipException,
    BaseOperator,
    BranchMixIn,
    Context,
)
from airflow_delta_provider.links import ManifestLink
from airflow_delta_provider.operators.common import STORE_CONN_ID, log_group, refusals_fail_without_retry
from airflow_delta_provider.operators.metrics import timed

if TYPE_CHECKING:
    from airflow_delta_provider.core.store.store import Store
    from airflow_delta_provider.engine.thresholds import Measured

FINDINGS_SHOWN = 20
RETURN_KEY = "return_value"


class VerifyManifestOperator(BaseOperator):
    """Verify a manifest with everything that it names, its place in the log, and who signed it.

    :param manifest: the manifest id (templated).
    :param trust: file with the trust document, or with one public key in PEM; without it the one that the connection
        names (templated).
    :param require_signature: fail where no trusted key signed; by default, where there is something to trust by.
    :return: the manifest id.
    :raises AirflowFailException: there is a finding, or the signature is missing or not trusted.
    """

    template_fields: Sequence[str] = ("manifest", "store_conn_id", "trust")
    operator_extra_links = (ManifestLink(),)
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        manifest: str,
        store_conn_id: str = STORE_CONN_ID,
        trust: str | None = None,
        require_signature: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.manifest = manifest
        self.store_conn_id = store_conn_id
        self.trust = trust
        self.require_signature = require_signature

    def execute(self, context: Context) -> str:
        """Verify, and report all findings."""
        from airflow_delta_provider.core.verify_store import VERIFIED, verify_published
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        with refusals_fail_without_retry(), timed("verify", context), log_group(self.log, "Verify manifest"):
            hook = DeltaStoreHook(self.store_conn_id)
            trust = hook.trust(self.trust)
            if self.require_signature and trust is None:
                raise AirflowFailException("A signature is required, but neither the task nor the store names a trust.")
            check, _ = verify_published(hook.get_conn(), self.manifest, trust=trust)
            self.log.info("%d findings; signature %s", len(check.findings), check.signature.status)
            for finding in check.findings[:FINDINGS_SHOWN]:
                self.log.error("[%s] %s: %s", finding.code, finding.place, finding.sentence)
        if check.findings:
            codes = ", ".join(dict.fromkeys(finding.code for finding in check.findings))
            raise AirflowFailException(f"Manifest {self.manifest} has {len(check.findings)} findings: {codes}.")
        if check.verdict != VERIFIED and self.require_signature is not False:
            raise AirflowFailException(
                f"Manifest {self.manifest} is {check.verdict}. {check.signature.reason}".rstrip()
            )
        return self.manifest


class CheckManifestOperator(BaseOperator, BranchMixIn):
    """Hold a manifest to thresholds: fail, skip what follows, choose a branch, or warn.

    Each of ``fail``, ``skip``, ``branch`` and ``warn`` maps a measure to the most that is allowed, a count (``10``) or a
    share (``"0.1%"``). Measures are ``records``, ``added``, ``dropped``, ``value_diverged``, ``columns.<name>``,
    ``structure`` and ``structure.column_added`` (``column_dropped``, ``type_changed``), and ``recurring``: records that
    were patched and came back, or that are in ``persisting`` runs in a row: a pipeline that breaks them anew. Without any of the four, one
    record that differs fails. A failing threshold goes before a skipping one, that before a branch; all are logged.

    :param manifest: the manifest id (templated).
    :param fail: beyond it the task fails, without retry (templated).
    :param skip: beyond it the task is skipped, and with it what follows (templated).
    :param branch: decides between ``beyond`` and ``within`` (templated).
    :param warn: beyond it a warning is logged (templated).
    :param beyond: ids of the tasks that follow where ``branch`` is beyond; the other direct successors are skipped.
    :param within: ids of the tasks that follow otherwise.
    :param persisting: runs in a row from which on a record counts as ``recurring``.
    :return: the manifest id.
    :raises AirflowFailException: the manifest is beyond ``fail``, or there is no such manifest, measure or column, or no log
        names the manifest (a part of a sample is no verdict).
    """

    template_fields: Sequence[str] = ("branch", "fail", "manifest", "skip", "store_conn_id", "warn")
    inherits_from_skipmixin = True
    operator_extra_links = (ManifestLink(),)
    ui_color = "#fce5cd"

    def __init__(
        self,
        *,
        manifest: str,
        store_conn_id: str = STORE_CONN_ID,
        fail: Mapping[str, int | str] | None = None,
        skip: Mapping[str, int | str] | None = None,
        branch: Mapping[str, int | str] | None = None,
        warn: Mapping[str, int | str] | None = None,
        beyond: str | Sequence[str] = (),
        within: str | Sequence[str] = (),
        persisting: int = 3,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.manifest = manifest
        self.store_conn_id = store_conn_id
        self.fail = fail
        self.skip = skip
        self.branch = branch
        self.warn = warn
        self.beyond = beyond
        self.within = within
        self.persisting = persisting

    def execute(self, context: Context) -> str:
        """Measure, and let the graph go on accordingly."""
        from airflow_delta_provider.engine.thresholds import breaches

        kinds = {"fail": self.fail, "skip": self.skip, "branch": self.branch, "warn": self.warn}
        if all(thresholds is None for thresholds in kinds.values()):
            kinds["fail"] = {"records": 0}
        with refusals_fail_without_retry(), timed("check", context) as step, log_group(self.log, "Check thresholds"):
            measured = self._measured()
            step.of(measured.manifest["pair"]["name"])
            beyond = {kind: breaches(measured, thresholds or {}, kind) for kind, thresholds in kinds.items()}
            for kind, found in beyond.items():
                for breach in found:
                    self.log.warning("%s: %s", kind, breach)
            self.log.info("%d thresholds, %d breached", sum(map(_size, kinds.values())), sum(map(len, beyond.values())))
        if beyond["fail"]:
            raise AirflowFailException(f"Manifest {self.manifest}: " + "; ".join(map(str, beyond["fail"])) + ".")
        if beyond["skip"]:
            raise AirflowSkipException(f"Manifest {self.manifest}: " + "; ".join(map(str, beyond["skip"])) + ".")
        if self.branch is not None:
            chosen = self.beyond if beyond["branch"] else self.within
            # Skipping ends the task by an exception, after which Airflow pushes no return value.
            context["ti"].xcom_push(key=RETURN_KEY, value=self.manifest)
            self.do_branch(context, [chosen] if isinstance(chosen, str) else list(chosen))
        return self.manifest

    def _measured(self) -> Measured:
        from airflow_delta_provider.engine.thresholds import read_measured, refuse_unpublished
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        store = DeltaStoreHook(self.store_conn_id).get_conn()
        measured = read_measured(store, self.manifest)
        refuse_unpublished(store, self.manifest, measured.manifest)
        return replace(measured, recurring=partial(self._recurring, store, measured))

    def _recurring(self, store: Store, measured: Measured) -> int:
        from airflow_delta_provider.core.documents import pair_id
        from airflow_delta_provider.engine.recurrence import find_recurring

        found = find_recurring(
            store, pair_id(**measured.manifest["pair"]), manifest=self.manifest, persisting=self.persisting
        )
        self.log.info("%d records recur, %d of them were patched before", len(found.records), found.came_back)
        return len(found.records)


def _size(thresholds: Mapping[str, Any] | None) -> int:
    return len(thresholds or {})
