"""The records of a manifest: the search form, a page of them, and one record with the history of its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.report.html_records import LABELS, key_html, record_html
from airflow_delta_provider.report.visible import bare, plain
from airflow_delta_provider.web.answers import Answer, page
from airflow_delta_provider.web.history import Met
from airflow_delta_provider.web.layout import crumbs, digest_link, hidden_fields, href, manifest_href
from airflow_delta_provider.web.opened import Opened
from airflow_delta_provider.web.records import SHOWN, Found, Query
from airflow_delta_provider.web.scope import Scope
from airflow_delta_provider.web.trend import pair_id_of

KEYS = (
    '<p class="soft">Keys: <kbd class="key">/</kbd> search, <kbd class="key">n</kbd> next records, '
    '<kbd class="key">p</kbd> records before.</p>\n'
)
REL = {"": "", "next": ' rel="next"', "prev": ' rel="prev"'}


def records_page(scope: Scope, opened: Opened, query: Query, found: Found) -> Answer:
    """Return the page of some records."""
    inner = [
        _crumbs(scope, opened, "Records"),
        f'<main id="main" tabindex="-1">\n<h1>{_title(opened)}</h1>\n',
        form_html(scope, opened, query),
        *list_html(scope, opened, found, query),
        "</main>\n",
    ]
    return page(f"{opened.material.manifest['pair']['name']}: records", "".join(inner))


def _title(opened: Opened) -> str:
    pair = opened.material.manifest["pair"]
    return f"{plain(pair['name'])}: {opened.records:,} {'record' if opened.records == 1 else 'records'}"


def _crumbs(scope: Scope, opened: Opened, last: str) -> str:
    manifest = opened.material.manifest
    return crumbs(
        [
            ("All pairs", href("pairs", scope.params)),
            (manifest["pair"]["name"], href("pair", {"pair": pair_id_of(manifest)}, scope.params, opened.seen.params)),
            ("Manifest", manifest_href(scope, opened.seen)),
            (last, ""),
        ]
    )


def form_html(scope: Scope, opened: Opened, query: Query | None = None) -> str:
    """Return the search form: one field for each key column, category, and column."""
    query = query or Query()
    material = opened.material
    fields = []
    names = material.manifest["key"]["columns"]
    for place, (name, kind) in enumerate(zip(names, opened.key_types, strict=True)):
        value = query.key[place] if place < len(query.key) else ""
        search = ' data-search="1"' if place == 0 else ""
        fields.append(
            f'<div class="grow"><label for="key{place}">Key {plain(name)} <span>({plain(kind.text)})</span></label>'
            f'<input id="key{place}" name="key" type="search" autocomplete="off" spellcheck="false"{search} '
            f'value="{escape(value)}"></div>'
        )
    fields.append(_choice("category", "Category", [(name, LABELS[name]) for name in CATEGORIES], query.category))
    columns = [(name, bare(name)) for name, diverged, _ in material.summary["columns"] if diverged]
    if columns:
        fields.append(_choice("column", "Diverging column", columns, query.column))
    carried = hidden_fields({"manifest": opened.seen.manifest}, scope.params, opened.seen.params)
    return (
        f'<form class="filter" method="get" action="records" role="search" aria-label="Find records">{carried}'
        f'{"".join(fields)}<div><button type="submit">Find</button></div></form>\n'
    )


def _choice(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> str:
    shown = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{text}</option>'
        for value, text in [("", "all"), *options]
    )
    return f'<div><label for="{name}">{label}</label><select id="{name}" name="{name}">{shown}</select></div>'


def list_html(scope: Scope, opened: Opened, found: Found, query: Query | None = None) -> Iterator[str]:
    """Yield some records, and the way to the others."""
    query = query or Query()
    material = opened.material
    yield f'<p role="status">{_told(opened, found, query)}</p>\n'
    columns, keys = material.columns, material.manifest["key"]["columns"]
    for number, record in found.records:
        link = manifest_href(scope, opened.seen, "record", record=str(number))
        more = f'<p class="more"><a href="{link}">Record {number:,}: history of its key</a></p>'
        shown = record_html(record, number, columns, keys, more)
        yield from _unfolded(shown) if found.exact and number == found.start else shown
    yield _paging(scope, opened, found, query)


def _told(opened: Opened, found: Found, query: Query) -> str:
    told = {True: "The key is among the records. ", False: "No record has this key. ", None: ""}[found.exact]
    if not found.records:
        more = "No record fits so far; many are left to look through." if not found.scanned_all else "No record fits."
        return told + more
    first, last = found.records[0][0], found.records[-1][0]
    if query.filtered:
        return (
            f"{told}{len(found.records):,} {'record that fits' if len(found.records) == 1 else 'records that fit'}, "
            f"from number {first:,} to {last:,} of {opened.records:,}."
        )
    return f"{told}Records {first:,} to {last:,} of {opened.records:,}, numbered from 0, in key order."


def _paging(scope: Scope, opened: Opened, found: Found, query: Query) -> str:
    kept = {"category": query.category, "column": query.column}
    links = []
    if found.start > 0 or query.key:
        links.append(("First records", "", manifest_href(scope, opened.seen, "records", **kept)))
    if found.start > 0 and not query.filtered:
        start = str(max(found.start - SHOWN, 0))
        links.append(("Records before", "prev", manifest_href(scope, opened.seen, "records", start=start, **kept)))
    if found.next is not None:
        text = "Next records" if found.scanned_all else "Look further"
        links.append((text, "next", manifest_href(scope, opened.seen, "records", start=str(found.next), **kept)))
    items = "".join(f'<li><a{REL[rel]} href="{link}">{text}</a></li>' for text, rel, link in links)
    return f'<nav aria-label="Pages of records"><ul>{items}</ul></nav>\n{KEYS}' if items else ""


def record_page(
    scope: Scope,
    opened: Opened,
    number: int,
    record: dict[str, Any],
    met: Sequence[Met],
    generations: Sequence[dict[str, Any]],
) -> Answer:
    """Return the page of one record and the history of its key."""
    material = opened.material
    inner = [
        _crumbs(scope, opened, f"Record {number:,}"),
        f'<main id="main" tabindex="-1">\n<h1>Record {number:,}: {key_html(record, material.manifest["key"]["columns"])}</h1>\n',
        *_unfolded(record_html(record, number, material.columns, material.manifest["key"]["columns"])),
        *_met_html(scope, met),
        *_generations_html(generations),
        f'<p class="soft">Record id <span class="digest">{record["id"]}</span></p>\n</main>\n',
    ]
    return page(f"Record {number}", "".join(inner))


def _unfolded(parts: Iterator[str]) -> Iterator[str]:
    """Yield a record unfolded, whatever its category."""
    first = next(parts)
    yield first if first.endswith(" open>") else f"{first.removesuffix('>')} open>"
    yield from parts


def _met_html(scope: Scope, met: Sequence[Met]) -> Iterator[str]:
    yield '<section aria-labelledby="history">\n<h2 id="history">This key in the manifests of the pair</h2>\n'
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Manifests"><table><thead><tr><th scope="col">manifest, oldest first</th>'
    yield '<th scope="col">this key</th></tr></thead><tbody>'
    for one in met:
        told = '<span class="good">no difference recorded</span>'
        if one.category:
            link = manifest_href(scope, one.seen, "record", record=str(one.number))
            told = f'<a href="{link}"><span class="badge {one.category}">{LABELS[one.category]}</span></a>'
        yield f'<tr><th scope="row">{digest_link(scope, one.seen)}</th><td>{told}</td></tr>'
    yield "</tbody></table></div>\n</section>\n"


def _generations_html(generations: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not generations:
        return
    yield '<section aria-labelledby="generations">\n<h2 id="generations">This key over generations</h2>\n'
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Generations"><table><thead><tr>'
    for name in ("generation", "disposition", "version", "row digest", "digest before"):
        yield f'<th scope="col">{name}</th>'
    yield "</tr></thead><tbody>"
    for one in generations:
        disposition = one["disposition"] or "not known yet"
        reason = f" ({plain(one['reason'])})" if one.get("reason") else ""
        yield f'<tr><th scope="row">{one["generation"]}</th><td>{plain(disposition)}{reason}</td>'
        yield f"<td>{one.get('version', '–')}</td>"
        for member in ("row_digest", "previous"):
            digest = one.get(member)
            yield f'<td><span class="digest" title="{digest}">{digest[:16]}</span></td>' if digest else "<td>–</td>"
        yield "</tr>"
    yield "</tbody></table></div>\n</section>\n"
