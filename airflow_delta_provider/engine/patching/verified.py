"""The manifest that a patch stands on: verified before anything is done by it, or by another process meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from airflow_delta_provider.core.documents import Document
from airflow_delta_provider.core.errors import DeltaError, PatchManifestError, WorkerLostError
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.published import sidecars_of
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.core.verify import read_manifest
from airflow_delta_provider.core.verify_pages import PARALLEL_RECORDS_MIN
from airflow_delta_provider.core.verify_store import VERIFIED, verify_published
from airflow_delta_provider.engine.patching.options import PatchOptions


@contextmanager
def verified(store: Store, manifest_id: str, options: PatchOptions) -> Iterator[Document]:
    """Yield the manifest of a patch, which is verified once the block is left: nothing is written or published inside.

    With several workers a large one is verified by another process while the caller reads what it needs. One that does
    not verify is told first, whatever failed meanwhile: its records may be the reason.
    Raises: as ``load_manifest``; WorkerLostError (DELTA_WORKER_LOST).
    """
    asked = (store, manifest_id, options.trust, options.max_age_s)
    manifest = _large(store, manifest_id) if options.workers > 1 else None
    if manifest is None:
        yield load_manifest(*asked)
        return
    from concurrent.futures import ProcessPoolExecutor  # not where one process does it all: 40 modules more
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        verification = pool.submit(load_manifest, *asked, options.workers - 1)
        try:
            yield manifest
        finally:
            _wait(verification)


def _wait(verification: Future[Document]) -> None:
    from concurrent.futures.process import BrokenProcessPool

    try:
        verification.result()
    except BrokenProcessPool as error:
        raise WorkerLostError("a worker process ended while it verified the manifest.", where="--workers") from error


def _large(store: Store, manifest_id: str) -> Document | None:
    """Return a manifest of many records; None for others, and where something is wrong that verification will tell."""
    try:
        manifest, findings = read_manifest(manifest_id, blobs.get_blob(store, manifest_id))
    except DeltaError:
        return None
    if manifest is None or findings or "sweep" in manifest or manifest["body"]["records"] < PARALLEL_RECORDS_MIN:
        return None
    return manifest


def load_manifest(
    store: Store, manifest_id: str, trust: Trust | None, max_age_s: float | None, workers: int = 1
) -> Document:
    """Return a manifest that verifies; ``workers`` processes share the records of a large one.

    Raises: PatchManifestError (DELTA_PATCH_MANIFEST) for one with findings, without a trusted signature where trust is
    demanded, of a sweep, or that is too old; StoreMissingError, InputDigestError.
    """
    check, found = verify_published(store, manifest_id, trust=trust, workers=workers)
    if check.manifest is None or check.verdict != VERIFIED:
        reason = f"{check.findings[0].code}: {check.findings[0].sentence}" if check.findings else check.verdict
        raise PatchManifestError(f"{manifest_id} does not verify: {reason}", where=manifest_id)
    if "sweep" in check.manifest:
        raise PatchManifestError("a sweep compares a data set with itself; there is no side to take rows from.")
    if max_age_s is not None and found is not None:
        _check_age(store, found.entries, manifest_id, max_age_s)
    return check.manifest


def _check_age(store: Store, entries: Any, manifest_id: str, max_age_s: float) -> None:
    ends = [
        str(sidecar["finished_at"])
        for _, sidecar in sidecars_of(store, entries, manifest_id)
        if "finished_at" in sidecar
    ]
    if not ends:
        raise PatchManifestError("no sidecar tells how old the manifest is.", where=manifest_id)
    age_s = time.time() - datetime.fromisoformat(max(ends)).timestamp()
    if age_s > max_age_s:
        raise PatchManifestError(
            f"the manifest is {age_s:.0f} s old; {max_age_s:.0f} s are allowed.", where=manifest_id
        )
