"""The tamper matrix: what somebody who may write to the store can do to a manifest, and the code under which it is found.

docs/threat-model.md names these cases. Each runs on a local store and on a real S3 gateway.
"""

import base64
import json
import secrets
from pathlib import Path

import publications
import pytest
from signers import example_signer, fresh_signer

from airflow_delta_provider.core import jsonc, log, merkle
from airflow_delta_provider.core.anchor import ANCHOR_TYPE, make_anchor
from airflow_delta_provider.core.audit import verify_pair
from airflow_delta_provider.core.signing.dsse import Envelope, Signature, parse_envelope, sign_envelope
from airflow_delta_provider.core.signing.statement import PAYLOAD_TYPE, statement_bytes
from airflow_delta_provider.core.store import blobs, layout, open_store
from airflow_delta_provider.core.store.publish import publish
from airflow_delta_provider.core.trust import trust_key
from airflow_delta_provider.core.verify_store import verify_published

BODY = "601e47be91292204d443ade2adb1475e7e4c06fca24c3a28953b582d52860c57"
MANIFEST, PAIR = publications.MANIFEST, publications.PAIR_ID
TRUST = trust_key(publications.read("ed25519.pub.pem"))


class LocalHands:
    """Somebody with a shell on the machine that keeps the store."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "store"
        self.store = open_store(str(self.root))

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        self.remove(path)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        (self.root / path).chmod(0o444)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)


class S3Hands:
    """Somebody with the keys of the bucket."""

    def __init__(self, server, bucket: str) -> None:
        self.prefix, self.server = f"/{bucket}/{secrets.token_hex(8)}", server
        self.store = open_store(f"s3:/{self.prefix}", server.options)

    def read(self, path: str) -> bytes:
        return self.server.send("GET", f"{self.prefix}/{path}")[1]

    def write(self, path: str, data: bytes) -> None:
        assert self.server.send("PUT", f"{self.prefix}/{path}", body=data)[0] == 200

    def remove(self, path: str) -> None:
        assert self.server.send("DELETE", f"{self.prefix}/{path}")[0] == 204


@pytest.fixture(params=["local", "s3"])
def hands(request, tmp_path):
    if request.param == "local":
        return LocalHands(tmp_path)
    return S3Hands(request.getfixturevalue("s3_server"), request.getfixturevalue("s3_bucket"))


def published(hands, sign=None) -> bytes:
    """Publish the signed example and return an anchor over its log, as its keeper has it elsewhere."""
    publish(hands.store, publications.example(), sign=sign or publications.signer())
    made = make_anchor("orders", log.read_log(hands.store, PAIR))
    return sign_envelope(ANCHOR_TYPE, made.payload, [example_signer()]).data


def found(hands, anchors=()) -> tuple[set[str], str]:
    """Return the codes that verification finds, and its verdict."""
    check = verify_pair(hands.store, PAIR, trust=TRUST, anchors=anchors)
    findings = [*check.findings, *(one for manifest in check.manifests for one in manifest.findings)]
    return {finding.code for finding in findings}, check.verdict


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def swapped(data: bytes) -> bytes:
    first, second, *rest = lines_of(data)
    return b"".join([second, first, *rest])


BODIES = {
    "a changed byte": (lambda d: d.replace(b'"12.51"', b'"12.53"'), {"DELTA_BODY_DIGEST", "DELTA_PAGE_DIGEST"}),
    "a changed key display": (lambda d: d.replace(b'"42","DE"', b'"42","DX"'), {"DELTA_KEY_MISMATCH"}),
    "swapped records": (swapped, {"DELTA_INPUT_ORDER", "DELTA_MERKLE_ROOT"}),
    "a dropped record": (lambda d: b"".join(lines_of(d)[1:]), {"DELTA_COUNT", "DELTA_CATEGORY_ROOT"}),
    "a duplicated record": (lambda d: lines_of(d)[0] + d, {"DELTA_COUNT", "DELTA_INPUT_ORDER"}),
    "a re-built record": (
        lambda d: d.replace(b'["12.5","Zo\xc3\xab"],"t', b'["99.5","Zo\xc3\xab"],"t'),
        {"DELTA_BODY_DIGEST", "DELTA_MERKLE_ROOT", "DELTA_CATEGORY_ROOT"},
    ),
    "CRLF": (lambda d: d.replace(b"\n", b"\r\n"), {"DELTA_JSON_NOT_CANONICAL", "DELTA_COUNT"}),
    "a duplicate member": (
        lambda d: d.replace(b'{"category":"added",', b'{"category":"added","category":"added",', 1),
        {"DELTA_JSON_NOT_CANONICAL"},
    ),
    "a float": (lambda d: d.replace(b'"12.51"', b"12.51"), {"DELTA_JSON_DOMAIN"}),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_tampered_body_is_found(hands, case):
    """Who can write the file of a body cannot make it fit its manifest."""
    change, codes = BODIES[case]
    published(hands)
    path = layout.blob_path(BODY)
    changed = change(hands.read(path))
    assert changed != hands.read(path)
    hands.write(path, changed)
    seen, verdict = found(hands)
    assert codes <= seen
    assert verdict == "findings"


def test_a_changed_byte_is_traced_to_its_record(hands):
    """An auditor is told where."""
    published(hands)
    path = layout.blob_path(BODY)
    hands.write(path, hands.read(path).replace(b'"12.51"', b'"12.53"'))
    check, _ = verify_published(hands.store, MANIFEST, trust=TRUST)
    assert [one.place for one in check.findings if one.code == "DELTA_PAGE_DIGEST"] == [
        "page 0, records 0 to 3",
        "record 2",
    ]


def flipped_signature(manifest: bytes) -> bytes:
    envelope = parse_envelope(publications.signer()(manifest))
    one = envelope.signatures[0]
    wrong = Signature(one.keyid, bytes([one.sig[0] ^ 1]) + one.sig[1:])
    return Envelope(envelope.payload_type, envelope.payload, (wrong,)).data


def borrowed_key_id(manifest: bytes) -> bytes:
    envelope = sign_envelope(PAYLOAD_TYPE, statement_bytes(manifest), [fresh_signer("ed25519")])
    forged = Signature(example_signer().keyid, envelope.signatures[0].sig)
    return Envelope(envelope.payload_type, envelope.payload, (forged,)).data


def other_payload_type(manifest: bytes) -> bytes:
    return sign_envelope("application/json", statement_bytes(manifest), [example_signer()]).data


def other_statement(manifest: bytes) -> bytes:
    """Signed by the right key, about this manifest by its digest, but with the content of another one."""
    statement = json.loads(statement_bytes(manifest))
    statement["predicate"] = json.loads(publications.read("detail-digests.manifest.json"))
    payload = json.dumps(statement, separators=(",", ":"), sort_keys=True).encode()
    return sign_envelope(PAYLOAD_TYPE, payload, [example_signer()]).data


SIGNATURES = {
    "a wrong signature": (flipped_signature, "DELTA_SIGNATURE_INVALID"),
    "the right key id with another key": (borrowed_key_id, "DELTA_SIGNATURE_INVALID"),
    "another payload type": (other_payload_type, "DELTA_ENVELOPE"),
    "another statement under the right subject": (other_statement, "DELTA_STATEMENT_MISMATCH"),
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_a_forged_envelope_is_found(hands, case):
    """Who lacks the key has no way to say that it was theirs."""
    sign, code = SIGNATURES[case]
    published(hands, sign)
    seen, verdict = found(hands)
    assert code in seen
    assert verdict == "findings"


def test_a_valid_signature_over_another_manifest_vouches_for_nothing(hands):
    """It is about the other one, so this one is unsigned: exit status 4."""
    published(hands, lambda _: publications.signer()(publications.read("detail-digests.manifest.json")))
    assert found(hands) == (set(), "unsigned")


def test_an_envelope_whose_bytes_were_changed_is_found(hands):
    """The log names its digest."""
    published(hands)
    path = layout.blob_path(log.read_log(hands.store, PAIR)[0].ref)
    document = json.loads(hands.read(path))
    payload = base64.b64decode(document["payload"]).replace(b'"unchanged":995', b'"unchanged":996')
    hands.write(path, json.dumps(document | {"payload": base64.b64encode(payload).decode()}).encode())
    assert "DELTA_ENVELOPE" in found(hands)[0]


def test_a_manifest_whose_bytes_were_changed_is_found(hands):
    """Its id is its digest."""
    published(hands)
    path = layout.blob_path(MANIFEST)
    hands.write(path, hands.read(path).replace(b'"unchanged":995', b'"unchanged":996'))
    assert {"DELTA_MANIFEST_DIGEST", "DELTA_DENOMINATOR"} <= found(hands)[0]


def rewritten(hands, start: int, refs: dict[int, str]) -> None:
    """Write the log anew from an entry on, with other references and a chain that fits."""
    entries = log.read_log(hands.store, PAIR)
    prev = entries[start - 1].digest_hex if start else None
    for old in entries[start:]:
        new = log.Entry(old.kind, prev, refs.get(old.seq, old.ref), old.seq)
        hands.write(layout.log_path(PAIR, old.seq), new.data)
        prev = new.digest_hex


def test_a_history_that_was_rebuilt_whole_is_found_by_a_kept_anchor(hands):
    """Other records, a manifest that fits them, a log that names it: everything is consistent, but unsigned and new."""
    kept = published(hands)
    body = hands.read(layout.blob_path(BODY)).replace(b'"12.51"', b'"12.53"')
    lines = body.splitlines()
    manifest = jsonc.loads(publications.read("manifest.json"))
    leaves = merkle.leaf_hashes(lines)
    manifest["body"] |= {"root": merkle.root(leaves).hex(), "sha256": blobs.put_blob(hands.store, body)}
    manifest["categories"]["value_diverged"]["root"] = leaves[2].hex()
    rewritten(hands, 2, {2: blobs.put_blob(hands.store, jsonc.dumps(manifest))})
    assert found(hands) == (set(), "unsigned")
    assert found(hands, [kept]) == ({"DELTA_LOG_ANCHOR"}, "findings")


def test_a_truncated_log_is_found_by_the_manifest_and_by_a_kept_anchor(hands):
    """A verdict that somebody does not like is cut off."""
    kept = published(hands)
    hands.remove(layout.log_path(PAIR, 2))
    check, _ = verify_published(hands.store, MANIFEST, trust=TRUST)
    assert [one.code for one in check.findings] == ["DELTA_LOG_GAP"]
    assert found(hands, [kept]) == ({"DELTA_LOG_ANCHOR"}, "findings")


def test_a_log_with_a_hole_is_found(hands):
    """An entry in the middle is taken out."""
    published(hands)
    hands.remove(layout.log_path(PAIR, 1))
    assert "DELTA_LOG_GAP" in found(hands)[0]


def test_a_forked_log_is_found(hands):
    """One changed entry breaks the chain; a whole new branch does not fit the anchor."""
    kept = published(hands)
    entries = log.read_log(hands.store, PAIR)
    other = blobs.put_blob(hands.store, jsonc.dumps({"for": MANIFEST, "run": "another"}))
    forged = log.Entry("sidecar", entries[0].digest_hex, other, 1)
    hands.write(layout.log_path(PAIR, 1), forged.data)
    assert found(hands)[0] == {"DELTA_LOG_CHAIN"}
    hands.write(layout.log_path(PAIR, 1), entries[1].data)
    rewritten(hands, 1, {1: other})
    assert found(hands) == (set(), "verified")
    assert found(hands, [kept]) == ({"DELTA_LOG_ANCHOR"}, "findings")


def test_a_log_rolled_back_behind_an_older_anchor_is_found(hands):
    """The store is restored from a copy of last week."""
    published(hands)
    log.append(
        hands.store, PAIR, "sidecar", blobs.put_blob(hands.store, jsonc.dumps({"for": MANIFEST, "run": "later"}))
    )
    made = make_anchor("orders", log.read_log(hands.store, PAIR))
    kept = sign_envelope(ANCHOR_TYPE, made.payload, [example_signer()]).data
    assert found(hands, [kept]) == (set(), "verified")
    hands.remove(layout.log_path(PAIR, 3))
    assert found(hands) == (set(), "verified")
    assert found(hands, [kept]) == ({"DELTA_LOG_ANCHOR"}, "findings")


def test_an_untouched_store_is_verified(hands):
    """The matrix finds what was done and nothing else."""
    kept = published(hands)
    assert found(hands, [kept]) == (set(), "verified")
