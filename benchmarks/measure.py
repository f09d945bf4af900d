"""One command, measured: wall time, CPU of its processes and of the servers it used, memory of its largest process."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

WATCH_INTERVAL_S = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN_CHARS = 400


@dataclass(frozen=True)
class Measure:
    """One run. Units: seconds, MB of 2**20 bytes. ``failed``: what it printed, where it did not end as it should."""

    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    peak_mb: float
    stdout: str
    failed: str = ""

    @property
    def cpu_s(self) -> float:
        """CPU of clients and servers together."""
        return self.client_cpu_s + self.server_cpu_s


def run(command: Sequence[str], *, sessions: Sequence[int] = (), ends: Sequence[int] = (0,)) -> Measure:
    """Run a command to its end; ``sessions`` are the servers' process sessions, ``ends`` the exit codes of success."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        before, started = _server_cpu_s(sessions), time.monotonic()
        process = subprocess.Popen(
            list(command), stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=ROOT, env=_environment()
        )
        ended = threading.Event()
        peaks: list[int] = []
        watch = threading.Thread(target=_watch_memory, args=(process.pid, ended, peaks), daemon=True)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - started
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            ended.set()
            watch.join()
            if process.returncode is None:  # whatever ends the measure ends what is measured
                _kill(process)
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace")
    failed = "" if process.returncode in ends else f"exit {process.returncode}: {(stderr or stdout)[-SHOWN_CHARS:]}"
    return Measure(
        wall_s,
        usage.ru_utime + usage.ru_stime,
        _server_cpu_s(sessions) - before,
        max(peaks, default=0) / 1024,
        stdout,
        failed,
    )


def _environment() -> dict[str, str]:
    """Return the environment of a user, whose modules are compiled once and not at each start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def median(measures: Sequence[Measure], what: str) -> float:
    """Return the median of one member."""
    return statistics.median(getattr(one, what) for one in measures)


def _watch_memory(pid: int, ended: threading.Event, peaks: list[int]) -> None:
    """Note the high-water marks (KB) of a process and its descendants; what wait4 says also holds their starter's."""
    while not ended.wait(WATCH_INTERVAL_S):
        for place in _family(pid):
            try:
                lines = (place / "status").read_text().splitlines()
            except OSError:
                continue  # ended meanwhile
            peaks.extend(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _family(pid: int) -> Iterator[Path]:
    """Yield a process and its descendants, as folders of /proc."""
    waiting = [pid]
    while waiting:
        place = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError):  # ended meanwhile
            waiting += [int(child) for child in (place / "task" / place.name / "children").read_text().split()]
        yield place


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its workers, which would wait for it for ever."""
    for place in list(_family(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(int(place.name), signal.SIGKILL)
    process.wait()


def _server_cpu_s(sessions: Sequence[int]) -> float:
    """Return the CPU of all processes of these sessions, the ended ones included, as their parents count them."""
    ticks = 0
    for entry in Path("/proc").iterdir() if sessions else ():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile; its parent counts it
            if int(fields[3]) in sessions:
                ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (sys.executable, "-c", "from airflow_delta_provider.cli import entry_point; entry_point()")
"""The command of the product."""
