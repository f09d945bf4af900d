"""What people and pages see of a ledger, in the detail that was asked for; the ledger itself always has one form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from airflow_delta_provider.core import checkpoint, ids, jsonc
from airflow_delta_provider.core.errors import HmacKeyError
from airflow_delta_provider.core.patch import Row
from airflow_delta_provider.core.patch_rows import RowForms
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.finish import Ending
from airflow_delta_provider.engine.patching.prepare import Before

WITH_ROWS = ("digests", "values")
"""Details under which a listed record shows its row."""
VIEW_ROWS_MAX = 100
"""Records of a kind that the sidecar of a ledger lists for the page."""
VIEW_BYTES_MAX = 2**19

Seen = tuple[dict[str, Any], Row, Row]
"""A record, its row before in clear, and the wanted row in recorded form; no row is None."""


def check_detail(context: Context, detail: str) -> None:
    """Refuse digests without a key, before anything is written. Raises: HmacKeyError (DELTA_HMAC_KEY)."""
    if detail == "digests" and context.hmac_key is None:
        raise HmacKeyError("ledger_detail digests shows keyed digests.", where="ledger_detail")


def patched(before: Before) -> Iterator[Seen]:
    """Yield every record of a patch with the row before; the wanted values are those of the record."""
    other = before.context.rule.other
    for lines in before.lines():
        for record, point, _ in lines:
            yield record, point, record[f"{other}_value"]


def taken_back(old: Before, now: Before, forms: RowForms) -> Iterator[Seen]:
    """Yield every record of a rollback with the row before it; wanted is the row before the patch."""
    for old_lines, now_lines in zip(old.lines(), now.lines(), strict=True):
        for (record, was, _), (_, is_now, _) in zip(old_lines, now_lines, strict=True):
            row = forms.recorded(was)
            names = record.get("columns")
            if row is not None and names:
                row = [row[forms.places[name]] for name in names]
            yield record, is_now, row


def show(context: Context, ending: Ending, detail: str, seen: Callable[[], Iterable[Seen]], forms: RowForms) -> None:
    """Give the listed records of an ending the detail, and leave what a page shows in a sidecar of the ledger.

    A sensitive column stands as its keyed digest in every detail, as in the manifest.
    """
    ending.detail = detail
    listed = [*ending.conflicts, *ending.skipped]
    ending.shown = add_rows(context, listed, detail, seen, forms)
    if ending.ledger is not None and listed:
        _publish(context, ending, detail)


def add_rows(
    context: Context,
    listed: list[dict[str, Any]],
    detail: str,
    seen: Callable[[], Iterable[Seen]],
    forms: RowForms,
) -> dict[str, dict[str, Any]]:
    """Give listed records what the detail shows of their rows; return that by record id."""
    wanted = {row["id"] for row in listed} if detail in WITH_ROWS else set()
    shown = {}
    if wanted:
        for record, before, after in seen():
            if record["id"] in wanted:
                shown[record["id"]] = _row(context, forms, detail, record, before, after)
    for row in listed:
        row.update(shown.get(row["id"], {}))
    return shown


def _row(context: Context, forms: RowForms, detail: str, record: Mapping[str, Any], before: Row, after: Row) -> Any:
    names = record.get("columns") or [column.name for column in forms.columns]
    clear = None if before is None else [before[forms.places[name]] for name in names]
    if detail == "values":
        shown = None if clear is None else [forms.recorded_value(*pair) for pair in zip(names, clear, strict=True)]
        return {"before": shown, "columns": list(names), "wanted": after}
    digests = [
        None if row is None else [_digest(context, name, value) for name, value in zip(names, row, strict=True)]
        for row in (clear, after)
    ]
    return {"before": digests[0], "columns": list(names), "wanted": digests[1]}


def _digest(context: Context, name: str, value: Any) -> Any:
    """Return a value as its keyed digest; what is recorded as a digest stays that."""
    if isinstance(value, dict) and ({"hmac", "sha256"} & value.keys()):
        return value
    key = context.hmac_key
    if key is None:
        raise HmacKeyError("ledger_detail digests shows keyed digests.", where="ledger_detail")
    return {"hmac": ids.hmac_values(key.secret, name)(jsonc.dumps_checked(value)), "key": key.key_id}


def _publish(context: Context, ending: Ending, detail: str) -> None:
    kept = {"conflicts": ending.conflicts[:VIEW_ROWS_MAX], "skipped": ending.skipped[:VIEW_ROWS_MAX]}
    if detail == "counts":
        kept = {name: [] for name in kept}
    while True:
        data = jsonc.dumps_checked({"for": ending.ledger, "ledger_view": {"detail": detail, **kept}})
        if len(data) <= VIEW_BYTES_MAX:
            break
        kept = {name: rows[: len(rows) // 2] for name, rows in kept.items()}
    checkpoint.log_once(context.store, context.pair_id, "sidecar", blobs.put_blob(context.store, data))
