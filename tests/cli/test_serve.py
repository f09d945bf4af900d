"""The pages over HTTP on loopback: who is answered, and what paging, searching and damage come to."""

from __future__ import annotations

import dataclasses
import http.client
import json
import threading

import pytest
from cli_store import MANIFEST, Folder, example

from airflow_delta_provider.cli.serve import pages
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import ConnectError
from airflow_delta_provider.core.store.publish import publish
from airflow_delta_provider.web import records
from airflow_delta_provider.web.opened import open_manifest
from airflow_delta_provider.web.scope import StoreScope


class Client:
    """Asks a server; ``token`` is the secret of its address."""

    def __init__(self, server):
        self.port, self.token = server.server_address[1], server.token

    def ask(self, path, method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        answer.text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer

    def get(self, page):
        return self.ask(f"/{self.token}/{page}")


def client_of(folder):
    with pages(folder.store, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Client(server)
        server.shutdown()


@pytest.fixture
def client(signed):
    """The pages over the worked example."""
    yield from client_of(signed)


def test_only_the_printed_address_is_answered(client):
    """Another site open in the same browser knows the port at most; a page that rebinds its name has another host."""
    assert client.get("pairs").status == 200
    assert client.ask("/pairs").status == 403
    assert client.ask(f"/{client.token[:-1]}/pairs").status == 403
    assert client.ask(f"/{client.token}/pairs", host="evil.example").status == 403
    assert client.ask(f"/{client.token}/pairs", host=f"localhost:{client.port}").status == 200
    assert client.get("../../etc/passwd").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_nothing_but_reading_is_served(client, method):
    """There is no other method, so nothing can be changed by one."""
    assert client.ask(f"/{client.token}/pairs", method).status == 501


def test_a_page_may_load_nothing_and_is_not_kept(client):
    """The policy names the one style and the one script by their hashes."""
    headers = client.get(f"manifest?manifest={MANIFEST}").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


def test_json_says_what_the_page_says(client):
    """Totals, columns, key space, signature and log, for programs."""
    found = json.loads(client.get(f"manifest.json?manifest={MANIFEST}").text)
    document = json.loads(example().manifest)
    assert found["document"] == document
    assert (found["records"], found["verdict"]) == (document["body"]["records"], "different")
    assert found["signature"]["status"] == "unchecked"
    assert found["log"]["seq"]
    assert sum(sum(one["counts"].values()) for one in found["key_space"]["slices"]) == found["records"]
    (pair,) = json.loads(client.get("pairs.json").text)["pairs"]
    assert pair["manifests"][0]["manifest"] == MANIFEST
    assert json.loads(client.get(f"pair.json?pair={pair['id']}").text)["manifests"] == pair["manifests"]


@pytest.mark.parametrize(
    ("page", "status", "code"),
    [
        (f"manifest.json?manifest={'0' * 64}", 404, "DELTA_STORE_MISSING"),
        ("manifest.json?manifest=latest", 400, "DELTA_INPUT_DIGEST"),
        (f"records.json?manifest={MANIFEST}&category=odd", 400, "DELTA_INPUT_POLICY"),
        (f"records.json?manifest={MANIFEST}&column=odd", 400, "DELTA_INPUT_POLICY"),
        (f"records.json?manifest={MANIFEST}&count=501", 400, "DELTA_INPUT_POLICY"),
        (f"records.json?manifest={MANIFEST}&start=-1", 400, "DELTA_INPUT_POLICY"),
        (f"records.json?manifest={MANIFEST}&key=&key=1", 400, "DELTA_INPUT_POLICY"),
        (f"record.json?manifest={MANIFEST}&record=99999", 400, "DELTA_INPUT_POLICY"),
        ("pair.json?pair=orders", 400, "DELTA_INPUT_POLICY"),
    ],
)
def test_a_wrong_question_is_answered_with_its_code(client, page, status, code):
    """The same codes as everywhere, as JSON and as a page."""
    answer = client.get(page)
    assert (answer.status, json.loads(answer.text)["error"]["code"]) == (status, code)
    assert code in client.get(page.replace(".json", "")).text


def test_downloads_are_what_exports_write(client, delta, signed):
    """Bytes of the body as they are, and the same page as the export's."""
    for form in ("jsonl", "csv", "html", "sql"):
        answer = client.get(f"download?manifest={MANIFEST}&to={form}")
        assert "attachment" in answer.headers["Content-Disposition"]
        assert answer.text == delta("export", MANIFEST, "--store", signed, "--to", form).out
    assert client.get(f"download?manifest={MANIFEST}&to=exe").status == 400


def test_masked_values_stay_masked(tmp_path):
    """What the contract keeps out of the records is in no answer."""
    folder = Folder(tmp_path / "masked")
    receipt = publish(folder.store, example("detail-digests."))
    for client in client_of(folder):
        page = client.get(f"records?manifest={receipt.manifest}").text
        assert "keyed digest" in page
        found = json.loads(client.get(f"records.json?manifest={receipt.manifest}").text)
        body = [json.loads(line) for line in example("detail-digests.").body.splitlines()]
        assert [{**one, "number": None} for one in found["records"]] == [{**one, "number": None} for one in body]


def test_a_damaged_page_is_not_shown(client, signed):
    """One changed character in a body of any size is found on the page that holds it."""
    body = json.loads(example().manifest)["body"]["sha256"]
    signed.change(signed.blob(body), lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    answer = client.get(f"records.json?manifest={MANIFEST}")
    assert (answer.status, json.loads(answer.text)["error"]["code"]) == (500, "DELTA_PAGE_DIGEST")
    answer = client.get(f"download?manifest={MANIFEST}&to=jsonl")
    assert (answer.status, "DELTA_BODY_DIGEST" in answer.text) == (500, True)


def test_a_body_without_an_index_is_read_anyway(tmp_path):
    """The index is derived: one that is lost is made anew, from a body that must hash to its digest."""
    publication = dataclasses.replace(example(), page_index=None)
    folder = Folder(tmp_path / "store")
    publish(folder.store, publication)
    opened = open_manifest(StoreScope(folder.store).find(MANIFEST))
    assert opened.index is not None
    assert opened.records == json.loads(publication.manifest)["body"]["records"]


def test_every_key_is_found_where_it_is(signed):
    """Bisection over pages and the list of all records agree, for keys that are there and those between."""
    opened = open_manifest(StoreScope(signed.store).find(MANIFEST))
    lines = example().body.splitlines()
    types = documents.parse_manifest(example().manifest)["key"]["types"]
    assert len(types) >= 1
    for number, line in enumerate(lines):
        key = bytes.fromhex(json.loads(line)["sort_key"])
        assert opened.place_of(key) == (number, True)
        place, _ = opened.place_of(key + b"\x00")
        assert place == number + 1
    assert records.find_records(opened, records.Query()).next is None


def test_a_port_that_is_taken_is_told_as_such(signed):
    """Airflow's own servers stand on ports nearby; "make room" is no advice here."""
    with (
        pages(signed.store, 0) as server,
        pytest.raises(ConnectError, match=r"Port \d+ of 127\.0\.0\.1 cannot be taken"),
    ):
        pages(signed.store, server.server_address[1]).__enter__()
