"""Verification: every single lie is found, named by its code and placed."""

import hashlib
import io
import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import body, ids, jsonc
from airflow_delta_provider.core.errors import ConnectError, StoreMissingError, StoreRetiredError
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.verify import verify_manifest

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"
DOCUMENTS = ("schema", "contract", "summary", "structure")


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Memory:
    """Artifacts in memory, able to hold other bytes than the digest says."""

    def __init__(self):
        self.blobs = {}
        self.gone = StoreMissingError

    def put(self, data):
        self.blobs[sha(data)] = data
        return sha(data)

    def read(self, digest_hex):
        if digest_hex not in self.blobs:
            raise self.gone(f"{digest_hex} is not there.")
        return self.blobs[digest_hex]

    def open(self, digest_hex):
        return io.BytesIO(self.read(digest_hex))


class Case:
    """The worked example (or its sweep), to be changed and sealed again by somebody who can hash."""

    def __init__(self, folder=EXAMPLE, stem=""):
        self.manifest = json.loads((folder / f"{stem}manifest.json").read_text())
        self.documents = {name: json.loads((folder / f"{name}.json").read_text()) for name in DOCUMENTS}
        self.records = [json.loads(line) for line in (folder / f"{stem}body.jsonl").read_bytes().splitlines()]
        self.lines = None
        self.page_index = None

    def sealed(self):
        """Return artifacts and a manifest id in which all digests and counts are right again."""
        store = Memory()
        for name in DOCUMENTS:
            self.manifest[name]["sha256"] = store.put(jsonc.dumps(self.documents[name]))
        lines = self.lines or [jsonc.dumps_checked(record) for record in self.records]
        out = io.BytesIO()
        writer = body.LineWriter(out)
        leaves = writer.write(lines)
        facts = writer.close()
        self.manifest["body"] = facts.block
        self.page_index = facts.page_index
        for name in ids.CATEGORIES:
            mine = [leaf for leaf, line in zip(leaves, lines, strict=True) if f'"category":"{name}"'.encode() in line]
            tree = body.merkle.root(mine)
            self.manifest["categories"][name] = {"records": len(mine), "root": tree.hex()}
        store.put(out.getvalue())
        return store, store.put(jsonc.dumps(self.manifest))

    def codes(self):
        store, manifest_id = self.sealed()
        return [finding.code for finding in verify_manifest(manifest_id, store, page_index=self.page_index).findings]


@pytest.mark.parametrize(
    ("folder", "stem"),
    [(EXAMPLE, ""), (EXAMPLE / "sweep", "sweep0."), (EXAMPLE / "sweep", "sweep1.")],
    ids=["comparison", "first sweep", "second sweep"],
)
def test_the_worked_examples_verify_without_a_finding(folder, stem):
    """Sealed again they have their golden ids, and nothing is wrong with them."""
    case = Case(folder, stem)
    store, manifest_id = case.sealed()
    assert manifest_id == sha((folder / f"{stem}manifest.json").read_bytes())
    result = verify_manifest(manifest_id, store, page_index=case.page_index)
    assert result.findings == []
    assert result.body.records == len(case.records)


def test_the_digests_detail_verifies_too():
    """The same comparison with keyed digests for values, without the key."""
    case = Case()
    case.documents["contract"] = json.loads((EXAMPLE / "detail-digests.contract.json").read_text())
    case.lines = (EXAMPLE / "detail-digests.body.jsonl").read_bytes().splitlines()
    store, manifest_id = case.sealed()
    assert manifest_id == sha((EXAMPLE / "detail-digests.manifest.json").read_bytes())
    assert verify_manifest(manifest_id, store).findings == []


