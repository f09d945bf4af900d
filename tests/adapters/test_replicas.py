"""Positions in logs: compared as literals, and between real servers of which one replays the other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import servers

from airflow_delta_provider.adapters.dialects.replicas import Position, demand_logged, read_position
from airflow_delta_provider.core.errors import InputPolicyError, SideSchemeError
from airflow_delta_provider.demo import servers as started

ONE, TWO = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4350f323-7565-4e59-8763-4b1b83a0ce0e"
WAIT_S = 60


@pytest.mark.parametrize(
    ("kind", "replica", "source", "there"),
    [
        ("postgresql", "0/FFFFFFFF", "1/0", False),
        ("postgresql", "1/0", "0/FFFFFFFF", True),
        ("postgresql", "16/B374D848", "16/B374D848", True),
        ("mysql", f"{ONE}:1-5", f"{ONE}:1-6", False),
        ("mysql", f"{ONE}:1-3:4-6", f"{ONE}:1-6", True),
        ("mysql", f"{ONE}:1-9", f"{ONE}:1-6,{TWO}:1", False),
        ("mysql", f"{ONE.upper()}:1-9,{TWO}:1", f"{ONE}:2-6:8", True),
        ("mysql", f"{ONE}:1-3:5-6", f"{ONE}:4", False),
        ("mysql", f"{ONE}:1-3:tag:1-2", f"{ONE}:tag:1-3", False),
        ("mysql", f"{ONE}:1-3:tag:1-3", f"{ONE}:tag:2-3", True),
        ("mysql", "", f"{ONE}:1", False),
        ("mariadb", "0-1-99", "0-2-100", False),
        ("mariadb", "0-1-100,1-1-7", "0-1-100", True),
        ("mariadb", "0-1-100", "0-1-100,1-1-7", False),
    ],
)
def test_a_replica_is_there_once_it_has_everything_of_the_source(kind, replica, source, there):
    """A place that is merely greater in one part is not enough."""
    assert Position(kind, replica, "c").reaches(Position(kind, source, "c")) is there


@pytest.mark.parametrize(
    "text", ["", "oracle - 12", "postgresql 7 0-1", "mysql - :1-2", "mysql - x", "mariadb - 0-1", "postgresql 7 "]
)
def test_what_is_no_position_is_refused(text):
    """A wait for nonsense would end at once, or never."""
    with pytest.raises(InputPolicyError, match=r"\[DELTA_INPUT_POLICY\]"):
        Position.load(text)


def test_positions_of_two_clusters_are_not_compared():
    """The log positions of strangers are numbers without a common zero."""
    with pytest.raises(InputPolicyError, match="no replicas of each other"):
        Position("postgresql", "2/0", "1").reaches(Position("postgresql", "1/0", "2"))
    with pytest.raises(InputPolicyError, match="no replicas of each other"):
        Position("mysql", "").reaches(Position("mariadb", "0-1-1"))


def test_a_source_without_a_log_and_an_engine_without_positions_are_refused():
    """An empty set of transactions is in every other one: the wait would end before it began."""
    with pytest.raises(InputPolicyError, match="no GTID position"):
        demand_logged(read_position("mysql", lambda query: [["8.4.0" if "version" in query else ""]]))
    with pytest.raises(SideSchemeError, match="'sqlite' has no log position"):
        read_position("sqlite", lambda query: [])


def test_a_position_keeps_its_form_in_one_text():
    """It travels in a trigger and an XCom."""
    for one in (Position("postgresql", "1/2", "77"), Position("mysql", f"{ONE}:1-2"), Position("mariadb", "0-1-2")):
        assert Position.load(one.dump()) == one


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def postgresql_fetch(server: servers.Server) -> Callable[[str], Any]:
    import psycopg

    def fetch(query: str) -> Any:
        with psycopg.connect(server.uri("postgres"), autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    return fetch


@contextmanager
def postgresql_replica(primary: servers.Server) -> Iterator[servers.Server]:
    """Run a physical replica of a server."""
    program = primary.programs / "pg_basebackup"
    if not program.exists():
        servers.lacking("the program pg_basebackup")
    with started.server_folder("postgres") as (folder, user):
        data = folder / "data"
        line = f"host=127.0.0.1 port={primary.port} user={primary.user} password={primary.password}"
        started.run_as([str(program), "-D", str(data), "-R", "-X", "stream", "-c", "fast", "-d", line], user, folder)

        def command_for(port: int) -> list[str]:
            return [str(primary.programs / "postgres"), "-D", str(data), "-p", str(port), "-c",
                    f"unix_socket_directories={folder}", "-c", "hot_standby=on"]  # fmt: skip

        def ready(port: int) -> bool:
            asked = [str(primary.programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-q"]
            return subprocess.run(asked, check=False, timeout=10, env=dict(os.environ)).returncode == 0

        with started.running(folder, user, command_for, ready, signal.SIGINT) as (port, pid, log):
            yield servers.Server("postgresql", port, primary.user, primary.password, folder, log, pid, primary.programs)


@pytest.mark.slow
def test_a_postgresql_replica_that_pauses_is_waited_for():
    """Written on the primary, not yet replayed: the comparison would accuse rows that are on their way."""
    options = ("wal_level=replica", "max_wal_senders=4", "hot_standby=on")
    with servers.postgresql(linguistic=True, options=options) as primary, postgresql_replica(primary) as replica:
        source, target = postgresql_fetch(primary), postgresql_fetch(replica)
        target("SELECT pg_wal_replay_pause()")
        source("CREATE TABLE t AS SELECT generate_series(1, 100) AS id")
        position = demand_logged(read_position("postgresql", source))
        assert not read_position("postgres", target).reaches(position)
        target("SELECT pg_wal_replay_resume()")
        until(lambda: read_position("postgres", target).reaches(position))
        assert target("SELECT count(*) FROM t") == [(100,)]


@pytest.mark.slow
def test_a_mariadb_replica_whose_applier_stands_still_is_waited_for():
    """The same by GTID."""
    import pymysql

    def fetch_of(server: servers.Server) -> Callable[[str], Any]:
        def fetch(query: str) -> Any:
            connection = pymysql.connect(
                host="127.0.0.1", port=server.port, user=server.user, password=server.password, autocommit=True
            )
            try:
                with connection.cursor() as cursor:
                    cursor.execute(query)
                    return cursor.fetchall()
            finally:
                connection.close()

        return fetch

    with (
        servers.mariadb(options=("--log-bin=b", "--server-id=1")) as one,
        servers.mariadb(options=("--log-bin=b", "--server-id=2", "--log-slave-updates")) as two,
    ):
        source, target = fetch_of(one), fetch_of(two)
        start = source("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]
        target("RESET MASTER")
        target(f"SET GLOBAL gtid_slave_pos = '{start}'")
        target(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={one.port}, MASTER_USER='{one.user}',"
            f" MASTER_PASSWORD='{one.password}', MASTER_USE_GTID=slave_pos"
        )
        target("START SLAVE IO_THREAD")
        source("CREATE DATABASE shop")
        source("CREATE TABLE shop.t (id INT PRIMARY KEY)")
        position = demand_logged(read_position("mysql", source))
        assert position.kind == "mariadb"
        assert not read_position("mysql", target).reaches(position)
        target("START SLAVE SQL_THREAD")
        until(lambda: read_position("mysql", target).reaches(position))
        assert target("SELECT count(*) FROM shop.t") == ((0,),)
