"""A small object storage of our own, for what a real one does not do on demand: overwrite, lie, fail, lose its answer.

It speaks what S3 and Google Cloud Storage (XML) have in common: PUT with a precondition, GET by range, HEAD, list, delete.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

CONDITIONS = {"if-none-match": "*", "x-goog-if-generation-match": "0"}


class Fake:
    """The state of a server.

    Shape: ``behaviour`` is ``honest``, ``overwrites`` (takes any PUT and says so), ``pretends`` (says 412 and overwrites),
    ``unable`` (501 for a conditional PUT), ``conflicts`` (one 409 before it makes up its mind) or ``denies`` (403).
    ``fault(number, method)`` tells what goes wrong with a request, by its number from 1: ``""``, ``refused`` (500, not
    done), ``dropped`` (no answer, not done), ``answered`` (done, then 500) or ``lost`` (done, no answer).
    """

    def __init__(self, behaviour: str = "honest") -> None:
        self.files: dict[str, bytes] = {}
        self.behaviour = behaviour
        self.fault: Callable[[int, str], str] = lambda number, method: ""
        self.requests = 0
        self.ranges: list[str] = []
        self.lock = threading.Lock()
        self.conflicted: set[str] = set()
        self.port = 0

    @property
    def s3_options(self) -> dict[str, str]:
        """What a connection says to reach it as S3."""
        endpoint = f"http://127.0.0.1:{self.port}"
        return {"access_key_id": "K", "secret_access_key": "hidden-secret", "endpoint": endpoint, "region": "us-east-1"}

    @property
    def gs_options(self) -> dict[str, str]:
        """What a connection says to reach it as Google Cloud Storage."""
        account = {"gcs_base_url": f"http://127.0.0.1:{self.port}", "disable_oauth": True}
        account |= {"client_email": "", "private_key": "", "private_key_id": ""}
        return {"allow_http": "true", "service_account_key": json.dumps(account), "skip_signature": "true"}

    def put(self, path: str, data: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        conditional = any(headers.get(name) == value for name, value in CONDITIONS.items())
        with self.lock:
            if self.behaviour == "unable" and conditional:
                return 501, b"<Error><Code>NotImplemented</Code></Error>"
            if self.behaviour == "denies":
                return 403, b"<Error><Code>AccessDenied</Code><StringToSign>hidden-secret</StringToSign></Error>"
            if self.behaviour == "conflicts" and conditional and path not in self.conflicted:
                self.conflicted.add(path)
                return 409, b"<Error><Code>ConditionalRequestConflict</Code></Error>"
            there = path in self.files
            if conditional and there and self.behaviour != "overwrites":
                if self.behaviour == "pretends":
                    self.files[path] = data
                return 412, b"<Error><Code>PreconditionFailed</Code></Error>"
            self.files[path] = data
            return 200, b""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: Fake

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/").partition("/")[2]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.fake.lock:
            self.fake.requests += 1
            fault = self.fake.fault(self.fake.requests, self.command)
        if fault == "refused":
            self._answer(500, b"<Error><Code>InternalError</Code></Error>")
            return
        if fault != "dropped":
            status, answer, more = self._act(path, parts.query, headers, body)
            if fault == "answered":
                self._answer(500, b"<Error><Code>InternalError</Code></Error>")
                return
        if fault in ("dropped", "lost"):
            self.close_connection = True
            self.connection.close()
            return
        self._answer(status, answer, more)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

    def _act(self, path: str, query: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]]:
        fake = self.fake
        if self.command == "PUT":
            return (*fake.put(path, body, headers), {"ETag": '"e"'})
        if self.command == "POST":
            keys = re.findall(rb"<Key>([^<]*)</Key>", body)
            with fake.lock:
                for key in keys:
                    fake.files.pop(key.decode(), None)
            deleted = b"".join(b"<Deleted><Key>%b</Key></Deleted>" % key for key in keys)
            return 200, b"<DeleteResult>" + deleted + b"</DeleteResult>", {}
        if self.command == "DELETE":
            with fake.lock:
                return (204 if fake.files.pop(path, None) is not None else 404), b"", {}
        if not path:
            return 200, self._listing(parse_qs(query).get("prefix", [""])[0]), {"Content-Type": "application/xml"}
        data = fake.files.get(path)
        if data is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        more = {"ETag": '"e"', "Last-Modified": formatdate(usegmt=True)}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if not asked:
            return 200, data, more
        start, end = int(asked[1]), min(int(asked[2]), len(data) - 1)
        fake.ranges.append(f"{start}-{end}")
        return 206, data[start : end + 1], more | {"Content-Range": f"bytes {start}-{end}/{len(data)}"}

    def _listing(self, prefix: str) -> bytes:
        found = sorted(path for path in self.fake.files if path.startswith(prefix))
        rows = "".join(
            f"<Contents><Key>{escape(path)}</Key><Size>{len(self.fake.files[path])}</Size>"
            f"<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>e</ETag></Contents>"
            for path in found
        )
        return f"<ListBucketResult>{rows}<IsTruncated>false</IsTruncated></ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def fake_storage(behaviour: str = "honest") -> Iterator[Fake]:
    """Run the server on a loopback port in threads of this process."""
    fake = Fake(behaviour)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    server.daemon_threads = True
    fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
