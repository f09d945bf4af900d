"""Reading ahead: bounded, in one thread, and over when it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from airflow_delta_provider.engine.prefetch import AHEAD, Prefetched


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("delta-read-")]


class Source:
    """Numbers, with a note of what was made and who closed it."""

    def __init__(self, count: int, fail_at: int = -1) -> None:
        self.count, self.fail_at = count, fail_at
        self.made: list[int] = []
        self.threads: set[int] = set()
        self.closed_in: int | None = None

    def items(self) -> Iterator[int]:
        try:
            for number in range(self.count):
                self.threads.add(threading.get_ident())
                if number == self.fail_at:
                    raise OSError("the line went dead")
                self.made.append(number)
                yield number
        finally:
            self.closed_in = threading.get_ident()


def test_items_come_in_order_and_the_thread_ends():
    """A hundred shards must not leave two hundred threads."""
    source = Source(20)
    assert list(Prefetched(source.items, "all")) == list(range(20))
    assert readers() == []


def test_no_more_than_a_few_items_are_made_ahead():
    """A slow comparison must not fill the memory with batches."""
    source = Source(50)
    stream = Prefetched(source.items, "slow")
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(source.made) < 1 + AHEAD + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(source.made) == 1 + AHEAD + 1
    stream.close()


def test_closing_early_closes_the_source_in_its_own_thread():
    """A cursor belongs to the thread that reads; closing it cancels the query."""
    source = Source(50)
    stream = Prefetched(source.items, "early")
    next(stream)
    stream.close()
    assert readers() == []
    assert {source.closed_in} == source.threads
    assert source.closed_in != threading.get_ident()
    with pytest.raises(StopIteration):
        next(stream)
    stream.close()


def test_closing_before_the_first_item_is_possible():
    """The other side may have been refused meanwhile."""
    for _ in range(20):
        Prefetched(Source(50).items, "unread").close()
    assert readers() == []


def test_what_the_reader_raises_is_raised_here_after_what_it_had_made():
    """And the thread is gone then."""
    source = Source(50, fail_at=3)
    stream = Prefetched(source.items, "failing")
    found = []
    with pytest.raises(OSError, match="the line went dead"):
        for item in stream:
            found.append(item)
    assert (found, readers()) == ([0, 1, 2], [])
    assert list(stream) == []


def test_a_source_that_cannot_be_made_is_an_error_too():
    """Opening happens in the thread."""

    def broken() -> Iterator[int]:
        raise ValueError("no such table")

    with pytest.raises(ValueError, match="no such table"):
        next(Prefetched(broken, "broken"))
    assert readers() == []
