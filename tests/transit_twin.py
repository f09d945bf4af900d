"""What HashiCorp Vault's transit engine answers about one Ed25519 key, on a free port of this machine."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TOKEN = "s.test-token"


@dataclass
class Twin:
    """A running twin. ``key`` is what it shows, ``signs_by`` what it signs by; ``status`` other than 200 is its answer."""

    key: Ed25519PrivateKey
    signs_by: Ed25519PrivateKey
    url: str = ""
    status: int = 200

    def answer(self, path: str, body: bytes) -> object:
        """Return the document that the engine answers with."""
        if path == "/v1/transit/keys/deltas":
            public = base64.b64encode(self.key.public_key().public_bytes_raw()).decode()
            return {"data": {"keys": {"1": {"public_key": "AAAA"}, "10": {"public_key": public}}, "type": "ed25519"}}
        if path.startswith("/v1/transit/sign/deltas"):
            asked = json.loads(body)
            assert asked["key_version"] == 10
            signature = self.signs_by.sign(base64.b64decode(asked["input"]))
            return {"data": {"signature": "vault:v10:" + base64.b64encode(signature).decode()}}
        return None


@contextlib.contextmanager
def transit_twin() -> Iterator[Twin]:
    """Run a twin."""
    key = Ed25519PrivateKey.generate()
    twin = Twin(key, key)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            form = twin.answer(self.path, body)
            status = twin.status if form else 404
            if self.headers.get("X-Vault-Token") != TOKEN:
                status = 403
            data = json.dumps(form if status == 200 else {"errors": ["no"]}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_GET

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    twin.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield twin
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
