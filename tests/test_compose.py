"""Tests of docker-compose.yaml that need no Docker engine."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import servers
import yaml

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docker-compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
ONE_SHOT = {"migrate", "bucket"}
WORKERS = {"worker-1", "worker-2"}


def test_the_file_has_the_form_of_a_compose_file():
    """A misspelt member is ignored in silence by some versions and refused by others."""
    servers.require_module("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_services_are_the_ones_of_a_distributed_airflow():
    """The set is what the documentation promises."""
    assert set(SERVICES) == ONE_SHOT | WORKERS | {
        "api-server", "scheduler", "dag-processor", "triggerer", "metadata", "redis", "source", "target", "objects",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_pinned_and_tells_its_health(name):
    """An image that moves, or a service that is up but not ready, makes runs that can't be repeated."""
    service = SERVICES[name]
    image, _, tag = service["image"].partition(":")
    assert image and tag and tag != "latest"
    if name in ONE_SHOT:
        assert service["restart"] == "no"
    else:
        assert service["healthcheck"]["test"]


def test_who_waits_waits_for_health_and_for_services_that_exist():
    """A dependency without a condition is only an order of starting."""
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
            assert (name, other, how["condition"]) == (name, other, wanted)
            assert other in SERVICES


def test_no_secret_has_a_default():
    """A default password is a password that everybody knows."""
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if variable == "AIRFLOW_CONN_DELTA_STORE_DEFAULT":
                assert "password" not in value and "login" not in value
            elif re.search(r"PASSWORD|SECRET|KEY|CONN|BROKER|BACKEND|AUTH|ROOT_USER", variable):
                assert "RANDOM" in variable or re.search(r"\$\{[A-Z0-9_]+:\?[^}]+\}", value), (name, variable)
    text = FILE.read_text(encoding="utf-8")
    assert not re.findall(r"(?<!\$)\$\{[A-Za-z0-9_]+(?:\}|:?-)", text)


def test_the_example_names_every_variable_and_gives_none_a_value():
    """Whoever copies it must see at once what is missing."""
    used = set(re.findall(r"\$\{([A-Z0-9_]+):\?", FILE.read_text(encoding="utf-8")))
    lines = (ROOT / "docker" / "env.example").read_text(encoding="utf-8").splitlines()
    named = {line.removesuffix("=") for line in lines if line and not line.startswith("#")}
    assert named == used


def test_workers_cannot_reach_the_metadata_database():
    """Tasks speak to the API server; a worker that is taken over must not own Airflow."""
    for name in WORKERS:
        assert SERVICES[name]["networks"] == ["work"]
        assert not [variable for variable in SERVICES[name]["environment"] if variable.startswith("AIRFLOW__DATABASE")]
    assert SERVICES["metadata"]["networks"] == ["metadata"]


def test_ports_are_published_on_loopback_only():
    """A test set-up on a laptop is nobody else's business."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8080:8080"]


def test_the_image_is_built_from_what_is_there():
    """A recipe that copies a missing file fails at the user's."""
    recipe = (ROOT / "docker" / "airflow.Dockerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", recipe, re.MULTILINE):
        for place in line.split()[:-1]:
            assert (ROOT / place).exists(), place
    (extras,) = re.findall(r'"/opt/delta\[([a-z,-]+)\]"', recipe)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert SERVICES["worker-1"]["build"]["dockerfile"] == "docker/airflow.Dockerfile"


SMOKE = ROOT / "docker" / "smoke.sh"
DOCKER = """#!/usr/bin/env bash
echo "$@" >>"$CALLS"
case "$*" in
  *"airflow dags list"*) echo "smoke /opt/airflow/dags/smoke.py" ;;
  *"airflow dags state"*) echo "$STATE" ;;
  *"airflow-delta verify"*) echo '{}'; exit 4 ;;
  *"airflow-delta log"*) printf '     3 manifest   %064d differs\\n' 7 ;;
  *"airflow-delta show"*) echo '[{"sort_key": 1}, {"sort_key": 2}, {"sort_key": 3}]' ;;
esac
"""
"""Stands for Docker: notes what it is called with, and answers as a set that is up would."""


