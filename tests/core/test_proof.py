"""Proof bundles: what they hold, what they refuse, and that every record of every size of body is proved by its own path."""

import io
import json
from functools import partial

import pytest
from cli_store import EXAMPLE, MANIFEST
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core import body, ids, jsonc, merkle, proof
from airflow_delta_provider.core.errors import InputPolicyError, LimitError, MerkleRootError, ProofError


def documents():
    return {name: (EXAMPLE / f"{name}.json").read_bytes() for name in ("manifest", "schema", "contract")}


def evidence(**changed):
    return proof.Evidence(**{**documents(), **changed})


def example_body():
    return io.BytesIO((EXAMPLE / "body.jsonl").read_bytes())


IDS = [json.loads(line)["id"] for line in (EXAMPLE / "body.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("asked", [[0], [1], [2], [3], [3, 0], [0, 1, 2, 3]])
def test_each_record_of_the_example_is_proved(asked):
    """Alone and together, in body order, each once."""
    bundle = proof.prove_records(evidence(), example_body, [IDS[place] for place in asked] * 2)
    check = proof.check_bundle(bundle)
    assert check.findings == []
    assert check.manifest_id == MANIFEST
    assert [record["id"] for record in check.records] == [IDS[place] for place in sorted(asked)]


@pytest.mark.parametrize(("category", "places"), [("added", [1, 3]), ("dropped", [0]), ("value_diverged", [2])])
def test_each_category_of_the_example_is_proved_to_be_complete(category, places):
    """The list is all of that category and nothing else."""
    check = proof.check_bundle(proof.prove_category(evidence(), example_body, category))
    assert check.findings == []
    assert (check.category, [record["id"] for record in check.records]) == (category, [IDS[p] for p in places])


def test_a_bundle_is_canonical_and_the_same_each_time():
    """It can be hashed and compared like every other artifact."""
    bundle = proof.prove_records(evidence(), example_body, [IDS[2]])
    assert jsonc.dumps(jsonc.loads(bundle)) == bundle
    assert bundle == proof.prove_records(evidence(), example_body, [IDS[2]])
    with pytest.raises(ProofError, match="no proof bundle"):
        proof.check_bundle(bundle + b"\n")


def bundle_of(count):
    """Return the evidence and body of a manifest with this many records."""
    form = {name: json.loads(data) for name, data in documents().items()}
    keys = [b"\x22" + number.to_bytes(2, "big") + b"\x78D\x00\x01" for number in range(256, 256 + count)]
    lines = (
        body.records_to_lines(
            "orders@7",
            keys,
            ["dropped"] * count,
            [f'["{number}","D"]'.encode() for number in range(256, 256 + count)],
            [None] * count,
            [b'["1","x",null,null,{"hmac":"%b","key":"k1"}]' % (b"0" * 64)] * count,
            [b"null"] * count,
        )
        if count
        else []
    )
    out = io.BytesIO()
    writer = body.LineWriter(out)
    leaves = writer.write(lines)
    form["manifest"]["body"] = writer.close().block
    root = merkle.root(leaves).hex()
    for name in ids.CATEGORIES:
        mine = (count, root) if name == "dropped" else (0, merkle.EMPTY_ROOT.hex())
        form["manifest"]["categories"][name] = {"records": mine[0], "root": mine[1]}
    return {name: jsonc.dumps(document) for name, document in form.items()}, out.getvalue(), lines


@given(st.integers(1, 2300), st.data())
def test_every_place_in_every_size_of_body_is_proved(count, data):
    """Pages are cut at 1,024; paths through them lead to the root of the whole."""
    place = data.draw(st.integers(0, count - 1))
    found, content, lines = SIZED.get(count) or SIZED.setdefault(count, bundle_of(count))
    asked = json.loads(lines[place])["id"]
    form = jsonc.loads(proof.prove_records(proof.Evidence(**found), partial(io.BytesIO, content), [asked]))
    record = form["records"][0]
    assert record["index"] == place
    path = [bytes.fromhex(node) for node in record["path"]]
    root = bytes.fromhex(json.loads(found["manifest"])["body"]["root"])
    merkle.verify_inclusion(place, count, merkle.leaf_hash(lines[place]), path, root)


SIZED = {}


def test_an_empty_category_is_proved_to_be_empty():
    """That nothing was dropped is a statement too."""
    found, content, _ = bundle_of(3)
    check = proof.check_bundle(proof.prove_category(proof.Evidence(**found), partial(io.BytesIO, content), "added"))
    assert (check.findings, check.records) == ([], [])


def test_another_body_is_refused_where_the_proof_is_made():
    """A proof that cannot hold is not given out."""
    with pytest.raises(MerkleRootError, match=r"\[DELTA_MERKLE_ROOT\]"):
        proof.prove_records(evidence(), lambda: io.BytesIO(example_body().getvalue()[:-300] + b"\n"), [IDS[0]])


def test_an_unknown_category_is_refused():
    """Categories are three."""
    with pytest.raises(InputPolicyError, match="changed"):
        proof.prove_category(evidence(), example_body, "changed")


def test_more_than_a_bundle_holds_is_refused(monkeypatch):
    """The limit has a name, and what is over it is no bundle that nobody can read."""
    monkeypatch.setattr(proof, "BUNDLE_BYTES_MAX", 1000)
    with pytest.raises(LimitError, match=r"1000"):
        proof.prove_records(evidence(), example_body, [IDS[0]])
    with pytest.raises(LimitError, match=r"1000"):
        proof.prove_category(evidence(), example_body, "added")
    monkeypatch.setattr(proof, "RECORDS_MAX", 1)
    with pytest.raises(LimitError, match="up to 1 records"):
        proof.prove_category(evidence(), example_body, "added")


def edited(**members):
    form = jsonc.loads(proof.prove_records(evidence(), example_body, [IDS[2]]))
    return jsonc.dumps({**form, **members})


@pytest.mark.parametrize(
    "members",
    [
        {"records": []},
        {"records": [{"index": 2, "line": "{}"}]},
        {"records": [{"index": -1, "line": "{}", "path": []}]},
        {"records": [{"index": True, "line": "{}", "path": []}]},
        {"records": [{"index": 2, "line": "a\nb", "path": []}]},
        {"records": [{"index": 2, "line": "{}", "path": ["ab"]}]},
        {"records": [{"index": 2, "line": "{}", "path": ["00" * 32] * 65}]},
        {"category": "other"},
        {"category": "added"},
        {"anchor": 1},
        {"envelopes": [{"data": "x"}]},
        {"envelopes": [{"data": "x", "log": {"path": [], "prev": "x", "seq": 0}}]},
        {"more": 1},
        {"format": "delta-proof/2"},
    ],
)
def test_a_bundle_of_another_form_is_refused(members):
    """Exact members, 32-byte hashes, no negative places."""
    with pytest.raises(ProofError):
        proof.check_bundle(edited(**members))


def test_records_in_the_wrong_order_or_twice_are_found():
    """A record shown twice would count twice."""
    form = jsonc.loads(proof.prove_records(evidence(), example_body, IDS))
    twice = jsonc.dumps({**form, "records": [form["records"][0], form["records"][0]]})
    assert [finding.code for finding in proof.check_bundle(twice).findings] == ["DELTA_INPUT_ORDER"]


def test_a_line_of_another_manifest_is_found():
    """The path of this manifest does not lead from it to the root."""
    form = jsonc.loads(proof.prove_records(evidence(), example_body, [IDS[2]]))
    form["records"][0]["line"] = (EXAMPLE / "body.jsonl").read_text().splitlines()[0]
    check = proof.check_bundle(jsonc.dumps(form))
    assert [finding.code for finding in check.findings] == ["DELTA_PROOF"]
    assert check.records == []


def test_a_manifest_that_is_none_is_a_finding():
    """Nothing else of the bundle is looked at then."""
    assert [f.code for f in proof.check_bundle(edited(manifest={})).findings] == ["DELTA_MANIFEST_CONTRACT"]


@pytest.mark.parametrize("anchor", ["", "{}", "not json"])
def test_an_anchor_without_trust_is_no_anchor(anchor):
    """Without a key nothing that it says is taken."""
    check = proof.check_bundle(edited(anchor=anchor))
    assert (check.findings, check.anchored) == ([], False)
