"""DSSE 1.0.2 envelopes: the bytes that are signed, and the JSON that carries them."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core.errors import EnvelopeError, SignSizeError
from airflow_delta_provider.core.signing.keys import Signer

PAE_BYTES_MAX = 4096
ENVELOPE_BYTES_MAX = 64 * 1024
SIGNATURES_MAX = 16
_REQUIRED = ("payload", "payloadType", "signatures")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of an envelope: raw bytes, and the hint (no more) which key made it; empty where there is none."""

    keyid: str
    sig: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope as parsed: nothing in it is checked yet, and nothing in it chooses an algorithm."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    @property
    def data(self) -> bytes:
        """The bytes of the envelope: members sorted, no white space."""
        document = {
            "payload": _base64(self.payload),
            "payloadType": self.payload_type,
            "signatures": [{"keyid": one.keyid, "sig": _base64(one.sig)} for one in self.signatures],
        }
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()

    @property
    def pae(self) -> bytes:
        """The bytes that its signatures are over."""
        return pae(self.payload_type, self.payload)


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding: type and payload, each with its length in bytes before it."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_envelope(payload_type: str, payload: bytes, signers: Sequence[Signer]) -> Envelope:
    """Sign a payload.

    Raises: SignSizeError (DELTA_SIGN_SIZE) where the bytes to sign are more than key services take.
    """
    message = pae(payload_type, payload)
    if len(message) > PAE_BYTES_MAX:
        raise SignSizeError(f"There are {len(message)} bytes to sign, {PAE_BYTES_MAX} are possible.")
    return Envelope(payload_type, payload, tuple(Signature(one.keyid, one.sign(message)) for one in signers))


def parse_envelope(data: bytes) -> Envelope:
    """Read an envelope. As DSSE demands, members that it does not name are ignored and both base64 alphabets read.

    Raises: EnvelopeError (DELTA_ENVELOPE), for repeated members and more than 64 KiB or 16 signatures too.
    """
    if len(data) > ENVELOPE_BYTES_MAX:
        raise EnvelopeError(f"The envelope has {len(data)} bytes, {ENVELOPE_BYTES_MAX} are possible.")
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"The envelope is no JSON: {str(error)[:100]}") from error
    if not isinstance(document, dict) or any(name not in document for name in _REQUIRED):
        raise EnvelopeError("The envelope lacks payload, payloadType or signatures.")
    kind, found = document["payloadType"], document["signatures"]
    if not isinstance(kind, str) or not isinstance(found, list) or not 1 <= len(found) <= SIGNATURES_MAX:
        raise EnvelopeError(f"The envelope has no payloadType, or not 1 to {SIGNATURES_MAX} signatures.")
    return Envelope(_encodable(kind), _bytes(document["payload"]), tuple(_signature(one) for one in found))


def _signature(document: Any) -> Signature:
    if not isinstance(document, dict) or "sig" not in document:
        raise EnvelopeError("A signature of the envelope lacks sig.")
    keyid = document.get("keyid", "")
    if not isinstance(keyid, str):
        raise EnvelopeError("A keyid of the envelope is no text.")
    return Signature(_encodable(keyid), _bytes(document["sig"]))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member comes twice")
    return members


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EnvelopeError("A text of the envelope is not valid Unicode.") from error
    return text


def _bytes(text: Any) -> bytes:
    """Decode standard or URL-safe base64, but neither a mix of both nor anything that does not encode back."""
    if isinstance(text, str):
        for alphabet in (None, b"-_"):
            try:
                found = base64.b64decode(text, altchars=alphabet, validate=True)
            except (binascii.Error, ValueError):
                continue
            if base64.b64encode(found, altchars=alphabet).decode() == text:
                return found
    raise EnvelopeError("The payload or a signature of the envelope is no base64.")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
