"""The button on a task instance that opens its manifest's page."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from airflow_delta_provider._compat import BaseOperatorLink, conf

PREFIX = "delta"
"""Where the pages are mounted below Airflow's base URL."""


class ManifestLink(BaseOperatorLink):
    """Open the manifest that a task published or looked at; where it came to none, the manifests of its run.

    Airflow computes the link in the worker as the task ends and keeps it in an XCom, which also is what lets the page show
    that manifest to whoever may read the Dag's XComs.
    """

    name = "Delta manifest"

    @property
    def xcom_key(self) -> str:
        """The key of the XCom that holds the link."""
        return LINK_KEY

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the page."""
        members = {"dag_id": ti_key.dag_id}
        digest = getattr(operator, "manifest", None)
        if isinstance(digest, str) and _is_digest(digest):
            page, members = "manifest", {"manifest": digest, **members, "store": operator.store_conn_id}
        else:
            page, members = "run", {**members, "run_id": ti_key.run_id}
        return page_address(page, members)


LINK_KEY = "_link_ManifestLink"


def page_address(page: str, members: dict[str, str]) -> str:
    """Return the absolute address of a page, below Airflow's base URL."""
    base = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
    return f"{base}/{PREFIX}/{page}?{urlencode(members)}"


def manifest_of_link(value: object) -> tuple[str, str] | None:
    """Return digest and store connection of a link that ``ManifestLink`` made, None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        parts = urlsplit(value)
        query = parse_qs(parts.query, max_num_fields=8)
    except ValueError:
        return None
    digest, store = query.get("manifest", [""]), query.get("store", [""])
    if not parts.path.endswith(f"/{PREFIX}/manifest") or len(digest) != 1 or len(store) != 1:
        return None
    return (digest[0], store[0]) if _is_digest(digest[0]) and store[0] else None


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(char in "0123456789abcdef" for char in text)
