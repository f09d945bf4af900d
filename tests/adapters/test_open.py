"""Opening a side by its address: what is read, what is refused, and what an error may show."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta_provider.adapters.open import local_path, open_connection, open_side
from airflow_delta_provider.core.errors import DeltaError, SideMissingError, SideSchemeError, SpecFieldError
from airflow_delta_provider.core.spec import SideSpec

SECRET = "hunter2-S3cret"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("sqlite:///a.db", "sqlite"),
        ("SQLite+pysqlite:///a.db", "sqlite"),
        ("duckdb:///a.duckdb", "duckdb"),
        ("postgresql://u:p%40w@localhost/db", "postgresql"),
        ("postgres://u@localhost/db", "postgresql"),
        ("postgresql+psycopg2://u:@localhost/db", "postgresql"),
    ],
)
def test_an_address_finds_its_engine_without_connecting(address: str, kind: str) -> None:
    """Opening is lazy; the driver in an address does not matter, and postgres is postgresql."""
    side = open_side(SideSpec(uri=address, table="t"))
    assert side.kind == kind
    side.close()


@pytest.mark.parametrize(
    "address",
    [
        f"nosuch://user:{SECRET}@host/db",
        f"nosuch+driver://user:{SECRET}@host/db",
        f"user:{SECRET}@host/db",
        f"postgresql:user:{SECRET}@host/db",
        f"{SECRET}",
        "",
    ],
)
def test_an_unknown_address_is_refused_without_its_password(address: str) -> None:
    """The refusal lists what is read and what to install; addresses hold credentials."""
    with pytest.raises(
        SideSchemeError, match=r"duckdb, .*postgresql.*sqlite.*airflow-delta-provider\[postgres\]"
    ) as caught:
        open_side(SideSpec(uri=address, table="t"))
    assert SECRET not in str(caught.value) + repr(caught.value.document())


def test_a_refused_connection_shows_no_password() -> None:
    """A server that is not there is the most common failure of all, and its message goes to every log."""
    side = open_side(SideSpec(uri=f"postgresql://user:{SECRET}%25x@127.0.0.1:1/db?connect_timeout=2", table="t"))
    with pytest.raises(DeltaError, match="DELTA_CONNECT") as caught:
        _ = side.columns
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(side)


def test_a_connection_of_airflow_needs_airflow() -> None:
    """The command line knows no connections."""
    with pytest.raises(SideSchemeError, match="'legacy' is known to Airflow only"):
        open_side(SideSpec(conn_id="legacy", table="t"))


@pytest.mark.parametrize("given", [{}, {"table": "t", "query": "SELECT 1"}, {"table": " "}, {"query": ""}])
def test_a_database_needs_a_table_or_a_query(given: dict[str, str]) -> None:
    """Neither, both and blanks name no data set."""
    with pytest.raises(SpecFieldError, match="DELTA_SPEC_FIELD"):
        open_side(SideSpec(uri="sqlite:///a.db", **given))


def test_a_path_opens_files_and_takes_no_table(tmp_path: Path) -> None:
    """The ending of the name says how a file is read."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    with pytest.raises(SpecFieldError, match="no table"):
        open_side(SideSpec(path=str(path), table="t"))
    side = open_side(SideSpec(path=str(path)))
    assert (side.kind, [column.name for column in side.columns]) == ("parquet", ["id"])


@pytest.mark.parametrize("name", ["plain.db", "100%25.db", "a b?c#d.db", "ünï.db", "q'uote.db"])
def test_any_file_name_can_be_opened(tmp_path: Path, name: str) -> None:
    """A name is a path as it stands, whatever a URI would make of its characters."""
    connection = sqlite3.connect(tmp_path / name)
    connection.execute("CREATE TABLE t (id INTEGER)")
    connection.close()
    side = open_side(SideSpec(uri=f"sqlite:///{tmp_path / name}", table="t"))
    assert [column.name for column in side.columns] == ["id"]
    side.close()


def test_a_path_in_an_address_may_be_percent_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes and a relative path, four and an absolute one; the query part belongs to other tools."""
    monkeypatch.chdir(tmp_path)
    assert local_path("sqlite:///folder/a%20b.db?mode=ro") == "folder/a b.db"
    assert local_path("sqlite:////var/a.db") == "/var/a.db"
    with pytest.raises(SideMissingError, match="names no file"):
        local_path("sqlite://")


def test_a_connection_of_an_unknown_engine_is_refused() -> None:
    """A hook of an engine without a dialect cannot be read by guesswork."""
    with pytest.raises(SideSchemeError, match="No adapter reads oddbase"):
        open_connection("oddbase", lambda: None, table="t")
