"""What the command line prints: one JSON object or text on stdout, errors and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    FingerprintDeclinedError,
    InputPathError,
    SideReadError,
    StoreMissingError,
    StoreReadError,
    StoreRetiredError,
    StoreWriteError,
    WorkerLostError,
)

UNREADABLE = (
    ConnectError,
    FingerprintDeclinedError,
    SideReadError,
    InputPathError,
    StoreMissingError,
    StoreReadError,
    StoreRetiredError,
    StoreWriteError,
    WorkerLostError,
)
"""Refusals that mean: could not read or write."""
PROGRESS_INTERVAL_S = 5.0


def exit_code(error: DeltaError) -> int:
    """Return 3 where something could not be read or written, else 2."""
    return 3 if isinstance(error, UNREADABLE) else 2


def print_error(error: DeltaError, *, as_json: bool) -> None:
    """Print one refusal: as JSON on stdout, or as a sentence on stderr."""
    if as_json:
        print_json({"error": error.document()})
    else:
        print(str(error), file=sys.stderr)


def print_os_error(error: OSError, *, as_json: bool) -> None:
    """Print a failure of the operating system as one that names file and reason."""
    place = str(error.filename) if error.filename is not None else "a file"
    print_error(StoreWriteError(f"{place}: {error.strerror or error}.", where=place), as_json=as_json)


def print_json(value: Any) -> None:
    """Print one JSON object and a newline; text that is no Unicode is escaped."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, separators=(", ", ": ")) + "\n")


def printable(value: object) -> str:
    """Return data as a terminal may be given it: nothing in it moves a cursor or ends a line."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(value))


def print_line(line: str) -> None:
    """Print one line for people on stderr."""
    print(printable(line), file=sys.stderr, flush=True)


class ProgressBar:
    """Rows per second and time left: a bar on a terminal, a line now and then elsewhere, on stderr."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None
        self._rows = 0
        self._told = time.monotonic()
        self._started = self._told
        self._terminal = sys.stderr.isatty()

    def __call__(self, rows: int, rows_expected: int | None, shards: int, shards_planned: int) -> None:
        """Show how far the run is."""
        if self._terminal:
            self._show(rows, rows_expected, shards, shards_planned)
        elif time.monotonic() - self._told >= PROGRESS_INTERVAL_S:
            self._told = time.monotonic()
            rate = rows / max(self._told - self._started, 1e-9)
            left = f", {max(rows_expected - rows, 0) / max(rate, 1):.0f} s left" if rows_expected else ""
            print(
                f"{self._label}: {rows} rows, {rate:.0f} rows/s, shard {shards} of {shards_planned}{left}",
                file=sys.stderr,
            )

    def _show(self, rows: int, rows_expected: int | None, shards: int, shards_planned: int) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=rows_expected, unit="row", unit_scale=True, desc=self._label, file=sys.stderr)
        self._bar.set_postfix_str(f"shard {shards}/{shards_planned}", refresh=False)
        self._bar.update(max(rows - self._rows, 0))
        self._rows = max(rows, self._rows)

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()
