"""Crashes on demand: a store that dies at its n-th call, a process that dies at its n-th system call on files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from airflow_delta_provider.core.store.store import READ_BYTES_MAX, Store

FILE_CALLS = ("mkdir", "open", "write", "fchmod", "fsync", "link", "unlink", "stat", "fstat")
CRASHED = 77
POINTS_MAX = 5000


class Countdown:
    """Calls ``crash`` at the n-th tick, counted from 1."""

    def __init__(self, ticks: int, crash: Callable[[], None]) -> None:
        self.left, self.crash = ticks, crash

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.crash()


class FaultyStore:
    """A store that calls ``tick`` before each call and again after each that writes (done, but never answered)."""

    def __init__(self, store: Store, tick: Callable[[], None]) -> None:
        self._store, self._tick = store, tick

    @property
    def uri(self) -> str:
        return self._store.uri

    def create(self, path: str, data: bytes) -> bool:
        self._tick()
        done = self._store.create(path, data)
        self._tick()
        return done

    def create_from_file(self, path: str, file: BinaryIO) -> bool:
        self._tick()
        done = self._store.create_from_file(path, file)
        self._tick()
        return done

    def read(self, path: str, limit_bytes: int = READ_BYTES_MAX) -> bytes:
        self._tick()
        return self._store.read(path, limit_bytes)

    def open(self, path: str) -> BinaryIO:
        self._tick()
        return self._store.open(path)

    def list(self, prefix: str = "") -> Iterator[str]:
        self._tick()
        yield from self._store.list(prefix)

    def written_at(self, path: str) -> float:
        self._tick()
        return self._store.written_at(path)

    def remove_work(self, *prefixes: str) -> None:
        for prefix in prefixes:
            self._tick()
            self._store.remove_work(prefix)
        self._tick()


def die() -> None:
    """End this process as kill -9 does: nothing is flushed, no handler and no ``finally`` runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_over(_: object) -> None:
    """End this process over whatever it is given: the work of a process that the system ends."""
    die()


def die_at_file_call(number: int) -> None:
    """Kill this process at its n-th system call that touches a file; half of the bytes of a write are written."""
    countdown = Countdown(number, die)

    def hooked(name: str, call: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            if name == "write" and countdown.left == 1:
                call(args[0], args[1][: len(args[1]) // 2])
            countdown.tick()
            return call(*args, **options)

        return run

    for name in FILE_CALLS:
        setattr(os, name, hooked(name, getattr(os, name)))


def killed_at(number: int, work: Callable[[Callable[[], None]], None]) -> bool:
    """Run ``work(tick)`` in a forked process that is killed at its n-th tick; tell whether it was."""
    return _forked(lambda: work(Countdown(number, die).tick))


def killed_at_file_call(number: int, work: Callable[[], None]) -> bool:
    """Run ``work()`` in a forked process that is killed at its n-th system call on files; tell whether it was."""

    def run() -> None:
        die_at_file_call(number)
        work()

    return _forked(run)


def _forked(work: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return False
    raise AssertionError(f"The forked process failed with status {status}.")
