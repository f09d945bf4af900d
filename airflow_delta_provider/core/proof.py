"""Proof bundles: records of a manifest with everything that proves them, in one file (docs/proof-bundle.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import orjson

from airflow_delta_provider.core import documents, ids, jsonc, merkle
from airflow_delta_provider.core.anchor import leaves_of, parse_anchor, verify_anchor
from airflow_delta_provider.core.body import PAGE_RECORDS, key_and_category, read_lines
from airflow_delta_provider.core.errors import (
    CategoryRootError,
    ContractError,
    CountError,
    DeltaError,
    InputPolicyError,
    LimitError,
    MerkleRootError,
    ProofError,
    SchemaError,
    SignatureUntrustedError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.log import Entry
from airflow_delta_provider.core.recordform import RecordChecker
from airflow_delta_provider.core.signing.dsse import parse_envelope
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.core.verify import read_manifest
from airflow_delta_provider.core.verify_signature import FoundEnvelope, SignatureCheck, check_envelopes

FORMAT = "delta-proof/1"
BUNDLE_BYTES_MAX = jsonc.DOCUMENT_BYTES_MAX
RECORDS_MAX = 1_000_000
_MEMBERS = ["anchor", "category", "contract", "envelopes", "format", "manifest", "records", "schema"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a bundle carries besides the records.

    Shape: ``manifest``, ``schema``, ``contract`` in canonical bytes. ``envelopes`` with their log entries (None where
    there is no log). ``anchor`` is the envelope of an anchor over ``entries``, the log of the pair, oldest first.
    """

    manifest: bytes
    schema: bytes
    contract: bytes
    envelopes: Sequence[tuple[Entry | None, bytes]] = ()
    anchor: bytes | None = None
    entries: Sequence[Entry] = ()


@dataclass(slots=True)
class BundleCheck:
    """What a bundle proves.

    Shape: ``records`` are the proven records as parsed; ``category`` is the one of which they are all, or None. With a
    finding nothing is proved.
    """

    manifest_id: str = ""
    manifest: documents.Document | None = None
    category: str | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    signature: SignatureCheck = field(default_factory=lambda: SignatureCheck("unsigned"))
    findings: list[Finding] = field(default_factory=list)
    anchored: bool = False


