"""The app that Airflow's API server mounts: every route authenticated, authorised for one Dag, and read only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import Response, StreamingResponse

from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.links import LINK_KEY
from airflow_delta_provider.plugins.caller import Caller
from airflow_delta_provider.plugins.dagscope import DagScope
from airflow_delta_provider.web import answers, routes

MAY_READ = requires_access_dag("GET", DagAccessEntity.XCOM)
"""Airflow's own rule: whoever may read the XComs of the Dag that ``dag_id`` names."""


def build_app() -> FastAPI:
    """Return the app. A mounted app inherits no guard of Airflow's, so each route here has its own."""
    app = FastAPI(dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None, lifespan=_start)
    app.middleware("http")(_safe_headers)
    for name in routes.NAMES:
        _add(app, f"/{name}", _stored(name))
    _add(app, "/run", run)
    _add(app, "/task", task)
    for name in ("/reconciliations", "/reconciliations.json"):
        app.add_api_route(name, reconciliations, methods=["GET"], response_class=Response)
    return app


def _add(app: FastAPI, path: str, endpoint: Callable[..., Any]) -> None:
    app.add_api_route(path, endpoint, methods=["GET"], dependencies=[Depends(MAY_READ)], response_class=Response)


@asynccontextmanager
async def _start(app: FastAPI) -> AsyncIterator[None]:
    """Give Airflow's dependencies what they look for in the app that they run in, and import what the pages need."""
    app.state.auth_manager = get_auth_manager()
    routes.warm_up()
    yield


async def _safe_headers(request: Request, call_next: Any) -> Any:
    response = await call_next(request)
    for header, value in answers.SAFE_HEADERS.items():
        response.headers.setdefault(header, value)
    response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'self'")
    return response


def _stored(name: str) -> Callable[..., Any]:
    def endpoint(request: Request, session: SessionDep, user: GetUserDep, dag_id: str) -> Response:
        scope = _scope(request, session, user, dag_id)
        query = {one: request.query_params.getlist(one) for one in request.query_params}
        return _response(routes.answer(name, scope, query))

    return endpoint


def _scope(request: Request, session: Any, user: Any, dag_id: str, where: Mapping[str, Any] | None = None) -> DagScope:
    return DagScope(session, [_only(request, dag_id)], {"dag_id": dag_id}, Caller(request, user), where)


def run(request: Request, session: SessionDep, user: GetUserDep, dag_id: str, run_id: str) -> Response:
    """Show the newest manifest of one run; of one that reconciled several pairs, all of them."""
    scope = _scope(request, session, user, dag_id, {"run_id": run_id})
    return _response(_newest_or_all(scope, f"Reconciliations of run {run_id}"))


def task(
    request: Request,
    session: SessionDep,
    user: GetUserDep,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: str = "-1",
) -> Response:
    """Show the manifest of one task instance; of a task that has none, those of its run.

    Airflow puts the text ``{MAP_INDEX}`` itself into the address of a task that is not mapped.
    """
    index = int(map_index) if map_index.isascii() and map_index.isdigit() and len(map_index) < 10 else -1
    where = {"run_id": run_id, "task_id": task_id, "map_index": index}
    scope = _scope(request, session, user, dag_id, where)
    if next(scope.seen(), None) is None:
        return run(request, session, user, dag_id, run_id)
    return _response(_newest_or_all(scope, f"Reconciliations of task {task_id}"))


def _newest_or_all(scope: DagScope, title: str) -> answers.Answer:
    """Return the newest manifest where all are of one pair, with the verdicts before it; else the pairs."""
    pairs, unread = scope.pairs()
    if len(pairs) != 1 or unread:
        return routes.overview(scope, False, title)
    *earlier, newest = pairs[0].manifests
    try:
        return routes.show_manifest(scope, newest.manifest, earlier=earlier)
    except DeltaError as error:
        return answers.refusal(error, False)


def reconciliations(request: Request, session: SessionDep, user: GetUserDep) -> Response:
    """Show the pairs of all Dags of which the caller may read the XComs.

    Raises: 403 where the caller may read those of no Dag.
    """
    caller = Caller(request, user)
    dag_ids = [dag_id for dag_id in _with_links(session) if caller.may_read_xcoms(dag_id)]
    if not dag_ids and not caller.may_read_any_xcoms():
        raise HTTPException(403, "Forbidden")
    scope = DagScope(session, dag_ids, {}, caller)
    return _response(routes.overview(scope, request.url.path.endswith(".json")))


def _with_links(session: Any) -> list[str]:
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    return sorted(session.scalars(select(XComModel.dag_id).where(XComModel.key == LINK_KEY).distinct()))


def _only(request: Request, dag_id: str) -> str:
    """Return the Dag that was authorised. Raises: 400 where the address names several, of which one only was."""
    if request.query_params.getlist("dag_id") != [dag_id] or dag_id in ("", "~"):
        raise HTTPException(400, "Name one Dag.")
    return dag_id


def _response(answer: answers.Answer) -> Response:
    headers = answer.all_headers
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, headers)
    return StreamingResponse(answer.body, answer.status, headers)