@pytest.mark.parametrize("detail", ["keys", "counts"])
def test_omitted_values_verify_and_counts_needs_no_body(detail):
    """Under counts the body is not published at all."""
    case = Case()
    case.documents["contract"]["detail"] = detail
    for record in case.records:
        for side in ("source_value", "target_value"):
            if record[side] is not None:
                keyed = [value if isinstance(value, dict) else {"omitted": True} for value in record[side]]
                record[side] = keyed
    store, manifest_id = case.sealed()
    if detail == "counts":
        del store.blobs[case.manifest["body"]["sha256"]]
    assert [finding.code for finding in verify_manifest(manifest_id, store).findings] == []


def edit(case, record, **members):
    case.records[record].update(members)


RECORD_LIES = {
    "id of another key": (lambda c: edit(c, 1, id="00" * 32), ["DELTA_IDENTITY_DERIVATION"]),
    "id that is none": (lambda c: edit(c, 1, id="00"), ["DELTA_RECORD_CONTRACT"]),
    "key shown wrong": (lambda c: edit(c, 1, key=["43", "D"]), ["DELTA_KEY_MISMATCH"]),
    "key bytes not minimal": (
        lambda c: edit(
            c,
            0,
            sort_key="201ffff878617c620001",
            id=ids.record_id("orders@7", "dropped", bytes.fromhex("201ffff878617c620001")),
        ),
        ["DELTA_KEY_ENCODING"],
    ),
    "key bytes no hex": (lambda c: edit(c, 0, sort_key="2G"), ["DELTA_RECORD_CONTRACT"]),
    "out of order": (lambda c: c.records.reverse(), ["DELTA_INPUT_ORDER"] * 3),
    "member more": (lambda c: edit(c, 0, note="x"), ["DELTA_RECORD_CONTRACT"]),
    "member less": (lambda c: c.records[2].pop("columns"), ["DELTA_RECORD_CONTRACT", "DELTA_SUMMARY", "DELTA_SUMMARY"]),
    "raw keys without a key rule": (
        lambda c: edit(c, 1, source_key=None, target_key=["42", "D"]),
        ["DELTA_RECORD_CONTRACT"],
    ),
    "both sides of an added row": (lambda c: edit(c, 1, source_value=[]), ["DELTA_RECORD_CONTRACT"]),
    "row too short": (lambda c: c.records[1]["target_value"].pop(), ["DELTA_RECORD_CONTRACT"]),
    "value not canonical": (lambda c: edit(c, 2, target_value=["12.510", "Zo"]), ["DELTA_RECORD_CONTRACT"]),
    "value of another type": (lambda c: edit(c, 2, target_value=["x", "Zo"]), ["DELTA_RECORD_CONTRACT"]),
    "values alike": (lambda c: edit(c, 2, target_value=["12.5", "Zo"]), ["DELTA_DETAIL"]),
    "sensitive value in clear": (lambda c: c.records[1]["target_value"].__setitem__(4, "00ff"), ["DELTA_DETAIL"]),
    "value hidden": (lambda c: c.records[1]["target_value"].__setitem__(0, {"omitted": True}), ["DELTA_DETAIL"]),
    "short value as a digest": (
        lambda c: c.records[1]["target_value"].__setitem__(0, {"bytes": 9, "sha256": "00" * 32}),
        ["DELTA_RECORD_CONTRACT"],
    ),
    "unparsed without read_as": (
        lambda c: c.records[1]["target_value"].__setitem__(1, {"unparsed": "x"}),
        ["DELTA_RECORD_CONTRACT"],
    ),
    "valid text as wtf8": (
        lambda c: c.records[1]["target_value"].__setitem__(1, {"wtf8": "41"}),
        ["DELTA_RECORD_CONTRACT"],
    ),
    "columns out of order": (
        lambda c: edit(c, 2, columns=["name", "amount"], source_value=["a", "1"], target_value=["b", "2"]),
        ["DELTA_RECORD_CONTRACT"],
    ),
    "column not compared": (
        lambda c: edit(c, 2, columns=["amount", "loaded_at"]),
        ["DELTA_RECORD_CONTRACT", "DELTA_SUMMARY"],
    ),
    "column left out": (
        lambda c: edit(c, 2, columns=["amount"], source_value=["1"], target_value=["2"]),
        ["DELTA_SUMMARY"],
    ),
    "no column": (
        lambda c: edit(c, 2, columns=[], source_value=[], target_value=[]),
        ["DELTA_RECORD_CONTRACT", "DELTA_SUMMARY", "DELTA_SUMMARY"],
    ),
    "NULL in a key": (
        lambda c: edit(
            c,
            0,
            key=[None, "a|b"],
            sort_key="0078617c620001",
            id=ids.record_id("orders@7", "dropped", bytes.fromhex("0078617c620001")),
        ),
        ["DELTA_RECORD_CONTRACT"],
    ),
    "number in a record": (lambda c: edit(c, 1, key=[42.5, "D"]), ["DELTA_JSON_DOMAIN"]),
    "record removed": (lambda c: c.records.pop(0), ["DELTA_DENOMINATOR"]),
}


