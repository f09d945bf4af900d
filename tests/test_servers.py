"""Tests of the servers that other tests use."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import servers


def test_postgresql_answers_in_utf8_and_not_as_root(postgresql_database, postgresql_server):
    """Text must survive the server, and a server that runs as root would refuse to start elsewhere."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgresql_database) as connection:
        assert connection.execute("SELECT 'n\u00e4\U0001f3a9', current_setting('server_encoding')").fetchone() == (
            "n\u00e4\U0001f3a9",
            "UTF8",
        )
    assert postgresql_server.folder.joinpath("data").stat().st_uid != 0


def test_mariadb_answers_in_utf8mb4(mariadb_server):
    """Four-byte characters are what truncation bugs are made of."""
    pymysql = pytest.importorskip("pymysql")
    name = mariadb_server.create_database().rsplit("/", 1)[1]
    with pymysql.connect(
        host=mariadb_server.host,
        port=mariadb_server.port,
        user=mariadb_server.user,
        password=mariadb_server.password,
        database=name,
        charset="utf8mb4",
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (s text)")
        cursor.execute("INSERT INTO t VALUES (%s)", ("\U0001f3a9",))
        cursor.execute("SELECT s, @@version LIKE '%%MariaDB%%' FROM t")
        assert cursor.fetchall() == (("\U0001f3a9", 1),)


def test_redis_asks_for_its_password(redis_server):
    """An open port on a shared machine must not serve strangers."""
    import socket

    with socket.create_connection((redis_server.host, redis_server.port), 5) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(64).startswith(b"-NOAUTH")
        connection.sendall(f"AUTH {redis_server.password}\r\nPING\r\n".encode())
        time.sleep(0.1)
        assert connection.recv(64) == b"+OK\r\n+PONG\r\n"


def test_a_killed_test_process_leaves_no_server_behind(tmp_path):
    """Interrupted test runs must not fill a machine with servers."""
    servers.require("redis")
    script = tmp_path / "hold.py"
    script.write_text(
        textwrap.dedent(
            """
            import servers, time
            with servers.redis() as server:
                print(server.pid, flush=True)
                time.sleep(600)
            """
        )
    )
    holder = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
    )
    assert holder.stdout is not None
    keeper = int(holder.stdout.readline())
    holder.kill()
    holder.wait()
    holder.stdout.close()
    for _ in range(200):
        if not _alive(keeper):
            return
        time.sleep(0.1)
    pytest.fail(f"process {keeper} still runs")


@pytest.mark.parametrize(("all_needed", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_missing_program_skips_by_name_or_fails(monkeypatch, all_needed, outcome):
    """A skip that nobody reads would hide a whole engine from the tests."""
    monkeypatch.setenv("DELTA_REQUIRE_ALL", all_needed)
    with pytest.raises(outcome, match="the program no-such-program is missing"):
        servers.require_program("no-such-program")


def test_a_server_that_does_not_start_shows_its_log():
    """Without the log nobody can tell why a server is not there."""
    servers.require("postgresql")
    with (
        pytest.raises(servers.ServerFailed, match="no_such_setting"),
        servers.postgresql(options=("no_such_setting=1",)),
    ):
        pytest.fail("the server started")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
