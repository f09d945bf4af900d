"""Manifests from what is known of a body, and the merge of sub-manifests into one (docs/format.md, S7 and S8)."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.body import BodyFacts, BodyWriter, check_inside, key_and_category, read_lines
from airflow_delta_provider.core.documents import (
    Document,
    add_summaries,
    check_population,
    parse_manifest,
    parse_summary,
    range_bytes,
)
from airflow_delta_provider.core.documents.manifest import FORMAT
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    CountError,
    MergeContextError,
    MergeGapError,
    MergeOverlapError,
    SummaryError,
)
from airflow_delta_provider.core.ids import CATEGORIES, sha256_hex

KeyBounds = tuple[bytes | None, bytes | None]

SAME_IN_ALL = ("contract", "format", "key", "pair", "schema", "structure")
"""Members that sub-manifests of one comparison share."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all shards of one comparison share.

    Shape: ``pair`` has name, source and target; ``contract`` and ``schema`` are (digest, version), ``structure`` is
    (digest, number of findings).
    """

    pair: Mapping[str, str]
    key_columns: Sequence[str]
    key_types: Sequence[str]
    contract: tuple[str, str]
    schema: tuple[str, str]
    structure: tuple[str, int]


def build_manifest(
    context: Context,
    key_range: KeyBounds,
    facts: BodyFacts,
    population: Document,
    summary: str,
    sweep: Document | None = None,
) -> bytes:
    """Return the manifest of one body.

    Shape: ``population`` as in S7; ``summary`` is the digest of the summary; ``sweep`` has failed and predecessor.
    Raises: DenominatorError (DELTA_DENOMINATOR) where the sums do not hold, and what `parse_manifest` raises.
    """
    lower, upper = (None if bound is None else bound.hex() for bound in key_range)
    document = {
        "body": facts.block,
        "categories": {name: {"records": records, "root": root} for name, (records, root) in facts.categories.items()},
        "contract": {"sha256": context.contract[0], "version": context.contract[1]},
        "format": FORMAT,
        "key": {"columns": list(context.key_columns), "types": list(context.key_types)},
        "key_range": {"lower": lower, "upper": upper},
        "pair": {member: context.pair[member] for member in ("name", "source", "target")},
        "population": population,
        "schema": {"sha256": context.schema[0], "version": context.schema[1]},
        "structure": {"findings": context.structure[1], "sha256": context.structure[0]},
        "summary": {"sha256": summary},
    }
    return finish(document if sweep is None else {**document, "sweep": sweep})


def finish(document: Document) -> bytes:
    """Return the bytes of a manifest whose members and sums were checked.

    Raises: as `build_manifest`.
    """
    data = jsonc.dumps(document)
    check_population(parse_manifest(data))
    return data


@dataclass(frozen=True, slots=True)
class MergeInput:
    """One sub-manifest with its summary document and a way to open its body."""

    manifest: bytes
    summary: bytes
    open_body: Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge gives, besides the body that it wrote."""

    manifest: bytes
    summary: bytes
    facts: BodyFacts


def merge_manifests(inputs: Sequence[MergeInput], out: BinaryIO) -> Merged:
    """Merge sub-manifests, in any order, into one; the bodies are streamed to ``out`` in range order.

    Where this raises, what ``out`` holds is worth nothing.
    Raises: MergeContextError, MergeGapError, MergeOverlapError, DenominatorError, BodyDigestError, RangeError,
    UnsortedStreamError, SummaryError, CountError, and what `parse_manifest` raises.
    """
    parsed = _parsed(inputs)
    parsed.sort(key=lambda pair: range_bytes(pair[0]["key_range"])[0] or b"")
    documents = [document for document, _ in parsed]
    key_range = check_tiling([range_bytes(document["key_range"]) for document in documents])
    for document in documents:
        check_population(document)
    summary = jsonc.dumps(add_summaries(_summary(document, one.summary) for document, one in parsed))
    writer = BodyWriter(out, key_range)
    for document, one in parsed:
        _append(writer, document, one.open_body)
    facts = writer.close()
    for name in CATEGORIES:
        stated = sum(document["categories"][name]["records"] for document in documents)
        if stated != facts.categories[name][0]:
            raise CountError(
                f"{name}: the inputs state {stated} records, their bodies have {facts.categories[name][0]}."
            )
    manifest = finish(_union(documents, key_range, facts, sha256_hex(summary)))
    return Merged(manifest, summary, facts)