@pytest.mark.parametrize("name", RECORD_LIES)
def test_a_lie_in_a_record_is_found_though_every_digest_was_made_right_again(name):
    """Hashes prove that nothing changed since; the form proves that it was a record to begin with."""
    change, codes = RECORD_LIES[name]
    case = Case()
    change(case)
    assert case.codes() == codes


def test_a_record_outside_the_range_is_found():
    """A sub-manifest speaks for its range only."""
    case = Case()
    case.manifest["key_range"]["upper"] = "202164"
    store, manifest_id = case.sealed()
    found = verify_manifest(manifest_id, store).findings
    assert [(finding.code, finding.place) for finding in found] == [
        ("DELTA_RANGE", "record 3, key 2022012c78f09f98800001")
    ]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (lambda line: line.replace(b'":', b'": ', 1), ["DELTA_JSON_NOT_CANONICAL"]),
        (lambda line: line + b"\r", ["DELTA_JSON_NOT_CANONICAL"]),
        (lambda line: line[:-1], ["DELTA_JSON_SYNTAX"]),
        (lambda line: b"[]", ["DELTA_RECORD_CONTRACT"]),
    ],
    ids=["blank", "CRLF", "cut", "no object"],
)
def test_a_line_that_is_not_canonical_is_found(line, codes):
    """One form for one record, or digests would not be comparable."""
    case = Case()
    case.lines = [jsonc.dumps(record) for record in case.records]
    case.lines[1] = line(case.lines[1])
    assert [code for code in case.codes() if code.startswith(("DELTA_JSON", "DELTA_RECORD"))] == codes


def test_swept_records_have_their_own_form():
    """A digest does not tell which columns changed, and must differ from the new row's."""

    def codes(change):
        case = Case(EXAMPLE / "sweep", "sweep1.")
        change(case)
        return case.codes()

    assert codes(lambda c: edit(c, 0, columns=["qty"])) == ["DELTA_RECORD_CONTRACT"]
    assert codes(lambda c: edit(c, 1, source_value=["1", "9.99"])) == ["DELTA_RECORD_CONTRACT"]
    digest = ids.row_digest("stock@1", bytes.fromhex("7842320001"), b'["8","2"]')
    assert codes(lambda c: edit(c, 0, source_value={"row_digest": digest})) == ["DELTA_RECORD_CONTRACT"]


def test_raw_keys_stand_where_the_contract_has_a_key_rule():
    """A patch finds the row by the key that the side holds."""
    case = Case()
    rule = {"rule": "normalize", "side": "source", "steps": ["strip"]}
    case.documents["contract"]["rules"].insert(0, ["country", [rule]])
    case.documents["summary"]["rules"].insert(0, ["country", 0, 3])
    for record in case.records:
        record["source_key"] = None if record["category"] == "added" else ["x", " DE"]
        record["target_key"] = None if record["category"] == "dropped" else ["x", "DE"]
    assert case.codes() == []
    case.records[0]["target_key"] = ["x", "DE"]
    assert case.codes() == ["DELTA_RECORD_CONTRACT"]


