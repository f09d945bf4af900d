"""A body that several processes check together gets the same findings as from one, and a large one its damage by record."""

import hashlib
import io
import json
from pathlib import Path

import faults
import pytest

from airflow_delta_provider.core import body, ids, jsonc, localise, verify_body, verify_pages
from airflow_delta_provider.core.errors import BodyDigestError, CountError, StoreMissingError, WorkerLostError
from airflow_delta_provider.core.findings import Findings, Stage
from airflow_delta_provider.core.verify import verify_manifest

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"
HEAD = b'[null,"%d",null,null,{"hmac":"%b","key":"k1"}]'


def key(number: int) -> bytes:
    """The key bytes of (number, "")."""
    payload = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([0x20, 0x20 + len(payload)]) + payload + b"\x78\x00\x01"


def lines(start: int, count: int) -> list[bytes]:
    """Records of rows that only the target has."""
    numbers = range(start, start + count)
    return body.records_to_lines(
        "orders@7",
        [key(number) for number in numbers],
        ["added"] * count,
        [b'["%d",""]' % number for number in numbers],
        [None] * count,
        [b"null"] * count,
        [HEAD % (number, b"0" * 64) for number in numbers],
    )


class Artifacts:
    """The documents of the worked example with another body, which lies in a file."""

    def __init__(self, path: Path, count: int) -> None:
        self.path, self.manifest = path, json.loads((EXAMPLE / "manifest.json").read_text())
        summary = json.loads((EXAMPLE / "summary.json").read_text())
        for row in summary["columns"]:
            row[1] = 0
        self.blobs = {}
        for name in ("schema", "contract", "structure"):
            self.put((EXAMPLE / f"{name}.json").read_bytes())
        self.manifest["summary"]["sha256"] = self.put(jsonc.dumps(summary))
        with path.open("wb") as file:
            writer = body.LineWriter(file)
            for start in range(0, count, 10_000):
                writer.write(lines(1 + start, min(10_000, count - start)))
            facts = writer.close()
        self.page_index, self.manifest["body"] = facts.page_index, facts.block
        empty = {"records": 0, "root": hashlib.sha256().hexdigest()}
        self.manifest["categories"] = dict.fromkeys(ids.CATEGORIES, empty)
        self.manifest["categories"]["added"] = {"records": count, "root": facts.block["root"]}
        population = self.manifest["population"]
        population["target"]["rows"] += count - 2 - 1
        population["source"]["rows"] -= 2
        self.id = self.put(jsonc.dumps(self.manifest))

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def read(self, digest_hex: str) -> bytes:
        if digest_hex not in self.blobs:
            raise StoreMissingError(digest_hex)
        return self.blobs[digest_hex]

    def open(self, digest_hex: str):
        return (
            self.path.open("rb")
            if digest_hex == self.manifest["body"]["sha256"]
            else io.BytesIO(self.blobs[digest_hex])
        )

    def change(self, line: int, old: bytes, new: bytes) -> None:
        """Change the first ``old`` in or after a line."""
        data = self.path.read_bytes()
        start = 0
        for _ in range(line):
            start = data.index(b"\n", start) + 1
        place = data.index(old, start)
        self.path.write_bytes(data[:place] + new + data[place + len(old) :])

    def found(self, workers: int) -> list[tuple[str, str, str]]:
        result = verify_manifest(self.id, self, page_index=self.page_index, workers=workers)
        return [(one.code, one.place, one.sentence) for one in result.findings]


@pytest.fixture
def apart(monkeypatch):
    """Use processes for small bodies too, and name damage by its page."""
    monkeypatch.setattr(verify_body, "PARALLEL_RECORDS_MIN", 0)
    monkeypatch.setattr(localise, "CANDIDATES_MAX", 100)


def test_processes_find_nothing_in_a_sound_body(tmp_path, apart):
    """Roots, counts, columns and keys over the borders of pages."""
    artifacts = Artifacts(tmp_path / "body", 5000)
    assert artifacts.found(1) == artifacts.found(2) == []


