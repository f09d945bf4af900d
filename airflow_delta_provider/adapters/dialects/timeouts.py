"""``statement_timeout_s`` in the address of a server: how long one of its statements may run."""

from __future__ import annotations

import re

from airflow_delta_provider.core.errors import ConnectError

PARAMETER = "statement_timeout_s"
TIMEOUT_S_MAX = 10**6
_FOUND = re.compile(rf"([?&]){PARAMETER}=([^&#]*)")


def split_timeout(uri: str) -> tuple[str, int | None]:
    """Return an address without the parameter, and its value in milliseconds or None.

    Raises: ConnectError for a value that is no number of seconds above 0.
    """
    found = _FOUND.search(uri)
    if found is None:
        return uri, None
    try:
        seconds = float(found[2])
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= TIMEOUT_S_MAX:
        raise ConnectError(f"{PARAMETER} is a number of seconds above 0 and up to {TIMEOUT_S_MAX}.")
    left, right = uri[: found.start()], uri[found.end() :]
    if found[1] == "?" and right.startswith("&"):
        right = "?" + right[1:]
    return left + right, max(1, round(seconds * 1000))
