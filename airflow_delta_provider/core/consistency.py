"""Consistency bundles: two anchors of one log and the hashes that prove that the newer extends the older, in one file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.anchor import (
    ANCHOR_TYPE,
    Anchor,
    check_consistency,
    consistency_proof,
    parse_anchor,
    verify_anchor,
)
from airflow_delta_provider.core.errors import DeltaError, EnvelopeError, ProofError, SignatureUntrustedError
from airflow_delta_provider.core.findings import Finding, Findings, Stage
from airflow_delta_provider.core.log import Entry
from airflow_delta_provider.core.signing.dsse import parse_envelope
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.trust import Trust

FORMAT = "delta-consistency/1"
NODES_MAX = 128
_MEMBERS = ["format", "newer", "nodes", "older", "pair"]
_NODE = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class ConsistencyCheck:
    """What such a bundle proves. Shape: the anchors are None where they cannot be read; with a finding nothing is proved."""

    pair_id: str = ""
    older: Anchor | None = None
    newer: Anchor | None = None
    untrusted: str = ""
    findings: list[Finding] = field(default_factory=list)


def is_consistency_bundle(data: bytes) -> bool:
    """Tell whether a file says that it is such a bundle; it is the first member of the canonical text."""
    return data.startswith(b'{"format":"%b"' % FORMAT.encode())


def consistency_bundle(pair_id: str, entries: Sequence[Entry], one: bytes, other: bytes) -> bytes:
    """Return the bundle that proves that of two anchors of one log, given as envelopes, the longer extends the shorter.

    Raises: EnvelopeError (DELTA_ENVELOPE), LogAnchorError (DELTA_LOG_ANCHOR) where the log is not that of both,
    LogConsistencyError (DELTA_LOG_CONSISTENCY) for anchors of two logs.
    """
    older, newer = sorted((one, other), key=lambda data: _anchor_of(data).size)
    nodes = consistency_proof(entries, _anchor_of(older), _anchor_of(newer))
    check_consistency(_anchor_of(older), _anchor_of(newer), nodes)
    return jsonc.dumps(
        {
            "format": FORMAT,
            "newer": newer.decode(),
            "nodes": [node.hex() for node in nodes],
            "older": older.decode(),
            "pair": pair_id,
        }
    )


def check_consistency_bundle(data: bytes, trust: Trust | None) -> ConsistencyCheck:
    """Check a bundle without any log: its form, both signatures where trust is given, and the proof."""
    check, findings = ConsistencyCheck(), Findings(Stage.LOG)
    try:
        document = _document(data)
        check.pair_id = document["pair"]
        envelopes = {name: document[name].encode() for name in ("older", "newer")}
        check.older, check.newer = (_anchor_of(envelope) for envelope in envelopes.values())
        check_consistency(check.older, check.newer, [bytes.fromhex(node) for node in document["nodes"]])
    except DeltaError as error:
        findings.add(error, error.where or "bundle")
        check.findings = findings.listed()
        return check
    for name, envelope in envelopes.items() if trust is not None else ():
        try:
            verify_anchor(envelope, trust or Trust(()), check.pair_id)
        except SignatureUntrustedError as error:
            check.untrusted = f"{name} anchor: {error.message}"
        except DeltaError as error:
            findings.add(error, f"{name} anchor")
    check.findings = findings.listed()
    return check


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = jsonc.loads(data)
    except DeltaError as error:
        raise ProofError(f"The bundle is no canonical JSON: {error.message}") from error
    if not isinstance(document, dict) or sorted(document) != _MEMBERS or document["format"] != FORMAT:
        raise ProofError(f"The bundle is not of format {FORMAT}.")
    nodes = document["nodes"]
    texts = all(isinstance(document[name], str) for name in ("newer", "older", "pair"))
    if not texts or not layout.is_pair_id(document["pair"]) or not isinstance(nodes, list) or len(nodes) > NODES_MAX:
        raise ProofError("The bundle has members of another form.")
    if not all(isinstance(node, str) and _NODE.fullmatch(node) for node in nodes):
        raise ProofError("A node of the bundle is no SHA-256.")
    return document


def _anchor_of(data: bytes) -> Anchor:
    envelope = parse_envelope(data)
    if envelope.payload_type != ANCHOR_TYPE:
        raise EnvelopeError(f"The payload is of type {envelope.payload_type[:128]!r}, not {ANCHOR_TYPE}.")
    return parse_anchor(envelope.payload)