def test_texts_that_did_not_parse_may_be_alike():
    """Two texts that are no number diverge even when they are the same text."""
    case = Case()
    rule = {"otherwise": "different", "rule": "read_as", "side": "both", "type": "decimal"}
    case.documents["contract"]["rules"].insert(0, ["amount", [rule]])
    case.documents["summary"]["rules"].insert(0, ["amount", 0, 0])
    case.records[2]["source_value"][0] = case.records[2]["target_value"][0] = {"unparsed": "n/a"}
    assert case.codes() == []


DOCUMENT_LIES = {
    "schema of another version": (lambda c: c.documents["schema"].update(version="orders@8"), ["DELTA_SCHEMA"]),
    "schema of another key": (lambda c: c.documents["schema"]["key"][0].__setitem__(0, "ident"), ["DELTA_SCHEMA"]),
    "contract of another version": (lambda c: c.documents["contract"].update(version="x"), ["DELTA_CONTRACT"]),
    "contract that is none": (lambda c: c.documents["contract"].update(detail="some"), ["DELTA_CONTRACT"]),
    "set aside against the contract": (
        lambda c: c.documents["contract"]["keys"].update(duplicates="refuse"),
        ["DELTA_MANIFEST_CONTRACT"] * 2,
    ),
    "sensitive key": (lambda c: c.documents["contract"]["sensitive"].append("id"), ["DELTA_KEY_SENSITIVE"]),
    "rules of other columns": (
        lambda c: c.documents["contract"]["rules"].append(["zip", [{"rule": "single_precision"}]]),
        ["DELTA_CONTRACT", "DELTA_SUMMARY"],
    ),
    "summary that hides a divergence": (
        lambda c: c.documents["summary"]["columns"][0].__setitem__(1, 0),
        ["DELTA_SUMMARY"],
    ),
    "summary that counts too much": (
        lambda c: (
            c.documents["summary"]["columns"][2].__setitem__(2, 997),
            c.documents["summary"]["rules"][0].__setitem__(2, 997),
        ),
        ["DELTA_SUMMARY"],
    ),
    "summary without a column": (lambda c: c.documents["summary"]["columns"].pop(0), ["DELTA_SUMMARY"]),
    "structure with fewer findings": (lambda c: c.documents["structure"]["findings"].pop(), ["DELTA_STRUCTURE"]),
    "structure with an excluded column": (
        lambda c: c.documents["structure"]["findings"][1].update(column="loaded_at"),
        ["DELTA_STRUCTURE"] * 2,
    ),
    "rows that landed nowhere": (lambda c: c.manifest["population"].update(unchanged=994), ["DELTA_DENOMINATOR"]),
}


@pytest.mark.parametrize("name", DOCUMENT_LIES)
def test_documents_that_do_not_agree_are_found(name):
    """Each document is bound by its digest, and its content by the others."""
    change, codes = DOCUMENT_LIES[name]
    case = Case()
    change(case)
    if name.startswith("contract that is none"):
        case.codes = lambda: [f.code for f in verify_manifest(*case.sealed()[::-1]).findings]
    assert sorted(set(case.codes())) == sorted(set(codes))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("schema", "DELTA_SCHEMA"),
        ("contract", "DELTA_CONTRACT"),
        ("summary", "DELTA_SUMMARY"),
        ("structure", "DELTA_STRUCTURE"),
    ],
)
def test_a_document_that_is_missing_or_altered_is_found(name, code):
    """Everything else is still checked, as far as it goes."""
    case = Case()
    store, manifest_id = case.sealed()
    digest = case.manifest[name]["sha256"]
    store.blobs[digest] += b" "
    assert [finding.code for finding in verify_manifest(manifest_id, store).findings] == [code]
    del store.blobs[digest]
    assert [finding.code for finding in verify_manifest(manifest_id, store).findings] == [code]


