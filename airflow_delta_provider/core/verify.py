"""Verification of a manifest and everything that it names, step by step, without any key (docs/format.md, S12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from airflow_delta_provider.core import ids
from airflow_delta_provider.core.documents import (
    Document,
    check_contract_fits,
    check_population,
    check_summary_fits,
    parse_contract,
    parse_manifest,
    parse_schema,
    parse_structure,
    parse_summary,
)
from airflow_delta_provider.core.errors import (
    ContractError,
    CountError,
    DeltaError,
    ManifestContractError,
    ManifestDigestError,
    SchemaError,
    StoreMissingError,
    StoreRetiredError,
    StructureError,
    SummaryError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage, in_order
from airflow_delta_provider.core.verify_body import BodyScan, verify_body

GONE = (StoreMissingError, StoreRetiredError)


class Artifacts(Protocol):
    """Where artifacts come from, by digest. Nothing is believed: what comes is hashed here.

    Raises, in both methods: StoreMissingError, or StoreRetiredError where the log says that it was retired. Any other
    error means that the store could not be read, and ends the verification.
    """

    def read(self, digest_hex: str) -> bytes:
        """Return a document's bytes as they are stored."""

    def open(self, digest_hex: str) -> BinaryIO:
        """Return a seekable stream over a body's bytes as they are stored."""


def fetch(read: Callable[[str], bytes], digest: str, place: str, findings: Findings) -> bytes | None:
    """Return bytes by digest; where they are gone that is a finding and None is returned. An outage is raised."""
    try:
        return read(digest)
    except GONE as gone:
        findings.add(gone, place)
        return None


@dataclass(slots=True)
class Verification:
    """What was verified. ``manifest`` and the documents are None where they could not be read or are not valid."""

    manifest_id: str
    manifest: Document | None = None
    schema: Document | None = None
    contract: Document | None = None
    summary: Document | None = None
    structure: Document | None = None
    body: BodyScan | None = None
    findings: list[Finding] = field(default_factory=list)

    def add(self, findings: list[Finding]) -> None:
        """Add what other steps found (signature, log, generation, patch), keeping the order of S12."""
        self.findings = in_order([*self.findings, *findings])


def verify_manifest(
    manifest_id: str, artifacts: Artifacts, *, page_index: bytes | None = None, workers: int = 1
) -> Verification:
    """Verify a manifest, its body and its documents, and report everything that is wrong.

    Shape: ``page_index`` is the derived index of the body where there is one; it tells where a damaged body is damaged.
    ``workers`` processes share the records of a large body.
    Raises: StoreMissingError (DELTA_STORE_MISSING) where the manifest itself is not there, and what the store raises
    where it cannot be read.
    """
    result = Verification(manifest_id)
    result.manifest, found = read_manifest(manifest_id, artifacts.read(manifest_id))
    result.add(found)
    if result.manifest is None:
        return result
    documents = _read_documents(result, artifacts)
    result.add(_verify_body(result, artifacts, page_index, workers).listed())
    result.add(_verify_population(result).listed())
    _check_agreement(result, documents)
    result.add(documents.listed())
    return result


def read_manifest(manifest_id: str, data: bytes) -> tuple[Document | None, list[Finding]]:
    """Return a manifest from its bytes, None where it is not valid, and what is wrong with it."""
    fetched, checked = Findings(Stage.FETCH), Findings(Stage.MANIFEST)
    if ids.sha256_hex(data) != manifest_id:
        fetched.note(ManifestDigestError, "manifest", "The manifest does not hash to its id.")
    try:
        manifest = parse_manifest(data)
    except DeltaError as error:
        checked.add(error, error.where or "manifest")
        return None, fetched.listed() + checked.listed()
    return manifest, fetched.listed()


def _read_documents(result: Verification, artifacts: Artifacts) -> Findings:
    findings = Findings(Stage.DOCUMENTS)
    result.schema = _read(result, artifacts, findings, "schema", parse_schema, SchemaError)
    result.contract = _read(result, artifacts, findings, "contract", parse_contract, ContractError)
    result.summary = _read(result, artifacts, findings, "summary", parse_summary, SummaryError)
    result.structure = _read(result, artifacts, findings, "structure", parse_structure, StructureError)
    return findings


def _read(
    result: Verification,
    artifacts: Artifacts,
    findings: Findings,
    member: str,
    parse: Callable[[bytes], Document],
    error: type[DeltaError],
) -> Document | None:
    """Return one document that the manifest names, None where it is missing, altered or not valid."""
    assert result.manifest is not None
    digest = result.manifest[member]["sha256"]
    try:
        data = artifacts.read(digest)
    except GONE as gone:
        findings.note(error, member, f"The {member} document is not there: {gone.message}")
        return None
    if ids.sha256_hex(data) != digest:
        findings.note(error, member, f"The {member} document does not hash to what the manifest says.")
        return None
    try:
        return parse(data)
    except DeltaError as problem:
        findings.add(problem, member)
        return None


