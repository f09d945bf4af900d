"""Tests of docker-compose.yaml that need no Docker engine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
            if re.search(r"PASSWORD|SECRET|KEY|CONN|BROKER|BACKEND|AUTH|ROOT_USER", variable):
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
    assert SERVICES["worker-1"]["build"]["dockerfile"] == "docker/airflow.Dockerfile"
