"""``serve``: the pages of Airflow's UI over a store, on this machine alone, without Airflow."""

from __future__ import annotations

import argparse
import hmac
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airflow_delta_provider.cli.verify import read_trust
from airflow_delta_provider.core.errors import ConnectError
from airflow_delta_provider.core.store import layout, open_store
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust

HOST = "127.0.0.1"
TOKEN_BYTES = 24
QUERY_FIELDS_MAX = 64
SOCKET_TIMEOUT_S = 60


class Pages(ThreadingHTTPServer):
    """Serves one store on loopback, under a path that begins with a secret; reads only."""

    daemon_threads = True

    def __init__(self, store: Store, port: int, trust: Trust | None = None) -> None:
        self.store, self.trust = store, trust
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            said = f"Port {port} of {HOST} cannot be taken: {error.strerror}. --port 0 takes any free one."
            raise ConnectError(said, where="--port") from error

    @property
    def address(self) -> str:
        """Where the pages begin, the secret in it."""
        return f"http://{HOST}:{self.server_address[1]}/{self.token}/pairs"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "airflow-delta"
    sys_version = ""
    timeout = SOCKET_TIMEOUT_S
    server: Pages

    def do_GET(self) -> None:
        """Answer one request. A page of another site that guesses the port has neither the host's name nor the secret."""
        from airflow_delta_provider.web.answers import Answer
        from airflow_delta_provider.web.routes import NAMES, answer
        from airflow_delta_provider.web.scope import StoreScope

        parts = urlsplit(self.path)
        token, _, name = parts.path.lstrip("/").partition("/")
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(Answer(b"This address is not served here.\n", "text/plain", 403))
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._send(
                Answer(b"The address lacks the secret that was printed when this was started.\n", "text/plain", 403)
            )
        elif name not in NAMES:
            self._send(Answer(b"There is no such page.\n", "text/plain", 404))
        else:
            try:
                query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
            except ValueError:
                self._send(Answer(b"The address has too many fields.\n", "text/plain", 400))
                return
            self._send(answer(name, StoreScope(self.server.store, self.server.trust), query))

    def _send(self, found: Any) -> None:
        body = found.body
        self.send_response(found.status)
        for header, value in found.all_headers.items():
            self.send_header(header, value)
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for chunk in (body,) if isinstance(body, bytes) else body:
            self.wfile.write(chunk)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a path holds the secret and what was searched for."""


@contextmanager
def pages(store: Store, port: int, trust: Trust | None = None) -> Iterator[Pages]:
    """Bind the port and give the server; its socket is closed at the end. Raises: ConnectError where the port is taken."""
    server = Pages(store, port, trust)
    try:
        yield server
    finally:
        server.server_close()


def serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted. Exit: 0 interrupted, 3 no such store, or the port is taken."""
    store = open_store(arguments.store)
    store.read(layout.FORMAT_PATH, 64)
    with pages(store, arguments.port, read_trust(arguments.trust)) as server:
        print(server.address, flush=True)
        print("Interrupt (Ctrl+C) to end.", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