def _parsed(inputs: Sequence[MergeInput]) -> list[tuple[Document, MergeInput]]:
    """Parse sub-manifests; what is the same in all is held once, since there may be a hundred thousand of them."""
    parsed: list[tuple[Document, MergeInput]] = []
    same: Document = {}
    for one in inputs:
        document = parse_manifest(one.manifest)
        check_context([parsed[0][0] if parsed else document, document], SAME_IN_ALL)
        same = same or {member: document[member] for member in SAME_IN_ALL}
        parsed.append(({**document, **same}, one))
    if not parsed:
        raise MergeContextError("There is nothing to merge.")
    return parsed


def check_context(documents: Sequence[Document], members: Sequence[str]) -> None:
    """Check that documents agree in some members, and on being sweeps after one predecessor.

    Raises: MergeContextError (DELTA_MERGE_CONTEXT), also where there is no document.
    """
    if not documents:
        raise MergeContextError("There is nothing to merge.")
    first = documents[0]
    for document in documents[1:]:
        for member in members:
            if document[member] != first[member]:
                raise MergeContextError(f"{member} differs between the inputs.", where=member)
        sweeps = [one.get("sweep") for one in (first, document)]
        if (sweeps[0] is None) != (sweeps[1] is None):
            raise MergeContextError("A sweep does not merge with a comparison.", where="sweep")
        if sweeps[0] and sweeps[1] and sweeps[0].get("predecessor") != sweeps[1].get("predecessor"):
            raise MergeContextError("The sweeps have other predecessors.", where="sweep.predecessor")


def check_tiling(ranges: Sequence[KeyBounds]) -> KeyBounds:
    """Check that ranges, sorted by lower bound, touch exactly; return their union.

    Raises: MergeGapError (DELTA_MERGE_GAP), MergeOverlapError (DELTA_MERGE_OVERLAP).
    """
    for (_, upper), (lower, _) in itertools.pairwise(ranges):
        if upper is None or lower is None or lower < upper:
            raise MergeOverlapError(f"A range begins at {_shown(lower)} inside one that ends at {_shown(upper)}.")
        if upper < lower:
            raise MergeGapError(f"No input covers [{upper.hex()}, {lower.hex()}).")
    return ranges[0][0], ranges[-1][1]


def _shown(bound: bytes | None) -> str:
    return "the end of the key space" if bound is None else bound.hex() or "the start of the key space"


def _summary(document: Document, data: bytes) -> Document:
    if sha256_hex(data) != document["summary"]["sha256"]:
        raise SummaryError("A summary does not match the digest in its manifest.", where="summary")
    return parse_summary(data)


def _append(writer: BodyWriter, document: Document, open_body: Callable[[], BinaryIO]) -> None:
    """Write one body, checked against its manifest."""
    block, (lower, upper) = document["body"], range_bytes(document["key_range"])
    hasher, records, size = hashlib.sha256(), 0, 0
    with closing(open_body()) as stream:
        for lines in read_lines(stream, hasher):
            found = [key_and_category(line) for line in lines]
            sort_keys = [sort_key for sort_key, _ in found]
            check_inside(min(sort_keys), max(sort_keys), lower, upper)
            writer.write(lines, sort_keys, [category for _, category in found])
            records += len(lines)
            size += sum(map(len, lines)) + len(lines)
    if (hasher.hexdigest(), records, size) != (block["sha256"], block["records"], block["bytes"]):
        raise BodyDigestError(f"A body of {records} records does not match its sub-manifest.", where="body")


def _union(documents: Sequence[Document], key_range: KeyBounds, facts: BodyFacts, summary: str) -> Document:
    lower, upper = (None if bound is None else bound.hex() for bound in key_range)
    union: dict[str, Any] = {
        **{member: documents[0][member] for member in SAME_IN_ALL},
        "body": facts.block,
        "categories": {name: {"records": records, "root": root} for name, (records, root) in facts.categories.items()},
        "key_range": {"lower": lower, "upper": upper},
        "population": add_populations([document["population"] for document in documents]),
        "summary": {"sha256": summary},
    }
    if "sweep" in documents[0]:
        failed = sum(document["sweep"]["failed"] for document in documents)
        union["sweep"] = {"failed": failed, "predecessor": documents[0]["sweep"]["predecessor"]}
    return union


def add_populations(populations: Sequence[Document]) -> Document:
    """Return the sum of populations, member by member."""
    members = ("duplicate_key", "null_key", "rows", "skipped")
    total: dict[str, Any] = {
        side: {member: sum(one[side][member] for one in populations) for member in members}
        for side in ("source", "target")
    }
    total["unchanged"] = sum(one["unchanged"] for one in populations)
    return total
