"""``prove`` and ``check-proof``: one file that proves records of a manifest, and its check without any store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.files import read_input, write_output
from airflow_delta_provider.cli.show import read_manifest
from airflow_delta_provider.cli.verify import read_trust
from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.anchor import parse_anchor
from airflow_delta_provider.core.errors import (
    ContractError,
    InputPolicyError,
    ManifestDigestError,
    SchemaError,
)
from airflow_delta_provider.core.log import Entry
from airflow_delta_provider.core.proof import BUNDLE_BYTES_MAX, BundleCheck, Evidence, check_bundle
from airflow_delta_provider.core.proof import prove_category as category_bundle
from airflow_delta_provider.core.proof import prove_records as records_bundle
from airflow_delta_provider.core.signing.dsse import ENVELOPE_BYTES_MAX, parse_envelope
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.published import envelopes_of, open_body
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.verify_log import stored_anchors
from airflow_delta_provider.core.verify_signature import TRUSTED


def prove(arguments: argparse.Namespace) -> int:
    """Write a bundle that proves some records, or all of one category."""
    if bool(arguments.records) == (arguments.category is not None):
        raise InputPolicyError("Give record ids, or --category.", where="prove")
    store = open_store(arguments.store)
    manifest = read_manifest(store, arguments.digest)
    entries = log.read_log(store, documents.pair_id(**manifest["pair"]))
    evidence = gather(store, manifest, arguments.digest, entries)
    if documents.parse_contract(evidence.contract)["detail"] == "counts":
        raise InputPolicyError("The contract publishes counts only: there is no record to prove.", where="detail")
    body = partial(open_body, store, entries, manifest["body"]["sha256"])
    if arguments.category is not None:
        bundle = category_bundle(evidence, body, arguments.category)
    else:
        bundle = records_bundle(evidence, body, arguments.records)
    write_output(arguments.output, partial(_write, bundle))
    if arguments.output not in (None, "-"):
        print(f"{arguments.output}: {len(bundle)} bytes", file=sys.stderr)
    return 0


def _write(bundle: bytes, file: BinaryIO) -> None:
    file.write(bundle)


def gather(store: Store, manifest: documents.Document, manifest_id: str, entries: Sequence[Entry]) -> Evidence:
    """Return what a bundle carries besides records: documents, envelopes and the newest anchor.

    Raises: the code of the document that is missing or damaged; what the store raises.
    """
    anchor = None
    pair_id = documents.pair_id(**manifest["pair"])
    for path, size in sorted(stored_anchors(store, pair_id), key=lambda one: one[1]):
        if size <= len(entries):
            found = store.read(path, ENVELOPE_BYTES_MAX)
            anchor = found if parse_anchor(parse_envelope(found).payload).size == size else anchor
    envelopes = envelopes_of(store, entries, manifest_id)
    return Evidence(
        manifest=get_blob(store, manifest_id, error=ManifestDigestError),
        schema=get_blob(store, manifest["schema"]["sha256"], error=SchemaError),
        contract=get_blob(store, manifest["contract"]["sha256"], error=ContractError),
        envelopes=list(_distinct(envelopes)),
        anchor=anchor,
        entries=entries,
    )


def _distinct(envelopes: Iterator[tuple[Entry, bytes]]) -> Iterator[tuple[Entry, bytes]]:
    seen: set[str] = set()
    for entry, data in envelopes:
        if entry.ref not in seen:
            seen.add(entry.ref)
            yield entry, data


def check_proof(arguments: argparse.Namespace) -> int:
    """Check a bundle. Exit: 0 proved, 1 finding, 3 unreadable, 4 proved, but unsigned or untrusted where trust was given."""
    trust = read_trust(arguments.trust)
    check = check_bundle(read_input(arguments.file, "proof bundle", BUNDLE_BYTES_MAX), trust)
    untrusted = trust is not None and check.signature.status != TRUSTED
    verdict = "findings" if check.findings else check.signature.status if untrusted else "verified"
    if arguments.json:
        output.print_json(_form(check, verdict))
    else:
        _print(check, verdict)
    return {"findings": 1, "verified": 0}.get(verdict, 4)


def _form(check: BundleCheck, verdict: str) -> dict[str, object]:
    return {
        "anchored": check.anchored,
        "category": check.category,
        "findings": [finding.document() for finding in check.findings],
        "manifest": check.manifest_id,
        "pair": None if check.manifest is None else check.manifest["pair"],
        "records": check.records,
        "signature": check.signature.document(),
        "verdict": verdict,
    }


def _print(check: BundleCheck, verdict: str) -> None:
    print(f"manifest  {check.manifest_id}")
    if check.manifest is not None:
        pair = check.manifest["pair"]
        print(f"  pair       {pair['name']}: {pair['source']} -> {pair['target']}")
    signature = check.signature
    print(f"  signature  {signature.keyid or signature.reason or signature.status}")
    for finding in check.findings:
        print(f"[{finding.code}] {finding.place}: {finding.sentence}")
    if check.findings:
        print("verdict   proves NOTHING")
        return
    what = f"all {len(check.records)} {check.category} records" if check.category else f"{len(check.records)} records"
    print(f"  proves     {what} of this manifest")
    for record in check.records[:20]:
        key = ", ".join("NULL" if part is None else str(part) for part in record["key"])
        print(f"    {record['category']} {key}")
    print("verdict   proved" if verdict == "verified" else f"verdict   proved, but {verdict}")
