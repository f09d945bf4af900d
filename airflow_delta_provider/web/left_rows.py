"""The records that a patch left: what stood in the way, and what was there and what was wanted, as far as the ledger says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.report.visible import plain
from airflow_delta_provider.web.patches import PatchState


def listed_html(patch: PatchState, listed: dict[str, Any]) -> Iterator[str]:
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
