"""A seekable stream over something that is read by ranges: small ones after a seek, ever larger ones while reading on."""

import io
import os
from collections.abc import Callable

AHEAD_BYTES_MIN = 64 * 2**10
AHEAD_BYTES_MAX = 8 * 2**20


class RangeReader(io.RawIOBase):
    """The bytes that ``fetch(start, end)`` gives, ``size`` of them.

    Shape: one range is held; a read inside it asks nobody. A range is never smaller than what is read, and twice as
    long as the one before where reading goes on from it, so that a scan of gigabytes needs few requests.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size, self._fetch = size, fetch
        self._place = 0
        self._start, self._held = 0, memoryview(b"")
        self._ahead = AHEAD_BYTES_MIN

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can seek."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; nothing is fetched."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._place = base + offset
        return self._place

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # typeshed: WriteableBuffer
        """Fill ``buffer`` with what comes next; 0 at the end."""
        target = memoryview(buffer).cast("B")
        if self._place >= self._size or not len(target):
            return 0
        if not self._start <= self._place < self._start + len(self._held):
            self._fill(len(target))
        part = self._held[self._place - self._start :][: len(target)]
        target[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _fill(self, wanted: int) -> None:
        reads_on = self._place == self._start + len(self._held) and self._place > 0
        self._ahead = min(2 * self._ahead, AHEAD_BYTES_MAX) if reads_on else AHEAD_BYTES_MIN
        end = min(self._size, self._place + max(wanted, self._ahead))
        self._start, self._held = self._place, memoryview(self._fetch(self._place, end))
        if not self._held:
            raise EOFError(f"nothing came for bytes {self._place} to {end}")
