"""Assets of the scheme ``delta-manifest``: what other Dags are scheduled on when a reconciliation is published."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from airflow.sdk import Asset

SCHEME = "delta-manifest"
STORE_CONN_ID = "delta_store_default"
_PART = re.compile(r"[A-Za-z0-9._-]{1,250}")


def manifest_asset(name: str, store_conn_id: str = STORE_CONN_ID, extra: dict[str, Any] | None = None) -> Asset:
    """Return the asset of a reconciliation, by the name in its specification and the connection of its store.

    Give it to ``MergeManifestOperator(outlets=[...])`` or ``reconcile(outlets=[...])``, and other Dags as ``schedule``.
    Raises: ValueError for a name that no address holds.
    """
    return create_asset(store=store_conn_id, name=name, extra=extra)


def create_asset(*, store: str, name: str, extra: dict[str, Any] | None = None) -> Asset:
    """Return an asset by its parts. Raises: ValueError."""
    from airflow.sdk import Asset

    return Asset(uri=f"{SCHEME}://{store}/{name}", name=f"{SCHEME} {store} {name}", extra=extra)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the address as it is compared. Raises: ValueError unless it is ``delta-manifest://<store conn_id>/<name>``."""
    name = uri.path.removeprefix("/")
    if not _PART.fullmatch(uri.netloc) or not _PART.fullmatch(name) or uri.query or uri.fragment:
        raise ValueError(f"An address of this scheme is {SCHEME}://<store connection>/<name of the reconciliation>")
    return uri


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Any:
    """Return the data set that lineage knows an asset as."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    parts = urlsplit(asset.uri)
    return Dataset(namespace=f"{SCHEME}://{parts.netloc}", name=parts.path.removeprefix("/"))


def event_of(manifest_id: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what the event of a published manifest carries: digest, verdict and counts; no values."""
    categories = {name: part["records"] for name, part in manifest["categories"].items()}
    rows = {f"{side}_rows": manifest["population"][side]["rows"] for side in ("source", "target")}
    records = manifest["body"]["records"]
    return {
        "digest": manifest_id,
        "verdict": "different" if records or manifest.get("sweep", {}).get("failed", 0) else "equal",
        "counts": {"records": records, **categories, **rows, "unchanged": manifest["population"]["unchanged"]},
    }
