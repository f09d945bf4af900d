"""Bodies: lines, digests, order, ranges and pages."""

import hashlib
import io
import itertools
import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import body, jsonc, merkle, pages
from airflow_delta_provider.core.errors import (
    BodyFramingError,
    LimitError,
    PageDigestError,
    RangeError,
    RecordContractError,
    UnsortedStreamError,
)

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"


def written(data, *, step=1024, key_range=(None, None)):
    out = io.BytesIO()
    writer = body.BodyWriter(out, key_range)
    for lines in body.read_lines(io.BytesIO(data), batch=step):
        writer.write_lines(lines)
    return writer.close(), out.getvalue()


def many(count):
    """Return ``count`` canonical records of keys 0, 1, 2, ..."""
    keys = [number.to_bytes(8, "big") for number in range(count)]
    categories = [("added", "dropped", "value_diverged")[number % 3] for number in range(count)]
    columns = [b'["x"]' if category == "value_diverged" else None for category in categories]
    texts = [b'["%d"]' % number for number in range(count)]
    return keys, categories, body.records_to_lines("v", keys, categories, texts, columns, texts, texts)


@pytest.mark.parametrize("step", [1, 3, 1024])
def test_the_worked_body_has_the_golden_digests(step):
    """Root, category roots and page index of S12, however the lines arrive."""
    data = (EXAMPLE / "body.jsonl").read_bytes()
    facts, out = written(data, step=step)
    manifest = json.loads((EXAMPLE / "manifest.json").read_text())
    assert out == data
    assert facts.block == manifest["body"]
    assert {name: {"records": records, "root": root} for name, (records, root) in facts.categories.items()} == manifest[
        "categories"
    ]
    assert facts.page_index == (EXAMPLE / "body.idx").read_bytes()


@pytest.mark.parametrize("name", ["body.jsonl", "detail-digests.body.jsonl", "sweep/sweep1.body.jsonl"])
def test_lines_are_built_as_the_worked_records(name):
    """Members are spliced in their order, values as they came."""
    version = "stock@1" if "sweep" in name else "orders@7"
    lines = (EXAMPLE / name).read_bytes().splitlines()
    records = [json.loads(line) for line in lines]
    built = body.records_to_lines(
        version,
        [bytes.fromhex(record["sort_key"]) for record in records],
        [record["category"] for record in records],
        [jsonc.dumps(record["key"]) for record in records],
        [jsonc.dumps(record["columns"]) if "columns" in record else None for record in records],
        [jsonc.dumps(record["source_value"]) for record in records],
        [jsonc.dumps(record["target_value"]) for record in records],
    )
    assert built == lines


def test_a_record_with_raw_keys_is_canonical_too():
    """Key rules add two members; they stand where sorting puts them."""
    line = body.records_to_lines(
        "v", [b"\x20\x20"], ["added"], [b'["0"]'], [None], [b"null"], [b"[]"], [b"null"], [b'["00"]']
    )[0]
    assert list(json.loads(line)) == sorted(json.loads(line))
    assert jsonc.dumps(json.loads(line)) == line
    assert json.loads(line)["target_key"] == ["00"]


def test_an_empty_body_has_no_bytes_and_the_root_of_nothing():
    """No difference is a result, with digests that can be checked."""
    facts, out = written(b"")
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (out, facts.block) == (b"", {"bytes": 0, "records": 0, "root": nothing, "sha256": nothing})
    assert facts.categories == dict.fromkeys(("added", "dropped", "value_diverged"), (0, nothing))
    assert pages.read_page_index(b"", facts.block).pages == 0


@pytest.mark.parametrize("keys", [[b"\x02", b"\x01"], [b"\x01", b"\x01"]], ids=["down", "twice"])
def test_keys_that_do_not_ascend_are_refused(keys):
    """A body out of order could hide a record from a reader that merges."""
    writer = body.BodyWriter(io.BytesIO())
    with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\]"):
        writer.write([b"{}", b"{}"], keys, ["added", "added"])


def test_order_is_checked_across_batches():
    """The last key of a batch is remembered."""
    writer = body.BodyWriter(io.BytesIO())
    writer.write([b"{}"], [b"\x02"], ["added"])
    with pytest.raises(UnsortedStreamError):
        writer.write([b"{}"], [b"\x02"], ["added"])


