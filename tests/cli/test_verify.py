"""``verify``: each lie in a store is found with its code and place, and the exit code says which kind of no it is."""

import io
import json
import os

import pytest
from cli_store import MANIFEST, page_index
from signers import example_signer, fresh_signer

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.anchor import make_anchor, publish_anchor
from airflow_delta_provider.core.signing import sign_manifest
from airflow_delta_provider.core.signing.dsse import sign_envelope
from airflow_delta_provider.core.signing.keys import pem_of_spki
from airflow_delta_provider.core.signing.statement import PAYLOAD_TYPE, statement_bytes
from airflow_delta_provider.core.store.blobs import get_blob, put_blob
from airflow_delta_provider.core.trust import Trust, trust_key

BODY = "601e47be91292204d443ade2adb1475e7e4c06fca24c3a28953b582d52860c57"
SCHEMA = "eee1ac85b68edad85a043fc8dc81bfebea49c2f95363b1a2d6fc4d5616b5acda"


def codes(answer):
    return [finding["code"] for finding in answer.json["findings"]]


def test_a_signed_manifest_verifies_under_a_bare_public_key(delta, signed):
    """An auditor has the key, the store and the digest, and needs nothing else."""
    answer = delta("verify", MANIFEST, "--store", signed, "--trust", signed.trust, "--json")
    assert answer.code == 0
    assert answer.json["verdict"] == "verified"
    assert answer.json["findings"] == []
    assert answer.json["log"] == {"seq": [2]}
    assert answer.json["signature"]["status"] == "trusted"
    assert answer.json["signature"]["keyid"] == example_signer().keyid


def test_the_text_says_verdict_log_and_signer(delta, signed):
    """What a person reads names the same facts."""
    answer = delta("verify", MANIFEST, "--store", signed, "--trust", signed.trust)
    assert answer.code == 0
    assert "orders: pg:shop.orders -> wh:shop.orders" in answer.out
    assert f"by trusted key {example_signer().keyid}" in answer.out
    assert answer.out.endswith("verdict   verified\n")


def test_without_trust_the_signature_is_said_to_be_unchecked(delta, signed):
    """Nobody takes silence about the signature for a good one."""
    answer = delta("verify", MANIFEST, "--store", signed)
    assert answer.code == 0
    assert "unchecked: No trust file was given." in answer.out


def test_an_unsigned_manifest_is_exit_4_where_trust_was_given(delta, unsigned, tmp_path):
    """Verified, but nobody vouches for it: not the same as a finding, and not a pass."""
    trust = tmp_path / "trust.pem"
    trust.write_text(pem_of_spki(example_signer().spki))
    assert delta("verify", MANIFEST, "--store", unsigned).code == 0
    answer = delta("verify", MANIFEST, "--store", unsigned, "--trust", trust, "--json")
    assert (answer.code, answer.json["verdict"]) == (4, "unsigned")


def test_a_strangers_signature_is_exit_4(delta, signed, tmp_path):
    """The envelope is in order, but by a key that is not trusted here."""
    trust = tmp_path / "other.pem"
    trust.write_text(pem_of_spki(fresh_signer("ecdsa-p256-sha256").spki))
    answer = delta("verify", MANIFEST, "--store", signed, "--trust", trust, "--json")
    assert (answer.code, answer.json["verdict"]) == (4, "untrusted")
    assert answer.json["findings"] == []


def test_a_trust_document_with_a_closed_window_does_not_trust_later_entries(delta, signed, tmp_path):
    """A key that was retired before this log entry vouches for nothing in it."""
    key = trust_key(signed.trust.read_bytes()).keys[0]
    closed = type(key)(key.alg, 5, key.keyid, None, key.spki, key.spki_pem, None)
    path = tmp_path / "trust.json"
    path.write_bytes(Trust((closed,)).data)
    assert delta("verify", MANIFEST, "--store", signed, "--trust", path).code == 4


def flip(at):
    def edit(data):
        changed = bytearray(data)
        changed[at] ^= 0x01
        return bytes(changed)

    return edit


def test_a_flipped_byte_in_the_body_is_found_with_page_and_record(delta, large):
    """Record 1,500 of 2,500 lies in page 1; the finding says both, so that a person looks at the right row."""
    lines = large.blob(large.body).read_bytes().split(b"\n")
    place = sum(len(line) + 1 for line in lines[:1500]) + lines[1500].index(b'"id":"') + 7
    large.change(
        large.blob(large.body),
        lambda data: data[:place] + (b"0" if data[place : place + 1] != b"0" else b"1") + data[place + 1 :],
    )
    answer = delta("verify", large.manifest, "--store", large, "--json")
    assert answer.code == 1
    assert {
        "DELTA_BODY_DIGEST",
        "DELTA_MERKLE_ROOT",
        "DELTA_CATEGORY_ROOT",
        "DELTA_PAGE_DIGEST",
        "DELTA_IDENTITY_DERIVATION",
    } == set(codes(answer))
    places = {finding["code"]: finding["place"] for finding in answer.json["findings"]}
    assert places["DELTA_PAGE_DIGEST"] == "page 1, records 1024 to 2047"
    assert places["DELTA_IDENTITY_DERIVATION"].startswith("record 1500, key ")


