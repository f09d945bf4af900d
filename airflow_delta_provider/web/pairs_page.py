"""The page of all pairs with their latest verdict, and that of one pair over its manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.report.html_records import LABELS
from airflow_delta_provider.report.visible import plain
from airflow_delta_provider.web.answers import Answer, page
from airflow_delta_provider.web.layout import crumbs, digest_link, href, origin_html, verdict_html
from airflow_delta_provider.web.scope import Scope, SeenPair, Unread
from airflow_delta_provider.web.trend import EQUAL, Step

BARS = 30
BAR_HEIGHT = 32
BAR_STEP = 8


def pairs_page(
    scope: Scope, found: Sequence[tuple[SeenPair, list[Step]]], unread: Sequence[Unread], title: str
) -> Answer:
    """Return the page of all pairs."""
    return page(title, "".join(_pairs(scope, found, unread, title)))


def _pairs(
    scope: Scope, found: Sequence[tuple[SeenPair, list[Step]]], unread: Sequence[Unread], title: str
) -> Iterator[str]:
    yield f'<main id="main" tabindex="-1">\n<h1>{plain(title)}</h1>\n'
    for lost in unread:
        yield f'<p class="bad">{plain(lost.name)} could not be read and has no verdict: {plain(lost.error.message)} ({lost.error.code})</p>\n'
    if not found and not unread:
        yield "<p>No manifest is published here yet. A reconciliation publishes its manifest in its last task, <code>merge</code>.</p>"
    if not found:
        yield "</main>\n"
        return
    bad = sum(steps[-1].verdict != EQUAL for _, steps in found)
    yield f"<p>{len(found):,} {'pair' if len(found) == 1 else 'pairs'}, "
    yield f'<span class="bad">{bad:,} with differences</span>' if bad else '<span class="good">none differs</span>'
    yield '.</p>\n<div class="scroll stack" tabindex="0" role="region" aria-label="Pairs"><table><thead><tr>'
    hosted = any(steps[-1].seen.origin for _, steps in found)
    for name in ("pair", "latest verdict", "trend", "manifest", *(("shown by task",) if hosted else ())):
        yield f'<th scope="col">{name}</th>'
    yield "</tr></thead><tbody>"
    for one, steps in found:
        latest = steps[-1]
        link = href("pair", {"pair": one.pair_id}, scope.params, latest.seen.params)
        yield f'<tr><th scope="row"><a href="{link}">{plain(one.pair["name"])}</a><br>'
        yield f'<span class="soft">{plain(one.pair["source"])} → {plain(one.pair["target"])}</span></th>'
        yield f"<td>{verdict_html(latest)}<br>{_came_back(latest)}</td><td>{spark(steps)}</td>"
        yield f'<td data-label="manifest">{digest_link(scope, latest.seen)}</td>'
        yield f'<td data-label="task">{origin_html(latest.seen)}</td></tr>' if hosted else "</tr>"
    yield "</tbody></table></div></main>\n"


def _came_back(step: Step) -> str:
    """Return how many differences the manifest before had too, and how many are new; nothing where nobody counted."""
    if step.recurring is None or not step.records:
        return ""
    new = step.records - step.recurring
    return f'<span class="recurring">{step.recurring:,} recurring</span>, <span class="new">{new:,} new</span>'


def spark(steps: Sequence[Step], scale: int = 1) -> str:
    """Return a small drawing of how many rows differed in each of the newest manifests, the newest on the right."""
    shown = steps[-BARS:]
    most = max((step.records for step in shown), default=0) or 1
    bars = ""
    for place, step in enumerate(shown):
        height = max(step.records * BAR_HEIGHT / most, 2)
        new = 0.0 if step.recurring is None else height * (step.records - step.recurring) / (step.records or 1)
        kind = "good" if not step.records else "recurring"
        bars += _bar(kind, place, BAR_HEIGHT - height, height) + (
            _bar("new", place, BAR_HEIGHT - height, new) if new else ""
        )
    said = ", ".join(f"{step.records:,}" for step in shown)
    label = f"Rows that differed in the last {len(shown)} manifests: {said}"
    width = len(shown) * BAR_STEP
    size = f'viewBox="0 0 {width} {BAR_HEIGHT}" width="{width * scale}" height="{BAR_HEIGHT * scale}"'
    return f'<svg class="spark" {size} role="img" aria-label="{label}"><title>{label}</title>{bars}</svg>'


def _bar(kind: str, place: int, top: float, height: float) -> str:
    return f'<rect class="{kind}" x="{place * BAR_STEP}" y="{top:.1f}" width="{BAR_STEP - 2}" height="{height:.1f}"/>'


def pair_page(scope: Scope, one: SeenPair, steps: Sequence[Step]) -> Answer:
    """Return the page of one pair: its manifests, newest first, with recurring and new differences."""
    return page(one.pair["name"], "".join(_pair(scope, one, steps)))


def _pair(scope: Scope, one: SeenPair, steps: Sequence[Step]) -> Iterator[str]:
    yield crumbs([("All pairs", href("pairs", scope.params)), (one.pair["name"], "")])
    yield f'<main id="main" tabindex="-1">\n<h1>{plain(one.pair["name"])}: {plain(one.pair["source"])} → {plain(one.pair["target"])}</h1>\n'
    yield f'<p class="verdict">{verdict_html(steps[-1])}</p>\n'
    yield f"<p>In the newest of {len(steps):,} {'manifest' if len(steps) == 1 else 'manifests'}. {_came_back(steps[-1])}</p>\n"
    yield f'{spark(steps, 2)}\n<p class="soft">Rows that differed, newest right: <span class="new">new</span> on top of '
    yield '<span class="recurring">recurring</span> ones.</p>\n'
    hosted = any(step.seen.origin for step in steps)
    yield '<div class="scroll stack" tabindex="0" role="region" aria-label="Manifests"><table>'
    yield "<caption>Newest first. A record recurs where the manifest before it had a record of the same key and category.</caption>"
    yield '<thead><tr><th scope="col">manifest</th><th scope="col">verdict</th>'
    yield "".join(f'<th class="n" scope="col">{LABELS[name]}</th>' for name in CATEGORIES)
    yield '<th class="n" scope="col">recurring</th><th class="n" scope="col">new</th>'
    yield ('<th scope="col">shown by task</th>' if hosted else "") + "</tr></thead><tbody>"
    for step in reversed(steps):
        categories = step.measured.manifest["categories"]
        yield f'<tr><th scope="row">{digest_link(scope, step.seen)}</th><td>{verdict_html(step)}</td>'
        yield "".join(
            f'<td class="n" data-label="{LABELS[name]}">{categories[name]["records"]:,}</td>' for name in CATEGORIES
        )
        counts = ("–", "–") if step.recurring is None else (f"{step.recurring:,}", f"{step.records - step.recurring:,}")
        for name, count in zip(("recurring", "new"), counts, strict=True):
            yield f'<td class="n" data-label="{name}">{count}</td>'
        yield f'<td data-label="task">{origin_html(step.seen)}</td></tr>' if hosted else "</tr>"
    yield "</tbody></table></div></main>\n"
