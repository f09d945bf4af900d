"""Dags run inside this process, on the metadata database of tests/airflow/conftest.py; imported by tests of that folder."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Run:
    """What became of a Dag run. Keys are (task id, map index), -1 for a task that is not mapped."""

    run_id: str
    state: str
    states: dict[tuple[str, int], str]
    tries: dict[tuple[str, int], int]
    labels: dict[tuple[str, int], str | None]
    returned: dict[tuple[str, int], Any]

    def of(self, task_id: str, map_index: int = -1) -> str:
        """Return the state of a task."""
        return str(self.states[(task_id, map_index)])


def run_dag(dag: Any, **options: Any) -> Run:
    """Register a Dag and run it to its end, as ``dag.test()`` does."""
    from airflow import settings
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(dag_folder=settings.DAGS_FOLDER, bundle_name="dags-folder")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    return _told(dag, dag.test(**options))


def clear_dag(dag: Any, when: Any) -> Run:
    """Clear all tasks of the finished run of this logical date, as the UI does, and run them again in the same run."""
    from unittest.mock import patch

    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from sqlalchemy import select

    def cleared_run(*, session: Any, **made: Any) -> Any:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == made["run_id"]))
        assert {str(ti.state) for ti in run.get_task_instances(session=session)} == {"None"}
        run.dag = made["dag"]
        run.set_state(DagRunState.RUNNING)
        session.flush()
        return run

    with patch("airflow.models.dagrun.get_or_create_dagrun", cleared_run):
        return _told(dag, dag.test(logical_date=when, run_after=when))


def _told(dag: Any, run: Any) -> Run:
    from airflow import settings
    from airflow.models.xcom import XComModel

    tasks = {(ti.task_id, ti.map_index): ti for ti in run.get_task_instances()}
    session = settings.Session()
    found = session.query(XComModel).filter_by(dag_id=dag.dag_id, run_id=run.run_id, key="return_value").all()
    return Run(
        run_id=str(run.run_id),
        state=str(run.state),
        states={key: str(ti.state) for key, ti in tasks.items()},
        tries={key: ti.try_number for key, ti in tasks.items()},
        labels={key: ti.rendered_map_index for key, ti in tasks.items()},
        returned={(one.task_id, one.map_index): XComModel.deserialize_value(one) for one in found},
    )


def context_of(task_id: str, map_index: int = -1, **members: Any) -> dict[str, Any]:
    """Return the part of a task's context that our operators use."""
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id=task_id, map_index=map_index, try_number=1, pushed=pushed)
    ti.xcom_push = lambda key, value: pushed.__setitem__(key, value)
    return {"ti": ti, **members}


def write_table(path: Path, rows: Sequence[Row], table: str = "orders") -> None:
    """Write a table ``id, amount, note`` anew into an SQLite file."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, amount INTEGER, note TEXT)")
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    connection.close()


def connection_text(**fields: Any) -> str:
    """Return the value of an ``AIRFLOW_CONN_...`` variable."""
    return json.dumps(fields)