def _verify_body(result: Verification, artifacts: Artifacts, page_index: bytes | None, workers: int) -> Findings:
    findings, manifest = Findings(Stage.BODY), result.manifest
    assert manifest is not None
    total = sum(category["records"] for category in manifest["categories"].values())
    if total != manifest["body"]["records"]:
        sentence = f"The categories have {total} records, the body {manifest['body']['records']}."
        findings.note(CountError, "categories", sentence)
    if result.contract is not None and result.contract["detail"] == "counts":
        return findings
    digest = manifest["body"]["sha256"]
    try:
        result.body = verify_body(
            lambda: artifacts.open(digest), manifest, result.schema, result.contract, page_index, findings, workers
        )
    except GONE as gone:
        findings.add(gone, "body")
    return findings


def _verify_population(result: Verification) -> Findings:
    findings, manifest = Findings(Stage.POPULATION), result.manifest
    assert manifest is not None
    try:
        check_population(manifest)
    except DeltaError as error:
        findings.add(error, f"population.{error.where}")
    return findings


def _check_agreement(result: Verification, findings: Findings) -> None:
    """Check that the documents agree with the manifest, with each other and with the body."""
    manifest, schema, contract = result.manifest, result.schema, result.contract
    assert manifest is not None
    if schema is not None:
        _check_schema(manifest, schema, findings)
    if contract is not None:
        _check_contract(manifest, contract, findings)
    if result.structure is not None:
        _check_structure(manifest, result.structure, contract, findings)
    if schema is None or contract is None:
        return
    sweep = "sweep" in manifest
    try:
        check_contract_fits(contract, schema, sweep=sweep)
    except DeltaError as error:
        findings.add(error, f"contract.{error.where}")
    if result.summary is None:
        return
    try:
        check_summary_fits(result.summary, schema, contract, sweep=sweep)
    except DeltaError as error:
        findings.add(error, f"summary.{error.where}")
    else:
        _check_counts(manifest, result.summary, result.body, findings)


def _check_schema(manifest: Document, schema: Document, findings: Findings) -> None:
    if schema["version"] != manifest["schema"]["version"]:
        findings.note(SchemaError, "schema.version", "The schema document has another version than the manifest.")
    key = manifest["key"]
    if schema["key"] != [list(column) for column in zip(key["columns"], key["types"], strict=True)]:
        findings.note(SchemaError, "schema.key", "The schema document has another key than the manifest.")


def _check_contract(manifest: Document, contract: Document, findings: Findings) -> None:
    if contract["version"] != manifest["contract"]["version"]:
        findings.note(ContractError, "contract.version", "The contract has another version than the manifest.")
    policies = (("null_key", contract["keys"]["nulls"]), ("duplicate_key", contract["keys"]["duplicates"]))
    for side in ("source", "target"):
        for member, policy in policies:
            if manifest["population"][side][member] and policy != "set_aside":
                sentence = f"Rows were set aside, though the contract says {policy}."
                findings.note(ManifestContractError, f"population.{side}.{member}", sentence)


def _check_structure(manifest: Document, structure: Document, contract: Document | None, findings: Findings) -> None:
    if len(structure["findings"]) != manifest["structure"]["findings"]:
        sentence = (
            f"It has {len(structure['findings'])} findings, the manifest says {manifest['structure']['findings']}."
        )
        findings.note(StructureError, "structure.findings", sentence)
    excluded = set() if contract is None else set(contract["columns"]["exclude"])
    for finding in structure["findings"]:
        if finding["kind"] != "column_dropped" and finding["column"] in excluded:
            findings.note(StructureError, f"structure.{finding['column']}", "An excluded column makes no finding.")


def _check_counts(manifest: Document, summary: Document, body: BodyScan | None, findings: Findings) -> None:
    diverged_records = manifest["categories"]["value_diverged"]["records"]
    matched = manifest["population"]["unchanged"] + diverged_records
    for name, diverged, tolerated in summary["columns"]:
        place = f"summary.columns.{name}"
        if body is not None and body.columns.get(name, 0) != diverged:
            sentence = (
                f"It says {diverged} diverged, the body has {body.columns.get(name, 0)} records naming the column."
            )
            findings.note(SummaryError, place, sentence)
        if diverged > diverged_records or diverged + tolerated > matched:
            findings.note(SummaryError, place, "It counts more values than there are matched keys.")
