"""The collector of cycles is paused for a while and always comes back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from airflow_delta_provider.core.collector import paused


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """Whatever a test leaves behind, the next one finds the collector on."""
    yield
    gc.enable()


def test_it_is_off_inside_and_on_again_after_an_exception():
    """A page that is refused must not leave the process without a collector."""
    with pytest.raises(ValueError, match="page"), paused():
        assert not gc.isenabled()
        raise ValueError("page")
    assert gc.isenabled()


def test_where_it_was_off_it_stays_off():
    """Whoever switched it off for the whole process keeps that."""
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


def test_two_pauses_that_overlap_leave_it_on(monkeypatch):
    """Another thread may come to its end between the look and the switch of this one: pages are served by threads."""
    switch = gc.disable
    with ExitStack() as other:
        other.enter_context(paused())

        def late() -> None:
            other.close()
            switch()

        monkeypatch.setattr(gc, "disable", late)
        with paused():
            pass
    assert gc.isenabled()


def test_a_pause_inside_another_does_not_end_it():
    """A chunk that is judged as a whole may pause it again."""
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
