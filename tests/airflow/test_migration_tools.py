"""Each sensor and trigger against what the tools themselves record, on a server where nothing can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import migrated
import psycopg
import pytest
import servers
from airflow_runs import connection_text, context_of
from sqlalchemy.engine import URL

pytestmark = pytest.mark.usefixtures("metadata")
READ_ONLY = "-c default_transaction_read_only=on"


@dataclass(frozen=True)
class Migrations:
    """A database that one tool migrates; Airflow reaches it through the connection ``app``."""

    tool: str
    upgrade: Callable[[str], None]
    content: Callable[[], str]


@pytest.fixture(params=list(migrated.REVISIONS))
def migrations(request: Any, postgresql_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Migrations:
    """An empty PostgreSQL database for each tool; the connection ``app`` is refused every write by the server."""
    parts = urlsplit(postgresql_database)
    host, port, user, password = parts.hostname, parts.port, parts.username, unquote(parts.password or "")
    name = parts.path[1:]
    app = {"host": host, "port": port, "login": user, "password": password, "schema": name}
    text = connection_text(conn_type="postgres", extra={"options": READ_ONLY}, **app)
    monkeypatch.setenv("AIRFLOW_CONN_APP", text)
    store = connection_text(conn_type="delta_store", host=(tmp_path / "store").as_uri())
    monkeypatch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)

    def run(*statements: str) -> None:
        with psycopg.connect(postgresql_database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def content() -> str:
        tables = "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'S') AND relnamespace = 'public'::regnamespace"
        with psycopg.connect(postgresql_database) as connection:
            names = sorted(row[0] for row in connection.execute(tables).fetchall())
            return repr([(name, connection.execute(f"SELECT * FROM {name}".encode()).fetchall()) for name in names])

    uri = URL.create("postgresql+psycopg", user, password, host, port, name).render_as_string(hide_password=False)
    entry = {"ENGINE": "django.db.backends.postgresql", "HOST": host, "PORT": port, "USER": user, "NAME": name}
    entry |= {"PASSWORD": password}
    upgrades: dict[str, Callable[[str], None]] = {
        "alembic": lambda revision: migrated.alembic(tmp_path, uri, revision),
        "django": lambda revision: migrated.django(tmp_path, entry, revision),
        "flyway": lambda revision: migrated.flyway(run, revision),
        "liquibase": lambda revision: migrated.liquibase(run, revision),
    }
    return Migrations(request.param, upgrades[request.param], content)


def met(tool: str, revision: str | None = None, **options: Any) -> bool:
    from airflow_delta_provider.sensors.migration import MigrationSensor

    where = options or {"conn_id": "app"}
    one = MigrationSensor(task_id="wait", tool=tool, revision=revision, **where)
    return bool(one.poke(context_of("wait")))


class Watch:
    """A trigger as the triggerer runs it, for as long as its block; ``events`` are the payloads so far."""

    def __init__(self, tool: str, looks: int, **options: Any) -> None:
        from airflow_delta_provider.triggers.migration import MigrationTrigger

        self.events: list[Any] = []
        self.looks = looks
        where = options or {"conn_id": "app"}
        self.trigger = MigrationTrigger(tool, poll_interval_s=0.01, **where)

    async def __aenter__(self) -> Watch:
        self.seen = 0
        read = self.trigger.source.read

        def counted() -> Any:
            state = read()
            self.seen += 1
            return state

        object.__setattr__(self.trigger, "source", _Source(self.trigger.source, counted))
        self.task = asyncio.create_task(self._collect())
        await self.look()
        return self

    async def _collect(self) -> None:
        async for event in self.trigger.run():
            self.events.append(event.payload)

    async def look(self) -> None:
        """Wait until the trigger has looked some more times: what it had to say, it has said."""
        wanted = self.seen + self.looks
        while self.seen < wanted and not self.task.done():
            await asyncio.sleep(0.01)

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@dataclass(frozen=True)
class _Source:
    """A source whose looks are counted."""

    real: Any
    read: Callable[[], Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_the_sensor_knows_each_revision_of_each_tool(migrations):
    """Before the first migration the tool has no table at all, and an account that may only read is enough."""
    first, second = migrated.REVISIONS[migrations.tool]
    assert not met(migrations.tool)
    migrations.upgrade(first)
    before = migrations.content()
    assert [met(migrations.tool, revision) for revision in (None, first, second)] == [True, True, False]
    assert migrations.content() == before
    migrations.upgrade(second)
    assert met(migrations.tool, second)


def test_the_trigger_fires_once_for_each_revision_of_each_tool(migrations):
    """Over a restart of the triggerer too; nothing is written to the database: its cursor is in the store."""
    first, second = migrated.REVISIONS[migrations.tool]

    async def watched() -> list[Any]:
        async with Watch(migrations.tool, looks=4) as watch:
            assert watch.events == []
            migrations.upgrade(first)
            await watch.look()
            before = migrations.content()
            assert len(watch.events) == 1
            await watch.look()
            assert migrations.content() == before
            migrations.upgrade(second)
            await watch.look()
        async with Watch(migrations.tool, looks=4) as again:
            assert again.events == []
        return watch.events

    events = asyncio.run(watched())
    assert [event["tool"] for event in events] == [migrations.tool] * 2
    for name, event in zip((first, second), events, strict=True):
        assert name.split(":")[-1] in event["state"]


@pytest.mark.nightly
def test_dbt_itself_is_waited_for_and_fires_once_for_each_run(tmp_path, monkeypatch):
    """A run in which a model failed is none, and neither is a compilation, which writes the same file."""
    uv = servers.require_program("uv")
    store = connection_text(conn_type="delta_store", host=(tmp_path / "store").as_uri())
    monkeypatch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)
    program, project = migrated.install_dbt(tmp_path, uv), tmp_path / "shop"
    broken, whole = "SELECT nothing FROM {{ ref('orders') }}", "SELECT id FROM {{ ref('orders') }}"
    path = str(migrated.dbt(program, project, "run", broken))
    assert not met("dbt", path=path)

    async def watched() -> list[Any]:
        async with Watch("dbt", looks=4, path=path) as watch:
            for command in ("run", "compile", "run"):
                migrated.dbt(program, project, command, whole)
                built = command != "compile"
                assert (met("dbt", path=path), met("dbt", "model.shop.money", path=path)) == (built, built)
                await watch.look()
        return watch.events

    states = [event["state"] for event in asyncio.run(watched())]
    assert len(set(states)) == len(states) == 2


@pytest.mark.nightly
def test_liquibase_itself_is_waited_for(postgresql_database, tmp_path, monkeypatch):
    """The table that the other tests make is the one that the program makes."""
    servers.require_program("java")
    program = migrated.install_liquibase(tmp_path, servers.require_program("npm"))
    parts = urlsplit(postgresql_database)
    user, password = str(parts.username), unquote(parts.password or "")
    app = {"host": parts.hostname, "port": parts.port, "login": user, "password": password, "schema": parts.path[1:]}
    monkeypatch.setenv("AIRFLOW_CONN_APP", connection_text(conn_type="postgres", extra={"options": READ_ONLY}, **app))
    address = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    seen = []
    for _ in range(2):
        migrated.liquibase_itself(program, tmp_path, address, user, password)
        seen.append([met("liquibase", revision) for revision in ("ann:c1", "c2")])
    assert seen == [[True, False], [True, True]]
