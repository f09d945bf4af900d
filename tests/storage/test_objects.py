"""Stores in object storage: what is refused, what is retried, what is fetched, and that no credential is ever shown."""

import hashlib
import io
import os
import pickle
import re
import subprocess
import sys
import tempfile

import object_fake
import pytest

from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    LimitError,
    StoreFileError,
    StoreMissingError,
    StoreNotWriteOnceError,
    StoreReadError,
    StoreSchemeError,
    StoreWriteError,
)
from airflow_delta_provider.core.store import blobs, layout, object_client, objects, open_store
from airflow_delta_provider.core.store.objects import ObjectStorage
from airflow_delta_provider.core.store.ranges import AHEAD_BYTES_MAX, RangeReader

ABC_PATH = layout.blob_path(hashlib.sha256(b"abc").hexdigest())


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Pauses between tries are for busy networks."""
    monkeypatch.setattr(objects, "CREATE_PAUSE_S", 0.01)


def fake_store(fake: object_fake.Fake, kind: str = "s3") -> ObjectStorage:
    options = fake.s3_options if kind == "s3" else fake.gs_options
    return ObjectStorage(f"{kind}://bucket/root", options)


@pytest.mark.parametrize("behaviour", ["overwrites", "pretends", "unable"])
@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_storage_without_conditional_create_is_refused_before_anything_is_stored(behaviour, kind):
    """In such a storage evidence can be replaced by whoever writes last, in silence."""
    with object_fake.fake_storage(behaviour) as fake:
        store = fake_store(fake, kind)
        with pytest.raises(StoreNotWriteOnceError, match=r"\[DELTA_STORE_NOT_WRITE_ONCE\]"):
            store.create(ABC_PATH, b"abc")
        assert [path for path in fake.files if "probe/" not in path] == []


def test_a_real_storage_that_keeps_versions_but_not_the_first_is_refused(s3_server):
    """Ceph 16 takes a second conditional write where a bucket keeps versions: the probe finds it out."""
    bucket = s3_server.bucket()
    body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert s3_server.send("PUT", f"/{bucket}", {"versioning": ""}, body=body)[0] == 200
    store = ObjectStorage(f"s3://{bucket}", s3_server.options)
    try:
        created = store.create(ABC_PATH, b"abc")
    except StoreNotWriteOnceError:
        assert [path for path in store.list() if not path.startswith("probe/")] == []
    else:  # a newer Ceph: then it must really be write-once
        assert (created, store.create(ABC_PATH, b"xyz"), store.read(ABC_PATH)) == (True, False, b"abc")


def test_a_locked_version_outlives_whoever_may_delete(s3_server):
    """Object Lock: the retention that docs/stores.md asks for keeps the bytes even from an administrator's key."""
    bucket = s3_server.bucket({"x-amz-bucket-object-lock-enabled": "true"})
    rule = (
        b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"
        b"<Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>"
    )
    assert s3_server.send("PUT", f"/{bucket}", {"object-lock": ""}, body=rule)[0] == 200
    key = f"/{bucket}/root/{ABC_PATH}"
    assert s3_server.send("PUT", key, body=b"abc")[0] == 200
    listed = s3_server.send("GET", f"/{bucket}", {"versions": ""})[1]
    version = re.findall(rb"<VersionId>([^<]+)", listed)[0].decode()
    assert s3_server.send("DELETE", key, {"versionId": version})[0] == 403
    assert s3_server.send("DELETE", key)[0] == 204  # a marker: hides the bytes, which are still there
    assert s3_server.send("GET", key)[0] == 404
    assert s3_server.send("GET", key, {"versionId": version}) == (200, b"abc")


def test_a_bucket_that_is_not_there_is_missing_and_is_not_made(s3_server):
    """A typing error must not look like an empty log, nor like success."""
    store = ObjectStorage("s3://no-such-bucket-of-ours/root", s3_server.options)
    with pytest.raises(StoreMissingError):
        store.read(ABC_PATH)
    with pytest.raises(StoreWriteError, match="bucket or container is not there"):
        store.create(ABC_PATH, b"abc")
    assert list(store.list()) == []


def test_a_conflict_is_tried_again_until_it_is_known_who_won():
    """S3 answers 409 while another writer is at the same name: that says nothing about what is there."""
    with object_fake.fake_storage("conflicts") as fake:
        store = fake_store(fake)
        assert store.create(ABC_PATH, b"abc") is True
        assert store.create(ABC_PATH, b"xyz") is False
        assert store.read(ABC_PATH) == b"abc"


