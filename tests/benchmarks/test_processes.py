"""Benchmarks that are interrupted or killed: nothing that they started goes on without them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20
LINKED = """
import sys
from benchmarks.link import _link
with _link(1, 1000) as port:
    print(port, flush=True)
    sys.stdin.read()
    raise SystemExit("failed")
"""


def within_patience(holds: Callable[[], bool]) -> bool:
    """Tell whether something comes true."""
    until = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return holds()


def refused(port: int) -> bool:
    """Tell whether nobody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("way", ["fails", "terminated", "killed"])
def test_a_slow_link_ends_with_its_benchmark(way):
    """However that ends: a proxy left behind keeps a port, and the next reader of a process list busy."""
    command = [sys.executable, "-c", LINKED]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        port = int(process.stdout.readline())
        assert not refused(port)
        {"fails": process.stdin.close, "terminated": process.terminate, "killed": process.kill}[way]()
        process.wait(PATIENCE_S)
    assert within_patience(lambda: refused(port))


def test_a_measured_command_ends_where_its_measure_is_interrupted(monkeypatch, tmp_path):
    """Else it, or a worker of it, works on beside the next thing that is measured."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import measure

    noted = tmp_path / "pid"

    def interrupted(pid: int, options: int) -> None:
        assert within_patience(lambda: noted.exists() and bool(noted.read_text()))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "wait4", interrupted)
    worker = f"import os, time; open({str(noted)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    with pytest.raises(KeyboardInterrupt):
        measure.run([sys.executable, "-c", command])
    assert within_patience(lambda: not Path(f"/proc/{noted.read_text()}").exists())
