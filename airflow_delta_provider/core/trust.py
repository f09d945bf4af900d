"""The trust document: which keys, under which algorithm, vouch for which pairs in which part of the log."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import (
    DeltaError,
    EnvelopeError,
    SignatureInvalidError,
    SignatureUntrustedError,
    SignKeyError,
    TrustError,
)
from airflow_delta_provider.core.signing import keys
from airflow_delta_provider.core.signing.dsse import Envelope, parse_envelope
from airflow_delta_provider.core.signing.statement import PAYLOAD_TYPE, check_statement
from airflow_delta_provider.core.store import layout

TRUST_FORMAT = "delta-trust/1"
TRUST_BYTES_MAX = 2**20
KEYS_MAX = 1000
_MEMBERS = ["alg", "from_seq", "keyid", "pairs", "spki_pem", "to_seq"]


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """One key of a trust document.

    Shape: ``spki`` DER, ``spki_pem`` the text it was read from; ``pairs`` sorted pair ids, None for all; valid for what
    the log entries ``from_seq <= seq < to_seq`` made visible, ``to_seq`` None while the window is open.
    """

    alg: str
    from_seq: int
    keyid: str
    pairs: tuple[str, ...] | None
    spki: bytes
    spki_pem: str
    to_seq: int | None

    def allows(self, pair_id: str, seq: int | None) -> bool:
        """Tell whether the key vouches for a pair at a log number; without a number, only an open window counts."""
        if self.pairs is not None and pair_id not in self.pairs:
            return False
        if seq is None:
            return self.to_seq is None
        return self.from_seq <= seq and (self.to_seq is None or seq < self.to_seq)


@dataclass(frozen=True, slots=True)
class Trust:
    """A trust document: its keys, sorted by keyid."""

    keys: tuple[TrustedKey, ...]

    @property
    def data(self) -> bytes:
        """The canonical bytes of the document; their SHA-256 is what a ``trust`` log entry names."""
        listed = [
            {
                "alg": key.alg,
                "from_seq": key.from_seq,
                "keyid": key.keyid,
                "pairs": None if key.pairs is None else list(key.pairs),
                "spki_pem": key.spki_pem,
                "to_seq": key.to_seq,
            }
            for key in self.keys
        ]
        return jsonc.dumps({"format": TRUST_FORMAT, "keys": listed})


EMPTY = Trust(())
"""Trusts nobody yet."""


def with_key(trust: Trust, pem: bytes, *, pairs: Sequence[str] | None = None, from_seq: int = 0) -> Trust:
    """Return the document with one more public key in PEM, valid from a log entry on, for some pairs or (None) for all.

    A rotation adds the new key and ends the old one: what the old one signed before stays verifiable.
    Raises: SignKeyError (DELTA_SIGN_KEY); TrustError (DELTA_TRUST) for a key that is there already, or a pair id or
    window that is none.
    """
    (key,) = trust_key(pem).keys
    if any(one.keyid == key.keyid for one in trust.keys):
        raise TrustError(f"Key {key.keyid} is in the document already.", where=key.keyid)
    added = replace(key, pairs=None if pairs is None else tuple(sorted(set(pairs))), from_seq=from_seq)
    return parse_trust(Trust(tuple(sorted((*trust.keys, added), key=lambda one: one.keyid))).data)


def with_key_until(trust: Trust, keyid: str, to_seq: int) -> Trust:
    """Return the document in which a key ends before log entry ``to_seq``: a rotation, or a revocation in hindsight.

    Raises: TrustError (DELTA_TRUST) where the document has no such key, the window would be empty, or it would grow.
    """
    if not any(key.keyid == keyid for key in trust.keys):
        raise TrustError(f"The document has no key {keyid[:64]!r}.", where=keyid[:64])
    if any(key.keyid == keyid and key.to_seq is not None and key.to_seq < to_seq for key in trust.keys):
        raise TrustError(f"Key {keyid} has ended before entry {to_seq} already.", where=keyid)
    ended = (replace(key, to_seq=to_seq) if key.keyid == keyid else key for key in trust.keys)
    return parse_trust(Trust(tuple(ended)).data)


def parse_trust(data: bytes) -> Trust:
    """Read a trust document.

    Raises: TrustError (DELTA_TRUST) for text that is not canonical, other members, an unknown algorithm, a keyid
    that is not the key's, keys out of order, or an empty window.
    """
    if len(data) > TRUST_BYTES_MAX:
        raise TrustError(f"The trust document has {len(data)} bytes, {TRUST_BYTES_MAX} are possible.")
    try:
        document = jsonc.loads(data)
    except DeltaError as error:
        raise TrustError(f"The trust document is not canonical JSON: {error.message}") from error
    if not isinstance(document, dict) or sorted(document) != ["format", "keys"]:
        raise TrustError("The trust document has other members than format and keys.")
    listed = document["keys"]
    if document["format"] != TRUST_FORMAT or not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise TrustError(f"The trust document is not of format {TRUST_FORMAT}, or lists over {KEYS_MAX} keys.")
    trusted = tuple(_trusted_key(one, place) for place, one in enumerate(listed))
    if any(later.keyid < former.keyid for former, later in pairwise(trusted)):
        raise TrustError("The keys of the trust document are not sorted by keyid.")
    return Trust(trusted)


def trust_key(pem: bytes) -> Trust:
    """Return the trust document that one public key in PEM stands for: all pairs, the whole log.

    Raises: SignKeyError (DELTA_SIGN_KEY).
    """
    spki = keys.spki_of_pem(pem)
    return Trust(
        (TrustedKey(keys.algorithm_of(spki), 0, keys.keyid_of(spki), None, spki, keys.pem_of_spki(spki), None),)
    )


def verify_manifest_envelope(data: bytes, manifest: bytes, trust: Trust, pair_id: str, seq: int | None) -> str:
    """Check an envelope over a manifest and return the keyid of the key that vouches for it.

    ``seq`` is the number of the log entry that made the envelope visible, None where there is no log at hand.
    Raises: EnvelopeError (DELTA_ENVELOPE), SignatureUntrustedError (DELTA_SIGNATURE_UNTRUSTED),
    SignatureInvalidError (DELTA_SIGNATURE_INVALID), StatementMismatchError (DELTA_STATEMENT_MISMATCH).
    """
    envelope = parse_envelope(data)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise EnvelopeError(f"The payload is of type {envelope.payload_type[:128]!r}, not {PAYLOAD_TYPE}.")
    keyid = verify_signatures(envelope, trust, pair_id, seq)
    check_statement(envelope.payload, manifest)
    return keyid


def verify_signatures(envelope: Envelope, trust: Trust, pair_id: str, seq: int | None) -> str:
    """Return the keyid of the first trusted key that signed this envelope; its payload is not looked at.

    Every trusted key is tried: the keyid of a signature is a hint, and only decides which error is raised.
    Raises: SignatureInvalidError (DELTA_SIGNATURE_INVALID) where a signature says it is by a trusted key, but is
    not; SignatureUntrustedError (DELTA_SIGNATURE_UNTRUSTED) where no trusted key signed.
    """
    message = envelope.pae
    outside: list[str] = []
    for key in trust.keys:
        for signature in envelope.signatures:
            if keys.verify(key.alg, key.spki, message, signature.sig):
                if key.allows(pair_id, seq):
                    return key.keyid
                outside.append(key.keyid)
    named = {signature.keyid for signature in envelope.signatures}
    if outside:
        place = "without a log entry" if seq is None else f"at log entry {seq}"
        raise SignatureUntrustedError(
            f"Key {outside[0]} signed, but is not trusted for pair {pair_id} {place}.", where=outside[0]
        )
    if claimed := sorted(named & {key.keyid for key in trust.keys}):
        raise SignatureInvalidError(f"The signature that names key {claimed[0]} is not by it.", where=claimed[0])
    raise SignatureUntrustedError(f"No trusted key signed; the envelope names {_listed(named)}.")


def _trusted_key(document: Any, place: int) -> TrustedKey:
    where = f"keys[{place}]"
    if not isinstance(document, dict) or sorted(document) != _MEMBERS:
        raise TrustError(f"{where} has other members than {', '.join(_MEMBERS)}.", where=where)
    pem = document["spki_pem"]
    try:
        spki = keys.spki_of_pem(pem.encode()) if isinstance(pem, str) else b""
        alg = keys.algorithm_of(spki)
    except SignKeyError as error:
        raise TrustError(f"{where}.spki_pem: {error.message}", where=where) from error
    if document["alg"] != alg:
        raise TrustError(f"{where}.alg is {document['alg']!r}, but the key is one for {alg}.", where=where)
    if document["keyid"] != hashlib.sha256(spki).hexdigest():
        raise TrustError(f"{where}.keyid is not the SHA-256 of the key.", where=where)
    lower, upper = document["from_seq"], document["to_seq"]
    if not _is_seq(lower) or not (upper is None or (_is_seq(upper) and lower < upper)):
        raise TrustError(f"{where}: from_seq and to_seq are no window of the log.", where=where)
    return TrustedKey(alg, lower, document["keyid"], _pairs(document["pairs"], where), spki, pem, upper)


def _pairs(found: Any, where: str) -> tuple[str, ...] | None:
    if found is None:
        return None
    if not isinstance(found, list) or not all(layout.is_pair_id(one) for one in found):
        raise TrustError(f"{where}.pairs is no list of pair ids.", where=where)
    if any(later <= former for former, later in pairwise(found)):
        raise TrustError(f"{where}.pairs is not sorted, or names a pair twice.", where=where)
    return tuple(found)


def _is_seq(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= layout.SEQ_MAX


def _listed(named: set[str]) -> str:
    shown = sorted(name[:64] for name in named if name)[:3]
    return ", ".join(repr(name) for name in shown) if shown else "no key"