@pytest.mark.parametrize(("key", "inside"), [(b"\x00", False), (b"\x01", True), (b"\x08", True), (b"\x09", False)])
def test_a_record_outside_the_range_is_refused(key, inside):
    """A shard that writes beyond its range would be counted twice after the merge."""
    writer = body.BodyWriter(io.BytesIO(), (b"\x01", b"\x09"))
    if inside:
        writer.write([b"{}"], [key], ["added"])
    else:
        with pytest.raises(RangeError, match=r"\[DELTA_RANGE\]"):
            writer.write([b"{}"], [key], ["added"])


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"category":"new","sort_key":"00"}', b'{"category":"added"}'])
def test_a_line_that_is_no_record_is_refused(line):
    """Key and category are read from the line itself, never guessed."""
    with pytest.raises(RecordContractError, match=r"\[DELTA_RECORD_CONTRACT\]"):
        body.BodyWriter(io.BytesIO()).write_lines([line])


@pytest.mark.parametrize("data", [b"a", b"a\nb", b"\n", b"a\n\nb\n"])
def test_a_body_is_lines_that_end_in_lf(data):
    """A cut last line is no record."""
    with pytest.raises(BodyFramingError, match=r"\[DELTA_BODY_FRAMING\]"):
        list(body.read_lines(io.BytesIO(data)))


def test_a_line_that_no_reader_holds_is_refused(monkeypatch):
    """A file of one endless line must not fill the memory."""
    monkeypatch.setattr(body, "LINE_BYTES_MAX", 10)
    with pytest.raises(LimitError, match=r"\[DELTA_LIMIT\]"):
        list(body.read_lines(io.BytesIO(b"x" * 50)))
    assert list(body.read_lines(io.BytesIO(b"x" * 10 + b"\n"))) == [[b"x" * 10]]


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 2500])
def test_pages_and_proofs_hold_at_every_size(count):
    """One page read alone is proved by the index, one record by its page and the index."""
    keys, categories, lines = many(count)
    out = io.BytesIO()
    writer = body.BodyWriter(out)
    for start in range(0, count, 700):
        writer.write(lines[start : start + 700], keys[start : start + 700], categories[start : start + 700])
    facts = writer.close()
    leaves = merkle.leaf_hashes(lines)
    assert facts.root == merkle.root(leaves).hex()
    assert facts.sha256 == hashlib.sha256(out.getvalue()).hexdigest()
    added = [leaf for leaf, category in zip(leaves, categories, strict=True) if category == "added"]
    assert facts.categories["added"] == (len(added), merkle.root(added).hex())
    index = pages.read_page_index(facts.page_index, facts.block)
    assert list(itertools.chain(*(pages.read_page(out, index, page) for page in range(index.pages)))) == lines
    for record in {0, count // 2, count - 1}:
        path = pages.proof_of(index, pages.read_page(out, index, index.page_of(record)), record)
        assert path == merkle.inclusion_path(leaves, record)
        merkle.verify_inclusion(record, count, leaves[record], path, bytes.fromhex(facts.root))


def test_a_flipped_byte_spoils_its_page_and_no_other():
    """A damaged body still serves its good pages."""
    keys, categories, lines = many(2500)
    out = io.BytesIO()
    writer = body.BodyWriter(out)
    writer.write(lines, keys, categories)
    facts = writer.close()
    index = pages.read_page_index(facts.page_index, facts.block)
    data = bytearray(out.getvalue())
    data[index.offsets[1] + 5] ^= 1
    damaged = io.BytesIO(bytes(data))
    assert pages.read_page(damaged, index, 0) == lines[:1024]
    with pytest.raises(PageDigestError, match=r"\[DELTA_PAGE_DIGEST\] Page 1"):
        pages.read_page(damaged, index, 1)
    assert pages.read_page(damaged, index, 2) == lines[2048:]
    with pytest.raises(PageDigestError):
        pages.read_page(damaged, index, 3)


@pytest.mark.parametrize("at", [3, 12], ids=["offset", "hash"])
def test_a_page_index_that_was_altered_is_refused(at):
    """It is not hashed, so it is believed only where it recombines to the root."""
    manifest = json.loads((EXAMPLE / "manifest.json").read_text())
    data = bytearray((EXAMPLE / "body.idx").read_bytes())
    data[at] ^= 1
    with pytest.raises(PageDigestError):
        pages.read_page_index(bytes(data), manifest["body"])
    with pytest.raises(PageDigestError):
        pages.read_page_index(bytes(data[:-1]), manifest["body"])


def test_a_stream_is_digested_without_being_held():
    """Length and SHA-256 in chunks."""
    assert body.digest_stream(io.BytesIO(b"abc"), chunk_bytes=2) == (3, hashlib.sha256(b"abc").hexdigest())
