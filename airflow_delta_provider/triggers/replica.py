"""A replica seen from the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.hooks.replicas import caught_up
from airflow_delta_provider.triggers.migration import POLL_INTERVAL_S


class ReplicaTrigger(BaseTrigger):
    """End the deferral of a ``ReplicaCaughtUpSensor``: one event once the replica is there, or with what was refused."""

    def __init__(self, replica_conn_id: str, position: str, poll_interval_s: float = POLL_INTERVAL_S) -> None:
        super().__init__()
        self.members: dict[str, Any] = {
            "replica_conn_id": replica_conn_id,
            "position": position,
            "poll_interval_s": poll_interval_s,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger of again."""
        return "airflow_delta_provider.triggers.replica.ReplicaTrigger", dict(self.members)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield once. A refusal is told to the task; what a retry may mend goes up, and the task is tried again."""
        from asgiref.sync import sync_to_async

        while True:
            try:
                there = await sync_to_async(caught_up)(self.members["replica_conn_id"], self.members["position"])
            except DeltaError as error:
                if error.retryable:
                    raise
                yield TriggerEvent({"error": str(error)})
                return
            if there:
                yield TriggerEvent({"position": self.members["position"]})
                return
            await asyncio.sleep(self.members["poll_interval_s"])
