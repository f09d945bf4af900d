"""A worker process that the system ends: a refusal with a code, and nothing published."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from airflow_delta_provider.core.errors import WorkerLostError
from airflow_delta_provider.engine.workers import results_of


def test_a_killed_worker_is_a_refusal_that_names_its_shard():
    """Out of memory ends a worker without a word; the run must not end in a traceback and the code of a verdict."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        futures = [pool.submit(abs, -1), pool.submit(os.kill, os.getpid(), 0)]
        assert list(results_of(futures)) == [1, None]
        doomed = [pool.submit(abs, -2), pool.submit(signal.raise_signal, signal.SIGKILL)]
        with pytest.raises(WorkerLostError, match=r"\[DELTA_WORKER_LOST\] a worker process ended during shard 1 of 2"):
            list(results_of(doomed))
