"""What Airflow knows of the run that showed a manifest: approvals of its patches, and the asset events that told of it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import quote

from airflow_delta_provider.plugins.caller import Caller
from airflow_delta_provider.web.scope import Approval, Around, Event, Seen

EVENTS_MAX = 20
TIME_CHARS = 19
ENDED = ("failed", "removed", "skipped", "success", "upstream_failed")
"""States of a task that waits for nobody any more."""


def around_of(session: Any, caller: Caller, seen: Seen) -> Around:
    """Return what the caller may see of the run that showed a manifest."""
    dag_id = seen.origin["dag_id"]
    approvals = list(_approvals(session, seen)) if caller.may_read_approvals(dag_id) else []
    return Around(approvals, list(_events(session, caller, seen)))


def _approvals(session: Any, seen: Seen) -> Iterator[Approval]:
    """Yield the questions of the run that name the manifest, as the task that asks for an approval does."""
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    dag_id, run_id = seen.origin["dag_id"], seen.origin["run_id"]
    query = (
        select(
            TaskInstance.task_id,
            TaskInstance.map_index,
            TaskInstance.state,
            HITLDetail.body,
            HITLDetail.chosen_options,
            HITLDetail.responded_at,
            HITLDetail.responded_by,
        )
        .join(TaskInstance, HITLDetail.ti_id == TaskInstance.id)
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
        .order_by(TaskInstance.task_id, TaskInstance.map_index)
    )
    for task_id, map_index, state, body, chosen, at, by in session.execute(query):
        if seen.manifest not in (body or ""):
            continue
        parts = [quote(part, safe="") for part in (dag_id, run_id, task_id)]
        path = f"../dags/{parts[0]}/runs/{parts[1]}/tasks/{parts[2]}"
        path += f"/mapped/{map_index}/required_actions" if map_index >= 0 else "/required_actions"
        if at is None and state not in ENDED:
            yield Approval(task_id, escape(path))
        elif at is not None:
            said, who = ", ".join(map(str, chosen or ())) or "nothing", (by or {}).get("name") or "nobody"
            yield Approval(task_id, escape(path), said, str(who), str(at)[:TIME_CHARS])


def _events(session: Any, caller: Caller, seen: Seen) -> Iterator[Event]:
    """Yield the events of the run's outlets that carry the manifest."""
    from airflow.models.asset import AssetEvent, AssetModel, TaskOutletAssetReference
    from sqlalchemy import select

    outlets = select(TaskOutletAssetReference.asset_id).where(TaskOutletAssetReference.dag_id == seen.origin["dag_id"])
    query = (
        select(AssetModel.id, AssetModel.name, AssetEvent.extra, AssetEvent.timestamp)
        .join(AssetModel, AssetEvent.asset_id == AssetModel.id)
        .where(AssetEvent.asset_id.in_(outlets), AssetEvent.source_run_id == seen.origin["run_id"])
        .order_by(AssetEvent.timestamp)
        .limit(EVENTS_MAX)
    )
    for asset_id, name, extra, at in session.execute(query):
        if (extra or {}).get("digest") == seen.manifest and caller.may_read_asset(asset_id):
            yield Event(name, f"../assets/{asset_id}", str(at)[:TIME_CHARS])