def test_an_altered_manifest_is_found_at_once():
    """Its id is its hash."""
    case = Case()
    store, manifest_id = case.sealed()
    store.blobs[manifest_id] = store.blobs[manifest_id].replace(b'"unchanged":995', b'"unchanged":996')
    codes = [finding.code for finding in verify_manifest(manifest_id, store).findings]
    assert codes == ["DELTA_MANIFEST_DIGEST", "DELTA_DENOMINATOR"]
    store.blobs[manifest_id] = b"{}"
    codes = [finding.code for finding in verify_manifest(manifest_id, store).findings]
    assert codes == ["DELTA_MANIFEST_DIGEST", "DELTA_MANIFEST_CONTRACT"]


def test_a_manifest_that_is_not_there_is_no_finding_but_an_error():
    """Nothing was verified, so nothing may be said about it."""
    with pytest.raises(StoreMissingError, match=r"\[DELTA_STORE_MISSING\]"):
        verify_manifest("00" * 32, Memory())


def test_a_store_that_cannot_be_read_ends_the_verification():
    """An outage is not tampering."""
    case = Case()
    store, manifest_id = case.sealed()
    del store.blobs[case.manifest["body"]["sha256"]]
    store.gone = ConnectError
    with pytest.raises(ConnectError):
        verify_manifest(manifest_id, store)


@pytest.mark.parametrize(
    ("error", "code"), [(StoreMissingError, "DELTA_STORE_MISSING"), (StoreRetiredError, "DELTA_STORE_RETIRED")]
)
def test_a_body_that_is_gone_is_told_from_one_that_was_retired(error, code):
    """Retirement is logged; anything else is loss."""
    case = Case()
    store, manifest_id = case.sealed()
    del store.blobs[case.manifest["body"]["sha256"]]
    store.gone = error
    assert [finding.code for finding in verify_manifest(manifest_id, store).findings] == [code]


def tampered(change, *, page_index=True):
    case = Case()
    store, manifest_id = case.sealed()
    digest = case.manifest["body"]["sha256"]
    store.blobs[digest] = change(store.blobs[digest])
    return verify_manifest(manifest_id, store, page_index=case.page_index if page_index else None).findings


def test_one_flipped_bit_is_traced_to_its_record():
    """12.51 became 12.50's neighbour: still a good record, so only the page's hash can tell."""
    found = tampered(lambda data: data.replace(b'"12.51"', b'"12.53"'))
    assert [finding.code for finding in found] == [
        "DELTA_BODY_DIGEST",
        "DELTA_MERKLE_ROOT",
        "DELTA_CATEGORY_ROOT",
        "DELTA_PAGE_DIGEST",
        "DELTA_PAGE_DIGEST",
    ]
    assert [finding.place for finding in found[3:]] == ["page 0, records 0 to 3", "record 2"]


def test_a_flipped_line_end_is_traced_too():
    """Two records became one line."""
    found = tampered(lambda data: data.replace(b"}\n{", b"}\x0b{", 1))
    places = [finding.place for finding in found if finding.code == "DELTA_PAGE_DIGEST"]
    assert places == ["page 0, records 0 to 3", "record 0"]
    assert {"DELTA_COUNT", "DELTA_JSON_SYNTAX"} <= {finding.code for finding in found}


def test_more_than_one_flipped_bit_is_traced_to_its_page():
    """No record is named that could be the wrong one."""
    found = tampered(lambda data: data.replace(b'"12.51"', b'"19.99"'))
    assert [finding.place for finding in found if finding.code == "DELTA_PAGE_DIGEST"] == ["page 0, records 0 to 3"]


