"""Marked secrets in every address, good runs and bad ones, and a search of everything that a run leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pymysql
import pytest
from servers import free_port

from airflow_delta_provider.adapters.dialects.mysql_connect import _parameters
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.spec import SideSpec

MARK = "s3kr:t@M4RK/ü?&#%x"
"""A password of everything that an address has to encode."""
PIECES = ("s3kr", "M4RK", quote("s3kr:t@M4RK", safe=""))
"""No piece of it may be found anywhere."""
PROCESS_TIMEOUT_S = 120


def found_in(data: bytes) -> list[str]:
    """Return the pieces of the secret that some bytes hold, in any of the encodings that a database or a file uses."""
    return [
        piece
        for piece in PIECES
        for form in ("utf-8", "utf-16-le")
        if piece.encode(form) in data or piece[::-1].encode() in data
    ]


@pytest.fixture
def postgresql(postgresql_database: str) -> str:
    """The address of a PostgreSQL database with a table ``t``, for a role whose password is marked."""
    import psycopg
    from psycopg import sql

    parts = urlsplit(postgresql_database)
    with psycopg.connect(postgresql_database, autocommit=True) as connection:
        role = f"marked_{os.getpid()}_{parts.path[1:]}"
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), sql.Literal(MARK)))
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        connection.execute(sql.SQL("GRANT SELECT ON t TO {}").format(sql.Identifier(role)))
    return f"postgresql://{role}:{quote(MARK, safe='')}@127.0.0.1:{parts.port}{parts.path}"


@pytest.fixture
def mysql(mariadb_database: str) -> str:
    """The same for MariaDB."""
    parts = urlsplit(mariadb_database)
    with pymysql.connect(**_parameters(mariadb_database), autocommit=True, charset="utf8mb4") as connection:
        cursor = connection.cursor()
        role = f"m_{parts.path[1:]}"
        cursor.execute("CREATE USER %s@'127.0.0.1' IDENTIFIED BY %s", (role, MARK))
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
        cursor.execute("INSERT INTO t VALUES (1, 'a'), (2, 'c')")
        cursor.execute(f"GRANT SELECT ON {parts.path[1:]}.* TO %s@'127.0.0.1'", (role,))
    return f"mysql://{role}:{quote(MARK, safe='')}@127.0.0.1:{parts.port}{parts.path}"


class Runs:
    """Runs the command line in a process of its own, whose temporary folder stays, and searches all that it left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left = folder / "left"
        (self.left / "tmp").mkdir(parents=True)

    def __call__(self, *arguments: str, source: Any, target: Any, environ: dict[str, str] | None = None) -> int:
        """Run and return the exit code; fail where a piece of the secret is found."""
        form = {"name": "marked", "source": source, "target": target, "key": ["id"]}
        spec = self.folder / "pair.yaml"
        spec.write_text(json.dumps(form))
        command = [str(Path(sys.executable).with_name("airflow-delta")), *arguments, str(spec)]
        if arguments[0] == "run":
            command += ["--store", str(self.left / "store")]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.left / "tmp"), **(environ or {})},
        )
        seen = Path(f"/proc/{process.pid}/cmdline").read_bytes() if Path("/proc").is_dir() else b""
        out, err = process.communicate(timeout=PROCESS_TIMEOUT_S)
        assert found_in(seen) == []
        assert found_in(out) == [], out
        assert found_in(err) == [], err
        assert b"Traceback" not in err
        for path in self.left.rglob("*"):
            assert found_in(str(path.relative_to(self.left)).encode()) == []
            assert not path.is_file() or found_in(path.read_bytes()) == [], path
        return process.returncode


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs in a folder of their own."""
    return Runs(tmp_path)


def test_good_runs_leave_no_secret_behind(runs, postgresql, mysql):
    """Store, sidecar, output and temporary files; the label of a side without one too."""
    source, target = {"uri": postgresql, "table": "t"}, {"uri": mysql, "table": "t"}
    assert runs("check", source=source, target=target) == 0
    assert runs("run", source=source, target=target) == 1
    assert runs("run", "--json", "--shards", "2", source=source, target=target) == 1
    queried = {"uri": mysql, "query": "SELECT id, v FROM t"}
    assert runs("run", source=source, target=queried) == 1
    store = [path for path in (runs.left / "store").rglob("*") if path.is_file()]
    assert len(store) > 10
    hidden = {"uri": "${MARKED_URI}", "table": "t"}
    assert runs("run", "--json", source=hidden, target=target, environ={"MARKED_URI": postgresql}) == 1


Break = Callable[[str], dict[str, Any]]
BROKEN: dict[str, Break] = {
    "closed port": lambda uri: {"uri": uri.replace(f":{urlsplit(uri).port}/", f":{free_port()}/"), "table": "t"},
    "wrong password": lambda uri: {"uri": uri.replace("%2F", "%2Fno"), "table": "t"},
    "no such database": lambda uri: {"uri": uri.rpartition("/")[0] + "/nowhere", "table": "t"},
    "no such table": lambda uri: {"uri": uri, "table": "nowhere"},
    "no such column": lambda uri: {"uri": uri, "query": "SELECT nothing AS id FROM t"},
    "no statement": lambda uri: {"uri": uri, "query": "SELEC id FROM t"},
    "no such host": lambda uri: {"uri": uri.replace("@127.0.0.1:", "@nowhere.invalid:"), "table": "t"},
    "password not encoded": lambda uri: {"uri": uri.replace(quote(MARK, safe=""), MARK), "table": "t"},
    "password cut by a slash": lambda uri: {"uri": uri.replace("%2F", "/"), "table": "t"},
    "password in the query": lambda uri: {"uri": f"{uri}?password={quote(MARK, safe='')}&nonsense=1", "table": "t"},
    "a parameter that is none": lambda uri: {"uri": f"{uri}?{quote(MARK, safe='')}=1", "table": "t"},
    "a port that is none": lambda uri: {"uri": uri.replace(f":{urlsplit(uri).port}/", ":s3krM4RK/"), "table": "t"},
    "a timeout that is none": lambda uri: {"uri": f"{uri}?statement_timeout_s={quote(MARK, safe='')}", "table": "t"},
    "an engine that is none": lambda uri: {"uri": "sybase" + uri[uri.index(":") :], "table": "t"},
    "no scheme": lambda uri: {"uri": uri[uri.index(":") :], "table": "t"},
    "table and query": lambda uri: {"uri": uri, "table": "t", "query": "SELECT 1"},
    "a path": lambda uri: {"path": uri},
    "a database file": lambda uri: {"uri": "sqlite" + uri[uri.index(":") :], "table": "t"},
    "another database file": lambda uri: {"uri": "duckdb" + uri[uri.index(":") :], "table": "t"},
    "an object store": lambda uri: {"uri": "s3" + uri[uri.index(":") :] + "/a.parquet"},
    "an unknown member": lambda uri: {"uri": uri, "table": "t", "password": MARK},
}


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
def test_bad_runs_leave_no_secret_behind(engine, runs, request, tmp_path):
    """Drivers like to repeat what they were given; whatever fails, the secret stays out of it."""
    uri = request.getfixturevalue(engine)
    target = {"uri": uri, "table": "t"}
    codes = {name: runs("check", source=broken(uri), target=target) for name, broken in BROKEN.items()}
    goes_through = {name for name, code in codes.items() if code not in (2, 3)}
    assert goes_through <= {"password in the query"} | ({"a parameter that is none"} if engine == "mysql" else set()), (
        codes
    )


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
@pytest.mark.parametrize("name", ["closed port", "wrong password", "no such database", "password not encoded"])
def test_no_cause_of_an_error_holds_the_secret(engine, name, request):
    """A scheduler logs the whole chain of causes, the hidden ones too where somebody else raises again."""
    spec = BROKEN[name](request.getfixturevalue(engine))
    with pytest.raises(DeltaError) as caught:
        _ = open_side(SideSpec(**spec)).columns
    chain: list[BaseException] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    for each in chain:
        assert found_in("".join(traceback.format_exception_only(each)).encode()) == []
        assert found_in(repr(each).encode()) == []


def test_an_empty_password_changes_nothing_that_is_shown(runs, tmp_path):
    """Taking an empty text out of a message would put something between all letters of it."""
    import sqlite3

    for name in ("a", "b"):
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    sides = [{"uri": f"sqlite:///{tmp_path / name}.db", "table": "t"} for name in ("a", "b")]
    assert runs("run", source=sides[0], target=sides[1]) == 0
    bare = f"postgresql://x:@127.0.0.1:{free_port()}/d"
    with pytest.raises(DeltaError, match=r"PostgreSQL at 127\.0\.0\.1:\d+"):
        _ = open_side(SideSpec(uri=bare, table="t")).columns
    bare = f"mysql://x:@127.0.0.1:{free_port()}/d"
    with pytest.raises(DeltaError, match=r"MySQL at 127\.0\.0\.1:\d+"):
        _ = open_side(SideSpec(uri=bare, table="t")).columns
