"""``prove`` and ``check-proof``: one file that proves records of a manifest, and its check without any store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.files import read_input, write_output
from airflow_delta_provider.cli.show import find_pair, read_manifest
from airflow_delta_provider.cli.verify import read_trust
from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.anchor import parse_anchor
from airflow_delta_provider.core.consistency import (
    ConsistencyCheck,
    check_consistency_bundle,
    consistency_bundle,
    is_consistency_bundle,
)
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
from airflow_delta_provider.core.store import layout, open_store
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.published import envelopes_of, open_body
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.verify_log import stored_anchors
from airflow_delta_provider.core.verify_signature import TRUSTED
from airflow_delta_provider.core.verify_store import EXIT_CODES


def prove(arguments: argparse.Namespace) -> int:
    """Write a bundle that proves some records, or all of one category, or that one anchor of a log extends another."""
    if arguments.between is not None:
        return _prove_consistency(arguments)
    if bool(arguments.records) == (arguments.category is not None):
        raise InputPolicyError("Give record ids, or --category, or --between with two anchors.", where="prove")
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
    return _put(arguments, bundle)


def _prove_consistency(arguments: argparse.Namespace) -> int:
    if arguments.records or arguments.category is not None:
        raise InputPolicyError("--between takes a pair and two anchors, and no records.", where="--between")
    store = open_store(arguments.store)
    pair_id = find_pair(store, arguments.digest)
    anchors = [_anchor(store, pair_id, text) for text in arguments.between]
    return _put(arguments, consistency_bundle(pair_id, log.read_log(store, pair_id), *anchors))


def _anchor(store: Store, pair_id: str, text: str) -> bytes:
    """Return an anchor: the one that the store has over so many entries, or a file that somebody kept."""
    if text.isascii() and text.isdigit() and len(text) <= 16:
        return store.read(layout.anchor_path(pair_id, int(text)), ENVELOPE_BYTES_MAX)
    return read_input(text, "anchor", ENVELOPE_BYTES_MAX)


def _put(arguments: argparse.Namespace, bundle: bytes) -> int:
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
    data = read_input(arguments.file, "proof bundle", BUNDLE_BYTES_MAX)
    if is_consistency_bundle(data):
        return _report_consistency(check_consistency_bundle(data, trust), arguments.json)
    check = check_bundle(data, trust)
    untrusted = trust is not None and check.signature.status != TRUSTED
    verdict = "findings" if check.findings else check.signature.status if untrusted else "verified"
    if arguments.json:
        output.print_json(_form(check, verdict))
    else:
        _print(check, verdict)
    return {"findings": 1, "verified": 0}.get(verdict, 4)


def _report_consistency(check: ConsistencyCheck, as_json: bool) -> int:
    verdict = "findings" if check.findings else "untrusted" if check.untrusted else "verified"
    if as_json:
        output.print_json(
            {
                "findings": [finding.document() for finding in check.findings],
                "newer": None if check.newer is None else check.newer.size,
                "older": None if check.older is None else check.older.size,
                "origin": None if check.newer is None else check.newer.origin,
                "pair": check.pair_id,
                "untrusted": check.untrusted,
                "verdict": verdict,
            }
        )
        return EXIT_CODES[verdict]
    for finding in check.findings:
        print(f"[{finding.code}] {finding.place}: {finding.sentence}")
    if check.findings or check.older is None or check.newer is None:
        print("verdict   proves NOTHING")
        return EXIT_CODES[verdict]
    print(f"log       {output.printable(check.newer.origin)}, pair {check.pair_id}")
    print(f"  proves     its {check.newer.size} entries extend the {check.older.size} that the older anchor saw")
    if check.untrusted:
        print(f"  signature  {check.untrusted}")
    print("verdict   proved" if verdict == "verified" else f"verdict   proved, but {verdict}")
    return EXIT_CODES[verdict]


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
