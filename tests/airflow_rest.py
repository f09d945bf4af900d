"""A running Airflow, asked over its REST API as a script of a user would; imported by nightly tests."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from airflow_delta_provider.demo import host as hosts

WAIT_S = 300
POLL_INTERVAL_S = 1.0
ANSWER_TIMEOUT_S = 60
LOG_CHARS_SHOWN = 4000


class Rest:
    """The REST API of a running Airflow, as its administrator. Raises: AssertionError where a wait ends in vain."""

    def __init__(self, host: hosts.Host, address: str) -> None:
        self._host = host
        self._address = address
        login = {"username": hosts.USER, "password": hosts.password(host)}
        self._token = str(self._call("POST", f"{address}/auth/token", login)["access_token"])

    @property
    def port(self) -> int:
        """The port of the API server on loopback."""
        return int(self._address.rsplit(":", 1)[1])

    def start(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a Dag as soon as it is known; return the run's id."""
        body = {"logical_date": None, "conf": dict(conf or {})}

        def started() -> str | None:
            try:
                return str(self.call("POST", f"dags/{dag_id}/dagRuns", body)["dag_run_id"])
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                return None  # not parsed yet

        return str(self.wait(f"Dag {dag_id} to be parsed", started))

    def wait_for_state(self, path: str, *wanted: str) -> str:
        """Wait until a run or a task instance is in one of these states, or has ended; return the state."""

        def state() -> str | None:
            found = self.call("GET", path)["state"]
            return found if found in (*wanted, "success", "failed", "upstream_failed", "skipped") else None

        return str(self.wait(f"{path} to be {' or '.join(wanted)}", state))

    def wait_for_log(self, text: str) -> None:
        """Wait until Airflow has printed a line that holds this text."""

        def printed() -> bool | None:
            return text in self._host.log.read_text(encoding="utf-8", errors="replace") or None

        self.wait(f"a log line with {text!r}", printed)

    def told(self, run: str) -> str:
        """Return the states of a run's tasks, and the logs of those that failed, for a message."""
        found = self.call("GET", f"{run}/taskInstances")["task_instances"]
        states = {one["task_id"]: one["state"] for one in found}
        logs = [
            path.read_text(encoding="utf-8", errors="replace")[-LOG_CHARS_SHOWN:]
            for task_id, state in states.items()
            if state == "failed"
            for path in sorted((self._host.home / "logs").glob(f"*/*/task_id={task_id}/*.log"))
        ]
        return "\n".join([str(states), *logs, self._host.log_end()])

    def returned(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return what a task pushed."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.call("GET", path)["value"]

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make one request of ``/api/v2``. Raises: HTTPError."""
        return self._call(method, f"{self._address}/api/v2/{path}", body)

    def wait(self, what: str, look: Callable[[], Any]) -> Any:
        """Look again and again until something is found."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = look()
            if found is not None:
                return found
            time.sleep(POLL_INTERVAL_S)
        raise AssertionError(f"waited {WAIT_S} s in vain for {what}:\n{self._host.log_end()}")

    def _call(self, method: str, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if hasattr(self, "_token"):
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            return dict(json.load(answer))