def prove_records(evidence: Evidence, open_body: Callable[[], BinaryIO], record_ids: Sequence[str]) -> bytes:
    """Return the bundle that proves single records to be in a manifest, in body order.

    Raises: InputDigestError (DELTA_INPUT_DIGEST) for what is no id; ProofError (DELTA_PROOF) where the manifest has no
    such record; MerkleRootError (DELTA_MERKLE_ROOT) where the body is not that of the manifest.
    """
    wanted = dict.fromkeys(ids.digest_bytes(one).hex().encode() for one in record_ids)
    manifest = documents.parse_manifest(evidence.manifest)
    pages: list[bytes] = []
    found: list[tuple[int, bytes, list[bytes]]] = []
    with closing(open_body()) as stream:
        for number, lines in enumerate(read_lines(stream)):
            leaves = merkle.leaf_hashes(lines)
            pages.append(merkle.root(leaves))
            for place, line in enumerate(lines):
                if any(one in line for one in wanted) and _id_of(line) in wanted:
                    found.append((number * PAGE_RECORDS + place, line, merkle.inclusion_path(leaves, place)))
    if merkle.root(pages).hex() != manifest["body"]["root"]:
        raise MerkleRootError("The body is not the one of the manifest, so it proves nothing.", where="body")
    missing = [one.decode() for one in wanted if one not in {_id_of(line) for _, line, _ in found}]
    if missing:
        raise ProofError(f"The manifest has no record {missing[0]}.", where=missing[0])
    records = [
        {
            "index": index,
            "line": line.decode(),
            "path": [node.hex() for node in inner + merkle.inclusion_path(pages, index // PAGE_RECORDS)],
        }
        for index, line, inner in found
    ]
    return _bundle(evidence, None, records)


def prove_category(evidence: Evidence, open_body: Callable[[], BinaryIO], category: str) -> bytes:
    """Return the bundle that holds every record of one category: a filtered list that is provably complete.

    Raises: InputPolicyError (DELTA_INPUT_POLICY) for another category; CategoryRootError (DELTA_CATEGORY_ROOT) where
    the body is not that of the manifest; LimitError (DELTA_LIMIT) for more than a bundle holds.
    """
    if category not in ids.CATEGORIES:
        raise InputPolicyError(f"{category!r} is none of {', '.join(ids.CATEGORIES)}.", where="category")
    manifest = documents.parse_manifest(evidence.manifest)
    stated = manifest["categories"][category]
    if stated["records"] > RECORDS_MAX:
        raise LimitError(f"A bundle holds up to {RECORDS_MAX} records, there are {stated['records']}.")
    lines: list[bytes] = []
    size = 0
    with closing(open_body()) as stream:
        for batch in read_lines(stream):
            mine = [line for line in batch if key_and_category(line)[1] == category]
            lines += mine
            size += sum(map(len, mine))
            if size > BUNDLE_BYTES_MAX:
                raise LimitError(f"The records have more than the {BUNDLE_BYTES_MAX} bytes that a bundle holds.")
    if merkle.root(merkle.leaf_hashes(lines)).hex() != stated["root"]:
        raise CategoryRootError("The body is not the one of the manifest, so it proves nothing.", where=category)
    return _bundle(evidence, category, [{"line": line.decode()} for line in lines])


def _id_of(line: bytes) -> bytes:
    try:
        return str(orjson.loads(line)["id"]).encode()
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return b""


def _bundle(evidence: Evidence, category: str | None, records: list[dict[str, Any]]) -> bytes:
    bundle = jsonc.dumps(
        {
            "anchor": None if evidence.anchor is None else evidence.anchor.decode(),
            "category": category,
            "contract": jsonc.loads(evidence.contract),
            "envelopes": [_envelope_form(evidence, entry, data) for entry, data in evidence.envelopes],
            "format": FORMAT,
            "manifest": jsonc.loads(evidence.manifest),
            "records": records,
            "schema": jsonc.loads(evidence.schema),
        }
    )
    if len(bundle) > BUNDLE_BYTES_MAX:
        raise LimitError(f"The bundle has {len(bundle)} bytes, {BUNDLE_BYTES_MAX} are possible.")
    return bundle


def _envelope_form(evidence: Evidence, entry: Entry | None, data: bytes) -> dict[str, Any]:
    """Return an envelope with the proof of its log entry under the anchor, where there is an anchor that covers it."""
    log = None
    if evidence.anchor is not None and entry is not None:
        size = parse_anchor(parse_envelope(evidence.anchor).payload).size
        if entry.seq < size:
            path = merkle.inclusion_path(leaves_of(evidence.entries[:size]), entry.seq)
            log = {"path": [node.hex() for node in path], "prev": entry.prev, "seq": entry.seq}
    return {"data": data.decode(), "log": log}


def check_bundle(data: bytes, trust: Trust | None = None) -> BundleCheck:
    """Check a bundle with nothing else at hand.

    Raises: ProofError (DELTA_PROOF) for what is no bundle of this format.
    """
    form = _parse(data)
    check, findings = BundleCheck(category=form["category"]), Findings(Stage.BODY)
    manifest_bytes = jsonc.dumps(form["manifest"])
    check.manifest_id = ids.sha256_hex(manifest_bytes)
    check.manifest, found = read_manifest(check.manifest_id, manifest_bytes)
    if check.manifest is None:
        check.findings = found
        return check
    pair_id = documents.pair_id(**check.manifest["pair"])
    signing = Findings(Stage.SIGNATURE)
    size, root = _anchor(form, trust, pair_id, signing)
    check.anchored = size > 0
    envelopes = [
        FoundEnvelope(one["data"].encode(), _proven_seq(one, size, root, signing), f"envelope {number}")
        for number, one in enumerate(form["envelopes"])
    ]
    check.signature = check_envelopes(envelopes, manifest_bytes, pair_id, trust, signing)
    described = Findings(Stage.DOCUMENTS)
    schema = _document(form, "schema", check.manifest, documents.parse_schema, SchemaError, described)
    contract = _document(form, "contract", check.manifest, documents.parse_contract, ContractError, described)
    lines = [one["line"].encode() for one in form["records"]]
    _check_lines(form, lines, check.manifest, findings)
    checker = RecordChecker(check.manifest, schema, contract, findings)
    for number, line in enumerate(lines):
        checker.check(line, number)
    check.findings = [*signing.listed(), *findings.listed(), *described.listed()]
    if not check.findings:
        check.records = [orjson.loads(line) for line in lines]
    return check


def _parse(data: bytes) -> dict[str, Any]:
    try:
        form = jsonc.loads(data, bytes_max=BUNDLE_BYTES_MAX)
    except DeltaError as error:
        raise ProofError(f"This is no proof bundle: {error.message}") from error
    if not isinstance(form, dict) or form.get("format") != FORMAT or sorted(form) != _MEMBERS:
        raise ProofError(f"This is no proof bundle of format {FORMAT}.")
    category, records = form["category"], form["records"]
    members = ["line"] if category is not None else ["index", "line", "path"]
    good = category is None or category in ids.CATEGORIES
    good = good and (form["anchor"] is None or isinstance(form["anchor"], str)) and isinstance(records, list)
    if not good or len(records) > RECORDS_MAX or not all(_is_record(one, members) for one in records):
        raise ProofError("The bundle has a member of another form.")
    if category is None and not records:
        raise ProofError("The bundle proves no record.")
    if not isinstance(form["envelopes"], list) or not all(_is_envelope(one) for one in form["envelopes"]):
        raise ProofError("The bundle has an envelope of another form.")
    return form


def _is_record(one: Any, members: list[str]) -> bool:
    if not isinstance(one, dict) or sorted(one) != members or not isinstance(one["line"], str) or "\n" in one["line"]:
        return False
    return members == ["line"] or (_is_count(one["index"]) and _is_path(one["path"]))


def _is_envelope(one: Any) -> bool:
    if not isinstance(one, dict) or sorted(one) != ["data", "log"] or not isinstance(one["data"], str):
        return False
    log = one["log"]
    if log is None:
        return True
    if not isinstance(log, dict) or sorted(log) != ["path", "prev", "seq"] or not _is_count(log["seq"]):
        return False
    return _is_path(log["path"]) and (log["prev"] is None or ids.is_digest(log["prev"]))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_path(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= merkle.PROOF_NODES_MAX and all(ids.is_digest(one) for one in value)


def _anchor(form: dict[str, Any], trust: Trust | None, pair_id: str, findings: Findings) -> tuple[int, bytes]:
    """Return size and root of the anchor where a trusted key signed it, else 0: an anchor that nobody signed is none."""
    if form["anchor"] is None or trust is None:
        return 0, b""
    try:
        anchor = verify_anchor(form["anchor"].encode(), trust, pair_id)
    except SignatureUntrustedError:
        return 0, b""
    except DeltaError as error:
        findings.add(error, "anchor")
        return 0, b""
    return anchor.size, anchor.root


def _proven_seq(one: dict[str, Any], size: int, root: bytes, findings: Findings) -> int | None:
    """Return the log number of an envelope where the anchor proves it."""
    log = one["log"]
    if log is None or not size:
        return None
    entry = Entry("envelope", log["prev"], hashlib.sha256(one["data"].encode()).hexdigest(), log["seq"])
    path = [bytes.fromhex(node) for node in log["path"]]
    try:
        merkle.verify_inclusion(entry.seq, size, merkle.leaf_hash(entry.data), path, root)
    except ProofError as error:
        findings.add(error, f"log entry {entry.seq} (envelope)")
        return None
    return entry.seq


def _document(
    form: dict[str, Any],
    member: str,
    manifest: documents.Document,
    parse: Callable[[bytes], documents.Document],
    error: type[DeltaError],
    findings: Findings,
) -> documents.Document | None:
    data = jsonc.dumps(form[member])
    if ids.sha256_hex(data) != manifest[member]["sha256"]:
        findings.note(error, member, f"The {member} document does not hash to what the manifest says.")
        return None
    try:
        return parse(data)
    except DeltaError as problem:
        findings.add(problem, member)
        return None


def _check_lines(
    form: dict[str, Any], lines: Sequence[bytes], manifest: documents.Document, findings: Findings
) -> None:
    """Check that the lines are leaves of the body, or that they are all leaves of their category."""
    leaves = merkle.leaf_hashes(lines)
    if form["category"] is not None:
        stated = manifest["categories"][form["category"]]
        if len(lines) != stated["records"]:
            sentence = f"The bundle has {len(lines)} records, the manifest says {stated['records']}."
            findings.note(CountError, f"categories.{form['category']}", sentence)
        if merkle.root(leaves).hex() != stated["root"]:
            sentence = "The root over the records is not the one in the manifest."
            findings.note(CategoryRootError, f"categories.{form['category']}", sentence)
        return
    root, size = bytes.fromhex(manifest["body"]["root"]), manifest["body"]["records"]
    indexes: Iterable[int] = (one["index"] for one in form["records"])
    for number, (index, leaf) in enumerate(zip(indexes, leaves, strict=True)):
        path = [bytes.fromhex(node) for node in form["records"][number]["path"]]
        try:
            merkle.verify_inclusion(index, size, leaf, path, root)
        except ProofError as error:
            findings.add(error, f"record {number}")
