"""``airflow-delta``: the whole product on the command line, without Airflow."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Sequence

from airflow_delta_provider.cli import output
from airflow_delta_provider.core.errors import DeltaError

Command = Callable[[argparse.Namespace], int]
UNEXPECTED = 3
"""Exit code where no verdict came about for a reason that nobody foresaw."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (README, section exit codes)."""
    from airflow_delta_provider.cli.parser import build_parser

    arguments = build_parser().parse_args(argv)
    command: Command = arguments.command
    try:
        return command(arguments)
    except DeltaError as error:
        output.print_error(error, as_json=getattr(arguments, "json", False))
        return output.exit_code(error)
    except BrokenPipeError:
        sys.stderr.close()
        return 3
    except OSError as error:
        output.print_os_error(error, as_json=getattr(arguments, "json", False))
        return 3


def entry_point() -> None:
    """Run as the installed command. A defect of ours exits with 3: 1 would say that there are discrepancies."""
    from airflow_delta_provider.engine.light import keep_pandas_out

    keep_pandas_out()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that sides close and servers stop
    try:
        code = main()
    except Exception:  # noqa: BLE001 - Python itself would exit with 1 after the same traceback
        traceback.print_exc()
        code = UNEXPECTED
    sys.exit(code)