@pytest.mark.parametrize("how", ["refused", "dropped", "answered", "lost"])
def test_a_write_that_fails_once_is_there_in_the_end_and_once(how):
    """Networks lose requests and answers; neither may lose or double evidence."""
    with object_fake.fake_storage() as fake:
        store = fake_store(fake)
        store.create(layout.blob_path("0" * 64), b"")
        number = fake.requests + 1
        fake.fault = lambda n, method: how if n == number else ""
        assert blobs.put_blob(store, b"abc") == ABC_PATH[-64:]
        assert fake.files[f"root/{ABC_PATH}"] == b"abc"


def test_a_storage_that_fails_for_ever_is_given_up(monkeypatch):
    """Retries are bounded: a task must end."""
    monkeypatch.setattr(object_client, "RETRIES_MAX", 1)
    with object_fake.fake_storage() as fake:
        store = fake_store(fake)
        store.create(ABC_PATH, b"abc")
        fake.fault = lambda number, method: "refused"
        before = fake.requests
        with pytest.raises(StoreReadError, match=r"\[DELTA_STORE_READ\] .*500 InternalError"):
            store.read(ABC_PATH)
        with pytest.raises(StoreWriteError, match=r"\[DELTA_STORE_WRITE\]"):
            store.create(layout.blob_path("1" * 64), b"x")
        assert fake.requests - before < 20


def test_a_storage_that_does_not_answer_cannot_be_reached(monkeypatch):
    """Nothing listens there."""
    monkeypatch.setattr(object_client, "RETRIES_MAX", 0)
    with object_fake.fake_storage() as fake:
        store = fake_store(fake)
    with pytest.raises(ConnectError, match=r"\[DELTA_CONNECT\]"):
        store.read(ABC_PATH)


def test_no_error_shows_a_credential_or_what_the_server_says():
    """Servers put request details into their answers, and answers end in logs."""
    with object_fake.fake_storage("denies") as fake:
        store = fake_store(fake)
        with pytest.raises(StoreWriteError) as caught:
            store.create(ABC_PATH, b"abc")
    shown = f"{caught.value} {caught.value.document()} {caught.value.__cause__} {store!r} {store.uri}"
    assert "hidden-secret" not in shown
    assert "403 AccessDenied" in shown
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:secret@bucket/x",
        "s3://key@bucket/x",
        "az://c/x?sig=secret",
        "s3://b/x#secret",
        "s3:///x",
        "s3://b/a/../c",
    ],
)
def test_an_address_holds_a_bucket_and_a_prefix_and_nothing_else(uri):
    """An address goes into logs; credentials do not."""
    with pytest.raises(StoreSchemeError, match=r"\[DELTA_STORE_SCHEME\]") as caught:
        open_store(uri)
    assert "secret" not in str(caught.value)


def test_an_option_that_no_storage_knows_is_refused_without_its_value():
    """A misspelt option would else mean other credentials than the user thinks."""
    store = ObjectStorage("s3://bucket/x", {"acess_key": "hidden-secret"})
    with pytest.raises(StoreSchemeError, match="not understood") as caught:
        store.read(ABC_PATH)
    assert "hidden-secret" not in str(caught.value)


def test_conditional_writes_that_the_environment_turned_off_are_missed(monkeypatch):
    """AWS_CONDITIONAL_PUT=disabled would make every create an overwrite."""
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    with object_fake.fake_storage() as fake, pytest.raises(DeltaError) as caught:
        fake_store(fake).create(ABC_PATH, b"abc")
    assert isinstance(caught.value, (StoreNotWriteOnceError, StoreSchemeError))


def test_a_store_travels_to_another_process_with_its_options():
    """Workers of a run open the same store."""
    store = ObjectStorage("s3://bucket/root/", {"access_key_id": "K"})
    again = pickle.loads(pickle.dumps(store))
    assert (again.uri, again._options) == ("s3://bucket/root", {"access_key_id": "K"})


