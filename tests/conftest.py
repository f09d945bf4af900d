"""Fixtures that every layer's tests may use: one server of each kind for a test process, started by its first use."""

from __future__ import annotations

import os
from collections.abc import Iterator

import azurite
import ceph
import hypothesis
import object_fake
import pytest
import servers

# In continuous integration the same commit tries the same examples; at a desk and nightly they are new each time.
hypothesis.settings.register_profile("untimed", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[servers.Server]:
    """A PostgreSQL server, as a rule the wheel's build (without ICU)."""
    with servers.postgresql() as server:
        yield server


@pytest.fixture(scope="session")
def linguistic_postgresql_server() -> Iterator[servers.Server]:
    """A PostgreSQL server with linguistic collations, where the system has one; else the same build as the other."""
    with servers.postgresql(linguistic=True) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[servers.Server]:
    """A MariaDB server."""
    with servers.mariadb() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.Server]:
    """A Redis server."""
    with servers.redis() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[ceph.S3Server]:
    """A Ceph cluster of three processes with its S3 gateway."""
    with ceph.s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_bucket(s3_server: ceph.S3Server) -> str:
    """A bucket for stores that take a prefix of their own each."""
    return s3_server.bucket()


@pytest.fixture(scope="session")
def az_server() -> Iterator[azurite.AzureServer]:
    """An Azure Blob server."""
    with azurite.azure_server() as server:
        yield server


@pytest.fixture(scope="session")
def az_bucket(az_server: azurite.AzureServer) -> str:
    """A container for stores that take a prefix of their own each."""
    return az_server.container()


@pytest.fixture
def gs_fake() -> Iterator[object_fake.Fake]:
    """A small object storage of our own that answers as Google Cloud Storage does."""
    with object_fake.fake_storage() as fake:
        yield fake


@pytest.fixture
def postgresql_database(postgresql_server: servers.Server) -> str:
    """The URI of an empty PostgreSQL database, one for each test."""
    return postgresql_server.create_database()


@pytest.fixture
def mariadb_database(mariadb_server: servers.Server) -> str:
    """The URI of an empty MariaDB database, one for each test."""
    return mariadb_server.create_database()


@pytest.fixture(params=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest) -> str:
    """The address of an empty database of a server."""
    name = {"postgresql": "postgresql_database", "mysql": "mariadb_database"}[request.param]
    return str(request.getfixturevalue(name))
