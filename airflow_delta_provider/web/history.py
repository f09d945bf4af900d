"""One key over time: in which manifests of its pair it differed, and its identity over the generations of sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from airflow_delta_provider.core.documents import parse_generation
from airflow_delta_provider.core.documents.generation import PACK_BYTES_MAX
from airflow_delta_provider.core.errors import GenerationContractError, PackDigestError, PackIndexError
from airflow_delta_provider.core.packs import read_entries, read_pack_index
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.layout import is_digest
from airflow_delta_provider.core.store.published import sidecars_of
from airflow_delta_provider.report.material import Material
from airflow_delta_provider.web.opened import Opened, open_manifest
from airflow_delta_provider.web.records import record_at
from airflow_delta_provider.web.scope import Seen

MANIFESTS_MAX = 30
GENERATIONS_MAX = 30
HEADER_BYTES_MAX = 2**20


@dataclass(frozen=True, slots=True)
class Met:
    """A key in one manifest: the category of its record, empty where the manifest has none for it."""

    seen: Seen
    category: str
    number: int | None
    same_key_columns: bool = True

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"category": self.category or None, "manifest": self.seen.manifest, "record": self.number}


def met_in(siblings: Sequence[Seen], opened: Opened, sort_key: bytes) -> list[Met]:
    """Return what the newest manifests of a pair say of a key, oldest first; those of another key or without records not."""
    found = []
    for seen in siblings[-MANIFESTS_MAX:]:
        other = opened if seen.manifest == opened.seen.manifest else open_manifest(seen)
        same = other.material.manifest["key"] == opened.material.manifest["key"]
        if other.material.no_body or not same:
            continue
        number, _ = other.place_of(sort_key)
        record = record_at(other, number) if number < other.records else None
        there = record is not None and record["sort_key"] == sort_key.hex()
        found.append(Met(seen, record["category"], number) if record is not None and there else Met(seen, "", None))
    return found


def generations_of(material: Material, sort_key: bytes) -> list[dict[str, Any]]:
    """Return the entry of a key in each of the newest generations of its pair, oldest first.

    Shape: ``generation``, ``disposition``, ``version``, ``row_digest``, ``previous``, ``reason``; a generation in which the
    key was not known yet has ``disposition`` null.
    """
    found = [_entry(material, digest, sort_key) for digest in _newest(material)]
    return list(reversed(found))


def _newest(material: Material) -> Iterator[str]:
    entries = [entry for entry in material.entries if entry.kind == "generation"]
    for entry in reversed(entries[-GENERATIONS_MAX:]):
        yield entry.ref


def _entry(material: Material, digest: str, sort_key: bytes) -> dict[str, Any]:
    header = parse_generation(get_blob(material.store, digest, HEADER_BYTES_MAX, GenerationContractError))
    told: dict[str, Any] = {"generation": header["generation"], "disposition": None}
    index = _pack_index(material, header["manifest"])
    rows = read_pack_index(index, header["body"])

    def read(pack: str) -> bytes:
        return get_blob(material.store, pack, PACK_BYTES_MAX, PackDigestError)

    for entry in read_entries(rows, read, (sort_key, sort_key + b"\x00")):
        if entry.sort_key == sort_key:
            form = orjson.loads(entry.line)
            told |= {"disposition": form["disposition"], "reason": form["reason"], **form["head"]}
    return told


def _pack_index(material: Material, manifest_id: str) -> bytes:
    for _, sidecar in sidecars_of(material.store, material.entries, manifest_id):
        if is_digest(sidecar.get("pack_index")):
            return get_blob(material.store, sidecar["pack_index"])
    raise PackIndexError("No sidecar names the pack index of a generation.", where="pack index")
