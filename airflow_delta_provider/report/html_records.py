"""The records of the page: key, category, and each column with both sides next to each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from airflow_delta_provider.report import visible
from airflow_delta_provider.report.cells import ABSENT, JSON, NULL, Cell, cells_of

SEARCH_CHARS_MAX = 500
LABELS = {"added": "added", "dropped": "dropped", "value_diverged": "value diverged"}


def record_html(
    record: dict[str, Any], number: int, columns: list[str], key_columns: list[str], more_html: str = ""
) -> Iterator[str]:
    """Yield the HTML of one record; ``more_html`` stands below its values."""
    cells = list(cells_of(record, columns))
    category, label = record["category"], LABELS[record["category"]]
    named = [cell.column for cell in cells if cell.column is not None] if category == "value_diverged" else columns
    text = _search_text(record, named if category == "value_diverged" else [])
    yield (
        f'<details class="record" data-category="{category}" data-columns="{escape(json.dumps(named))}" '
        f'data-text="{escape(text)}"{" open" if category == "value_diverged" else ""}>'
    )
    yield f'<summary><span class="badge {category}">{label}</span> {key_html(record, key_columns)} '
    yield f'<span class="soft digest" title="record {number}, id {record["id"]}">{record["id"][:24]}</span></summary>'
    yield '<div class="scroll"><table><thead><tr><th scope="col">column</th><th scope="col">source</th>'
    yield '<th scope="col">target</th></tr></thead><tbody>'
    for cell in cells:
        name = "whole row" if cell.column is None else visible.plain(cell.column)
        source, target = _sides(cell)
        yield f'<tr><th scope="row">{name}</th><td class="value" data-side="source">{source}</td>'
        yield f'<td class="value" data-side="target">{target}</td></tr>'
    yield f"</tbody></table></div>{more_html}</details>\n"


def key_html(record: dict[str, Any], key_columns: list[str]) -> str:
    """Return the key of a record, each column by its name."""
    return "; ".join(_key_part(name, part) for name, part in zip(key_columns, record["key"], strict=True))


def _key_part(name: str, part: Any) -> str:
    shown = '<i class="told">NULL</i>' if part is None else f"<bdi>{visible.value(_text(part))}</bdi>"
    return f"{visible.plain(name)} = {shown}"


def _text(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part)


def _search_text(record: dict[str, Any], named: list[str]) -> str:
    """Return what the search box looks through: key, category, diverged columns and id, in lower case."""
    key = " ".join("null" if part is None else _text(part)[:SEARCH_CHARS_MAX] for part in record["key"])
    return " ".join([key, record["category"], LABELS[record["category"]], *named, record["id"]]).lower()


def _sides(cell: Cell) -> tuple[str, str]:
    told = _told(cell.source, cell.source_form), _told(cell.target, cell.target_form)
    if told == (None, None):
        return visible.pair(str(cell.source), str(cell.target))
    return (
        told[0] if told[0] is not None else visible.value(str(cell.source)),
        told[1] if told[1] is not None else visible.value(str(cell.target)),
    )


def _told(text: str | None, form: str) -> str | None:
    """Return what stands for a value that is not there in clear, None where it is."""
    if form == ABSENT:
        return '<i class="told">no such row</i>'
    if form == NULL:
        return '<i class="told">NULL</i>'
    if form != JSON or text is None or not text.startswith("{"):
        return None
    value = json.loads(text)
    if "hmac" in value:
        return (
            f'<i class="told">keyed digest</i> {escape(value["hmac"])} <i class="told">key {escape(value["key"])}</i>'
        )
    if "omitted" in value:
        return '<i class="told">not recorded</i>'
    if "sha256" in value:
        return (
            f'<i class="told">{value["bytes"]:,} bytes, too long to be recorded; SHA-256</i> {escape(value["sha256"])}'
        )
    if "row_digest" in value:
        return f'<i class="told">row digest</i> {escape(value["row_digest"])}'
    if "unparsed" in value:
        return f'<i class="told">did not parse:</i> {visible.value(value["unparsed"])}'
    return f'<i class="told">no valid Unicode, bytes</i> {visible.value(value["wtf8"])}'
