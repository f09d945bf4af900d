"""What the demo tells at its end: what differs, what signed it, where to read on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.store import blobs, open_store
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.verify_signature import load_trust
from airflow_delta_provider.core.verify_store import VERIFIED, ManifestCheck, verify_published
from airflow_delta_provider.demo.flights import FAULTS


def newest_manifest(store: Store) -> str:
    """Return the id of the last manifest that the demo's store published."""
    (pair_id,) = [pair_id for pair_id, pair in log.list_pairs(store).items() if pair["name"] == "flights"]
    return [entry.ref for entry in log.read_log(store, pair_id) if entry.kind == "manifest"][-1]


def report(folder: Path, digest: str) -> Path:
    """Write the html report of a manifest and return its path."""
    from airflow_delta_provider.report.html import RECORDS_SHOWN, write_html
    from airflow_delta_provider.report.material import load_material

    path = folder / "report.html"
    trust = load_trust((folder / "public.pem").read_bytes())
    material = load_material(open_store(str(folder / "store")), digest, trust)
    material.check_body()
    with path.open("wb") as file:
        write_html(material, file, RECORDS_SHOWN)
    return path


def verified(folder: Path, digest: str) -> ManifestCheck:
    """Verify a manifest and everything that it names against the demo's public key."""
    trust = load_trust((folder / "public.pem").read_bytes())
    check, _ = verify_published(open_store(str(folder / "store")), digest, trust=trust)
    return check


def lines(folder: Path, digest: str, check: ManifestCheck) -> Iterator[str]:
    """Yield what is printed, line by line."""
    store = open_store(str(folder / "store"))
    manifest = documents.parse_manifest(blobs.get_blob(store, digest))
    summary = documents.parse_summary(blobs.get_blob(store, manifest["summary"]["sha256"]))
    structure = documents.parse_structure(blobs.get_blob(store, manifest["structure"]["sha256"]))
    yield "What went wrong in the migration:"
    for number, fault in enumerate(FAULTS, 1):
        yield f"  {number}. {fault.what} -> {fault.where}"
    yield ""
    yield from _table(manifest, summary, structure)
    yield ""
    yield f"manifest   {digest}"
    yield f"signature  {_signature(check)}"


def _table(manifest: documents.Document, summary: documents.Document, structure: documents.Document) -> Iterator[str]:
    pair, population = manifest["pair"], manifest["population"]
    rows: list[tuple[str, Any]] = [
        (f"rows of {pair['source']}", population["source"]["rows"]),
        (f"rows of {pair['target']}", population["target"]["rows"]),
        ("unchanged", population["unchanged"]),
        *((name, part["records"]) for name, part in manifest["categories"].items()),
        *((f"  column {name}", diverged) for name, diverged, _ in summary["columns"] if diverged),
    ]
    width = max(len(name) for name, _ in rows)
    yield "What differs:"
    for name, count in rows:
        yield f"  {name:{width}}  {count:>9,}"
    for finding in structure["findings"]:
        types = f"{finding['source_type']} -> {finding['target_type']}"
        yield f"  schema: {finding['kind']} {finding['column']}: {types}"


def _signature(check: ManifestCheck) -> str:
    signature = check.signature
    if check.verdict == VERIFIED:
        return f"verified, by key {signature.keyid}"
    sentences = [finding.sentence for finding in check.findings] or [signature.reason or signature.status]
    return "NOT VERIFIED: " + "; ".join(sentences)
