"""The page of one manifest: verdict first, then where, what, by which rules, on whose word, and what was done about it."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.report.html import columns_html, contents_html, totals_html
from airflow_delta_provider.report.html_facts import (
    bound_html,
    contract_html,
    evidence_html,
    rules_html,
    run_html,
    structure_html,
)
from airflow_delta_provider.report.html_records import LABELS
from airflow_delta_provider.report.visible import plain
from airflow_delta_provider.web.answers import Answer, page
from airflow_delta_provider.web.layout import crumbs, href, manifest_href, origin_html, verdict_html
from airflow_delta_provider.web.next_step import Told, earlier_html, filter_links, next_step, patches_html
from airflow_delta_provider.web.opened import Opened
from airflow_delta_provider.web.records import Found
from airflow_delta_provider.web.records_page import form_html, list_html
from airflow_delta_provider.web.scope import Scope
from airflow_delta_provider.web.strips import ANY, strip_of
from airflow_delta_provider.web.trend import pair_id_of

SIGNED = {
    "trusted": '<span class="good">signed by a trusted key</span>',
    "unsigned": "not signed",
    "unchecked": "signed, unchecked",
    "untrusted": '<span class="bad">signed by no trusted key</span>',
    "invalid": '<span class="bad">the signature does not hold</span>',
}
"""The short form of what the section Evidence says."""
DOWNLOADS = {"jsonl": "JSON Lines", "csv": "CSV", "html": "HTML", "sql": "SQL"}
RECORDS_SHOWN = 10


def manifest_page(scope: Scope, opened: Opened, told: Told, first: Found | None) -> Answer:
    """Return the page; ``first`` holds the first records, None where there are none to show."""
    pair = opened.material.manifest["pair"]
    return page(f"{pair['name']}: delta manifest", "".join(_page(scope, opened, told, first)))


def _page(scope: Scope, opened: Opened, told: Told, first: Found | None) -> Iterator[str]:
    sections = _sections(scope, opened, told, first)
    yield from _head(scope, opened, told)
    yield contents_html(sections)
    for section in sections.values():
        yield from section
    yield "</main>\n"


def _sections(scope: Scope, opened: Opened, told: Told, first: Found | None) -> dict[str, Iterator[str]]:
    """Return the sections by their anchors, in the order in which they stand on the page and in its contents."""
    material = opened.material
    categories, columns = filter_links(scope, opened)
    return {
        "totals": totals_html(material, categories),
        "columns": columns_html(material, columns),
        "where": _where(scope, opened),
        "records": _records(scope, opened, first),
        "patches": patches_html(told),
        "rules": rules_html(material),
        "schema": structure_html(material),
        "evidence": evidence_html(material),
        "contract": contract_html(material),
        "run": run_html(material),
    }


def _head(scope: Scope, opened: Opened, told: Told) -> Iterator[str]:
    """Yield what is to be seen at once: whether the sides agree, what to do, and who says so."""
    material = opened.material
    pair, seen = material.manifest["pair"], opened.seen
    pair_link = href("pair", {"pair": pair_id_of(material.manifest)}, scope.params, seen.params)
    yield crumbs([("All pairs", href("pairs", scope.params)), (pair["name"], pair_link), ("Manifest", "")])
    yield f'<main id="main" tabindex="-1">\n<h1>{plain(pair["name"])}: {plain(pair["source"])} → {plain(pair["target"])}</h1>\n'
    rows = [material.manifest["population"][side]["rows"] for side in ("source", "target")]
    yield f'<p class="verdict">{verdict_html(told.step)}</p>\n'
    yield f'<p class="soft">{rows[0]:,} rows of the source, {rows[1]:,} of the target.</p>\n'
    yield from bound_html(material)
    yield from earlier_html(scope, told)
    yield f'<p class="next">{next_step(scope, opened, told)}</p>\n'
    yield f'<p class="soft">Manifest <span class="digest">{material.manifest_id}</span>, {SIGNED[material.signature.status]}.'
    yield f" Task {origin_html(seen)}.</p>\n" if seen.origin else "</p>\n"
    for event in told.around.events:
        link = f'<a href="{event.path}" data-airflow="1">{plain(event.asset)}</a>'
        yield f'<p class="soft">Other Dags were told by an event of the asset {link}, {plain(event.at)}.</p>\n'
    yield _downloads(scope, opened)


def _records(scope: Scope, opened: Opened, first: Found | None) -> Iterator[str]:
    yield '<section aria-labelledby="records">\n<h2 id="records">Records</h2>\n'
    if first is None:
        why = {"counts": "The contract publishes counts only.", "retired": "The body was retired; its log says so."}
        yield f"<p>{why[opened.material.no_body]}</p>\n"
    else:
        yield form_html(scope, opened)
        yield from list_html(scope, opened, first)
    yield "</section>\n"


def _downloads(scope: Scope, opened: Opened) -> str:
    names = {"html": "HTML"} if opened.material.no_body else DOWNLOADS
    links = ", ".join(
        f'<a download href="{manifest_href(scope, opened.seen, "download", to=form)}">{label}</a>'
        for form, label in names.items()
    )
    return f"<p>Download: {links}</p>\n"


def _where(scope: Scope, opened: Opened) -> Iterator[str]:
    yield '<section aria-labelledby="where">\n<h2 id="where">Where in the key space</h2>\n'
    placed = strip_of(opened)
    if placed is None:
        yield "<p>There is no record to place.</p>\n</section>\n"
        return
    strip, exact = placed.strip, placed.at_once == 1
    used = [one for one in strip.slices if one.records]
    how = "each record is counted" if exact else f"{placed.at_once:,} records at a time count where the first one lies"
    most = max(one.records for one in used)
    yield f'<p class="soft">From the first key that differs to the last, in {len(strip.slices)} equal slices; {how}. '
    yield f"The highest bar is {most:,} {'record' if most == 1 else 'records'}.</p>\n{strip.svg()}\n"
    yield f'<p class="ends"><bdi>{plain(strip.label(used[0].first))}</bdi> <bdi>{plain(strip.label(used[-1].last))}</bdi></p>\n'
    labels = LABELS if exact else {ANY: "records"}
    yield '<details><summary>The same in numbers</summary><div class="scroll" tabindex="0" role="region" aria-label="Records by slice"><table><thead><tr>'
    yield '<th scope="col">first key</th><th scope="col">last key</th>'
    yield "".join(f'<th class="n" scope="col">{label}</th>' for label in labels.values()) + "</tr></thead><tbody>"
    start = 0
    for one in used:
        counts = "".join(f'<td class="n">{one.counts.get(name, 0):,}</td>' for name in labels)
        link = manifest_href(scope, opened.seen, "records", start=str(start))
        yield f'<tr><td><a href="{link}">{plain(strip.label(one.first))}</a></td><td>{plain(strip.label(one.last))}</td>{counts}</tr>'
        start += one.records
    yield "</tbody></table></div></details>\n</section>\n"


def manifest_document(opened: Opened, told: Told) -> dict[str, object]:
    """Return the JSON form of all that the page tells of a manifest, without records."""
    material = opened.material
    placed = strip_of(opened)
    used = [] if placed is None else [one for one in placed.strip.slices if one.records]
    slices = [{"counts": one.counts, "first": one.first.hex(), "last": one.last.hex()} for one in used]
    return {
        **told.step.document(),
        "approvals": [approval.document() for approval in told.around.approvals],
        "asset_events": [event.document() for event in told.around.events],
        "categories": {name: material.manifest["categories"][name]["records"] for name in CATEGORIES},
        "contract": material.contract,
        "document": material.manifest,
        "key_space": {"exact": placed is None or placed.at_once == 1, "slices": slices},
        "log": {"entries": len(material.entries), "seq": material.seqs},
        "no_body": material.no_body or None,
        "patches": [patch.document() for patch in told.patches],
        "schema": material.schema,
        "sidecar": material.sidecar,
        "signature": material.signature.document(),
        "structure": material.structure,
        "summary": material.summary,
    }
