"""A list of digests beside the files: lengths, hashes, and the numbers that the format's text prints."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from airflow_delta_provider.core import ids, jsonc, merkle
from airflow_delta_provider.core.body import LineWriter, read_lines
from airflow_delta_provider.core.conformance.cases import Case, Mismatch, demand
from airflow_delta_provider.core.conformance.files import Files
from airflow_delta_provider.core.conformance.signed import public_test_signer
from airflow_delta_provider.core.documents import Document, build_checkpoint, build_ledger, parse_manifest, parse_schema
from airflow_delta_provider.core.signing import dsse, statement

_NODE = re.compile(r"node([0-9])([0-9])")
_PROOF = re.compile(r"proof_of_([0-9]+)")


def stated_cases(files: Files) -> list[Case]:
    """Return a case for each file that a digest list names and is there, and for each number that it states."""
    cases = []
    for name in files.names(".json"):
        document = files.parsed(name)
        if not isinstance(document, dict) or not isinstance(document.get("files"), dict) or "format" in document:
            continue
        folder = name.rpartition("/")[0]
        for path, stated in document["files"].items():
            full = f"{folder}/{path}" if folder else path
            if full in files.contents:
                cases.append(Case(name, path, _file(files, full, stated)))
        info = document.get("info")
        if isinstance(info, dict) and info.get("manifest_id") in files:
            cases += [Case(name, member, check) for member, check in _info(files, info)]
    return cases


def _file(files: Files, name: str, stated: list[Any]) -> Callable[[], None]:
    def check() -> None:
        data = files.contents[name]
        files.used.add(name)
        demand([len(data), ids.sha256_hex(data)], list(stated), "length and digest")

    return check


def _info(files: Files, info: dict[str, Any]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield a check for each number that can be derived from the manifest named in ``info``."""
    manifest_id = info["manifest_id"]
    for member, value in info.items():
        node, proof = _NODE.fullmatch(member), _PROOF.fullmatch(member)
        if member == "leaves":
            yield member, _equals(partial(_subtree, files, manifest_id, None), value)
        elif node:
            first, last = int(node.group(1)), int(node.group(2))
            yield member, _equals(partial(_subtree, files, manifest_id, (first, last)), value)
        elif proof:
            yield member, _equals(partial(_proof, files, manifest_id, int(proof.group(1))), value)
        elif member in ("payload", "pae"):
            yield member, _equals(partial(_signed_bytes, files, manifest_id, member), value)
        elif member in ("keyid", "sig"):
            yield member, _equals(partial(_signature, files, manifest_id, member), value)
        elif member == "patch":
            for rule, stated in value.items():
                yield f"patch {rule}", _patch(files, manifest_id, rule, stated)


def _equals(work: Callable[[], object], stated: object) -> Callable[[], None]:
    return lambda: demand(work(), stated, "it")


def _subtree(files: Files, manifest_id: str, span: tuple[int, int] | None) -> object:
    """Return all leaf hashes, or the hash over the leaves from the first to the last of a span."""
    leaves = _leaves(files, manifest_id)
    return [leaf.hex() for leaf in leaves] if span is None else merkle.root(leaves[span[0] : span[1] + 1]).hex()


def _leaves(files: Files, manifest_id: str) -> list[bytes]:
    digest = parse_manifest(files.read(manifest_id))["body"]["sha256"]
    return [leaf for lines in read_lines(files.open(digest)) for leaf in merkle.leaf_hashes(lines)]


def _proof(files: Files, manifest_id: str, record: int) -> list[str]:
    leaves, manifest = _leaves(files, manifest_id), parse_manifest(files.read(manifest_id))
    path = merkle.inclusion_path(leaves, record)
    tree = bytes.fromhex(manifest["body"]["root"])
    merkle.verify_inclusion(record, len(leaves), leaves[record], path, tree)
    return [node.hex() for node in path]


def _signed_bytes(files: Files, manifest_id: str, what: str) -> int:
    payload = statement.statement_bytes(files.read(manifest_id))
    return len(payload if what == "payload" else dsse.pae(statement.PAYLOAD_TYPE, payload))


def _signature(files: Files, manifest_id: str, what: str) -> str:
    signer = public_test_signer()
    if what == "keyid":
        return signer.keyid
    payload = statement.statement_bytes(files.read(manifest_id))
    return signer.sign(dsse.pae(statement.PAYLOAD_TYPE, payload)).hex()


def _patch(files: Files, manifest_id: str, rule: str, stated: list[str]) -> Callable[[], None]:
    """Check patch id, checkpoint and ledger of a patch of the target, as far as the folder holds what they are made of."""

    def check() -> None:
        manifest = parse_manifest(files.read(manifest_id))
        schema = parse_schema(files.read(manifest["schema"]["sha256"]))
        columns = [name for name, _ in schema["columns"]] if rule == "last_writer_wins" else [None]
        found = [column for column in columns if ids.patch_id(manifest_id, rule, column, "target") == stated[0]]
        if len(found) != 1:
            raise Mismatch("the patch id does not follow from manifest, rule and side")
        body = _target_rows(files, manifest_id)
        if body is None:
            return
        point = build_checkpoint(body, manifest_id, stated[0], (rule, found[0]), manifest["schema"], "target")
        demand(ids.sha256_hex(point), stated[1], "the checkpoint")
        if rule == "flag_for_review":
            demand(_review_ledger(files, manifest_id, manifest, stated), stated[2], "the ledger")

    return check


def _target_rows(files: Files, manifest_id: str) -> Document | None:
    """Return the body block of a checkpoint of the target: it is the same whatever the rule."""
    for name in files.of_format("delta-checkpoint/1"):
        point = files.parsed(name)
        if point.get("manifest") == manifest_id and point.get("side") == "target":
            block: Document = point["body"]
            return block
    return None


def _review_ledger(files: Files, manifest_id: str, manifest: Document, stated: list[str]) -> str:
    """Return the digest of the ledger of a patch that writes nothing."""
    writer = LineWriter(io.BytesIO())
    for lines in read_lines(files.open(manifest["body"]["sha256"])):
        records = [jsonc.loads(line) for line in lines]
        outcome = {"op": "none", "outcome": "skipped", "reason": "DELTA_PATCH_REVIEW"}
        writer.write([jsonc.dumps({**outcome, "id": r["id"], "sort_key": r["sort_key"]}) for r in records])
    block = writer.close().block
    ledger = build_ledger(block, stated[1], manifest_id, {"skipped": block["records"]}, stated[0])
    return ids.sha256_hex(ledger)
