"""Results of local worker processes, in order; a worker that the system ended is a refusal of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from airflow_delta_provider.core.errors import WorkerLostError

Result = TypeVar("Result")


def results_of(futures: Sequence[Future[Result]]) -> Iterator[Result]:
    """Yield results in the order of the futures. Raises: what a worker raised; WorkerLostError where one ended."""
    from concurrent.futures.process import BrokenProcessPool

    for number, future in enumerate(futures):
        try:
            yield future.result()
        except BrokenProcessPool as error:
            raise WorkerLostError(
                f"a worker process ended during shard {number} of {len(futures)}.", where="--workers"
            ) from error
