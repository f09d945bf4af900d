"""Generations: headers, packs, indexes and delta bodies, rebuilt from the predecessor and merged from shards."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from airflow_delta_provider.core import ids, jsonc
from airflow_delta_provider.core.body import BodyWriter, read_lines
from airflow_delta_provider.core.conformance.cases import Case, Mismatch, demand, demand_none
from airflow_delta_provider.core.conformance.evidence import tile
from airflow_delta_provider.core.conformance.files import Files
from airflow_delta_provider.core.documents import Document, parse_generation, parse_manifest, range_bytes
from airflow_delta_provider.core.documents.generation import DUPLICATE, FORMAT
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.generation import (
    LEFT_OUT,
    REFUSED,
    REPEATED,
    ROW,
    Change,
    Entry,
    Seen,
    Tally,
    change_lines,
    classify,
)
from airflow_delta_provider.core.generations import (
    SAME_IN_ALL,
    GenerationInput,
    generation_header,
    merge_generations,
)
from airflow_delta_provider.core.packs import PackWriter, read_entries, read_pack_index
from airflow_delta_provider.core.verify_generation import IndexedGeneration, verify_generation


def sweep_cases(files: Files) -> list[Case]:
    """Return the cases of all generations whose packs are in the folder."""
    cases = []
    for name in files.names("generation.json"):
        if name not in files.of_format(FORMAT):
            cases.append(Case(name, "canonical form", _header(files, name)))
    for name in files.of_format(FORMAT):
        cases.append(Case(name, "canonical form", _header(files, name)))
        for index in _indexes(files, name):
            cases.append(Case(index, f"verified as index of {name}", _verified(files, name, index)))
        if _indexes(files, name) and files.parsed(name)["manifest"] in files:
            cases.append(Case(name, "swept again", _swept_again(files, name)))
        shards = _tiling(files, name)
        if shards and files.parsed(name)["manifest"] in files:
            for order in (shards, shards[::-1]):
                cases.append(Case(name, f"merged from {', '.join(order)}", _merged(files, name, order)))
    for name in files.names(".packs.jsonl"):
        if not any(name in _indexes(files, header) for header in files.of_format(FORMAT)):
            cases.append(Case(name, "index of a generation", _orphan))
    return cases


def _orphan() -> None:
    raise Mismatch("it recombines to no generation of the folder")


def _header(files: Files, name: str) -> Callable[[], None]:
    def check() -> None:
        demand(jsonc.dumps(parse_generation(files.contents[name])), files.contents[name], "its canonical form")

    return check


def _indexes(files: Files, name: str) -> list[str]:
    """Return the indexes that recombine to a generation and whose packs are all in the folder."""
    block, found = files.parsed(name).get("body"), []
    for index in files.names(".packs.jsonl"):
        try:
            rows = read_pack_index(files.contents[index], block)
        except (DeltaError, KeyError, TypeError):
            continue
        if all(row.sha256 in files for row in rows):
            found.append(index)
    return found


def _indexed(files: Files, name: str, index: str) -> IndexedGeneration:
    return IndexedGeneration(ids.sha256_hex(files.contents[name]), files.contents[index])


def _before(files: Files, header: Document) -> IndexedGeneration | None:
    """Return the predecessor of a generation. Raises: Mismatch where the folder does not hold it."""
    if header["predecessor"] is None:
        return None
    name = files.name_of(header["predecessor"])
    indexes = _indexes(files, name)
    if not indexes:
        raise Mismatch("the folder does not hold the packs of the predecessor")
    return _indexed(files, name, indexes[0])


def _verified(files: Files, name: str, index: str) -> Callable[[], None]:
    def check() -> None:
        header = parse_generation(files.contents[name])
        manifest = parse_manifest(files.read(header["manifest"]))
        detail = jsonc.loads(files.read(header["contract"]["sha256"]))["detail"]
        found = verify_generation(_indexed(files, name, index), _before(files, header), manifest, files, detail=detail)
        demand_none(found[1])

    return check


def _entries(files: Files, header: Document, index: bytes, bounds: tuple[bytes | None, bytes | None]) -> list[Entry]:
    return list(read_entries(read_pack_index(index, header["body"]), files.read, bounds))


def _swept_again(files: Files, name: str) -> Callable[[], None]:
    """Check that predecessor and rows seen give entries, delta body and header again, to the byte."""

    def check() -> None:
        header = parse_generation(files.contents[name])
        manifest, bounds = parse_manifest(files.read(header["manifest"])), range_bytes(header["key_range"])
        after = _entries(files, header, files.contents[_indexes(files, name)[0]], (None, None))
        predecessor, before = _before(files, header), list[Entry]()
        if predecessor is not None:
            before_header = parse_generation(files.read(predecessor.header_id))
            before = _entries(files, before_header, predecessor.index, bounds)
        records = [jsonc.loads(line) for lines in read_lines(files.open(manifest["body"]["sha256"])) for line in lines]
        seen = _seen(after, records, header)
        keys = {entry.sort_key: entry.key for entry in after}
        tally, writer, changes = Tally(), PackWriter(lambda _: None), list[Change]()
        for step in classify(before, seen, keys.__getitem__, tally):
            writer.add(step.entry.sort_key, step.entry.line)
            if step.change is not None:
                changes.append(step.change)
        tally.add_null_keys(header["sweep"]["null_key"])
        demand(tally.population(), manifest["population"], "the population")
        block = writer.close()
        built = generation_header(manifest, header["manifest"], block, tally, header["generation"], header["hmac_key"])
        demand(built, files.contents[name], "the built header")
        out = io.BytesIO()
        body = BodyWriter(out, bounds)
        ruled = any("target_key" in record for record in records)
        lines = change_lines(manifest["schema"]["version"], changes, ruled)
        body.write(lines, [one.sort_key for one in changes], [one.category for one in changes])
        body.close()
        demand(out.getvalue(), files.read(manifest["body"]["sha256"]), "the built delta body")

    return check


def _seen(after: Sequence[Entry], records: Sequence[dict[str, Any]], header: Document) -> list[Seen]:
    """Return what the sweep saw: rows from the delta body, everything else from the entries."""
    rows = {bytes.fromhex(record["sort_key"]): record for record in records if record["category"] != "dropped"}
    repeated = [entry.sort_key for entry in after if entry.reason == DUPLICATE]
    more = header["sweep"]["duplicate_key"] - len(repeated)
    seen = []
    for entry in after:
        key = entry.sort_key
        if entry.disposition == "present":
            record = rows.get(key, {})
            row = jsonc.dumps(record["target_value"]) if record else b""
            raw = jsonc.dumps(record["target_key"]) if "target_key" in record else None
            seen.append(Seen(key, ROW, entry.row_digest, row, raw_key=raw))
        elif entry.disposition == "failed":
            seen.append(Seen(key, REFUSED, reason=entry.reason))
        elif entry.disposition == "skipped":
            repeats = entry.reason == DUPLICATE
            seen.append(Seen(key, REPEATED if repeats else LEFT_OUT, rows=1 + (more if key in repeated[:1] else 0)))
    return seen


def _tiling(files: Files, whole: str) -> list[str]:
    """Return generations of the same sweep whose narrower ranges tile that of ``whole``; none: empty."""
    document = files.parsed(whole)
    parts: dict[str | None, list[tuple[str | None, str]]] = {}
    for name in files.of_format(FORMAT):
        other = files.parsed(name)
        same = all(other.get(member) == document.get(member) for member in SAME_IN_ALL)
        if same and other["key_range"] != document["key_range"] and _indexes(files, name):
            parts.setdefault(other["key_range"]["lower"], []).append((other["key_range"]["upper"], name))
    return tile(parts, document["key_range"]["lower"], document["key_range"]["upper"])


def _merged(files: Files, whole: str, order: Sequence[str]) -> Callable[[], None]:
    def check() -> None:
        inputs = [
            GenerationInput(files.contents[name], files.contents[_indexes(files, name)[0]], files.read)
            for name in order
        ]
        document = parse_generation(files.contents[whole])
        manifest = parse_manifest(files.read(document["manifest"]))
        merged = merge_generations(inputs, manifest, document["manifest"])
        demand(merged.header, files.contents[whole], "the merged header")
        packs = [row.sha256 for row in merged.rows]
        for index in _indexes(files, whole):
            rows = read_pack_index(files.contents[index], document["body"])
            if [row.sha256 for row in rows] == packs:
                demand(merged.index, files.contents[index], "the merged index")

    return check
