"""Every page and JSON answer by its name: what Airflow's API server and ``serve`` mount, one table for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_delta_provider.core.errors import DeltaError, InputPolicyError, StoreMissingError, shown
from airflow_delta_provider.core.store.layout import is_pair_id
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.engine.literals import key_literals
from airflow_delta_provider.web.answers import Answer, json_answer, refusal
from airflow_delta_provider.web.downloads import download
from airflow_delta_provider.web.history import generations_of, met_in
from airflow_delta_provider.web.manifest_page import RECORDS_SHOWN, manifest_document, manifest_page
from airflow_delta_provider.web.next_step import Told
from airflow_delta_provider.web.opened import Opened, open_manifest
from airflow_delta_provider.web.pairs_page import pair_page, pairs_page
from airflow_delta_provider.web.patches import patches_of
from airflow_delta_provider.web.records import SHOWN, Query, find_records, record_at
from airflow_delta_provider.web.records_page import record_page, records_page
from airflow_delta_provider.web.scope import Scope, Seen, SeenPair, Unread
from airflow_delta_provider.web.trend import (
    RECURRENCE_RECORDS_MAX,
    pair_document,
    pair_id_of,
    steps_of,
    with_latest_counted,
)

Parameters = Mapping[str, Sequence[str]]
"""The query of a request: each name with all its values, in order."""
Route = Callable[[Scope, Parameters, bool], Answer]
KEY_CHARS_MAX = 10_000
NUMBER_DIGITS_MAX = 15


def answer(name: str, scope: Scope, parameters: Parameters) -> Answer:
    """Return the answer of one route, a refusal where it was refused; ``.json`` behind a name asks for JSON.

    Raises: KeyError for a name that is none of NAMES.
    """
    as_json = name.endswith(".json")
    route = ROUTES[name.removesuffix(".json")]
    try:
        return route(scope, parameters, as_json)
    except DeltaError as error:
        return refusal(error, as_json)


def warm_up() -> None:
    """Search for a key once: at its first text pyarrow imports what it can find, which nobody is to wait for."""
    key_literals(["0"], [LogicalType("int")], "key")


def _pairs(scope: Scope, parameters: Parameters, as_json: bool) -> Answer:
    return overview(scope, as_json)


def overview(scope: Scope, as_json: bool, title: str = "Reconciliations") -> Answer:
    """Return all pairs of a scope with their latest verdict."""
    pairs, unread = scope.pairs()
    found = []
    for one in pairs:
        try:
            found.append((one, with_latest_counted(steps_of(one.manifests))))
        except DeltaError as error:
            unread.append(Unread(one.manifests[-1], one.pair["name"], error))
    if as_json:
        told = [{"name": one.name, "error": one.error.document()} for one in unread]
        return json_answer({"pairs": [pair_document(one, steps) for one, steps in found], "unread": told})
    return pairs_page(scope, found, unread, title)


def _pair(scope: Scope, parameters: Parameters, as_json: bool) -> Answer:
    one = _find_pair(scope, _one(parameters, "pair"), _one(parameters, "store"))
    steps = steps_of(one.manifests, RECURRENCE_RECORDS_MAX)
    return json_answer(pair_document(one, steps)) if as_json else pair_page(scope, one, steps)


def _find_pair(scope: Scope, pair_id: str, store_id: str) -> SeenPair:
    if not is_pair_id(pair_id):
        raise InputPolicyError(f"{shown(pair_id)!r} is no pair id.", where="pair")
    for one in scope.pairs()[0]:
        if one.pair_id == pair_id and store_id in ("", one.manifests[-1].store_id):
            return one
    raise StoreMissingError(f"There is no pair {pair_id} here.", where="pair")


def _manifest(scope: Scope, parameters: Parameters, as_json: bool) -> Answer:
    return show_manifest(scope, _one(parameters, "manifest"), as_json)


def show_manifest(scope: Scope, manifest_id: str, as_json: bool = False, earlier: Sequence[Seen] = ()) -> Answer:
    """Return one manifest; ``earlier`` are those of its pair that its run published before."""
    opened = open_manifest(scope.find(manifest_id))
    *before, step = steps_of([*earlier, opened.seen])
    settled = [(one, patches_of(open_manifest(one.seen).material)) for one in before]
    told = Told(step, patches_of(opened.material), scope.around(opened.seen), settled)
    if as_json:
        return json_answer(manifest_document(opened, told))
    first = None if opened.index is None else find_records(opened, Query(count=RECORDS_SHOWN))
    return manifest_page(scope, opened, told, first)


def _records(scope: Scope, parameters: Parameters, as_json: bool) -> Answer:
    opened = _opened(scope, parameters)
    query = _query(parameters)
    found = find_records(opened, query)
    return json_answer(found.document()) if as_json else records_page(scope, opened, query, found)


def _record(scope: Scope, parameters: Parameters, as_json: bool) -> Answer:
    opened = _opened(scope, parameters)
    number = _number(parameters, "record", None)
    record = record_at(opened, number)
    sort_key = bytes.fromhex(record["sort_key"])
    met = met_in(scope.siblings(opened.seen, pair_id_of(opened.material.manifest)), opened, sort_key)
    generations: list[dict[str, Any]] = generations_of(opened.material, sort_key) if opened.material.sweep else []
    if as_json:
        history = {"generations": generations, "manifests": [one.document() for one in met]}
        return json_answer({"history": history, "number": number, "record": record})
    return record_page(scope, opened, number, record, met, generations)


def _download(scope: Scope, parameters: Parameters, as_json: bool) -> Answer:
    return download(_opened(scope, parameters).material, _one(parameters, "to"))


def _opened(scope: Scope, parameters: Parameters) -> Opened:
    return open_manifest(scope.find(_one(parameters, "manifest")))


def _query(parameters: Parameters) -> Query:
    key = [text[:KEY_CHARS_MAX] for text in parameters.get("key", ())]
    while key and key[-1] == "":
        key.pop()
    if "" in key:
        raise InputPolicyError("A key is searched from its first column on: fill in the fields before.", where="key")
    return Query(
        tuple(key),
        _one(parameters, "category"),
        _one(parameters, "column"),
        _number(parameters, "start", 0),
        _number(parameters, "count", SHOWN),
    )


def _one(parameters: Parameters, name: str) -> str:
    values = parameters.get(name) or ("",)
    return values[-1]


def _number(parameters: Parameters, name: str, default: int | None) -> int:
    text = _one(parameters, name)
    if text == "" and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        raise InputPolicyError(f"{name} is {shown(text)!r}, which is no number.", where=name)
    return int(text)


ROUTES: dict[str, Route] = {
    "download": _download,
    "manifest": _manifest,
    "pair": _pair,
    "pairs": _pairs,
    "record": _record,
    "records": _records,
}
WITHOUT_JSON = ("download",)
NAMES = tuple(name for route in ROUTES for name in ((route,) if route in WITHOUT_JSON else (route, f"{route}.json")))
"""Every route, with and without ``.json``."""
