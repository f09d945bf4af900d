"""Airflow's own approval, shown the counts of a planned patch. Imported only where it is used: it loads a lot."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_delta_provider._compat import Context
from airflow_delta_provider.links import page_address
from airflow_delta_provider.operators.common import STORE_CONN_ID, refusals_fail_without_retry
from airflow_delta_provider.operators.patches import plan_work


class ApprovePatchOperator(ApprovalOperator):
    """Ask a person whether a planned patch is to be applied; a rejection skips what follows.

    Where the patch would write nothing, nobody is asked, and what follows goes on.

    :param plan: digest of the plan, as the task ``plan_task_id`` returned it (templated).
    :param plan_task_id: id of the task that planned, its groups' ids included.
    :param store_conn_id: connection of type ``delta_store`` (templated).
    """

    template_fields: Collection[str] = ("plan", "store_conn_id", *ApprovalOperator.template_fields)

    def __init__(self, *, plan: str, plan_task_id: str, store_conn_id: str = STORE_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.plan_task_id = plan_task_id
        self.store_conn_id = store_conn_id

    def execute(self, context: Context) -> Any:
        """Write the question, and wait; a patch of no row needs no answer."""
        if not any(self._plan(context)["counts"].values()):
            self.log.info("Nothing would be written, so nobody is asked")
            return None
        self.body = self.question(context)
        return super().execute(context)

    def question(self, context: Context) -> str:
        """Return what the person reads, as Markdown: counts, statements without their values, a link."""
        ti: Any = context["ti"]
        plan = self._plan(context)
        members = {"manifest": plan["manifest"], "dag_id": ti.dag_id, "store": self.store_conn_id}
        lines = [f"Patch `{plan['patch']}`", "", "| | rows |", "| --- | ---: |"]
        lines += [f"| {name} | {count} |" for name, count in plan["counts"].items()]
        lines += [f"| {name} | {count} |" for name, count in plan["outcomes"].items() if count and name != "planned"]
        lines += ["", f"[What differs]({page_address('manifest', members)})"]
        lines += ["", "The statements, without their values:", ""] if plan["statements"] else []
        return "\n".join([*lines, *(f"- {_code(one)}" for one in plan["statements"])])

    def _plan(self, context: Context) -> dict[str, Any]:
        ti: Any = context["ti"]
        with refusals_fail_without_retry():
            plan: dict[str, Any] = json.loads(plan_work(self.store_conn_id, ti, self.plan_task_id).get(self.plan))
        return plan


def _code(text: str) -> str:
    """Return a text as Markdown's code on one line, in more backticks than stand in it one after the other.

    A block of code would be shown as one run of text by Airflow.
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {' '.join(text.splitlines())} {fence}"
