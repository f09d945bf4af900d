"""Migrations seen from the triggerer: one that a task waits for, and each new one as an event that starts Dags."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.hooks.migrations import MigrationSource

if TYPE_CHECKING:
    from airflow_delta_provider.engine.migrations import Migrated

POLL_INTERVAL_S = 60.0
STATE_KEY = "delta_migrations"
REMEMBERED_MAX = 1000
"""Revisions that Airflow's asset state remembers; the slots of a store have no such limit."""
MODULE = "airflow_delta_provider.triggers.migration"


async def _read(source: MigrationSource) -> Migrated:
    """Read in a thread: drivers and connections block."""
    from asgiref.sync import sync_to_async

    state: Migrated = await sync_to_async(source.read)()
    return state


class MigrationAppliedTrigger(BaseTrigger):
    """End the deferral of a ``MigrationSensor``: one event when the revision is applied, or when waiting is no use."""

    def __init__(
        self,
        tool: str,
        conn_id: str | None = None,
        path: str | None = None,
        table: str | None = None,
        query: str | None = None,
        revision: str | None = None,
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        super().__init__()
        self.source = MigrationSource(tool, conn_id, path, table, query)
        self.revision = revision
        self.poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger of again."""
        more = {"revision": self.revision, "poll_interval_s": self.poll_interval_s}
        return f"{MODULE}.MigrationAppliedTrigger", {**self.source.members, **more}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield once. A refusal is told to the task; what a retry may mend goes up, and the task is tried again."""
        while True:
            try:
                state = await _read(self.source)
            except DeltaError as error:
                if error.retryable:
                    raise
                yield TriggerEvent({"error": str(error)})
                return
            if state.has(self.revision):
                yield TriggerEvent({"revisions": len(state.revisions)})
                return
            await asyncio.sleep(self.poll_interval_s)


class MigrationTrigger(BaseEventTrigger):
    """Start what watches an asset after each migration, once for each state that the tool records.

    Use it in an ``AssetWatcher``. What was seen is remembered in Airflow's asset state where there is one (Airflow 3.3 and
    a watcher of one asset), else in write-once slots of a store; nothing is written to the migrated database. The state found
    first is an event too. An event comes a second time only where the triggerer ends within one poll after it.

    :param tool: as of ``MigrationSensor``, and so are ``conn_id``, ``path``, ``table`` and ``query``.
    :param revision: fire only while this revision is applied; None for any.
    :param store_conn_id: connection of type ``delta_store`` for the slots.
    :param poll_interval_s: seconds between two looks.
    """

    def __init__(
        self,
        tool: str,
        conn_id: str | None = None,
        path: str | None = None,
        table: str | None = None,
        query: str | None = None,
        revision: str | None = None,
        store_conn_id: str = "delta_store_default",
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        super().__init__()
        self.source = MigrationSource(tool, conn_id, path, table, query)
        self.revision = revision
        self.store_conn_id = store_conn_id
        self.poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger of again."""
        more = {
            "revision": self.revision,
            "store_conn_id": self.store_conn_id,
            "poll_interval_s": self.poll_interval_s,
        }
        return f"{MODULE}.MigrationTrigger", {**self.source.members, **more}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each state that was not seen before, for ever; each is remembered one poll after its event.

        What a database or file refuses for now is looked at again; a refusal that stays goes up, and Airflow logs it.
        """
        fired: str | None = None
        while True:
            try:
                state = await _read(self.source)
            except DeltaError as error:
                if not error.retryable:
                    raise
                self.log.warning("%s: %s", self.source.tool, error)
            else:
                if fired is not None:
                    await self._remember(fired)
                    fired = None
                if state.has(self.revision) and not await self._seen(state.digest):
                    yield TriggerEvent({"tool": self.source.tool, "revision": self.revision, "state": state.token})
                    fired = state.digest
            await asyncio.sleep(self.poll_interval_s)

    async def _seen(self, digest: str) -> bool:
        remembered = await self._remembered()
        if remembered is not None:
            return digest in remembered
        from asgiref.sync import sync_to_async

        return bool(await sync_to_async(self._claimed)(digest))

    async def _remember(self, digest: str) -> None:
        remembered = await self._remembered()
        if remembered is not None:
            state: Any = self.asset_state_store
            await state.aset(STATE_KEY, [*remembered, digest][-REMEMBERED_MAX:])
            return
        from asgiref.sync import sync_to_async

        await sync_to_async(self._claim)(digest)

    async def _remembered(self) -> list[str] | None:
        """Return what the asset state holds, None where this Airflow has none or several assets are watched."""
        state: Any = getattr(self, "asset_state_store", None)
        if state is None:
            return None
        try:
            return list(await state.aget(STATE_KEY, []) or [])
        except ValueError:
            return None

    def _claimed(self, digest: str) -> bool:
        from airflow_delta_provider.core.store.slots import read_slot

        return read_slot(self._store(), self._slots(), "run", digest) is not None

    def _claim(self, digest: str) -> None:
        from airflow_delta_provider.core.store.slots import claim

        claim(self._store(), self._slots(), "run", digest, digest)

    def _store(self) -> Any:
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        return DeltaStoreHook(self.store_conn_id).get_conn()

    def _slots(self) -> str:
        """Return where the slots of this trigger lie: beside those of pairs, under an id that no pair has."""
        from airflow_delta_provider.core.documents import pair_id

        return pair_id("delta-migrations", f"{self.source.label}|{self.revision or ''}", "")
