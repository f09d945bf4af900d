"""A look at some shards: their sub-manifests are stored, and nothing is said of the whole."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.store.publish import Publication, store_manifest
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.light import pandas_kept_out
from airflow_delta_provider.engine.manners import Tell, look_ahead, silent
from airflow_delta_provider.engine.opened import OpenSide, open_sides
from airflow_delta_provider.engine.planning import plan_ranges
from airflow_delta_provider.engine.run import Job, run_shard


@dataclass(frozen=True, slots=True)
class Looked:
    """One shard of a sample: the id of its sub-manifest, its range for people, and the parsed document."""

    manifest: str
    label: str
    document: documents.Document


@dataclass(frozen=True, slots=True)
class Sample:
    """The shards that were looked at, in key order, of how many there are."""

    looked: list[Looked]
    shards: int

    @property
    def records(self) -> int:
        """How many records all of them hold."""
        return sum(int(one.document["body"]["records"]) for one in self.looked)


def sample(
    spec: Spec,
    store: Store,
    open_side: OpenSide,
    *,
    count: int,
    shards: int | None = None,
    hmac_key: HmacKey | None = None,
    tell: Tell = silent,
) -> Sample:
    """Compare ``count`` shards, spread evenly over the plan, and store a sub-manifest for each; the log gets no entry.

    Raises: every refusal of the package; sub-manifests that were stored before stay, and are true of their ranges.
    """
    deadline = None if spec.limits.max_seconds is None else time.monotonic() + spec.limits.max_seconds
    with ExitStack() as stack:
        opened = stack.enter_context(open_sides(spec, open_side, hmac_key=hmac_key))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-sample-")))
        ranges = plan_ranges(opened, count=shards)
        look_ahead(opened, ranges)
        key = opened.comparison.hmac_key
        job = Job(spec.form, opened.shared.identity, folder, deadline, {}, key, pandas_kept_out(), tell=tell)
        looked = []
        for number in spread(len(ranges), count):
            result = run_shard(opened, number, ranges[number], job, open_side, None)
            with result.body.open("rb") as body:
                parts: dict[str, Any] = {"body": body, "page_index": result.body_facts.page_index}
                if spec.detail == "counts":
                    parts = {"body": None, "page_index": None}
                publication = Publication(
                    manifest=result.manifest,
                    schema=opened.shared.schema,
                    contract=opened.shared.contract,
                    structure=opened.shared.structure,
                    summary=result.summary,
                    sidecar={},
                    **parts,
                )
                digest = store_manifest(store, publication)
            label = ranges[number].label(opened.shared.key_types)
            looked.append(Looked(digest, label, documents.parse_manifest(result.manifest)))
        return Sample(looked, len(ranges))


def spread(of: int, count: int) -> list[int]:
    """Return so many places among ``of``, evenly spread: all of them where there are no more."""
    wanted = min(of, count)
    return [(2 * place + 1) * of // (2 * wanted) for place in range(wanted)]
