"""Python's collector of cycles, paused while many small values without cycles come and go."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_TURN = Lock()
"""Held by whoever paused the collector, and so is the one to let it run again."""


@contextmanager
def paused() -> Iterator[None]:
    """Leave memory to reference counts alone, for a bounded piece of work.

    The collector walks over all young containers again and again; parsed records are nothing but such, and it would take
    longer than parsing them. Where it is off already it stays off. One thread at a time pauses it: what others do
    meanwhile is as right and at worst slower, since the collector runs again as soon as that thread is done.
    """
    if not _TURN.acquire(blocking=False):
        yield
        return
    was = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was:
            gc.enable()
        _TURN.release()
