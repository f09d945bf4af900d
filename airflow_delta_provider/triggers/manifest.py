"""A manifest seen from the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.triggers.migration import POLL_INTERVAL_S


class ManifestTrigger(BaseTrigger):
    """End the deferral of a ``ManifestSensor``: one event with the manifest, or with what was refused."""

    def __init__(
        self,
        pair: str,
        verdict: str | None = None,
        newer_than: str | None = None,
        store_conn_id: str = "delta_store_default",
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        super().__init__()
        self.members: dict[str, Any] = {
            "pair": pair,
            "verdict": verdict,
            "newer_than": newer_than,
            "store_conn_id": store_conn_id,
            "poll_interval_s": poll_interval_s,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger of again."""
        return "airflow_delta_provider.triggers.manifest.ManifestTrigger", dict(self.members)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield once. A refusal is told to the task; what a retry may mend goes up, and the task is tried again."""
        from asgiref.sync import sync_to_async

        while True:
            try:
                digest = await sync_to_async(self._look)()
            except DeltaError as error:
                if error.retryable:
                    raise
                yield TriggerEvent({"error": str(error)})
                return
            if digest is not None:
                yield TriggerEvent({"manifest": digest})
                return
            await asyncio.sleep(self.members["poll_interval_s"])

    def _look(self) -> str | None:
        from airflow_delta_provider.engine.newest import newest_manifest
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        store = DeltaStoreHook(self.members["store_conn_id"]).get_conn()
        return newest_manifest(store, self.members["pair"], self.members["verdict"], self.members["newer_than"])
