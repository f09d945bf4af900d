"""Run one server as a given user until standard input closes: whoever started it and dies, however, leaves no server behind.

Usage: ``python keep_server.py SIGNAL USER COMMAND...``; USER is empty where the caller's own user will do.
Ends with the server's own exit status if the server ends first.
"""

from __future__ import annotations

import os
import pwd
import select
import subprocess
import sys
from typing import Any

POLL_INTERVAL_S = 0.2
STOP_TIMEOUT_S = 20


def main(signal_number: int, user: str, command: list[str]) -> int:
    """Start ``command``, wait for it or for the end of standard input, then stop it; return its exit status."""
    drop: dict[str, Any] = {}
    if user:
        entry = pwd.getpwnam(user)
        drop = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [entry.pw_gid]}
    server: subprocess.Popen[bytes] = subprocess.Popen(command, stdin=subprocess.DEVNULL, **drop)
    while server.poll() is None:
        if select.select([0], [], [], POLL_INTERVAL_S)[0] and not os.read(0, 1):
            server.send_signal(signal_number)
            try:
                server.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                server.kill()
            return server.wait()
    return server.returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
