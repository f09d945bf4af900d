"""The page of one manifest: verdict first, then where, what, by which rules, on whose word, and what was done about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.report.html import columns_html, totals_html
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
from airflow_delta_provider.web.opened import Opened
from airflow_delta_provider.web.patches import APPLIED, BEGUN, PatchState
from airflow_delta_provider.web.records import Found
from airflow_delta_provider.web.records_page import form_html, list_html
from airflow_delta_provider.web.scope import Scope
from airflow_delta_provider.web.strips import ANY, strip_of
from airflow_delta_provider.web.trend import Step, pair_id_of

DOWNLOADS = {"jsonl": "JSON Lines", "csv": "CSV", "html": "HTML", "sql": "SQL"}


def manifest_page(scope: Scope, opened: Opened, step: Step, patches: list[PatchState], first: Found | None) -> Answer:
    """Return the page; ``first`` holds the first records, None where there are none to show."""
    pair = opened.material.manifest["pair"]
    return page(f"{pair['name']}: delta manifest", "".join(_page(scope, opened, step, patches, first)))


def _page(scope: Scope, opened: Opened, step: Step, patches: list[PatchState], first: Found | None) -> Iterator[str]:
    material = opened.material
    pair = material.manifest["pair"]
    pair_link = href("pair", {"pair": pair_id_of(material.manifest)}, scope.params, opened.seen.params)
    yield crumbs([("All pairs", href("pairs", scope.params)), (pair["name"], pair_link), ("Manifest", "")])
    yield f'<main id="main" tabindex="-1">\n<h1>{plain(pair["name"])}: {plain(pair["source"])} → {plain(pair["target"])}</h1>\n'
    yield f'<p class="verdict">{verdict_html(step)}</p>\n<p>{_next(opened, step, patches)}</p>\n'
    yield from bound_html(material)
    yield f'<p class="soft">Manifest <span class="digest">{material.manifest_id}</span>'
    yield f" · {origin_html(opened.seen)}</p>\n" if opened.seen.origin else "</p>\n"
    yield _downloads(scope, opened)
    yield from totals_html(material)
    yield from columns_html(material)
    yield from _where(opened)
    yield '<section aria-labelledby="records">\n<h2 id="records">Records</h2>\n'
    if first is None:
        why = {"counts": "The contract publishes counts only.", "retired": "The body was retired; its log says so."}
        yield f"<p>{why[material.no_body]}</p>\n"
    else:
        yield form_html(scope, opened)
        yield from list_html(scope, opened, first)
    yield "</section>\n"
    yield from rules_html(material)
    yield from structure_html(material)
    yield from patches_html(patches)
    yield from evidence_html(material)
    yield from contract_html(material)
    yield from run_html(material)
    yield "</main>\n"


def _next(opened: Opened, step: Step, patches: list[PatchState]) -> str:
    """Return what a person may do next, in one sentence."""
    if any(patch.state == BEGUN for patch in patches):
        return "A patch was begun and has no ledger: run it again, it goes on where it stopped."
    if any(patch.state == APPLIED and patch.takes_back is None for patch in patches):
        return "A patch was applied. The next reconciliation, or the newest manifest of this pair, tells whether the sides are equal now."
    if not step.records:
        return "Nothing is to be done about the rows that were compared."
    if opened.material.sweep:
        return "These are the changes since the last sweep."
    most = max(opened.material.summary["columns"], key=lambda one: one[1], default=None)
    if most is not None and most[1]:
        return (
            f"Most values diverge in column <strong>{plain(most[0])}</strong> ({most[1]:,}): look at its records below, "
            "decide whether a rule should make them equal, or repair the target with a patch."
        )
    return "Rows are missing on one side: look at where they lie in the key space, then load them or repair the target with a patch."


def _downloads(scope: Scope, opened: Opened) -> str:
    names = {"html": "HTML"} if opened.material.no_body else DOWNLOADS
    links = ", ".join(
        f'<a download href="{manifest_href(scope, opened.seen, "download", to=form)}">{label}</a>'
        for form, label in names.items()
    )
    return f"<p>Download: {links}</p>\n"


def _where(opened: Opened) -> Iterator[str]:
    yield '<section aria-labelledby="where">\n<h2 id="where">Where in the key space</h2>\n'
    placed = strip_of(opened)
    if placed is None:
        yield "<p>There is no record to place.</p>\n</section>\n"
        return
    strip, exact = placed.strip, placed.at_once == 1
    used = [one for one in strip.slices if one.records]
    how = "each record is counted" if exact else f"{placed.at_once:,} records at a time count where the first one lies"
    yield f'<p class="soft">From the first key that differs to the last, in {len(strip.slices)} equal slices; {how}.</p>\n'
    yield f"{strip.svg()}\n"
    yield f'<p class="ends"><bdi>{plain(strip.label(used[0].first))}</bdi> <bdi>{plain(strip.label(used[-1].last))}</bdi></p>\n'
    labels = LABELS if exact else {ANY: "records"}
    yield '<details><summary>The same in numbers</summary><div class="scroll" tabindex="0" role="region" aria-label="Records by slice"><table><thead><tr>'
    yield '<th scope="col">first key</th><th scope="col">last key</th>'
    yield "".join(f'<th class="n" scope="col">{label}</th>' for label in labels.values()) + "</tr></thead><tbody>"
    for one in used:
        counts = "".join(f'<td class="n">{one.counts.get(name, 0):,}</td>' for name in labels)
        yield f"<tr><td>{plain(strip.label(one.first))}</td><td>{plain(strip.label(one.last))}</td>{counts}</tr>"
    yield "</tbody></table></div></details>\n</section>\n"


def patches_html(patches: list[PatchState]) -> Iterator[str]:
    """Yield what was done about the differences."""
    yield '<section aria-labelledby="patches">\n<h2 id="patches">Patches</h2>\n'
    if not patches:
        yield "<p>No patch of this manifest was begun.</p>\n</section>\n"
        return
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Patches"><table><thead><tr>'
    for name in ("patch", "side", "rule", "state", "outcomes", "log entry"):
        yield f'<th scope="col">{name}</th>'
    yield "</tr></thead><tbody>"
    for patch in patches:
        outcomes = ", ".join(f"{count:,} {name}" for name, count in patch.outcomes.items() if count) or "–"
        undoes = f'<br><span class="soft">takes back {patch.takes_back[:12]}</span>' if patch.takes_back else ""
        kind = {BEGUN: "bad", APPLIED: "good"}.get(patch.state, "soft")
        yield f'<tr><th scope="row"><span class="digest" title="{patch.patch_id}">{patch.patch_id[:12]}</span>{undoes}</th>'
        yield f"<td>{patch.side}</td><td>{plain(patch.rule)}</td>"
        yield f'<td><span class="{kind}">{patch.state}</span></td><td>{outcomes}</td><td>{patch.seq}</td></tr>'
    yield "</tbody></table></div>\n"
    for patch in patches:
        if patch.listed is not None:
            yield from _listed_html(patch, patch.listed)
    yield "</section>\n"


def _listed_html(patch: PatchState, listed: dict[str, Any]) -> Iterator[str]:
    """Yield the records that a patch left, as its ledger's sidecar lists them."""
    rows = [("conflict", row) for row in listed["conflicts"]] + [("skipped", row) for row in listed["skipped"]]
    if not rows:
        return
    title = f"Records that patch {patch.patch_id[:12]} left"
    yield f'<details><summary>{title} ({len(rows):,} shown)</summary><div class="scroll" tabindex="0" role="region"'
    yield f' aria-label="{title}"><table><thead><tr>'
    yield "".join(f'<th scope="col">{name}</th>' for name in ("outcome", "key", "reason", "before", "wanted"))
    yield "</tr></thead><tbody>"
    for outcome, row in rows:
        key = ", ".join("NULL" if part is None else str(part) for part in row["key"])
        cells = "".join(f"<td>{_cells_html(row, part)}</td>" for part in ("before", "wanted"))
        yield f'<tr><td>{outcome}</td><th scope="row"><bdi>{plain(key)}</bdi></th><td>{plain(row["reason"] or "")}</td>'
        yield f"{cells}</tr>"
    yield "</tbody></table></div></details>\n"