@pytest.mark.parametrize(
    ("digest", "code"),
    [(MANIFEST, "DELTA_MANIFEST_DIGEST"), (SCHEMA, "DELTA_SCHEMA")],
    ids=["manifest", "schema"],
)
def test_a_changed_document_is_found(delta, signed, digest, code):
    """One digit of a version is enough."""
    signed.change(signed.blob(digest), lambda data: data.replace(b"orders@7", b"orders@8"))
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert answer.code == 1
    assert code in codes(answer)


def test_a_missing_body_is_a_finding_and_a_retired_one_is_not(delta, signed):
    """Evidence that is gone is damage, unless the log says that it was let go on purpose."""
    signed.blob(BODY).unlink()
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert (answer.code, codes(answer)) == (1, ["DELTA_STORE_MISSING"])
    log.append(signed.store, signed.pair_id, "retire", BODY)
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert (answer.code, codes(answer)) == (0, [])
    assert answer.json["notes"] == [
        f"body: {BODY} was retired by log entry 3. It could not be checked.",
    ]


def test_counts_verify_without_a_body(delta, tmp_path):
    """Under detail: counts no body is published, and its steps are left out."""
    (tmp_path / "s.csv").write_text("id,a\n1,x\n")
    (tmp_path / "t.csv").write_text("id,a\n1,y\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"name: counts\nsource: {{path: '{tmp_path}/s.csv'}}\ntarget: {{path: '{tmp_path}/t.csv'}}\nkey: [id]\ndetail: counts\n"
    )
    digest = delta("run", spec, "--store", tmp_path / "store", "--json").json["manifest"]
    assert delta("verify", digest, "--store", tmp_path / "store").code == 0
    assert delta("export", digest, "--store", tmp_path / "store", "--to", "jsonl").code == 2
    page = delta("export", digest, "--store", tmp_path / "store", "--to", "html")
    assert page.code == 0
    assert "The contract publishes counts only." in page.out


def test_a_broken_signature_is_a_finding(delta, unsigned, tmp_path):
    """An envelope that names the trusted key but is not by it is forgery, not absence."""
    honest = json.loads(sign_manifest(get_blob(unsigned.store, MANIFEST), example_signer()))
    other = json.loads(sign_manifest(get_blob(unsigned.store, MANIFEST), fresh_signer("ed25519")))
    honest["signatures"][0]["sig"] = other["signatures"][0]["sig"]
    _log_envelope(unsigned, json.dumps(honest).encode())
    answer = _verify_trusted(delta, unsigned, tmp_path)
    assert (answer.code, codes(answer)) == (1, ["DELTA_SIGNATURE_INVALID"])
    assert answer.json["signature"]["status"] == "invalid"


def test_a_valid_signature_over_another_statement_is_a_finding(delta, unsigned, tmp_path):
    """Its subject is this manifest, but what it predicates is another."""
    manifest = get_blob(unsigned.store, MANIFEST)
    payload = statement_bytes(manifest).replace(b'"unchanged":995', b'"unchanged":996')
    _log_envelope(unsigned, sign_envelope(PAYLOAD_TYPE, payload, [example_signer()]).data)
    answer = _verify_trusted(delta, unsigned, tmp_path)
    assert (answer.code, codes(answer)) == (1, ["DELTA_STATEMENT_MISMATCH"])


def test_the_envelope_of_another_manifest_does_not_sign_this_one(delta, unsigned, tmp_path):
    """It is taken for what it is about, so this manifest stays unsigned."""
    other = get_blob(unsigned.store, MANIFEST).replace(b'"unchanged":995', b'"unchanged":996')
    _log_envelope(unsigned, sign_manifest(other, example_signer()))
    answer = _verify_trusted(delta, unsigned, tmp_path)
    assert (answer.code, answer.json["verdict"]) == (4, "unsigned")


