"""An Azure Blob server for tests: Azurite (npm), in memory, on loopback."""

from __future__ import annotations

import base64
import hmac
import http.client
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import servers

from airflow_delta_provider.demo.servers import running, server_folder

ACCOUNT = "devstoreaccount1"
VERSION = "2021-08-06"
LOCAL = Path(__file__).parents[1] / ".venv-tools" / "node_modules" / ".bin"


@dataclass(frozen=True)
class AzureServer:
    """A running server and how to reach it."""

    port: int
    key: str

    @property
    def options(self) -> dict[str, str]:
        """What a connection says to reach it."""
        endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        return {"account_key": self.key, "account_name": ACCOUNT, "endpoint": endpoint}

    def container(self) -> str:
        """Make a container and return its name."""
        name, moment = f"deltas-{secrets.token_hex(4)}", datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        text = f"PUT{12 * chr(10)}x-ms-date:{moment}\nx-ms-version:{VERSION}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signature = base64.b64encode(hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")).decode()
        headers = {"x-ms-date": moment, "x-ms-version": VERSION, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
        answer = connection.getresponse()
        if answer.status != 201:
            raise RuntimeError(f"No container {name}: {answer.status} {answer.read()!r}")
        connection.close()
        return name


@contextmanager
def azure_server() -> Iterator[AzureServer]:
    """Run ``azurite-blob``, from the PATH or from where continuous integration puts it, and stop it at the end."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), str(LOCAL)])
    program, node = shutil.which("azurite-blob", path=places), shutil.which("node")
    if program is None or node is None:
        servers.lacking("Azurite (npm install --prefix .venv-tools azurite)")
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    with server_folder("nobody") as (folder, _):
        fixed = [
            "--inMemoryPersistence",
            "--silent",
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--blobHost",
            "127.0.0.1",
        ]
        # Its own account: Azurite reads the variable, which our environment for servers leaves out.
        command = [
            "/usr/bin/env",
            f"AZURITE_ACCOUNTS={ACCOUNT}:{key}",
            node,
            program,
            *fixed,
        ]
        with running(folder, "", lambda port: [*command, "--blobPort", str(port)], _listens, signal.SIGTERM) as (
            port,
            _,
            _,
        ):
            yield AzureServer(port, key)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
