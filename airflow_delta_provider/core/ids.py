"""Identities and keyed digests: hashes over length-prefixed parts (docs/format.md, S4, S5 and S10)."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from airflow_delta_provider.core.errors import HmacKeyError, InputDigestError, PatchRuleError

CATEGORIES: Final = ("added", "dropped", "value_diverged")
"""Categories of a discrepancy, told from the target, in the order of the manifest."""

PATCH_RULES: Final = ("source_authoritative", "last_writer_wins", "flag_for_review")
SIDES: Final = ("source", "target")

_DIGEST = re.compile(r"[0-9a-f]{64}")
_HMAC_KEY_ID = re.compile(r"[a-z0-9._-]{1,64}")


def lp(part: bytes | str) -> bytes:
    """Return 4 bytes of big-endian length and the part; a text enters as UTF-8."""
    data = part.encode() if isinstance(part, str) else part
    return len(data).to_bytes(4, "big") + data


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of some bytes, 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: object) -> bool:
    """Tell whether a value is the text of a SHA-256: 64 lower-case hex digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def digest_bytes(digest_hex: str) -> bytes:
    """Return the 32 bytes of a digest.

    Raises: InputDigestError (DELTA_INPUT_DIGEST) unless it is 64 lower-case hex digits.
    """
    if not is_digest(digest_hex):
        raise InputDigestError(f"{digest_hex!r:.80} is not 64 lower-case hex digits.")
    return bytes.fromhex(digest_hex)


def is_hmac_key_id(text: object) -> bool:
    """Tell whether a value may name an HMAC key: 1 to 64 of ``a-z 0-9 . _ -``."""
    return isinstance(text, str) and _HMAC_KEY_ID.fullmatch(text) is not None


def record_id(schema_version: str, category: str, sort_key: bytes) -> str:
    """Return the id of a record; free of values, so a recurring difference keeps it."""
    return record_ids(schema_version, category)(sort_key)


def record_ids(schema_version: str, category: str) -> Callable[[bytes], str]:
    """Return a function from key bytes to the record id, for many records of one category."""
    head = hashlib.sha256(b"delta-id/v1\x00" + lp(schema_version) + lp(category))

    def of(sort_key: bytes) -> str:
        whole = head.copy()
        whole.update(len(sort_key).to_bytes(4, "big") + sort_key)
        return whole.hexdigest()

    return of


def row_digest(schema_version: str, sort_key: bytes, row_json: bytes) -> str:
    """Return the digest of a row: ``row_json`` is the canonical array of its non-key values in recorded form."""
    return row_digests(schema_version)(sort_key, row_json)


def row_digests(schema_version: str) -> Callable[[bytes, bytes], str]:
    """Return a function from key bytes and canonical row to the row digest, for many rows of one schema."""
    head = hashlib.sha256(b"delta-row/v1\x00" + lp(schema_version))

    def of(sort_key: bytes, row_json: bytes) -> str:
        whole = head.copy()
        whole.update(
            len(sort_key).to_bytes(4, "big") + sort_key + len(row_json).to_bytes(4, "big") + row_json,
        )
        return whole.hexdigest()

    return of


def hmac_value(key: bytes, column: str, value_json: bytes) -> str:
    """Return the keyed digest of one value: ``value_json`` is its canonical JSON, NULL and long values included."""
    return hmac_values(key, column)(value_json)


def hmac_values(key: bytes, column: str) -> Callable[[bytes], str]:
    """Return a function from canonical JSON to the keyed digest, for many values of one column.

    Raises: HmacKeyError (DELTA_HMAC_KEY) for an empty key.
    """
    if not key:
        raise HmacKeyError("The HMAC key is empty.")
    head = hmac.new(key, b"delta-value/v1\x00" + lp(column), hashlib.sha256)

    def of(value_json: bytes) -> str:
        whole = head.copy()
        whole.update(len(value_json).to_bytes(4, "big") + value_json)
        return whole.hexdigest()

    return of


def hmac_form(digest_hex: str, key_id: str) -> bytes:
    """Return the canonical JSON of a value that is recorded as a keyed digest."""
    return b'{"hmac":"%b","key":"%b"}' % (digest_hex.encode(), key_id.encode())


def patch_id(manifest: str, rule: str, column: str | None, side: str) -> str:
    """Return the id of a patch.

    Raises: PatchRuleError (DELTA_PATCH_RULE) for a combination that is not defined;
    InputDigestError (DELTA_INPUT_DIGEST) unless ``manifest`` is a manifest id.
    """
    check_patch_rule(rule, column, side)
    parts = lp(digest_bytes(manifest)) + lp(rule) + lp(column or "") + lp(side)
    return sha256_hex(b"delta-patch/v1\x00" + parts)


def check_patch_rule(rule: str, column: str | None, side: str) -> None:
    """Refuse a combination of conflict rule, column and side that is not defined.

    Raises: PatchRuleError (DELTA_PATCH_RULE).
    """
    if rule not in PATCH_RULES or side not in SIDES:
        raise PatchRuleError(f"Rule {rule!r:.80} on side {side!r:.80} is not defined.")
    if rule == "source_authoritative" and side != "target":
        raise PatchRuleError("source_authoritative writes to the target only.")
    if (rule == "last_writer_wins") != bool(column):
        raise PatchRuleError(f"{rule} with column {column!r:.80} is not defined.")


def rollback_id(patch: str, ledger: str) -> str:
    """Return the id of the rollback of a patch: ``patch`` is the patch id, ``ledger`` the SHA of its ledger header."""
    return sha256_hex(b"delta-rollback/v1\x00" + lp(digest_bytes(patch)) + lp(digest_bytes(ledger)))
