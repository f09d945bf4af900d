"""Python's collector of cycles, paused while many small values without cycles come and go."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Leave memory to reference counts alone, for a bounded piece of work.

    The collector walks over all young containers again and again; parsed records are nothing but such, and it would take
    longer than parsing them. Where it is off already it stays off.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
