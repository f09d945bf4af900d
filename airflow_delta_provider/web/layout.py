"""What every page is laid out with: links that stay inside the caller's scope, verdicts, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import quote, urlencode

from airflow_delta_provider.report.visible import plain
from airflow_delta_provider.web.scope import Scope, Seen
from airflow_delta_provider.web.trend import EQUAL, Step

DIGEST_CHARS = 12


def href(route: str, *maps: Mapping[str, str]) -> str:
    """Return a relative link, safe inside an attribute: it works wherever the pages are mounted."""
    merged = {name: text for one in maps for name, text in one.items() if text != ""}
    return escape(f"{route}?{urlencode(merged)}" if merged else route)


def manifest_href(scope: Scope, seen: Seen, route: str = "manifest", **more: str) -> str:
    """Return the link to a page of one manifest."""
    return href(route, {"manifest": seen.manifest}, scope.params, seen.params, more)


def digest_link(scope: Scope, seen: Seen) -> str:
    """Return a link to a manifest, by the first digits of its digest."""
    shown = seen.manifest[:DIGEST_CHARS]
    return f'<a class="digest" href="{manifest_href(scope, seen)}" title="{seen.manifest}">{shown}</a>'


def verdict_html(step: Step) -> str:
    """Return a verdict in words, never by colour alone, with what it does not speak of."""
    said = (
        '<span class="good">✓ no row differs</span>'
        if step.verdict == EQUAL
        else f'<span class="bad">✗ {step.records:,} {"row differs" if step.records == 1 else "rows differ"}</span>'
    )
    return said + "".join(f' <span class="soft">· {plain(caveat)}</span>' for caveat in step.caveats)


def origin_html(seen: Seen) -> str:
    """Return the task instance that showed a manifest, with a link to it; nothing outside Airflow."""
    origin = seen.origin
    if not origin:
        return ""
    parts = [quote(origin[name], safe="") for name in ("dag_id", "run_id", "task_id")]
    path = f"../dags/{parts[0]}/runs/{parts[1]}/tasks/{parts[2]}"
    if origin["map_index"] != "-1":
        path += f"/mapped/{origin['map_index']}"
    return (
        f'<a href="{escape(path)}" data-airflow="1">{plain(origin["task_id"])}</a> '
        f'<span class="soft">of {plain(origin["dag_id"])}, run {plain(origin["run_id"])}</span>'
    )


def crumbs(links: Sequence[tuple[str, str]]) -> str:
    """Return the way back: pairs of text and an escaped link, empty for the page itself."""
    items = "".join(
        f'<li><a href="{link}">{plain(text)}</a></li>' if link else f'<li aria-current="page">{plain(text)}</li>'
        for text, link in links
    )
    return f'<nav class="crumbs" aria-label="Breadcrumb"><ol>{items}</ol></nav>\n'


def hidden_fields(*maps: Mapping[str, str]) -> str:
    """Return what a form carries on unseen."""
    merged = {name: text for one in maps for name, text in one.items() if text != ""}
    return "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(text)}">' for name, text in merged.items()
    )
