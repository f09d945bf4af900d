"""What is fuzzed: every parser of bytes that come from a store, a bundle or a person. It takes them, or refuses with a code.

A target returns for input that it takes and raises a ``DeltaError`` for what it refuses; any other exception is a defect.
Where there is one form only, what was taken must also encode back to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_delta_provider.core import consistency, documents, jsonc, keys, log, packs, proof
from airflow_delta_provider.core.anchor import parse_anchor
from airflow_delta_provider.core.errors import DeltaError, ProofError
from airflow_delta_provider.core.pages import read_page_index
from airflow_delta_provider.core.signing import statement
from airflow_delta_provider.core.signing.dsse import parse_envelope
from airflow_delta_provider.core.spec import parse_spec, parse_yaml
from airflow_delta_provider.core.trust import parse_trust
from airflow_delta_provider.core.types import from_schema

Target = Callable[[bytes], object]

_KEY_TYPES = [
    from_schema(name) for name in ("int", "text", "decimal", "timestamp_tz", "bytes", "float64", "uuid", "bool")
]
_PAGES = {"bytes": 4096, "records": 1500, "root": "0" * 64}


def _canonical_json(data: bytes) -> None:
    if jsonc.dumps(jsonc.loads(data)) != data:
        raise AssertionError("what was read as canonical is written otherwise")


def _key(data: bytes) -> None:
    types = _KEY_TYPES[: 1 + (data[0] % len(_KEY_TYPES))] if data else _KEY_TYPES
    if keys.encode_key(keys.decode_key(data[1:], types), types) != data[1:]:
        raise AssertionError("a key decodes to what encodes otherwise")


def _entry(data: bytes) -> None:
    if log.parse_entry(data, 4).data != data:
        raise AssertionError("an entry is written otherwise than it was read")


def _anchor(data: bytes) -> None:
    if parse_anchor(data).payload != data:
        raise AssertionError("an anchor is written otherwise than it was read")


def _trust(data: bytes) -> None:
    if parse_trust(data).data != data:
        raise AssertionError("a trust document is written otherwise than it was read")


def _envelope(data: bytes) -> None:
    statement.subject_of(parse_envelope(data).payload)


def _consistency(data: bytes) -> None:
    if consistency.check_consistency_bundle(data, None).findings:
        raise ProofError("The bundle proves nothing.")


TARGETS: dict[str, Target] = {
    "anchor": _anchor,
    "bundle": proof.check_bundle,
    "consistency": _consistency,
    "contract": documents.parse_contract,
    "entry": _entry,
    "envelope": _envelope,
    "generation": documents.parse_generation,
    "json": _canonical_json,
    "key": _key,
    "manifest": documents.parse_manifest,
    "pack": packs.parse_pack,
    "pages": lambda data: read_page_index(data, _PAGES),
    "schema": documents.parse_schema,
    "spec": lambda data: parse_spec(parse_yaml(data, "spec.yaml")),
    "structure": documents.parse_structure,
    "summary": documents.parse_summary,
    "trust": _trust,
}


def run(name: str, data: bytes) -> bool:
    """Give bytes to a target; tell whether it took them. What is neither taken nor refused comes out as it is."""
    try:
        TARGETS[name](data)
    except DeltaError:
        return False
    return True
