"""Damage in a body is traced to its page and its record, whichever bit of whichever record of a full page it was."""

import io
import json
import random

import pytest

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.body import LineWriter
from airflow_delta_provider.core.errors import BodyFramingError, IdentityDerivationError
from airflow_delta_provider.core.findings import Findings, Stage
from airflow_delta_provider.core.localise import locate_damage


def line(number: int) -> bytes:
    """A record about as long as real ones."""
    form = {
        "category": "value_diverged",
        "columns": ["amount"],
        "id": merkle.leaf_hash(b"%d" % number).hex(),
        "key": [str(number)],
        "sort_key": f"{number:016x}",
        "source_value": [f"{number}.25"],
        "target_value": [f"{number}.75 and a few words more, as a row has them"],
    }
    return json.dumps(form, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def body():
    """Two full pages and a started one, with page index and block."""
    lines = [line(number) for number in range(2100)]
    writer = LineWriter(io.BytesIO())
    writer.write(lines)
    facts = writer.close()
    data = b"".join(one + b"\n" for one in lines)
    block = {"bytes": len(data), "records": 2100, "root": merkle.root(merkle.leaf_hashes(lines)).hex()}
    return data, facts.page_index, block


def places(body, damage, suspect=None) -> list[str]:
    data, index, block = body
    findings = Findings(Stage.BODY)
    if suspect is not None:
        findings.note(IdentityDerivationError, f"record {suspect}", "The id is not that of the record.")
    changed = bytearray(data)
    damage(changed)
    locate_damage(io.BytesIO(bytes(changed)), index, block, findings)
    return [f"{one.place}: {one.sentence}" for one in findings.listed() if one.code == "DELTA_PAGE_DIGEST"]


def at(body, record: int, inside: int) -> int:
    """The position of a byte of a record."""
    return sum(len(one) + 1 for one in body[0].split(b"\n")[:record]) + inside


LATE = [pytest.param(record, marks=pytest.mark.nightly) for record in (700, 1023, 2047)]


@pytest.mark.parametrize("record", [0, 1, 300, 1024, 2048, 2099, *LATE])
def test_a_flipped_bit_in_a_value_is_traced_to_its_record(body, record):
    """The record is still good by itself: only the hash of its page tells."""
    place = at(body, record, len(line(record)) - 20)

    def damage(data):
        data[place] ^= 1

    page = record // 1024
    found = places(body, damage)
    assert found[0].startswith(f"page {page}, records {page * 1024} to {min(2099, page * 1024 + 1023)}: ")
    assert found[1:] == [
        f"record {record}: One bit of this record was flipped: flipped back, the page is what the index states."
    ]


def test_a_flipped_bit_anywhere_in_a_record_is_traced(body):
    """Names, ids and keys too: there the record is not good by itself, and is tried first."""
    chance = random.Random(5)
    for _ in range(25):
        record = chance.randrange(2100)
        place, bit = at(body, record, chance.randrange(len(line(record)))), 1 << chance.randrange(8)

        def damage(data, place=place, bit=bit):
            data[place] ^= bit

        assert places(body, damage, suspect=record)[-1].startswith(f"record {record}: One bit")


def test_a_changed_byte_in_a_suspected_record_is_traced(body):
    """More than one bit of it."""
    place = at(body, 1500, 60)

    def damage(data):
        data[place] ^= 0x15

    assert places(body, damage, suspect=1500)[-1].startswith("record 1500: One byte of this record was changed")


@pytest.mark.parametrize(("byte", "what"), [(0x0B, "bit"), (0x20, "byte")])
@pytest.mark.parametrize("record", [5, 1023, 2099])
def test_a_changed_line_end_names_the_record_before_it(body, record, byte, what):
    """Two records have become one line, or the last one has no end."""
    place = at(body, record, len(line(record)))

    def damage(data):
        data[place] = byte

    assert f"record {record}: One {what}" in places(body, damage)[1]


@pytest.mark.parametrize("record", [5, 1023, 2099])
def test_a_byte_that_became_a_line_end_names_its_record(body, record):
    """One record has become two lines."""
    place = at(body, record, 40)

    def damage(data):
        data[place] = 0x0A

    assert f"record {record}: One " in places(body, damage)[1]


def test_two_changes_in_a_page_are_traced_to_the_page_alone(body, monkeypatch):
    """No single repair explains them, and the search ends."""
    monkeypatch.setattr("airflow_delta_provider.core.localise.CANDIDATES_MAX", 20_000)
    first, second = at(body, 3, 200), at(body, 900, 200)

    def damage(data):
        data[first] ^= 1
        data[second] ^= 1

    assert len(places(body, damage)) == 1


def test_a_page_of_another_length_is_traced_to_the_page_alone(body, monkeypatch):
    """Bytes were taken out, so every later page is another one too."""
    monkeypatch.setattr("airflow_delta_provider.core.localise.CANDIDATES_MAX", 20_000)
    place = at(body, 1100, 50)

    def damage(data):
        del data[place : place + 10]

    assert [one.split(":")[0] for one in places(body, damage)] == [
        "page 1, records 1024 to 2047",
        "page 2, records 2048 to 2099",
    ]
    assert BodyFramingError.code == "DELTA_BODY_FRAMING"
