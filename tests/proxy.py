"""A TCP proxy on loopback that drops or stalls its connections after a number of bytes from the server."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK_BYTES = 16_384
POLL_S = 0.05


class Proxy:
    """Passes connections on to a port; ``fault`` is None, ``drop`` or ``stall``, and takes hold beyond ``after_bytes``.

    The bytes count for each connection, from the server. A stalled proxy still accepts connections, and never answers.
    """

    def __init__(self, port: int) -> None:
        self.fault: str | None = None
        self.after_bytes = 0
        self._target = port
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def aim(self, port: int) -> None:
        """Pass later connections on to another port, where that of the server was not known before."""
        self._target = port

    def close(self) -> None:
        """End every connection and every thread."""
        self._over.set()
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while not self._over.is_set():
            with suppress(OSError, ValueError):
                if not select.select([self._listener], [], [], POLL_S)[0]:
                    continue
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server, suppress(OSError):
            passed = 0
            while not self._over.is_set():
                if self.fault is not None and passed >= self.after_bytes:
                    if self.fault == "drop":
                        return
                    self._over.wait(POLL_S)
                    continue
                for ready in select.select([client, server], [], [], POLL_S)[0]:
                    data = ready.recv(CHUNK_BYTES)
                    if not data:
                        return
                    (server if ready is client else client).sendall(data)
                    passed += len(data) if ready is server else 0


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """Run a proxy in front of a port."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
