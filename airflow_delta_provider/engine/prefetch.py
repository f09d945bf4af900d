"""Read ahead in a thread, so that both sides and the comparison work at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
AHEAD = 2
"""Batches that wait between reader and comparison."""
POLL_INTERVAL_S = 0.1


class _End:
    """Ends the queue; carries what the reader raised, if anything."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Prefetched(Generic[Item]):
    """An iterator whose items are made in a thread of its own, at most ``AHEAD`` in advance.

    The source iterator is made, advanced and closed in that thread alone. ``close`` stops it and waits for it.
    """

    def __init__(self, make: Callable[[], Iterator[Item]], name: str) -> None:
        self._make = make
        self._queue: queue.Queue[Item | _End] = queue.Queue(maxsize=AHEAD)
        self._stop = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"delta-read-{name}", daemon=True)
        self._thread.start()

    def __iter__(self) -> Prefetched[Item]:
        return self

    def __next__(self) -> Item:
        if self._ended:
            raise StopIteration
        item = self._queue.get()
        if isinstance(item, _End):
            self._ended = True
            self._thread.join()
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item

    def close(self) -> None:
        """Stop the reader and wait until it has closed its source."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=POLL_INTERVAL_S)
            except queue.Empty:
                continue
        self._ended = True

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            items = self._make()
            try:
                for item in items:
                    if not self._put(item):
                        return
            finally:
                close = getattr(items, "close", None)
                if close is not None:
                    close()
        except BaseException as caught:  # noqa: BLE001 - handed to the reading thread, which raises it
            error = caught
        self._put(_End(error))

    def _put(self, item: Item | _End) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=POLL_INTERVAL_S)
            except queue.Full:
                continue
            return True
        return False
