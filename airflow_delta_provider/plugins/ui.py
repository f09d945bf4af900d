"""The plugin that Airflow loads in each of its processes; only its API server gets the pages themselves."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/delta"


class DeltaUIPlugin(AirflowPlugin):
    """Tabs on Dag, Dag run and task instance, and the page ``Reconciliations``.

    The addresses are relative, so that they hold below a base URL with a path.
    """

    name = "delta_ui"
    fastapi_apps: ClassVar[list[dict[str, Any]]] = []
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Reconciliations",
            "href": "delta/reconciliations",
            "destination": "nav",
            "category": "browse",
            "url_route": "reconciliations",
        },
        {
            "name": "Reconciliations",
            "href": "delta/pairs?dag_id={DAG_ID}",
            "destination": "dag",
            "url_route": "delta-dag",
        },
        {
            "name": "Reconciliations",
            "href": "delta/run?dag_id={DAG_ID}&run_id={RUN_ID}",
            "destination": "dag_run",
            "url_route": "delta-run",
        },
        {
            "name": "Reconciliation",
            "href": "delta/task?dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}",
            "destination": "task_instance",
            "url_route": "delta-task",
        },
    ]

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Build the app where this process serves Airflow's API. Without its guards nothing is served: an error goes up."""
        if "airflow.api_fastapi.app" in sys.modules:
            from airflow_delta_provider.plugins.app import build_app

            cls.fastapi_apps = [{"app": build_app(), "url_prefix": PREFIX, "name": "Delta manifests"}]
