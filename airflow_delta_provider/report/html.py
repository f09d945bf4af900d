"""A manifest as one page that needs no network: totals, columns, rules, evidence, and the records side by side."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from html import escape
from importlib import resources
from types import MappingProxyType
from typing import Any, BinaryIO

from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.core.types import from_schema
from airflow_delta_provider.report.html_facts import (
    bound_html,
    contract_html,
    evidence_html,
    rules_html,
    run_html,
    structure_html,
)
from airflow_delta_provider.report.html_records import LABELS, record_html
from airflow_delta_provider.report.material import Material
from airflow_delta_provider.report.strip import KeyStrip
from airflow_delta_provider.report.visible import bare, plain

RECORDS_SHOWN = 2_000
TAIL_BYTES = 2**20
_MARK = b',"sort_key":"'
NO_LINKS: Mapping[str, str] = MappingProxyType({})


def write_html(material: Material, file: BinaryIO, records_shown: int = RECORDS_SHOWN) -> None:
    """Write the page. The caller has checked the body; the same store gives the same bytes."""
    for part in _page(material, records_shown):
        file.write(part.encode())


def _page(material: Material, records_shown: int) -> Iterator[str]:
    css, js = _asset("page.css"), _asset("page.js")
    name = plain(material.manifest["pair"]["name"])
    policy = (
        f"default-src 'none'; style-src 'sha256-{_sha(css)}'; script-src 'sha256-{_sha(js)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
    yield f"<title>{bare(material.manifest['pair']['name'])}: delta manifest</title>\n<style>{css}</style>\n</head>\n<body>\n"
    yield '<a class="skip" href="#records">To the records</a>\n'
    sections = _sections(material, records_shown)
    yield from _header(material, name)
    yield f"{contents_html(sections)}</header>\n<main>\n"
    for section in sections.values():
        yield from section
    yield f"</main>\n<script>{js}</script>\n</body>\n</html>\n"


def _sections(material: Material, records_shown: int) -> dict[str, Iterator[str]]:
    """Return the sections by their anchors, in the order in which they stand on the page and in its contents."""
    where = {} if material.no_body else {"where": _strip(material)}
    return {
        "totals": totals_html(material),
        "columns": columns_html(material),
        **where,
        "rules": rules_html(material),
        "schema": structure_html(material),
        "contract": contract_html(material),
        "evidence": evidence_html(material),
        "run": run_html(material),
        "records": _records(material, records_shown),
    }


def contents_html(anchors: Iterable[str]) -> str:
    """Return links to the sections of a page, named by their anchors."""
    links = "".join(f'<li><a href="#{anchor}">{anchor.capitalize()}</a></li>' for anchor in anchors)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'


@cache
def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


def _sha(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(material: Material, name: str) -> Iterator[str]:
    pair, records = material.manifest["pair"], material.manifest["body"]["records"]
    yield f"<header>\n<h1>{name}: {plain(pair['source'])} → {plain(pair['target'])}</h1>\n"
    verdict = (
        '<span class="good">no row differs</span>'
        if not records
        else f'<span class="bad">{records:,} rows differ</span>'
    )
    yield f'<p>{verdict} · manifest <span class="digest">{material.manifest_id}</span></p>\n'
    yield from bound_html(material)
    lower, upper = (material.manifest["key_range"][bound] for bound in ("lower", "upper"))
    if (lower, upper) != (None, None):
        yield f'<p class="bad">Only a part of the key space: from <code>{lower or "its start"}</code> to before <code>{upper or "its end"}</code>.</p>\n'


def totals_html(material: Material, links: Mapping[str, str] = NO_LINKS) -> Iterator[str]:
    """Yield the counts of all rows of both sides, and whether they add up; ``links`` lead to the records of a category."""
    manifest = material.manifest
    population, categories = manifest["population"], manifest["categories"]
    yield '<section aria-labelledby="totals">\n<h2 id="totals">Totals</h2>\n<ul class="tiles">'
    yield f"<li><strong>{population['unchanged']:,}</strong>unchanged</li>"
    for name in CATEGORIES:
        count = categories[name]["records"]
        strong = f'<strong class="badge {name}">' if count else "<strong>"
        yield f"<li>{_linked(f'{strong}{count:,}</strong>{LABELS[name]}', links.get(name))}</li>"
    yield "</ul>\n"
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Every row of both sides"><table>'
    yield "<caption>Every row that was read is in one line; each column adds up to the rows read.</caption>"
    yield '<thead><tr><th scope="col">rows</th><th class="n" scope="col">source</th><th class="n" scope="col">target</th></tr></thead><tbody>'
    diverged, failed = categories["value_diverged"]["records"], manifest.get("sweep", {}).get("failed", 0)
    lines: list[tuple[str, int, int]] = [
        ("unchanged", population["unchanged"], population["unchanged"]),
        ("value diverged", diverged, diverged),
        ("dropped: only in the source", categories["dropped"]["records"], 0),
        ("added: only in the target", 0, categories["added"]["records"]),
        *(
            (label, population["source"][member], population["target"][member])
            for member, label in (
                ("null_key", "set aside: NULL key"),
                ("duplicate_key", "set aside: repeated key"),
                ("skipped", "left out by the filter"),
            )
        ),
    ]
    if material.sweep:
        lines.append(("failed: a value was refused", 0, failed))
    for label, source, target in lines:
        yield f'<tr><th scope="row">{label}</th><td class="n">{source:,}</td><td class="n">{target:,}</td></tr>'
    sums = [sum(source for _, source, _ in lines), sum(target for _, _, target in lines)]
    rows = [population[side]["rows"] for side in ("source", "target")]
    holds = "adds up" if sums == rows else "DOES NOT ADD UP"
    yield f'<tr class="sum"><th scope="row">rows read ({holds})</th><td class="n">{rows[0]:,}</td><td class="n">{rows[1]:,}</td></tr>'
    yield "</tbody></table></div>\n</section>\n"


def columns_html(material: Material, links: Mapping[str, str] = NO_LINKS) -> Iterator[str]:
    """Yield how many values of each column diverged, or were equal only by a rule; ``links`` lead to its records."""
    yield '<section aria-labelledby="columns">\n<h2 id="columns">Columns</h2>\n'
    if material.sweep:
        yield "<p>A sweep compares row digests: which column changed is not known.</p>\n</section>\n"
        return
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Differences by column"><table><thead><tr><th scope="col">column</th>'
    yield '<th scope="col">compared as</th><th class="n" scope="col">diverged</th><th class="n" scope="col">equal only by a rule</th></tr></thead><tbody>'
    for name, kind in material.schema["key"]:
        yield f'<tr><th scope="row">{plain(name)}</th><td>{_type(kind)} (key)</td><td class="n">–</td><td class="n">–</td></tr>'
    for name, diverged, tolerated in material.summary["columns"]:
        count = _linked(f'<span class="bad">{diverged:,}</span>', links.get(name)) if diverged else "0"
        kind = _type(material.types[name])
        yield f'<tr><th scope="row">{plain(name)}</th><td>{kind}</td><td class="n">{count}</td><td class="n">{tolerated:,}</td></tr>'
    yield "</tbody></table></div>\n</section>\n"


def _linked(html: str, link: str | None) -> str:
    return f'<a href="{link}">{html}</a>' if link else html


def _type(kind: Any) -> str:
    return plain(from_schema(kind).text)


def _strip(material: Material) -> Iterator[str]:
    yield '<section aria-labelledby="where">\n<h2 id="where">Where in the key space</h2>\n'
    strip = _counted(material)
    if strip is None:
        yield "<p>No row differs, so there is nothing to place.</p>\n</section>\n"
        return
    used = [one for one in strip.slices if one.records]
    yield f'<p class="soft">From the first key that differs to the last, in {len(strip.slices)} equal slices; all {material.manifest["body"]["records"]:,} records are counted.</p>\n'
    yield f"{strip.svg()}\n"
    yield f'<p class="ends"><bdi>{plain(strip.label(used[0].first))}</bdi> <bdi>{plain(strip.label(used[-1].last))}</bdi></p>\n'
    yield '<details><summary>The same in numbers</summary><div class="scroll"><table><thead><tr><th scope="col">first key</th><th scope="col">last key</th>'
    yield "".join(f'<th class="n" scope="col">{LABELS[name]}</th>' for name in CATEGORIES) + "</tr></thead><tbody>"
    for one in used:
        counts = "".join(f'<td class="n">{count:,}</td>' for count in one.counts.values())
        yield f"<tr><td>{plain(strip.label(one.first))}</td><td>{plain(strip.label(one.last))}</td>{counts}</tr>"
    yield "</tbody></table></div></details>\n</section>\n"


def _counted(material: Material) -> KeyStrip | None:
    """Return the strip over all records; key and category are cut out of the canonical lines without parsing them."""
    strip: KeyStrip | None = None
    types = [from_schema(kind) for kind in material.manifest["key"]["types"]]
    for line in material.lines():
        sort_key = _sort_key(line)
        if strip is None:
            strip = KeyStrip(sort_key, _sort_key(_last_line(material)), types)
        strip.add(sort_key, line[13 : line.index(b'"', 13)].decode())
    return strip


def _sort_key(line: bytes) -> bytes:
    start = line.index(_MARK) + len(_MARK)
    return bytes.fromhex(line[start : line.index(b'"', start)].decode())


def _last_line(material: Material) -> bytes:
    size, taken = material.manifest["body"]["bytes"], TAIL_BYTES
    with closing(material.open_body()) as stream:
        while True:
            stream.seek(max(size - taken, 0))
            tail = stream.read(taken).removesuffix(b"\n")
            if b"\n" in tail or taken >= size:
                return tail.rpartition(b"\n")[2]
            taken *= 8


def _records(material: Material, records_shown: int) -> Iterator[str]:
    total = material.manifest["body"]["records"]
    yield '<section aria-labelledby="records">\n<h2 id="records" tabindex="-1">Records</h2>\n'
    if material.no_body:
        why = {"counts": "The contract publishes counts only.", "retired": "The body was retired; its log says so."}
        yield f"<p>{why[material.no_body]}</p>\n</section>\n"
        return
    count = min(total, records_shown)
    said = (
        f"All {total:,} records are on this page."
        if count == total
        else f"The first {count:,} of {total:,} records are on this page."
    )
    yield '<div class="filter" hidden><div class="grow"><label for="search">Search key, column, category or id ( / )</label>'
    yield '<input id="search" type="search" autocomplete="off" spellcheck="false"></div>'
    yield '<div><label for="category">Category</label><select id="category"><option value="">all</option>'
    yield "".join(f'<option value="{name}">{LABELS[name]}</option>' for name in CATEGORIES) + "</select></div>"
    yield '<div><label for="column">Column</label><select id="column"><option value="">all</option>'
    yield "".join(f'<option value="{escape(name)}">{bare(name)}</option>' for name in material.columns)
    yield f'</select></div><output id="count" aria-live="polite" data-all="{said}">{said}</output></div>\n'
    yield f"<noscript><p>{said}</p></noscript>\n"
    columns, keys = material.columns, material.manifest["key"]["columns"]
    for number, record in enumerate(material.records()):
        if number >= count:
            break
        yield from record_html(record, number, columns, keys)
    yield "</section>\n"
