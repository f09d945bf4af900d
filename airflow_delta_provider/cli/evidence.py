"""``anchor``, ``retire`` and ``trust``: what the keeper of a log does now and then."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import BinaryIO

from airflow_delta_provider.cli import output
from airflow_delta_provider.cli.files import KEY_BYTES_MAX, read_input, read_signer, write_output
from airflow_delta_provider.cli.show import find_pair
from airflow_delta_provider.core import log
from airflow_delta_provider.core.anchor import (
    Anchor,
    check_consistency,
    consistency_proof,
    make_anchor,
    parse_anchor,
    publish_anchor,
    verify_anchor,
)
from airflow_delta_provider.core.errors import EnvelopeError, InputPolicyError
from airflow_delta_provider.core.retire import retire_body
from airflow_delta_provider.core.signing.dsse import ENVELOPE_BYTES_MAX, parse_envelope
from airflow_delta_provider.core.store import blobs, open_store
from airflow_delta_provider.core.trust import (
    EMPTY,
    TRUST_BYTES_MAX,
    Trust,
    parse_trust,
    with_key,
    with_key_until,
)


def anchor(arguments: argparse.Namespace) -> int:
    """Sign how long a log is and what it holds; with ``--since``, prove that it extends an older anchor."""
    store = open_store(arguments.store)
    pair_id = find_pair(store, arguments.pair)
    entries = log.read_log(store, pair_id)
    signer = read_signer(arguments.sign)
    older = _older(arguments, pair_id)
    made = make_anchor(older.origin if older else arguments.origin or pair_id, entries)
    proof: list[str] = []
    if older is not None:
        nodes = consistency_proof(entries, older, made)
        check_consistency(older, made, nodes)
        proof = [node.hex() for node in nodes]
    envelope = publish_anchor(store, pair_id, made, signer)
    if parse_anchor(parse_envelope(envelope).payload) != made:
        raise EnvelopeError(f"An anchor over {made.size} entries is there already, and says something else.")
    if arguments.output is not None:
        write_output(arguments.output, lambda file: _write(file, envelope), overwrite=False)
    form = {
        "consistency": None if older is None else {"from": older.size, "nodes": proof},
        "keyid": signer.keyid,
        "origin": made.origin,
        "pair": pair_id,
        "root": made.root.hex(),
        "size": made.size,
    }
    if arguments.json:
        output.print_json(form)
    else:
        print(f"anchor    {made.origin}: {made.size} entries, root {made.root.hex()}")
        if older is not None:
            print(f"  extends    the anchor over {older.size} entries ({len(proof)} hashes prove it)")
        print(f"  signer     {signer.keyid}")
    return 0


def _older(arguments: argparse.Namespace, pair_id: str) -> Anchor | None:
    """Return the anchor that the keeper has kept, believed by signature where a trust file is given."""
    from airflow_delta_provider.cli.verify import read_trust

    if arguments.since is None:
        return None
    data = read_input(arguments.since, "anchor", ENVELOPE_BYTES_MAX)
    trust = read_trust(arguments.trust)
    return parse_anchor(parse_envelope(data).payload) if trust is None else verify_anchor(data, trust, pair_id)


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def retire(arguments: argparse.Namespace) -> int:
    """Log that the body of a manifest is given up; nothing is removed."""
    store = open_store(arguments.store)
    done = retire_body(store, arguments.digest)
    if arguments.json:
        output.print_json({"body": done.body, "pair": done.pair_id, "path": done.path, "seq": done.seq})
    else:
        print(f"log entry {done.seq} of {done.pair_id} retires body {done.body}")
        print(f"a lifecycle rule may now remove {done.path}")
    return 0


def trust(arguments: argparse.Namespace) -> int:
    """Change a trust document, or log that this version of it holds for a pair."""
    place = Path(arguments.file)
    there = place.exists()
    document = parse_trust(read_input(arguments.file, "trust document", TRUST_BYTES_MAX)) if there else EMPTY
    changed = _changed(document, arguments)
    if changed != document:
        write_output(arguments.file, lambda file: _write(file, changed.data))
    elif not there:
        raise InputPolicyError(f"{place} is not there; --add makes it.", where="--add")
    print(f"trust     {hashlib.sha256(changed.data).hexdigest()}")
    for key in changed.keys:
        window = f"{key.from_seq} to {'now on' if key.to_seq is None else key.to_seq}"
        print(f"  {key.keyid} {key.alg}, {'all pairs' if key.pairs is None else ', '.join(key.pairs)}, log {window}")
    if arguments.log is not None:
        if arguments.store is None:
            raise InputPolicyError("--log names the pair of a store: give --store too.", where="--store")
        store = open_store(arguments.store)
        pair_id = find_pair(store, arguments.log)
        entry = log.append(store, pair_id, "trust", blobs.put_blob(store, changed.data))
        print(f"log entry {entry.seq} of {pair_id} names this version")
    return 0


def _changed(document: Trust, arguments: argparse.Namespace) -> Trust:
    if arguments.add is not None:
        pem = read_input(arguments.add, "key", KEY_BYTES_MAX)
        document = with_key(document, pem, pairs=arguments.pair, from_seq=arguments.from_seq or 0)
    if arguments.revoke is not None:
        if arguments.to_seq is None:
            raise InputPolicyError("--revoke needs --to-seq: the first log entry that the key no longer vouches for.")
        document = with_key_until(document, arguments.revoke, arguments.to_seq)
    return document