def test_without_a_page_index_the_body_is_still_known_to_be_bad():
    """The index is derived; nothing depends on it but the place."""
    codes = [finding.code for finding in tampered(lambda d: d.replace(b'"12.51"', b'"12.53"'), page_index=False)]
    assert codes == ["DELTA_BODY_DIGEST", "DELTA_MERKLE_ROOT", "DELTA_CATEGORY_ROOT"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data[:-1], "DELTA_BODY_FRAMING"),
        (lambda data: data.replace(b"}\n{", b"}\n\n{", 1), "DELTA_BODY_FRAMING"),
        (lambda data: b"", "DELTA_COUNT"),
        (lambda data: data + data, "DELTA_INPUT_ORDER"),
    ],
    ids=["cut", "empty line", "emptied", "doubled"],
)
def test_a_body_that_was_cut_or_stretched_is_found(change, code):
    """Framing, count and order are checked beside the digest."""
    codes = {finding.code for finding in tampered(change)}
    assert {code, "DELTA_BODY_DIGEST"} <= codes


def test_damage_in_a_large_body_is_traced_to_its_page():
    """Page 1 of three, though every record is well formed."""
    case = Case()
    keys = [b"\x20\x22" + number.to_bytes(2, "big") + b"\x78\x00\x01" for number in range(256, 2756)]
    case.lines = body.records_to_lines(
        "orders@7",
        keys,
        ["added"] * 2500,
        [b'["%d",""]' % number for number in range(256, 2756)],
        [None] * 2500,
        [b"null"] * 2500,
        [b'[null,"x",null,null,{"hmac":"%b","key":"k1"}]' % (b"0" * 64)] * 2500,
    )
    case.manifest["population"]["target"]["rows"] += 2500 - 2 - 1
    case.manifest["population"]["source"]["rows"] -= 2
    for row in case.documents["summary"]["columns"]:
        row[1] = 0
    assert case.codes() == []
    store, manifest_id = case.sealed()
    digest = case.manifest["body"]["sha256"]
    data = bytearray(store.blobs[digest])
    at = data.index(b'"x"', len(case.lines[0]) * 1100)
    data[at + 1] ^= 2
    store.blobs[digest] = bytes(data)
    found = verify_manifest(manifest_id, store, page_index=case.page_index).findings
    assert [finding.place for finding in found if finding.code == "DELTA_PAGE_DIGEST"] == [
        "page 1, records 1024 to 2047",
        "record 1095",
    ]


def test_a_bad_page_index_is_a_finding_of_its_own():
    """It would send a reader to the wrong bytes."""
    case = Case()
    store, manifest_id = case.sealed()
    result = verify_manifest(manifest_id, store, page_index=b"\0" * 40)
    assert [(f.code, f.place) for f in result.findings] == [("DELTA_PAGE_DIGEST", "page index")]


def test_findings_of_all_steps_are_reported_in_the_order_of_the_steps():
    """Signature and log are checked elsewhere and stand between manifest and body."""
    case = Case()
    edit(case, 1, id="00" * 32)
    case.manifest["population"]["unchanged"] = 1
    result = verify_manifest(*case.sealed()[::-1])
    result.add([Finding(Stage.SIGNATURE, "DELTA_SIGNATURE_INVALID", "envelope", "No.")])
    assert [finding.code for finding in result.findings] == [
        "DELTA_SIGNATURE_INVALID",
        "DELTA_IDENTITY_DERIVATION",
        "DELTA_DENOMINATOR",
        "DELTA_SUMMARY",
        "DELTA_SUMMARY",
    ]
    assert result.findings[0].document() == {
        "code": "DELTA_SIGNATURE_INVALID",
        "place": "envelope",
        "sentence": "No.",
    }


def test_a_thousand_findings_of_one_code_are_counted_on():
    """A ruined body gives a report that a person can read."""
    findings = Findings(Stage.BODY)
    for number in range(250):
        findings.note(StoreMissingError, f"record {number}", "Gone.")
    assert len(findings.listed()) == 101
    assert findings.listed()[-1].sentence == "150 more of the same."
    assert (len(findings), findings.of(StoreMissingError), bool(findings)) == (250, 250, True)
