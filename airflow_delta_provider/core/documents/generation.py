"""Generation headers, entry lines and pack index rows: the retained row digests of a sweep (docs/format.md, S11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents.manifest import SWEEP_SOURCE
from airflow_delta_provider.core.documents.shape import Document, Shape
from airflow_delta_provider.core.errors import (
    DenominatorError,
    GenerationChainError,
    GenerationContractError,
    PackIndexError,
    PackLimitError,
)
from airflow_delta_provider.core.ids import is_hmac_key_id

FORMAT = "delta-generation/1"
DISPOSITIONS: Final = ("absent", "failed", "present", "skipped")
SWEEP_COUNTS: Final = (
    "absent",
    "changed",
    "duplicate_key",
    "failed",
    "new",
    "null_key",
    "read",
    "skipped",
    "unchanged",
)
MEMBERS: Final = (
    "body",
    "contract",
    "dispositions",
    "format",
    "generation",
    "hmac_key",
    "key",
    "key_range",
    "manifest",
    "pair",
    "predecessor",
    "schema",
    "sweep",
)
FILTERED = "DELTA_ROW_FILTERED"
DUPLICATE = "DELTA_KEY_DUPLICATE"
PACK_ENTRIES_MAX = 16384
PACK_BYTES_MAX = 8 * 2**20

_FAILED = re.compile(r"DELTA_VALUE_[A-Z_]+")
_SHAPE = Shape("generation header", GenerationContractError)
_ENTRY = Shape("generation entry", GenerationContractError)
_INDEX = Shape("pack index", PackIndexError)


def build_generation(members: Document) -> bytes:
    """Return a generation header from its members (``format`` is added).

    Raises: GenerationContractError or DenominatorError where the result would not be valid.
    """
    data = jsonc.dumps({**members, "format": FORMAT})
    check_sweep_sums(parse_generation(data))
    return data


def parse_generation(data: bytes) -> Document:
    """Return a generation header, checked by itself; its sums are `check_sweep_sums`'s.

    Raises: GenerationContractError (DELTA_GENERATION_CONTRACT), GenerationChainError where number and predecessor
    do not go together, FormatError, RangeError and the errors of canonical JSON.
    """
    document = _SHAPE.parse(data, FORMAT, MEMBERS)
    _SHAPE.block(document["body"], "body")
    _SHAPE.reference(document["contract"], "contract")
    _SHAPE.reference(document["schema"], "schema")
    for member, names in (("dispositions", DISPOSITIONS), ("sweep", SWEEP_COUNTS)):
        for name, count in _SHAPE.members(document[member], member, names).items():
            _SHAPE.count(count, f"{member}.{name}")
    _SHAPE.count(document["generation"], "generation")
    if document["hmac_key"] is not None and not is_hmac_key_id(document["hmac_key"]):
        raise _SHAPE.refuse("hmac_key", "is no key id")
    _SHAPE.key(document["key"], "key")
    _SHAPE.key_range(document["key_range"], "key_range")
    _SHAPE.digest(document["manifest"], "manifest")
    if _SHAPE.pair(document["pair"], "pair")["source"] != SWEEP_SOURCE:
        raise _SHAPE.refuse("pair.source", f"is not {SWEEP_SOURCE}")
    if document["predecessor"] is not None:
        _SHAPE.digest(document["predecessor"], "predecessor")
    if (document["generation"] == 0) != (document["predecessor"] is None):
        raise GenerationChainError(
            f"Generation {document['generation']} has {'no' if document['predecessor'] is None else 'a'} predecessor.",
            where="predecessor",
        )
    return document


def check_sweep_sums(document: Document) -> None:
    """Check the sums of a generation header.

    Raises: DenominatorError (DELTA_DENOMINATOR).
    """
    sweep, dispositions = document["sweep"], document["dispositions"]
    landed = sum(count for name, count in sweep.items() if name not in ("absent", "read"))
    present = sweep["new"] + sweep["changed"] + sweep["unchanged"]
    sums = (
        ("read", sweep["read"], landed),
        ("present", dispositions["present"], present),
        ("failed", dispositions["failed"], sweep["failed"]),
        ("records", document["body"]["records"], sum(dispositions.values())),
    )
    for name, stated, counted in sums:
        if stated != counted:
            raise DenominatorError(f"generation: {name} is {stated}, its parts add up to {counted}.", where=name)
    if dispositions["skipped"] < sweep["skipped"]:
        raise DenominatorError("generation: more rows were skipped than entries are.", where="skipped")


def entry_line(
    disposition: str, head: tuple[int, str | None, str | None], key: bytes, reason: str | None, sort_key: bytes
) -> bytes:
    """Return one canonical entry line without LF; ``head`` is (version, row_digest, previous), ``key`` canonical JSON."""
    version, row_digest, previous = head
    return (
        b'{"disposition":"%b","head":{"previous":%b,"row_digest":%b,"version":%d},"key":%b,"reason":%b,"sort_key":"%b"}'
        % (
            disposition.encode(),
            _quoted(previous),
            _quoted(row_digest),
            version,
            key,
            _quoted(reason),
            sort_key.hex().encode(),
        )
    )


def first_line(row_digest: str, key: bytes, sort_key: bytes) -> bytes:
    """Return the entry line, without LF, of a key whose row was seen for the first time."""
    return (
        b'{"disposition":"present","head":{"previous":null,"row_digest":"%b","version":1},'
        b'"key":%b,"reason":null,"sort_key":"%b"}' % (row_digest.encode(), key, sort_key.hex().encode())
    )


def _quoted(text: str | None) -> bytes:
    return b"null" if text is None else b'"%b"' % text.encode()


def check_entry(value: object, place: str = "entry") -> dict[str, Any]:
    """Return one parsed entry line, checked by itself.

    Raises: GenerationContractError (DELTA_GENERATION_CONTRACT).
    """
    entry = _ENTRY.members(value, place, ("disposition", "head", "key", "reason", "sort_key"))
    disposition = _ENTRY.choice(entry["disposition"], f"{place}.disposition", DISPOSITIONS)
    _ENTRY.items(entry["key"], f"{place}.key")
    _ENTRY.hex(entry["sort_key"], f"{place}.sort_key")
    _check_head(entry["head"], f"{place}.head")
    reason, good = entry["reason"], entry["reason"] is None
    if disposition == "skipped":
        good = reason in (FILTERED, DUPLICATE)
    elif disposition == "failed":
        good = isinstance(reason, str) and _FAILED.fullmatch(reason) is not None
    if not good:
        raise _ENTRY.refuse(f"{place}.reason", f"does not go with {disposition}")
    if disposition == "present" and entry["head"]["version"] == 0:
        raise _ENTRY.refuse(f"{place}.head", "of a key that is present has no row digest")
    return entry


def _check_head(value: object, place: str) -> None:
    head = _ENTRY.members(value, place, ("previous", "row_digest", "version"))
    version = _ENTRY.count(head["version"], f"{place}.version")
    for member, first in (("row_digest", 1), ("previous", 2)):
        if version < first and head[member] is not None:
            raise _ENTRY.refuse(f"{place}.{member}", f"stands at version {version}")
        if version >= first:
            _ENTRY.digest(head[member], f"{place}.{member}")
    if version >= 2 and head["previous"] == head["row_digest"]:
        raise _ENTRY.refuse(f"{place}.previous", "is the digest itself")


def pack_row(row: Mapping[str, Any]) -> bytes:
    """Return one line of a pack index without LF."""
    return jsonc.dumps(dict(row))


def check_pack_row(value: object, place: str) -> dict[str, Any]:
    """Return one parsed row of a pack index, checked by itself.

    Raises: PackIndexError (DELTA_PACK_INDEX); PackLimitError (DELTA_PACK_LIMIT) beyond the size of a pack.
    """
    row = _INDEX.members(value, place, ("bytes", "first", "nodes", "records", "sha256"))
    for member in ("bytes", "records"):
        _INDEX.count(row[member], f"{place}.{member}")
    _INDEX.hex(row["first"], f"{place}.first")
    _INDEX.digest(row["sha256"], f"{place}.sha256")
    for index, node in enumerate(_INDEX.items(row["nodes"], f"{place}.nodes")):
        _INDEX.digest(node, f"{place}.nodes[{index}]")
    if not 1 <= row["records"] <= PACK_ENTRIES_MAX or row["bytes"] > PACK_BYTES_MAX:
        raise PackLimitError(f"{place} has {row['records']} entries in {row['bytes']} bytes.", where=place)
    return row
