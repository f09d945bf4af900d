"""An Airflow for the demo: its home in the demo's folder, its connections in the environment, nothing of the user's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_delta_provider.demo.servers import free_port

DAGS = Path(__file__).with_name("dags")
DAG_ID = "demo_flights"
USER = "admin"
START_TIMEOUT_S = 240
RUN_TIMEOUT_S = 600
STOP_TIMEOUT_S = 30
POLL_INTERVAL_S = 1.0
ANSWER_TIMEOUT_S = 30
LOG_CHARS_SHOWN = 4000


class DemoFailed(RuntimeError):
    """The demo could not go on; the text ends with the log that tells why."""


@dataclass(frozen=True)
class Host:
    """Airflow's home, and the environment that each of its processes gets."""

    home: Path
    environment: Mapping[str, str]

    @property
    def log(self) -> Path:
        """What Airflow printed."""
        return self.home / "demo.log"

    def run(self, *arguments: str) -> None:
        """Run one ``airflow`` command to its end, its output into the log. Raises: DemoFailed."""
        with self.log.open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", "airflow", *arguments],
                env=dict(self.environment),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                timeout=RUN_TIMEOUT_S,
            )
        if done.returncode:
            raise DemoFailed(f"airflow {' '.join(arguments)} ended with {done.returncode}:\n{self.log_end()}")

    def log_end(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARS_SHOWN:]


def make_host(home: Path, connections: Mapping[str, Mapping[str, Any]], dags: Path = DAGS) -> Host:
    """Return an Airflow with its home at ``home``, with metadata in SQLite, these connections and a folder of Dags."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "PYTHONSTARTUP"))}
    settings = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__DAG_PROCESSOR__DISABLE_BUNDLE_VERSIONING": "True",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        # The first task after a start waits for the API server to build itself; a busy machine takes more than the 5 s.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
    }
    settings |= {f"AIRFLOW_CONN_{name.upper()}": json.dumps(form) for name, form in connections.items()}
    return Host(home, kept | settings)


def run_dag(host: Host) -> None:
    """Run the demo's Dag in one process, over migrated metadata. Raises: DemoFailed."""
    host.run("dags", "test", "--dagfile-path", str(DAGS / f"{DAG_ID}.py"), DAG_ID)


@contextmanager
def standalone(host: Host) -> Iterator[str]:
    """Run ``airflow standalone`` on a free loopback port; yield the address once the API answers. Raises: DemoFailed."""
    address = f"http://127.0.0.1:{free_port()}"
    port = address.rsplit(":", 1)[1]
    environment = dict(host.environment) | {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__API__BASE_URL": address,
    }
    with host.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            env=environment,
            cwd=host.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_for_answer(process, host, f"{address}/api/v2/version")
        yield address
    finally:
        _stop_group(process)


def password(host: Host) -> str:
    """Return the password that Airflow made for the demo's user."""
    made = host.home / "simple_auth_manager_passwords.json.generated"
    return str(json.loads(made.read_text(encoding="utf-8"))[USER])


def trigger(host: Host, address: str) -> str:
    """Run the demo's Dag under a running Airflow and wait for its end; return the run's id. Raises: DemoFailed."""
    token = _call(f"{address}/auth/token", {"username": USER, "password": password(host)})["access_token"]
    runs = f"{address}/api/v2/dags/{DAG_ID}/dagRuns"
    deadline = time.monotonic() + RUN_TIMEOUT_S
    run: dict[str, Any] = {}
    while time.monotonic() < deadline:
        try:
            run = (
                _call(f"{runs}/{run['dag_run_id']}", token=token) if run else _call(runs, {"logical_date": None}, token)
            )
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise DemoFailed(f"Airflow answers {error.code} {error.reason} to {error.url}.") from error
            # The Dag has not been parsed yet.
        if run.get("state") in ("success", "failed"):
            break
        time.sleep(POLL_INTERVAL_S)
    if run.get("state") != "success":
        raise DemoFailed(f"The Dag run ended as {run.get('state', 'nothing')}:\n{host.log_end()}")
    return str(run["dag_run_id"])


def _call(url: str, body: Mapping[str, Any] | None = None, token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=ANSWER_TIMEOUT_S) as answer:
        return dict(json.load(answer))


def _wait_for_answer(process: subprocess.Popen[bytes], host: Host, url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _call(url)
        except OSError:
            time.sleep(POLL_INTERVAL_S)
        else:
            return
    raise DemoFailed(f"airflow standalone did not come up:\n{host.log_end()}")


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and everything that it started: politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue
