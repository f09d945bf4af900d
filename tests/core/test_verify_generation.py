"""Verification of generations: every step of every key is checked against the predecessor."""

import json

import pytest
import sweeping
from sweeping import Store, Swept, sha, sort_key, sweep

from airflow_delta_provider.core import generation, jsonc, packs
from airflow_delta_provider.core.errors import StoreMissingError
from airflow_delta_provider.core.verify_generation import verify_generation

FIRST = {name: [str(number), "1"] for number, name in enumerate("ABCDEF")}
SECOND = {"A": ["0", "1"], "B": ["9", "9"], "D": ("failed", "DELTA_VALUE_RANGE"), "E": ("filtered", 1), "G": ["7", "7"]}


@pytest.fixture
def chain():
    store = Store()
    first = sweep(store, None, FIRST)
    return store, first, sweep(store, first, SECOND)


def codes(store, swept, before, **options):
    manifest = json.loads(swept.manifest)
    found = verify_generation(swept.indexed, None if before is None else before.indexed, manifest, store, **options)[1]
    return [finding.code for finding in found]


def forged(store, swept, change, *, counts=True):
    """Return the generation with its entries changed by a function, sealed again by somebody who can hash."""
    entries = [entry for data in swept.packs for entry in packs.parse_pack(data)]
    entries = change(entries)
    cut = []
    writer = packs.PackWriter(cut.append)
    for entry in entries:
        writer.add(entry.sort_key, entry.line)
    header = swept.document
    header["body"] = writer.close()
    if counts:
        for disposition in header["dispositions"]:
            header["dispositions"][disposition] = sum(entry.disposition == disposition for entry in entries)
    for data in cut:
        store.put(data)
    data = jsonc.dumps(header)
    store.put(data)
    return Swept(data, packs.index_bytes(writer.rows), swept.manifest, swept.summary, swept.body, cut)


def replaced(name, disposition, head, reason=None):
    key = sort_key(name)
    entry = generation.make_entry(key, disposition, head, jsonc.dumps([name]), reason)

    def change(entries):
        return sorted([*(one for one in entries if one.sort_key != key), entry], key=lambda one: one.sort_key)

    return change


def test_a_chain_verifies(chain):
    """The first sweep without, the second with its predecessor."""
    store, first, second = chain
    assert codes(store, first, None) == []
    assert codes(store, second, first) == []


def test_a_key_that_was_forgotten_is_found(chain):
    """Absent keys stay for ever."""
    store, first, second = chain
    lost = forged(store, second, lambda entries: [entry for entry in entries if entry.key != b'["C"]'])
    found = codes(store, lost, first)
    assert "DELTA_GENERATION_LOST" in found
    assert "DELTA_DENOMINATOR" in found


DIGEST = "ab" * 32


@pytest.mark.parametrize(
    "change",
    [
        replaced("A", "present", (2, DIGEST, "cd" * 32)),
        replaced("A", "present", (3, DIGEST, "cd" * 32)),
        replaced("B", "present", (1, DIGEST, None)),
        replaced("C", "absent", (1, DIGEST, None)),
        replaced("D", "failed", (1, DIGEST, None), "DELTA_VALUE_RANGE"),
    ],
    ids=["previous is another", "version jumped", "version stayed", "absent row changed", "failed row changed"],
)
def test_a_step_that_no_sweep_takes_is_found(chain, change):
    """Somebody rewrote history."""
    store, first, second = chain
    assert "DELTA_GENERATION_STEP" in codes(store, forged(store, second, change), first)


def test_a_key_never_seen_cannot_be_absent(chain):
    """An entry must have come from a row once."""
    store, first, second = chain
    change = replaced("Z", "absent", (0, None, None))
    assert "DELTA_GENERATION_STEP" in codes(store, forged(store, second, change), first)


def test_an_entry_with_a_false_digest_disagrees_with_the_delta_body(chain):
    """The new row stands in the delta manifest, so its digest can be recomputed."""
    store, first, second = chain
    change = replaced("G", "present", (1, DIGEST, None))
    assert codes(store, forged(store, second, change), first) == ["DELTA_COVERAGE_MISMATCH"]
    assert codes(store, forged(store, second, change), first, detail="keys") == []


def test_a_delta_body_with_a_record_more_is_found(chain):
    """Each record belongs to one step."""
    store, first, second = chain
    manifest = json.loads(second.manifest)
    store.blobs[manifest["body"]["sha256"]] = second.body + second.body.splitlines(keepends=True)[-1]
    assert codes(store, second, first) == ["DELTA_COVERAGE_MISMATCH"]
    store.blobs[manifest["body"]["sha256"]] = b"".join(second.body.splitlines(keepends=True)[1:])
    assert codes(store, second, first) == ["DELTA_COVERAGE_MISMATCH"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda header: header["sweep"].update(unchanged=2), "DELTA_DENOMINATOR"),
        (lambda header: header["sweep"].update(new=0, changed=2), "DELTA_COVERAGE_MISMATCH"),
        (lambda header: header.update(pair={**header["pair"], "target": "x"}), "DELTA_COVERAGE_MISMATCH"),
        (lambda header: header.update(generation=5), "DELTA_GENERATION_CHAIN"),
        (lambda header: header.update(predecessor=DIGEST), "DELTA_COVERAGE_MISMATCH"),
        (lambda header: header.update(hmac_key="k2"), "DELTA_GENERATION_CONTEXT"),
        (lambda header: header["body"].update(sha256=DIGEST), "DELTA_BODY_DIGEST"),
        (lambda header: header["body"].update(root=DIGEST), "DELTA_PACK_INDEX"),
        (lambda header: header.update(more=1), "DELTA_GENERATION_CONTRACT"),
    ],
    ids=["sum", "counts", "pair", "number", "predecessor", "hmac key", "digest", "root", "member"],
)
def test_a_false_header_is_found(chain, change, code):
    """Sums, agreement, chain and context are checked beside the digests."""
    store, first, second = chain
    header = second.document
    change(header)
    data = jsonc.dumps(header)
    store.put(data)
    forged_header = Swept(data, second.index, second.manifest, second.summary, second.body)
    assert code in codes(store, forged_header, first)


def test_an_altered_header_is_found(chain):
    """Its digest names it."""
    store, first, second = chain
    store.blobs[second.header_id] = second.header.replace(b"wh:shop", b"wh:shoq")
    assert codes(store, second, first) == [
        "DELTA_GENERATION_CONTRACT",
        "DELTA_COVERAGE_MISMATCH",
        "DELTA_GENERATION_CONTEXT",
    ]


def test_an_altered_or_lost_pack_is_found(chain):
    """And nothing is said about steps that could not be seen."""
    store, first, second = chain
    digest = sha(second.packs[0])
    store.blobs[digest] = store.blobs[digest].replace(b'"G"', b'"H"')
    assert codes(store, second, first) == ["DELTA_PACK_DIGEST"]

    class Lossy(Store):
        def read(self, digest_hex):
            if digest_hex == digest:
                raise StoreMissingError("gone")
            return store.read(digest_hex)

        def open(self, digest_hex):
            return store.open(digest_hex)

    assert codes(Lossy(), second, first) == ["DELTA_STORE_MISSING"]


def test_an_altered_index_is_found(chain):
    """It is derived, so it proves nothing unless it recombines."""
    store, first, second = chain
    bad = Swept(second.header, second.index[:-1], second.manifest, second.summary, second.body)
    assert codes(store, bad, first) == ["DELTA_PACK_INDEX"]
    assert codes(store, second, Swept(first.header, b"", b"", b"", b"")) == ["DELTA_PACK_INDEX"]


def test_a_generation_without_its_predecessor_is_not_called_verified(chain):
    """Entries are checked by themselves, steps cannot be."""
    store, _, second = chain
    assert codes(store, second, None) == ["DELTA_GENERATION_CONTRACT"]


def test_entries_out_of_range_or_with_another_key_are_found(chain):
    """Key bytes, key and range are checked for every entry."""
    store, first, second = chain
    key = sort_key("G")
    wrong = generation.make_entry(key, "failed", (0, None, None), b'["H"]', "DELTA_VALUE_RANGE")
    change = forged(store, second, lambda entries: [*(e for e in entries if e.sort_key != key), wrong])
    assert "DELTA_KEY_MISMATCH" in codes(store, change, first)
    cut = sort_key("D")
    low = sweep(store, first, SECOND, (None, cut))
    high = sweeping.packs.parse_pack(second.packs[0])[-1]
    assert "DELTA_RANGE" in codes(store, forged(store, low, lambda entries: [*entries, high]), first)