def test_a_damaged_envelope_is_a_finding(delta, signed):
    """It might have been about this manifest, so it cannot be passed over."""
    digest = log.read_log(signed.store, signed.pair_id)[0].ref
    signed.change(signed.blob(digest), flip(100))
    answer = delta("verify", MANIFEST, "--store", signed, "--trust", signed.trust, "--json")
    assert (answer.code, codes(answer)) == (1, ["DELTA_ENVELOPE"])


def _log_envelope(folder, data):
    log.append(folder.store, folder.pair_id, "envelope", put_blob(folder.store, data))


def _verify_trusted(delta, folder, tmp_path):
    trust = tmp_path / "trust.pem"
    trust.write_text(pem_of_spki(example_signer().spki))
    return delta("verify", MANIFEST, "--store", folder, "--trust", trust, "--json")


def test_a_cut_log_no_longer_shows_the_manifest(delta, signed):
    """With its last entry gone the manifest is an orphan, whatever else is right about it."""
    signed.log(signed.pair_id, 2).unlink()
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert (answer.code, codes(answer)) == (1, ["DELTA_LOG_GAP"])


def test_a_hole_in_the_log_is_found_by_pair(delta, signed):
    """The entries behind it are still looked at."""
    signed.log(signed.pair_id, 1).unlink()
    answer = delta("verify", "orders", "--store", signed, "--json")
    assert answer.code == 1
    assert [(f["code"], f["place"]) for f in answer.json["findings"]] == [("DELTA_LOG_GAP", "log entry 1")]
    assert answer.json["manifests"][0]["verdict"] == "verified"


def test_a_changed_log_entry_breaks_the_chain(delta, signed):
    """Entry 0 under another kind: entry 1 no longer follows from it."""
    signed.change(signed.log(signed.pair_id, 0), lambda data: data.replace(b'"envelope"', b'"trust"'))
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert answer.code == 1
    assert [(f["code"], f["place"]) for f in answer.json["findings"]] == [("DELTA_LOG_CHAIN", "log entry 1")]


def test_a_log_that_was_rolled_back_does_not_hold_against_a_kept_anchor(delta, signed, tmp_path):
    """Whoever controls the store can cut its end; an anchor kept elsewhere shows it."""
    entries = log.read_log(signed.store, signed.pair_id)
    kept = tmp_path / "anchor.json"
    kept.write_bytes(publish_anchor(signed.store, signed.pair_id, make_anchor("here", entries), example_signer()))
    words = ("verify", "orders", "--store", signed, "--trust", signed.trust, "--anchor", kept, "--json")
    answer = delta(*words)
    assert (answer.code, answer.json["log"]["anchors"]) == (0, 2)
    next((signed.path / "pairs" / signed.pair_id / "anchors").iterdir()).unlink()
    signed.log(signed.pair_id, 2).unlink()
    answer = delta(*words)
    assert answer.code == 1
    assert "DELTA_LOG_ANCHOR" in codes(answer)


def test_an_anchor_by_an_unknown_key_is_not_trusted(delta, signed):
    """It neither proves nor disproves anything, and the exit code says so."""
    entries = log.read_log(signed.store, signed.pair_id)
    publish_anchor(signed.store, signed.pair_id, make_anchor("here", entries), fresh_signer("ed25519"))
    answer = delta("verify", MANIFEST, "--store", signed, "--trust", signed.trust, "--json")
    assert (answer.code, answer.json["verdict"]) == (4, "untrusted")


def test_a_link_in_place_of_a_blob_is_a_finding(delta, signed, tmp_path):
    """The store follows no link, and verification goes on with the rest."""
    path = signed.blob(BODY)
    other = tmp_path / "elsewhere"
    other.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(other)
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert answer.code == 1
    assert set(codes(answer)) == {"DELTA_STORE_FILE", "DELTA_STORE_MISSING"}


def test_a_blob_that_is_no_manifest_is_a_finding(delta, signed):
    """The digest is right, what it names is not."""
    answer = delta("verify", SCHEMA, "--store", signed, "--json")
    assert answer.code == 1
    assert answer.json["manifest"] == SCHEMA


def test_a_pair_verifies_by_name_id_and_specification(delta, hostile):
    """Three ways to say the same."""
    (pair_id,) = log.list_pairs(hostile.store)
    for what in ("hostile", pair_id, hostile.spec):
        answer = delta("verify", what, "--store", hostile, "--json")
        assert answer.code == 0
        assert [manifest["manifest"] for manifest in answer.json["manifests"]] == [hostile.manifest]


def test_a_manifest_that_the_log_names_and_the_store_lost_is_a_finding(delta, signed):
    """By pair it is evidence that is gone; asked for by digest there is nothing to read."""
    signed.blob(MANIFEST).unlink()
    answer = delta("verify", "orders", "--store", signed, "--json")
    assert (answer.code, codes(answer)) == (1, ["DELTA_STORE_MISSING"])
    assert delta("verify", MANIFEST, "--store", signed).code == 3


