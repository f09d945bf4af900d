"""Wait until a migration is applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta_provider._compat import AirflowFailException, BaseSensorOperator, Context
from airflow_delta_provider.hooks.migrations import MigrationSource
from airflow_delta_provider.operators.common import refusals_fail_without_retry

RETRIES_MIN = 2


class MigrationSensor(BaseSensorOperator):
    """Wait until a migration tool has recorded a revision, or any revision at all. Nothing is written.

    Waits in mode ``reschedule``, so that no worker slot is held. Retries are at least two: Airflow now and then fails a
    deferred task whose trigger is faster than its own deferral, and a database may be away while it is migrated.

    :param tool: ``alembic``, ``django``, ``flyway``, ``liquibase``, ``query`` or ``dbt``.
    :param conn_id: connection of the migrated database, of any type whose hook runs SQL; with dbt, of the object store
        (templated).
    :param revision: what must be applied; None waits for any. An Alembic head; a Flyway version, or the description of a
        repeatable migration; a Liquibase change set ``id`` or ``author:id``; a Django ``app.name``; a dbt node or
        invocation; the first value of the query (templated).
    :param path: the ``run_results.json`` of dbt, a path or an address (templated).
    :param table: the tool's table where it is not the usual one (templated).
    :param query: a SELECT; its first value, where neither NULL nor false, is the revision (templated).
    :param deferrable: wait in the triggerer.
    :raises AirflowFailException: a refusal, such as DELTA_SPEC_FIELD.
    """

    template_fields: Sequence[str] = ("conn_id", "path", "query", "revision", "table")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        tool: str,
        conn_id: str | None = None,
        revision: str | None = None,
        path: str | None = None,
        table: str | None = None,
        query: str | None = None,
        deferrable: bool = False,
        mode: str = "reschedule",
        retries: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, retries=max(RETRIES_MIN, retries or 0), **kwargs)
        self.tool = tool
        self.conn_id = conn_id
        self.revision = revision
        self.path = path
        self.table = table
        self.query = query
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once, then defer where that was asked for; else poke."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self._defer()
        return None

    def poke(self, context: Context) -> bool:
        """Tell whether the migration is applied."""
        with refusals_fail_without_retry():
            state = self._source().read()
        if state.unsettled:
            self.log.warning("%s: %s", self.tool, state.unsettled)
        self.log.info("%s: %d revisions are applied", self.tool, len(state.revisions))
        return state.has(self.revision)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """End well where the trigger saw the migration. Raises: AirflowFailException with what the trigger was refused."""
        if event.get("error"):
            raise AirflowFailException(str(event["error"]))

    def _defer(self) -> None:
        from airflow_delta_provider.triggers.migration import MigrationAppliedTrigger

        trigger = MigrationAppliedTrigger(
            **self._source().members, revision=self.revision, poll_interval_s=float(self.poke_interval)
        )
        self.defer(trigger=trigger, method_name="resume", timeout=self._left())

    def _left(self) -> Any:
        from datetime import timedelta

        return self.timeout if isinstance(self.timeout, timedelta) else timedelta(seconds=self.timeout)

    def _source(self) -> MigrationSource:
        return MigrationSource(self.tool, self.conn_id, self.path, self.table, self.query)
