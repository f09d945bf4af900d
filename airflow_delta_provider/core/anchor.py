"""Anchors: signed statements of how long a log was and what it held, so that it cannot be cut or forked later."""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.errors import EnvelopeError, LogAnchorError, LogConsistencyError, ProofError
from airflow_delta_provider.core.log import Entry
from airflow_delta_provider.core.signing.dsse import ENVELOPE_BYTES_MAX, parse_envelope, sign_envelope
from airflow_delta_provider.core.signing.keys import Signer
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust, verify_signatures

ANCHOR_TYPE = "application/vnd.delta-anchor"
ORIGIN_BYTES_MAX = 255
_SIZE = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A log head.

    Shape: ``origin`` names the log (no control characters); ``size`` counts entries, at least 1; ``root`` is the
    RFC 6962 root over their bytes, 32 bytes.
    """

    origin: str
    size: int
    root: bytes

    @property
    def payload(self) -> bytes:
        """The bytes that are signed: three lines."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n".encode()


def make_anchor(origin: str, entries: Sequence[Entry]) -> Anchor:
    """Return the anchor over all entries of a log, oldest first.

    Raises: LogAnchorError (DELTA_LOG_ANCHOR) for an empty log, or an origin that is no single line.
    """
    if not entries:
        raise LogAnchorError("An empty log has no head to anchor.")
    return parse_anchor(Anchor(origin, len(entries), merkle.root(leaves_of(entries))).payload)


def leaves_of(entries: Sequence[Entry]) -> list[bytes]:
    """Return the leaf hashes of log entries."""
    return merkle.leaf_hashes(entry.data for entry in entries)


def parse_anchor(payload: bytes) -> Anchor:
    """Read the payload of an anchor.

    Raises: LogAnchorError (DELTA_LOG_ANCHOR) for anything that this package would not have written.
    """
    try:
        origin, size, root, rest = payload.decode().split("\n")
        digest = base64.b64decode(root, validate=True)
    except (ValueError, binascii.Error) as error:
        raise LogAnchorError("An anchor has three lines: origin, size and root.") from error
    named = 0 < len(origin.encode()) <= ORIGIN_BYTES_MAX and origin.isprintable()
    if not named or rest or not _SIZE.fullmatch(size) or len(digest) != merkle.DIGEST_BYTES:
        raise LogAnchorError("An anchor has an origin, a size above 0 and a root of 32 bytes.")
    anchor = Anchor(origin, int(size), digest)
    if anchor.payload != payload or anchor.size > layout.SEQ_MAX:
        raise LogAnchorError("An anchor is not written in its one form.")
    return anchor


def publish_anchor(store: Store, pair_id: str, anchor: Anchor, signer: Signer) -> bytes:
    """Sign an anchor, store it under its size and return its envelope; one that is there already is returned."""
    envelope = sign_envelope(ANCHOR_TYPE, anchor.payload, [signer]).data
    path = layout.anchor_path(pair_id, anchor.size)
    return envelope if store.create(path, envelope) else store.read(path, ENVELOPE_BYTES_MAX)


def verify_anchor(data: bytes, trust: Trust, pair_id: str) -> Anchor:
    """Check the envelope of an anchor by the key that is trusted at its last entry, and return the anchor.

    Raises: EnvelopeError (DELTA_ENVELOPE), LogAnchorError (DELTA_LOG_ANCHOR), SignatureInvalidError
    (DELTA_SIGNATURE_INVALID), SignatureUntrustedError (DELTA_SIGNATURE_UNTRUSTED).
    """
    envelope = parse_envelope(data)
    if envelope.payload_type != ANCHOR_TYPE:
        raise EnvelopeError(f"The payload is of type {envelope.payload_type[:128]!r}, not {ANCHOR_TYPE}.")
    size = parse_anchor(envelope.payload).size  # read for its window alone; the signature covers these same bytes
    verify_signatures(envelope, trust, pair_id, size - 1)
    return parse_anchor(envelope.payload)


def check_log(entries: Sequence[Entry], anchor: Anchor) -> None:
    """Check that a log still holds what an anchor says.

    Raises: LogAnchorError (DELTA_LOG_ANCHOR) for a log that was cut, rolled back or altered since.
    """
    if len(entries) < anchor.size:
        raise LogAnchorError(f"The log has {len(entries)} entries, the anchor saw {anchor.size}.", where=anchor.origin)
    if merkle.root(leaves_of(entries[: anchor.size])) != anchor.root:
        raise LogAnchorError(f"The first {anchor.size} entries are not those of the anchor.", where=anchor.origin)


def consistency_proof(entries: Sequence[Entry], older: Anchor, newer: Anchor) -> list[bytes]:
    """Return the hashes that prove, without the log, that ``newer`` extends ``older``.

    Raises: LogAnchorError (DELTA_LOG_ANCHOR) where the log is not that of both.
    """
    for anchor in (older, newer):
        check_log(entries, anchor)
    return merkle.consistency_path(leaves_of(entries[: newer.size]), older.size)


def check_consistency(older: Anchor, newer: Anchor, proof: Sequence[bytes]) -> None:
    """Check such a proof.

    Raises: LogConsistencyError (DELTA_LOG_CONSISTENCY) for a log that was forked, and for anchors of two logs.
    """
    if older.origin != newer.origin:
        raise LogConsistencyError(f"Anchors of {older.origin} and {newer.origin} are not of one log.")
    try:
        merkle.verify_consistency(older.size, newer.size, older.root, newer.root, list(proof))
    except ProofError as error:
        raise LogConsistencyError(
            f"{newer.origin} with {newer.size} entries does not extend itself with {older.size}.", where=newer.origin
        ) from error