def smoke(folder: Path, state: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the smoke script with a Docker that only answers; return what became of it, and the calls."""
    (folder / "bin").mkdir()
    (folder / "bin" / "docker").write_text(DOCKER)
    (folder / "bin" / "docker").chmod(0o755)
    environment = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "STATE": state,
        "POLL_S": "0",
        "TMPDIR": str(folder),
    }
    done = subprocess.run([str(SMOKE)], capture_output=True, text=True, check=False, env=environment, timeout=60)
    return done, (folder / "calls").read_text().splitlines()


def test_the_smoke_script_prints_what_the_documentation_shows(tmp_path):
    """Every call names a service of the set, the set is taken down, and the secrets it made are gone."""
    done, calls = smoke(tmp_path, "success")
    assert (done.returncode, done.stderr) == (0, "")
    digest = "0" * 63 + "7"
    shown = (ROOT / "docs" / "large-tables.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```text\n(smoke: .*?)```", shown, re.S)
    assert done.stdout == re.sub(r"manifest [0-9a-f]{64}", f"manifest {digest}", block)
    executed = {found for call in calls for found in re.findall(r" exec -T (\S+)", call)}
    assert executed == {"scheduler", "source", "target", "worker-1"}
    (up,) = [call for call in calls if " up " in call]
    assert set(up.rpartition("--quiet-pull ")[2].split()) <= set(SERVICES) - ONE_SHOT
    assert "down --volumes" in calls[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "calls"}


def test_the_smoke_script_says_what_failed(tmp_path):
    """A run that failed is no passed smoke test, and what the workers said is shown."""
    done, calls = smoke(tmp_path, "failed")
    assert done.returncode == 1
    assert "smoke: failed: the run ended as failed" in done.stderr
    assert any("logs --tail 40" in call for call in calls)
    assert "passed" not in done.stdout


def test_what_the_smoke_script_lays_over_the_set_is_of_the_set():
    """Every Airflow service reads the smoke Dag, and nothing else is changed."""
    over = yaml.safe_load((ROOT / "docker" / "smoke.yaml").read_text(encoding="utf-8"))["services"]
    airflow = {name for name, service in SERVICES.items() if service["image"].startswith("airflow-delta")}
    assert set(over) == airflow
    assert all(service == {"volumes": ["./docker/dags:/opt/airflow/dags:ro"]} for service in over.values())


def test_the_smoke_tables_differ_in_the_three_rows_that_the_script_expects(postgresql_server, mariadb_server):
    """One value, one row on each side; the specification is that of the smoke Dag."""
    from airflow_delta_provider.adapters.open import open_side
    from airflow_delta_provider.core.spec import parse_spec
    from airflow_delta_provider.core.store.memory import MemoryStore
    from airflow_delta_provider.engine.run import reconcile

    addresses = {"source": postgresql_server.create_database(), "target": mariadb_server.create_database()}
    for name, address in addresses.items():
        run_statements(address, (ROOT / "docker" / f"smoke_{name}.sql").read_text(encoding="utf-8"))
    found = ast.parse((ROOT / "docker" / "dags" / "smoke.py").read_text(encoding="utf-8"))
    (form,) = [ast.literal_eval(one.value) for one in found.body if isinstance(one, ast.Assign)]
    for name, address in addresses.items():
        form[name] = {"uri": address, "table": form[name]["table"], "label": form[name]["label"]}
    categories = reconcile(parse_spec(form), MemoryStore(), open_side).manifest["categories"]
    assert {name: part["records"] for name, part in categories.items()} == {
        "added": 1, "dropped": 1, "value_diverged": 1,
    }  # fmt: skip


def run_statements(address: str, text: str) -> None:
    """Run the statements of a file, as the client of the server would."""
    statements = [part for part in text.split(";\n") if part.strip()]
    if address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(address, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    import pymysql

    parts = urlsplit(address)
    places = {"host": "127.0.0.1", "port": parts.port, "user": parts.username, "database": parts.path[1:]}
    with closing(pymysql.connect(password=parts.password or "", autocommit=True, **places)) as connection:
        for statement in statements:
            connection.cursor().execute(statement)
