"""Documents, bodies, page indexes, shards, patches, logs and anchors: each rebuilt to the byte from what it is made of."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from airflow_delta_provider.core import anchor as anchors
from airflow_delta_provider.core import ids, jsonc, log, merkle
from airflow_delta_provider.core.body import BodyWriter, read_lines, records_to_lines
from airflow_delta_provider.core.conformance.cases import Case, Mismatch, demand, demand_none
from airflow_delta_provider.core.conformance.files import Files
from airflow_delta_provider.core.conformance.signed import signed_cases
from airflow_delta_provider.core.conformance.stated import stated_cases
from airflow_delta_provider.core.documents import (
    Document,
    check_population,
    parse_checkpoint,
    parse_contract,
    parse_ledger,
    parse_manifest,
    parse_schema,
    parse_structure,
    parse_summary,
    range_bytes,
)
from airflow_delta_provider.core.manifest import Context, MergeInput, build_manifest, merge_manifests
from airflow_delta_provider.core.verify import verify_manifest
from airflow_delta_provider.core.verify_patch import verify_patch

PARSERS: dict[str, Callable[[bytes], Document]] = {
    "delta-schema/1": parse_schema,
    "delta-contract/1": parse_contract,
    "delta-structure/1": parse_structure,
    "delta-summary/1": parse_summary,
    "delta-manifest/1": parse_manifest,
    "delta-checkpoint/1": parse_checkpoint,
    "delta-ledger/1": parse_ledger,
}
TRIES_MAX = 10_000
"""Steps of the search for shards that tile a range."""


def evidence_cases(files: Files) -> list[Case]:
    """Return the cases of everything that a reconciliation leaves behind."""
    cases = [Case(name, "is JSON", _no_json) for name in files.names(".json") if files.parsed(name) is None]
    for form, parse in PARSERS.items():
        documents = sorted({*files.of_format(form), *_named(files, form)})
        cases += [Case(name, "canonical form", _document(files, name, parse)) for name in documents]
    for name in files.of_format("delta-manifest/1"):
        cases += _manifest_cases(files, name)
    cases += [Case(name, "page index", _page_index(files, name)) for name in files.names(".idx")]
    for name in files.of_format("delta-checkpoint/1"):
        cases.append(Case(name, "verified", _patch(files, name, None)))
    for name in files.of_format("delta-ledger/1"):
        cases.append(Case(name, "verified", _patch(files, files.parsed(name).get("checkpoint"), name)))
    for folder, names in _logs(files).items():
        cases += [Case(name, "log entry", _log_entry(files, names, place)) for place, name in enumerate(names)]
        for name in files.names("anchor.txt"):
            if name.rpartition("/")[0] == folder:
                cases.append(Case(name, "anchor", _anchor(files, name, names)))
    return [*cases, *signed_cases(files), *stated_cases(files)]


def _no_json() -> None:
    raise Mismatch("it does not parse")


def _named(files: Files, form: str) -> list[str]:
    """Return the files whose name says that they are documents of a format, whatever they state."""
    ending = f"{form.partition('-')[2].partition('/')[0]}.json"
    return [name for name in files.names(ending) if name.rpartition("/")[2] == ending or name.endswith(f".{ending}")]


def _document(files: Files, name: str, parse: Callable[[bytes], Document]) -> Callable[[], None]:
    def check() -> None:
        document = parse(files.contents[name])
        demand(jsonc.dumps(document), files.contents[name], "its canonical form")

    return check


def _manifest_cases(files: Files, name: str) -> list[Case]:
    cases = [Case(name, "sums", lambda: check_population(parse_manifest(files.contents[name])))]
    document = files.parsed(name)
    try:
        digests = [document[member]["sha256"] for member in ("body", "contract", "schema", "structure", "summary")]
    except (KeyError, TypeError):
        return cases
    companion = f"{name.removesuffix('manifest.json')}body.jsonl"
    if all(digest in files for digest in digests) or companion in files.contents:
        cases.append(Case(name, "verified", _verified(files, name)))
        cases.append(Case(name, "rebuilt from body and documents", _rebuilt(files, name)))
        shards = _tiling(files, name)
        if shards:
            for order in (shards, shards[::-1], [*shards[1:], shards[0]]):
                cases.append(Case(name, f"merged from {', '.join(order)}", _merged(files, name, order)))
    return cases


def _verified(files: Files, name: str) -> Callable[[], None]:
    def check() -> None:
        manifest_id = ids.sha256_hex(files.contents[name])
        demand_none(verify_manifest(manifest_id, files).findings)

    return check


def _rebuilt(files: Files, name: str) -> Callable[[], None]:
    """Check that lines, roots and manifest come out of their parts as they are."""

    def check() -> None:
        manifest = parse_manifest(files.contents[name])
        writer = BodyWriter(io.BytesIO(), range_bytes(manifest["key_range"]))
        for lines in read_lines(files.open(manifest["body"]["sha256"])):
            records = [jsonc.loads(line) for line in lines]
            built = _lines(manifest["schema"]["version"], records)
            demand(built, lines, "a built record")
            sort_keys = [bytes.fromhex(record["sort_key"]) for record in records]
            writer.write(built, sort_keys, [record["category"] for record in records])
        structure = files.read(manifest["structure"]["sha256"])
        context = Context(
            manifest["pair"],
            manifest["key"]["columns"],
            manifest["key"]["types"],
            (manifest["contract"]["sha256"], parse_contract(files.read(manifest["contract"]["sha256"]))["version"]),
            (manifest["schema"]["sha256"], parse_schema(files.read(manifest["schema"]["sha256"]))["version"]),
            (manifest["structure"]["sha256"], len(parse_structure(structure)["findings"])),
        )
        bounds, summary = range_bytes(manifest["key_range"]), manifest["summary"]["sha256"]
        built_manifest = build_manifest(
            context, bounds, writer.close(), manifest["population"], summary, manifest.get("sweep")
        )
        demand(built_manifest, files.contents[name], "the built manifest")

    return check


def _lines(version: str, records: Sequence[dict[str, Any]]) -> list[bytes]:
    ruled = any("source_key" in record for record in records)
    return records_to_lines(
        version,
        [bytes.fromhex(record["sort_key"]) for record in records],
        [record["category"] for record in records],
        [jsonc.dumps(record["key"]) for record in records],
        [jsonc.dumps(record["columns"]) if "columns" in record else None for record in records],
        [jsonc.dumps(record["source_value"]) for record in records],
        [jsonc.dumps(record["target_value"]) for record in records],
        [jsonc.dumps(record["source_key"]) for record in records] if ruled else None,
        [jsonc.dumps(record["target_key"]) for record in records] if ruled else None,
    )


def _tiling(files: Files, whole: str) -> list[str]:
    """Return manifests of the same comparison whose narrower ranges tile that of ``whole``; none: empty."""
    document = files.parsed(whole)
    parts: dict[str | None, list[tuple[str | None, str]]] = {}
    for name in files.of_format("delta-manifest/1"):
        other = files.parsed(name)
        if _kin(document, other) and other["key_range"] != document["key_range"] and _has_body(files, other):
            parts.setdefault(other["key_range"]["lower"], []).append((other["key_range"]["upper"], name))
    return tile(parts, document["key_range"]["lower"], document["key_range"]["upper"])


def tile(parts: dict[str | None, list[tuple[str | None, str]]], lower: str | None, upper: str | None) -> list[str]:
    """Return names of parts, given as lower -> [(upper, name)], that touch from ``lower`` to ``upper``; else empty."""
    stack: list[tuple[str | None, list[str]]] = [(lower, [])]
    for _ in range(TRIES_MAX):
        if not stack:
            return []
        at, names = stack.pop()
        if names and at == upper:
            return names
        if names and at is None:
            continue
        stack += [(end, [*names, name]) for end, name in parts.get(at, []) if name not in names]
    return []


def _kin(one: Document, other: Document) -> bool:
    same = ("contract", "key", "pair", "schema", "structure")
    try:
        predecessors = [manifest["sweep"]["predecessor"] if "sweep" in manifest else False for manifest in (one, other)]
        return all(one[member] == other[member] for member in same) and predecessors[0] == predecessors[1]
    except (KeyError, TypeError):
        return False


def _has_body(files: Files, manifest: Document) -> bool:
    return manifest["body"]["sha256"] in files and manifest["summary"]["sha256"] in files


def _merged(files: Files, whole: str, order: Sequence[str]) -> Callable[[], None]:
    def opener(digest: str) -> Callable[[], io.BytesIO]:
        return lambda: io.BytesIO(files.read(digest))

    def check() -> None:
        inputs = []
        for name in order:
            manifest = files.parsed(name)
            summary = files.read(manifest["summary"]["sha256"])
            inputs.append(MergeInput(files.contents[name], summary, opener(manifest["body"]["sha256"])))
        out = io.BytesIO()
        merged = merge_manifests(inputs, out)
        document = files.parsed(whole)
        demand(merged.manifest, files.contents[whole], "the merged manifest")
        demand(out.getvalue(), files.read(document["body"]["sha256"]), "the merged body")
        demand(merged.summary, files.read(document["summary"]["sha256"]), "the merged summary")

    return check


def _page_index(files: Files, name: str) -> Callable[[], None]:
    """Check that a page index is the one of some body in the folder."""

    def check() -> None:
        for manifest in files.of_format("delta-manifest/1"):
            digest = files.parsed(manifest)["body"]["sha256"]
            if digest in files:
                writer = BodyWriter(io.BytesIO())
                for lines in read_lines(files.open(digest)):
                    writer.write_lines(lines)
                if writer.close().page_index == files.contents[name]:
                    return
        raise Mismatch("no body has this page index")

    return check


def _patch(files: Files, checkpoint: str | None, ledger: str | None) -> Callable[[], None]:
    """Check a checkpoint (a path), or a ledger (a path) with the checkpoint that it names (a digest)."""

    def check() -> None:
        point_id = str(checkpoint) if ledger else ids.sha256_hex(files.contents[str(checkpoint)])
        point = parse_checkpoint(files.read(point_id))
        manifest = parse_manifest(files.read(point["manifest"]))
        schema = parse_schema(files.read(manifest["schema"]["sha256"]))
        ledger_id = ids.sha256_hex(files.contents[ledger]) if ledger else None
        attempts = [None, *_rollbacks(files, point["manifest"])] if point["rule"]["name"] == "rollback" else [None]
        found = [
            verify_patch(point_id, ledger_id, point["manifest"], manifest, schema, files, rollback_of=attempt)
            for attempt in attempts
        ]
        demand_none(min(found, key=len))

    return check


def _rollbacks(files: Files, manifest: str) -> Iterator[tuple[str, str]]:
    for name in files.of_format("delta-ledger/1"):
        ledger = files.parsed(name)
        if ledger.get("manifest") == manifest:
            yield ledger["patch_id"], ids.sha256_hex(files.contents[name])


def _logs(files: Files) -> dict[str, list[str]]:
    """Return the log entries of each folder, in order of their numbers."""
    folders: dict[str, list[str]] = {}
    for name in files.of_format(log.LOG_FORMAT):
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    for names in folders.values():
        names.sort(key=lambda name: json.dumps(files.parsed(name).get("seq")).zfill(20))
    return folders


def _log_entry(files: Files, names: Sequence[str], place: int) -> Callable[[], None]:
    def check() -> None:
        data = files.contents[names[place]]
        first = files.parsed(names[0])["seq"]
        entry = log.parse_entry(data, first + place)
        demand(entry.data, data, "its canonical form")
        if place:
            demand(entry.prev, ids.sha256_hex(files.contents[names[place - 1]]), "prev")

    return check


def _anchor(files: Files, name: str, entries: Sequence[str]) -> Callable[[], None]:
    def check() -> None:
        anchor = anchors.parse_anchor(files.contents[name])
        leaves = merkle.leaf_hashes(files.contents[entry] for entry in entries)
        if files.parsed(entries[0])["seq"] != 0 or anchor.size > len(leaves):
            raise Mismatch("the folder does not hold the log from its start to this size")
        demand(merkle.root(leaves[: anchor.size]).hex(), anchor.root.hex(), "the root")

    return check
