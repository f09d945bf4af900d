"""Wait until a replica has replayed what its source had written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta_provider._compat import AirflowFailException, BaseSensorOperator, Context
from airflow_delta_provider.operators.common import refusals_fail_without_retry
from airflow_delta_provider.sensors.migration import RETRIES_MIN

POSITION_KEY = "position"


class ReplicaCaughtUpSensor(BaseSensorOperator):
    """Wait until a replica has passed the position that its source has now, so that a comparison reads no stale rows.

    PostgreSQL is told by its WAL position, MySQL and MariaDB by GTIDs. The position is taken at the first look and kept
    (under the key ``position``), so a busy source does not run away from the wait. Nothing is written to either.

    :param source_conn_id: connection of the source, of type postgres or mysql (templated).
    :param replica_conn_id: connection of its replica, of the same type (templated).
    :param deferrable: wait in the triggerer.
    :raises AirflowFailException: the two are no replicas of each other, or the source's log gives no position.
    """

    template_fields: Sequence[str] = ("replica_conn_id", "source_conn_id")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        source_conn_id: str,
        replica_conn_id: str,
        deferrable: bool = False,
        mode: str = "reschedule",
        retries: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, retries=max(RETRIES_MIN, retries or 0), **kwargs)
        self.source_conn_id = source_conn_id
        self.replica_conn_id = replica_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once, then defer where that was asked for; else poke."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self._defer(self._position(context))
        return None

    def poke(self, context: Context) -> bool:
        """Tell whether the replica is there."""
        from airflow_delta_provider.hooks.replicas import caught_up

        with refusals_fail_without_retry():
            position = self._position(context)
            there = caught_up(self.replica_conn_id, position)
        self.log.info("Replica %s %s %s", self.replica_conn_id, "has passed" if there else "is before", position)
        return there

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """End the wait. Raises: AirflowFailException with what the trigger was refused."""
        if event.get("error"):
            raise AirflowFailException(str(event["error"]))

    def _position(self, context: Context) -> str:
        """Return the position that is waited for: the one of the first look."""
        from airflow_delta_provider.hooks.replicas import source_position

        ti: Any = context["ti"]
        kept = ti.xcom_pull(task_ids=ti.task_id, key=POSITION_KEY, map_indexes=ti.map_index)
        if kept is None:
            kept = source_position(self.source_conn_id).dump()
            ti.xcom_push(key=POSITION_KEY, value=kept)
        return str(kept)

    def _defer(self, position: str) -> None:
        from datetime import timedelta

        from airflow_delta_provider.triggers.replica import ReplicaTrigger

        timeout = self.timeout if isinstance(self.timeout, timedelta) else timedelta(seconds=self.timeout)
        trigger = ReplicaTrigger(self.replica_conn_id, position, float(self.poke_interval))
        self.defer(trigger=trigger, method_name="resume", timeout=timeout)
