"""Airflow on CeleryExecutor, as docker-compose.yaml brings it up, on loopback: servers on PostgreSQL, workers without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import servers
from airflow_rest import Rest

from airflow_delta_provider.demo import host as hosts
from airflow_delta_provider.demo.servers import free_port

SERVERS = ("api-server", "scheduler", "dag-processor")
NO_METADATA = "postgresql+psycopg2://nobody@127.0.0.1:1/none"
"""What a worker is told of the metadata database: nothing listens there."""
HEARTBEAT_TIMEOUT_S = 20
STOP_TIMEOUT_S = 20


@dataclass
class Worker:
    """One Celery worker and everything that it starts."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End the worker, its pool and the tasks that run in it with SIGKILL, all at once."""
        _end(self.process, signal.SIGKILL)


@dataclass(frozen=True)
class CelerySet:
    """A running set: its REST API, and its workers."""

    rest: Rest
    workers: tuple[Worker, ...]


@contextmanager
def celery_set(
    home: Path, dags: Path, connections: Mapping[str, Mapping[str, Any]], more: Mapping[str, str] | None = None
) -> Iterator[CelerySet]:
    """Run API server, scheduler, DAG processor and two workers of two slots each, on a Redis and a PostgreSQL of their own.

    ``more`` is added to the environment of all of them.
    """
    servers.require_module("airflow.providers.celery")
    with ExitStack() as stack:
        metadata = stack.enter_context(servers.postgresql()).create_database("airflow")
        redis = stack.enter_context(servers.redis())
        address = f"http://127.0.0.1:{free_port()}"
        host = hosts.make_host(home, connections, dags)
        shared = {
            "AIRFLOW__API_AUTH__JWT_SECRET": "j" * 64,
            "AIRFLOW__API__BASE_URL": address,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": address.rsplit(":", 1)[1],
            "AIRFLOW__API__SECRET_KEY": "s" * 64,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CELERY__BROKER_URL": redis.uri("0"),
            "AIRFLOW__CELERY__RESULT_BACKEND": redis.uri("1"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__FERNET_KEY": "",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(HEARTBEAT_TIMEOUT_S),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        }
        environment = {**host.environment, **shared, **(more or {})}
        own = metadata.replace("postgresql://", "postgresql+psycopg2://")
        server = {**environment, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": own}
        hosts.Host(home, server).run("db", "migrate")
        started = [stack.enter_context(_running(host, [name], server)) for name in SERVERS]
        without = {**environment, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": NO_METADATA}
        flags = ["--concurrency", "2", "--skip-serve-logs", "--without-mingle", "--without-gossip"]
        workers = tuple(
            Worker(
                stack.enter_context(_running(host, ["celery", "worker", "-H", f"{name}@127.0.0.1", *flags], without))
            )
            for name in ("w1", "w2")
        )
        yield CelerySet(_rest(host, address, started), workers)


def _rest(host: hosts.Host, address: str, started: list[subprocess.Popen[bytes]]) -> Rest:
    """Return the REST API once it answers."""

    def answers() -> bool:
        ended = [name for name, process in zip(SERVERS, started, strict=True) if process.poll() is not None]
        assert not ended, f"{ended} ended:\n{host.log_end()}"
        try:
            urllib.request.urlopen(f"{address}/api/v2/version", timeout=5).close()
        except OSError:
            return False
        return True

    deadline = time.monotonic() + hosts.START_TIMEOUT_S
    while not answers():
        assert time.monotonic() < deadline, f"the API server did not come up:\n{host.log_end()}"
        time.sleep(hosts.POLL_INTERVAL_S)
    return Rest(host, address)


@contextmanager
def _running(
    host: hosts.Host, arguments: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with host.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", *arguments],
            env=dict(environment),
            cwd=host.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    """Signal a process and all that it started, those in sessions of their own too; what stays is killed."""
    try:
        root = psutil.Process(process.pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    for one in family:
        try:
            os.kill(one.pid, number)
        except ProcessLookupError:
            continue
    _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
    for one in alive:
        one.kill()
    process.wait()
