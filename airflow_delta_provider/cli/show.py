"""``show`` and ``log``: read what was published."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from airflow_delta_provider.cli import output
from airflow_delta_provider.core import documents, jsonc, log
from airflow_delta_provider.core.errors import DeltaError, InputDigestError, InputManifestError, InputPolicyError, shown
from airflow_delta_provider.core.ids import is_digest
from airflow_delta_provider.core.signing.dsse import parse_envelope
from airflow_delta_provider.core.signing.statement import subject_of
from airflow_delta_provider.core.spec import NAME, load_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.published import open_body
from airflow_delta_provider.core.store.store import Store

RECORDS_SHOWN = 20
RUN_FACTS = ("finished_at", "host", "dag_id", "run_id", "task_id")
"""Facts of a sidecar that the log shows."""


def read_manifest(store: Store, digest: str) -> documents.Document:
    """Return a manifest of the store. Raises: InputDigestError, InputManifestError, StoreMissingError."""
    if not is_digest(digest):
        raise InputDigestError(f"{digest[:80]!r} is no digest.", where="DIGEST")
    data = get_blob(store, digest)
    try:
        return documents.parse_manifest(data)
    except DeltaError as error:
        raise InputManifestError(f"{digest} is no manifest: {error.message}", where=digest) from error


def read_records(store: Store, manifest: documents.Document) -> Iterator[dict[str, Any]]:
    """Yield the records of a manifest in body order; none where the contract publishes counts only."""
    if counts_only(store, manifest):
        return
    pair_id = documents.pair_id(**manifest["pair"])
    with open_body(store, log.read_log(store, pair_id), manifest["body"]["sha256"]) as body:
        for line in body:
            yield json.loads(line)


def counts_only(store: Store, manifest: documents.Document) -> bool:
    """Tell whether the contract of a manifest publishes no body."""
    contract = documents.parse_contract(get_blob(store, manifest["contract"]["sha256"]))
    return bool(contract["detail"] == "counts")


def show(arguments: argparse.Namespace) -> int:
    """Print a manifest and records of it."""
    store = open_store(arguments.store)
    manifest = read_manifest(store, arguments.digest)
    records = (
        record
        for record in read_records(store, manifest)
        if (arguments.category is None or record["category"] == arguments.category)
        and (arguments.column is None or arguments.column in (record.get("columns") or ()))
    )
    if arguments.json:
        wanted = records if arguments.records is None else islice(records, arguments.records)
        sys.stdout.write('{"manifest": ' + json.dumps(manifest) + ', "records": [')
        for number, record in enumerate(wanted):
            sys.stdout.write((", " if number else "") + json.dumps(record))
        sys.stdout.write("]}\n")
        return 0
    _print_manifest(arguments.digest, manifest)
    for record in islice(records, RECORDS_SHOWN if arguments.records is None else arguments.records):
        _print_record(record)
    return 0


def _print_manifest(digest: str, manifest: documents.Document) -> None:
    pair, population = manifest["pair"], manifest["population"]
    print(f"manifest {digest}")
    print(output.printable(f"{pair['name']}: {pair['source']} -> {pair['target']}"))
    print(f"rows {population['source']['rows']} -> {population['target']['rows']}, unchanged {population['unchanged']}")
    print(", ".join(f"{name} {part['records']}" for name, part in manifest["categories"].items()))
    if manifest["key_range"] != {"lower": None, "upper": None}:
        print(f"key range {manifest['key_range']['lower'] or ''} .. {manifest['key_range']['upper'] or ''}")


def _print_record(record: dict[str, Any]) -> None:
    key = ", ".join("NULL" if part is None else output.printable(part) for part in record["key"])
    print(f"{record['category']} {key}")
    for name, source, target in zip(
        record.get("columns") or (), record["source_value"] or (), record["target_value"] or (), strict=False
    ):
        shown = [output.printable(json.dumps(value, ensure_ascii=False)) for value in (source, target)]
        print(f"    {output.printable(name)}: {shown[0]} -> {shown[1]}")


def find_pair(store: Store, text: str) -> str:
    """Return the id of the pair that a text means: a pair id, a specification file, or a name that one pair has.

    Raises: InputPolicyError where no pair or more than one fits.
    """
    pairs = log.list_pairs(store)
    if text in pairs:
        return text
    if Path(text).is_file():
        spec = load_spec(text, sweep=False)
        if spec.source is not None:
            return log.pair_id_of(spec.name, spec.source.label, spec.target.label)
    fitting = [pair_id for pair_id, pair in pairs.items() if pair["name"] == text]
    if len(fitting) != 1:
        known = ", ".join(sorted({pair["name"] for pair in pairs.values()})) or "none"
        problem = f"{len(fitting)} pairs have that name" if NAME.fullmatch(text) else "that is no pair"
        raise InputPolicyError(f"{text[:80]!r}: {problem}; the store has {known}.", where="PAIR")
    return fitting[0]


def log_form(store: Store, pair_id: str) -> list[dict[str, Any]]:
    """Return the log of a pair, newest last; a manifest's entry with verdict, counts, the keys its envelopes name, and run.

    The key ids are hints: ``verify`` tells whether a signature holds.
    """
    rows: list[dict[str, Any]] = []
    signers: dict[str | None, list[str]] = {}
    runs: dict[str | None, dict[str, Any]] = {}
    for entry in log.read_log(store, pair_id):
        row: dict[str, Any] = {"seq": entry.seq, "kind": entry.kind, "ref": entry.ref}
        if entry.kind == "envelope":
            row["for"], row["signers"] = _signers(get_blob(store, entry.ref))
            signers.setdefault(row["for"], []).extend(row["signers"])
        elif entry.kind == "sidecar":
            sidecar = jsonc.loads(get_blob(store, entry.ref))
            facts = {**sidecar, **sidecar.get("airflow", {})}
            row["for"], row["run"] = sidecar.get("for"), {name: facts[name] for name in RUN_FACTS if name in facts}
            runs[row["for"]] = row["run"]
        elif entry.kind == "manifest":
            manifest = read_manifest(store, entry.ref)
            row["categories"] = {name: part["records"] for name, part in manifest["categories"].items()}
            row["verdict"] = "equal" if not manifest["body"]["records"] else "different"
            row["signers"] = list(dict.fromkeys(signers.get(entry.ref, ())))
            row["run"] = runs.get(entry.ref)
        rows.append(row)
    return rows


def _signers(data: bytes) -> tuple[str | None, list[str]]:
    """Return the manifest that an envelope is about, and the keys that it names; nothing of it is verified."""
    envelope = parse_envelope(data)
    return subject_of(envelope.payload), [one.keyid for one in envelope.signatures if one.keyid]


def print_log(arguments: argparse.Namespace) -> int:
    """Print the log of a pair."""
    store = open_store(arguments.store)
    pair_id = find_pair(store, arguments.pair)
    rows = log_form(store, pair_id)
    if arguments.json:
        output.print_json({"pair": {"id": pair_id, **log.read_pair(store, pair_id)}, "entries": rows})
        return 0
    for row in rows:
        print(f"{row['seq']:>6} {row['kind']:10} {row['ref']} {_said(row)}".rstrip())
    return 0


def _said(row: dict[str, Any]) -> str:
    words = [row.get("verdict", ""), *(f"{name}={count}" for name, count in row.get("categories", {}).items())]
    words += [f"signer={shown(keyid)[:16]}" for keyid in row.get("signers", ())]
    words += [f"{name}={shown(value)}" for name, value in (row.get("run") or {}).items()]
    return " ".join(word for word in words if word)
