"""Ends what the sides of a task are doing, from another thread or a signal handler."""

from __future__ import annotations

from airflow_delta_provider.adapters.side import Side
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.engine.named import canceller
from airflow_delta_provider.engine.opened import OpenSide


class Killable:
    """Opens sides as another function does, and can cancel the statements of all of them."""

    def __init__(self, open_side: OpenSide) -> None:
        self._open_side = open_side
        self._sides: list[Side] = []

    def __call__(self, spec: SideSpec) -> Side:
        side = self._open_side(spec)
        self._sides.append(side)
        return side

    def cancel(self) -> None:
        """Ask every engine to end the statement that it runs for us; a connection that is idle or closed has none."""
        for side in self._sides:
            cancel = canceller(side)
            if cancel is not None:
                cancel(False)