def _cells_html(row: dict[str, Any], part: str) -> str:
    if row.get(part) is None:
        return "no row" if row.get("columns") else "–"
    pairs = zip(row["columns"], row[part], strict=True)
    return "<br>".join(f"{plain(name)} = <bdi>{plain(jsonc.dumps(value).decode())}</bdi>" for name, value in pairs)


def manifest_document(opened: Opened, step: Step, patches: list[PatchState]) -> dict[str, object]:
    """Return the JSON form of all that the page tells of a manifest, without records."""
    material = opened.material
    placed = strip_of(opened)
    used = [] if placed is None else [one for one in placed.strip.slices if one.records]
    slices = [{"counts": one.counts, "first": one.first.hex(), "last": one.last.hex()} for one in used]
    return {
        **step.document(),
        "categories": {name: material.manifest["categories"][name]["records"] for name in CATEGORIES},
        "contract": material.contract,
        "document": material.manifest,
        "key_space": {"exact": placed is None or placed.at_once == 1, "slices": slices},
        "log": {"entries": len(material.entries), "seq": material.seqs},
        "no_body": material.no_body or None,
        "patches": [patch.document() for patch in patches],
        "schema": material.schema,
        "sidecar": material.sidecar,
        "signature": material.signature.document(),
        "structure": material.structure,
        "summary": material.summary,
    }
