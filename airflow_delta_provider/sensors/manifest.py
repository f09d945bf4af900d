"""Wait until a manifest of a pair is published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta_provider._compat import AirflowFailException, BaseSensorOperator, Context
from airflow_delta_provider.operators.common import STORE_CONN_ID, refusals_fail_without_retry
from airflow_delta_provider.sensors.migration import RETRIES_MIN


class ManifestSensor(BaseSensorOperator):
    """Wait for a manifest of a pair: any, one with a verdict, one after another.

    Waits in mode ``reschedule``; only the newest manifest of the pair counts.

    :param pair: the name of a reconciliation that one pair of the store has, or a pair id (templated).
    :param verdict: ``equal`` or ``different``; None for either.
    :param newer_than: id of a manifest that does not count, nor any before it (templated). A pair without it waits.
    :param store_conn_id: connection of type ``delta_store`` (templated).
    :param deferrable: wait in the triggerer.
    :return: the manifest id.
    :raises AirflowFailException: a refusal, such as DELTA_INPUT_POLICY where two pairs have that name.
    """

    template_fields: Sequence[str] = ("newer_than", "pair", "store_conn_id")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        pair: str,
        verdict: str | None = None,
        newer_than: str | None = None,
        store_conn_id: str = STORE_CONN_ID,
        deferrable: bool = False,
        mode: str = "reschedule",
        retries: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, retries=max(RETRIES_MIN, retries or 0), **kwargs)
        self.pair = pair
        self.verdict = verdict
        self.newer_than = newer_than
        self.store_conn_id = store_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once, then defer where that was asked for; else poke."""
        if not self.deferrable:
            return super().execute(context)
        digest = self._look()
        if digest is None:
            self._defer()
        return digest

    def poke(self, context: Context) -> Any:
        """Return the manifest that is waited for, as the value of this task."""
        from airflow.sdk import PokeReturnValue

        digest = self._look()
        return False if digest is None else PokeReturnValue(True, digest)

    def _look(self) -> str | None:
        from airflow_delta_provider.engine.newest import newest_manifest
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        with refusals_fail_without_retry():
            store = DeltaStoreHook(self.store_conn_id).get_conn()
            return newest_manifest(store, self.pair, self.verdict, self.newer_than)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Return the manifest that the trigger saw. Raises: AirflowFailException with what the trigger was refused."""
        if event.get("error"):
            raise AirflowFailException(str(event["error"]))
        return str(event["manifest"])

    def _defer(self) -> None:
        from datetime import timedelta

        from airflow_delta_provider.triggers.manifest import ManifestTrigger

        trigger = ManifestTrigger(
            self.pair, self.verdict, self.newer_than, self.store_conn_id, float(self.poke_interval)
        )
        timeout = self.timeout if isinstance(self.timeout, timedelta) else timedelta(seconds=self.timeout)
        self.defer(trigger=trigger, method_name="resume", timeout=timeout)
