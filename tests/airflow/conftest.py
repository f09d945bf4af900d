"""An Airflow of our own for each test process: its home, its migrated metadata, its connections; nothing outside is read."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(tempfile.mkdtemp(prefix="delta-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
(HOME / "dags").mkdir()
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db?timeout=60",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    "AIRFLOW__DAG_PROCESSOR__DISABLE_BUNDLE_VERSIONING": "True",
}
DEPRECATED = "error::airflow.utils.deprecation_tools.DeprecatedImportWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make an import from a deprecated place an error in every test of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(DEPRECATED))


@pytest.fixture(scope="session")
def metadata() -> Iterator[None]:
    """Airflow's metadata database, migrated once for this process."""
    from airflow.utils.db import initdb

    initdb()
    yield


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables that differ, behind the connections ``old`` and ``new``, and an empty store; the folder of all three.

    Of 90 source rows every tenth diverges in the target (8 of them), one is dropped and one added.
    """
    from airflow_runs import connection_text, write_table

    write_table(tmp_path / "old.db", [(number, 2 * number, f"secret-{number}") for number in range(90)])
    write_table(
        tmp_path / "new.db",
        [(number, 2 * number + (number % 10 == 0), f"secret-{number}") for number in range(1, 91) if number != 90]
        + [(500, 1, "secret-500")],
    )
    for name in ("old", "new"):
        conn = connection_text(conn_type="sqlite", host=str(tmp_path / f"{name}.db"))
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", conn)
    store = connection_text(conn_type="delta_store", host=(tmp_path / "store").as_uri())
    monkeypatch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)
    return tmp_path
