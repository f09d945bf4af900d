"""The page's tables of facts: rules, schema findings, contract, evidence and run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from airflow_delta_provider.core import documents, jsonc
from airflow_delta_provider.report.material import Material
from airflow_delta_provider.report.visible import plain


def rules_html(material: Material) -> Iterator[str]:
    """Yield the rules and how many values each made equal."""
    yield '<section aria-labelledby="rules">\n<h2 id="rules">Rules</h2>\n'
    counts = {(name, position): count for name, position, count in material.summary["rules"]}
    ruled = list(documents.rules_of(material.contract))
    if not ruled:
        yield "<p>No rule: equal means equal.</p>\n</section>\n"
        return
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Rules"><table><caption>What was equal only because of a rule is counted once, for the rule that made it so.</caption>'
    yield '<thead><tr><th scope="col">column</th><th scope="col">rule</th><th class="n" scope="col">made equal</th></tr></thead><tbody>'
    for column, position, rule in ruled:
        shown = jsonc.dumps({name: part for name, part in rule.items() if part is not None and name != "rule"}).decode()
        count = counts.get((column, position))
        yield f'<tr><th scope="row">{plain(column)}</th><td>{plain(rule["rule"])} <code>{plain(shown)}</code></td>'
        yield f'<td class="n">{"–" if count is None else f"{count:,}"}</td></tr>'
    yield "</tbody></table></div>\n</section>\n"


def structure_html(material: Material) -> Iterator[str]:
    """Yield how the schemas themselves differ."""
    yield '<section aria-labelledby="schema">\n<h2 id="schema">Schema findings</h2>\n'
    if not material.structure["findings"]:
        yield "<p>Both sides have the same columns with the same types.</p>\n</section>\n"
        return
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Schema findings"><table><thead><tr><th scope="col">column</th><th scope="col">finding</th>'
    yield '<th scope="col">source type</th><th scope="col">target type</th></tr></thead><tbody>'
    for finding in material.structure["findings"]:
        types = "".join(f"<td>{plain(finding[side] or '–')}</td>" for side in ("source_type", "target_type"))
        kind = finding["kind"].replace("_", " ")
        yield f'<tr><th scope="row">{plain(finding["column"])}</th><td>{kind}</td>{types}</tr>'
    yield "</tbody></table></div>\n</section>\n"


def contract_html(material: Material) -> Iterator[str]:
    """Yield what was compared."""
    contract = material.contract
    rows: list[tuple[str, Any]] = [
        ("version", contract["version"]),
        ("values recorded", contract["detail"]),
        ("filter, source", contract["filter"]["source"] or "none"),
        ("filter, target", contract["filter"]["target"] or "none"),
        ("columns left out", ", ".join(contract["columns"]["exclude"]) or "none"),
        ("columns renamed", ", ".join(f"{a} → {b}" for a, b in contract["columns"]["map"]) or "none"),
        ("sensitive columns", ", ".join(contract["sensitive"]) or "none"),
        ("NULL keys", contract["keys"]["nulls"]),
        ("repeated keys", contract["keys"]["duplicates"]),
    ]
    yield '<section aria-labelledby="contract">\n<h2 id="contract">Contract</h2>\n' + _facts(rows) + "</section>\n"


def evidence_html(material: Material) -> Iterator[str]:
    """Yield signature, log position and digests."""
    manifest, signature = material.manifest, material.signature
    said = {
        "trusted": f'<span class="good">Signed by a trusted key</span> <span class="digest">{signature.keyid}</span>',
        "unsigned": "Not signed",
        "unchecked": "Signed; the signature was not checked when this page was written",
        "untrusted": f'<span class="bad">Signed, but by no trusted key</span>: {plain(signature.reason)}',
        "invalid": f'<span class="bad">The signature does not hold</span>: {plain(signature.reason)}',
    }[signature.status]
    yield '<section aria-labelledby="evidence">\n<h2 id="evidence">Evidence</h2>\n'
    yield f"<p>{said}.</p>\n"
    for finding in material.signature_findings:
        yield f'<p class="bad">{finding.code}: {plain(finding.sentence)}</p>\n'
    if signature.named and signature.status != "trusted":
        yield f'<p class="soft">The envelopes name key <span class="digest">{plain(", ".join(signature.named))}</span>.</p>\n'
    yield "<p>This page is no evidence: <code>airflow-delta verify</code> with the digest above, the store and a trust file is.</p>\n"
    pair_id = documents.pair_id(**manifest["pair"])
    rows = [
        ("log", f"pair {pair_id}, entry {', '.join(map(str, material.seqs)) or 'none'} of {len(material.entries)}"),
        *((name, manifest[name]["sha256"]) for name in ("schema", "contract", "structure", "summary", "body")),
        ("body root", manifest["body"]["root"]),
    ]
    yield _facts(rows) + "</section>\n"


def bound_html(material: Material) -> Iterator[str]:
    """Yield what a verdict rests on that is only probable; nothing where a run compared all values or their digests."""
    if material.bound:
        yield f'<p class="bad">This verdict is probabilistic (strategy fast). Chance of an error: {plain(material.bound)}.</p>\n'


def run_html(material: Material) -> Iterator[str]:
    """Yield the facts of the newest run."""
    yield '<section aria-labelledby="run">\n<h2 id="run">Run</h2>\n'
    sidecar = material.sidecar
    if sidecar is None:
        yield "<p>No facts of the run are stored.</p>\n</section>\n"
        return
    yield f'<p class="soft">What is true of the newest of {material.runs} runs that gave this manifest; none of it is part of the evidence.</p>\n'
    rows = [(name, part) for name, part in sidecar.items() if name not in ("for", "shards", "page_index")]
    yield _facts(rows)
    shards = sidecar.get("shards")
    if isinstance(shards, list) and shards and all(isinstance(one, dict) for one in shards):
        names = list(dict.fromkeys(name for one in shards for name in one))
        yield f'<details><summary>{len(shards)} shards</summary><div class="scroll"><table><thead><tr>'
        yield "".join(f'<th scope="col">{plain(str(name))}</th>' for name in names) + "</tr></thead><tbody>"
        for one in shards:
            yield "<tr>" + "".join(f"<td>{_fact(one.get(name))}</td>" for name in names) + "</tr>"
        yield "</tbody></table></div></details>\n"
    yield "</section>\n"


def _facts(rows: list[tuple[str, Any]]) -> str:
    shown = "".join(f'<tr><th scope="row">{plain(name)}</th><td>{_fact(part)}</td></tr>' for name, part in rows)
    return f'<div class="scroll"><table><tbody>{shown}</tbody></table></div>\n'


def _fact(part: Any) -> str:
    return plain(part if isinstance(part, str) else orjson.dumps(part).decode())
