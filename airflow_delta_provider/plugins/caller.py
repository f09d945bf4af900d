"""Who asks, and what Airflow's own rules let them see beside the Dag that a route has asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_asset, requires_access_dag
from fastapi import HTTPException, Request


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request. Which Dag or asset is asked about is ours to say: the address has no part in the answers."""

    request: Request
    user: Any

    def may_read_xcoms(self, dag_id: str | None) -> bool:
        """Tell whether the XComs of a Dag, or with None those of all, may be read."""
        return self._allowed(requires_access_dag("GET", DagAccessEntity.XCOM, dag_id))

    def may_read_any_xcoms(self) -> bool:
        """Tell whether the XComs of all Dags may be read, or of one at least."""
        permitted = get_auth_manager().get_authorized_dag_ids(user=self.user)
        return self.may_read_xcoms(None) or any(self.may_read_xcoms(dag_id) for dag_id in sorted(permitted))

    def may_read_approvals(self, dag_id: str) -> bool:
        """Tell whether what waits for a person in a Dag may be read."""
        return self._allowed(requires_access_dag("GET", DagAccessEntity.HITL_DETAIL, dag_id))

    def may_read_asset(self, asset_id: int) -> bool:
        """Tell whether an asset may be read."""
        return self._allowed(requires_access_asset("GET"), asset_id=str(asset_id))

    def _allowed(self, rule: Callable[[Request, Any], None], **path_params: str) -> bool:
        bare = Request({**self.request.scope, "query_string": b"", "path_params": path_params})
        try:
            rule(bare, self.user)
        except HTTPException:
            return False
        return True