def test_processes_find_what_one_finds(tmp_path, apart):
    """Each kind of damage, in several pages: the lists are equal, order and numbers included."""
    artifacts = Artifacts(tmp_path / "body", 5000)
    artifacts.change(10, b'"category":"added"', b'"category":"adden"')
    artifacts.change(1023, b'"sort_key":"20', b'"sort_key":"21')
    artifacts.change(1024, b'"key":["1025"', b'"key":["1026"')
    artifacts.change(3000, b"{", b"[")
    artifacts.change(4095, b'"sort_key":"2022', b'"sort_key":"2522')
    for number in range(4200, 4400):
        artifacts.change(number, b'"id":"', b'"id" "')
    found = artifacts.found(1)
    assert {code for code, _, _ in found} >= {
        "DELTA_RECORD_CONTRACT",
        "DELTA_KEY_MISMATCH",
        "DELTA_INPUT_ORDER",
        "DELTA_JSON_SYNTAX",
        "DELTA_BODY_DIGEST",
        "DELTA_PAGE_DIGEST",
    }
    assert [place for code, place, _ in found if code == "DELTA_INPUT_ORDER"][-1].startswith("record 4096, key ")
    assert ("DELTA_JSON_SYNTAX", "more", "101 more of the same.") in found
    assert artifacts.found(2) == found


def test_records_that_are_swapped_over_the_border_of_two_pages_are_found(tmp_path, apart):
    """No page by itself shows it."""
    artifacts = Artifacts(tmp_path / "body", 3000)
    rows = artifacts.path.read_bytes().splitlines(keepends=True)
    rows[1023], rows[1024] = rows[1024], rows[1023]
    artifacts.path.write_bytes(b"".join(rows))
    order = [one for one in artifacts.found(2) if one[0] == "DELTA_INPUT_ORDER"]
    assert [place.split(",")[0] for _, place, _ in order] == ["record 1024"]
    assert artifacts.found(2) == artifacts.found(1)


def test_a_page_of_long_records_is_cut():
    """A page is held whole, so its bytes have a limit beside their number."""
    pages = verify_pages.Pages()
    taken = [pages.add(b"x" * 2**20) for _ in range(20)]
    assert [(page.number, len(page.lines)) for page in taken if page] == [(0, 8), (8, 8)]
    rest = pages.take()
    assert (rest.number, len(rest.lines), pages.take(), pages.records) == (16, 4, None, 20)


def test_a_process_that_the_system_ends_is_a_refusal(tmp_path, apart, monkeypatch):
    """No verdict comes of half a check."""
    artifacts = Artifacts(tmp_path / "body", 3000)
    monkeypatch.setattr(verify_pages, "_check", faults.die_over)
    with pytest.raises(WorkerLostError, match=r"\[DELTA_WORKER_LOST\]"):
        artifacts.found(2)


def test_collected_findings_count_on_what_others_only_counted():
    """A hundred places of each code, over all pages."""
    whole, parts = Findings(Stage.BODY), [Findings(Stage.BODY) for _ in range(3)]
    for part in parts:
        for number in range(150):
            part.note(CountError, f"record {number}", "No.")
        whole.absorb(part)
    whole.note(BodyDigestError, "body", "No.")
    assert (len(whole), whole.of(CountError), len(whole.listed())) == (451, 450, 102)
    assert whole.listed()[-1].sentence == "350 more of the same."


@pytest.mark.nightly
def test_a_flipped_byte_in_a_body_of_a_million_records_is_found_with_page_and_record(tmp_path):
    """At the size at which nobody finds it by looking; several processes check it."""
    artifacts = Artifacts(tmp_path / "body", 1_000_000)
    artifacts.change(777_777, b'"777778",null', b'"777779",null')
    found = artifacts.found(2)
    assert [place for code, place, _ in found if code == "DELTA_PAGE_DIGEST"] == [
        "page 759, records 777216 to 778239",
        "record 777777",
    ]
    assert "DELTA_BODY_DIGEST" in {code for code, _, _ in found}
