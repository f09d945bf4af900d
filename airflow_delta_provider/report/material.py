"""Everything about one published manifest that a report shows, read and checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import orjson

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.documents.manifest import MANIFEST_BYTES_MAX
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    ContractError,
    DeltaError,
    InputManifestError,
    InputPolicyError,
    ManifestDigestError,
    SchemaError,
    StoreRetiredError,
    StructureError,
    SummaryError,
)
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.published import envelopes_of, open_body, sidecars_of
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.core.verify_signature import FoundEnvelope, SignatureCheck, check_envelopes

READ_BYTES = 2**20


@dataclass(slots=True)
class Material:
    """One manifest with its documents, its place in the log, its signature and the facts of its runs.

    Shape: ``sidecar`` is the newest one, or None. ``no_body`` says why there are no records to show: ``counts``,
    ``retired``, or empty where there are. ``seqs`` are the log entries that name the manifest.
    """

    store: Store
    manifest_id: str
    data: bytes
    manifest: documents.Document
    schema: documents.Document
    contract: documents.Document
    summary: documents.Document
    structure: documents.Document
    entries: Sequence[log.Entry]
    seqs: list[int]
    signature: SignatureCheck
    signature_findings: list[Finding] = field(default_factory=list)
    sidecar: dict[str, Any] | None = None
    runs: int = 0
    no_body: str = ""
    bound: str = ""
    """Where no run behind the manifest proved it: the bound of its verdict's error."""

    @property
    def columns(self) -> list[str]:
        """The compared columns, in schema order."""
        return [name for name, _ in self.schema["columns"]]

    @property
    def types(self) -> dict[str, Any]:
        """The type of each column, key columns included, as the schema document writes it."""
        return dict((*self.schema["key"], *self.schema["columns"]))

    @property
    def sweep(self) -> bool:
        """True where the source is a predecessor generation."""
        return "sweep" in self.manifest

    def open_body(self) -> BinaryIO:
        """Return a stream over the body. Raises: InputPolicyError where the contract publishes none."""
        if self.no_body == "counts":
            raise InputPolicyError(
                "The contract publishes counts only: there are no records to export.", where="detail"
            )
        return open_body(self.store, self.entries, self.manifest["body"]["sha256"])

    def check_body(self) -> None:
        """Read the whole body once, so that nothing of a damaged one is ever shown.

        Raises: BodyDigestError (DELTA_BODY_DIGEST), StoreRetiredError, StoreMissingError.
        """
        hasher = hashlib.sha256()
        with closing(self.open_body()) as stream:
            while chunk := stream.read(READ_BYTES):
                hasher.update(chunk)
        if hasher.hexdigest() != self.manifest["body"]["sha256"]:
            raise BodyDigestError("The body does not hash to what the manifest says.", where="body")

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the body, without LF."""
        with closing(self.open_body()) as stream:
            for line in stream:
                yield line[:-1]

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records in body order."""
        for line in self.lines():
            yield orjson.loads(line)


def load_material(store: Store, manifest_id: str, trust: Trust | None = None) -> Material:
    """Read what a report shows; every document is checked against its digest.

    Raises: InputDigestError, InputManifestError, StoreMissingError, and the code of a document that is damaged.
    """
    data = get_blob(store, manifest_id, MANIFEST_BYTES_MAX, ManifestDigestError)
    try:
        manifest = documents.parse_manifest(data)
    except DeltaError as error:
        raise InputManifestError(f"{manifest_id} is no manifest: {error.message}", where=manifest_id) from error
    pair_id = documents.pair_id(**manifest["pair"])
    entries = log.read_log(store, pair_id)
    signing = Findings(Stage.SIGNATURE)
    envelopes = [
        FoundEnvelope(envelope, entry.seq, f"log entry {entry.seq} (envelope)")
        for entry, envelope in envelopes_of(store, entries, manifest_id)
    ]
    signature = check_envelopes(envelopes, data, pair_id, trust, signing)
    sidecars = [sidecar for _, sidecar in sidecars_of(store, entries, manifest_id)]
    material = Material(
        store,
        manifest_id,
        data,
        manifest,
        documents.parse_schema(get_blob(store, manifest["schema"]["sha256"], error=SchemaError)),
        documents.parse_contract(get_blob(store, manifest["contract"]["sha256"], error=ContractError)),
        documents.parse_summary(get_blob(store, manifest["summary"]["sha256"], error=SummaryError)),
        documents.parse_structure(get_blob(store, manifest["structure"]["sha256"], error=StructureError)),
        entries,
        [entry.seq for entry in entries if (entry.kind, entry.ref) == ("manifest", manifest_id)],
        signature,
        signing.listed(),
        sidecars[-1] if sidecars else None,
        len(sidecars),
    )
    material.bound = _bound(sidecars)
    material.no_body = _why_no_body(material)
    return material


def _bound(sidecars: list[dict[str, Any]]) -> str:
    """Return the bound of a verdict that every run behind it calls probabilistic; one run that proves it is enough."""
    verdicts = [sidecar.get("verdict") for sidecar in sidecars]
    bounds = [verdict["bound"] for verdict in verdicts if isinstance(verdict, dict) and "bound" in verdict]
    return str(bounds[-1]) if bounds and len(bounds) == len(sidecars) else ""


def _why_no_body(material: Material) -> str:
    if material.contract["detail"] == "counts":
        return "counts"
    try:
        material.open_body().close()
    except StoreRetiredError:
        return "retired"
    return ""
