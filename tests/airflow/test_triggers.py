"""Triggers as the triggerer runs them: what they yield, when, and how often."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import connection_text

pytestmark = pytest.mark.usefixtures("metadata")


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database at Alembic's revision ``aa01``, and an empty store."""
    path = tmp_path / "app.db"
    monkeypatch.setenv("AIRFLOW_CONN_APP", connection_text(conn_type="sqlite", host=str(path)))
    store = connection_text(conn_type="delta_store", host=(tmp_path / "store").as_uri())
    monkeypatch.setenv("AIRFLOW_CONN_DELTA_STORE_DEFAULT", store)
    migrate(path, "aa01")
    return path


def migrate(path: Path, revision: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL)")
    connection.execute("DELETE FROM alembic_version")
    connection.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
    connection.commit()
    connection.close()


def trigger(**options: Any) -> Any:
    from airflow_delta_provider.triggers.migration import MigrationTrigger

    return MigrationTrigger("alembic", "app", poll_interval_s=0.01, **options)


async def events(one: Any, seconds: float, act: Any = None) -> list[Any]:
    """Return what a trigger yields in some time, ``act`` done in between."""
    found: list[Any] = []

    async def collect() -> None:
        async for event in one.run():
            found.append(event.payload)

    task = asyncio.create_task(collect())
    await asyncio.sleep(seconds)
    if act is not None:
        act()
        await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found


def states(found: list[Any]) -> list[str]:
    return [event["state"] for event in found]


def test_each_revision_is_one_event(database):
    """A condition that stays true would start a Dag run every other second, for ever."""
    found = asyncio.run(events(trigger(), 0.5, lambda: migrate(database, "aa02")))
    assert states(found) == ["aa01", "aa02"]


def test_what_was_seen_stays_seen(database):
    """The triggerer is restarted with each deployment, and a database is rolled back now and then."""
    assert states(asyncio.run(events(trigger(), 0.5))) == ["aa01"]
    assert states(asyncio.run(events(trigger(), 0.3))) == []
    migrate(database, "aa02")
    assert states(asyncio.run(events(trigger(), 0.5))) == ["aa02"]
    migrate(database, "aa01")
    assert states(asyncio.run(events(trigger(), 0.3))) == []


def test_the_cursor_is_not_in_the_migrated_database(database):
    """Nothing is written there: the bytes of the file stay what they are."""
    before = database.read_bytes()
    asyncio.run(events(trigger(), 0.5))
    assert database.read_bytes() == before


def test_an_event_is_remembered_after_the_poll_that_follows_it(database):
    """A triggerer that ends before Airflow has kept the event fires it again; it is never lost."""

    async def first_event() -> Any:
        async for event in trigger().run():
            return event.payload["state"]

    assert asyncio.run(first_event()) == "aa01"
    assert states(asyncio.run(events(trigger(), 0.5))) == ["aa01"]


def test_airflows_asset_state_remembers_where_there_is_one(database, tmp_path):
    """Airflow 3.3 keeps a state for each asset; then no store is needed."""

    class State:
        held: Any = None

        async def aget(self, key: str, default: Any = None) -> Any:
            return self.held if self.held is not None else default

        async def aset(self, key: str, value: Any) -> None:
            self.held = value

    one = trigger()
    one.asset_state_store = State()
    assert states(asyncio.run(events(one, 0.5))) == ["aa01"]
    assert len(one.asset_state_store.held) == 1
    assert states(asyncio.run(events(one, 0.3))) == []
    assert not (tmp_path / "store").exists()


def test_a_revision_that_is_waited_for_fires_alone(database):
    """A release waits for its own migration, and not for those before."""
    found = asyncio.run(events(trigger(revision="aa02"), 0.3, lambda: migrate(database, "aa02")))
    assert states(found) == ["aa02"]


def test_a_database_that_is_away_is_looked_at_again(database):
    """It is migrated: of course it is restarted."""
    away = database.with_suffix(".away")

    def back() -> None:
        if database.exists():
            database.unlink()
        away.rename(database)

    database.rename(away)
    database.mkdir()
    found = asyncio.run(events(trigger(), 0.3, lambda: (database.rmdir(), back())))
    assert states(found) == ["aa01"]


def test_a_trigger_is_made_anew_from_its_text(database):
    """And two watchers of the same migrations share one."""
    from airflow_delta_provider.triggers.migration import MigrationTrigger

    path, members = trigger(revision="aa02").serialize()
    assert path == "airflow_delta_provider.triggers.migration.MigrationTrigger"
    assert MigrationTrigger(**members).serialize() == (path, members)
    assert MigrationTrigger.hash(path, members) == MigrationTrigger.hash(path, dict(members))


def test_an_asset_can_be_watched(database):
    """The trigger fits Airflow's own watcher, and a Dag with it can be serialised."""
    from airflow.sdk import DAG, Asset, AssetWatcher
    from airflow.serialization.serialized_objects import DagSerialization

    asset = Asset("shop_schema", watchers=[AssetWatcher(name="alembic", trigger=trigger())])
    with DAG("after_each_migration", schedule=[asset]) as dag:
        pass
    assert "MigrationTrigger" in str(DagSerialization.to_dict(dag))


def test_a_refusal_ends_a_deferral_with_its_words(database):
    """The task then fails for good, instead of waiting for what cannot come."""
    from airflow_delta_provider.triggers.manifest import ManifestTrigger
    from airflow_delta_provider.triggers.migration import MigrationAppliedTrigger

    refused = MigrationAppliedTrigger("alembic", "app", table="a b", poll_interval_s=0.01)
    assert "DELTA_SPEC_VALUE" in asyncio.run(events(refused, 0.2))[0]["error"]
    applied = MigrationAppliedTrigger("alembic", "app", revision="aa02", poll_interval_s=0.01)
    assert asyncio.run(events(applied, 0.2, lambda: migrate(database, "aa02"))) == [{"revisions": 1}]
    wrong = ManifestTrigger("orders", verdict="good", poll_interval_s=0.01)
    assert "DELTA_INPUT_POLICY" in asyncio.run(events(wrong, 0.2))[0]["error"]