def test_an_audit_reports_orphans_and_removes_nothing(delta, signed):
    """A blob that nothing names is what a crash leaves behind: no finding, and it stays."""
    orphan = put_blob(signed.store, b"left behind")
    os.utime(signed.blob(orphan), (0, 0))
    before = sorted(signed.path.rglob("*"))
    answer = delta("verify", "--audit", signed, "--trust", signed.trust, "--json")
    assert answer.code == 0
    assert answer.json["orphans"] == [orphan]
    assert answer.json["pairs"][0]["manifests"][0]["signature"]["status"] == "trusted"
    assert sorted(signed.path.rglob("*")) == before
    assert "1 orphans, older than 24 hours" in delta("verify", "--audit", "--store", signed).out


def test_a_blob_is_an_orphan_only_when_it_is_old_enough(delta, signed):
    """A publication that is under way stores its blobs before the log names them."""
    orphan = put_blob(signed.store, b"stored a moment ago")
    answer = delta("verify", "--audit", signed)
    assert "0 orphans, older than 24 hours" in answer.out
    assert "1 younger blobs that no log names" in answer.out
    answer = delta("verify", "--audit", signed, "--orphan-age", "0", "--json")
    assert (answer.json["orphans"], answer.json["young"], answer.json["orphan_age_s"]) == ([orphan], 0, 0)


def test_an_audit_tells_what_finished_runs_have_left_from_unfinished_work(delta, signed):
    """Plans stay for a task that is started again: they are no work that waits."""
    work = "work/" + "1" * 32
    signed.store.create(f"{work}/{'2' * 64}", b'{"a plan":"of a run that is done"}')
    signed.store.create(f"{work}/{'3' * 64}", MANIFEST.encode())
    signed.store.create(f"work/{'4' * 32}/{'5' * 64}", b"half of a run")
    answer = delta("verify", "--audit", signed, "--json").json
    assert (answer["unfinished"], answer["kept"]) == (1, 2)
    said = delta("verify", "--audit", signed).out
    assert "1 files of unfinished runs, 2 that finished runs have left below work/" in said


def test_an_audit_finds_what_a_single_verification_passes_over(delta, signed):
    """A derived page index and a foreign file are part of the store, though no verdict rests on them."""
    sidecar = json.loads(get_blob(signed.store, log.read_log(signed.store, signed.pair_id)[1].ref))
    signed.change(signed.blob(sidecar["page_index"]), flip(3))
    (signed.path / "blobs" / "notes.txt").write_text("mine")
    answer = delta("verify", "--audit", signed, "--json")
    assert answer.code == 1
    assert answer.json["foreign"] == ["blobs/notes.txt"]
    assert sorted(codes(answer)) == ["DELTA_STORE_CONFLICT", "DELTA_STORE_FILE"]


def test_no_store_is_unreadable_and_no_question_is_usage(delta, tmp_path):
    """Exit 3 and exit 2 are told apart, each with a code in JSON."""
    for words in (("verify", "--audit", tmp_path / "no"), ("verify", "a", "--store", tmp_path / "no")):
        answer = delta(*words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (3, "DELTA_STORE_MISSING")
        assert set(answer.json["error"]) == {"code", "message", "where", "remedy"}
    assert delta("verify", MANIFEST).code == 2
    assert delta("verify", "--no-such-option").code == 2


def test_a_trust_file_that_is_none_is_refused(delta, signed, tmp_path):
    """Neither a key nor a trust document: refused before anything is read."""
    path = tmp_path / "trust"
    path.write_text("hello")
    assert (
        delta("verify", MANIFEST, "--store", signed, "--trust", path, "--json").json["error"]["code"] == "DELTA_TRUST"
    )
    assert delta("verify", MANIFEST, "--store", signed, "--trust", tmp_path / "none").code == 3


def test_a_checkpoint_of_this_manifest_is_verified_with_it(delta, signed):
    """A damaged patch shows in the verification of the manifest that was patched."""
    put = put_blob(signed.store, jsonc.dumps({"format": "delta-checkpoint/1", "manifest": MANIFEST}))
    log.append(signed.store, signed.pair_id, "checkpoint", put)
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert answer.code == 0
    assert answer.json["notes"] == ["Checkpoints of sensitive columns are encrypted: they were not read."]


def test_the_page_index_of_the_example_has_one_row():
    """The helper of these tests builds the index that publication stores."""
    assert len(page_index(io.BytesIO(b'{"a":1}\n').getvalue())) == 40
