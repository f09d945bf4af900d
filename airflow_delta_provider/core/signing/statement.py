"""The in-toto statement about one manifest: what the signature covers."""

import hashlib
import json
import re
from typing import Any

from airflow_delta_provider.core.errors import EnvelopeError, StatementMismatchError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://delta-manifest.example/v1"
SUBJECT_NAME = "manifest.json"

_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


def statement_bytes(manifest: bytes) -> bytes:
    """Return the statement about a manifest, given in canonical bytes, as it is signed."""
    manifest_id = hashlib.sha256(manifest).hexdigest()
    return b'{"_type":"%b","predicate":%b,"predicateType":"%b","subject":[{"digest":{"sha256":"%b"},"name":"%b"}]}' % (
        STATEMENT_TYPE.encode(),
        manifest,
        PREDICATE_TYPE.encode(),
        manifest_id.encode(),
        SUBJECT_NAME.encode(),
    )


def parse_statement(payload: bytes) -> dict[str, Any]:
    """Read an in-toto statement of version 1, of any predicate.

    Raises: EnvelopeError (DELTA_ENVELOPE) for other types or versions, and for subjects without a digest.
    """
    try:
        document = json.loads(payload.decode("utf-8"), object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"The payload is no JSON: {str(error)[:100]}") from error
    if not isinstance(document, dict) or document.get("_type") != STATEMENT_TYPE:
        raise EnvelopeError(f"The payload is no statement of type {STATEMENT_TYPE}.")
    subjects = document.get("subject")
    if not isinstance(subjects, list) or not subjects or not all(_has_digest(subject) for subject in subjects):
        raise EnvelopeError("The statement has no subject, or one without a digest.")
    if not isinstance(document.get("predicateType"), str) or not document["predicateType"]:
        raise EnvelopeError("The statement has no predicateType.")
    return document


def subject_of(payload: bytes) -> str | None:
    """Return the manifest id that a statement is about, None where it is about something else.

    Raises: EnvelopeError (DELTA_ENVELOPE) where it is no statement.
    """
    subjects = parse_statement(payload)["subject"]
    found = subjects[0]["digest"].get("sha256")
    return found if len(subjects) == 1 and isinstance(found, str) and _HEX.fullmatch(found) else None


def check_statement(payload: bytes, manifest: bytes) -> None:
    """Check that a payload, its signature verified, is the statement about this manifest, to the byte.

    Raises: EnvelopeError (DELTA_ENVELOPE), StatementMismatchError (DELTA_STATEMENT_MISMATCH).
    """
    parse_statement(payload)
    if payload != statement_bytes(manifest):
        manifest_id = hashlib.sha256(manifest).hexdigest()
        raise StatementMismatchError(f"What is signed is not manifest {manifest_id}.", where=manifest_id)


def _has_digest(subject: Any) -> bool:
    digest = subject.get("digest") if isinstance(subject, dict) else None
    return isinstance(digest, dict) and bool(digest) and all(isinstance(value, str) for value in digest.values())


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member comes twice")
    return members
