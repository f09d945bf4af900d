"""What OpenLineage is told of a manifest, once, by the task that merged it; counts and names, never values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_delta_provider.assets import SCHEME

if TYPE_CHECKING:
    from airflow_delta_provider.core.spec import SideSpec
    from airflow_delta_provider.engine.thresholds import Measured

ASSERTIONS_MAX = 500
"""Columns that get an assertion of their own."""
PORTS = {"postgresql": 5432, "mysql": 3306}


def lineage_of(manifest_id: str | None, store_conn_id: str, shards: Sequence[str], task_instance: Any) -> Any:
    """Return the ``OperatorLineage`` of a merge, None where it came to no manifest.

    :param shards: the planned shards, of which the plan in the work folder of the run tells the sides.
    """
    if manifest_id is None:
        return None
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import dataset_version_dataset, test_run

    from airflow_delta_provider.engine.thresholds import read_measured
    from airflow_delta_provider.hooks.store import DeltaStoreHook

    store = DeltaStoreHook(store_conn_id).get_conn()
    measured = read_measured(store, manifest_id)
    source, target = _sides(store, shards, task_instance, measured)
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=f"sha256:{manifest_id}")
    name = measured.manifest["pair"]["name"]
    return OperatorLineage(
        inputs=[
            InputDataset(*source, inputFacets=_metrics(measured, "source")),
            InputDataset(*target, inputFacets={**_metrics(measured, "target"), **_assertions(measured)}),
        ],
        outputs=[OutputDataset(f"{SCHEME}://{store_conn_id}", name, facets={"version": version})],
        run_facets={"test": test_run.TestRunFacet(tests=_tests(measured))},
    )


def _metrics(measured: Measured, side: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import data_quality_metrics_input_dataset as metrics

    rows = measured.manifest["population"][side]["rows"]
    return {"dataQualityMetrics": metrics.DataQualityMetricsInputDatasetFacet(rowCount=rows, columnMetrics={})}


def _checks(measured: Measured) -> list[tuple[str, str | None, int]]:
    """Return what was checked: the name of the check, a column or None, and how many rows or values failed it."""
    categories = measured.manifest["categories"]
    rows = [(f"delta.{name}", None, int(categories[name]["records"])) for name in ("added", "dropped")]
    columns = measured.summary["columns"][:ASSERTIONS_MAX]
    findings = ("delta.structure", None, len(measured.structure["findings"]))
    return [*rows, findings, *(("delta.column_equal", str(name), int(count)) for name, count, _ in columns)]


def _assertions(measured: Measured) -> dict[str, Any]:
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as assertions

    found = [
        assertions.Assertion(
            assertion=name, column=column, success=not count, severity="error", expected="0", actual=str(count)
        )
        for name, column, count in _checks(measured)
    ]
    return {"dataQualityAssertions": assertions.DataQualityAssertionsDatasetFacet(assertions=found)}


def _tests(measured: Measured) -> list[Any]:
    from openlineage.client.facet_v2 import test_run

    return [
        test_run.TestExecution(
            name=name if column is None else f"{name}.{column}",
            status="fail" if count else "pass",
            severity="error",
            type="reconcile",
            expected="0",
            actual=str(count),
        )
        for name, column, count in _checks(measured)
    ]


def _sides(store: Any, shards: Sequence[str], task_instance: Any, measured: Measured) -> list[tuple[str, str]]:
    """Return namespace and name of both sides, by the plan where it is there, else by their labels."""
    from airflow_delta_provider.core.errors import DeltaError
    from airflow_delta_provider.core.store.slots import run_slot
    from airflow_delta_provider.engine.work import Work, read_shards

    pair = measured.manifest["pair"]
    labels = [("delta", pair["source"]), ("delta", pair["target"])]
    if not shards:
        return labels
    work = Work(store, run_slot(task_instance.dag_id, task_instance.run_id, task_instance.task_id, -1))
    try:
        spec = read_shards(work, shards[:1])[0].plan.spec
    except DeltaError:
        return labels
    sides = (spec.source, spec.target)
    return [label if side is None else dataset_of(side, label) for side, label in zip(sides, labels, strict=True)]


def dataset_of(side: SideSpec, label: tuple[str, str]) -> tuple[str, str]:
    """Return namespace and name of a side as other tools name it: by its connection's hook, its address, or its path.

    A query has no name of its own: its label stands for it, in the namespace of its database.
    """
    if side.conn_id is not None:
        return _by_hook(side.conn_id, side.table, label)
    if side.path is not None:
        return "file", str(side.path)
    parts = urlsplit(side.uri or "")
    if parts.hostname is None:
        path = f"/{parts.path.lstrip('/')}"
        return "file", f"{path}.{side.table}" if side.table else path
    scheme = parts.scheme.partition("+")[0]
    authority = f"{parts.hostname}:{parts.port or PORTS.get(scheme, 0)}"
    database = parts.path.removeprefix("/")
    return f"{scheme}://{authority}", f"{database}.{side.table}" if side.table else label[1]


def _by_hook(conn_id: str, table: str | None, label: tuple[str, str]) -> tuple[str, str]:
    from airflow_delta_provider._compat import BaseHook

    connection = BaseHook.get_connection(conn_id)
    hook: Any = connection.get_hook() if connection.conn_type != "generic" else None
    info = hook.get_openlineage_database_info(connection) if hasattr(hook, "get_openlineage_database_info") else None
    if info is None or not table:
        return f"{connection.conn_type}://{connection.host or conn_id}", table or label[1]
    namespace = f"{info.scheme}://{info.authority}" if info.authority else info.scheme
    schema = "" if "." in table else hook.get_openlineage_default_schema()
    parts = (info.database or connection.schema, schema, table)
    return namespace, ".".join(part for part in parts if part)
