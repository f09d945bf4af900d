"""Verification of the envelopes over a manifest: which key vouches for it, under which trust (docs/format.md, S9 and S12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_delta_provider.core.errors import DeltaError, EnvelopeError, SignatureUntrustedError
from airflow_delta_provider.core.findings import Findings
from airflow_delta_provider.core.signing.dsse import parse_envelope
from airflow_delta_provider.core.signing.statement import PAYLOAD_TYPE, check_statement
from airflow_delta_provider.core.trust import Trust, parse_trust, trust_key, verify_manifest_envelope

TRUSTED = "trusted"
UNTRUSTED = "untrusted"
UNSIGNED = "unsigned"
UNCHECKED = "unchecked"
INVALID = "invalid"
PEM_MARK = b"-----BEGIN PUBLIC KEY-----"


@dataclass(frozen=True, slots=True)
class FoundEnvelope:
    """One envelope whose subject is the manifest. ``seq`` is the number of its log entry, None where none is known."""

    data: bytes
    seq: int | None
    place: str


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """What the envelopes of one manifest are worth.

    Shape: ``status`` is ``trusted`` (``keyid`` vouches for it), ``untrusted`` (signed, but by no key that is trusted
    here), ``unsigned``, ``unchecked`` (no trust was given; the envelopes are about this manifest) or ``invalid``
    (an envelope is damaged, forged or about something else, and none is trusted). ``named`` are the key ids that the
    envelopes name, which are hints only.
    """

    status: str
    keyid: str | None = None
    envelopes: int = 0
    named: tuple[str, ...] = ()
    reason: str = ""

    def document(self) -> dict[str, object]:
        """Return the form that ``--json`` prints."""
        return {
            "envelopes": self.envelopes,
            "keyid": self.keyid,
            "named": list(self.named),
            "reason": self.reason,
            "status": self.status,
        }


def load_trust(data: bytes) -> Trust:
    """Read a trust file: a trust document, or one public key in PEM that is trusted for everything.

    Raises: TrustError (DELTA_TRUST), SignKeyError (DELTA_SIGN_KEY).
    """
    is_pem = PEM_MARK in data and not data.startswith(b"{")
    return trust_key(data) if is_pem else parse_trust(data)


def check_envelopes(
    envelopes: Sequence[FoundEnvelope], manifest: bytes, pair_id: str, trust: Trust | None, findings: Findings
) -> SignatureCheck:
    """Check each envelope over a manifest, given in canonical bytes.

    A signer that is not trusted is no finding (there may be others); a damaged envelope, a signature that is not by the
    trusted key that it names, and a valid one over another statement are.
    """
    if not envelopes:
        return SignatureCheck(UNSIGNED, reason="No envelope is about this manifest.")
    keyid, reason, bad = None, "", False
    named: list[str] = []
    for envelope in envelopes:
        try:
            named += [one.keyid for one in parse_envelope(envelope.data).signatures if one.keyid]
            found = _check(envelope, manifest, pair_id, trust)
            keyid = keyid or found
        except SignatureUntrustedError as error:
            reason = error.message
        except DeltaError as error:
            findings.add(error, envelope.place)
            bad, reason = True, error.message
    names, count = tuple(dict.fromkeys(named)), len(envelopes)
    if keyid is not None:
        return SignatureCheck(TRUSTED, keyid, count, names)
    if bad:
        return SignatureCheck(INVALID, None, count, names, reason)
    if trust is None:
        return SignatureCheck(UNCHECKED, None, count, names, "No trust file was given.")
    return SignatureCheck(UNTRUSTED, None, count, names, reason)


def _check(envelope: FoundEnvelope, manifest: bytes, pair_id: str, trust: Trust | None) -> str | None:
    """Return the key that vouches for a manifest; without trust, check only what the envelope says."""
    if trust is not None:
        return verify_manifest_envelope(envelope.data, manifest, trust, pair_id, envelope.seq)
    found = parse_envelope(envelope.data)
    if found.payload_type != PAYLOAD_TYPE:
        raise EnvelopeError(f"The payload is of type {found.payload_type[:128]!r}, not {PAYLOAD_TYPE}.")
    check_statement(found.payload, manifest)
    return None
