"""The proof after a patch: the touched range of keys is compared again, and the manifest of it is published."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.documents import range_bytes
from airflow_delta_provider.core.manifest import MergeInput, merge_manifests
from airflow_delta_provider.core.plan import BOUND_BYTES_MAX, KeyRange
from airflow_delta_provider.core.store.publish import Publication, publish
from airflow_delta_provider.core.submanifest import build_sub_manifest
from airflow_delta_provider.engine.opened import Opened, OpenSide, open_sides
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.options import LISTED_MAX
from airflow_delta_provider.engine.planning import plan_ranges
from airflow_delta_provider.engine.shards import compare_shard
from airflow_delta_provider.engine.skipped import open_binary

WHOLE_ROWS_MAX = 100_000
"""Up to so many rows the whole range of the patched manifest is compared again, not only the touched part."""


Bounds = tuple[bytes, bytes] | None
"""Key bytes of the first and the last record that was patched; None where there is none."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A manifest of the sides after a patch.

    ``left``: touched records that are not as they should be, at most ``LISTED_MAX``; ``left_count``: how many there are.
    """

    manifest_id: str
    left: list[dict[str, Any]]
    left_count: int


def prove(
    context: Context,
    open_side: OpenSide,
    patch_id: str,
    ledger: str,
    bounds: Bounds,
    reasons: Mapping[int, str | None] | None,
) -> Proof:
    """Compare what the patch touched again, publish the manifest, and return what it says of the touched records.

    ``reasons``: why records were left as they were, by number; None for a rollback.
    Raises: every refusal of a comparison.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_sides(context.spec, open_side, hmac_key=context.hmac_key))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-prove-")))
        opened.key_range = _range(context, opened, bounds)
        manifest_id, body = _compare(context, opened, folder, patch_id, ledger)
        found = _same_as_before(context, body) if reasons is None else _left_over(context, body, reasons)
        left = list(islice(found, LISTED_MAX))
        return Proof(manifest_id, left, len(left) + sum(1 for _ in found))


def _range(context: Context, opened: Opened, bounds: Bounds) -> KeyRange:
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
            sign=context.sign,
        )
    return receipt.manifest, path


def _left_over(context: Context, body: Path, reasons: Mapping[int, str | None]) -> Iterator[dict[str, Any]]:
    """Yield the touched records that still differ, with the reason; ``reasons`` by the record's number."""
    if not body.stat().st_size:
        return
    for number, line, now in _side_by_side(context, body):
        if now is not None:
            yield _listed(line, reasons.get(number))


def _same_as_before(context: Context, body: Path) -> Iterator[dict[str, Any]]:
    """Yield the touched records that do not stand in the proof byte for byte as they did in the patched manifest."""
    for _, line, now in _side_by_side(context, body):
        if now != line:
            yield _listed(line, None)


def _side_by_side(context: Context, body: Path) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield number and line of each touched record, with its line in the proof if it has one. Both are in key order."""
    with body.open("rb") as file:
        proof = chain.from_iterable(read_lines(file))
        now: bytes | None = next(proof, None)
        for number, line in enumerate(chain.from_iterable(context.lines())):
            key = _sort_key(line)
            while now is not None and _sort_key(now) < key:
                now = next(proof, None)
            yield number, line, now if now is not None and _sort_key(now) == key else None


def _sort_key(line: bytes) -> str:
    return str(orjson.loads(line)["sort_key"])


def _listed(line: bytes, reason: str | None) -> dict[str, Any]:
    record = orjson.loads(line)
    return {"id": record["id"], "key": record["key"], "reason": reason}
