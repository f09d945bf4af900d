"""The proof after a patch: the touched range of keys is compared again, and the manifest of it is published."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.documents import Document, parse_manifest, range_bytes
from airflow_delta_provider.core.manifest import MergeInput, merge_manifests
from airflow_delta_provider.core.plan import BOUND_BYTES_MAX, KeyRange
from airflow_delta_provider.core.store.publish import Publication, publish
from airflow_delta_provider.core.submanifest import build_sub_manifest
from airflow_delta_provider.engine.opened import Opened, OpenSide, open_sides
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.planning import plan_ranges
from airflow_delta_provider.engine.shards import compare_shard
from airflow_delta_provider.engine.skipped import open_binary

WHOLE_ROWS_MAX = 100_000
"""Up to so many rows the whole range of the patched manifest is compared again, not only the touched part."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A manifest of the sides after a patch. ``lines``: its records at touched keys, by key bytes, in canonical JSON."""

    manifest_id: str
    manifest: Document
    lines: Mapping[str, bytes]


def prove(context: Context, open_side: OpenSide, patch_id: str, ledger: str) -> Proof:
    """Compare what the patch touched again, publish the manifest, and return it.

    Raises: every refusal of a comparison.
    """
    touched, bounds = _touched(context)
    with ExitStack() as stack:
        opened = stack.enter_context(open_sides(context.spec, open_side, hmac_key=context.hmac_key))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-prove-")))
        opened.key_range = _range(context, opened, bounds)
        manifest_id, body = _compare(context, opened, folder, patch_id, ledger)
        manifest = parse_manifest((folder / "manifest.json").read_bytes())
        lines = {}
        with closing(body.open("rb")) as file:
            for batch in read_lines(file):
                for line in batch:
                    sort_key = jsonc.loads(line)["sort_key"]
                    if bytes.fromhex(sort_key) in touched:
                        lines[sort_key] = line
    return Proof(manifest_id, manifest, lines)


def _touched(context: Context) -> tuple[set[bytes], tuple[bytes, bytes] | None]:
    keys = {bytes.fromhex(record["sort_key"]) for records in context.records() for record in records}
    return keys, (min(keys), max(keys)) if keys else None


def _range(context: Context, opened: Opened, bounds: tuple[bytes, bytes] | None) -> KeyRange:
    """Return the range to compare: all that the manifest covers where that is little, else from key to key."""
    lower, upper = range_bytes(context.manifest["key_range"])
    rows = max(opened.side(name).estimate_rows() or 0 for name in ("source", "target"))
    if bounds is None or rows <= WHOLE_ROWS_MAX:
        return KeyRange(lower, upper)
    first, last = bounds[0][:BOUND_BYTES_MAX], bounds[1] + b"\x00"
    return KeyRange(first, last if len(last) <= BOUND_BYTES_MAX else upper)


def _compare(context: Context, opened: Opened, folder: Path, patch_id: str, ledger: str) -> tuple[str, Path]:
    inputs = []
    for number, key_range in enumerate(plan_ranges(opened)):
        raw_path, body_path = folder / f"{number}.raw", folder / f"{number}.jsonl"
        with raw_path.open("w+b") as raw, body_path.open("wb") as body:
            compare_shard(opened, key_range, raw, folder=str(folder))
            raw.seek(0)
            sub = build_sub_manifest(raw, opened.shared, body)
        inputs.append(MergeInput(sub.manifest, sub.summary, partial(open_binary, body_path)))
    path = folder / "body.jsonl"
    with path.open("wb") as out:
        merged = merge_manifests(inputs, out)
    (folder / "manifest.json").write_bytes(merged.manifest)
    counts = opened.spec.detail == "counts"
    with path.open("rb") as whole:
        receipt = publish(
            context.store,
            Publication(
                manifest=merged.manifest,
                schema=opened.shared.schema,
                contract=opened.shared.contract,
                structure=opened.shared.structure,
                summary=merged.summary,
                body=None if counts else whole,
                page_index=None if counts else merged.facts.page_index,
                sidecar={"ledger": ledger, "patch": patch_id, "strategy": "stream"},
            ),
        )
    return receipt.manifest, path


def left_over(context: Context, proof: Proof, reasons: Mapping[int, str | None]) -> Iterator[dict[str, Any]]:
    """Yield the touched records that still differ, with the reason; ``reasons`` by the record's number."""
    number = 0
    for records in context.records():
        for record in records:
            if record["sort_key"] in proof.lines:
                yield {"id": record["id"], "key": record["key"], "reason": reasons.get(number)}
            number += 1


def same_as_before(context: Context, proof: Proof) -> Iterator[dict[str, Any]]:
    """Yield the touched records that do not stand in the proof byte for byte as they did in the patched manifest."""
    for records in context.records():
        for record in records:
            if proof.lines.get(record["sort_key"]) != jsonc.dumps(record):
                yield {"id": record["id"], "key": record["key"], "reason": None}