def test_a_forked_process_is_told_and_does_not_hang():
    """The client's threads do not survive a fork; a request would wait for ever."""
    script = (
        "import os, sys\n"
        "from airflow_delta_provider.core.store.objects import ObjectStorage\n"
        "store = ObjectStorage('s3://bucket/x', {'access_key_id': 'K', 'secret_access_key': 'S', 'region': 'r'})\n"
        "store._storage.client()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        store.read('format')\n"
        "    except Exception as error:\n"
        "        os._exit(7 if 'forked' in str(error) else 8)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 7


def test_a_large_file_is_written_by_one_conditional_request(s3_server, s3_bucket, tmp_path, monkeypatch):
    """A multipart upload ends in a request that is not conditional everywhere."""
    monkeypatch.setattr(objects, "SMALL_BYTES_MAX", 1000)
    store = ObjectStorage(f"s3://{s3_bucket}/{os.urandom(4).hex()}", s3_server.options)
    content = os.urandom(3 * 2**20 + 5)
    path = layout.blob_path(hashlib.sha256(content).hexdigest())
    with (tmp_path / "body").open("w+b") as file:
        file.write(content)  # still in the buffer of this process when it is mapped
        assert store.create_from_file(path, file) is True
        assert store.create_from_file(path, file) is False
    assert store.read(path) == content
    other = layout.blob_path("0" * 64)
    assert store.create_from_file(other, io.BytesIO(content)) is True  # without a handle: through a copy
    with tempfile.SpooledTemporaryFile() as spooled:
        spooled.write(content)
        assert store.create_from_file(layout.blob_path("1" * 64), spooled) is True
    assert store.read(other) == content


def test_what_no_single_request_can_hold_is_refused():
    """Half an artifact would be worse than none."""

    class Endless(io.BytesIO):
        def seek(self, offset, whence=0):
            return objects.PUT_BYTES_MAX + 1 if whence else 0

    with object_fake.fake_storage() as fake, pytest.raises(LimitError, match=r"\[DELTA_LIMIT\]"):
        fake_store(fake).create_from_file(ABC_PATH, Endless())


def test_a_page_of_a_large_body_is_fetched_alone():
    """One record of ten million is proved with some kilobytes."""
    with object_fake.fake_storage() as fake:
        store = fake_store(fake)
        content = bytes(range(256)) * 20_000
        store.create(ABC_PATH, content)
        with store.open(ABC_PATH) as stream:
            stream.seek(3_000_000)
            assert stream.read(10) == content[3_000_000:3_000_010]
        assert fake.ranges == [f"3000000-{3_000_000 + 65_535}"]


def test_reading_on_takes_ever_larger_ranges_and_gives_every_byte():
    """A scan of gigabytes must not be millions of requests."""
    content = os.urandom(5 * 2**20)
    asked = []

    def fetch(start, end):
        asked.append((start, end))
        return content[start:end]

    stream = io.BufferedReader(RangeReader(len(content), fetch), 2**16)
    assert b"".join(iter(lambda: stream.read(1000), b"")) == content
    assert len(asked) < 10
    assert max(end - start for start, end in asked) <= AHEAD_BYTES_MAX
    stream.seek(-3, os.SEEK_END)
    assert (stream.read(), stream.read(), stream.tell()) == (content[-3:], b"", len(content))


def test_a_server_that_announces_more_than_the_limit_is_not_listened_to():
    """The size is known before the bytes come."""
    with object_fake.fake_storage() as fake:
        store = fake_store(fake)
        store.create(ABC_PATH, b"x" * 2_000_000)
        with pytest.raises(StoreFileError, match="more than 1000 bytes"):
            store.read(ABC_PATH, 1000)


def test_a_foreign_name_in_a_bucket_is_found_by_whoever_lists(s3_server, s3_bucket):
    """Names that no store has are evidence of somebody else at work."""
    prefix = os.urandom(4).hex()
    store = ObjectStorage(f"s3://{s3_bucket}/{prefix}", s3_server.options)
    store.create(ABC_PATH, b"abc")
    s3_server.send("PUT", f"/{s3_bucket}/{prefix}/blobs/Evil name.txt", body=b"x")
    assert "blobs/Evil name.txt" in list(store.list("blobs"))


def test_a_store_opens_from_the_environment(s3_server, s3_bucket, monkeypatch):
    """The command line has no connection."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://{s3_bucket}/{os.urandom(4).hex()}")
    assert store.create(ABC_PATH, b"abc") is True
    assert store.read(ABC_PATH) == b"abc"
