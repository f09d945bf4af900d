"""``verify``: hold what a store published against everything that vouches for it."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence

from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.files import read_input
from airflow_delta_provider.cli.show import find_pair
from airflow_delta_provider.core.audit import ORPHAN_AGE_S, PairCheck, StoreAudit, audit, verify_pair
from airflow_delta_provider.core.errors import InputPolicyError, StoreSchemeError
from airflow_delta_provider.core.findings import Finding
from airflow_delta_provider.core.ids import is_digest
from airflow_delta_provider.core.store import layout, open_store
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import TRUST_BYTES_MAX, Trust
from airflow_delta_provider.core.verify_signature import load_trust
from airflow_delta_provider.core.verify_store import EXIT_CODES, ManifestCheck, verify_published

ANCHOR_BYTES_MAX = 64 * 1024
ORPHANS_SHOWN = 20


def verify(arguments: argparse.Namespace) -> int:
    """Verify a manifest, a pair or a whole store.

    Exit: 0 verified, 1 finding, 2 usage, 3 unreadable, 4 unsigned or untrusted though a trust file was given.
    """
    store, asked = _what(arguments)
    trust = read_trust(arguments.trust)
    workers = arguments.workers or os.cpu_count() or 1
    anchors = [read_input(path, "anchor", ANCHOR_BYTES_MAX) for path in arguments.anchor or ()]
    if asked is None:
        age_s = ORPHAN_AGE_S if arguments.orphan_age is None else 3600 * arguments.orphan_age
        result = audit(store, trust=trust, workers=workers, orphan_age_s=age_s, now=time.time())
        return _report_audit(result, arguments.json)
    if is_digest(asked):
        check, _ = verify_published(store, asked, trust=trust, anchors=anchors, workers=workers, part=arguments.part)
        return _report_manifest(check, arguments.json)
    store.read(layout.FORMAT_PATH, 64)
    pair = verify_pair(store, find_pair(store, asked), trust=trust, anchors=anchors, workers=workers)
    return _report_pair(pair, arguments.json)


def read_trust(path: str | None) -> Trust | None:
    """Return the trust that a file holds, a trust document or one public key in PEM; None where no file was given.

    Raises: InputPathError, TrustError, SignKeyError.
    """
    return None if path is None else load_trust(read_input(path, "trust file", TRUST_BYTES_MAX))


def _what(arguments: argparse.Namespace) -> tuple[Store, str | None]:
    """Return the store, and the digest or pair to verify (None: all of it)."""
    if arguments.audit:
        if arguments.part or (arguments.what is None) == (arguments.store is None):
            raise StoreSchemeError("--audit takes one store and nothing else.", where="--store")
        return open_store(arguments.store or arguments.what), None
    if arguments.part and not is_digest(arguments.what):
        raise InputPolicyError("--part takes the DIGEST of one manifest.", where="--part")
    if arguments.store is None or arguments.what is None:
        raise InputPolicyError("Give DIGEST or PAIR with --store, or --audit with a store.", where="verify")
    return open_store(arguments.store), arguments.what


def _report_manifest(check: ManifestCheck, as_json: bool) -> int:
    if as_json:
        output.print_json(check.document())
    else:
        _print_manifest(check)
        _print_findings(check.findings)
        _print_verdict(check.verdict)
    return EXIT_CODES[check.verdict]


def _report_pair(check: PairCheck, as_json: bool) -> int:
    if as_json:
        output.print_json(check.document())
    else:
        _print_pair(check)
        _print_verdict(check.verdict)
    return EXIT_CODES[check.verdict]


def _report_audit(result: StoreAudit, as_json: bool) -> int:
    if as_json:
        output.print_json(result.document())
        return EXIT_CODES[result.verdict]
    for pair in result.pairs:
        _print_pair(pair)
    _print_findings(result.findings)
    print(f"{len(result.pairs)} pairs, {result.blobs} blobs")
    print(f"{result.unfinished} files of unfinished runs, {result.kept} that finished runs have left below work/")
    age = f"{result.orphan_age_s / 3600:g} hours"
    print(f"{len(result.orphans)} orphans, older than {age}: named by no log, kept as they are")
    if result.young:
        print(f"{result.young} younger blobs that no log names: a run may be about to")
    for digest in result.orphans[:ORPHANS_SHOWN]:
        print(f"  orphan {digest}")
    _print_verdict(result.verdict)
    return EXIT_CODES[result.verdict]


def _print_manifest(check: ManifestCheck) -> None:
    print(f"manifest  {check.manifest_id}")
    if check.manifest is not None:
        pair = check.manifest["pair"]
        print(f"  pair       {pair['name']}: {pair['source']} -> {pair['target']}")
        print(f"  log        {_numbers(check.seqs)}")
        print(f"  signature  {_signature(check)}")
    for note in check.notes:
        print(f"  note       {note}")


def _numbers(seqs: Sequence[int]) -> str:
    return "no entry" if not seqs else "entry " + ", ".join(map(str, seqs))


def _signature(check: ManifestCheck) -> str:
    signature = check.signature
    if signature.keyid:
        return f"by trusted key {signature.keyid}"
    return f"{signature.status}: {signature.reason}" if signature.reason else signature.status


def _print_pair(check: PairCheck) -> None:
    log = check.log
    print(f"pair      {log.pair_id}: {len(log.entries)} log entries, {log.anchors} anchors hold")
    if log.untrusted:
        print(f"  note       {log.untrusted}")
    for manifest in check.manifests:
        _print_manifest(manifest)
    _print_findings(check.findings, (finding for manifest in check.manifests for finding in manifest.findings))


def _print_findings(*groups: Iterable[Finding]) -> None:
    for finding in dict.fromkeys(finding for group in groups for finding in group):
        print(f"[{finding.code}] {finding.place}: {finding.sentence}")


def _print_verdict(verdict: str) -> None:
    words = {"verified": "verified", "findings": "NOT VERIFIED", "part": "verified as a part; none on the whole"}
    print(f"verdict   {words.get(verdict, f'verified, but {verdict}')}")
