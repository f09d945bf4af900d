"""What a Dag may show: the manifests that its own tasks left a link to in their XComs, and no other digest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import DeltaError, StoreMissingError
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.links import LINK_KEY, manifest_of_link
from airflow_delta_provider.plugins.around import around_of
from airflow_delta_provider.plugins.caller import Caller
from airflow_delta_provider.web.scope import TREND_MANIFESTS_MAX, Around, Seen, SeenPair, Unread
from airflow_delta_provider.web.trend import measured_of

OVERVIEW_MANIFESTS_MAX = 300
ROWS_AT_ONCE = 500


class DagScope:
    """The manifests of some Dags, of which the caller may read the XComs.

    :param session: session of Airflow's metadata database.
    :param dag_ids: the Dags; each must have been authorised.
    :param params: what every link carries on.
    :param caller: who asks.
    :param where: further members of a task instance, such as ``run_id``.
    """

    def __init__(
        self,
        session: Any,
        dag_ids: Sequence[str],
        params: Mapping[str, str],
        caller: Caller,
        where: Mapping[str, Any] | None = None,
    ) -> None:
        self._session, self._dag_ids, self._caller, self._where = session, list(dag_ids), caller, dict(where or {})
        self.params = params
        self._stores: dict[str, tuple[Store, Trust | None]] = {}

    def seen(self) -> Iterator[Seen | Unread]:
        """Yield the manifests, the one that was shown last first, each once; its task is the first of that run to show it."""
        known: set[tuple[str, str]] = set()
        for _, rows in itertools.groupby(self._links(), lambda row: (row.dag_id, row.run_id)):
            first: dict[tuple[str, str], Any] = {}
            shown: dict[tuple[str, str], None] = {}
            for row in rows:
                found = manifest_of_link(_value(row))
                if found is not None and found not in known:
                    first.setdefault(found, row)
                    shown.pop(found, None)
                    shown[found] = None
            known.update(first)
            for found in reversed(shown):
                try:
                    yield self._seen(first[found], *found)
                except DeltaError as error:
                    yield Unread(None, f"{first[found].dag_id} {found[0][:12]}", error)

    def pairs(self) -> tuple[list[SeenPair], list[Unread]]:
        """Return the pairs of the newest manifests, the one with the newest first."""
        groups: dict[tuple[str, str], tuple[dict[str, str], list[Seen]]] = {}
        unread: list[Unread] = []
        for number, one in enumerate(self.seen()):
            if number == OVERVIEW_MANIFESTS_MAX:
                break
            if isinstance(one, Unread):
                unread.append(one)
                continue
            try:
                pair = measured_of(one).manifest["pair"]
            except DeltaError as error:
                unread.append(Unread(one, one.manifest[:12], error))
                continue
            group = groups.setdefault((one.store_id, documents.pair_id(**pair)), (pair, []))
            if len(group[1]) < TREND_MANIFESTS_MAX:
                group[1].append(one)
        pairs = [SeenPair(pair_id, pair, list(reversed(seen))) for (_, pair_id), (pair, seen) in groups.items()]
        return pairs, unread

    def find(self, manifest_id: str) -> Seen:
        """Return one manifest that a task of these Dags left a link to."""
        for row in self._links():
            found = manifest_of_link(_value(row))
            if found is not None and found[0] == manifest_id:
                return self._seen(row, *found)
        raise StoreMissingError("This Dag has no such manifest.", where="manifest")

    def siblings(self, seen: Seen, pair_id: str) -> Sequence[Seen]:
        """Return the manifests of a pair that these Dags published, oldest first."""
        for one in self.pairs()[0]:
            if one.pair_id == pair_id and one.manifests[-1].store_id == seen.store_id:
                return one.manifests
        return [seen]

    def around(self, seen: Seen) -> Around:
        """Return approvals and asset events of the run that showed a manifest, as far as the caller may see them."""
        return around_of(self._session, self._caller, seen)

    def _links(self) -> Iterator[Any]:
        """Yield the links of the run that left the newest one first, of each run in the order in which they were left."""
        from airflow.models.xcom import XComModel
        from sqlalchemy import func, select

        newest = func.max(XComModel.timestamp).over(partition_by=(XComModel.dag_id, XComModel.run_id))
        query = (
            select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.value)
            .where(XComModel.key == LINK_KEY, XComModel.dag_id.in_(self._dag_ids))
            .order_by(newest.desc(), XComModel.dag_run_id.desc(), XComModel.timestamp, XComModel.map_index)
            .execution_options(yield_per=ROWS_AT_ONCE)
        )
        for name, value in self._where.items():
            query = query.where(getattr(XComModel, name) == value)
        yield from self._session.execute(query)

    def _seen(self, row: Any, manifest: str, store_id: str) -> Seen:
        store, trust = self._store(store_id)
        origin = {name: str(getattr(row, name)) for name in ("dag_id", "run_id", "task_id", "map_index")}
        return Seen(manifest, store, store_id, origin, {"dag_id": row.dag_id, "store": store_id}, trust)

    def _store(self, conn_id: str) -> tuple[Store, Trust | None]:
        if conn_id not in self._stores:
            self._stores[conn_id] = open_store_of(conn_id)
        return self._stores[conn_id]


def open_store_of(conn_id: str) -> tuple[Store, Trust | None]:
    """Return the store of a connection, and whom its signatures are checked against, None where this host cannot tell.

    Raises: StoreMissingError where there is no such connection, or it is of another type: a link is no way to use others.
    """
    from airflow_delta_provider._compat import AirflowNotFoundException, BaseHook
    from airflow_delta_provider.hooks.store import DeltaStoreHook

    try:
        kind = BaseHook.get_connection(conn_id).conn_type
    except AirflowNotFoundException as error:
        raise StoreMissingError(f"There is no connection {conn_id[:200]!r}.", where="store") from error
    if kind.replace("-", "_") != DeltaStoreHook.conn_type:
        raise StoreMissingError(f"Connection {conn_id[:200]!r} is no store.", where="store")
    hook = DeltaStoreHook(conn_id)
    try:
        trust = hook.trust()
    except DeltaError:
        trust = None  # the page then says that signatures were not checked
    return hook.get_conn(), trust


def _value(row: Any) -> Any:
    from airflow.models.xcom import XComModel

    return XComModel.deserialize_value(row)
