"""Read ahead in a thread, so that both sides and the comparison work at the same time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Cancel = Callable[[bool], None]
AHEAD = 2
"""Batches that wait between reader and comparison."""
POLL_INTERVAL_S = 0.1
CANCEL_AFTER_S = 1.0
CUT_AFTER_S = 4.0
GIVE_UP_AFTER_S = 8.0
"""How long a reader that is not wanted any more goes on: then it is cancelled, cut off, and left behind."""


class _End:
    """Ends the queue; carries what the reader raised, if anything."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Nothing:
    """An iterator over nothing, in place of one that would be read ahead: no thread, no wait."""

    waited_s = 0.0

    def __iter__(self) -> Nothing:
        return self

    def __next__(self) -> Any:
        raise StopIteration

    def close(self) -> None:
        """Do nothing."""


class Prefetched(Generic[Item]):
    """An iterator whose items are made in a thread of its own, at most ``AHEAD`` in advance.

    The source iterator is made, advanced and closed in that thread alone. ``close`` stops it and waits for it.
    ``cancel`` ends what the thread waits for, from another one: politely, or at once where its argument is true; with it
    ``close`` returns in time even where the thread hangs. ``waited_s`` counts how long its taker waited for items.
    """

    def __init__(self, make: Callable[[], Iterator[Item]], name: str, cancel: Cancel | None = None) -> None:
        self._make = make
        self._name = name
        self._cancel = cancel
        self._queue: queue.Queue[Item | _End] = queue.Queue(maxsize=AHEAD)
        self._stop = threading.Event()
        self._ended = False
        self.waited_s = 0.0
        self._thread = threading.Thread(target=self._run, name=f"delta-read-{name}", daemon=True)
        self._thread.start()

    def __iter__(self) -> Prefetched[Item]:
        return self

    def __next__(self) -> Item:
        if self._ended:
            raise StopIteration
        started = time.monotonic()
        item = self._queue.get()
        self.waited_s += time.monotonic() - started
        if isinstance(item, _End):
            self._ended = True
            self._thread.join()
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item

    def close(self) -> None:
        """Stop the reader and wait until it has closed its source; one that hangs is cancelled, cut off, left behind."""
        self._stop.set()
        self._ended = True
        started = time.monotonic()
        steps = [] if self._cancel is None else [(CANCEL_AFTER_S, False), (CUT_AFTER_S, True)]
        helpers = []
        while self._thread.is_alive():
            waited_s = time.monotonic() - started
            if steps and waited_s >= steps[0][0]:
                helpers.append(self._help(steps.pop(0)[1]))
            if self._cancel is not None and waited_s >= GIVE_UP_AFTER_S:
                return
            with suppress(queue.Empty):
                self._queue.get(timeout=POLL_INTERVAL_S)
        for helper in helpers:  # a cancellation that comes late must not meet the next statement
            helper.join(max(0.0, GIVE_UP_AFTER_S - (time.monotonic() - started)))

    def _help(self, cut: bool) -> threading.Thread:
        """Cancel in a thread of its own, since the engine may not answer that either."""
        thread = threading.Thread(target=self._cancel, args=(cut,), name=f"delta-cancel-{self._name}", daemon=True)
        thread.start()
        return thread

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
